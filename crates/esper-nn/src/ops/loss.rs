//! Losses of predictions over rows that may count differently, or not at all.

use burn::tensor::{Int, Tensor, TensorData, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::softmax;

/// Which rows count, and how much: all the same, or by weights (zero leaves a row out).
pub type RowWeights<'a> = Option<&'a [f32]>;

/// The mean cross-entropy of logits (`[rows, categories]`) against the categories that came to be.
///
/// # Panics
///
/// When there is not one target and one weight a row, or a target is no category.
pub fn cross_entropy(logits: Tensor<2>, targets: &[u32], weights: RowWeights<'_>) -> Tensor<1> {
    let [rows, width] = logits.dims();
    check(rows, targets.len(), weights);
    assert!(targets.iter().all(|&target| (target as usize) < width), "a target is no category");
    match inputs![&logits] {
        Some(inputs) => {
            let targets = Targets::Categories(targets.to_vec());
            apply(Loss { targets, weights: weights.map(<[f32]>::to_vec) }, inputs)
        }
        None => cross_entropy_composed(logits, targets, weights),
    }
}

/// The mean over rows and columns of the squared error of predictions (`[rows, width]`) against targets.
///
/// # Panics
///
/// When targets and predictions have different shapes, or there is not one weight a row.
pub fn squared_error(
    predictions: Tensor<2>,
    targets: Tensor<2>,
    weights: RowWeights<'_>,
) -> Tensor<1> {
    assert_eq!(predictions.dims(), targets.dims(), "a target for every prediction");
    check(predictions.dims()[0], targets.dims()[0], weights);
    match (inputs![&predictions], Values::on_cpu(&targets)) {
        (Some(inputs), Some(targets)) => {
            let (targets, weights) = (Targets::Values(targets), weights.map(<[f32]>::to_vec));
            apply(Loss { targets, weights }, inputs)
        }
        _ => squared_error_composed(predictions, targets, weights),
    }
}

fn check(rows: usize, targets: usize, weights: RowWeights<'_>) {
    assert_eq!(rows, targets, "a target for every row");
    assert!(weights.is_none_or(|weights| weights.len() == rows), "a weight for every row");
}

/// The weights as a column that sums to one (to zero if all are zero).
fn shares(rows: usize, weights: RowWeights<'_>, like: &Tensor<2>) -> Tensor<2> {
    let weights = weights.map_or_else(|| vec![1.0; rows], <[f32]>::to_vec);
    let total: f32 = weights.iter().sum();
    let scale = if total > 0.0 { 1.0 / total } else { 0.0 };
    let shares: Vec<f32> = weights.iter().map(|weight| weight * scale).collect();
    Tensor::from_data(TensorData::new(shares, [rows, 1]), &like.device())
}

pub(crate) fn cross_entropy_composed(
    logits: Tensor<2>,
    targets: &[u32],
    weights: RowWeights<'_>,
) -> Tensor<1> {
    let rows = targets.len();
    let shares = shares(rows, weights, &logits);
    let targets: Vec<i32> = targets.iter().map(|&target| target as i32).collect();
    let targets =
        Tensor::<2, Int>::from_data(TensorData::new(targets, [rows, 1]), &logits.device());
    (activation::log_softmax(logits, 1).gather(1, targets).neg() * shares).sum()
}

pub(crate) fn squared_error_composed(
    predictions: Tensor<2>,
    targets: Tensor<2>,
    weights: RowWeights<'_>,
) -> Tensor<1> {
    let shares = shares(predictions.dims()[0], weights, &predictions);
    ((predictions - targets.detach()).square().mean_dim(1) * shares).sum()
}

#[derive(Clone, Debug)]
struct Loss {
    targets: Targets,
    weights: Option<Vec<f32>>,
}

#[derive(Clone, Debug)]
enum Targets {
    Categories(Vec<u32>),
    Values(Values),
}

impl Op<1> for Loss {
    /// The gradient, computed along with the loss.
    type Saved = Values;

    fn forward(&self, [predictions]: [Values; 1]) -> (Values, Values) {
        let (width, weights) = (predictions.width(), self.weights.as_deref());
        let loss = match &self.targets {
            Targets::Categories(targets) => {
                softmax::cross_entropy(predictions.get(), width, targets, weights)
            }
            Targets::Values(targets) => {
                softmax::squared_error(predictions.get(), width, targets.get(), weights)
            }
        };
        let gradient = Values::new(loss.gradient, [predictions.rows(), width]);
        (Values::new(vec![loss.value], [1]), gradient)
    }

    fn backward(self, mut saved: Values, gradient: Values, _: [bool; 1]) -> [Option<Values>; 1] {
        let scale = gradient.get()[0];
        if scale != 1.0 {
            saved.get_mut().iter_mut().for_each(|value| *value *= scale);
        }
        [Some(saved)]
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
    fn gradients_are_right() {
        for (rows, width) in [(1, 1), (1, 7), (6, 4), (300, 84)] {
            let inputs = one(random([rows, width], 1));
            let categories: Vec<u32> = (0..rows).map(|row| (row * 5 % width) as u32).collect();
            let targets: Tensor<2> = random([rows, width], 2);
            let some: Vec<f32> = (0..rows).map(|row| [1.0, 0.0, 2.5][row % 3]).collect();
            for weights in [None, Some(some.as_slice())] {
                let entropy = |i: &Inputs| {
                    cross_entropy(i.matrices[0].clone(), &categories, weights).unsqueeze()
                };
                let entropy_reference = |i: &Inputs| {
                    cross_entropy_composed(i.matrices[0].clone(), &categories, weights).unsqueeze()
                };
                assert_same_as_composed("cross entropy", &entropy, &entropy_reference, &inputs);
                let squares = |i: &Inputs| {
                    squared_error(i.matrices[0].clone(), targets.clone(), weights).unsqueeze()
                };
                let squares_reference = |i: &Inputs| {
                    squared_error_composed(i.matrices[0].clone(), targets.clone(), weights)
                        .unsqueeze()
                };
                assert_same_as_composed("squared error", &squares, &squares_reference, &inputs);
                if rows == 6 {
                    assert_gradients("cross entropy", &entropy, &inputs);
                    assert_gradients("squared error", &squares, &inputs);
                }
            }
        }
    }

    #[test]
    fn rows_that_do_not_count_change_nothing() {
        let logits: Tensor<2> = random([3, 4], 1);
        let all = cross_entropy(logits.clone().narrow(0, 0, 2), &[1, 2], None);
        let masked = cross_entropy(logits.clone(), &[1, 2, 0], Some(&[1.0, 1.0, 0.0]));
        assert_close("loss", &values(&masked), &values(&all), 1e-6);
        let none = cross_entropy(logits, &[1, 2, 0], Some(&[0.0; 3]));
        assert_eq!(values(&none), [0.0]);
    }

    /// A uniform guess among n costs ln n.
    #[test]
    fn a_uniform_guess_costs_the_logarithm() {
        let logits = Tensor::<2>::zeros([5, 7], &crate::ops::testing::device());
        let loss = values(&cross_entropy(logits, &[0, 1, 2, 3, 6], None));
        assert_close("loss", &loss, &[7f32.ln()], 1e-6);
    }
}
