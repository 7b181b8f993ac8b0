//! `y = x · W + b`, optionally cut at zero; parts of `x` may be zeros and ones.

use burn::tensor::{Device, Tensor, activation};

use super::{Op, Values, apply, inputs};
use crate::kernels::gemm::{Into, Matrix, multiply};
use crate::kernels::memory::Buffer;
use crate::kernels::rows;
use crate::ops::rows::gather_rows;
use crate::sparse::SparseRows;

/// The rows that go into a layer: zeros and ones first, then numbers. Either may be missing; numbers that are missing
/// where the layer expects some count as zeros, at no cost.
#[derive(Clone, Debug)]
pub struct RowsIn {
    pub(crate) sparse: Option<SparseRows>,
    pub(crate) dense: Option<Tensor<2>>,
}

impl From<Tensor<2>> for RowsIn {
    fn from(dense: Tensor<2>) -> Self {
        RowsIn { sparse: None, dense: Some(dense) }
    }
}

impl From<SparseRows> for RowsIn {
    fn from(sparse: SparseRows) -> Self {
        RowsIn { sparse: Some(sparse), dense: None }
    }
}

impl From<(SparseRows, Tensor<2>)> for RowsIn {
    fn from((sparse, dense): (SparseRows, Tensor<2>)) -> Self {
        assert_eq!(sparse.rows(), dense.dims()[0], "both parts have the same rows");
        RowsIn { sparse: Some(sparse), dense: Some(dense) }
    }
}

impl RowsIn {
    /// The number of rows.
    pub fn rows(&self) -> usize {
        match (&self.sparse, &self.dense) {
            (Some(sparse), _) => sparse.rows(),
            (None, Some(dense)) => dense.dims()[0],
            (None, None) => 0,
        }
    }

    /// The number of columns of both parts.
    pub fn features(&self) -> usize {
        let sparse = self.sparse.as_ref().map_or(0, SparseRows::features);
        sparse + self.dense.as_ref().map_or(0, |dense| dense.dims()[1])
    }

    /// The same rows with those of another after them, column by column.
    pub fn beside(self, other: RowsIn) -> Self {
        let rows = match &other.sparse {
            Some(sparse) => self.with_ones(sparse),
            None => self,
        };
        match other.dense {
            Some(dense) => rows.with(dense),
            None => rows,
        }
    }

    /// The same rows with more columns at their end.
    pub fn with(self, columns: Tensor<2>) -> Self {
        assert_eq!(self.rows(), columns.dims()[0], "as many rows as there are");
        let RowsIn { sparse, dense } = self;
        let dense = match dense {
            Some(dense) => Tensor::cat(vec![dense, columns], 1),
            None => columns,
        };
        RowsIn { sparse, dense: Some(dense) }
    }

    /// The same rows with more columns of zeros and ones, between the sparse and the dense part.
    pub fn with_ones(self, columns: &SparseRows) -> Self {
        let RowsIn { sparse, dense } = self;
        let sparse = match sparse {
            Some(sparse) => sparse.beside(columns),
            None => columns.clone(),
        };
        RowsIn { sparse: Some(sparse), dense }
    }

    /// Some of the rows; a row may be copied several times.
    ///
    /// # Panics
    ///
    /// When one of them is no row.
    pub fn gather(&self, rows: &[u32]) -> Self {
        RowsIn {
            sparse: self.sparse.as_ref().map(|sparse| sparse.gather(rows)),
            dense: self.dense.clone().map(|dense| gather_rows(dense, rows)),
        }
    }

    /// Both parts side by side: `[rows, features]`.
    pub fn to_dense(&self, device: &Device) -> Tensor<2> {
        let sparse = self.sparse.as_ref().map(|sparse| sparse.to_dense(device));
        let parts: Vec<Tensor<2>> = sparse.into_iter().chain(self.dense.clone()).collect();
        Tensor::cat(parts, 1)
    }
}

