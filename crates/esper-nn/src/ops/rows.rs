//! Small operations on rows: picking them, dropout, and turning gradients round.

use burn::tensor::{Int, Tensor, TensorData};

use super::{Op, Values, apply, inputs};
use crate::kernels::math::uniform;
use crate::kernels::memory::Buffer;
use crate::kernels::rows;

/// Copies rows of a matrix (`[rows, width]`) into a new one (`[indices, width]`); a row may be copied several times.
///
/// # Panics
///
/// When an index is no row.
pub fn gather_rows(matrix: Tensor<2>, indices: &[u32]) -> Tensor<2> {
    match inputs![&matrix] {
        Some(inputs) => apply(Gather { indices: indices.into() }, inputs),
        None => gather_composed(matrix, indices),
    }
}

pub(crate) fn gather_composed(matrix: Tensor<2>, indices: &[u32]) -> Tensor<2> {
    let device = matrix.device();
    let indices: Vec<i32> = indices.iter().map(|&index| index as i32).collect();
    let count = indices.len();
    matrix.select(0, Tensor::<1, Int>::from_data(TensorData::new(indices, [count]), &device))
}

#[derive(Clone, Debug)]
struct Gather {
    indices: std::sync::Arc<[u32]>,
}

impl Op<1> for Gather {
    /// The number of rows of the matrix.
    type Saved = usize;

    fn forward(&self, [matrix]: [Values; 1]) -> (Values, usize) {
        let width = matrix.width();
        let gathered = rows::gather(matrix.get(), width, &self.indices);
        (Values::new(gathered, [self.indices.len(), width]), matrix.rows())
    }

    fn backward(self, count: usize, gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        let width = gradient.width();
        let mut sums = Buffer::zeros(count * width);
        rows::scatter_add(&mut sums, width, gradient.get(), &self.indices);
        [Some(Values::new(sums, [count, width]))]
    }
}

/// Dropout: sets each number to zero with probability `rate` and scales the others up. `key` decides which.
pub(crate) fn dropout(input: Tensor<2>, rate: f64, key: u64) -> Tensor<2> {
    if rate == 0.0 {
        return input;
    }
    match inputs![&input] {
        Some(inputs) => apply(Dropout { rate: rate as f32, key }, inputs),
        None => dropout_composed(input, rate, key),
    }
}

pub(crate) fn dropout_composed(input: Tensor<2>, rate: f64, key: u64) -> Tensor<2> {
    let [count, width] = input.dims();
    let scale = 1.0 / (1.0 - rate as f32);
    let keep = |at: usize| if uniform(key, at as u32) >= rate as f32 { scale } else { 0.0 };
    let mask: Vec<f32> = (0..count * width).map(keep).collect();
    let mask = Tensor::<2>::from_data(TensorData::new(mask, [count, width]), &input.device());
    input * mask
}

#[derive(Clone, Debug)]
struct Dropout {
    rate: f32,
    key: u64,
}

impl Op<1> for Dropout {
    type Saved = ();

    fn forward(&self, [mut input]: [Values; 1]) -> (Values, ()) {
        rows::dropout(input.get_mut(), self.rate, self.key);
        (input, ())
    }

    fn backward(self, (): (), mut gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        rows::dropout(gradient.get_mut(), self.rate, self.key);
        [Some(gradient)]
    }
}

/// `residual + dropout(input)`, in one pass.
pub(crate) fn add_dropped(residual: Tensor<2>, input: Tensor<2>, rate: f64, key: u64) -> Tensor<2> {
    match inputs![&residual, &input] {
        Some(inputs) => apply(AddDropped(Dropout { rate: rate as f32, key }), inputs),
        None => residual + dropout_composed(input, rate, key),
    }
}

#[derive(Clone, Debug)]
struct AddDropped(Dropout);

impl Op<2> for AddDropped {
    type Saved = ();

    fn forward(&self, [residual, mut input]: [Values; 2]) -> (Values, ()) {
        if self.0.rate > 0.0 {
            rows::dropout(input.get_mut(), self.0.rate, self.0.key);
        }
        rows::add(input.get_mut(), residual.get());
        (input, ())
    }

    fn backward(self, (): (), gradient: Values, _: [bool; 2]) -> [Option<Values>; 2] {
        let mut dropped = gradient.clone();
        if self.0.rate > 0.0 {
            rows::dropout(dropped.get_mut(), self.0.rate, self.0.key);
        }
        [Some(gradient), Some(dropped)]
    }
}

