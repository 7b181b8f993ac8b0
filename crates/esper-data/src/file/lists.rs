//! Columns of lists that all have the same length and no gaps, read without the detour by arrow's arrays.
//!
//! Parquet keeps a number of levels for every cell that say where lists begin and what is missing. Arrow makes offsets and
//! validity of them, cell by cell; here they only have to be what they are in every file of ours.

use std::fs::File;
use std::sync::Arc;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, FloatType, Int32Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::serialized_reader::SerializedPageReader;

use crate::cells::{CellType, Cells};

/// Rows whose levels are looked at together.
const ROWS_AT_ONCE: usize = 1 << 12;

/// Cells that memory is taken for before they are read.
const MOST_AT_ONCE: usize = 1 << 26;

/// A column of lists, each of so many cells.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'a> {
    pub(super) column: &'a str,
    pub(super) width: usize,
    pub(super) cells: CellType,
}

impl Lists<'_> {
    /// All cells of a row group; `None` when anything about them is unusual, for others to make sense of or to refuse.
    pub(super) fn read(
        &self,
        file: File,
        metadata: &ParquetMetaData,
        group: usize,
    ) -> Result<Option<Cells>, ParquetError> {
        let group = metadata.row_group(group);
        let mut leaves = (0..group.num_columns())
            .filter(|&leaf| group.column(leaf).column_path().parts()[0] == self.column);
        let (Some(leaf), None) = (leaves.next(), leaves.next()) else { return Ok(None) };
        let (leaf, rows) = (group.column(leaf), group.num_rows() as usize);
        let described = leaf.column_descr_ptr();
        let whole = rows.checked_mul(self.width).is_some_and(|n| n as i64 == leaf.num_values());
        if !whole || self.width == 0 || described.max_rep_level() != 1 {
            return Ok(None);
        }
        let pages = SerializedPageReader::new(Arc::new(file), leaf, rows, None)?;
        let levels = Levels { width: self.width, present: described.max_def_level() };
        use parquet::basic::Type;
        Ok(match (self.cells, described.physical_type()) {
            (CellType::Byte, Type::INT32) => {
                let reader = ColumnReaderImpl::<Int32Type>::new(described, Box::new(pages));
                let narrow = |values: &[i32], cells: &mut Vec<u8>| {
                    cells.extend(values.iter().map(|&value| value as u8));
                    all_below(values, 1 << 8)
                };
                levels.read(reader, rows, narrow)?.map(Cells::Byte)
            }
            (CellType::Short, Type::INT32) => {
                let reader = ColumnReaderImpl::<Int32Type>::new(described, Box::new(pages));
                let narrow = |values: &[i32], cells: &mut Vec<u16>| {
                    cells.extend(values.iter().map(|&value| value as u16));
                    all_below(values, 1 << 16)
                };
                levels.read(reader, rows, narrow)?.map(Cells::Short)
            }
            (CellType::Float, Type::FLOAT) => {
                let reader = ColumnReaderImpl::<FloatType>::new(described, Box::new(pages));
                let copy = |values: &[f32], cells: &mut Vec<f32>| {
                    cells.extend_from_slice(values);
                    true
                };
                levels.read(reader, rows, copy)?.map(Cells::Float)
            }
            _ => None,
        })
    }
}

/// Whether all numbers are from zero to below a limit. Without a way out in the middle, which would take longer.
fn all_below(values: &[i32], limit: u32) -> bool {
    values.iter().fold(true, |all, &value| all & ((value as u32) < limit))
}

/// What the levels of cells have to be: a list begins every `width` cells, and none of them is missing.
struct Levels {
    width: usize,
    present: i16,
}

impl Levels {
    /// All cells; `append` says whether it could take some.
    fn read<T: DataType, C>(
        &self,
        mut reader: ColumnReaderImpl<T>,
        rows: usize,
        append: impl Fn(&[T::T], &mut Vec<C>) -> bool,
    ) -> Result<Option<Vec<C>>, ParquetError> {
        let (mut definitions, mut repetitions, mut values) = (Vec::new(), Vec::new(), Vec::new());
        // A footer may promise anything.
        let mut cells = Vec::with_capacity((rows * self.width).min(MOST_AT_ONCE));
        let mut done = 0;
        while done < rows {
            definitions.clear();
            repetitions.clear();
            values.clear();
            let (read, ..) = reader.read_records(
                ROWS_AT_ONCE.min(rows - done),
                Some(&mut definitions),
                Some(&mut repetitions),
                &mut values,
            )?;
            let usual = read > 0
                && values.len() == read * self.width
                && repetitions.len() == values.len()
                && definitions.iter().fold(true, |all, &level| all & (level == self.present))
                && repetitions.chunks_exact(self.width).all(|list| {
                    list[0] == 0 && list[1..].iter().fold(true, |all, &level| all & (level == 1))
                });
            if !usual {
                return Ok(None);
            }
            if !append(&values, &mut cells) {
                return Ok(None);
            }
            done += read;
        }
        Ok(Some(cells))
    }
}
