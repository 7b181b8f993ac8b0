//! A linear layer over rows that are repeated, each time with other ones beside them: what the rows share is computed once.

use std::sync::Arc;

use burn::tensor::Tensor;

use super::linear::{RowsIn, linear};
use super::{Input, Op, Values, apply, inputs};
use crate::kernels::memory::Buffer;
use crate::kernels::rows;
use crate::sparse::SparseRows;

/// The rows `rows.gather(of).with_ones(ones)` without writing them down: for every number of `of` that row, and the ones
/// of its own that stand between the sparse and the dense part.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// What is repeated.
    pub rows: RowsIn,
    /// Which row each is a copy of.
    pub of: Arc<[u32]>,
    /// What each has of its own.
    pub ones: SparseRows,
}

/// [`linear`] of repeated rows, to the last bit where there are at least two of them.
pub(crate) fn linear_repeated(
    input: &Repeated,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    relu: bool,
) -> Tensor<2> {
    let Repeated { rows, of, ones } = input;
    assert_eq!(of.len(), ones.rows(), "every copy has its own ones");
    if Input::of(&weight).is_none() {
        let bias = bias.unwrap_or_else(|| Tensor::zeros([0], &weight.device()));
        return super::linear::composed(&rows.gather(of).with_ones(ones), weight, bias, relu);
    }
    // The columns of the ones stay empty in what is shared, so that all weights are in their places.
    let first = rows.sparse.as_ref().map_or(0, SparseRows::features);
    let none = SparseRows::new(ones.features(), vec![0; rows.rows()], Vec::new());
    let shared = linear(&rows.clone().with_ones(&none), weight.clone(), None, false);
    let bias = bias.unwrap_or_else(|| Tensor::zeros([0], &weight.device()));
    let op = Expand { of: of.clone(), ones: ones.clone(), first, relu };
    apply(op, inputs![&shared, &weight, &bias].expect("the weights are on the CPU"))
}

/// `shared[of] + ones · weight[first..] + bias`, cut at zero if `relu`; an empty bias is none.
#[derive(Clone, Debug)]
struct Expand {
    of: Arc<[u32]>,
    ones: SparseRows,
    first: usize,
    relu: bool,
}

#[derive(Clone, Debug)]
struct Saved {
    shared_rows: usize,
    weight_rows: usize,
    has_bias: bool,
    output: Option<Values>,
}

impl Op<3> for Expand {
    type Saved = Saved;

    fn forward(&self, [shared, weight, bias]: [Values; 3]) -> (Values, Saved) {
        let width = weight.width();
        let mut output = rows::gather(shared.get(), width, &self.of);
        let weights = &weight.get()[self.first * width..];
        rows::add_active(&mut output, width, self.ones.active(), weights);
        let has_bias = !bias.get().is_empty();
        if has_bias {
            rows::add_bias(&mut output, bias.get(), self.relu);
        } else if self.relu {
            rows::add_bias(&mut output, &vec![0.0; width], true);
        }
        let output = Values::new(output, [self.of.len(), width]);
        let saved = Saved {
            shared_rows: shared.rows(),
            weight_rows: weight.rows(),
            has_bias,
            output: self.relu.then(|| output.clone()),
        };
        (output, saved)
    }

    fn backward(
        self,
        saved: Saved,
        mut gradient: Values,
        [shared_needed, weight_needed, bias_needed]: [bool; 3],
    ) -> [Option<Values>; 3] {
        let Saved { shared_rows, weight_rows, has_bias, output } = saved;
        let width = gradient.width();
        if let Some(output) = output {
            rows::relu_backward(gradient.get_mut(), output.get());
        }
        let gradient = gradient.get();
        let shared = shared_needed.then(|| {
            let mut sums = Buffer::zeros(shared_rows * width);
            rows::scatter_add(&mut sums, width, gradient, &self.of);
            Values::new(sums, [shared_rows, width])
        });
        let weight = weight_needed.then(|| {
            let mut result = Buffer::zeros(weight_rows * width);
            let (active, features) = (self.ones.active(), self.ones.features());
            let own = &mut result[self.first * width..(self.first + features) * width];
            rows::active_weights_gradient(own, gradient, width, active, features);
            Values::new(result, [weight_rows, width])
        });
        let bias = (bias_needed && has_bias)
            .then(|| Values::new(rows::column_sums(gradient, width), [width]));
        [shared, weight, bias]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Inputs, assert_gradients, assert_same_as_composed, random, values};

    /// Two rows of three ones and two numbers, repeated four times with one of two ones beside them.
    fn repeated(dense: Tensor<2>) -> Repeated {
        Repeated {
            rows: (SparseRows::new(3, vec![2, 3], vec![0, 2, 1]), dense).into(),
            of: [1, 0, 1, 1].into(),
            ones: SparseRows::new(2, vec![1, 2, 3, 3], vec![0, 1, 1]),
        }
    }

    #[test]
    fn it_is_the_layer_of_what_is_written_out() {
        for relu in [false, true] {
            for bias in [vec![], vec![random([6], 3)]] {
                let inputs =
                    Inputs { matrices: vec![random([7, 6], 1), random([2, 2], 2)], vectors: bias };
                let layer = |i: &Inputs| {
                    let (weight, bias) = (i.matrices[0].clone(), i.vectors.first().cloned());
                    linear_repeated(&repeated(i.matrices[1].clone()), weight, bias, relu)
                };
                let written_out = |i: &Inputs| {
                    let Repeated { rows, of, ones } = repeated(i.matrices[1].clone());
                    let rows = rows.gather(&of).with_ones(&ones);
                    linear(&rows, i.matrices[0].clone(), i.vectors.first().cloned(), relu)
                };
                assert_eq!(values(&layer(&inputs)), values(&written_out(&inputs)));
                assert_same_as_composed("repeated", &layer, &written_out, &inputs);
                if !relu {
                    assert_gradients("repeated", &layer, &inputs);
                }
            }
        }
    }
}
