//! A long short-term memory over packed rows, forward and backward.
//!
//! Rows are packed by time, the sequences longest first, so that those alive at a time are always a prefix. A step takes
//! the rows of one time; the first rows of it carry on from the step before, the others start from zero. That holds in
//! either direction: forward in time sequences end, backward in time they begin.

use super::gemm::{Into, Matrix, multiply};
use super::math::{sigmoid, tanh};
use super::memory::Buffer;
use super::{for_rows2, for_rows3, rows};

/// The rows of one step, and how many of them carry on from the step before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) start: usize,
    pub(crate) rows: usize,
    pub(crate) carried: usize,
    /// Where the rows of the step before start.
    pub(crate) before: usize,
}

/// The order in which the steps of packed rows are taken; the first carries on `initial` rows from outside.
pub(crate) fn steps(offsets: &[usize], reverse: bool, initial: usize) -> Vec<Step> {
    let times = offsets.len() - 1;
    let mut steps: Vec<Step> = Vec::with_capacity(times);
    for number in 0..times {
        let time = if reverse { times - 1 - number } else { number };
        let (start, rows) = (offsets[time], offsets[time + 1] - offsets[time]);
        let (before, rows_before) =
            steps.last().map_or((0, initial), |step| (step.start, step.rows));
        steps.push(Step { start, rows, carried: rows.min(rows_before), before });
    }
    steps
}

/// Weights, with the gates in PyTorch's order: input, forget, cell, output.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    /// `[inputs, 4 · hidden]`
    pub(crate) input: &'a [f32],
    /// `[hidden, 4 · hidden]`
    pub(crate) hidden: &'a [f32],
    /// `[4 · hidden]`
    pub(crate) bias: &'a [f32],
}

/// What a forward pass leaves for the backward pass, all with a row a packed row.
#[derive(Clone, Debug)]
pub(crate) struct Tape {
    /// The gates after their non-linearities: `[rows, 4 · hidden]`.
    pub(crate) gates: Buffer,
    /// `[rows, hidden]`
    pub(crate) cells: Buffer,
}

/// The state before the first step, for the rows that have one: `[rows, hidden]` each.
#[derive(Clone, Copy)]
pub(crate) struct Initial<'a> {
    pub(crate) hidden: &'a [f32],
    pub(crate) cells: &'a [f32],
}

/// Runs the steps over all rows of `input`. Returns the hidden states `[rows, hidden]` and the tape.
pub(crate) fn forward(
    input: &[f32],
    weights: Weights<'_>,
    steps: &[Step],
    initial: Initial<'_>,
) -> (Buffer, Tape) {
    let hidden = weights.bias.len() / 4;
    let inputs = weights.input.len() / weights.bias.len();
    let count = input.len() / inputs;
    let mut gates = Buffer::any(count * 4 * hidden);
    // One product for the inputs of all steps; each step then adds what it remembers.
    let weights_in = Matrix::rows(weights.input, 4 * hidden);
    multiply(&mut gates, Into::Replace, Matrix::rows(input, inputs), weights_in);
    let mut outputs = Buffer::any(count * hidden);
    let mut cells = Buffer::any(count * hidden);
    let recurrent = Matrix::rows(weights.hidden, 4 * hidden);

    for (number, step) in steps.iter().enumerate() {
        let Step { start, rows, carried, before } = *step;
        // The rows of a step stand before or after those of the step before, never among them.
        let (own_outputs, remembered) = own_and_before(&mut outputs, step, hidden);
        let (own_cells, cells_before) = own_and_before(&mut cells, step, hidden);
        let (remembered, cells_before) = match number {
            0 => (initial.hidden, initial.cells),
            _ => (remembered, cells_before),
        };
        debug_assert!(number == 0 || before != start);
        let gates = &mut gates[start * 4 * hidden..(start + rows) * 4 * hidden];
        if carried > 0 {
            let remembered = Matrix::rows(&remembered[..carried * hidden], hidden);
            multiply(&mut gates[..carried * 4 * hidden], Into::Add, remembered, recurrent);
        }
        let cells_before = &cells_before[..carried * hidden];
        advance(gates, own_cells, own_outputs, cells_before, weights.bias, hidden);
    }
    (outputs, Tape { gates, cells })
}

/// The rows of a step, to write, and those of the step before, to read.
fn own_and_before<'a>(all: &'a mut [f32], step: &Step, width: usize) -> (&'a mut [f32], &'a [f32]) {
    let (start, end) = (step.start * width, (step.start + step.rows) * width);
    let before = step.before * width;
    if before < start {
        let (left, right) = all.split_at_mut(start);
        (&mut right[..end - start], &left[before..])
    } else {
        let (left, right) = all.split_at_mut(end);
        (&mut left[start..], &right[before.max(end) - end..])
    }
}

