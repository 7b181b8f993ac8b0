//! The long short-term memory as one operation.

use burn::tensor::{Tensor, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::lstm::{self, Initial, Step, Tape, Weights};

/// Hidden and cell state of the first rows of a step: `[rows, hidden]` each. A constant: gradients stop here.
#[derive(Clone, Debug)]
pub struct LstmState {
    /// What the memory gave out.
    pub hidden: Tensor<2>,
    /// What it holds.
    pub cells: Tensor<2>,
}

/// The weights of a memory.
#[derive(Clone, Debug)]
pub(crate) struct LstmWeights {
    /// `[inputs, 4 · hidden]`
    pub(crate) input: Tensor<2>,
    /// `[hidden, 4 · hidden]`
    pub(crate) hidden: Tensor<2>,
    /// `[4 · hidden]`
    pub(crate) bias: Tensor<1>,
}

/// Runs over packed rows (`[rows, inputs]`); time `t` has the rows `offsets[t]..offsets[t + 1]`. Returns the hidden
/// states `[rows, hidden]` and the state after the last step taken.
pub(crate) fn lstm(
    input: Tensor<2>,
    weights: LstmWeights,
    offsets: &[usize],
    reverse: bool,
    state: Option<LstmState>,
) -> (Tensor<2>, LstmState) {
    let hidden = weights.hidden.dims()[0];
    let initial_rows = state.as_ref().map_or(0, |state| state.hidden.dims()[0]);
    let steps = lstm::steps(offsets, reverse, initial_rows);
    let last = steps.last().map_or(0..0, |step| step.start..step.start + step.rows);
    match inputs![&input, &weights.input, &weights.hidden, &weights.bias] {
        Some(inputs) => {
            let numbers = |tensor: &Tensor<2>| {
                Values::on_cpu(tensor).expect("the state is on the device of the input")
            };
            let initial = state.map(|state| (numbers(&state.hidden), numbers(&state.cells)));
            let cells = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
            let device = input.device();
            let op = Lstm { steps, initial, last: last.clone(), cells: cells.clone() };
            let output: Tensor<2> = apply(op, inputs);
            let cells = std::mem::take(&mut *cells.lock().expect("nobody panicked with it"));
            let state = LstmState {
                hidden: output.clone().slice([last.clone(), 0..hidden]).detach(),
                cells: Tensor::from_data(
                    burn::tensor::TensorData::new(cells, [last.len(), hidden]),
                    &device,
                ),
            };
            (output, state)
        }
        None => composed(input, weights, &steps, state),
    }
}

/// The same of ordinary operations.
pub(crate) fn composed(
    input: Tensor<2>,
    weights: LstmWeights,
    steps: &[Step],
    state: Option<LstmState>,
) -> (Tensor<2>, LstmState) {
    let hidden = weights.hidden.dims()[0];
    let device = input.device();
    let zeros = |rows: usize| Tensor::<2>::zeros([rows, hidden], &device);
    let gates = divide(input.matmul(weights.input) + weights.bias.unsqueeze(), steps);
    let (mut h, mut c) = match state {
        Some(state) => (state.hidden.detach(), state.cells.detach()),
        None => (zeros(0), zeros(0)),
    };
    let mut outputs = Vec::new();
    for (step, gates) in steps.iter().zip(gates) {
        let fresh = zeros(step.rows - step.carried);
        let carried = |tensor: Tensor<2>| {
            let mut parts = Vec::new();
            if step.carried > 0 {
                parts.push(tensor.narrow(0, 0, step.carried));
            }
            if step.rows > step.carried {
                parts.push(fresh.clone());
            }
            Tensor::cat(parts, 0)
        };
        let (h_before, c_before) = (carried(h), carried(c));
        let gates = gates + h_before.matmul(weights.hidden.clone());
        let gate = |number: usize| gates.clone().narrow(1, number * hidden, hidden);
        c = activation::sigmoid(gate(1)) * c_before
            + activation::sigmoid(gate(0)) * activation::tanh(gate(2));
        h = activation::sigmoid(gate(3)) * activation::tanh(c.clone());
        outputs.push((step.start, h.clone()));
    }
    outputs.sort_by_key(|(start, _)| *start);
    let output = Tensor::cat(outputs.into_iter().map(|(_, h)| h).collect(), 0);
    (output, LstmState { hidden: h.detach(), cells: c.detach() })
}

/// The rows of every step, in the order of the steps. Halves of halves, because a part's gradient is written as one of
/// what it was cut from: steps that are all cut from the whole would each cost as much as the whole.
fn divide(rows: Tensor<2>, steps: &[Step]) -> Vec<Tensor<2>> {
    if steps.len() <= 1 {
        return vec![rows];
    }
    let start = |steps: &[Step]| steps.iter().map(|step| step.start).min().unwrap_or(0);
    let (earlier, later) = steps.split_at(steps.len() / 2);
    let part = |part: &[Step]| {
        let count = part.iter().map(|step| step.rows).sum();
        divide(rows.clone().narrow(0, start(part) - start(steps), count), part)
    };
    [part(earlier), part(later)].concat()
}

#[derive(Clone, Debug)]
struct Lstm {
    steps: Vec<Step>,
    initial: Option<(Values, Values)>,
    last: std::ops::Range<usize>,
    /// Where the cells of the last step are left for the caller.
    cells: std::sync::Arc<std::sync::Mutex<Vec<f32>>>,
}

impl Lstm {
    fn initial(&self) -> Initial<'_> {
        match &self.initial {
            Some((hidden, cells)) => Initial { hidden: hidden.get(), cells: cells.get() },
            None => Initial { hidden: &[], cells: &[] },
        }
    }
}

