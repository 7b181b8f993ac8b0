//! Exported policies against the policies themselves: by a small interpreter of the graph here, and by onnxruntime where the
//! environment variable `ESPER_PYTHON` names a Python that has it.

use std::collections::HashMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use esper_data::{Cells, Dataset, DatasetBuilder, End, Metadata, Rng, Seed, Space};
use rand::RngExt;
use serde_json::{Value, json};

use super::*;
use crate::actions::softmax;
use crate::fixtures::trained;
use crate::trajectories::StepRows;

fn real(cells: usize) -> Space {
    Space::Box { shape: vec![cells], bounds: None }
}

/// A value of a space.
fn draw(space: &Space, rng: &mut Rng, cells: &mut Cells) {
    for (cell, categories) in space.categories().into_iter().enumerate() {
        match (categories, &mut *cells) {
            (Some(n), cells) => cells.push_category(rng.random_range(0..n) as usize),
            // Far from zero, as days and prices are.
            (None, Cells::Float(cells)) => {
                cells.push(100.0 * cell as f32 + rng.random_range(-1.0f32..1.0));
            }
            (None, _) => unreachable!("real numbers are floats"),
        }
    }
}

/// Episodes of chance in some spaces; they are cut, so that time matters.
fn data(observation: &Space, action: &Space) -> Dataset {
    let mut rng = Seed::new(7).rng();
    let mut builder = DatasetBuilder::new(Metadata::new(observation.clone(), action.clone()));
    let value = |space: &Space, rng: &mut Rng| {
        let mut cells = Cells::empty(space.cell_type());
        draw(space, rng, &mut cells);
        cells
    };
    for _ in 0..40 {
        for _ in 0..5 {
            let (seen, done) = (value(observation, &mut rng), value(action, &mut rng));
            builder.push(&seen, &done, rng.random_range(-1.0..1.0)).unwrap();
        }
        let end = End { terminated: false, truncated: true };
        builder.end(&value(observation, &mut rng), end).unwrap();
    }
    builder.build().unwrap()
}

