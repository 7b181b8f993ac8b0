//! Columns on disk: what does not fit into memory is kept in files without a name, and read where it is asked for.
//!
//! A file is taken away as soon as it is made, so it is gone with the process, however that ends. What is read is not kept:
//! the operating system's page cache does that, as far as there is memory to spare.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::cells::{CellType, Cells, CellsMut, CellsRef};
use crate::dataset::{in_parts, rows_at_once};
use crate::error::DataError;

/// A folder that has room for columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    folder: PathBuf,
}

/// Cells that are converted at a time.
const AT_ONCE: usize = 1 << 16;

impl Scratch {
    /// Columns in a folder, which has to exist.
    pub fn in_folder(folder: &Path) -> Self {
        Scratch { folder: folder.to_owned() }
    }

    /// A column that is filled from its start.
    pub(crate) fn column(&self, cell_type: CellType) -> Result<ColumnWriter, DataError> {
        let file = self.file()?;
        Ok(ColumnWriter {
            folder: self.folder.clone(),
            file: BufWriter::new(file),
            cell_type,
            len: 0,
        })
    }

    /// A column of so many zeros.
    pub(crate) fn zeros(&self, cell_type: CellType, len: usize) -> Result<FileColumn, DataError> {
        let file = self.file()?;
        file.set_len((len * bytes_of(cell_type)) as u64).map_err(|error| self.failed(error))?;
        Ok(FileColumn { folder: self.folder.clone(), file, cell_type, len })
    }

    fn file(&self) -> Result<File, DataError> {
        tempfile::tempfile_in(&self.folder).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: std::io::Error) -> DataError {
        DataError::io(&self.folder, error)
    }
}

/// A column that is being written.
pub(crate) struct ColumnWriter {
    folder: PathBuf,
    file: BufWriter<File>,
    cell_type: CellType,
    len: usize,
}

impl ColumnWriter {
    /// Appends cells of the column's type.
    pub(crate) fn append(&mut self, cells: CellsRef<'_>) -> Result<(), DataError> {
        assert_eq!(cells.cell_type(), self.cell_type, "cells of one type");
        let mut bytes = Vec::new();
        for start in (0..cells.len()).step_by(AT_ONCE) {
            let end = (start + AT_ONCE).min(cells.len());
            to_bytes(cells.slice(start..end), &mut bytes);
            self.file.write_all(&bytes).map_err(|error| DataError::io(&self.folder, error))?;
        }
        self.len += cells.len();
        Ok(())
    }

    /// The column, complete.
    pub(crate) fn finish(self) -> Result<FileColumn, DataError> {
        let ColumnWriter { folder, file, cell_type, len } = self;
        let file = file.into_inner().map_err(|error| DataError::io(&folder, error.into_error()))?;
        Ok(FileColumn { folder, file, cell_type, len })
    }
}

/// A column in a file.
#[derive(Debug)]
pub(crate) struct FileColumn {
    folder: PathBuf,
    file: File,
    cell_type: CellType,
    len: usize,
}

