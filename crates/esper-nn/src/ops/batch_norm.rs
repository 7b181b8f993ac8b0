//! Batch normalisation, optionally cut at zero.

use burn::tensor::{Tensor, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::norm::{self, ColumnStatistics, EPSILON};

/// The mean and variance of every column of a batch: what the running ones are updated with.
pub(crate) struct BatchStatistics {
    pub(crate) mean: Tensor<1>,
    /// With the count less one as divisor, as PyTorch keeps it.
    pub(crate) variance: Tensor<1>,
}

/// Normalises every column of `input` (`[rows, width]`) by its own mean and variance.
pub(crate) fn batch_norm(
    input: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    relu: bool,
) -> (Tensor<2>, BatchStatistics) {
    let device = input.device();
    let [rows, width] = input.dims();
    let unbiased = if rows > 1 { rows as f32 / (rows - 1) as f32 } else { 1.0 };
    let Some(inputs) = inputs![&input, &gamma, &beta] else {
        return composed(input, gamma, beta, relu);
    };
    let numbers = Values::on_cpu(&input).expect("it has just been found there");
    let statistics = norm::column_statistics(numbers.get(), width);
    drop(numbers);
    let tensor = |values: Vec<f32>| Tensor::<1>::from_floats(values.as_slice(), &device);
    let batch = BatchStatistics {
        mean: tensor(statistics.mean.clone()),
        variance: tensor(statistics.variance.iter().map(|v| v * unbiased).collect()),
    };
    (apply(BatchNorm { statistics, relu }, inputs), batch)
}

/// Normalises by statistics that are known: running ones, at evaluation.
pub(crate) fn batch_norm_with(
    input: Tensor<2>,
    mean: Tensor<1>,
    variance: Tensor<1>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    relu: bool,
) -> Tensor<2> {
    let scale = gamma / (variance + EPSILON).sqrt();
    let offset = beta - mean * scale.clone();
    let output = input * scale.unsqueeze() + offset.unsqueeze();
    if relu { activation::relu(output) } else { output }
}

/// The same of ordinary operations.
pub(crate) fn composed(
    input: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    relu: bool,
) -> (Tensor<2>, BatchStatistics) {
    let rows = input.dims()[0];
    let unbiased = if rows > 1 { rows as f64 / (rows - 1) as f64 } else { 1.0 };
    let mean = input.clone().mean_dim(0);
    let centred = input - mean.clone();
    let variance = centred.clone().square().mean_dim(0);
    let normal = centred / (variance.clone() + EPSILON).sqrt();
    let output = normal * gamma.unsqueeze() + beta.unsqueeze();
    let statistics = BatchStatistics {
        mean: mean.squeeze_dim(0).detach(),
        variance: (variance.squeeze_dim(0) * unbiased).detach(),
    };
    (if relu { activation::relu(output) } else { output }, statistics)
}

#[derive(Clone, Debug)]
struct BatchNorm {
    statistics: ColumnStatistics,
    relu: bool,
}

#[derive(Clone, Debug)]
struct Saved {
    input: Values,
    output: Values,
    gamma: Values,
}

impl Op<3> for BatchNorm {
    type Saved = Saved;

    fn forward(&self, [input, gamma, beta]: [Values; 3]) -> (Values, Saved) {
        let output =
            norm::batch_norm(input.get(), &self.statistics, gamma.get(), beta.get(), self.relu);
        let output = Values::new(output, [input.rows(), input.width()]);
        (output.clone(), Saved { input, output, gamma })
    }

    fn backward(
        self,
        Saved { input, output, gamma }: Saved,
        mut gradient: Values,
        _: [bool; 3],
    ) -> [Option<Values>; 3] {
        let width = input.width();
        let of_parameters = norm::batch_norm_backward(
            gradient.get_mut(),
            input.get(),
            output.get(),
            &self.statistics,
            gamma.get(),
            self.relu,
        );
        [
            Some(gradient),
            Some(Values::new(of_parameters.gamma, [width])),
            Some(Values::new(of_parameters.beta, [width])),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{
        Inputs, assert_close, assert_gradients, assert_same_as_composed, random, values,
    };

    fn fused(i: &Inputs, relu: bool) -> Tensor<2> {
        batch_norm(i.matrices[0].clone(), i.vectors[0].clone(), i.vectors[1].clone(), relu).0
    }

    fn reference(i: &Inputs, relu: bool) -> Tensor<2> {
        composed(i.matrices[0].clone(), i.vectors[0].clone(), i.vectors[1].clone(), relu).0
    }

    #[test]
    fn gradients_are_right() {
        for (rows, width) in [(1, 3), (2, 1), (5, 4), (40, 70), (700, 90)] {
            let vectors = vec![random([width], 2), random([width], 3)];
            let inputs = Inputs { matrices: vec![random([rows, width], 1)], vectors };
            for relu in [false, true] {
                let name = format!("{rows} x {width}, relu {relu}");
                assert_same_as_composed(
                    &name,
                    &|i| fused(i, relu),
                    &|i| reference(i, relu),
                    &inputs,
                );
            }
            if rows == 5 {
                assert_gradients("batch norm", &|i| fused(i, false), &inputs);
            }
        }
    }

    /// Numbers far from zero, whose squares would swallow their spread.
    #[test]
    fn a_large_offset_does_not_hide_the_variance() {
        let input: Tensor<2> = random([500, 3], 1) + 1000.0;
        let (_, fused) = batch_norm(input.clone(), random([3], 2), random([3], 3), false);
        let (_, reference) = composed(input, random([3], 2), random([3], 3), false);
        assert_close("mean", &values(&fused.mean), &values(&reference.mean), 1e-6);
        assert_close("variance", &values(&fused.variance), &values(&reference.variance), 1e-3);
    }

    /// With its own statistics the evaluation form gives what training gave.
    #[test]
    fn known_statistics_normalise_the_same_way() {
        let (input, gamma, beta) = (random([50, 6], 1), random([6], 2), random([6], 3));
        let (trained, batch) = batch_norm(input.clone(), gamma.clone(), beta.clone(), true);
        let biased = batch.variance * (49.0 / 50.0);
        let evaluated = batch_norm_with(input, batch.mean, biased, gamma, beta, true);
        assert_close("output", &values(&evaluated), &values(&trained), 1e-5);
    }
}
