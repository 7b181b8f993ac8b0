//! What networks see of observations and actions: one-hot features for categories, standardised numbers otherwise.

use burn::tensor::{Tensor, TensorData};
use esper_data::{CellsRef, Dataset, Moments, Space};
use esper_nn::{Device, RowsIn, SparseRows};
use serde::{Deserialize, Serialize};

/// How values of a space become features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Encoding {
    space: Space,
    /// For real numbers: what is taken away from each, and what it is then divided by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    scaling: Vec<Scale>,
    /// For real numbers: the lowest and the highest of each that was seen; files of before do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ranges: Vec<[f32; 2]>,
}

/// Makes a number have mean 0 and deviation 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// What is taken away.
    pub mean: f64,
    /// What the rest is divided by.
    pub deviation: f64,
}

impl Scale {
    /// The scale of some numbers; numbers that are all the same are only moved.
    pub fn of(numbers: impl Iterator<Item = f64> + Clone) -> Self {
        Self::given(Moments::of(numbers))
    }

    /// The scale of numbers with these moments.
    fn given(moments: Moments) -> Self {
        let (mean, deviation) = (moments.mean, moments.population_std());
        // What rounding leaves of numbers that do not differ is no deviation.
        let differ = deviation > 1e-9 * mean.abs().max(1e-3);
        Scale { mean, deviation: if differ { deviation } else { 1.0 } }
    }

    /// Whether it makes sense; one that was read from a file may not.
    pub(crate) fn check(self) -> Result<(), String> {
        let Scale { mean, deviation } = self;
        match mean.is_finite() && deviation.is_finite() && deviation > 0.0 {
            true => Ok(()),
            false => Err(format!("a scale has mean {mean} and deviation {deviation}")),
        }
    }

    /// From the world's units to the network's.
    pub fn apply(self, number: f64) -> f32 {
        ((number - self.mean) / self.deviation) as f32
    }

    /// From the network's units to the world's.
    pub fn undo(self, number: f32) -> f64 {
        f64::from(number) * self.deviation + self.mean
    }
}

/// Rows that are looked at together.
const ROWS_AT_ONCE: usize = 1 << 14;

/// Rows of one column of cells, to become features.
#[derive(Clone, Copy)]
pub struct Column<'a> {
    /// How.
    pub encoding: &'a Encoding,
    /// The cells.
    pub cells: CellsRef<'a>,
    /// Which values of them.
    pub rows: &'a [usize],
}

impl Encoding {
    /// The encoding of a space, with numbers scaled by what some rows of cells hold.
    pub fn fit(
        space: &Space,
        cells: CellsRef<'_>,
        rows: impl Iterator<Item = usize> + Clone,
    ) -> Self {
        let width = space.cells();
        let (scaling, ranges) = match cells {
            CellsRef::Float(numbers) => {
                let column = |cell: usize| rows.clone().map(move |row| numbers[row * width + cell]);
                let fitted = |cell: usize| {
                    let range = column(cell).fold([f32::MAX, f32::MIN], |[low, high], number| {
                        [low.min(number), high.max(number)]
                    });
                    (Scale::of(column(cell).map(f64::from)), range)
                };
                space.real_cells().into_iter().map(fitted).unzip()
            }
            _ => (Vec::new(), Vec::new()),
        };
        Encoding { space: space.clone(), scaling, ranges }
    }

