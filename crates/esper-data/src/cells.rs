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

/// A column of cells, borrowed to be written to.
#[derive(Debug, PartialEq)]
pub enum CellsMut<'a> {
    /// Categories below 256.
    Byte(&'a mut [u8]),
    /// Categories below 65,536.
    Short(&'a mut [u16]),
    /// Real numbers.
    Float(&'a mut [f32]),
}

/// A number that can be a cell: `u8`, `u16` or `f32`.
pub trait Cell: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + 'static {
    /// The column type of this number.
    const TYPE: CellType;
    /// Wraps a column of this number.
    fn column(values: Vec<Self>) -> Cells;
    /// Looks at a slice of this number as a column.
    fn view(values: &[Self]) -> CellsRef<'_>;
    /// The numbers of a column of this type; `None` for a column of another.
    fn slice(cells: CellsRef<'_>) -> Option<&[Self]>;
    /// The numbers of a column of this type, to be written to; `None` for a column of another.
    fn slice_mut(cells: CellsMut<'_>) -> Option<&mut [Self]>;
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
            fn slice(cells: CellsRef<'_>) -> Option<&[Self]> {
                match cells {
                    CellsRef::$variant(values) => Some(values),
                    _ => None,
                }
            }
            fn slice_mut(cells: CellsMut<'_>) -> Option<&mut [Self]> {
                match cells {
                    CellsMut::$variant(values) => Some(values),
                    _ => None,
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

    /// A column of zeros.
    pub fn filled(cell_type: CellType, len: usize) -> Self {
        match cell_type {
            CellType::Byte => Cells::Byte(vec![0; len]),
            CellType::Short => Cells::Short(vec![0; len]),
            CellType::Float => Cells::Float(vec![0.0; len]),
        }
    }

    /// The column, borrowed.
    pub fn view(&self) -> CellsRef<'_> {
        each_type!(Cells, self, values => Cell::view(values))
    }

    /// A range of cells, borrowed to be written to.
    pub fn view_mut(&mut self, range: Range<usize>) -> CellsMut<'_> {
        match self {
            Cells::Byte(values) => CellsMut::Byte(&mut values[range]),
            Cells::Short(values) => CellsMut::Short(&mut values[range]),
            Cells::Float(values) => CellsMut::Float(&mut values[range]),
        }
    }

    /// Takes all cells out and keeps their memory.
    pub fn clear(&mut self) {
        each_type!(Cells, self, values => values.clear());
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

impl<'a> CellsRef<'a> {
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

    /// A range of the cells.
    pub fn slice(self, range: Range<usize>) -> CellsRef<'a> {
        each_type!(CellsRef, self, values => Cell::view(&values[range]))
    }

    /// The category in one cell. Of real numbers, which mixtures of both are stored as, the whole part.
    pub fn category(self, at: usize) -> usize {
        match self {
            CellsRef::Byte(values) => usize::from(values[at]),
            CellsRef::Short(values) => usize::from(values[at]),
            CellsRef::Float(values) => values[at] as usize,
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

impl CellsMut<'_> {
    /// What the cells are stored as.
    pub fn cell_type(&self) -> CellType {
        match self {
            CellsMut::Byte(_) => CellType::Byte,
            CellsMut::Short(_) => CellType::Short,
            CellsMut::Float(_) => CellType::Float,
        }
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        each_type!(CellsMut, self, values => values.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<'a, C: Cell> From<&'a [C]> for CellsRef<'a> {
    fn from(values: &'a [C]) -> Self {
        C::view(values)
    }
}

impl<'a, C: Cell, const N: usize> From<&'a [C; N]> for CellsRef<'a> {
    fn from(values: &'a [C; N]) -> Self {
        C::view(values)
    }
}

impl<'a, C: Cell> From<&'a Vec<C>> for CellsRef<'a> {
    fn from(values: &'a Vec<C>) -> Self {
        C::view(values)
    }
}

impl<'a> From<&'a Cells> for CellsRef<'a> {
    fn from(cells: &'a Cells) -> Self {
        cells.view()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_seen_as_its_own_number_only() {
        let mut cells = Cells::filled(CellType::Short, 4);
        assert_eq!(u16::slice(cells.view()), Some(&[0u16; 4][..]));
        assert_eq!(u8::slice(cells.view()), None);
        assert_eq!(f32::slice_mut(cells.view_mut(0..4)), None);
        u16::slice_mut(cells.view_mut(1..3)).unwrap().copy_from_slice(&[300, 7]);
        assert_eq!(cells, Cells::Short(vec![0, 300, 7, 0]));
        assert_eq!((cells.view_mut(1..3).len(), cells.view_mut(2..2).is_empty()), (2, true));
        assert_eq!(cells.view().slice(1..3), CellsRef::Short(&[300, 7]));
        cells.clear();
        assert_eq!(cells, Cells::empty(CellType::Short));
    }

    #[test]
    fn anything_that_holds_cells_can_be_handed_over() {
        fn cells<'a>(cells: impl Into<CellsRef<'a>>) -> CellsRef<'a> {
            cells.into()
        }
        assert_eq!(cells(&[1u8, 2]), CellsRef::Byte(&[1, 2]));
        assert_eq!(cells(&[1u8, 2][1..]), CellsRef::Byte(&[2]));
        assert_eq!(cells(&vec![0.5f32]), CellsRef::Float(&[0.5]));
        assert_eq!(cells(&Cells::Short(vec![9])), CellsRef::Short(&[9]));
    }
}
