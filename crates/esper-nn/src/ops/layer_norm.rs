//! Layer normalisation.

use burn::tensor::{Tensor, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::norm::{self, EPSILON};
use crate::kernels::rows::relu_backward;

/// Normalises every row of `input` (`[rows, width]`) by its own mean and variance, and cuts it at zero if `relu`.
pub(crate) fn layer_norm(
    input: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    relu: bool,
) -> Tensor<2> {
    match inputs![&input, &gamma, &beta] {
        Some(inputs) => apply(LayerNorm { relu }, inputs),
        None => composed(input, gamma, beta, relu),
    }
}

/// The same of ordinary operations.
pub(crate) fn composed(
    input: Tensor<2>,
    gamma: Tensor<1>,
    beta: Tensor<1>,
    relu: bool,
) -> Tensor<2> {
    let centred = input.clone() - input.mean_dim(1);
    let variance = centred.clone().square().mean_dim(1);
    let output = centred / (variance + EPSILON).sqrt() * gamma.unsqueeze() + beta.unsqueeze();
    if relu { activation::relu(output) } else { output }
}

#[derive(Clone, Debug)]
struct LayerNorm {
    relu: bool,
}

#[derive(Clone, Debug)]
struct Saved {
    input: Values,
    gamma: Values,
    statistics: Vec<f32>,
    /// Where ReLU cut.
    output: Option<Values>,
}

impl Op<3> for LayerNorm {
    type Saved = Saved;

    fn forward(&self, [input, gamma, beta]: [Values; 3]) -> (Values, Saved) {
        let (output, statistics) =
            norm::layer_norm(input.get(), gamma.get(), beta.get(), self.relu);
        let output = Values::new(output, [input.rows(), input.width()]);
        let cut = self.relu.then(|| output.clone());
        (output, Saved { input, gamma, statistics, output: cut })
    }

    fn backward(
        self,
        Saved { input, gamma, statistics, output }: Saved,
        mut gradient: Values,
        _: [bool; 3],
    ) -> [Option<Values>; 3] {
        let width = input.width();
        if let Some(output) = output {
            relu_backward(gradient.get_mut(), output.get());
        }
        let (to, input, gamma) = (gradient.get_mut(), input.get(), gamma.get());
        let of_parameters = norm::layer_norm_backward(to, input, &statistics, gamma);
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
    use crate::ops::testing::{Inputs, assert_gradients, assert_same_as_composed, random};

    #[test]
    fn gradients_are_right() {
        for (rows, width) in [(1, 3), (4, 2), (3, 35), (300, 128)] {
            let vectors = vec![random([width], 2), random([width], 3)];
            let inputs = Inputs { matrices: vec![random([rows, width], 1)], vectors };
            let part =
                |i: &Inputs| (i.matrices[0].clone(), i.vectors[0].clone(), i.vectors[1].clone());
            for relu in [false, true] {
                let fused = |i: &Inputs| {
                    let (input, gamma, beta) = part(i);
                    layer_norm(input, gamma, beta, relu)
                };
                let reference = |i: &Inputs| {
                    let (input, gamma, beta) = part(i);
                    composed(input, gamma, beta, relu)
                };
                assert_same_as_composed("layer norm", &fused, &reference, &inputs);
                if width == 35 && !relu {
                    assert_gradients("layer norm", &fused, &inputs);
                }
            }
        }
    }
}