/// `x · W + b`, cut at zero if `relu`. `weight` is `[features, outputs]`; the result `[rows, outputs]`. An input with
/// fewer features than the weights have rows counts as filled up with zeros.
pub(crate) fn linear(
    input: &RowsIn,
    weight: Tensor<2>,
    bias: Option<Tensor<1>>,
    relu: bool,
) -> Tensor<2> {
    let device = weight.device();
    // Missing parts become empty tensors, so that there is one operation and not four.
    let empty = || Tensor::<2>::zeros([input.rows(), 0], &device);
    let dense = input.dense.clone().unwrap_or_else(empty);
    let no_bias = || Tensor::<1>::zeros([0], &device);
    let bias = bias.unwrap_or_else(no_bias);
    match inputs![&dense, &weight, &bias] {
        Some(inputs) => apply(Linear { sparse: input.sparse.clone(), relu }, inputs),
        None => composed(input, weight, bias, relu),
    }
}

/// The same of ordinary operations. An empty bias is none.
pub(crate) fn composed(
    input: &RowsIn,
    weight: Tensor<2>,
    bias: Tensor<1>,
    relu: bool,
) -> Tensor<2> {
    let features = input.features();
    let mut output = input.to_dense(&weight.device()).matmul(weight.narrow(0, 0, features));
    if bias.dims()[0] > 0 {
        output = output + bias.unsqueeze();
    }
    if relu { activation::relu(output) } else { output }
}

#[derive(Clone, Debug)]
struct Linear {
    sparse: Option<SparseRows>,
    relu: bool,
}

impl Linear {
    fn sparse_features(&self) -> usize {
        self.sparse.as_ref().map_or(0, SparseRows::features)
    }
}

#[derive(Clone, Debug)]
struct Saved {
    dense: Values,
    weight: Values,
    output: Option<Values>,
    has_bias: bool,
}

impl Op<3> for Linear {
    type Saved = Saved;

    fn forward(&self, [dense, weight, bias]: [Values; 3]) -> (Values, Saved) {
        let (count, outputs) = (dense.rows(), weight.width());
        let (sparse_weights, dense_weights) =
            weight.get().split_at(self.sparse_features() * outputs);
        assert!(
            dense_weights.len() >= dense.width() * outputs,
            "the weights have a row for every feature"
        );
        // Features that are left out at the end count as zeros.
        let dense_weights = &dense_weights[..dense.width() * outputs];
        let mut output = match dense.width() {
            0 => Buffer::zeros(count * outputs),
            _ => Buffer::any(count * outputs),
        };
        if dense.width() > 0 {
            let (x, w) =
                (Matrix::rows(dense.get(), dense.width()), Matrix::rows(dense_weights, outputs));
            multiply(&mut output, Into::Replace, x, w);
        }
        if let Some(sparse) = &self.sparse {
            rows::add_active(&mut output, outputs, sparse.active(), sparse_weights);
        }
        let has_bias = !bias.get().is_empty();
        if has_bias {
            rows::add_bias(&mut output, bias.get(), self.relu);
        } else if self.relu {
            rows::add_bias(&mut output, &vec![0.0; outputs], true);
        }
        let output = Values::new(output, [count, outputs]);
        let saved = Saved { dense, weight, output: self.relu.then(|| output.clone()), has_bias };
        (output, saved)
    }

