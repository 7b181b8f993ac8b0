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

/// A borrowed column of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CellsRef<'a> {
    /// Categories below 256.
    Byte(&'a [u8]),
    /// Categories below 65,536.
    Short(&'a [u16]),
    /// Real numbers.
    Float(&'a [f32]),
}

/// A number that can be a cell: `u8`, `u16` or `f32`.
pub trait Cell: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// The column type of this number.
    const TYPE: CellType;
    /// Wraps a column of this number.
    fn column(values: Vec<Self>) -> Cells;
    /// Looks at a slice of this number as a column.
    fn view(values: &[Self]) -> CellsRef<'_>;
    /// The numbers of a column of this type; none of a column of another.
    fn slice(cells: &Cells) -> &[Self];
}

/// Implements [`Cell`] for a number.
macro_rules! cell {
    ($number:ty, $variant:ident) => {
        impl Cell for $number {
            const TYPE: CellType = CellType::$variant;
            fn column(values: Vec<Self>) -> Cells {
                Cells::$variant(values)
            }
            fn view(values: &[Self]) -> CellsRef<'_> {
                CellsRef::$variant(values)
            }
            fn slice(cells: &Cells) -> &[Self] {
                match cells {
                    Cells::$variant(values) => values,
                    _ => &[],
                }
            }
        }
    };
}

cell!(u8, Byte);
cell!(u16, Short);
cell!(f32, Float);

/// Evaluates one expression for whichever vector or slice a column holds.
macro_rules! each_type {
    ($columns:ident, $cells:expr, $values:ident => $body:expr) => {
        match $cells {
            $columns::Byte($values) => $body,
            $columns::Short($values) => $body,
            $columns::Float($values) => $body,
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

    /// The column, borrowed.
    pub fn view(&self) -> CellsRef<'_> {
        each_type!(Cells, self, values => Cell::view(values))
    }

    /// What the cells are stored as.
    pub fn cell_type(&self) -> CellType {
        self.view().cell_type()
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.view().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The category in one cell; see [`CellsRef::category`].
    pub fn category(&self, at: usize) -> usize {
        self.view().category(at)
    }

    /// Appends a category. One that does not fit is cut; spaces choose cells that all of their categories fit.
    pub fn push_category(&mut self, category: usize) {
        match self {
            Cells::Byte(cells) => cells.push(category as u8),
            Cells::Short(cells) => cells.push(category as u16),
            Cells::Float(cells) => cells.push(category as f32),
        }
    }

    /// Makes room for `additional` more cells.
    pub fn reserve(&mut self, additional: usize) {
        each_type!(Cells, self, values => values.reserve_exact(additional));
    }

    /// Appends a range of another column of the same type; mixing types is a bug and panics.
    pub fn extend_from(&mut self, other: CellsRef<'_>, range: Range<usize>) {
        match (self, other) {
            (Cells::Byte(to), CellsRef::Byte(from)) => to.extend_from_slice(&from[range]),
            (Cells::Short(to), CellsRef::Short(from)) => to.extend_from_slice(&from[range]),
            (Cells::Float(to), CellsRef::Float(from)) => to.extend_from_slice(&from[range]),
            (to, from) => panic!("appending {:?} to {:?}", from.cell_type(), to.cell_type()),
        }
    }
}

impl CellsRef<'_> {
    /// What the cells are stored as.
    pub fn cell_type(self) -> CellType {
        match self {
            CellsRef::Byte(_) => CellType::Byte,
            CellsRef::Short(_) => CellType::Short,
            CellsRef::Float(_) => CellType::Float,
        }
    }

    /// How many cells there are.
    pub fn len(self) -> usize {
        each_type!(CellsRef, self, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The category in one cell.
    ///
    /// # Panics
    ///
    /// When the cells are real numbers: those are no categories.
    pub fn category(self, at: usize) -> usize {
        match self {
            CellsRef::Byte(values) => usize::from(values[at]),
            CellsRef::Short(values) => usize::from(values[at]),
            CellsRef::Float(_) => panic!("a real number is not a category"),
        }
    }

    /// One cell as a number.
    pub fn number(self, at: usize) -> f32 {
        match self {
            CellsRef::Byte(values) => f32::from(values[at]),
            CellsRef::Short(values) => f32::from(values[at]),
            CellsRef::Float(values) => values[at],
        }
    }
}