/// Passes the numbers on as they are, and their gradient multiplied by `factor` on the way back.
///
/// With a negative factor, what comes before learns to do the opposite of what comes after: one backward pass trains both
/// sides of an adversarial game.
pub fn scale_gradient(input: Tensor<2>, factor: f32) -> Tensor<2> {
    match inputs![&input] {
        Some(inputs) => apply(ScaleGradient { factor }, inputs),
        None => scale_gradient_composed(input, factor),
    }
}

pub(crate) fn scale_gradient_composed(input: Tensor<2>, factor: f32) -> Tensor<2> {
    let scaled = input.clone() * factor;
    (input - scaled.clone()).detach() + scaled
}

#[derive(Clone, Debug)]
struct ScaleGradient {
    factor: f32,
}

impl Op<1> for ScaleGradient {
    type Saved = ();

    fn forward(&self, [input]: [Values; 1]) -> (Values, ()) {
        (input, ())
    }

    fn backward(self, (): (), mut gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        gradient.get_mut().iter_mut().for_each(|value| *value *= self.factor);
        [Some(gradient)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{
        Inputs, assert_close, assert_gradients, assert_same_as_composed, random, values,
    };

    fn one(matrix: Tensor<2>) -> Inputs {
        Inputs { matrices: vec![matrix], vectors: vec![] }
    }

    #[test]
    fn gathering_is_selecting() {
        for (rows, width, indices) in [
            (1, 1, vec![0, 0]),
            (4, 3, vec![3, 0, 0, 2, 3]),
            (200, 100, (0..900).map(|i| i * 7 % 200).collect()),
        ] {
            let inputs = one(random([rows, width], 1));
            let fused = |i: &Inputs| gather_rows(i.matrices[0].clone(), &indices);
            let reference = |i: &Inputs| gather_composed(i.matrices[0].clone(), &indices);
            assert_same_as_composed("gather", &fused, &reference, &inputs);
            if rows == 4 {
                assert_gradients("gather", &fused, &inputs);
            }
        }
    }

    #[test]
    fn dropout_is_a_mask() {
        for (rows, width) in [(1, 1), (3, 5), (300, 120)] {
            let inputs = one(random([rows, width], 1));
            assert_same_as_composed(
                "dropout",
                &|i| dropout(i.matrices[0].clone(), 0.3, 9),
                &|i| dropout_composed(i.matrices[0].clone(), 0.3, 9),
                &inputs,
            );
            let both = Inputs {
                matrices: vec![random([rows, width], 1), random([rows, width], 2)],
                vectors: vec![],
            };
            for rate in [0.0, 0.3] {
                assert_same_as_composed(
                    "add dropped",
                    &|i| add_dropped(i.matrices[0].clone(), i.matrices[1].clone(), rate, 9),
                    &|i| i.matrices[0].clone() + dropout_composed(i.matrices[1].clone(), rate, 9),
                    &both,
                );
            }
        }
    }

    #[test]
    fn dropout_keeps_the_mean() {
        let ones = Tensor::<2>::ones([300, 300], &crate::ops::testing::device());
        let dropped = values(&dropout(ones, 0.1, 3));
        let mean = dropped.iter().sum::<f32>() / dropped.len() as f32;
        let zeros = dropped.iter().filter(|&&value| value == 0.0).count() as f32 / 90_000.0;
        assert!((mean - 1.0).abs() < 0.01 && (zeros - 0.1).abs() < 0.01, "{mean}, {zeros}");
    }

    /// Not a derivative of what is computed, so there is nothing to take differences of.
    #[test]
    fn gradients_are_scaled_and_values_are_not() {
        let inputs = one(random([4, 3], 1));
        assert_same_as_composed(
            "scale gradient",
            &|i| scale_gradient(i.matrices[0].clone(), -0.5),
            &|i| scale_gradient_composed(i.matrices[0].clone(), -0.5),
            &inputs,
        );
        let input = inputs.matrices[0].clone().require_grad();
        let gradients = scale_gradient(input.clone(), -0.5).sum().backward();
        let gradient = values(&input.grad(&gradients).unwrap());
        assert_close("gradient", &gradient, &[-0.5; 12], 0.0);
    }
}
