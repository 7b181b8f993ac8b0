//! Opening any Parquet file and reading its row groups in parallel; whatever is damaged is an error.

use std::cell::Cell;
use std::error::Error;
use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::ParquetMetaData;
use rayon::prelude::*;

use super::arrays::{Problem, first_null};
use super::lists::Lists;
use super::regular::open_file;
use crate::cells::Cells;
use crate::error::DataError;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 1 << 14;

/// A Parquet file whose footer has been read.
pub(crate) struct ParquetSource<'a> {
    path: &'a Path,
    footer: ArrowReaderMetadata,
}

impl<'a> ParquetSource<'a> {
    /// Opens a file and reads its footer.
    pub(crate) fn open(path: &'a Path) -> Result<Self, DataError> {
        let file = open_file(path)?;
        let metadata = file.metadata().map_err(|source| DataError::io(path, source))?;
        let load = || {
            ArrowReaderMetadata::load(&file, Default::default())
                .map_err(|error| not_parquet(path, error))
        };
        let footer = guarded(load, || damaged_pages(path))?;
        check_ranges(&footer, metadata.len()).map_err(|reason| DataError::NotParquet {
            path: path.to_owned(),
            reason,
            source: None,
        })?;
        Ok(ParquetSource { path, footer })
    }

    /// The columns, as arrow knows them.
    pub(crate) fn schema(&self) -> &Schema {
        self.footer.schema()
    }

    /// What the footer says.
    pub(crate) fn metadata(&self) -> &ParquetMetaData {
        self.footer.metadata()
    }

    /// Reads the named columns, a part for each row group: `start` makes an empty one, `add` adds rows to it. One of the
    /// columns may be `lists`; where it can be read as such, its cells are in what `start` is given, and not in the rows.
    pub(crate) fn read_groups<P: Send>(
        &self,
        columns: &[&str],
        lists: Option<Lists<'_>>,
        start: impl Fn(Option<Cells>) -> P + Sync,
        add: impl Fn(&mut P, &RecordBatch) -> Result<(), Problem> + Sync,
    ) -> Result<Vec<P>, DataError> {
        let groups = 0..self.metadata().num_row_groups();
        let read = |group| {
            let read = || {
                let lists = lists.map(|lists| Ok((lists, self.read_lists(group, lists)?)));
                match lists.transpose()? {
                    Some((lists, Some(cells))) => {
                        let others: Vec<&str> =
                            columns.iter().copied().filter(|&name| name != lists.column).collect();
                        self.read_group(group, &others, start(Some(cells)), &add)
                    }
                    _ => self.read_group(group, columns, start(None), &add),
                }
            };
            guarded(read, || damaged_pages(self.path))
        };
        groups.into_par_iter().map(read).collect()
    }

    /// All rows in order, of columns that are given by their place; whatever is damaged is an error.
    pub(crate) fn batches(&self, roots: &[usize]) -> Result<Batches, DataError> {
        let columns = ProjectionMask::roots(self.footer.parquet_schema(), roots.iter().copied());
        let file = self.file()?;
        let build = || {
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.footer.clone())
                .with_projection(columns)
                .with_batch_size(BATCH_ROWS)
                .build()
                .map_err(|error| not_parquet(self.path, error))
        };
        let reader = guarded(build, || damaged_pages(self.path))?;
        Ok(Batches { path: self.path.to_owned(), reader })
    }

    /// Reads the named columns batch by batch, in order, and hands each on with the number of its first row.
    pub(super) fn read_batches(
        &self,
        columns: &[&str],
        mut take: impl FnMut(&RecordBatch, usize) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let read = || {
            let mut first_row = 0;
            for group in 0..self.metadata().num_row_groups() {
                for batch in self.group_batches(group, columns)? {
                    let batch = batch.map_err(|error| not_parquet(self.path, error))?;
                    take(&batch, first_row)?;
                    first_row += batch.num_rows();
                }
            }
            Ok(())
        };
        guarded(read, || damaged_pages(self.path))
    }

    /// What is wrong with a batch, in words about the file.
    pub(super) fn invalid(&self, problem: Problem, first_row: usize) -> DataError {
        let Problem { column, row, what } = problem;
        let row = row.map_or(String::new(), |row| format!(" in row {}", first_row + row));
        let problem = format!("column `{column}`{row}: {what}");
        DataError::InvalidFile { path: self.path.to_owned(), problem }
    }

    fn read_lists(&self, group: usize, lists: Lists<'_>) -> Result<Option<Cells>, DataError> {
        lists
            .read(self.file()?, self.metadata(), group)
            .map_err(|error| not_parquet(self.path, error))
    }

    /// A file of its own for every thread: clones of one would share a single position.
    fn file(&self) -> Result<File, DataError> {
        open_file(self.path)
    }

    fn read_group<P>(
        &self,
        group: usize,
        columns: &[&str],
        mut part: P,
        add: impl Fn(&mut P, &RecordBatch) -> Result<(), Problem>,
    ) -> Result<P, DataError> {
        let before = self.metadata().row_groups()[..group].iter().map(|group| group.num_rows());
        let mut first_row = before.sum::<i64>() as usize;
        for batch in self.group_batches(group, columns)? {
            let batch = batch.map_err(|error| not_parquet(self.path, error))?;
            add(&mut part, &batch).map_err(|problem| self.invalid(problem, first_row))?;
            first_row += batch.num_rows();
        }
        Ok(part)
    }

    /// The named columns of a row group, in batches.
    fn group_batches(
        &self,
        group: usize,
        columns: &[&str],
    ) -> Result<ParquetRecordBatchReader, DataError> {
        let schema = self.footer.parquet_schema();
        let roots = schema.root_schema().get_fields().iter().enumerate();
        let wanted = roots.filter(|(_, field)| columns.contains(&field.name()));
        let columns = ProjectionMask::roots(schema, wanted.map(|(at, _)| at));
        ParquetRecordBatchReaderBuilder::new_with_metadata(self.file()?, self.footer.clone())
            .with_row_groups(vec![group])
            .with_projection(columns)
            .with_batch_size(BATCH_ROWS)
            .build()
            .map_err(|error| not_parquet(self.path, error))
    }
}

