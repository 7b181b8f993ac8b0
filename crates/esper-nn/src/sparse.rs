//! Rows of zeros and ones, kept as the list of ones: what one-hot encoded observations are.

use std::sync::Arc;

use burn::tensor::{Device, Tensor, TensorData};

use crate::kernels::rows::ActiveRows;

/// A matrix of zeros and ones. Clones share their memory.
#[derive(Clone, Debug)]
pub struct SparseRows {
    features: usize,
    ends: Arc<[u32]>,
    indices: Arc<[u32]>,
}

impl SparseRows {
    /// Rows of `features` columns, where the ones of row `r` are `indices[ends[r - 1]..ends[r]]`.
    ///
    /// # Panics
    ///
    /// When the ends do not divide up the indices, or an index is not below `features`.
    pub fn new(features: usize, ends: Vec<u32>, indices: Vec<u32>) -> Self {
        assert!(ends.is_sorted(), "rows have to end in order");
        assert_eq!(ends.last().map_or(0, |&end| end as usize), indices.len(), "the last row ends");
        let highest = indices.iter().max().map_or(0, |&index| index as usize + 1);
        assert!(highest <= features, "feature {highest} of {features}");
        SparseRows { features, ends: ends.into(), indices: indices.into() }
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.ends.len()
    }

    /// The number of columns.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The matrix itself: `[rows, features]`.
    pub fn to_dense(&self, device: &Device) -> Tensor<2> {
        let mut dense = vec![0.0f32; self.rows() * self.features];
        let mut start = 0;
        for (row, &end) in self.ends.iter().enumerate() {
            for &index in &self.indices[start as usize..end as usize] {
                dense[row * self.features + index as usize] = 1.0;
            }
            start = end;
        }
        Tensor::from_data(TensorData::new(dense, [self.rows(), self.features]), device)
    }

    pub(crate) fn active(&self) -> ActiveRows<'_> {
        ActiveRows { ends: &self.ends, indices: &self.indices }
    }
}