impl FileColumn {
    pub(crate) fn cell_type(&self) -> CellType {
        self.cell_type
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends a range of the cells to others in memory.
    ///
    /// # Panics
    ///
    /// When the disk cannot be read any more: nothing but the disk has a hand in a file without a name.
    pub(crate) fn read(&self, range: Range<usize>, to: &mut Cells) {
        assert!(range.end <= self.len, "cells {range:?} of {}", self.len);
        let size = bytes_of(self.cell_type);
        let mut bytes = Vec::new();
        let mut start = range.start;
        while start < range.end {
            let end = (start + AT_ONCE).min(range.end);
            bytes.resize((end - start) * size, 0);
            read_at(&self.file, &mut bytes, (start * size) as u64).unwrap_or_else(|error| {
                panic!("a file in {} cannot be read any more: {error}", self.folder.display())
            });
            from_bytes(&bytes, to);
            start = end;
        }
    }

    /// Some rows of so many cells each, in the order that is given. Rows that follow each other in the column are read at
    /// once, wherever they are asked for: a batch of trajectories is packed by time, and has them far apart.
    pub(crate) fn gather(&self, rows: &[usize], width: usize) -> Cells {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_unstable_by_key(|&at| rows[at]);
        let mut cells = Cells::filled(self.cell_type, rows.len() * width);
        let mut read = Cells::empty(self.cell_type);
        let most = (AT_ONCE / width.max(1)).max(1);
        let mut start = 0;
        while start < order.len() {
            let first = rows[order[start]];
            let mut end = start + 1;
            while end < order.len()
                && rows[order[end]] <= rows[order[end - 1]] + 1
                && rows[order[end]] - first < most
            {
                end += 1;
            }
            let last = rows[order[end - 1]];
            read.clear();
            self.read(first * width..(last + 1) * width, &mut read);
            for &at in &order[start..end] {
                let from = (rows[at] - first) * width;
                copy(read.view().slice(from..from + width), &mut cells, at * width);
            }
            start = end;
        }
        cells
    }

    /// Writes over cells.
    pub(crate) fn write(&self, at: usize, cells: CellsRef<'_>) -> Result<(), DataError> {
        assert!(at + cells.len() <= self.len, "cells from {at} on of {}", self.len);
        let mut bytes = Vec::new();
        to_bytes(cells, &mut bytes);
        write_at(&self.file, &bytes, (at * bytes_of(self.cell_type)) as u64)
            .map_err(|error| DataError::io(&self.folder, error))
    }
}

/// Copies cells of one type over others.
fn copy(from: CellsRef<'_>, to: &mut Cells, at: usize) {
    match (from, to.view_mut(at..at + from.len())) {
        (CellsRef::Byte(from), CellsMut::Byte(to)) => to.copy_from_slice(from),
        (CellsRef::Short(from), CellsMut::Short(to)) => to.copy_from_slice(from),
        (CellsRef::Float(from), CellsMut::Float(to)) => to.copy_from_slice(from),
        (from, to) => panic!("copying {:?} over {:?}", from.cell_type(), to.cell_type()),
    }
}

fn bytes_of(cell_type: CellType) -> usize {
    match cell_type {
        CellType::Byte => 1,
        CellType::Short => 2,
        CellType::Float => 4,
    }
}

fn to_bytes(cells: CellsRef<'_>, bytes: &mut Vec<u8>) {
    bytes.clear();
    match cells {
        CellsRef::Byte(values) => bytes.extend_from_slice(values),
        CellsRef::Short(values) => {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
        CellsRef::Float(values) => {
            bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        }
    }
}

fn from_bytes(bytes: &[u8], to: &mut Cells) {
    match to {
        Cells::Byte(values) => values.extend_from_slice(bytes),
        Cells::Short(values) => {
            values.extend(bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])));
        }
        Cells::Float(values) => values.extend(
            bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])),
        ),
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, at)
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], at: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, at)
}

#[cfg(windows)]
fn read_at(file: &File, mut bytes: &mut [u8], mut at: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => (bytes, at) = (&mut bytes[count..], at + count as u64),
        }
    }
    Ok(())
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut at: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let count = std::os::windows::fs::FileExt::seek_write(file, bytes, at)?;
        (bytes, at) = (&bytes[count..], at + count as u64);
    }
    Ok(())
}

/// A column of cells, in memory or on disk.
#[derive(Debug)]
pub(crate) enum Stored {
    Memory(Cells),
    /// What is asked for as a whole is read, and stays: only what goes by rows stays small.
    Disk {
        column: FileColumn,
        whole: std::sync::OnceLock<Cells>,
    },
}

impl From<Cells> for Stored {
    fn from(cells: Cells) -> Self {
        Stored::Memory(cells)
    }
}

impl From<FileColumn> for Stored {
    fn from(column: FileColumn) -> Self {
        Stored::Disk { column, whole: std::sync::OnceLock::new() }
    }
}

impl Stored {
    /// All cells.
    pub(crate) fn whole(&self) -> &Cells {
        match self {
            Stored::Memory(cells) => cells,
            Stored::Disk { column, whole } => whole.get_or_init(|| {
                let mut cells = Cells::empty(column.cell_type());
                cells.reserve(column.len());
                column.read(0..column.len(), &mut cells);
                cells
            }),
        }
    }

