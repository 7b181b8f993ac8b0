//! Arrays of numbers as files of other tools hold them, before it is known what space they are values of.

/// Numbers in the type that keeps them exactly.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Numbers {
    /// Booleans, and whole numbers of one byte without a sign.
    Bytes(Vec<u8>),
    Whole(Vec<i64>),
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Numbers {
    pub(super) fn len(&self) -> usize {
        match self {
            Numbers::Bytes(values) => values.len(),
            Numbers::Whole(values) => values.len(),
            Numbers::Single(values) => values.len(),
            Numbers::Double(values) => values.len(),
        }
    }

    /// Whether all are whole numbers by their type.
    pub(super) fn are_whole(&self) -> bool {
        matches!(self, Numbers::Bytes(_) | Numbers::Whole(_))
    }

    /// A number as a cell of a real-valued space holds it.
    pub(super) fn real(&self, at: usize) -> f32 {
        match self {
            Numbers::Bytes(values) => f32::from(values[at]),
            Numbers::Whole(values) => values[at] as f32,
            Numbers::Single(values) => values[at],
            Numbers::Double(values) => values[at] as f32,
        }
    }

    /// A number if it is whole; some tools keep categories as floats.
    pub(super) fn whole(&self, at: usize) -> Option<i64> {
        let of_real = |value: f64| {
            let is_exact = value.fract() == 0.0 && value.abs() < 2f64.powi(53);
            is_exact.then_some(value as i64)
        };
        match self {
            Numbers::Bytes(values) => Some(i64::from(values[at])),
            Numbers::Whole(values) => Some(values[at]),
            Numbers::Single(values) => of_real(f64::from(values[at])),
            Numbers::Double(values) => of_real(values[at]),
        }
    }

    /// Some of the numbers, in another order.
    fn take(&self, cells: impl Iterator<Item = usize>) -> Self {
        match self {
            Numbers::Bytes(values) => Numbers::Bytes(cells.map(|at| values[at]).collect()),
            Numbers::Whole(values) => Numbers::Whole(cells.map(|at| values[at]).collect()),
            Numbers::Single(values) => Numbers::Single(cells.map(|at| values[at]).collect()),
            Numbers::Double(values) => Numbers::Double(cells.map(|at| values[at]).collect()),
        }
    }

    fn append(&mut self, others: Numbers) -> bool {
        match (self, others) {
            (Numbers::Bytes(to), Numbers::Bytes(from)) => to.extend(from),
            (Numbers::Whole(to), Numbers::Whole(from)) => to.extend(from),
            (Numbers::Single(to), Numbers::Single(from)) => to.extend(from),
            (Numbers::Double(to), Numbers::Double(from)) => to.extend(from),
            _ => return false,
        }
        true
    }
}

/// Rows of numbers, all of one shape.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    /// Where it is in its file, for errors.
    pub(super) at: String,
    pub(super) rows: usize,
    /// The shape of one row; empty for a single number.
    pub(super) shape: Vec<usize>,
    /// Row after row, `rows` times the product of `shape`.
    pub(super) numbers: Numbers,
    /// Whether the file holds them as booleans.
    pub(super) truths: bool,
}

impl Array {
    /// How many numbers a row has.
    pub(super) fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// One number a row, such as rewards.
    pub(super) fn reals(&self) -> Result<Vec<f32>, String> {
        self.check_single()?;
        Ok((0..self.rows).map(|row| self.numbers.real(row)).collect())
    }

    /// One whole number a row, such as the number of a step.
    pub(super) fn wholes(&self) -> Result<Vec<i64>, String> {
        self.check_single()?;
        let whole = |row: usize| {
            let not_whole = || {
                format!("{}, row {row}: {} is not a whole number", self.at, self.numbers.real(row))
            };
            self.numbers.whole(row).ok_or_else(not_whole)
        };
        (0..self.rows).map(whole).collect()
    }

    /// One truth a row, such as whether an episode ended there.
    pub(super) fn truths(&self) -> Result<Vec<bool>, String> {
        self.check_single()?;
        let truth = |row: usize| match self.numbers.real(row) {
            0.0 => Ok(false),
            1.0 => Ok(true),
            other => Err(format!("{}, row {row}: {other} is neither true nor false", self.at)),
        };
        (0..self.rows).map(truth).collect()
    }

    fn check_single(&self) -> Result<(), String> {
        match self.width() {
            1 => Ok(()),
            width => Err(format!("{}: {width} numbers a row where one belongs", self.at)),
        }
    }

    /// Checks that there are so many rows.
    pub(super) fn check_rows(&self, rows: usize) -> Result<(), String> {
        match self.rows == rows {
            true => Ok(()),
            false => Err(format!("{}: {} rows where {rows} belong", self.at, self.rows)),
        }
    }

    /// The least and the greatest, if all are whole.
    pub(super) fn whole_range(&self) -> Option<(i64, i64)> {
        let start = (i64::MAX, i64::MIN);
        (0..self.numbers.len()).try_fold(start, |(low, high), at| {
            let value = self.numbers.whole(at)?;
            Some((low.min(value), high.max(value)))
        })
    }

    /// The rows in another order.
    pub(super) fn select(&self, rows: &[usize]) -> Array {
        let width = self.width();
        let cells = rows.iter().flat_map(|row| row * width..(row + 1) * width);
        Array { rows: rows.len(), numbers: self.numbers.take(cells), ..self.clone_empty() }
    }

    fn clone_empty(&self) -> Array {
        Array {
            at: self.at.clone(),
            rows: 0,
            shape: self.shape.clone(),
            numbers: Numbers::Bytes(Vec::new()),
            truths: self.truths,
        }
    }

    /// Appends the rows of another array of the same shape and type.
    pub(super) fn append(&mut self, other: Array) -> Result<(), String> {
        if other.shape != self.shape {
            return Err(format!(
                "{}: rows of {:?} numbers after rows of {:?}",
                self.at, other.shape, self.shape
            ));
        }
        match self.numbers.append(other.numbers) {
            true => self.rows += other.rows,
            false => return Err(format!("{}: numbers of different types", self.at)),
        }
        Ok(())
    }
}
