//! A multi-layer perceptron over rows.

use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor};
use rand::Rng;

use crate::linear::{DenseLayer, Linear, LinearConfig};
use crate::noise::Noise;
use crate::norm::{BatchNorm, BatchNormConfig, LayerNorm, LayerNormConfig};
use crate::ops::linear::RowsIn;
use crate::ops::repeated::Repeated;
use crate::ops::rows::dropout;

/// How hidden layers are normalised.
#[derive(Config, Debug, Copy, PartialEq, Eq)]
pub enum Normalization {
    /// None at all.
    None,
    /// Batch normalisation: over the rows of the batch.
    Batch,
    /// Layer normalisation: over each row.
    Layer,
}

/// What an [`Mlp`] is like.
#[derive(Config, Debug)]
pub struct MlpConfig {
    /// Input size: numbers in, those of a sparse part first, then of a dense one.
    pub inputs: usize,
    /// Output size: numbers out.
    pub outputs: usize,
    /// Hidden size: the width of hidden layers.
    #[config(default = 512)]
    pub hidden: usize,
    /// Hidden layers: how many there are.
    #[config(default = 2)]
    pub layers: usize,
    /// Normalisation of hidden layers, before ReLU cuts them at zero.
    #[config(default = "Normalization::None")]
    pub normalization: Normalization,
    /// Dropout rate: the share of hidden numbers that training leaves out.
    #[config(default = 0.0)]
    pub dropout: f64,
}

/// Multi-layer perceptron: hidden layers (linear, normalised, ReLU, dropout), then a linear one.
#[derive(Module, Debug)]
pub struct Mlp {
    hidden: Vec<Hidden>,
    output: Linear,
    dropout: f64,
}

#[derive(Module, Debug)]
struct Hidden {
    linear: Linear,
    batch_norm: Option<BatchNorm>,
    layer_norm: Option<LayerNorm>,
}

impl MlpConfig {
    /// Draws the weights.
    pub fn init(&self, device: &Device, rng: &mut impl Rng) -> Mlp {
        let hidden = (0..self.layers)
            .map(|layer| Hidden {
                linear: self.hidden_layer(layer).init(device, rng),
                batch_norm: self.batch_norm().map(|norm| norm.init(device)),
                layer_norm: self.layer_norm().map(|norm| norm.init(device)),
            })
            .collect();
        Mlp { hidden, output: self.output_layer().init(device, rng), dropout: self.dropout }
    }

    /// Parameters: the number of floats that [`to_safetensors`](crate::to_safetensors) writes, running values among
    /// them; at most [`usize::MAX`], for sizes that no machine holds.
    ///
    /// Layers without width hold nothing, so this number says nothing about how many of them there are.
    pub fn parameters(&self) -> usize {
        let norms = self.batch_norm().map_or(0, |norm| norm.parameters())
            + self.layer_norm().map_or(0, |norm| norm.parameters());
        let layer = |number| self.hidden_layer(number).parameters().saturating_add(norms);
        let hidden = match self.layers {
            0 => 0,
            layers => layer(0).saturating_add(layer(1).saturating_mul(layers - 1)),
        };
        hidden.saturating_add(self.output_layer().parameters())
    }

    /// The linear part of a hidden layer, counting from zero.
    fn hidden_layer(&self, number: usize) -> LinearConfig {
        let inputs = if number == 0 { self.inputs } else { self.hidden };
        // A bias before batch normalisation would be taken away again.
        let bias = self.normalization != Normalization::Batch;
        LinearConfig::new(inputs, self.hidden).with_bias(bias)
    }

    fn output_layer(&self) -> LinearConfig {
        let inputs = if self.layers == 0 { self.inputs } else { self.hidden };
        LinearConfig::new(inputs, self.outputs)
    }

    fn batch_norm(&self) -> Option<BatchNormConfig> {
        (self.normalization == Normalization::Batch).then(|| BatchNormConfig::new(self.hidden))
    }

    fn layer_norm(&self) -> Option<LayerNormConfig> {
        (self.normalization == Normalization::Layer).then(|| LayerNormConfig::new(self.hidden))
    }
}

impl Mlp {
    /// Rows in (`[rows, inputs]`, dense, sparse or both), rows out (`[rows, outputs]`).
    ///
    /// On a device with gradients this is training: batches normalise themselves, and dropout takes keys from `noise`.
    pub fn forward(&self, rows: impl Into<RowsIn>, noise: &mut Noise) -> Tensor<2> {
        let rows = rows.into();
        match self.features(&rows, noise) {
            Some(features) => self.output.forward(features),
            None => self.output.forward(rows),
        }
    }

