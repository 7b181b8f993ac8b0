//! A causal transformer in the shape of GPT-2, over packed sequences of tokens.

use burn::config::Config;
use burn::module::{Module, Param};
use burn::tensor::{Device, Tensor, TensorData};
use rand::Rng;

use crate::kernels::attention::attend;
use crate::linear::{Linear, LinearConfig, uniform};
use crate::noise::Noise;
use crate::norm::{LayerNorm, LayerNormConfig};
use crate::ops::attention::attention;
use crate::ops::rows::{add_dropped, dropout, gather_rows};

/// What a [`Transformer`] is like. The defaults are the paper's.
#[derive(Config, Debug)]
pub struct TransformerConfig {
    /// Time embeddings: times that have an embedding of their own; later ones share the last.
    pub times: usize,
    /// Embedding width: numbers of a token.
    #[config(default = 128)]
    pub width: usize,
    /// Layers: blocks, each attention and a feed-forward network of two linear layers.
    #[config(default = 3)]
    pub layers: usize,
    /// Attention heads: the parts that attention is divided into.
    #[config(default = 1)]
    pub heads: usize,
    /// Expansion: the hidden width of a layer's feed-forward network, in multiples of `width`.
    #[config(default = 4)]
    pub expansion: usize,
    /// Dropout rate: the share of numbers that training leaves out, of attention weights, too.
    #[config(default = 0.1)]
    pub dropout: f64,
}

/// Tokens in, tokens out, each having looked at those before it in its sequence.
#[derive(Module, Debug)]
pub struct Transformer {
    /// `[times, width]`
    time: Param<Tensor<2>>,
    first_norm: LayerNorm,
    layers: Vec<Layer>,
    last_norm: LayerNorm,
    heads: usize,
    dropout: f64,
}

/// Pre-norm: each part sees normalised tokens and adds to them.
#[derive(Module, Debug)]
struct Layer {
    attention_norm: LayerNorm,
    /// Queries, keys and values side by side.
    qkv: Linear,
    attention_out: Linear,
    network_norm: LayerNorm,
    network_in: Linear,
    network_out: Linear,
}

impl TransformerConfig {
    /// Draws the weights.
    ///
    /// # Panics
    ///
    /// When the width is not a multiple of the heads.
    pub fn init(&self, device: &Device, rng: &mut impl Rng) -> Transformer {
        assert!(self.width.is_multiple_of(self.heads), "every head has the same width");
        let norm = || LayerNormConfig::new(self.width).init(device);
        let layers = (0..self.layers)
            .map(|_| {
                let [qkv, attention_out, network_in, network_out] = self.linear_parts();
                Layer {
                    attention_norm: norm(),
                    qkv: qkv.init(device, rng),
                    attention_out: attention_out.init(device, rng),
                    network_norm: norm(),
                    network_in: network_in.init(device, rng),
                    network_out: network_out.init(device, rng),
                }
            })
            .collect();
        Transformer {
            time: uniform([self.times, self.width], 0.05, device, rng),
            first_norm: norm(),
            layers,
            last_norm: norm(),
            heads: self.heads,
            dropout: self.dropout,
        }
    }

    /// Parameters: the number of floats that [`to_safetensors`](crate::to_safetensors) writes; at most
    /// [`usize::MAX`], for sizes that no machine holds.
    ///
    /// Layers without width hold nothing, so this number says nothing about how many of them there are.
    pub fn parameters(&self) -> usize {
        let norm = LayerNormConfig::new(self.width).parameters();
        let parts = self.linear_parts();
        let linear = parts.iter().map(LinearConfig::parameters);
        let layer = linear.fold(norm.saturating_mul(2), usize::saturating_add);
        let times = self.times.saturating_mul(self.width);
        let ends = times.saturating_add(norm.saturating_mul(2));
        layer.saturating_mul(self.layers).saturating_add(ends)
    }

