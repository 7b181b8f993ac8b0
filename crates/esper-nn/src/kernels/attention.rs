//! Causal self-attention over packed sequences, forward and backward.
//!
//! Rows are tokens, sequences one after the other; a token looks at itself and at those before it in its sequence.

use super::for_each;
use super::gemm::{Into, Matrix, multiply_strided};
use super::math::flushed;
use super::memory::Buffer;
use super::norm::lane_sum;
use super::rows::dropout_from;
use super::softmax::softmax_row;

/// The shape of a call: where sequences start, heads, the width of all heads together, and dropout of the weights.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// `sequences + 1` row numbers.
    pub(crate) offsets: Vec<usize>,
    pub(crate) heads: usize,
    pub(crate) width: usize,
    /// The rate and the key that decides which weights are dropped.
    pub(crate) dropout: Option<(f32, u64)>,
}

impl Shape {
    /// Where the attention weights of each sequence start: `heads · length²` numbers a sequence.
    fn weight_offsets(&self) -> Vec<usize> {
        let mut offsets = vec![0];
        for bounds in self.offsets.windows(2) {
            let length = bounds[1] - bounds[0];
            offsets.push(offsets[offsets.len() - 1] + self.heads * length * length);
        }
        offsets
    }

    fn scale(&self) -> f32 {
        1.0 / ((self.width / self.heads) as f32).sqrt()
    }
}

/// Cuts a slice at the given places.
fn cut<'a>(mut slice: &'a mut [f32], offsets: &[usize], width: usize) -> Vec<&'a mut [f32]> {
    let mut pieces = Vec::with_capacity(offsets.len() - 1);
    for bounds in offsets.windows(2) {
        let (piece, rest) = slice.split_at_mut((bounds[1] - bounds[0]) * width);
        pieces.push(piece);
        slice = rest;
    }
    pieces
}

/// Attention of `qkv` (`[tokens, 3 · width]`: queries, keys, values). Returns the output `[tokens, width]` and the weights
/// before dropout, for the backward pass.
pub(crate) fn forward(qkv: &[f32], shape: &Shape) -> (Buffer, Buffer) {
    let Shape { offsets, heads, width, dropout } = shape;
    let (width, head) = (*width, width / heads);
    let weight_offsets = shape.weight_offsets();
    let tokens = qkv.len() / (3 * width);
    let mut output = Buffer::any(tokens * width);
    let mut weights = Buffer::any(weight_offsets[weight_offsets.len() - 1]);

    let outputs = cut(&mut output, offsets, width);
    let all_weights = cut(&mut weights, &weight_offsets, 1);
    let sequences: Vec<_> = outputs.into_iter().zip(all_weights).enumerate().collect();
    for_each(sequences, |(sequence, (output, weights))| {
        let length = offsets[sequence + 1] - offsets[sequence];
        let qkv = &qkv[offsets[sequence] * 3 * width..];
        let part = |kind: usize, at: usize| {
            Matrix::strided(&qkv[kind * width + at * head..], length, head, 3 * width)
        };
        for (at, weights) in weights.chunks_exact_mut((length * length).max(1)).enumerate() {
            let (queries, keys) = (part(0, at), part(1, at));
            multiply_strided(weights, length, Into::Replace, queries, keys.t());
            causal_softmax(weights, length, shape.scale());
            let dropped;
            let used = match dropout {
                None => &*weights,
                Some(dropout) => {
                    let first = weight_offsets[sequence] + at * length * length;
                    dropped = dropped_copy(weights, *dropout, first);
                    &dropped
                }
            };
            let used = Matrix::rows(used, length);
            multiply_strided(&mut output[at * head..], width, Into::Replace, used, part(2, at));
        }
    });
    (output, weights)
}

kernel! {
    /// Softmax over what each token may look at, zero elsewhere.
    fn causal_softmax(weights: &mut [f32], length: usize, scale: f32) {
        for (token, row) in weights.chunks_exact_mut(length).enumerate() {
            let (seen, unseen) = row.split_at_mut(token + 1);
            for value in seen.iter_mut() {
                *value *= scale;
            }
            softmax_row(seen);
            unseen.fill(0.0);
        }
    }
}