    /// Features: what the last hidden layer puts out, `[rows, hidden]`, of which [`forward`](Self::forward) gives a linear function
    /// ([`output`](Self::output)). `None` without hidden layers.
    pub fn features(&self, rows: &RowsIn, noise: &mut Noise) -> Option<Tensor<2>> {
        let (first, others) = self.hidden.split_first()?;
        let rows = self.hidden(first, |relu| first.linear.apply(rows, relu), noise);
        Some(self.after_first(others, rows, noise))
    }

    /// The last layer alone: rows of features in, rows out.
    pub fn output(&self, features: Tensor<2>) -> Tensor<2> {
        self.output.forward(features)
    }

    /// What [`forward`](Self::forward) gives for repeated rows (two at least), to the last bit, in less time: what the first layer makes of
    /// a row is computed once, however often the row is repeated.
    pub fn forward_repeated(&self, rows: &Repeated, noise: &mut Noise) -> Tensor<2> {
        match self.hidden.split_first() {
            Some((first, others)) => {
                let linear = |relu| first.linear.forward_repeated(rows, relu);
                let rows = self.hidden(first, linear, noise);
                self.output.forward(self.after_first(others, rows, noise))
            }
            None => self.output.forward_repeated(rows, false),
        }
    }

    fn after_first(&self, others: &[Hidden], mut rows: Tensor<2>, noise: &mut Noise) -> Tensor<2> {
        for layer in others {
            let input = RowsIn::from(rows);
            rows = self.hidden(layer, |relu| layer.linear.apply(&input, relu), noise);
        }
        rows
    }

    /// A hidden layer; `linear` is its linear part, with ReLU or without.
    fn hidden(
        &self,
        layer: &Hidden,
        linear: impl FnOnce(bool) -> Tensor<2>,
        noise: &mut Noise,
    ) -> Tensor<2> {
        let hidden = match (&layer.batch_norm, &layer.layer_norm) {
            (Some(norm), _) => norm.forward(linear(false), true),
            (_, Some(norm)) => norm.forward_relu(linear(false)),
            (None, None) => linear(true),
        };
        if self.dropout > 0.0 && hidden.device().is_autodiff() {
            return dropout(hidden, self.dropout, noise.key());
        }
        hidden
    }

    /// The layers as plain numbers, the last one putting out; ReLU is between them. `None` where hidden layers are normalised.
    pub fn to_dense_layers(&self) -> Option<Vec<DenseLayer>> {
        let plain = |layer: &Hidden| match (&layer.batch_norm, &layer.layer_norm) {
            (None, None) => Some(layer.linear.to_dense_layer()),
            _ => None,
        };
        let output = std::iter::once(Some(self.output.to_dense_layer()));
        self.hidden.iter().map(plain).chain(output).collect()
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.output.device()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SparseRows;
    use crate::ops::testing::{assert_close, device, random, values};
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn rng() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    #[test]
    fn shapes_and_options_fit_together() {
        for normalization in [Normalization::None, Normalization::Batch, Normalization::Layer] {
            for layers in 0..3 {
                let config = MlpConfig::new(5, 2)
                    .with_hidden(8)
                    .with_layers(layers)
                    .with_normalization(normalization)
                    .with_dropout(0.5);
                let mlp = config.init(&device(), &mut rng());
                let output = mlp.forward(random([7, 5], 1), &mut Noise::new(0));
                assert_eq!(output.dims(), [7, 2]);
                assert!(values(&output).iter().all(|value| value.is_finite()));
            }
        }
    }

    /// One-hot rows as lists of ones, or written out: the same network.
    #[test]
    fn sparse_rows_are_dense_rows() {
        let mlp = MlpConfig::new(7, 3).with_hidden(16).init(&device(), &mut rng());
        let sparse = SparseRows::new(4, vec![1, 3, 3], vec![2, 0, 3]);
        let dense: Tensor<2> = random([3, 3], 2);
        let noise = &mut Noise::new(0);
        let mixed = mlp.forward((sparse.clone(), dense.clone()), noise);
        let written_out = Tensor::cat(vec![sparse.to_dense(&device()), dense], 1);
        assert_close("output", &values(&mixed), &values(&mlp.forward(written_out, noise)), 1e-5);
    }

    #[test]
    fn dropout_is_for_training_only() {
        let mlp =
            MlpConfig::new(3, 1).with_hidden(64).with_dropout(0.5).init(&device(), &mut rng());
        let rows: Tensor<2> = random([4, 3], 1);
        let training = |seed| values(&mlp.forward(rows.clone(), &mut Noise::new(seed)));
        assert_eq!(training(1), training(1));
        assert_ne!(training(1), training(2));
        let (evaluated, rows) = (mlp.valid(), rows.inner());
        let evaluation = |seed| values(&evaluated.forward(rows.clone(), &mut Noise::new(seed)));
        assert_eq!(evaluation(1), evaluation(2));
    }
}
