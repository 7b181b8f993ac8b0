//! An ONNX model, and its bytes: the few messages of `onnx.proto` that are needed, written as protocol buffers have them.

/// Operators of this version are used.
pub(super) const OPSET: u64 = 17;

/// The version of the format that has them.
const IR_VERSION: u64 = 8;

/// What a tensor holds; the numbers are those of `TensorProto.DataType`.
#[derive(Clone, Copy)]
pub(super) enum Type {
    Float = 1,
    Double = 11,
}

/// A value of an operator's attribute.
pub(super) enum Attribute {
    Whole(i64),
}

/// A computation: operators in the order in which they are evaluated.
#[derive(Default)]
pub(super) struct Graph {
    /// Encoded, each a message.
    nodes: Vec<Vec<u8>>,
    constants: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    outputs: Vec<Vec<u8>>,
    /// Names that were given so far.
    names: usize,
}

/// The name of a tensor.
pub(super) type Name = String;

impl Graph {
    /// An input of floats, `[batch, width]`, with what it is.
    pub(super) fn input(&mut self, name: &str, width: usize, summary: &str) -> Name {
        self.inputs.push(port(name, width, summary));
        name.to_owned()
    }

    /// Makes a tensor an output of floats, `[batch, width]`.
    pub(super) fn output(&mut self, name: &str, width: usize, summary: &str, tensor: &Name) {
        self.outputs.push(port(name, width, summary));
        self.named_node(name, "Identity", &[tensor], &[]);
    }

    /// An operator with one output, which gets a name of its own.
    pub(super) fn node(
        &mut self,
        operator: &str,
        inputs: &[&Name],
        attributes: &[(&str, Attribute)],
    ) -> Name {
        let name = self.name(operator);
        self.named_node(&name, operator, inputs, attributes);
        name
    }

    /// Parts of a tensor along its columns, each so wide.
    pub(super) fn split(&mut self, tensor: &Name, widths: &[usize]) -> Vec<Name> {
        let sizes = self.whole(widths.iter().map(|&width| width as i64).collect());
        let names: Vec<Name> = widths.iter().map(|_| self.name("Part")).collect();
        let outputs: Vec<&str> = names.iter().map(String::as_str).collect();
        self.push(&outputs, "Split", &[tensor, &sizes], &[("axis", Attribute::Whole(1))]);
        names
    }

    /// The same numbers as another type.
    pub(super) fn cast(&mut self, tensor: &Name, to: Type) -> Name {
        self.node("Cast", &[tensor], &[("to", Attribute::Whole(to as i64))])
    }

    /// Constant floats of a shape.
    pub(super) fn floats(&mut self, shape: &[usize], values: &[f32]) -> Name {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(Type::Float as u64, shape, bytes)
    }

    /// Constant doubles of a shape.
    pub(super) fn doubles(&mut self, shape: &[usize], values: &[f64]) -> Name {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(Type::Double as u64, shape, bytes)
    }

    /// Constant whole numbers, in a row.
    pub(super) fn whole(&mut self, values: Vec<i64>) -> Name {
        const WHOLE: u64 = 7;
        let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.constant(WHOLE, &[values.len()], bytes)
    }

    fn constant(&mut self, data_type: u64, shape: &[usize], bytes: Vec<u8>) -> Name {
        let name = self.name("Constant");
        let mut tensor = Message::default();
        shape.iter().for_each(|&size| tensor.number(1, size as u64));
        tensor.number(2, data_type);
        tensor.text(8, &name);
        tensor.bytes(9, &bytes);
        self.constants.push(tensor.0);
        name
    }

    fn name(&mut self, of: &str) -> Name {
        self.names += 1;
        format!("{of}_{}", self.names)
    }

    fn named_node(
        &mut self,
        name: &str,
        operator: &str,
        inputs: &[&Name],
        attributes: &[(&str, Attribute)],
    ) {
        self.push(&[name], operator, inputs, attributes);
    }

    fn push(
        &mut self,
        outputs: &[&str],
        operator: &str,
        inputs: &[&Name],
        attributes: &[(&str, Attribute)],
    ) {
        let mut node = Message::default();
        inputs.iter().for_each(|input| node.text(1, input));
        outputs.iter().for_each(|output| node.text(2, output));
        node.text(3, &format!("{operator} to {}", outputs.join(", ")));
        node.text(4, operator);
        for (name, Attribute::Whole(value)) in attributes {
            const WHOLE: u64 = 2;
            let mut attribute = Message::default();
            attribute.text(1, name);
            attribute.number(3, *value as u64);
            attribute.number(20, WHOLE);
            node.bytes(5, &attribute.0);
        }
        self.nodes.push(node.0);
    }

    /// The bytes of a model with this graph, a description, and texts by name.
    pub(super) fn to_bytes(&self, summary: &str, texts: &[(&str, String)]) -> Vec<u8> {
        let mut graph = Message::default();
        self.nodes.iter().for_each(|node| graph.bytes(1, node));
        graph.text(2, "policy");
        self.constants.iter().for_each(|constant| graph.bytes(5, constant));
        self.inputs.iter().for_each(|input| graph.bytes(11, input));
        self.outputs.iter().for_each(|output| graph.bytes(12, output));
        let mut operators = Message::default();
        operators.text(1, "");
        operators.number(2, OPSET);
        let mut model = Message::default();
        model.number(1, IR_VERSION);
        model.text(2, "esper");
        model.text(3, env!("CARGO_PKG_VERSION"));
        model.text(6, summary);
        model.bytes(7, &graph.0);
        model.bytes(8, &operators.0);
        for (key, value) in texts {
            let mut entry = Message::default();
            entry.text(1, key);
            entry.text(2, value);
            model.bytes(14, &entry.0);
        }
        model.0
    }
}

/// `ValueInfoProto`: floats, `[batch, width]`.
fn port(name: &str, width: usize, summary: &str) -> Vec<u8> {
    let (mut batch, mut columns, mut shape) =
        (Message::default(), Message::default(), Message::default());
    batch.text(2, "batch");
    columns.number(1, width as u64);
    shape.bytes(1, &batch.0);
    shape.bytes(1, &columns.0);
    let (mut tensor, mut kind, mut port) =
        (Message::default(), Message::default(), Message::default());
    tensor.number(1, Type::Float as u64);
    tensor.bytes(2, &shape.0);
    kind.bytes(1, &tensor.0);
    port.text(1, name);
    port.bytes(2, &kind.0);
    port.text(3, summary);
    port.0
}

/// A message of protocol buffers: fields one after the other, each with its number and how it is written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Seven bits a byte, the lowest first; the eighth says that there are more.
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn number(&mut self, field: u64, number: u64) {
        self.varint(field << 3);
        self.varint(number);
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }
}
