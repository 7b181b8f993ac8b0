//! A policy as an ONNX file, for whoever acts without this library.
//!
//! Everything is inside of the graph: one-hot encoding, scaling, the range that targets are moved to. Inputs are floats,
//! `[batch, columns]`:
//!
//! | input | |
//! |---|---|
//! | `observation` | the cells of an observation: categories by their number, real numbers as they are |
//! | `level` | for policies that are told levels: from 0 to 1, the same for a whole episode |
//! | `target` | for policies that are told returns: what is left to be reached, the target less the rewards received so far (divided by the discount factor after each) |
//! | `steps` | where the network sees the time: steps since the start of the episode |
//!
//! The output is `probabilities` of the categories of an action, cell after cell; or `mean` and `deviation` of a Gaussian for each real
//! number, to be moved to the bounds of the space, or without bounds to the range of the data, when drawn beyond; or `values` of actions, of which the highest is taken. Metadata has the
//! policy's card (`esper`), and parts of it that are of use by themselves: `observation_space`, `action_space`, `fields`, `promises`.

mod model;
#[cfg(test)]
mod tests;

use esper_data::Space;
use esper_nn::DenseLayer;
use serde::Serialize;
use serde_json::json;

use crate::actions::LOG_DEVIATIONS;
use crate::condition::Promises;
use crate::error::Error;
use crate::features::{Encoding, Scale};
use crate::policy::{LabelInput, Policy, PolicyCard};
use model::{Attribute, Graph, Name, Type};

/// A network as plain layers, and what goes into it after the observation.
pub struct FeedForward {
    /// Its layers, ReLU between them.
    pub layers: Vec<DenseLayer>,
    /// Whether it is told a level or what is left to be reached.
    pub is_told: bool,
    /// Where it sees the time: the steps that count as one.
    pub clock: Option<f32>,
    /// Whether it puts out what actions are worth, instead of a distribution over them.
    pub is_value: bool,
}

/// A policy as an ONNX file.
pub struct OnnxModel {
    /// The file.
    pub bytes: Vec<u8>,
    /// What goes in.
    pub inputs: Vec<Port>,
    /// What comes out.
    pub outputs: Vec<Port>,
}

/// An input or an output: floats, `[batch, columns]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Port {
    /// Its name in the graph.
    pub name: &'static str,
    /// How many columns it has.
    pub columns: usize,
    /// What it is.
    pub summary: String,
}

/// The policy as an ONNX model; an error for those whose network is not feed-forward.
pub fn export(policy: &Policy) -> Result<OnnxModel, Error> {
    let card = policy.card();
    let network = policy.feed_forward().ok_or_else(|| {
        Error::Export(format!(
            "a policy of kind `{}` cannot be written as ONNX; MLP policies can, and values of actions: act with `esper act`, or train with --policy mlp",
            card.kind
        ))
    })?;
    let mut builder = Builder { graph: Graph::default(), inputs: Vec::new(), outputs: Vec::new() };
    let outputs = builder.network(card, network);
    builder.actions(card, outputs.0, outputs.1);
    let Builder { graph, inputs, outputs } = builder;
    let mut texts = vec![
        ("esper", text(card)),
        ("observation_space", text(card.interface.observation.space())),
        ("action_space", text(card.interface.action.encoding().space())),
        ("fields", text(&card.interface.fields)),
        ("inputs", text(&inputs)),
        ("outputs", text(&outputs)),
    ];
    if let Some(levels) = &card.levels {
        let offline = json!({ "level": levels.promises.offline_level() });
        texts.push(("promises", text(&levels.promises)));
        texts.push(("offline", offline.to_string()));
    } else if let Some(support) = &card.support {
        let offline = json!({ "target": support.offline_target() });
        texts.push(("offline", offline.to_string()));
    }
    let summary =
        format!("A policy by {}, told by condition `{}`", card.origin.method, card.condition);
    Ok(OnnxModel { bytes: graph.to_bytes(&summary, &texts), inputs, outputs })
}

fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("cards can always be written")
}

struct Builder {
    graph: Graph,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

impl Builder {
    fn input(&mut self, name: &'static str, columns: usize, summary: &str) -> Name {
        self.inputs.push(Port { name, columns, summary: summary.to_owned() });
        self.graph.input(name, columns, summary)
    }

    fn output(&mut self, name: &'static str, columns: usize, summary: &str, tensor: &Name) {
        self.outputs.push(Port { name, columns, summary: summary.to_owned() });
        self.graph.output(name, columns, summary, tensor);
    }

    /// From inputs to what the network puts out: `[batch, outputs]`, and whether that is values.
    fn network(&mut self, card: &PolicyCard, network: FeedForward) -> (Name, bool) {
        let FeedForward { mut layers, is_told, clock, is_value } = network;
        let encoding = &card.interface.observation;
        let mut parts = self.features(encoding);
        if let (true, Some(labels)) = (is_told, &card.labels) {
            match card.support {
                Some(_) => {
                    let told = self.told(card);
                    parts.push(self.label(&told, labels));
                }
                // Nobody can ask: it always sees the same, which is as good as a bias.
                None => fold_row(&mut layers[0], encoding.width(), labels.apply(0.0)),
            }
        }
        if let Some(longest) = clock {
            let steps = self.input("steps", 1, "steps since the start of the episode, from 0");
            let longest = self.graph.floats(&[1, 1], &[longest]);
            parts.push(self.graph.node("Div", &[&steps, &longest], &[]));
        }
        let parts: Vec<&Name> = parts.iter().collect();
        let mut rows = self.graph.node("Concat", &parts, &[("axis", Attribute::Whole(1))]);
        let last = layers.len() - 1;
        for (at, layer) in layers.iter().enumerate() {
            let weight = self.graph.floats(&[layer.inputs, layer.outputs], &layer.weight);
            let bias = self.graph.floats(&[layer.outputs], &layer.bias);
            rows = self.graph.node("Gemm", &[&rows, &weight, &bias], &[]);
            if at < last {
                rows = self.graph.node("Relu", &[&rows], &[]);
            }
        }
        (rows, is_value)
    }

    /// The features of observations: ones first, then numbers.
    fn features(&mut self, encoding: &Encoding) -> Vec<Name> {
        let space = encoding.space();
        let summary = format!("the cells of an observation, a value of {space}");
        let observation = self.input("observation", space.cells(), &summary);
        let column = || ("axis", Attribute::Whole(1));
        let mut parts = Vec::new();
        let (mut cells, mut categories) = (Vec::new(), Vec::new());
        let mut first = 0;
        for part in space.parts() {
            for (cell, n) in (first..).zip(part.categories()) {
                // Of what is 0 or 1 only the ones are seen.
                let from = u32::from(matches!(part, Space::MultiBinary { .. }));
                let seen = from..n.unwrap_or(from);
                cells.extend(seen.clone().map(|_| cell as i64));
                categories.extend(seen.map(|category| category as f32));
            }
            first += part.cells();
        }
        if !cells.is_empty() {
            let cells = self.graph.whole(cells);
            let categories = self.graph.floats(&[1, categories.len()], &categories);
            let copied = self.graph.node("Gather", &[&observation, &cells], &[column()]);
            let equal = self.graph.node("Equal", &[&copied, &categories], &[]);
            parts.push(self.graph.cast(&equal, Type::Float));
        }
        let real = space.real_cells();
        if !real.is_empty() {
            let cells = self.graph.whole(real.iter().map(|&cell| cell as i64).collect());
            let numbers = self.graph.node("Gather", &[&observation, &cells], &[column()]);
            parts.push(match encoding.scaling() {
                [] => numbers,
                scaling => self.standardised(&numbers, scaling),
            });
        }
        parts
    }