/// One step of the non-linearities: from summed gates to new cells and outputs.
fn advance(
    gates: &mut [f32],
    cells: &mut [f32],
    outputs: &mut [f32],
    cells_before: &[f32],
    bias: &[f32],
    hidden: usize,
) {
    kernel! {
        fn piece(gates: &mut [f32], cells: &mut [f32], outputs: &mut [f32], before: &[f32], bias: &[f32]) {
            let hidden = bias.len() / 4;
            let rows = cells.chunks_exact_mut(hidden).zip(outputs.chunks_exact_mut(hidden));
            for (row, (gates, (cells, outputs))) in
                gates.chunks_exact_mut(4 * hidden).zip(rows).enumerate()
            {
                let before = before.get(row * hidden..(row + 1) * hidden);
                advance_row(gates, cells, outputs, before, bias);
            }
        }
    }
    let matrices = [(gates, 4 * hidden), (cells, hidden), (outputs, hidden)];
    for_rows3(matrices, |first, [gates, cells, outputs]| {
        let before = cells_before.get(first * hidden..).unwrap_or(&[]);
        piece(gates, cells, outputs, before, bias);
    });
}

#[inline(always)]
fn advance_row(
    gates: &mut [f32],
    cells: &mut [f32],
    outputs: &mut [f32],
    before: Option<&[f32]>,
    bias: &[f32],
) {
    let hidden = cells.len();
    for (kind, (gate, bias)) in
        gates.chunks_exact_mut(hidden).zip(bias.chunks_exact(hidden)).enumerate()
    {
        if kind == 2 {
            for (gate, bias) in gate.iter_mut().zip(bias) {
                *gate = tanh(*gate + bias);
            }
        } else {
            for (gate, bias) in gate.iter_mut().zip(bias) {
                *gate = sigmoid(*gate + bias);
            }
        }
    }
    let (input, rest) = gates.split_at(hidden);
    let (forget, rest) = rest.split_at(hidden);
    let (cell, output) = rest.split_at(hidden);
    let (outputs, output) = (&mut outputs[..hidden], &output[..hidden]);
    for at in 0..hidden {
        cells[at] = input[at] * cell[at];
    }
    if let Some(before) = before {
        for at in 0..hidden {
            cells[at] = forget[at].mul_add(before[at], cells[at]);
        }
    }
    for at in 0..hidden {
        outputs[at] = output[at] * tanh(cells[at]);
    }
}

/// Gradients of a backward pass.
pub(crate) struct Gradients {
    pub(crate) input: Option<Buffer>,
    pub(crate) input_weights: Buffer,
    pub(crate) hidden_weights: Buffer,
    pub(crate) bias: Vec<f32>,
}

