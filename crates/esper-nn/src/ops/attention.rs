//! Causal self-attention over packed sequences as one operation.

use burn::tensor::{Bool, Tensor, TensorData, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::attention::{self, Shape};
use crate::kernels::math::uniform;
use crate::kernels::memory::Buffer;
use crate::ops::rows::gather_composed;

/// Attention of `qkv` (`[tokens, 3 · width]`: queries, keys, values side by side). Sequence `s` has the rows
/// `offsets[s]..offsets[s + 1]`; a token looks at itself and at those before it. Returns `[tokens, width]`.
pub(crate) fn attention(
    qkv: Tensor<2>,
    offsets: &[usize],
    heads: usize,
    dropout: Option<(f32, u64)>,
) -> Tensor<2> {
    let width = qkv.dims()[1] / 3;
    let shape = Shape { offsets: offsets.to_vec(), heads, width, dropout };
    match inputs![&qkv] {
        Some(inputs) => apply(Attention(shape), inputs),
        None => composed(qkv, &shape),
    }
}

/// The same of ordinary operations, all sequences and heads at once: what a GPU wants is few operations. Sequences are
/// filled up to the longest with rows that nobody looks at, since they come after all that count.
pub(crate) fn composed(qkv: Tensor<2>, shape: &Shape) -> Tensor<2> {
    let Shape { offsets, heads, width, .. } = shape;
    let (device, heads, head) = (qkv.device(), *heads, width / heads);
    let lengths: Vec<usize> = offsets.windows(2).map(|bounds| bounds[1] - bounds[0]).collect();
    let (count, longest) = (lengths.len(), lengths.iter().copied().max().unwrap_or(0));
    let (mut padded, mut counted) = (Vec::new(), Vec::new());
    for (sequence, &length) in lengths.iter().enumerate() {
        counted.extend((0..length).map(|at| (sequence * longest + at) as u32));
        let row = |at: usize| if at < length { (offsets[sequence] + at) as u32 } else { 0 };
        padded.extend((0..longest).map(row));
    }
    let parts = gather_composed(qkv, &padded).reshape([count, longest, 3, heads, head]);
    let parts: Tensor<5> = parts.permute([2, 0, 3, 1, 4]);
    let part = |kind: usize| -> Tensor<4> { parts.clone().narrow(0, kind, 1).squeeze_dim(0) };
    let scores = part(0).matmul(part(1).swap_dims(2, 3)) / (head as f32).sqrt();
    let unseen = (0..longest * longest).map(|cell| cell % longest > cell / longest).collect();
    let unseen = TensorData::new::<bool, _>(unseen, [1, 1, longest, longest]);
    let unseen = Tensor::<4, Bool>::from_data(unseen, &device).expand(scores.dims());
    let mut weights = activation::softmax(scores.mask_fill(unseen, f32::NEG_INFINITY), 3);
    if let Some(mask) = dropout_mask(shape, &lengths, longest) {
        let mask = TensorData::new(mask, [count, heads, longest, longest]);
        weights = weights * Tensor::<4>::from_data(mask, &device);
    }
    let attended = weights.matmul(part(2)).swap_dims(1, 2).reshape([count * longest, *width]);
    gather_composed(attended, &counted)
}

/// What attention weights `[sequences, heads, longest, longest]` are multiplied by. Draws are numbered as the kernel
/// numbers them, which knows no filling.
fn dropout_mask(shape: &Shape, lengths: &[usize], longest: usize) -> Option<Vec<f32>> {
    let (rate, key) = shape.dropout?;
    let scale = 1.0 / (1.0 - rate);
    let mut mask = vec![0.0; lengths.len() * shape.heads * longest * longest];
    let heads = lengths.iter().flat_map(|&length| std::iter::repeat_n(length, shape.heads));
    let mut number = 0;
    for (head, length) in heads.enumerate() {
        for row in 0..length {
            let start = (head * longest + row) * longest;
            for cell in &mut mask[start..start + length] {
                *cell = if uniform(key, number) >= rate { scale } else { 0.0 };
                number += 1;
            }
        }
    }
    Some(mask)
}

#[derive(Clone, Debug)]
struct Attention(Shape);

#[derive(Clone, Debug)]
struct Saved {
    qkv: Values,
    weights: Buffer,
}

impl Op<1> for Attention {
    type Saved = Saved;

    fn forward(&self, [qkv]: [Values; 1]) -> (Values, Saved) {
        let (output, weights) = attention::forward(qkv.get(), &self.0);
        (Values::new(output, [qkv.rows(), self.0.width]), Saved { qkv, weights })
    }

    fn backward(
        self,
        Saved { qkv, weights }: Saved,
        gradient: Values,
        _: [bool; 1],
    ) -> [Option<Values>; 1] {
        let result = attention::backward(gradient.get(), qkv.get(), &weights, &self.0);
        [Some(Values::new(result, [qkv.rows(), qkv.width()]))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Inputs, assert_gradients, assert_same_as_composed, random};

    #[test]
    fn gradients_are_right() {
        let cases: [(&[usize], usize, usize); 5] = [
            (&[0, 1], 1, 2),
            (&[0, 1, 2, 3], 1, 4),
            (&[0, 3, 4, 9], 1, 4),
            (&[0, 2, 7], 2, 6),
            (&[0, 60, 75, 135], 2, 64),
        ];
        for (offsets, heads, width) in cases {
            let tokens = offsets[offsets.len() - 1];
            let inputs = Inputs { matrices: vec![random([tokens, 3 * width], 1)], vectors: vec![] };
            for dropout in [None, Some((0.4, 7))] {
                let shape = Shape { offsets: offsets.to_vec(), heads, width, dropout };
                let fused = |i: &Inputs| attention(i.matrices[0].clone(), offsets, heads, dropout);
                let reference = |i: &Inputs| composed(i.matrices[0].clone(), &shape);
                let name = format!("{offsets:?} heads {heads} dropout {dropout:?}");
                assert_same_as_composed(&name, &fused, &reference, &inputs);
                if tokens < 10 {
                    assert_gradients(&name, &fused, &inputs);
                }
            }
        }
    }
}