fn dropped_copy(weights: &[f32], (rate, key): (f32, u64), first: usize) -> Vec<f32> {
    let mut dropped = weights.to_vec();
    dropout_from(&mut dropped, rate, key, first as u32);
    dropped
}

/// The backward pass: from the gradient of the output to that of `qkv`.
pub(crate) fn backward(gradient: &[f32], qkv: &[f32], weights: &[f32], shape: &Shape) -> Buffer {
    let Shape { offsets, heads, width, dropout } = shape;
    let (width, head) = (*width, width / heads);
    let weight_offsets = shape.weight_offsets();
    let mut result = Buffer::any(qkv.len());
    let results: Vec<_> = cut(&mut result, offsets, 3 * width).into_iter().enumerate().collect();
    for_each(results, |(sequence, result)| {
        let length = offsets[sequence + 1] - offsets[sequence];
        let qkv = &qkv[offsets[sequence] * 3 * width..];
        let gradient = &gradient[offsets[sequence] * width..];
        let part = |kind: usize, at: usize| {
            Matrix::strided(&qkv[kind * width + at * head..], length, head, 3 * width)
        };
        let mut score_gradient = vec![0.0; length * length];
        for at in 0..*heads {
            let first = weight_offsets[sequence] + at * length * length;
            let weights = &weights[first..first + length * length];
            let output_gradient = Matrix::strided(&gradient[at * head..], length, head, width);
            let dropped;
            let used = match dropout {
                None => weights,
                Some(dropout) => {
                    dropped = dropped_copy(weights, *dropout, first);
                    &dropped
                }
            };
            let used = Matrix::rows(used, length);
            let values_gradient = &mut result[2 * width + at * head..];
            multiply_strided(values_gradient, 3 * width, Into::Replace, used.t(), output_gradient);

            let values = part(2, at).t();
            multiply_strided(&mut score_gradient, length, Into::Replace, output_gradient, values);
            if let Some((rate, key)) = *dropout {
                dropout_from(&mut score_gradient, rate, key, first as u32);
            }
            causal_softmax_backward(&mut score_gradient, weights, length, shape.scale());
            let scores = Matrix::rows(&score_gradient, length);
            let queries_gradient = &mut result[at * head..];
            multiply_strided(queries_gradient, 3 * width, Into::Replace, scores, part(1, at));
            let keys_gradient = &mut result[width + at * head..];
            multiply_strided(keys_gradient, 3 * width, Into::Replace, scores.t(), part(0, at));
        }
    });
    result
}

kernel! {
    fn causal_softmax_backward(gradient: &mut [f32], weights: &[f32], length: usize, scale: f32) {
        let rows = gradient.chunks_exact_mut(length).zip(weights.chunks_exact(length));
        for (token, (gradient, weights)) in rows.enumerate() {
            let (seen, unseen) = gradient.split_at_mut(token + 1);
            let mean = lane_sum(seen, |at, value| value * weights[at]);
            for (gradient, weight) in seen.iter_mut().zip(weights) {
                *gradient = flushed(weight * (*gradient - mean) * scale);
            }
            unseen.fill(0.0);
        }
    }
}

kernel! {
    /// Attention of one new token over the keys and values of its sequence so far (`[seen, width]` each), itself included.
    pub(crate) fn attend(query: &[f32], keys: &[f32], values: &[f32], heads: usize, output: &mut [f32]) {
        let (width, head) = (query.len(), query.len() / heads);
        let scale = 1.0 / (head as f32).sqrt();
        let mut weights = vec![0.0; keys.len() / width];
        output.fill(0.0);
        for at in (0..width).step_by(head) {
            let query = &query[at..at + head];
            for (weight, key) in weights.iter_mut().zip(keys.chunks_exact(width)) {
                let key = &key[at..at + head];
                *weight = lane_sum(query, |lane, value| value * key[lane]) * scale;
            }
            softmax_row(&mut weights);
            let output = &mut output[at..at + head];
            for (weight, value) in weights.iter().zip(values.chunks_exact(width)) {
                for (output, value) in output.iter_mut().zip(&value[at..at + head]) {
                    *output = weight.mul_add(*value, *output);
                }
            }
        }
    }
}