    /// Numbers less their means, by their deviations. In doubles: dates in seconds would lose what tells them apart.
    fn standardised(&mut self, numbers: &Name, scaling: &[Scale]) -> Name {
        let graph = &mut self.graph;
        let of = |part: fn(&Scale) -> f64| -> Vec<f64> { scaling.iter().map(part).collect() };
        let means = graph.doubles(&[1, scaling.len()], &of(|scale| scale.mean));
        let deviations = graph.doubles(&[1, scaling.len()], &of(|scale| scale.deviation));
        let numbers = graph.cast(numbers, Type::Double);
        let moved = graph.node("Sub", &[&numbers, &means], &[]);
        let divided = graph.node("Div", &[&moved, &deviations], &[]);
        graph.cast(&divided, Type::Float)
    }

    /// What is told, in the world's units: `[batch, 1]`.
    fn told(&mut self, card: &PolicyCard) -> Name {
        let Some(levels) = &card.levels else {
            let summary = format!(
                "what is left to be reached: the target less the rewards received, divided by the discount factor {} after each",
                card.discount
            );
            return self.input("target", 1, &summary);
        };
        let summary = "the level, from 0 to 1, that the whole episode is asked for; the nearest that promises are known of is taken";
        let level = self.input("level", 1, summary);
        self.rank(&level, &levels.promises)
    }

    /// What is told where a level is asked for, at the nearest known one. A graph draws nothing.
    fn rank(&mut self, level: &Name, promises: &Promises) -> Name {
        let pieces = promises.rank_pieces();
        let graph = &mut self.graph;
        let count = pieces.len();
        let row = |graph: &mut Graph, of: &dyn Fn(usize) -> f32| {
            graph.floats(&[1, count], &(0..count).map(of).collect::<Vec<f32>>())
        };
        let above = |at: usize| match at {
            0 => f32::MIN,
            at => pieces[at - 1].upto as f32,
        };
        let above = row(graph, &above);
        let upto =
            row(graph, &|at| if at + 1 == count { f32::MAX } else { pieces[at].upto as f32 });
        let ranks = row(graph, &|at| pieces[at].rank as f32);
        let higher = graph.node("Greater", &[level, &above], &[]);
        let within = graph.node("LessOrEqual", &[level, &upto], &[]);
        let here = graph.node("And", &[&higher, &within], &[]);
        let here = graph.cast(&here, Type::Float);
        let ranks = graph.node("Mul", &[&ranks, &here], &[]);
        let columns = graph.whole(vec![1]);
        graph.node("ReduceSum", &[&ranks, &columns], &[("keepdims", Attribute::Whole(1))])
    }

    /// What is told as the network sees it: within the range that it was trained on, and standardised.
    fn label(&mut self, told: &Name, labels: &LabelInput) -> Name {
        let [low, high] = labels.range();
        let graph = &mut self.graph;
        let (low, high) = (graph.doubles(&[], &[low]), graph.doubles(&[], &[high]));
        let told = graph.cast(told, Type::Double);
        let within = graph.node("Clip", &[&told, &low, &high], &[]);
        self.standardised(&within, &[labels.scale()])
    }