    /// The linear parts of a layer, in the order of their drawing: queries, keys and values; out of attention; into
    /// the network; out of it.
    fn linear_parts(&self) -> [LinearConfig; 4] {
        let width = self.width;
        let inner = self.expansion.saturating_mul(width);
        [
            LinearConfig::new(width, width.saturating_mul(3)),
            LinearConfig::new(width, width),
            LinearConfig::new(width, inner),
            LinearConfig::new(inner, width),
        ]
    }
}

impl Transformer {
    /// Runs over whole sequences. `tokens` is `[rows, width]`; sequence `s` has the rows `offsets[s]..offsets[s + 1]`;
    /// `times` says at which time of its trajectory each token stands. Returns the tokens with the row numbers `wanted`,
    /// `[wanted, width]`; what only the others need is not computed.
    ///
    /// On a device with gradients this is training, and dropout takes keys from `noise`.
    ///
    /// # Panics
    ///
    /// When there is not one time a token, or the offsets do not divide up the tokens.
    pub fn forward(
        &self,
        tokens: Tensor<2>,
        times: &[u32],
        offsets: &[usize],
        wanted: &[u32],
        noise: &mut Noise,
    ) -> Tensor<2> {
        let rows = tokens.dims()[0];
        assert!(offsets.first() == Some(&0) && offsets.is_sorted(), "sequences are in order");
        assert_eq!(offsets.last(), Some(&rows), "the offsets divide up the tokens");
        let rate = if tokens.device().is_autodiff() { self.dropout } else { 0.0 };
        let mut key = || if rate > 0.0 { noise.key() } else { 0 };
        let mut x = dropout(self.embed(tokens, times), rate, key());
        for (number, layer) in self.layers.iter().enumerate() {
            let qkv = layer.qkv.forward(layer.attention_norm.forward(x.clone()));
            let dropped = (rate > 0.0).then(|| (rate as f32, key()));
            let mut attended = attention(qkv, offsets, self.heads, dropped);
            if number + 1 == self.layers.len() {
                // From here on every token is on its own.
                attended = gather_rows(attended, wanted);
                x = gather_rows(x, wanted);
            }
            x = add_dropped(x, layer.attention_out.forward(attended), rate, key());
            x = add_dropped(x.clone(), layer.network(x), rate, key());
        }
        self.last_norm.forward(x)
    }

    /// Runs over the next tokens of some sequences of a cache at once, as many of each: `tokens` is
    /// `[sequences · count, width]`, sequence after sequence. What came before is in the cache, which takes up the new
    /// tokens.
    ///
    /// Returns the new tokens, `[sequences · count, width]`: what [`Transformer::forward`] without gradients gives for them
    /// over the whole sequences.
    ///
    /// # Panics
    ///
    /// When the tokens are not divided evenly among the sequences, or the cache has no room for them.
    pub fn extend(
        &self,
        tokens: Tensor<2>,
        times: &[u32],
        sequences: &[usize],
        cache: &mut KeyValueCache,
    ) -> Tensor<2> {
        let [rows, width] = tokens.dims();
        let device = tokens.device();
        let count = rows / sequences.len().max(1);
        assert_eq!(rows, sequences.len() * count, "every sequence gets as many tokens");
        let mut x = self.embed(tokens, times);
        for (layer, parts) in self.layers.iter().zip(&mut cache.layers) {
            let qkv = layer.qkv.forward(layer.attention_norm.forward(x.clone()));
            let qkv: Vec<f32> = qkv.into_data().try_to_vec().expect("tokens are floats");
            let mut attended = vec![0.0; rows * width];
            for (row, qkv) in qkv.chunks_exact(3 * width).enumerate() {
                let (sequence, new) = (sequences[row / count], row % count);
                let seen = cache.lengths[sequence] + new + 1;
                let (keys, values) = parts.put(
                    sequence,
                    seen,
                    cache.capacity,
                    &qkv[width..2 * width],
                    &qkv[2 * width..],
                );
                let output = &mut attended[row * width..(row + 1) * width];
                attend(&qkv[..width], keys, values, self.heads, output);
            }
            let attended = Tensor::from_data(TensorData::new(attended, [rows, width]), &device);
            x = x + layer.attention_out.forward(attended);
            x = x.clone() + layer.network(x);
        }
        sequences.iter().for_each(|&sequence| cache.lengths[sequence] += count);
        self.last_norm.forward(x)
    }