    pub(crate) fn cell_type(&self) -> CellType {
        match self {
            Stored::Memory(cells) => cells.cell_type(),
            Stored::Disk { column, .. } => column.cell_type(),
        }
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes_in_memory(&self) -> u64 {
        let cells = match self {
            Stored::Memory(cells) => Some(cells),
            Stored::Disk { whole, .. } => whole.get(),
        };
        cells.map_or(0, |cells| (cells.len() * bytes_of(cells.cell_type())) as u64)
    }

    /// Shows some rows: cells, and where in them each row is.
    pub(crate) fn with_rows<R>(
        &self,
        rows: &[usize],
        width: usize,
        see: impl FnOnce(CellsRef<'_>, &[usize]) -> R,
    ) -> R {
        match self {
            Stored::Memory(cells) => see(cells.view(), rows),
            Stored::Disk { column, .. } => {
                let gathered = column.gather(rows, width);
                let every: Vec<usize> = (0..rows.len()).collect();
                see(gathered.view(), &every)
            }
        }
    }

    /// Whether rows that follow each other hold the same as some of another column.
    pub(crate) fn is_same(&self, other: &Stored, rows: [Range<usize>; 2], width: usize) -> bool {
        let [ours, theirs] = rows;
        let mut is_same = ours.len() == theirs.len();
        in_parts(ours.zip(theirs), rows_at_once(width), |pairs| {
            let (ours, theirs): (Vec<usize>, Vec<usize>) = pairs.iter().copied().unzip();
            let cells = |at: &[usize]| at[0] * width..(at[0] + at.len()) * width;
            is_same = is_same
                && self.with_rows(&ours, width, |ours, at| {
                    let ours = ours.slice(cells(at));
                    other.with_rows(&theirs, width, |theirs, at| ours == theirs.slice(cells(at)))
                });
        });
        is_same
    }
}

/// Bytes of steps, in memory or on disk: so many a row.
#[derive(Clone, Debug)]
pub struct ByteColumn(Bytes);

#[derive(Clone, Debug)]
enum Bytes {
    Memory(Vec<u8>),
    Disk(std::sync::Arc<FileColumn>),
}

impl From<Vec<u8>> for ByteColumn {
    fn from(bytes: Vec<u8>) -> Self {
        ByteColumn(Bytes::Memory(bytes))
    }
}

impl ByteColumn {
    /// So many zeros: on disk where there is a place for them, else in memory.
    pub fn zeros(len: usize, scratch: Option<&Scratch>) -> Result<Self, DataError> {
        Ok(ByteColumn(match scratch {
            Some(scratch) => Bytes::Disk(scratch.zeros(CellType::Byte, len)?.into()),
            None => Bytes::Memory(vec![0; len]),
        }))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Bytes::Memory(bytes) => bytes.len(),
            Bytes::Disk(column) => column.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends rows of so many bytes to others.
    pub fn gather(&self, rows: &[usize], width: usize, to: &mut Vec<u8>) {
        match &self.0 {
            Bytes::Memory(bytes) => {
                rows.iter().for_each(|row| to.extend_from_slice(&bytes[row * width..][..width]));
            }
            Bytes::Disk(column) => match column.gather(rows, width) {
                Cells::Byte(bytes) if to.is_empty() => *to = bytes,
                Cells::Byte(bytes) => to.extend_from_slice(&bytes),
                _ => {}
            },
        }
    }

    /// Writes over bytes from a place on.
    pub fn write(&mut self, at: usize, bytes: &[u8]) -> Result<(), DataError> {
        match &mut self.0 {
            Bytes::Memory(kept) => {
                kept[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Bytes::Disk(column) => column.write(at, CellsRef::Byte(bytes)),
        }
    }
}

/// Equal are the same bytes, wherever they are.
impl PartialEq for ByteColumn {
    fn eq(&self, other: &Self) -> bool {
        let all = |column: &ByteColumn| {
            let mut bytes = Vec::new();
            column.gather(&(0..column.len()).collect::<Vec<_>>(), 1, &mut bytes);
            bytes
        };
        self.len() == other.len() && all(self) == all(other)
    }
}

impl Eq for ByteColumn {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_folder(folder.path());
        for cells in [
            Cells::Byte(vec![1, 2, 3, 4, 5, 6]),
            Cells::Short(vec![1, 65_535, 3, 4, 500, 6]),
            Cells::Float(vec![1.5, -2.0, f32::MIN_POSITIVE, 4.0, 5e30, 6.0]),
        ] {
            let mut writer = scratch.column(cells.cell_type()).unwrap();
            writer.append(cells.view().slice(0..4)).unwrap();
            writer.append(cells.view().slice(4..6)).unwrap();
            let column = writer.finish().unwrap();
            // Rows of two cells: the last, the first two, the last again.
            let gathered = column.gather(&[2, 0, 1, 2], 2);
            assert!(column.gather(&[], 2).is_empty());
            let mut expected = Cells::empty(cells.cell_type());
            for range in [4..6, 0..4, 4..6] {
                expected.extend_from(cells.view(), range);
            }
            assert_eq!(gathered, expected);
            assert_eq!(Stored::from(column).whole(), &cells);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files have no name");
    }

    #[test]
    fn bytes_are_the_same_in_memory_and_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::in_folder(folder.path());
        let mut columns = [None, Some(&scratch)].map(|at| ByteColumn::zeros(6, at).unwrap());
        for column in &mut columns {
            column.write(2, &[7, 8, 9]).unwrap();
            let mut rows = Vec::new();
            column.gather(&[2, 1], 2, &mut rows);
            assert_eq!(rows, [9, 0, 7, 8]);
        }
        assert_eq!(columns[0], columns[1]);
        assert_ne!(columns[0], ByteColumn::from(vec![0; 6]));
        let nowhere = Scratch::in_folder(&folder.path().join("nowhere"));
        assert!(ByteColumn::zeros(1, Some(&nowhere)).is_err());
    }
}
