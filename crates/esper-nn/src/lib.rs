//! The blocks that esper's models are made of, on Burn, with fused CPU kernels behind them.
//!
//! Every block is a documented config with `init` and `forward`: [`MlpConfig`], [`LstmConfig`], [`TransformerConfig`],
//! [`GumbelSoftmaxConfig`], and the smaller [`LinearConfig`], [`BatchNormConfig`], [`LayerNormConfig`]. They work on rows:
//! steps of trajectories packed without padding, so that nothing is computed that nobody reads. Losses and small
//! operations on rows are functions; [`AdamWConfig`] is the optimiser; [`to_safetensors`] and
//! [`from_safetensors`] keep modules. A [`DeviceName`] opens the device that all of it runs on.
//!
//! ```
//! use burn::tensor::Tensor;
//! use esper_nn::{AdamWConfig, DeviceName, MlpConfig, Noise, cross_entropy};
//! use rand::SeedableRng;
//!
//! let device = DeviceName::Cpu.open()?.autodiff();
//! let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0);
//! let mut mlp = MlpConfig::new(4, 3).with_hidden(16).init(&device, &mut rng);
//! let mut optimizer = AdamWConfig::new().init();
//! let mut noise = Noise::new(0);
//!
//! let rows = Tensor::<2>::from_floats([[0.0, 1.0, 0.0, 1.0], [1.0, 0.0, 1.0, 0.0]], &device);
//! let loss = cross_entropy(mlp.forward(rows, &mut noise), &[0, 2], None);
//! mlp = optimizer.step(1e-3, mlp, loss.backward());
//! # let _ = mlp;
//! # Ok::<(), esper_nn::DeviceError>(())
//! ```
//!
//! Two things hold throughout. The same seed gives the same bytes: randomness comes from generators and keys that are
//! passed in, and no kernel's result depends on the number of threads. And the same model code runs on a GPU (cargo
//! feature `gpu`): there every fused operation is replaced by ordinary ones, with the same noise, so that results are
//! those of the CPU to within rounding.

#[macro_use]
mod kernels;
mod device;
mod gumbel;
mod linear;
mod lstm;
mod mix;
mod mlp;
mod noise;
mod norm;
mod ops;
mod optim;
mod sparse;
mod store;
#[cfg(test)]
mod tests;
mod threads;
mod transformer;

pub use device::{Device, DeviceError, DeviceName, default_device};
pub use gumbel::{GumbelSoftmax, GumbelSoftmaxConfig};
pub use linear::{DenseLayer, Linear, LinearConfig};
pub use lstm::{Lstm, LstmConfig};
pub use mix::mix;
pub use mlp::{Mlp, MlpConfig, Normalization};
pub use noise::Noise;
pub use norm::{BatchNorm, BatchNormConfig, LayerNorm, LayerNormConfig};
pub use ops::linear::RowsIn;
pub use ops::loss::{RowWeights, cross_entropy, squared_error};
pub use ops::lstm::LstmState;
pub use ops::repeated::Repeated;
pub use ops::rows::{gather_rows, scale_gradient};
pub use optim::{AdamW, AdamWConfig};
pub use sparse::SparseRows;
pub use store::{
    StoreError, from_safetensors, metadata, stored_numbers, to_safetensors, to_safetensors_with,
};
pub use threads::{alone, both};
pub use transformer::{KeyValueCache, Transformer, TransformerConfig};