/// Inputs by name, `[rows, columns]` each, and the outputs that the policy itself gives for them.
struct Case {
    name: String,
    model: OnnxModel,
    inputs: Vec<(&'static str, Vec<Vec<f32>>)>,
    outputs: Vec<(&'static str, Vec<Vec<f32>>)>,
}

impl Case {
    /// Every step of some episodes, asked for some numbers, which are told as these.
    fn new(name: &str, policy: &Policy, data: &Dataset, asked: &[(f64, f64)]) -> Self {
        let card = policy.card();
        let model = export(policy).unwrap();
        let episodes = [0, 7, 33];
        let rows = StepRows::of_episodes(data, &episodes);
        let width = card.interface.observation.space().cells();
        let cell = |row: &usize, cell: usize| data.observations().view().number(row * width + cell);
        let (mut seen, mut given, mut times, mut raw) = (vec![], vec![], vec![], vec![]);
        for &(asked, told) in asked {
            seen.extend(
                rows.observations.iter().map(|row| (0..width).map(|c| cell(row, c)).collect()),
            );
            given.extend(rows.steps.iter().map(|_| vec![asked as f32]));
            times.extend(rows.times.iter().map(|&time| vec![time as f32]));
            raw.extend(match policy.distributions(data, &episodes, told) {
                Some(outputs) => outputs,
                None => {
                    let seen = data.observations().view();
                    policy.action_values(seen, &rows.observations).unwrap()
                }
            });
        }
        let mut inputs = vec![("observation", seen)];
        for port in &model.inputs[1..] {
            inputs.push((
                port.name,
                if port.name == "steps" { times.clone() } else { given.clone() },
            ));
        }
        let head = &card.interface.action;
        let raw = raw.chunks_exact(head.outputs()).map(<[f32]>::to_vec);
        let outputs = match (model.outputs[0].name, head.encoding()) {
            ("values", _) => vec![("values", raw.collect())],
            ("probabilities", _) => {
                let of = |mut row: Vec<f32>| {
                    let mut rest = row.as_mut_slice();
                    for n in head.categories() {
                        let (own, others) = rest.split_at_mut(n);
                        softmax(own);
                        rest = others;
                    }
                    row
                };
                vec![("probabilities", raw.map(of).collect())]
            }
            (_, encoding) => {
                let of = |row: Vec<f32>| -> (Vec<f32>, Vec<f32>) {
                    let (means, spreads) = row.split_at(row.len() / 2);
                    let pairs = means.iter().zip(spreads).zip(encoding.scaling());
                    let of = |((&mean, spread), scale): ((&f32, &f32), &Scale)| {
                        let logarithm = -5.0 + (spread.tanh() + 1.0) / 2.0 * 6.0;
                        (scale.undo(mean) as f32, logarithm.exp() * scale.deviation as f32)
                    };
                    pairs.map(of).unzip()
                };
                let (means, deviations) = raw.map(of).unzip();
                vec![("mean", means), ("deviation", deviations)]
            }
        };
        Case { name: name.to_owned(), model, inputs, outputs }
    }
}

/// Promises where the highest levels are worth less than a lower one.
fn with_a_lower_rank(policy: Policy) -> Policy {
    let mut levels = serde_json::to_value(policy.card().levels.as_ref().unwrap()).unwrap();
    let promises = levels["promises"].as_array_mut().unwrap();
    for (at, promise) in promises.iter_mut().enumerate() {
        promise["promise"] = json!(at.min(5));
        let level = promise["level"].clone();
        promise["rank"] = if at < 6 { level } else { json!(0.425) };
    }
    policy.with_levels(serde_json::from_value(levels).unwrap())
}

fn cases() -> Vec<Case> {
    let choice = Space::Discrete { n: 3 };
    let mixture = Space::Tuple {
        spaces: vec![
            real(2),
            Space::Discrete { n: 4 },
            Space::MultiBinary { shape: vec![2] },
            real(1),
            Space::MultiDiscrete { nvec: vec![2, 3] },
        ],
    };
    let bounded = Space::Box { shape: vec![2], bounds: Some(vec![[-1.0, 1.0], [90.0, 110.0]]) };
    let several = Space::MultiDiscrete { nvec: vec![2, 4] };
    let returns = [(-2.0, -2.0), (0.1, 0.1), (99.0, 99.0), (-99.0, -99.0)];
    let observations = [
        ("discrete", Space::Discrete { n: 5 }),
        ("multi-discrete", Space::MultiDiscrete { nvec: vec![3, 2, 4] }),
        ("binary", Space::MultiBinary { shape: vec![2, 3] }),
        ("box", real(3)),
        ("tuple", mixture.clone()),
    ];
    let mut cases = Vec::new();
    for (name, space) in &observations {
        let data = data(space, &choice);
        cases.push(Case::new(name, &trained(&data, "rvs", "mlp", &[]), &data, &returns));
    }
    let binary = Space::MultiBinary { shape: vec![3] };
    for (name, action) in
        [("box actions", &bounded), ("several actions", &several), ("binary actions", &binary)]
    {
        let data = data(&mixture, action);
        cases.push(Case::new(name, &trained(&data, "rvs", "mlp", &[]), &data, &returns));
    }
    let data = data(&mixture, &choice);
    for (name, condition) in [("level", "condition=level"), ("step-level", "condition=step-level")]
    {
        let policy = trained(&data, "rvs", "mlp", &[condition]);
        let rank = |policy: &Policy| -> Vec<(f64, f64)> {
            let promises = &policy.card().levels.as_ref().unwrap().promises;
            [-0.5, 0.0, 0.05, 0.3, 0.45, 0.47, 0.5, 0.77, 0.95, 1.0, 2.0]
                .map(|level| (level, promises.rank(level)))
                .to_vec()
        };
        assert!(export(&policy).unwrap().inputs.iter().any(|port| port.name == "steps"));
        cases.push(Case::new(name, &policy, &data, &rank(&policy)));
        let lower = with_a_lower_rank(policy);
        cases.push(Case::new(&format!("{name}, lower ranks"), &lower, &data, &rank(&lower)));
    }
    cases.push(Case::new("bc", &trained(&data, "bc", "mlp", &[]), &data, &[(0.0, 0.0)]));
    cases.push(Case::new("cql", &trained(&data, "cql", "mlp", &[]), &data, &[(0.0, 0.0)]));
    cases
}

#[test]
fn the_graph_does_what_the_policy_does() {
    for case in cases() {
        let found = interpreter::run(&case.model.bytes, &case.inputs);
        for (name, expected) in &case.outputs {
            let found = &found[*name];
            let [low, high] = [f64::min, f64::max].map(|of| {
                found.values.iter().step_by(expected[0].len()).copied().reduce(of).unwrap()
            });
            assert!(high - low > 1e-3, "{}: it matters what is seen", case.name);
            assert_eq!(found.shape, [expected.len(), expected[0].len()], "{}", case.name);
            let expected = expected.iter().flatten();
            for (found, expected) in found.values.iter().zip(expected) {
                let slack = 1e-5 * (1.0 + f64::from(expected.abs()));
                let near = (found - f64::from(*expected)).abs() <= slack;
                assert!(near, "{}: {name} is {found}, not {expected}", case.name);
            }
        }
    }
}

/// The same by onnxruntime.
#[test]
fn onnxruntime_does_what_the_policy_does() {
    let Some(python) = std::env::var_os("ESPER_PYTHON") else {
        // Past the capture of passing tests: that nothing was tested has to be seen.
        let _ = writeln!(
            std::io::stderr(),
            "ESPER_PYTHON names no Python with onnxruntime: exported policies are not tested with it"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/onnx_check.py");
    for (at, case) in cases().into_iter().enumerate() {
        let file = folder.path().join(format!("{at}.onnx"));
        std::fs::write(&file, &case.model.bytes).unwrap();
        let map = |ports: &[(&str, Vec<Vec<f32>>)]| -> Value {
            ports.iter().map(|(name, rows)| ((*name).to_owned(), json!(rows))).collect()
        };
        let given = json!({ "inputs": map(&case.inputs), "outputs": map(&case.outputs) });
        let mut child = Command::new(&python)
            .arg(script)
            .arg(&file)
            .stdin(Stdio::piped())
            .spawn()
            .expect("the Python in ESPER_PYTHON starts");
        child.stdin.take().unwrap().write_all(given.to_string().as_bytes()).unwrap();
        assert!(child.wait().unwrap().success(), "{}", case.name);
    }
}

#[test]
fn the_model_says_what_it_is() {
    let data = data(&real(2), &Space::Discrete { n: 3 });
    let policy = trained(&data, "rvs", "mlp", &["condition=level"]);
    let model = export(&policy).unwrap();
    assert_eq!(model.bytes, export(&policy).unwrap().bytes, "the same policy, the same bytes");
    let texts = interpreter::texts(&model.bytes);
    let card: PolicyCard = serde_json::from_str(&texts["esper"]).unwrap();
    assert_eq!(card, *policy.card());
    for key in
        ["observation_space", "action_space", "fields", "promises", "inputs", "outputs", "offline"]
    {
        assert!(serde_json::from_str::<Value>(&texts[key]).is_ok(), "{key}");
    }
    let names =
        |ports: &[Port]| ports.iter().map(|port| (port.name, port.columns)).collect::<Vec<_>>();
    assert_eq!(names(&model.inputs), [("observation", 2), ("level", 1), ("steps", 1)]);
    assert_eq!(names(&model.outputs), [("probabilities", 3)]);
}

#[test]
fn what_is_no_feed_forward_network_is_refused() {
    let data = data(&Space::Discrete { n: 2 }, &Space::Discrete { n: 2 });
    let error = export(&trained(&data, "rvs", "transformer", &[])).err().unwrap().to_string();
    assert!(error.contains("`transformer` cannot be written as ONNX"), "{error}");
}

/// Reads the bytes of a model and computes what it says.
mod interpreter {
    use super::*;

    #[derive(Clone, Debug)]
    pub(super) struct Tensor {
        pub(super) shape: Vec<usize>,
        pub(super) values: Vec<f64>,
    }

    /// A field of a message.
    enum Field<'a> {
        Number(u64),
        Bytes(&'a [u8]),
    }

    impl<'a> Field<'a> {
        fn bytes(&self) -> &'a [u8] {
            let Field::Bytes(bytes) = self else { panic!("a number where bytes are") };
            bytes
        }
        fn text(&self) -> &'a str {
            std::str::from_utf8(self.bytes()).unwrap()
        }
        fn number(&self) -> u64 {
            let Field::Number(number) = self else { panic!("bytes where a number is") };
            *number
        }
    }

    fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let (mut number, mut shift) = (0, 0);
            loop {
                let (&byte, rest) = bytes.split_first().unwrap();
                *bytes = rest;
                number |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    return number;
                }
            }
        }
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut bytes)),
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (own, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(own)
                }
                other => panic!("wire type {other}"),
            };
            found.push((key >> 3, field));
        }
        found
    }

    fn all<'a>(bytes: &'a [u8], number: u64) -> impl Iterator<Item = Field<'a>> {
        fields(bytes).into_iter().filter(move |(of, _)| *of == number).map(|(_, field)| field)
    }

    pub(super) fn texts(model: &[u8]) -> HashMap<String, String> {
        let entry = |field: Field<'_>| {
            let part = |number| all(field.bytes(), number).next().unwrap().text().to_owned();
            (part(1), part(2))
        };
        all(model, 14).map(entry).collect()
    }

    fn constant(bytes: &[u8]) -> (String, Tensor) {
        let shape: Vec<usize> = all(bytes, 1).map(|size| size.number() as usize).collect();
        let raw = all(bytes, 9).next().unwrap().bytes();
        let values: Vec<f64> = match all(bytes, 2).next().unwrap().number() {
            1 => raw.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect(),
            7 => raw.as_chunks::<8>().0.iter().map(|b| i64::from_le_bytes(*b) as f64).collect(),
            11 => raw.as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect(),
            other => panic!("type {other}"),
        };
        assert_eq!(shape.iter().product::<usize>(), values.len(), "a shape fits its numbers");
        (all(bytes, 8).next().unwrap().text().to_owned(), Tensor { shape, values })
    }

    pub(super) fn run(
        model: &[u8],
        inputs: &[(&'static str, Vec<Vec<f32>>)],
    ) -> HashMap<String, Tensor> {
        let graph = all(model, 7).next().unwrap().bytes();
        let name = |field: &Field<'_>| all(field.bytes(), 1).next().unwrap().text().to_owned();
        let mut known: HashMap<String, Tensor> =
            all(graph, 5).map(|tensor| constant(tensor.bytes())).collect();
        let declared: Vec<String> = all(graph, 11).map(|input| name(&input)).collect();
        assert_eq!(declared, inputs.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (name, rows) in inputs {
            let values = rows.iter().flatten().map(|&number| f64::from(number)).collect();
            let tensor = Tensor { shape: vec![rows.len(), rows[0].len()], values };
            known.insert((*name).to_owned(), tensor);
        }
        for node in all(graph, 1) {
            let inputs: Vec<Tensor> =
                all(node.bytes(), 1).map(|name| known[name.text()].clone()).collect();
            let outputs: Vec<&str> = all(node.bytes(), 2).map(|name| name.text()).collect();
            let operator = all(node.bytes(), 4).next().unwrap().text();
            let attributes: HashMap<&str, i64> = all(node.bytes(), 5)
                .map(|of| {
                    let part = |number| all(of.bytes(), number).next().unwrap();
                    (part(1).text(), part(3).number() as i64)
                })
                .collect();
            let results = compute(operator, &inputs, &attributes);
            assert_eq!(results.len(), outputs.len());
            for (name, tensor) in outputs.into_iter().zip(results) {
                assert!(known.insert(name.to_owned(), tensor).is_none(), "{name} is given twice");
            }
        }
        all(graph, 12).map(|output| (name(&output), known[&name(&output)].clone())).collect()
    }

    fn each(tensor: &Tensor, f: impl Fn(f64) -> f64) -> Tensor {
        let values = tensor.values.iter().map(|&value| f(value)).collect();
        Tensor { shape: tensor.shape.clone(), values }
    }

    /// Two matrices, of which one may have a single row or column that stands for all.
    fn pairs(a: &Tensor, b: &Tensor, f: impl Fn(f64, f64) -> f64) -> Tensor {
        let [rows, columns] = [0, 1].map(|axis| {
            assert!(a.shape[axis] == b.shape[axis] || a.shape[axis] == 1 || b.shape[axis] == 1);
            a.shape[axis].max(b.shape[axis])
        });
        let at = |tensor: &Tensor, row: usize, column: usize| {
            let [rows, columns] = [tensor.shape[0], tensor.shape[1]];
            tensor.values[row % rows * columns + column % columns]
        };
        let value = |index: usize| {
            let (row, column) = (index / columns, index % columns);
            f(at(a, row, column), at(b, row, column))
        };
        Tensor { shape: vec![rows, columns], values: (0..rows * columns).map(value).collect() }
    }

    fn columns(tensor: &Tensor, which: &[usize]) -> Tensor {
        let width = tensor.shape[1];
        let rows = tensor.values.chunks_exact(width);
        let values = rows.flat_map(|row| which.iter().map(|&column| row[column])).collect();
        Tensor { shape: vec![tensor.shape[0], which.len()], values }
    }

    fn compute(operator: &str, inputs: &[Tensor], attributes: &HashMap<&str, i64>) -> Vec<Tensor> {
        let truth = |truth: bool| f64::from(u8::from(truth));
        let whole = |tensor: &Tensor| -> Vec<i64> {
            tensor.values.iter().map(|&value| value as i64).collect()
        };
        vec![match (operator, inputs) {
            ("Identity", [a]) => a.clone(),
            ("Relu", [a]) => each(a, |x| x.max(0.0)),
            ("Tanh", [a]) => each(a, f64::tanh),
            ("Exp", [a]) => each(a, f64::exp),
            ("Cast", [a]) if attributes["to"] == 11 => a.clone(),
            ("Cast", [a]) if attributes["to"] == 1 => each(a, |x| f64::from(x as f32)),
            ("Clip", [a, low, high]) => each(a, |x| x.max(low.values[0]).min(high.values[0])),
            ("Add", [a, b]) => pairs(a, b, |a, b| a + b),
            ("Sub", [a, b]) => pairs(a, b, |a, b| a - b),
            ("Mul", [a, b]) => pairs(a, b, |a, b| a * b),
            ("Div", [a, b]) => pairs(a, b, |a, b| a / b),
            ("Equal", [a, b]) => pairs(a, b, |a, b| truth(a == b)),
            ("Greater", [a, b]) => pairs(a, b, |a, b| truth(a > b)),
            ("LessOrEqual", [a, b]) => pairs(a, b, |a, b| truth(a <= b)),
            ("And", [a, b]) => pairs(a, b, |a, b| truth(a != 0.0 && b != 0.0)),
            ("Gather", [a, which]) if attributes["axis"] == 1 => {
                let which: Vec<usize> = whole(which).into_iter().map(|at| at as usize).collect();
                columns(a, &which)
            }
            ("Split", [a, sizes]) if attributes["axis"] == 1 => {
                let mut first = 0;
                let part = |size: i64| {
                    let which: Vec<usize> = (first..first + size as usize).collect();
                    first += size as usize;
                    columns(a, &which)
                };
                return whole(sizes).into_iter().map(part).collect();
            }
            ("Concat", parts) if attributes["axis"] == 1 => {
                let rows = parts[0].shape[0];
                let part = |row: usize, part: &Tensor| {
                    part.values[row * part.shape[1]..][..part.shape[1]].to_vec()
                };
                let values =
                    (0..rows).flat_map(|row| parts.iter().flat_map(move |of| part(row, of)));
                let width = parts.iter().map(|part| part.shape[1]).sum();
                Tensor { shape: vec![rows, width], values: values.collect() }
            }
            ("Gemm", [a, weight, bias]) => {
                let [inputs, outputs] = [weight.shape[0], weight.shape[1]];
                assert_eq!((a.shape[1], bias.shape.as_slice()), (inputs, &[outputs][..]));
                let values = a.values.chunks_exact(inputs).flat_map(|row| {
                    (0..outputs).map(move |output| {
                        let product =
                            |(at, x): (usize, &f64)| x * weight.values[at * outputs + output];
                        bias.values[output] + row.iter().enumerate().map(product).sum::<f64>()
                    })
                });
                Tensor { shape: vec![a.shape[0], outputs], values: values.collect() }
            }
            ("Softmax", [a]) if attributes["axis"] == -1 => {
                let width = a.shape[a.shape.len() - 1];
                let values = a.values.chunks_exact(width).flat_map(|row| {
                    let total: f64 = row.iter().map(|x| x.exp()).sum();
                    row.iter().map(move |x| x.exp() / total)
                });
                Tensor { shape: a.shape.clone(), values: values.collect() }
            }
            ("Reshape", [a, shape]) => {
                let known: i64 = whole(shape).into_iter().filter(|&size| size > 0).product();
                let free = a.values.len() / known as usize;
                let size = |size: i64| if size < 0 { free } else { size as usize };
                Tensor {
                    shape: whole(shape).into_iter().map(size).collect(),
                    values: a.values.clone(),
                }
            }
            ("ReduceSum", [a, axes]) if whole(axes) == [1] && attributes["keepdims"] == 1 => {
                let sums = a.values.chunks_exact(a.shape[1]).map(|row| row.iter().sum());
                Tensor { shape: vec![a.shape[0], 1], values: sums.collect() }
            }
            _ => panic!("{operator} of {} with {attributes:?}", inputs.len()),
        }]
    }
}