    /// An empty cache for this many sequences of at most `capacity` tokens.
    pub fn cache(&self, sequences: usize, capacity: usize) -> KeyValueCache {
        let width = self.time.dims()[1];
        let part = || Part {
            keys: vec![0.0; sequences * capacity * width],
            values: vec![0.0; sequences * capacity * width],
            width,
        };
        KeyValueCache {
            layers: self.layers.iter().map(|_| part()).collect(),
            lengths: vec![0; sequences],
            capacity,
        }
    }

    /// Tokens with their times added, normalised.
    fn embed(&self, tokens: Tensor<2>, times: &[u32]) -> Tensor<2> {
        assert_eq!(tokens.dims()[0], times.len(), "a time for every token");
        let last = self.time.dims()[0] as u32 - 1;
        let times: Vec<u32> = times.iter().map(|&time| time.min(last)).collect();
        self.first_norm.forward(tokens + gather_rows(self.time.val(), &times))
    }
}

impl Layer {
    fn network(&self, x: Tensor<2>) -> Tensor<2> {
        self.network_out.forward(self.network_in.forward_relu(self.network_norm.forward(x)))
    }
}

/// Keys and values of the tokens that several sequences have had so far.
#[derive(Clone, Debug)]
pub struct KeyValueCache {
    layers: Vec<Part>,
    lengths: Vec<usize>,
    capacity: usize,
}

/// Of one layer, each `[sequences, capacity, width]`.
#[derive(Clone, Debug)]
struct Part {
    keys: Vec<f32>,
    values: Vec<f32>,
    width: usize,
}

impl Part {
    /// Puts a token's key and value at the end of a sequence, and returns all that are then seen.
    fn put(
        &mut self,
        sequence: usize,
        seen: usize,
        capacity: usize,
        key: &[f32],
        value: &[f32],
    ) -> (&[f32], &[f32]) {
        assert!(seen <= capacity, "the cache has room for {capacity} tokens a sequence");
        let start = sequence * capacity * self.width;
        let end = start + seen * self.width;
        self.keys[end - self.width..end].copy_from_slice(key);
        self.values[end - self.width..end].copy_from_slice(value);
        (&self.keys[start..end], &self.values[start..end])
    }
}

impl KeyValueCache {
    /// The tokens of a sequence so far.
    pub fn length(&self, sequence: usize) -> usize {
        self.lengths[sequence]
    }

    /// Makes room for more sequences, if there are fewer.
    pub fn grow(&mut self, sequences: usize) {
        let sequences = sequences.max(self.lengths.len());
        for part in &mut self.layers {
            let size = sequences * self.capacity * part.width;
            part.keys.resize(size, 0.0);
            part.values.resize(size, 0.0);
        }
        self.lengths.resize(sequences, 0);
    }

    /// Forgets a sequence.
    pub fn clear(&mut self, sequence: usize) {
        self.lengths[sequence] = 0;
    }

