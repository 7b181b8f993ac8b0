//! Softmax with Gumbel noise, and the losses of predictions: cross-entropy and squared error over weighted rows.

use super::math::{flushed, ln, softmax_weight, uniform};
use super::memory::Buffer;
use super::norm::lane_sum;
use super::{for_rows, for_rows2};

/// Turns every group of logits into a sample of the Gumbel-softmax distribution, in place: softmax((logit + noise) / τ).
pub(crate) fn gumbel_softmax(logits: &mut [f32], group: usize, temperature: f32, key: u64) {
    kernel! {
        fn piece(groups: &mut [f32], group: usize, temperature: f32, key: u64, first: u32) {
            for (at, value) in groups.iter_mut().enumerate() {
                // Gumbel noise is -ln(-ln u).
                let noise = -ln(-ln(uniform(key, first.wrapping_add(at as u32))));
                *value = (*value + noise) / temperature;
            }
            for values in groups.chunks_exact_mut(group) {
                softmax_row(values);
            }
        }
    }
    for_rows(logits, group, |first, groups| {
        piece(groups, group, temperature, key, (first * group) as u32);
    });
}

/// Softmax of one row, in place.
#[inline(always)]
pub(crate) fn softmax_row(values: &mut [f32]) {
    let highest = highest(values);
    for value in values.iter_mut() {
        *value = softmax_weight(*value - highest);
    }
    let scale = 1.0 / lane_sum(values, |_, value| value);
    for value in values.iter_mut() {
        *value *= scale;
    }
}

/// The highest of some values, sixteen at a time, which vectorises.
#[inline(always)]
fn highest(values: &[f32]) -> f32 {
    let higher = |a: f32, b: f32| if b > a { b } else { a };
    let mut lanes = [f32::NEG_INFINITY; 16];
    let (whole, rest) = values.as_chunks::<16>();
    for values in whole {
        for lane in 0..16 {
            lanes[lane] = higher(lanes[lane], values[lane]);
        }
    }
    let mut highest = f32::NEG_INFINITY;
    for value in lanes {
        highest = higher(highest, value);
    }
    for value in rest {
        highest = higher(highest, *value);
    }
    highest
}

/// The backward pass of a softmax at temperature τ with output `softmax`: in place, group by group.
pub(crate) fn softmax_backward(
    gradient: &mut [f32],
    softmax: &[f32],
    group: usize,
    temperature: f32,
) {
    kernel! {
        fn piece(gradient: &mut [f32], softmax: &[f32], group: usize, temperature: f32) {
            let rows = gradient.chunks_exact_mut(group).zip(softmax.chunks_exact(group));
            for (gradient, softmax) in rows {
                let mean = lane_sum(gradient, |at, value| value * softmax[at]);
                for (gradient, softmax) in gradient.iter_mut().zip(softmax) {
                    *gradient = flushed(softmax * (*gradient - mean) / temperature);
                }
            }
        }
    }
    for_rows(gradient, group, |first, gradient| {
        piece(gradient, &softmax[first * group..], group, temperature);
    });
}

/// Sets the highest value of every group to one and the others to zero; the first of equals wins.
pub(crate) fn harden(values: &mut [f32], group: usize) {
    for_rows(values, group, |_, groups| {
        for values in groups.chunks_exact_mut(group) {
            let mut best = 0;
            for at in 1..group {
                if values[at] > values[best] {
                    best = at;
                }
            }
            values.fill(0.0);
            values[best] = 1.0;
        }
    });
}

/// A loss over rows and its gradient.
pub(crate) struct Loss {
    pub(crate) value: f32,
    /// With respect to the predictions.
    pub(crate) gradient: Buffer,
}

/// How much each row counts: its weight over the sum of all. Without weights all count the same.
fn shares(rows: usize, weights: Option<&[f32]>) -> Vec<f32> {
    let weights = weights.map_or_else(|| vec![1.0; rows], <[f32]>::to_vec);
    let total: f64 = weights.iter().map(|&weight| f64::from(weight)).sum();
    let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
    weights.into_iter().map(|weight| (f64::from(weight) * scale) as f32).collect()
}

/// Sums the losses of rows in order.
fn total(losses: &[f32]) -> f32 {
    losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() as f32
}

/// The mean over rows, weighted, of `-ln softmax(logits)[target]`. Rows of weight zero do not count.
pub(crate) fn cross_entropy(
    logits: &[f32],
    width: usize,
    targets: &[u32],
    weights: Option<&[f32]>,
) -> Loss {
    kernel! {
        fn piece(gradient: &mut [f32], losses: &mut [f32], width: usize, targets: &[u32], shares: &[f32]) {
            let rows = gradient.chunks_exact_mut(width).zip(losses);
            for ((gradient, loss), (&target, &share)) in rows.zip(targets.iter().zip(shares)) {
                let target = target as usize;
                let logit = gradient[target];
                let highest = highest(gradient);
                for value in gradient.iter_mut() {
                    *value = softmax_weight(*value - highest);
                }
                let sum = lane_sum(gradient, |_, value| value);
                let scale = share / sum;
                for value in gradient.iter_mut() {
                    *value *= scale;
                }
                gradient[target] -= share;
                *loss = share * (ln(sum) + highest - logit);
            }
        }
    }
    let rows = targets.len();
    let shares = shares(rows, weights);
    let mut gradient = Buffer::copy_of(logits);
    let mut losses = vec![0.0; rows];
    for_rows2((&mut gradient, width), (&mut losses, 1), |first, gradient, losses| {
        piece(gradient, losses, width, &targets[first..], &shares[first..]);
    });
    Loss { value: total(&losses), gradient }
}

/// The mean over rows, weighted, of the mean over columns of `(prediction - target)²`. Rows of weight zero do not count.
pub(crate) fn squared_error(
    predictions: &[f32],
    width: usize,
    targets: &[f32],
    weights: Option<&[f32]>,
) -> Loss {
    kernel! {
        fn piece(gradient: &mut [f32], losses: &mut [f32], width: usize, targets: &[f32], shares: &[f32]) {
            let rows = gradient.chunks_exact_mut(width).zip(targets.chunks_exact(width));
            for ((gradient, target), (loss, &share)) in rows.zip(losses.iter_mut().zip(shares)) {
                let squares = lane_sum(gradient, |at, value| (value - target[at]) * (value - target[at]));
                *loss = share * squares / width as f32;
                let scale = 2.0 * share / width as f32;
                for (value, target) in gradient.iter_mut().zip(target) {
                    *value = (*value - target) * scale;
                }
            }
        }
    }
    let rows = targets.len() / width;
    let shares = shares(rows, weights);
    let mut gradient = Buffer::copy_of(predictions);
    let mut losses = vec![0.0; rows];
    for_rows2((&mut gradient, width), (&mut losses, 1), |first, gradient, losses| {
        piece(gradient, losses, width, &targets[first * width..], &shares[first..]);
    });
    Loss { value: total(&losses), gradient }
}