/// The backward pass: from the gradient of all hidden states to those of input and weights. The initial state is a
/// constant: backpropagation is cut there.
pub(crate) fn backward(
    gradient: &[f32],
    input: &[f32],
    weights: Weights<'_>,
    (steps, initial): (&[Step], Initial<'_>),
    (outputs, tape): (&[f32], Tape),
    input_needed: bool,
) -> Gradients {
    let hidden = weights.bias.len() / 4;
    let inputs = weights.input.len() / weights.bias.len();
    let Tape { mut gates, cells } = tape;
    let recurrent = Matrix::rows(weights.hidden, 4 * hidden).t();
    let most = steps.iter().map(|step| step.rows).max().unwrap_or(0);
    // What flows back from the step after: rows of it that carried on from here.
    let mut hidden_gradient = Buffer::any(most * hidden);
    let mut cell_gradient = Buffer::any(most * hidden);
    let mut carried_after = 0;

    for (number, step) in steps.iter().enumerate().rev() {
        let Step { start, rows, carried, before } = *step;
        let cells_before = match number {
            0 => initial.cells,
            _ => &cells[before * hidden..],
        };
        // Rows that no later step carried on have nothing flowing back.
        cell_gradient[carried_after * hidden..rows.max(carried_after) * hidden].fill(0.0);
        hidden_gradient[carried_after * hidden..rows.max(carried_after) * hidden].fill(0.0);
        let range = start * hidden..(start + rows) * hidden;
        retreat(
            &mut gates[start * 4 * hidden..(start + rows) * 4 * hidden],
            &mut cell_gradient[..rows * hidden],
            &cells[range.clone()],
            &gradient[range],
            &hidden_gradient,
            &cells_before[..carried * hidden],
            hidden,
        );
        if number > 0 && carried > 0 {
            let gates = &gates[start * 4 * hidden..(start + carried) * 4 * hidden];
            let back = &mut hidden_gradient[..carried * hidden];
            multiply(back, Into::Replace, Matrix::rows(gates, 4 * hidden), recurrent);
        }
        carried_after = carried;
    }

    // `gates` now holds the gradients before the non-linearities.
    let remembered = remembered(outputs, steps, initial, hidden);
    let gate_gradients = Matrix::rows(&gates, 4 * hidden);
    let mut input_weights = Buffer::any(weights.input.len());
    multiply(&mut input_weights, Into::Replace, Matrix::rows(input, inputs).t(), gate_gradients);
    let mut hidden_weights = Buffer::any(weights.hidden.len());
    let remembered = Matrix::rows(&remembered, hidden).t();
    multiply(&mut hidden_weights, Into::Replace, remembered, gate_gradients);
    let input = input_needed.then(|| {
        let mut gradient = Buffer::any(input.len());
        let weights = Matrix::rows(weights.input, 4 * hidden).t();
        multiply(&mut gradient, Into::Replace, gate_gradients, weights);
        gradient
    });
    Gradients { input, input_weights, hidden_weights, bias: rows::column_sums(&gates, 4 * hidden) }
}

/// One step back through the non-linearities: gates become gradients of their sums, and the cell gradient that of the
/// cells before.
fn retreat(
    gates: &mut [f32],
    cell_gradient: &mut [f32],
    cells: &[f32],
    gradient: &[f32],
    hidden_gradient: &[f32],
    cells_before: &[f32],
    hidden: usize,
) {
    kernel! {
        fn piece(gates: &mut [f32], cell_gradient: &mut [f32], cells: &[f32], gradient: &[f32], flowing: &[f32], before: &[f32], hidden: usize) {
            let rows = gates.chunks_exact_mut(4 * hidden).zip(cell_gradient.chunks_exact_mut(hidden));
            for (row, (gates, cell_gradient)) in rows.enumerate() {
                let own = row * hidden..(row + 1) * hidden;
                let before = before.get(own.clone());
                let (cells, gradient) = (&cells[own.clone()], &gradient[own.clone()]);
                let flowing = &flowing[own];
                match before {
                    Some(before) => retreat_row(gates, cell_gradient, cells, gradient, flowing, |at| before[at]),
                    None => retreat_row(gates, cell_gradient, cells, gradient, flowing, |_| 0.0),
                }
            }
        }
    }
    for_rows2((gates, 4 * hidden), (cell_gradient, hidden), |first, gates, cell_gradient| {
        let from =
            |all: &'_ [f32]| -> std::ops::RangeFrom<usize> { (first * hidden).min(all.len()).. };
        let before = &cells_before[from(cells_before)];
        let (cells, gradient) = (&cells[from(cells)], &gradient[from(gradient)]);
        let flowing = &hidden_gradient[from(hidden_gradient)];
        piece(gates, cell_gradient, cells, gradient, flowing, before, hidden);
    });
}

#[inline(always)]
fn retreat_row(
    gates: &mut [f32],
    cell_gradient: &mut [f32],
    cells: &[f32],
    gradient: &[f32],
    flowing: &[f32],
    before: impl Fn(usize) -> f32,
) {
    let hidden = cells.len();
    let (input, rest) = gates.split_at_mut(hidden);
    let (forget, rest) = rest.split_at_mut(hidden);
    let (cell, output) = rest.split_at_mut(hidden);
    let output = &mut output[..hidden];
    let (gradient, flowing) = (&gradient[..hidden], &flowing[..hidden]);
    let cell_gradient = &mut cell_gradient[..hidden];
    for at in 0..hidden {
        let (i, f, g, o) = (input[at], forget[at], cell[at], output[at]);
        let t = tanh(cells[at]);
        let d = gradient[at] + flowing[at];
        let dc = (d * o).mul_add(1.0 - t * t, cell_gradient[at]);
        input[at] = dc * g * i * (1.0 - i);
        forget[at] = dc * before(at) * f * (1.0 - f);
        cell[at] = dc * i * (1.0 - g * g);
        output[at] = d * t * o * (1.0 - o);
        cell_gradient[at] = dc * f;
    }
}

/// For every row the hidden state its step carried on from; zeros where it started afresh.
fn remembered(outputs: &[f32], steps: &[Step], initial: Initial<'_>, hidden: usize) -> Buffer {
    let mut remembered = Buffer::zeros(outputs.len());
    for (number, step) in steps.iter().enumerate() {
        let from = match number {
            0 => initial.hidden,
            _ => &outputs[step.before * hidden..],
        };
        let to = &mut remembered[step.start * hidden..(step.start + step.carried) * hidden];
        to.copy_from_slice(&from[..step.carried * hidden]);
    }
    remembered
}
