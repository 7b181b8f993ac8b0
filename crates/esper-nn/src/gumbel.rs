//! Samples of categorical variables that gradients flow through.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Tensor, activation};

use crate::noise::Noise;
use crate::ops::gumbel::{Sampling, gumbel_softmax};

/// What a [`GumbelSoftmax`] is like.
#[derive(Config, Debug)]
pub struct GumbelSoftmaxConfig {
    /// Groups: categorical variables, side by side in a row.
    pub groups: usize,
    /// Categories of each group.
    pub categories: usize,
    /// Temperature: the lower, the closer a sample is to one-hot, and the noisier its gradient.
    #[config(default = 1.0)]
    pub temperature: f64,
    /// Straight-through: whether samples are one-hot, with the gradient of the soft sample.
    #[config(default = false)]
    pub hard: bool,
}

/// Gumbel-softmax: draws from categorical distributions given by logits.
#[derive(Module, Debug)]
pub struct GumbelSoftmax {
    groups: usize,
    categories: usize,
    temperature: f64,
    hard: bool,
}

impl GumbelSoftmaxConfig {
    /// Has no weights to draw.
    pub fn init(&self) -> GumbelSoftmax {
        GumbelSoftmax {
            groups: self.groups,
            categories: self.categories,
            temperature: self.temperature,
            hard: self.hard,
        }
    }
}

impl GumbelSoftmax {
    /// Logits in, a sample out: `[rows, groups · categories]`.
    pub fn forward(&self, logits: Tensor<2>, noise: &mut Noise) -> Tensor<2> {
        assert_eq!(logits.dims()[1], self.groups * self.categories, "logits for every category");
        let sampling = Sampling {
            group: self.categories,
            temperature: self.temperature as f32,
            hard: self.hard,
            key: noise.key(),
        };
        gumbel_softmax(logits, sampling)
    }

    /// The probabilities of all categories instead of a sample: `[rows, groups · categories]`.
    pub fn probabilities(&self, logits: Tensor<2>) -> Tensor<2> {
        let [rows, width] = logits.dims();
        let grouped = logits.reshape([rows, self.groups, self.categories]);
        activation::softmax(grouped, 2).reshape([rows, width])
    }
}
