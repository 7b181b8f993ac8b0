//! The optimiser's step, in place and in one pass.

use rayon::prelude::*;

use super::math::flushed;
use super::norm::lane_sum;
use super::{HANDED, sum_rows};
use crate::threads::divides;

/// One AdamW step with PyTorch's meaning of its numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamW {
    pub(crate) learning_rate: f32,
    pub(crate) beta1: f32,
    pub(crate) beta2: f32,
    pub(crate) epsilon: f32,
    pub(crate) weight_decay: f32,
    /// The step's number, counting from 1.
    pub(crate) time: u64,
    /// What gradients are multiplied by first: below one when they are clipped.
    pub(crate) gradient_scale: f32,
}

impl AdamW {
    /// Moves the weights and both moments on.
    pub(crate) fn step(
        self,
        weights: &mut [f32],
        gradient: &[f32],
        first: &mut [f32],
        second: &mut [f32],
    ) {
        kernel! {
            fn piece(weights: &mut [f32], gradient: &[f32], first: &mut [f32], second: &mut [f32], step: Numbers) {
                let Numbers { beta1, beta2, epsilon, scale, decay, size, correction } = step;
                let count = weights.len();
                let (gradient, first, second) = (&gradient[..count], &mut first[..count], &mut second[..count]);
                for at in 0..count {
                    let g = gradient[at] * scale;
                    let m = flushed(beta1.mul_add(first[at], (1.0 - beta1) * g));
                    let v = flushed(beta2.mul_add(second[at], (1.0 - beta2) * g * g));
                    first[at] = m;
                    second[at] = v;
                    let deviation = v.sqrt().mul_add(correction, epsilon);
                    weights[at] = decay * weights[at] - size * m / deviation;
                }
            }
        }
        // Beyond two billion steps the power of any f32 below one is lost beside one, so that is as far as it counts.
        let time = i32::try_from(self.time).unwrap_or(i32::MAX);
        let power = |beta: f32| 1.0 - f64::from(beta).powi(time);
        let numbers = Numbers {
            beta1: self.beta1,
            beta2: self.beta2,
            epsilon: self.epsilon,
            scale: self.gradient_scale,
            decay: 1.0 - self.learning_rate * self.weight_decay,
            size: (f64::from(self.learning_rate) / power(self.beta1)) as f32,
            correction: (1.0 / power(self.beta2).sqrt()) as f32,
        };
        if weights.len() <= 2 * HANDED || !divides() {
            return piece(weights, gradient, first, second, numbers);
        }
        let moments = first.par_chunks_mut(HANDED).zip(second.par_chunks_mut(HANDED));
        weights.par_chunks_mut(HANDED).zip(gradient.par_chunks(HANDED)).zip(moments).for_each(
            |((weights, gradient), (first, second))| {
                piece(weights, gradient, first, second, numbers);
            },
        );
    }
}

/// What one step multiplies and adds.
#[derive(Clone, Copy)]
struct Numbers {
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    scale: f32,
    decay: f32,
    size: f32,
    correction: f32,
}

/// The sum of squares.
pub(crate) fn sum_of_squares(values: &[f32]) -> f64 {
    kernel! {
        fn piece(values: &[f32]) -> f32 {
            lane_sum(values, |_, value| value * value)
        }
    }
    let sums = sum_rows(values.len(), 1, 1, |first, count, sums| {
        sums[0] = piece(&values[first..first + count]);
    });
    f64::from(sums[0])
}