    /// The same of rows that are seen some at a time, as [`Dataset::with_observations`] shows them. Sums are taken in the
    /// same order, so the scales have the same bits.
    pub(crate) fn fit_parts(
        space: &Space,
        rows: impl Iterator<Item = usize> + Clone,
        show: impl Fn(&[usize], &mut dyn FnMut(CellsRef<'_>, &[usize])),
    ) -> Self {
        let real = space.real_cells();
        if real.is_empty() {
            return Self::unscaled(space);
        }
        let width = space.cells();
        let mut ranges = vec![[f32::MAX, f32::MIN]; real.len()];
        // For each real number the sum of what `term` makes of it.
        let mut sums = |term: &dyn Fn(usize, f64) -> f64| {
            let mut sums = vec![std::iter::empty::<f64>().sum::<f64>(); real.len()];
            let (mut rows, mut some) = (rows.clone(), Vec::with_capacity(ROWS_AT_ONCE));
            loop {
                some.clear();
                some.extend(rows.by_ref().take(ROWS_AT_ONCE));
                if some.is_empty() {
                    return sums;
                }
                show(&some, &mut |cells, rows| {
                    for row in rows {
                        for (at, (cell, sum)) in real.iter().zip(&mut sums).enumerate() {
                            let number = cells.number(row * width + cell);
                            *sum += term(at, f64::from(number));
                            let [low, high] = ranges[at];
                            ranges[at] = [low.min(number), high.max(number)];
                        }
                    }
                });
            }
        };
        let count = rows.clone().count();
        let means: Vec<f64> =
            sums(&|_, number| number).iter().map(|sum| sum / count as f64).collect();
        let squares = sums(&|at, number| (number - means[at]).powi(2));
        let scale = |(&mean, squares): (&f64, f64)| Scale::given(Moments { count, mean, squares });
        let scaling = means.iter().zip(squares).map(scale).collect();
        Encoding { space: space.clone(), scaling, ranges }
    }

    /// Whether it makes sense; one that was read from a file may not.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.space.validate()?;
        let fits = self.scaling.is_empty() || self.scaling.len() == self.space.numbers();
        if !fits {
            return Err(format!("{} scales for {}", self.scaling.len(), self.space));
        }
        if !self.ranges.is_empty() && self.ranges.len() != self.space.numbers() {
            return Err(format!("{} ranges for {}", self.ranges.len(), self.space));
        }
        self.scaling.iter().try_for_each(|scale| scale.check())
    }

    /// The encoding of a space whose numbers are taken as they are.
    pub fn unscaled(space: &Space) -> Self {
        Encoding { space: space.clone(), scaling: Vec::new(), ranges: Vec::new() }
    }

    /// What is encoded.
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The scale of every number; empty for categories.
    pub fn scaling(&self) -> &[Scale] {
        &self.scaling
    }

    /// The lowest and the highest that was seen of every real number; empty for categories, and where nothing was seen.
    pub fn ranges(&self) -> &[[f32; 2]] {
        &self.ranges
    }

    /// The number of features.
    pub fn width(&self) -> usize {
        self.space.features()
    }

    /// How many features are 0 or 1.
    fn ones(&self) -> usize {
        self.space.features() - self.space.numbers()
    }

    /// The features of one observation of a data set.
    pub(crate) fn features(&self, data: &Dataset, row: usize) -> Vec<f32> {
        let mut features = Vec::new();
        data.with_observations(&[row], |cells, rows| features = self.features_of(cells, rows[0]));
        features
    }

    /// The features of one row of cells.
    pub(crate) fn features_of(&self, cells: CellsRef<'_>, row: usize) -> Vec<f32> {
        let mut features = vec![0.0; self.width()];
        self.write(cells, row, &mut features);
        features
    }

    fn write(&self, cells: CellsRef<'_>, row: usize, features: &mut [f32]) {
        self.space.encode(cells, row, features);
        let (mut rest, mut scales) = (features, self.scaling.iter());
        for space in self.space.parts() {
            let (own, others) = rest.split_at_mut(space.features());
            rest = others;
            for (feature, scale) in own.iter_mut().take(space.numbers()).zip(&mut scales) {
                *feature = scale.apply(f64::from(*feature));
            }
        }
    }

    /// The plain numbers of the chosen values, scaled: `[rows, numbers]`.
    fn numbers(&self, cells: CellsRef<'_>, rows: &[usize], device: &Device) -> Tensor<2> {
        if !matches!(self.space, Space::Tuple { .. }) {
            return self.dense(cells, rows, device);
        }
        let (width, real) = (self.space.cells(), self.space.real_cells());
        let mut numbers = Vec::with_capacity(rows.len() * real.len());
        for row in rows {
            for (at, cell) in real.iter().enumerate() {
                let number = cells.number(row * width + cell);
                let scale = self.scaling.get(at);
                numbers.push(scale.map_or(number, |scale| scale.apply(f64::from(number))));
            }
        }
        Tensor::from_data(TensorData::new(numbers, [rows.len(), real.len()]), device)
    }

    /// The chosen values as a dense matrix: `[rows, width]`.
    pub fn dense(&self, cells: CellsRef<'_>, rows: &[usize], device: &Device) -> Tensor<2> {
        let width = self.width();
        let mut features = vec![0.0; rows.len() * width];
        for (&row, features) in rows.iter().zip(features.chunks_exact_mut(width)) {
            self.write(cells, row, features);
        }
        Tensor::from_data(TensorData::new(features, [rows.len(), width]), device)
    }
}

/// Several columns side by side, categories of all of them first. All have the same number of rows.
pub fn encode(columns: &[Column<'_>], device: &Device) -> RowsIn {
    let count = columns[0].rows.len();
    let mut sparse_columns = Vec::new();
    let mut features = 0;
    for column in columns.iter().filter(|column| column.encoding.ones() > 0) {
        sparse_columns.push((column, features as u32));
        features += column.encoding.ones();
    }
    let dense: Vec<Tensor<2>> = columns
        .iter()
        .filter(|column| column.encoding.space.numbers() > 0)
        .map(|column| column.encoding.numbers(column.cells, column.rows, device))
        .collect();
    let dense = (!dense.is_empty()).then(|| Tensor::cat(dense, 1));
    if sparse_columns.is_empty() {
        return dense.expect("there is a column").into();
    }
    let (mut ends, mut indices) = (Vec::with_capacity(count), Vec::new());
    for at in 0..count {
        for (column, offset) in &sparse_columns {
            let start = indices.len();
            column.encoding.space.active(column.cells, column.rows[at], &mut indices);
            indices[start..].iter_mut().for_each(|index| *index += offset);
        }
        ends.push(indices.len() as u32);
    }
    let sparse = SparseRows::new(features, ends, indices);
    match dense {
        Some(dense) => (sparse, dense).into(),
        None => sparse.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::Cells;

    fn values(rows: &RowsIn) -> Vec<f32> {
        rows.to_dense(&crate::fixtures::cpu()).into_data().try_to_vec().unwrap()
    }

    #[test]
    fn categories_come_first_and_numbers_are_standardised() {
        let numbers = Cells::Float(vec![1.0, 5.0, 3.0, 5.0]);
        let space = Space::Box { shape: vec![2], bounds: None };
        let real = Encoding::fit(&space, numbers.view(), 0..2);
        let categories = Cells::Byte(vec![2, 0]);
        let discrete = Encoding::fit(&Space::Discrete { n: 3 }, categories.view(), 0..2);
        let rows = encode(
            &[
                Column { encoding: &real, cells: numbers.view(), rows: &[0, 1] },
                Column { encoding: &discrete, cells: categories.view(), rows: &[1, 0] },
            ],
            &crate::fixtures::cpu(),
        );
        assert_eq!(values(&rows), [1.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0]);
    }

    /// A category between two numbers: ones first, then the numbers, each by its own scale.
    #[test]
    fn a_mixture_is_sparse_and_dense() {
        let real = || Space::Box { shape: vec![1], bounds: None };
        let space = Space::Tuple { spaces: vec![real(), Space::Discrete { n: 3 }, real()] };
        let cells = Cells::Float(vec![1.0, 2.0, 5.0, 3.0, 0.0, 9.0]);
        let encoding = Encoding::fit(&space, cells.view(), 0..2);
        encoding.check().unwrap();
        let column = Column { encoding: &encoding, cells: cells.view(), rows: &[0, 1] };
        let rows = encode(&[column], &crate::fixtures::cpu());
        assert_eq!(values(&rows), [0.0, 0.0, 1.0, -1.0, -1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
        let dense = encoding.dense(cells.view(), &[0], &crate::fixtures::cpu());
        assert_eq!(crate::policy::floats(dense), [-1.0, 0.0, 0.0, 1.0, -1.0]);
    }

    #[test]
    fn scales_go_both_ways() {
        let scale = Scale::of([2.0, 4.0].into_iter());
        assert_eq!((scale.mean, scale.deviation), (3.0, 1.0));
        assert_eq!(scale.undo(scale.apply(7.5)), 7.5);
        assert_eq!(Scale::of([0.1; 1000].into_iter()).deviation, 1.0);
        // Seconds since 1970 differ, if only by a thousandth of a thousandth.
        assert_eq!(Scale::of([1.7e9, 1.7e9 + 2000.0].into_iter()).deviation, 1000.0);
    }
}