    /// From what the network puts out to what is known of actions.
    fn actions(&mut self, card: &PolicyCard, rows: Name, is_value: bool) {
        let head = &card.interface.action;
        let (encoding, outputs) = (head.encoding(), head.outputs());
        if is_value {
            let summary = "what each action is worth; the highest is taken";
            return self.output("values", outputs, summary, &rows);
        }
        let cells = encoding.width();
        if let Space::Box { .. } = encoding.space() {
            let parts = self.graph.split(&rows, &[cells, cells]);
            let mean = self.in_units(&parts[0], encoding.scaling());
            let deviation = self.deviation(&parts[1], encoding.scaling());
            self.output("mean", cells, "the mean of every number of the action", &mean);
            let summary = match encoding.space() {
                Space::Box { bounds: None, .. } => {
                    let limits: Vec<[f32; 2]> = (0..cells).map(|cell| head.limits(cell)).collect();
                    format!(
                        "its standard deviation; what is drawn beyond the lowest and the highest number of the data, {limits:?}, is moved \
                         to them"
                    )
                }
                _ => "its standard deviation; what is drawn beyond the bounds is moved to them"
                    .to_owned(),
            };
            return self.output("deviation", cells, &summary, &deviation);
        }
        let categories = head.categories();
        let softmax = |graph: &mut Graph, logits: &Name| {
            graph.node("Softmax", &[logits], &[("axis", Attribute::Whole(-1))])
        };
        let graph = &mut self.graph;
        let probabilities = match categories.as_slice() {
            [_] => softmax(graph, &rows),
            [first, others @ ..] if others.iter().all(|n| n == first) => {
                let apart = graph.whole(vec![-1, categories.len() as i64, *first as i64]);
                let apart = graph.node("Reshape", &[&rows, &apart], &[]);
                let probabilities = softmax(graph, &apart);
                let flat = graph.whole(vec![-1, outputs as i64]);
                graph.node("Reshape", &[&probabilities, &flat], &[])
            }
            categories => {
                let parts = graph.split(&rows, categories);
                let parts: Vec<Name> = parts.iter().map(|part| softmax(graph, part)).collect();
                let parts: Vec<&Name> = parts.iter().collect();
                graph.node("Concat", &parts, &[("axis", Attribute::Whole(1))])
            }
        };
        let summary = match encoding.space() {
            Space::Discrete { .. } => "the probability of each action".to_owned(),
            space => format!(
                "the probabilities of the categories of every cell of {space}, cell after cell: {categories:?} of them"
            ),
        };
        self.output("probabilities", outputs, &summary, &probabilities);
    }

    /// Standardised numbers in the world's units.
    fn in_units(&mut self, numbers: &Name, scaling: &[Scale]) -> Name {
        let graph = &mut self.graph;
        let of = |part: fn(&Scale) -> f64| -> Vec<f64> { scaling.iter().map(part).collect() };
        let means = graph.doubles(&[1, scaling.len()], &of(|scale| scale.mean));
        let deviations = graph.doubles(&[1, scaling.len()], &of(|scale| scale.deviation));
        let numbers = graph.cast(numbers, Type::Double);
        let wide = graph.node("Mul", &[&numbers, &deviations], &[]);
        let moved = graph.node("Add", &[&wide, &means], &[]);
        graph.cast(&moved, Type::Float)
    }

    /// Standard deviations in the world's units: the network's outputs, squashed, are their logarithms.
    fn deviation(&mut self, spreads: &Name, scaling: &[Scale]) -> Name {
        let graph = &mut self.graph;
        let [low, high] = LOG_DEVIATIONS;
        let half = graph.floats(&[1, 1], &[((high - low) / 2.0) as f32]);
        let middle = graph.floats(&[1, 1], &[((high + low) / 2.0) as f32]);
        let scales: Vec<f32> = scaling.iter().map(|scale| scale.deviation as f32).collect();
        let scales = graph.floats(&[1, scales.len()], &scales);
        let squashed = graph.node("Tanh", &[spreads], &[]);
        let stretched = graph.node("Mul", &[&squashed, &half], &[]);
        let logarithm = graph.node("Add", &[&stretched, &middle], &[]);
        let deviation = graph.node("Exp", &[&logarithm], &[]);
        graph.node("Mul", &[&deviation, &scales], &[])
    }
}

/// Takes an input away that is always the same: what it adds becomes part of the bias.
fn fold_row(layer: &mut DenseLayer, row: usize, value: f32) {
    let range = row * layer.outputs..(row + 1) * layer.outputs;
    let weights: Vec<f32> = layer.weight.drain(range).collect();
    layer.bias.iter_mut().zip(weights).for_each(|(bias, weight)| *bias += value * weight);
    layer.inputs -= 1;
}