    /// Forgets the oldest tokens of a sequence.
    pub fn forget(&mut self, sequence: usize, tokens: usize) {
        let left = self.lengths[sequence].saturating_sub(tokens);
        let gone = self.lengths[sequence] - left;
        for part in &mut self.layers {
            let start = sequence * self.capacity * part.width;
            let from = start + gone * part.width..start + (gone + left) * part.width;
            part.keys.copy_within(from.clone(), start);
            part.values.copy_within(from, start);
        }
        self.lengths[sequence] = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{assert_close, device, random, values};
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    fn transformer() -> Transformer {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let config = TransformerConfig::new(10).with_width(16).with_heads(2).with_layers(2);
        config.init(&device(), &mut rng)
    }

    /// All tokens.
    fn forward(
        transformer: &Transformer,
        tokens: &Tensor<2>,
        times: &[u32],
        offsets: &[usize],
    ) -> Vec<f32> {
        let all: Vec<u32> = (0..times.len() as u32).collect();
        let noise = &mut Noise::new(0);
        values(&transformer.forward(tokens.clone(), times, offsets, &all, noise))
    }

    /// A later token changes nothing before it, and nothing in another sequence.
    #[test]
    fn nobody_looks_ahead_or_across() {
        let transformer = transformer().valid();
        let tokens: Tensor<2> = random([7, 16], 1).inner();
        let times = [0, 0, 1, 1, 0, 0, 1];
        let before = forward(&transformer, &tokens, &times, &[0, 4, 7]);
        let changed = Tensor::cat(
            vec![
                tokens.clone().narrow(0, 0, 2),
                random([1, 16], 9).inner(),
                tokens.narrow(0, 3, 4),
            ],
            0,
        );
        let after = forward(&transformer, &changed, &times, &[0, 4, 7]);
        for token in 0..7 {
            let row = token * 16..(token + 1) * 16;
            let same = before[row.clone()] == after[row];
            assert_eq!(same, token != 2 && token != 3, "token {token}");
        }
    }

    /// Token by token, or in chunks, with a cache: the same as all at once.
    #[test]
    fn extending_a_cache_is_running_over_the_whole() {
        let transformer = transformer().valid();
        let (sequences, length) = (3, 6);
        let tokens: Tensor<2> = random([sequences * length, 16], 3).inner();
        let times: Vec<u32> =
            (0..sequences * length).map(|row| (row % length / 3) as u32).collect();
        let whole = forward(&transformer, &tokens, &times, &[0, 6, 12, 18]);
        for chunk in [1, 2, 3] {
            let mut cache = transformer.cache(sequences, length);
            for start in (0..length).step_by(chunk) {
                // In any order.
                let order = [2, 0, 1];
                let rows: Vec<u32> = order
                    .iter()
                    .flat_map(|s| (start..start + chunk).map(move |at| (s * length + at) as u32))
                    .collect();
                let some = gather_rows(tokens.clone(), &rows);
                let some_times: Vec<u32> = rows.iter().map(|&row| times[row as usize]).collect();
                let output = values(&transformer.extend(some, &some_times, &order, &mut cache));
                for (output, &row) in output.chunks(16).zip(&rows) {
                    let row = row as usize * 16;
                    assert_close("extended", output, &whole[row..row + 16], 1e-5);
                }
            }
            assert_eq!(cache.length(0), length);
        }
    }

    #[test]
    fn forgetting_keeps_the_newest() {
        let transformer = transformer().valid();
        let tokens: Tensor<2> = random([4, 16], 3).inner();
        let mut cache = transformer.cache(1, 4);
        transformer.extend(tokens.clone(), &[0, 1, 2, 3], &[0], &mut cache);
        let newest = cache.layers[0].keys[3 * 16..].to_vec();
        cache.forget(0, 3);
        assert_eq!(cache.length(0), 1);
        assert_eq!(cache.layers[0].keys[..16], newest);
        cache.clear(0);
        assert_eq!(cache.length(0), 0);
    }

    #[test]
    fn only_what_is_wanted_is_returned() {
        let transformer = transformer().valid();
        let tokens: Tensor<2> = random([5, 16], 3).inner();
        let times = [0, 1, 2, 0, 1];
        let all = forward(&transformer, &tokens, &times, &[0, 3, 5]);
        let noise = &mut Noise::new(0);
        let some = values(&transformer.forward(tokens, &times, &[0, 3, 5], &[1, 4], noise));
        assert_close("wanted", &some, &[&all[16..32], &all[64..]].concat(), 1e-6);
    }

    #[test]
    fn late_times_share_the_last_embedding() {
        let transformer = transformer().valid();
        let token: Tensor<2> = random([1, 16], 1).inner();
        let at = |time| forward(&transformer, &token, &[time], &[0, 1]);
        assert_eq!(at(9), at(500));
        assert_ne!(at(9), at(8));
    }
}