    fn backward(
        self,
        saved: Saved,
        mut gradient: Values,
        [dense_needed, weight_needed, bias_needed]: [bool; 3],
    ) -> [Option<Values>; 3] {
        let Saved { dense, weight, output, has_bias } = saved;
        let outputs = weight.width();
        if let Some(output) = output {
            rows::relu_backward(gradient.get_mut(), output.get());
        }
        let gradient = gradient.get();
        let sparse_size = self.sparse_features() * outputs;

        let dense_gradient = (dense_needed && dense.width() > 0).then(|| {
            let mut result = Buffer::any(dense.get().len());
            let dense_size = dense.width() * outputs;
            let weights = &weight.get()[sparse_size..sparse_size + dense_size];
            let weights = Matrix::rows(weights, outputs);
            multiply(&mut result, Into::Replace, Matrix::rows(gradient, outputs), weights.t());
            Values::new(result, [dense.rows(), dense.width()])
        });
        let weight_gradient = weight_needed.then(|| {
            let mut result = Buffer::any(weight.get().len());
            let (sparse_part, rest) = result.split_at_mut(sparse_size);
            let (dense_part, left_out) = rest.split_at_mut(dense.width() * outputs);
            left_out.fill(0.0);
            if dense.width() > 0 {
                let x = Matrix::rows(dense.get(), dense.width());
                multiply(dense_part, Into::Replace, x.t(), Matrix::rows(gradient, outputs));
            }
            if let Some(sparse) = &self.sparse {
                let active = sparse.active();
                let features = sparse.features();
                rows::active_weights_gradient(sparse_part, gradient, outputs, active, features);
            }
            Values::new(result, [weight.rows(), outputs])
        });
        let bias_gradient = (bias_needed && has_bias)
            .then(|| Values::new(rows::column_sums(gradient, outputs), [outputs]));
        [dense_gradient, weight_gradient, bias_gradient]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{
        Inputs, assert_close, assert_gradients, assert_same_as_composed, device, random, values,
    };

    fn sparse() -> SparseRows {
        SparseRows::new(4, vec![2, 2, 3, 6, 7], vec![0, 3, 1, 0, 1, 2, 3])
    }

    /// Fused and composed, over the parts an input can have.
    fn check(name: &str, inputs: &Inputs, sparse: Option<SparseRows>, relu: bool) {
        let rows = |inputs: &Inputs| RowsIn {
            sparse: sparse.clone(),
            dense: (inputs.matrices.len() > 1).then(|| inputs.matrices[1].clone()),
        };
        let bias = |inputs: &Inputs| inputs.vectors.first().cloned();
        let fused =
            |inputs: &Inputs| linear(&rows(inputs), inputs.matrices[0].clone(), bias(inputs), relu);
        let reference = |inputs: &Inputs| {
            let none = Tensor::zeros([0], &device());
            composed(&rows(inputs), inputs.matrices[0].clone(), bias(inputs).unwrap_or(none), relu)
        };
        assert_same_as_composed(name, &fused, &reference, inputs);
        if !relu {
            assert_gradients(name, &fused, inputs);
        }
    }

    #[test]
    fn gradients_are_right() {
        for relu in [false, true] {
            for (rows, features, outputs) in [(1, 1, 1), (1, 5, 3), (7, 3, 6), (33, 17, 20)] {
                let matrices = vec![random([features, outputs], 1), random([rows, features], 2)];
                let vectors = vec![random([outputs], 3)];
                check("dense", &Inputs { matrices, vectors }, None, relu);
            }
            let matrices = vec![random([3, 4], 1), random([5, 3], 2)];
            check("no bias", &Inputs { matrices, vectors: vec![] }, None, relu);
            let vectors = vec![random([6], 3)];
            let matrices = vec![random([4, 6], 1)];
            check("sparse", &Inputs { matrices, vectors: vectors.clone() }, Some(sparse()), relu);
            let matrices = vec![random([7, 6], 1), random([5, 3], 2)];
            check("both", &Inputs { matrices, vectors: vectors.clone() }, Some(sparse()), relu);
            let matrices = vec![random([9, 6], 1), random([5, 3], 2)];
            check("two left out", &Inputs { matrices, vectors }, Some(sparse()), relu);
        }
    }

    /// Numbers that are left out are zeros.
    #[test]
    fn a_missing_part_is_zero() {
        let weight: Tensor<2> = random([7, 6], 1);
        let zeros = Tensor::zeros([5, 3], &device());
        let with = linear(&RowsIn::from((sparse(), zeros)), weight.clone(), None, false);
        let without = linear(&RowsIn::from(sparse()), weight.clone(), None, false);
        assert_eq!(values(&with), values(&without));
        let reference =
            composed(&RowsIn::from(sparse()), weight, Tensor::zeros([0], &device()), false);
        assert_close("composed", &values(&without), &values(&reference), 1e-6);
    }

    /// Enough rows and columns that the work is cut into pieces.
    #[test]
    fn large_layers_agree_with_composed_ones() {
        let ends: Vec<u32> = (1..=600).map(|row| 3 * row).collect();
        let indices = (0..1800).map(|at| (at % 3) * 20 + (at * 7) % 20).collect();
        let sparse = SparseRows::new(60, ends, indices);
        let matrices = vec![random([100, 300], 1), random([600, 40], 2)];
        let inputs = Inputs { matrices, vectors: vec![random([300], 3)] };
        let rows = |i: &Inputs| RowsIn::from((sparse.clone(), i.matrices[1].clone()));
        let (w, b) = (|i: &Inputs| i.matrices[0].clone(), |i: &Inputs| i.vectors[0].clone());
        assert_same_as_composed(
            "large",
            &|i| linear(&rows(i), w(i), Some(b(i)), true),
            &|i| composed(&rows(i), w(i), b(i), true),
            &inputs,
        );
    }
}
