//! A column that is being filled: what fits into it, and the space that holds it.

use crate::cells::{CellType, Cells, CellsRef};
use crate::space::Space;

/// A column of observations or actions that is being filled.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Cells of one row; 0 before the first one.
    pub(super) width: usize,
    pub(super) cells: Cells,
}

impl Column {
    /// Takes out the rows from one on.
    pub(super) fn split_off(&mut self, row: usize) -> Column {
        let cells = match &mut self.cells {
            Cells::Byte(cells) => Cells::Byte(cells.split_off(row * self.width)),
            Cells::Short(cells) => Cells::Short(cells.split_off(row * self.width)),
            Cells::Float(cells) => Cells::Float(cells.split_off(row * self.width)),
        };
        Column { name: self.name, width: self.width, cells }
    }

    /// Checks that cells are so many rows of the column, and of its space if that is given. Returns the cells of a row.
    pub(super) fn fit(
        &self,
        cells: CellsRef<'_>,
        rows: usize,
        space: Option<&Space>,
    ) -> Result<usize, String> {
        if rows == 0 && cells.is_empty() {
            return Ok(self.width);
        }
        let (cell_type, width) = match space {
            _ if self.width > 0 => (self.cells.cell_type(), self.width),
            Some(space) => {
                space.validate().map_err(|problem| format!("{} space {problem}", self.name))?;
                (space.cell_type(), space.cells())
            }
            None => (cells.cell_type(), cells.len().checked_div(rows).unwrap_or(0)),
        };
        if cells.cell_type() == cell_type && cells.len() == rows * width && width > 0 {
            return Ok(width);
        }
        Err(self.misfit(cells, rows, (cell_type, width), space))
    }

    fn misfit(
        &self,
        cells: CellsRef<'_>,
        rows: usize,
        (cell_type, width): (CellType, usize),
        space: Option<&Space>,
    ) -> String {
        let (name, found) = (self.name, cells.len());
        if width == 0 && found == 0 {
            return format!("an {name} without cells");
        }
        if cells.cell_type() != cell_type {
            let found = cells.cell_type();
            return match space {
                Some(space) => format!("{name} cells are {found:?}, which does not fit {space}"),
                None => format!("{name} cells are {found:?}, those before are {cell_type:?}"),
            };
        }
        let expected = match space {
            Some(space) => format!("{space} has {width}"),
            None if self.width > 0 => format!("those before have {width}"),
            None => "every step has as many".to_owned(),
        };
        match rows {
            1 => format!("an {name} of {found} cells where {expected}"),
            _ => format!("{found} {name} cells for {rows} steps where {expected}"),
        }
    }

    /// Appends rows that were found to fit.
    pub(super) fn extend(&mut self, cells: CellsRef<'_>, width: usize) {
        if self.width == 0 {
            self.width = width;
            if self.cells.cell_type() != cells.cell_type() {
                self.cells = Cells::empty(cells.cell_type());
            }
        }
        self.cells.extend_from(cells, 0..cells.len());
    }

    /// Makes room for more rows of a space, if it is sound.
    pub(super) fn reserve(&mut self, rows: usize, space: &Space) {
        if self.width == 0 && space.validate().is_ok() {
            self.width = space.cells();
            self.cells = Cells::empty(space.cell_type());
        }
        self.cells.reserve(rows * self.width);
    }

    /// The smallest space that holds every row, and the cells as it wants them.
    pub(super) fn infer(self) -> (Space, Cells) {
        let width = self.width;
        let nvec = match &self.cells {
            Cells::Byte(values) => category_counts(values, width),
            Cells::Short(values) => category_counts(values, width),
            Cells::Float(_) => {
                return (Space::Box { shape: vec![width], bounds: None }, self.cells);
            }
        };
        let space = match nvec[..] {
            [n] => Space::Discrete { n },
            _ => Space::MultiDiscrete { nvec },
        };
        let cells = match self.cells {
            Cells::Short(values) if space.cell_type() == CellType::Byte => {
                Cells::Byte(values.into_iter().map(|value| value as u8).collect())
            }
            cells => cells,
        };
        (space, cells)
    }
}

/// How many categories each cell of a row needs: one more than its highest.
fn category_counts<C: Copy + Into<u32>>(values: &[C], width: usize) -> Vec<u32> {
    let mut counts = vec![1; width];
    for row in values.chunks_exact(width) {
        for (count, &category) in counts.iter_mut().zip(row) {
            *count = (*count).max(category.into() + 1);
        }
    }
    counts
}
