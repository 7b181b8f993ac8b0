//! A long short-term memory over packed sequences.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor};
use rand::Rng;

use crate::linear::uniform;
use crate::ops::lstm::{LstmState, LstmWeights, lstm};

/// What an [`Lstm`] is like.
#[derive(Config, Debug)]
pub struct LstmConfig {
    /// Input size: numbers in.
    pub inputs: usize,
    /// Hidden size: numbers it remembers and gives out.
    pub hidden: usize,
    /// Direction: whether it runs backwards in time, so that what it gives out at a step sums up the rest of the sequence.
    #[config(default = false)]
    pub reverse: bool,
}

/// Long short-term memory (LSTM) of one layer.
///
/// Sequences of different lengths are packed by time, longest first: time `t` has the rows `offsets[t]..offsets[t + 1]`,
/// and those of the sequences that are still going on come first.
#[derive(Module, Debug)]
pub struct Lstm {
    /// `[inputs, 4 · hidden]`, the gates in the order input, forget, cell, output.
    input_weight: Param<Tensor<2>>,
    /// `[hidden, 4 · hidden]`
    hidden_weight: Param<Tensor<2>>,
    /// `[4 · hidden]`
    bias: Param<Tensor<1>>,
    reverse: bool,
}

impl LstmConfig {
    /// Draws the weights as PyTorch does: uniform in ±1/√hidden.
    pub fn init(&self, device: &Device, rng: &mut impl Rng) -> Lstm {
        let bound = 1.0 / (self.hidden as f32).sqrt();
        let gates = 4 * self.hidden;
        Lstm {
            input_weight: uniform([self.inputs, gates], bound, device, rng),
            hidden_weight: uniform([self.hidden, gates], bound, device, rng),
            bias: uniform([gates], bound, device, rng),
            reverse: self.reverse,
        }
    }

    /// Parameters: the number of floats that [`to_safetensors`](crate::to_safetensors) writes; at most
    /// [`usize::MAX`], for sizes that no machine holds.
    pub fn parameters(&self) -> usize {
        let rows = self.inputs.saturating_add(self.hidden).saturating_add(1);
        self.hidden.saturating_mul(4).saturating_mul(rows)
    }
}

impl Lstm {
    /// Packed rows in (`[rows, inputs]`), hidden states out (`[rows, hidden]`), and the state after the last step taken.
    ///
    /// A long sequence can be given in parts: the state that one part ends with is where the next goes on, for as many of
    /// the first sequences as it has rows. Gradients do not flow from one part to another.
    ///
    /// # Panics
    ///
    /// When the offsets do not divide up the rows, or a later time has more rows than an earlier one.
    pub fn forward(
        &self,
        rows: Tensor<2>,
        offsets: &[usize],
        state: Option<LstmState>,
    ) -> (Tensor<2>, LstmState) {
        assert_eq!(offsets.last(), Some(&rows.dims()[0]), "the offsets divide up the rows");
        let sizes = || offsets.windows(2).map(|bounds| bounds[1] - bounds[0]);
        assert!(offsets[0] == 0 && sizes().is_sorted_by(|a, b| a >= b), "longest sequences first");
        let weights = LstmWeights {
            input: self.input_weight.val(),
            hidden: self.hidden_weight.val(),
            bias: self.bias.val(),
        };
        lstm(rows, weights, offsets, self.reverse, state)
    }
}