#[derive(Clone, Debug)]
struct Saved {
    inputs: [Values; 4],
    output: Values,
    tape: Tape,
}

impl Op<4> for Lstm {
    type Saved = Saved;

    fn forward(&self, inputs: [Values; 4]) -> (Values, Saved) {
        let [input, input_weights, hidden_weights, bias] = &inputs;
        let weights =
            Weights { input: input_weights.get(), hidden: hidden_weights.get(), bias: bias.get() };
        let hidden = hidden_weights.rows();
        let (output, tape) = lstm::forward(input.get(), weights, &self.steps, self.initial());
        let cells = &tape.cells[self.last.start * hidden..self.last.end * hidden];
        *self.cells.lock().expect("nobody panicked with it") = cells.to_vec();
        let output = Values::new(output, [input.rows(), hidden]);
        (output.clone(), Saved { inputs, output, tape })
    }

    fn backward(
        self,
        saved: Saved,
        gradient: Values,
        [input_needed, ..]: [bool; 4],
    ) -> [Option<Values>; 4] {
        let Saved { inputs: [input, input_weights, hidden_weights, bias], output, tape } = saved;
        let weights =
            Weights { input: input_weights.get(), hidden: hidden_weights.get(), bias: bias.get() };
        let gradients = lstm::backward(
            gradient.get(),
            input.get(),
            weights,
            (&self.steps, self.initial()),
            (output.get(), tape),
            input_needed,
        );
        let gates = bias.width();
        [
            gradients.input.map(|values| Values::new(values, [input.rows(), input.width()])),
            Some(Values::new(gradients.input_weights, [input.width(), gates])),
            Some(Values::new(gradients.hidden_weights, [gates / 4, gates])),
            Some(Values::new(gradients.bias, [gates])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{
        Inputs, assert_close, assert_gradients, assert_same_as_composed, random, values,
    };

    fn offsets(sizes: &[usize]) -> Vec<usize> {
        let mut offsets = vec![0];
        sizes.iter().for_each(|size| offsets.push(offsets[offsets.len() - 1] + size));
        offsets
    }

    fn inputs(rows: usize, width: usize, hidden: usize) -> Inputs {
        let matrices = vec![
            random([rows, width], 1),
            random([width, 4 * hidden], 2),
            random([hidden, 4 * hidden], 3),
        ];
        Inputs { matrices, vectors: vec![random([4 * hidden], 4)] }
    }

    fn weights(i: &Inputs) -> LstmWeights {
        LstmWeights {
            input: i.matrices[1].clone(),
            hidden: i.matrices[2].clone(),
            bias: i.vectors[0].clone(),
        }
    }

    /// Ragged batches, single sequences, sequences of one step; both directions; with and without a state.
    #[test]
    fn gradients_are_right() {
        for sizes in [&[1][..], &[3], &[1, 1, 1], &[4, 4, 2, 1], &[9, 7, 7, 3]] {
            let offsets = offsets(sizes);
            let rows = offsets[offsets.len() - 1];
            for hidden in [1, 5] {
                for reverse in [false, true] {
                    for with_state in [false, true] {
                        let first = if reverse { sizes[sizes.len() - 1] } else { sizes[0] };
                        let carried = first.div_ceil(2);
                        let state = with_state.then(|| LstmState {
                            hidden: random([carried, hidden], 5),
                            cells: random([carried, hidden], 6),
                        });
                        let fused = |i: &Inputs| {
                            let input = i.matrices[0].clone();
                            lstm(input, weights(i), &offsets, reverse, state.clone()).0
                        };
                        let steps =
                            lstm::steps(&offsets, reverse, if with_state { carried } else { 0 });
                        let reference = |i: &Inputs| {
                            composed(i.matrices[0].clone(), weights(i), &steps, state.clone()).0
                        };
                        let inputs = inputs(rows, 3, hidden);
                        let name = format!("{sizes:?} reverse {reverse} state {with_state}");
                        assert_same_as_composed(&name, &fused, &reference, &inputs);
                        if hidden == 1 || sizes.len() == 4 && sizes[0] == 4 {
                            assert_gradients(&name, &fused, &inputs);
                        }
                    }
                }
            }
        }
    }

    /// Enough rows that the work is cut into pieces.
    #[test]
    fn large_memories_agree_with_composed_ones() {
        let sizes: Vec<usize> = (0..12).map(|time| 100 - 8 * time).collect();
        let offsets = offsets(&sizes);
        let inputs = inputs(offsets[12], 20, 64);
        let steps = lstm::steps(&offsets, true, 0);
        assert_same_as_composed(
            "large",
            &|i| lstm(i.matrices[0].clone(), weights(i), &offsets, true, None).0,
            &|i| composed(i.matrices[0].clone(), weights(i), &steps, None).0,
            &inputs,
        );
    }

    /// Backwards in time, a long trajectory in two parts, the later first, is the trajectory as a whole.
    #[test]
    fn a_state_carries_on_where_it_was_left() {
        let sizes = [5, 4, 4, 2, 1];
        let offsets = offsets(&sizes);
        let i = inputs(16, 3, 4);
        let whole = lstm(i.matrices[0].clone(), weights(&i), &offsets, true, None);
        let (early, late) = (&offsets[..3], &offsets[2..]);
        let late: Vec<usize> = late.iter().map(|offset| offset - offsets[2]).collect();
        let part = |from: usize, to: usize| i.matrices[0].clone().narrow(0, from, to - from);
        let second = lstm(part(offsets[2], 16), weights(&i), &late, true, None);
        let first = lstm(part(0, offsets[2]), weights(&i), early, true, Some(second.1));
        let parts = Tensor::cat(vec![first.0, second.0], 0);
        assert_close("outputs", &values(&parts), &values(&whole.0), 1e-6);
        assert_close("cells", &values(&first.1.cells), &values(&whole.1.cells), 1e-6);
        assert_close("hidden", &values(&first.1.hidden), &values(&whole.1.hidden), 1e-6);
    }
}
