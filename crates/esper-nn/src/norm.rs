//! Normalisation: over the rows of a batch, or over each row.

use burn::config::Config;
use burn::module::{Module, Param, RunningState};
use burn::tensor::{Device, Tensor};

use crate::ops::batch_norm::{batch_norm, batch_norm_with};
use crate::ops::layer_norm::layer_norm;

/// What a [`BatchNorm`] layer is like.
#[derive(Config, Debug)]
pub struct BatchNormConfig {
    /// Width: numbers in and out.
    pub width: usize,
    /// Momentum: how far the running mean and variance move towards those of each batch.
    #[config(default = 0.1)]
    pub momentum: f64,
}

/// Batch normalisation of every column: in training by the mean and variance of the batch, at evaluation by running ones.
#[derive(Module, Debug)]
pub struct BatchNorm {
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
    running_mean: RunningState<Tensor<1>>,
    running_variance: RunningState<Tensor<1>>,
    momentum: f64,
}

impl BatchNormConfig {
    /// Starts as the identity of normalised numbers.
    pub fn init(&self, device: &Device) -> BatchNorm {
        BatchNorm {
            gamma: Param::from_tensor(Tensor::ones([self.width], device)),
            beta: Param::from_tensor(Tensor::zeros([self.width], device)),
            running_mean: RunningState::new(Tensor::zeros([self.width], device)),
            running_variance: RunningState::new(Tensor::ones([self.width], device)),
            momentum: self.momentum,
        }
    }

    /// Parameters: the number of floats that [`to_safetensors`](crate::to_safetensors) writes, running values among
    /// them; at most [`usize::MAX`], for sizes that no machine holds.
    pub fn parameters(&self) -> usize {
        self.width.saturating_mul(4)
    }
}

impl BatchNorm {
    /// Rows in and out: `[rows, width]`. With ReLU, cut at zero, if `relu`.
    ///
    /// On a device with gradients this is training: the batch itself normalises, and the running values move.
    pub fn forward(&self, rows: Tensor<2>, relu: bool) -> Tensor<2> {
        let (gamma, beta) = (self.gamma.val(), self.beta.val());
        if !rows.device().is_autodiff() {
            let (mean, variance) = (self.running_mean.value(), self.running_variance.value());
            return batch_norm_with(rows, mean, variance, gamma, beta, relu);
        }
        let (output, batch) = batch_norm(rows, gamma, beta, relu);
        self.move_towards(&self.running_mean, batch.mean);
        self.move_towards(&self.running_variance, batch.variance);
        output
    }

    fn move_towards(&self, running: &RunningState<Tensor<1>>, batch: Tensor<1>) {
        let moved = running.value() * (1.0 - self.momentum) + batch * self.momentum;
        running.update(moved.detach());
        // Burn applies an update only with the next one; what is saved or evaluated now would miss it.
        running.value_sync();
    }
}

/// What a [`LayerNorm`] layer is like.
#[derive(Config, Debug)]
pub struct LayerNormConfig {
    /// Width: numbers in and out.
    pub width: usize,
}

/// Layer normalisation: every row by its own mean and variance.
#[derive(Module, Debug)]
pub struct LayerNorm {
    gamma: Param<Tensor<1>>,
    beta: Param<Tensor<1>>,
}

impl LayerNormConfig {
    /// Starts as the identity of normalised numbers.
    pub fn init(&self, device: &Device) -> LayerNorm {
        LayerNorm {
            gamma: Param::from_tensor(Tensor::ones([self.width], device)),
            beta: Param::from_tensor(Tensor::zeros([self.width], device)),
        }
    }

    /// Parameters: the number of floats that [`to_safetensors`](crate::to_safetensors) writes; at most
    /// [`usize::MAX`], for sizes that no machine holds.
    pub fn parameters(&self) -> usize {
        self.width.saturating_mul(2)
    }
}

impl LayerNorm {
    /// Rows in and out: `[rows, width]`.
    pub fn forward(&self, rows: Tensor<2>) -> Tensor<2> {
        layer_norm(rows, self.gamma.val(), self.beta.val(), false)
    }

    /// As [`forward`](Self::forward), then ReLU: cut at zero.
    pub fn forward_relu(&self, rows: Tensor<2>) -> Tensor<2> {
        layer_norm(rows, self.gamma.val(), self.beta.val(), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, device, random, values};

    /// After many batches of one kind, evaluation normalises by the mean and variance of that kind.
    #[test]
    fn running_values_are_right_at_evaluation() {
        let norm = BatchNormConfig::new(3).init(&device());
        for batch in 0..200 {
            norm.forward(random([400, 3], batch) * 2.0 + 5.0, false);
        }
        // Uniform in 3..7: mean 5, variance 16/12.
        let evaluated = norm.valid();
        let rows = Tensor::<2>::from_floats([[3.0, 5.0, 7.0]], &Device::flex());
        let deviation = 2.0 / (16f32 / 12.0).sqrt();
        let output = values(&evaluated.forward(rows, false));
        assert_close("output", &output, &[-deviation, 0.0, deviation], 0.05);
    }

    /// The very last batch counts too.
    #[test]
    fn running_values_are_never_one_batch_behind() {
        let norm = BatchNormConfig::new(1).with_momentum(1.0).init(&device());
        norm.forward(Tensor::from_floats([[1.0], [3.0]], &device()), false);
        let evaluated = norm.valid();
        let output = evaluated.forward(Tensor::from_floats([[2.0]], &Device::flex()), false);
        assert_close("output", &values(&output), &[0.0], 1e-5);
    }
}
