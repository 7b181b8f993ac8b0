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

    /// Some of the rows; a row may be copied several times.
    ///
    /// # Panics
    ///
    /// When one of them is no row.
    pub fn gather(&self, rows: &[u32]) -> Self {
        let (mut ends, mut indices) = (Vec::with_capacity(rows.len()), Vec::new());
        for &row in rows {
            indices.extend_from_slice(self.row(row as usize));
            ends.push(indices.len() as u32);
        }
        SparseRows { features: self.features, ends: ends.into(), indices: indices.into() }
    }

    /// These columns, then those of another matrix with as many rows.
    ///
    /// # Panics
    ///
    /// When it has another number of rows.
    pub fn beside(&self, other: &SparseRows) -> Self {
        assert_eq!(self.rows(), other.rows(), "as many rows as there are");
        let offset = self.features as u32;
        let mut indices = Vec::with_capacity(self.indices.len() + other.indices.len());
        let ends = (0..self.rows()).map(|row| {
            indices.extend_from_slice(self.row(row));
            indices.extend(other.row(row).iter().map(|index| index + offset));
            indices.len() as u32
        });
        let ends: Arc<[u32]> = ends.collect();
        let features = self.features + other.features;
        SparseRows { features, ends, indices: indices.into() }
    }

    /// The ones of a row.
    fn row(&self, row: usize) -> &[u32] {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.indices[start as usize..self.ends[row] as usize]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::values;

    #[test]
    fn rows_are_copied_and_put_side_by_side() {
        let matrix = SparseRows::new(3, vec![1, 1, 3], vec![2, 0, 1]);
        let copied = matrix.gather(&[2, 0, 2]).beside(&SparseRows::new(1, vec![0, 1, 1], vec![0]));
        let expected = [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0];
        assert_eq!(values(&copied.to_dense(&Device::flex())), expected);
    }
}
