//! A linear layer: `y = x · W + b`.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use rand::{Rng, RngExt};

use crate::ops::linear::{RowsIn, linear};
use crate::ops::repeated::{Repeated, linear_repeated};

/// What a [`Linear`] layer is like.
#[derive(Config, Debug)]
pub struct LinearConfig {
    /// Input size: numbers in.
    pub inputs: usize,
    /// Output size: numbers out.
    pub outputs: usize,
    /// Bias: whether one is added.
    #[config(default = true)]
    pub bias: bool,
}

/// A linear layer.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[inputs, outputs]`
    weight: Param<Tensor<2>>,
    /// `[outputs]`
    bias: Option<Param<Tensor<1>>>,
}

/// A linear layer as plain numbers, to be written elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct DenseLayer {
    /// Numbers in.
    pub inputs: usize,
    /// Numbers out.
    pub outputs: usize,
    /// `[inputs, outputs]`
    pub weight: Vec<f32>,
    /// `[outputs]`
    pub bias: Vec<f32>,
}

impl LinearConfig {
    /// Draws the weights as PyTorch does: uniform in ±1/√inputs.
    pub fn init(&self, device: &Device, rng: &mut impl Rng) -> Linear {
        let bound = 1.0 / (self.inputs.max(1) as f32).sqrt();
        Linear {
            weight: uniform([self.inputs, self.outputs], bound, device, rng),
            bias: self.bias.then(|| uniform([self.outputs], bound, device, rng)),
        }
    }

    /// Parameters: the number of floats that [`to_safetensors`](crate::to_safetensors) writes; at most
    /// [`usize::MAX`], for sizes that no machine holds.
    pub fn parameters(&self) -> usize {
        let bias = if self.bias { self.outputs } else { 0 };
        self.inputs.saturating_mul(self.outputs).saturating_add(bias)
    }
}

impl Linear {
    /// Rows in (`[rows, inputs]`), rows out (`[rows, outputs]`).
    pub fn forward(&self, rows: impl Into<RowsIn>) -> Tensor<2> {
        self.apply(&rows.into(), false)
    }

    /// The same with ReLU: cut at zero.
    pub fn forward_relu(&self, rows: impl Into<RowsIn>) -> Tensor<2> {
        self.apply(&rows.into(), true)
    }

    /// Both for rows that are repeated, what they share computed once.
    pub(crate) fn forward_repeated(&self, rows: &Repeated, relu: bool) -> Tensor<2> {
        linear_repeated(rows, self.weight.val(), self.bias.as_ref().map(Param::val), relu)
    }

    pub(crate) fn apply(&self, rows: &RowsIn, relu: bool) -> Tensor<2> {
        linear(rows, self.weight.val(), self.bias.as_ref().map(Param::val), relu)
    }

    /// The layer as plain numbers.
    pub fn to_dense_layer(&self) -> DenseLayer {
        let [inputs, outputs] = self.weight.dims();
        let numbers = |data: TensorData| data.try_to_vec::<f32>().expect("weights are floats");
        DenseLayer {
            inputs,
            outputs,
            weight: numbers(self.weight.val().into_data()),
            bias: match &self.bias {
                Some(bias) => numbers(bias.val().into_data()),
                None => vec![0.0; outputs],
            },
        }
    }

    /// The device it is on.
    pub fn device(&self) -> Device {
        self.weight.device()
    }
}

/// A parameter drawn uniformly from ±`bound`.
pub(crate) fn uniform<const D: usize>(
    shape: [usize; D],
    bound: f32,
    device: &Device,
    rng: &mut impl Rng,
) -> Param<Tensor<D>> {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> = (0..count).map(|_| rng.random_range(-bound..=bound)).collect();
    Param::from_tensor(Tensor::from_data(TensorData::new(values, shape), device))
}
