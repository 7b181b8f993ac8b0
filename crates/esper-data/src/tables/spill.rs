//! Rows that wait in a temporary file until their episodes are put together.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::plan::Plan;
use super::rows::Rows;
use crate::cells::{Cells, CellsRef};
use crate::error::DataError;

/// Bytes that are written at a time.
const BUFFER: usize = 1 << 17;

/// Rows that are read at a time.
const ROWS: usize = 1 << 13;

/// A file of rows, each as many bytes as it takes.
pub(super) struct Spill {
    folder: PathBuf,
    file: BufWriter<File>,
    rows: u64,
    /// Whether rows have times, and may have final observations.
    has_time: bool,
    may_have_final: bool,
}

impl Spill {
    pub(super) fn new(file: File, folder: &Path) -> Self {
        Spill {
            folder: folder.to_owned(),
            file: BufWriter::with_capacity(BUFFER, file),
            rows: 0,
            has_time: false,
            may_have_final: false,
        }
    }

    /// Appends one of some rows. Rows are gone through in order, and `finals` counts the final observations among them.
    pub(super) fn add(
        &mut self,
        rows: &Rows,
        row: usize,
        finals: &mut usize,
    ) -> Result<(), DataError> {
        self.rows += 1;
        self.has_time = !rows.time.is_empty();
        self.may_have_final = !rows.has_final.is_empty();
        self.write(rows, row, finals).map_err(|error| DataError::io(&self.folder, error))
    }

    fn write(&mut self, rows: &Rows, row: usize, finals: &mut usize) -> std::io::Result<()> {
        let file = &mut self.file;
        let width = |cells: &Cells| cells.len() / rows.len().max(1);
        file.write_all(&rows.episode[row].to_le_bytes())?;
        file.write_all(&rows.reward[row].to_le_bytes())?;
        file.write_all(&[rows.flags[row]])?;
        if let Some(time) = rows.time.get(row) {
            file.write_all(&time.to_le_bytes())?;
        }
        write_cells(file, rows.observation.view(), row, width(&rows.observation))?;
        write_cells(file, rows.action.view(), row, width(&rows.action))?;
        if let Some(&has_final) = rows.has_final.get(row) {
            file.write_all(&[u8::from(has_final)])?;
            if has_final {
                write_cells(file, rows.finals.view(), *finals, width(&rows.observation))?;
                *finals += 1;
            }
        }
        Ok(())
    }

    /// Reads all rows again, some at a time, in their order.
    pub(super) fn read(
        &mut self,
        plan: &Plan,
        mut each: impl FnMut(Rows) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        let io = |error| DataError::io(&self.folder, error);
        self.file.flush().map_err(io)?;
        let file = self.file.get_mut();
        file.rewind().map_err(io)?;
        let mut file = BufReader::with_capacity(BUFFER, file);
        let (seen, done) =
            (plan.metadata.observation_space.cells(), plan.metadata.action_space.cells());
        let mut left = self.rows;
        while left > 0 {
            let mut rows = Rows::empty(plan);
            for _ in 0..left.min(ROWS as u64) {
                let mut read = || -> std::io::Result<()> {
                    rows.episode.push(u32::from_le_bytes(bytes(&mut file)?));
                    rows.reward.push(f32::from_le_bytes(bytes(&mut file)?));
                    let [flags] = bytes(&mut file)?;
                    rows.flags.push(flags);
                    if self.has_time {
                        rows.time.push(i64::from_le_bytes(bytes(&mut file)?));
                    }
                    read_cells(&mut file, &mut rows.observation, seen)?;
                    read_cells(&mut file, &mut rows.action, done)?;
                    if self.may_have_final {
                        let [has_final] = bytes(&mut file)?;
                        rows.has_final.push(has_final == 1);
                        if has_final == 1 {
                            read_cells(&mut file, &mut rows.finals, seen)?;
                        }
                    }
                    Ok(())
                };
                read().map_err(io)?;
            }
            left -= rows.len() as u64;
            each(rows)?;
        }
        Ok(())
    }
}

fn bytes<const N: usize>(file: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn write_cells(
    file: &mut impl Write,
    cells: CellsRef<'_>,
    row: usize,
    width: usize,
) -> std::io::Result<()> {
    match cells.slice(row * width..(row + 1) * width) {
        CellsRef::Byte(cells) => file.write_all(cells),
        CellsRef::Short(cells) => {
            cells.iter().try_for_each(|cell| file.write_all(&cell.to_le_bytes()))
        }
        CellsRef::Float(cells) => {
            cells.iter().try_for_each(|cell| file.write_all(&cell.to_le_bytes()))
        }
    }
}

fn read_cells(file: &mut impl Read, cells: &mut Cells, width: usize) -> std::io::Result<()> {
    for _ in 0..width {
        match cells {
            Cells::Byte(cells) => cells.push(u8::from_le_bytes(bytes(file)?)),
            Cells::Short(cells) => cells.push(u16::from_le_bytes(bytes(file)?)),
            Cells::Float(cells) => cells.push(f32::from_le_bytes(bytes(file)?)),
        }
    }
    Ok(())
}
