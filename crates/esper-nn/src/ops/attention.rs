//! Causal self-attention over packed sequences as one operation.

use burn::tensor::{Bool, Tensor, TensorData, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::attention::{self, Shape};
use crate::kernels::math::uniform;
use crate::kernels::memory::Buffer;

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

/// The same of ordinary operations, a sequence and a head at a time.
pub(crate) fn composed(qkv: Tensor<2>, shape: &Shape) -> Tensor<2> {
    let Shape { offsets, heads, width, dropout } = shape;
    let device = qkv.device();
    let head = width / heads;
    let mut first = 0; // of the attention weights, which dropout numbers
    let mut outputs = Vec::new();
    for bounds in offsets.windows(2) {
        let length = bounds[1] - bounds[0];
        let rows = qkv.clone().narrow(0, bounds[0], length);
        let mut of_heads = Vec::new();
        for at in 0..*heads {
            let part = |kind: usize| rows.clone().narrow(1, kind * width + at * head, head);
            let scores = part(0).matmul(part(1).transpose()) / (head as f32).sqrt();
            let unseen: Vec<bool> =
                (0..length * length).map(|cell| cell % length > cell / length).collect();
            let unseen =
                Tensor::<2, Bool>::from_data(TensorData::new(unseen, [length, length]), &device);
            let mut weights = activation::softmax(scores.mask_fill(unseen, f32::NEG_INFINITY), 1);
            if let Some((rate, key)) = dropout {
                let scale = 1.0 / (1.0 - rate);
                let mask: Vec<f32> = (0..length * length)
                    .map(|cell| uniform(*key, (first + cell) as u32))
                    .map(|draw| if draw >= *rate { scale } else { 0.0 })
                    .collect();
                weights = weights
                    * Tensor::<2>::from_data(TensorData::new(mask, [length, length]), &device);
            }
            of_heads.push(weights.matmul(part(2)));
            first += length * length;
        }
        outputs.push(Tensor::cat(of_heads, 1));
    }
    Tensor::cat(outputs, 0)
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
