//! Work on the rows of a matrix: biases, rectifiers, column sums, dropout, picking rows, sums of weight rows.

use rayon::prelude::*;

use super::math::{flushed, uniform};
use super::memory::Buffer;
use super::{for_rows, sum_rows};
use crate::threads::divides;

/// Adds a bias to every row, and cuts at zero if asked to.
pub(crate) fn add_bias(matrix: &mut [f32], bias: &[f32], relu: bool) {
    kernel! {
        fn piece(rows: &mut [f32], bias: &[f32], floor: f32) {
            for row in rows.chunks_exact_mut(bias.len()) {
                for (value, bias) in row.iter_mut().zip(bias) {
                    let sum = *value + bias;
                    *value = if sum < floor { floor } else { sum };
                }
            }
        }
    }
    let floor = if relu { 0.0 } else { f32::NEG_INFINITY };
    for_rows(matrix, bias.len(), |_, rows| piece(rows, bias, floor));
}

/// The gradient before a rectifier: zero wherever its output was.
pub(crate) fn relu_backward(gradient: &mut [f32], output: &[f32]) {
    kernel! {
        fn piece(gradient: &mut [f32], output: &[f32]) {
            for (gradient, output) in gradient.iter_mut().zip(output) {
                *gradient = if *output > 0.0 { flushed(*gradient) } else { 0.0 };
            }
        }
    }
    for_rows(gradient, 1, |first, gradient| piece(gradient, &output[first..]));
}

kernel! {
    /// Adds every row to the sums.
    fn add_rows(sums: &mut [f32], rows: &[f32]) {
        for row in rows.chunks_exact(sums.len()) {
            for (sum, value) in sums.iter_mut().zip(row) {
                *sum += value;
            }
        }
    }
}

/// The sum of every column.
pub(crate) fn column_sums(matrix: &[f32], width: usize) -> Vec<f32> {
    sum_rows(matrix.len() / width, width, width, |first, rows, sums| {
        add_rows(sums, &matrix[first * width..(first + rows) * width]);
    })
}

/// `to += from`.
pub(crate) fn add(to: &mut [f32], from: &[f32]) {
    for_rows(to, 1, |first, to| {
        let from = &from[first..first + to.len()];
        add_rows(to, from);
    });
}

/// Sets each value to zero with probability `rate` and scales the others up, so that the mean stays; `key` decides which.
/// Applied to a gradient with the same key it is its own backward pass.
pub(crate) fn dropout(values: &mut [f32], rate: f32, key: u64) {
    for_rows(values, 1, |first, values| dropout_from(values, rate, key, first as u32));
}

kernel! {
    /// [`dropout`] of values whose numbers start at `first`.
    pub(crate) fn dropout_from(values: &mut [f32], rate: f32, key: u64, first: u32) {
        let scale = 1.0 / (1.0 - rate);
        for (at, value) in values.iter_mut().enumerate() {
            let keep = uniform(key, first.wrapping_add(at as u32)) >= rate;
            *value = if keep { *value * scale } else { 0.0 };
        }
    }
}

/// Copies the rows with these numbers.
pub(crate) fn gather(matrix: &[f32], width: usize, indices: &[u32]) -> Buffer {
    let mut gathered = Buffer::any(indices.len() * width);
    for_rows(&mut gathered, width, |first, rows| {
        for (row, &index) in rows.chunks_exact_mut(width).zip(&indices[first..]) {
            let at = index as usize * width;
            row.copy_from_slice(&matrix[at..at + width]);
        }
    });
    gathered
}

kernel! {
    /// The backward pass of [`gather`]: adds each row to the row it was copied from, in order.
    pub(crate) fn scatter_add(sums: &mut [f32], width: usize, gradient: &[f32], indices: &[u32]) {
        for (row, &index) in gradient.chunks_exact(width).zip(indices) {
            let at = index as usize * width;
            for (sum, value) in sums[at..at + width].iter_mut().zip(row) {
                *sum += value;
            }
        }
    }
}

/// The features that are one in every row of a zero-one matrix: rows end where `ends` says.
#[derive(Clone, Copy)]
pub(crate) struct ActiveRows<'a> {
    pub(crate) ends: &'a [u32],
    pub(crate) indices: &'a [u32],
}

impl<'a> ActiveRows<'a> {
    /// The features of one row.
    #[inline(always)]
    fn of(self, row: usize) -> &'a [u32] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] as usize };
        &self.indices[start..self.ends[row] as usize]
    }
}

/// Adds to every row the weight rows of its active features: the product with a zero-one matrix.
pub(crate) fn add_active(to: &mut [f32], width: usize, active: ActiveRows<'_>, weights: &[f32]) {
    kernel! {
        fn piece(to: &mut [f32], width: usize, first: usize, active: ActiveRows<'_>, weights: &[f32]) {
            for (row, to) in to.chunks_exact_mut(width).enumerate() {
                for &feature in active.of(first + row) {
                    let at = feature as usize * width;
                    let weights = &weights[at..at + width];
                    for (to, weight) in to.iter_mut().zip(weights) {
                        *to += weight;
                    }
                }
            }
        }
    }
    for_rows(to, width, |first, rows| piece(rows, width, first, active, weights));
}

/// Columns of the weights that one thread sums up: few enough that a piece of all weight rows stays close.
const COLUMNS: usize = 128;

/// The gradient of the weights in [`add_active`]: for every feature the sum of the gradients of the rows it is active in,
/// written to the first `features` rows of `weights`.
pub(crate) fn active_weights_gradient(
    weights: &mut [f32],
    gradient: &[f32],
    width: usize,
    active: ActiveRows<'_>,
    features: usize,
) {
    kernel! {
        fn piece(sums: &mut [f32], columns: usize, first: usize, gradient: &[f32], width: usize, active: ActiveRows<'_>) {
            for (row, gradient) in gradient.chunks_exact(width).enumerate() {
                let gradient = &gradient[first..first + columns];
                for &feature in active.of(row) {
                    let at = feature as usize * columns;
                    let sums = &mut sums[at..at + columns];
                    for (sum, value) in sums.iter_mut().zip(gradient) {
                        *sum += value;
                    }
                }
            }
        }
    }
    let column_piece = |first: usize| {
        let columns = COLUMNS.min(width - first);
        let mut sums = vec![0.0; features * columns];
        piece(&mut sums, columns, first, gradient, width, active);
        sums
    };
    let pieces: Vec<Vec<f32>> = match divides() {
        true => (0..width).into_par_iter().step_by(COLUMNS).map(column_piece).collect(),
        false => (0..width).step_by(COLUMNS).map(column_piece).collect(),
    };
    for (piece, sums) in pieces.iter().enumerate() {
        let (first, columns) = (piece * COLUMNS, COLUMNS.min(width - piece * COLUMNS));
        for (feature, sums) in sums.chunks_exact(columns).enumerate() {
            let at = feature * width + first;
            weights[at..at + columns].copy_from_slice(sums);
        }
    }
}