/// The rows of a file, some at a time.
pub(crate) struct Batches {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Batches { path, reader } = self;
        let next = || reader.next().transpose().map_err(|error| not_parquet(path, error));
        guarded(next, || damaged_pages(path)).transpose()
    }
}

/// A column of a batch, which may have empty (null) rows.
pub(super) fn nullable<'a>(
    batch: &'a RecordBatch,
    name: &'static str,
) -> Result<&'a ArrayRef, Problem> {
    batch.column_by_name(name).ok_or_else(|| Problem::new(name, None, "is missing"))
}

/// A column of a batch, none of whose rows may be empty (null).
pub(super) fn complete<'a>(
    batch: &'a RecordBatch,
    name: &'static str,
) -> Result<&'a ArrayRef, Problem> {
    let array = nullable(batch, name)?;
    match first_null(array) {
        None => Ok(array),
        Some(row) => Err(Problem::new(name, row, "is empty (null)")),
    }
}

fn not_parquet(path: &Path, error: impl Error + Send + Sync + 'static) -> DataError {
    let reason = error.to_string();
    DataError::NotParquet { path: path.to_owned(), reason, source: Some(Box::new(error)) }
}

thread_local! {
    static GUARDED: Cell<bool> = const { Cell::new(false) };
}

#[doc(hidden)] // for the program's own hook
/// Whether this thread is inside a call whose panics are caught and returned as errors, so that a panic hook can
/// keep quiet about them.
pub fn panics_are_caught() -> bool {
    GUARDED.get()
}

/// Calls into a library that panics on some kinds of damage to a file: that is an error of the file, too.
pub(crate) fn guarded<T>(
    call: impl FnOnce() -> Result<T, DataError>,
    damaged: impl FnOnce() -> DataError,
) -> Result<T, DataError> {
    let outer = GUARDED.replace(true);
    // What the call was working on is dropped with it, so nothing half-done can be seen afterwards.
    let result = std::panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(outer);
    result.unwrap_or_else(|_| Err(damaged()))
}

fn damaged_pages(path: &Path) -> DataError {
    let reason = "it is damaged: its pages contradict its footer".to_owned();
    DataError::NotParquet { path: path.to_owned(), reason, source: None }
}

/// Checks that every column lies within the file: the Parquet library trusts a damaged footer on that.
fn check_ranges(footer: &ArrowReaderMetadata, size: u64) -> Result<(), String> {
    let groups = footer.metadata().row_groups().iter();
    for column in groups.flat_map(|group| group.columns()) {
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let length = column.compressed_size();
        let end = u64::try_from(start)
            .ok()
            .zip(u64::try_from(length).ok())
            .and_then(|(start, length)| start.checked_add(length));
        if end.is_none_or(|end| end > size) || column.num_values() < 0 {
            return Err("its footer is damaged: a column lies outside the file".to_owned());
        }
    }
    if footer.metadata().row_groups().iter().any(|group| group.num_rows() < 0) {
        return Err("its footer is damaged: a negative number of rows".to_owned());
    }
    Ok(())
}
