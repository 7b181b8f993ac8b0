//! Cells: the numbers observations and actions are stored as, a byte each wherever that is enough.

use std::ops::Range;

/// What one cell is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CellType {
    /// A category below 256.
    Byte,
    /// A category below 65,536.
    Short,
    /// A real number.
    Float,
}

/// A column of cells, row after row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cells {
    /// Categories below 256.
    Byte(Vec<u8>),
    /// Categories below 65,536.
    Short(Vec<u16>),
    /// Real numbers.
    Float(Vec<f32>),
}

/// A number that can be a cell: `u8`, `u16` or `f32`.
pub trait Cell: Copy + Default + Send + Sync + std::fmt::Debug + 'static {
    /// The column type of this number.
    const TYPE: CellType;
    /// Wraps a column of this number.
    fn column(values: Vec<Self>) -> Cells;
}

impl Cell for u8 {
    const TYPE: CellType = CellType::Byte;
    fn column(values: Vec<Self>) -> Cells {
        Cells::Byte(values)
    }
}

impl Cell for u16 {
    const TYPE: CellType = CellType::Short;
    fn column(values: Vec<Self>) -> Cells {
        Cells::Short(values)
    }
}

impl Cell for f32 {
    const TYPE: CellType = CellType::Float;
    fn column(values: Vec<Self>) -> Cells {
        Cells::Float(values)
    }
}

/// Applies one generic expression to whichever vector a `Cells` holds.
macro_rules! each_type {
    ($cells:expr, $values:ident => $body:expr) => {
        match $cells {
            Cells::Byte($values) => $body,
            Cells::Short($values) => $body,
            Cells::Float($values) => $body,
        }
    };
}

impl Cells {
    /// An empty column.
    pub fn empty(cell_type: CellType) -> Self {
        match cell_type {
            CellType::Byte => Cells::Byte(Vec::new()),
            CellType::Short => Cells::Short(Vec::new()),
            CellType::Float => Cells::Float(Vec::new()),
        }
    }

    /// What the cells are stored as.
    pub fn cell_type(&self) -> CellType {
        match self {
            Cells::Byte(_) => CellType::Byte,
            Cells::Short(_) => CellType::Short,
            Cells::Float(_) => CellType::Float,
        }
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        each_type!(self, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The category in one cell. Real numbers are no categories: asking for one is a bug and panics.
    pub fn category(&self, at: usize) -> usize {
        match self {
            Cells::Byte(values) => usize::from(values[at]),
            Cells::Short(values) => usize::from(values[at]),
            Cells::Float(_) => panic!("a real number is not a category"),
        }
    }

    /// One cell as a number.
    pub fn number(&self, at: usize) -> f32 {
        match self {
            Cells::Byte(values) => f32::from(values[at]),
            Cells::Short(values) => f32::from(values[at]),
            Cells::Float(values) => values[at],
        }
    }

    /// Makes room for `additional` more cells.
    pub fn reserve(&mut self, additional: usize) {
        each_type!(self, values => values.reserve_exact(additional));
    }

    /// Appends a range of another column of the same type; mixing types is a bug and panics.
    pub fn extend_from(&mut self, other: &Cells, range: Range<usize>) {
        match (self, other) {
            (Cells::Byte(to), Cells::Byte(from)) => to.extend_from_slice(&from[range]),
            (Cells::Short(to), Cells::Short(from)) => to.extend_from_slice(&from[range]),
            (Cells::Float(to), Cells::Float(from)) => to.extend_from_slice(&from[range]),
            (to, from) => panic!("appending {:?} to {:?}", from.cell_type(), to.cell_type()),
        }
    }
}
