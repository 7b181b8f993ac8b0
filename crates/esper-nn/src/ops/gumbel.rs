//! Samples of categorical variables that gradients flow through: the Gumbel-softmax distribution over groups.

use burn::tensor::{Tensor, TensorData, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::math::{ln, uniform};
use crate::kernels::softmax;

/// What a sample is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sampling {
    /// Categories of each variable; a row holds several variables side by side.
    pub(crate) group: usize,
    /// The lower, the closer a sample is to one-hot.
    pub(crate) temperature: f32,
    /// Whether the sample is one-hot, while gradients flow as if it were not (straight-through).
    pub(crate) hard: bool,
    /// Decides the noise.
    pub(crate) key: u64,
}

/// Draws a sample for every group of every row of logits (`[rows, groups · group]`).
pub(crate) fn gumbel_softmax(logits: Tensor<2>, sampling: Sampling) -> Tensor<2> {
    match inputs![&logits] {
        Some(inputs) => apply(sampling, inputs),
        None => composed(logits, sampling),
    }
}

/// The same of ordinary operations, with the same noise.
pub(crate) fn composed(logits: Tensor<2>, sampling: Sampling) -> Tensor<2> {
    let [rows, width] = logits.dims();
    let device = logits.device();
    let noise: Vec<f32> =
        (0..rows * width).map(|at| -ln(-ln(uniform(sampling.key, at as u32)))).collect();
    let noise = Tensor::<2>::from_data(TensorData::new(noise, [rows, width]), &device);
    let noisy = (logits + noise) / sampling.temperature;
    let soft =
        activation::softmax(noisy.reshape([rows, width / sampling.group, sampling.group]), 2);
    if !sampling.hard {
        return soft.reshape([rows, width]);
    }
    let best = soft.clone().argmax(2);
    let hard = soft.zeros_like().scatter(
        2,
        best.clone(),
        Tensor::<3>::ones(best.dims(), &device),
        burn::tensor::IndexingUpdateOp::Add,
    );
    // The value of one, the gradient of the other.
    ((hard - soft.clone()).detach() + soft).reshape([rows, width])
}

impl Op<1> for Sampling {
    /// The soft sample.
    type Saved = Values;

    fn forward(&self, [mut logits]: [Values; 1]) -> (Values, Values) {
        softmax::gumbel_softmax(logits.get_mut(), self.group, self.temperature, self.key);
        let soft = logits;
        if !self.hard {
            return (soft.clone(), soft);
        }
        let mut hard = soft.clone();
        softmax::harden(hard.get_mut(), self.group);
        (hard, soft)
    }

    fn backward(self, soft: Values, mut gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        softmax::softmax_backward(gradient.get_mut(), soft.get(), self.group, self.temperature);
        [Some(gradient)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Inputs, assert_gradients, assert_same_as_composed, random, values};

    #[test]
    fn gradients_are_right() {
        for (rows, groups, group) in [(1, 1, 1), (1, 1, 8), (5, 3, 4), (200, 4, 32)] {
            for (temperature, hard) in [(1.0, false), (0.5, false), (1.0, true)] {
                let inputs =
                    Inputs { matrices: vec![random([rows, groups * group], 1)], vectors: vec![] };
                let sampling = Sampling { group, temperature, hard, key: 5 };
                let fused = |i: &Inputs| gumbel_softmax(i.matrices[0].clone(), sampling);
                let reference = |i: &Inputs| composed(i.matrices[0].clone(), sampling);
                assert_same_as_composed("gumbel", &fused, &reference, &inputs);
                if rows == 5 && !hard {
                    assert_gradients("gumbel", &fused, &inputs);
                }
            }
        }
    }

    /// How often each category is drawn is its softmax probability.
    #[test]
    fn samples_follow_the_distribution() {
        let logits = [0.0f32, 1.0, -1.0, 2.0];
        let total: f32 = logits.iter().map(|logit| logit.exp()).sum();
        let rows = 20_000;
        let many = Tensor::<2>::from_data(
            TensorData::new(logits.repeat(rows), [rows, 4]),
            &crate::ops::testing::device(),
        );
        let sampling = Sampling { group: 4, temperature: 1.0, hard: true, key: 1 };
        let sample = values(&gumbel_softmax(many, sampling));
        for (category, logit) in logits.iter().enumerate() {
            let share = sample.iter().skip(category).step_by(4).sum::<f32>() / rows as f32;
            let expected = logit.exp() / total;
            assert!((share - expected).abs() < 0.015, "{category}: {share}, expected {expected}");
        }
    }
}
