//! Reading: row groups in parallel, then every promise of the layout checked before a [`Dataset`] exists.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use rayon::prelude::*;

use super::arrays::{Problem, floats, integers, strings, values};
use super::checksum::Checksums;
use super::{FORMAT, Header, METADATA_KEY, column};
use crate::cells::{CellType, Cells};
use crate::dataset::{Columns, Dataset, End, Metadata, Provenance};
use crate::error::DataError;
use crate::space::Space;

/// Reads a data set from a native file.
pub fn read(path: &Path) -> Result<Dataset, DataError> {
    let file = File::open(path).map_err(|source| DataError::io(path, source))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(DataError::io(path, std::io::ErrorKind::IsADirectory.into()));
    }
    let footer = guarded(path, || {
        ArrowReaderMetadata::load(&file, Default::default()).map_err(|error| {
            DataError::NotParquet { path: path.to_owned(), reason: error.to_string() }
        })
    })?;
    let size = file.metadata().map_err(|source| DataError::io(path, source))?.len();
    check_ranges(&footer, size)
        .map_err(|reason| DataError::NotParquet { path: path.to_owned(), reason })?;
    let header = header(&footer)
        .map_err(|reason| DataError::NotADataset { path: path.to_owned(), reason })?;
    let invalid = |problem: String| DataError::InvalidFile { path: path.to_owned(), problem };
    check_columns(&footer, &header).map_err(invalid)?;

    let groups = 0..footer.metadata().num_row_groups();
    let parts: Vec<Part> = groups
        .into_par_iter()
        .map(|group| guarded(path, || read_group(path, &footer, &header, group)))
        .collect::<Result<_, _>>()?;
    let columns = assemble(&header, parts).map_err(invalid)?;
    let data = Dataset::new(header.metadata, columns).map_err(|error| error.in_file(path))?;
    if header.checksums.is_some_and(|expected| expected != Checksums::of(&data)) {
        return Err(invalid(format!(
            "its contents are not what was written: it is damaged, or was edited without removing `checksums` from \
             its `{METADATA_KEY}` metadata"
        )));
    }
    Ok(data)
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

/// Calls into the Parquet library, which panics on some kinds of damage: that is an error of the file, too.
fn guarded<T>(path: &Path, call: impl FnOnce() -> Result<T, DataError>) -> Result<T, DataError> {
    GUARDED.set(true);
    // What the call was working on is dropped with it, so nothing half-done can be seen afterwards.
    let result = std::panic::catch_unwind(AssertUnwindSafe(call));
    GUARDED.set(false);
    result.unwrap_or_else(|_| {
        let reason = "it is damaged: its pages contradict its footer".to_owned();
        Err(DataError::NotParquet { path: path.to_owned(), reason })
    })
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

/// The `esper` entry of the file's metadata.
fn header(footer: &ArrowReaderMetadata) -> Result<Header, String> {
    let entries = footer.metadata().file_metadata().key_value_metadata();
    let json = entries
        .into_iter()
        .flatten()
        .find(|entry| entry.key == METADATA_KEY)
        .and_then(|entry| entry.value.as_deref())
        .ok_or_else(|| {
            format!(
                "it has no `{METADATA_KEY}` entry in its metadata; `esper collect` writes files that have one"
            )
        })?;
    // The format first: a later one may have a header that this version cannot parse.
    #[derive(serde::Deserialize)]
    struct Format {
        format: u32,
    }
    let damaged = |error| format!("its `{METADATA_KEY}` metadata is damaged: {error}");
    let Format { format } = serde_json::from_str(json).map_err(damaged)?;
    if format != FORMAT {
        return Err(format!(
            "it has format {format}, and this version of esper reads format {FORMAT}"
        ));
    }
    let header: Header = serde_json::from_str(json).map_err(damaged)?;
    header.metadata.observation_space.validate()?;
    header.metadata.action_space.validate()?;
    Ok(header)
}

/// Checks what can be told without reading a row.
fn check_columns(footer: &ArrowReaderMetadata, header: &Header) -> Result<(), String> {
    let rows = footer.metadata().file_metadata().num_rows();
    if usize::try_from(rows) != Ok(header.steps) {
        return Err(format!("its metadata says {} steps, but it has {rows} rows", header.steps));
    }
    if header.steps == 0 {
        return Err("it has no steps".to_owned());
    }
    let spaces = &header.metadata;
    let expected = [
        (column::EPISODE, Expected::Integer),
        (column::STEP, Expected::Integer),
        (column::OBSERVATION, Expected::Value(&spaces.observation_space)),
        (column::ACTION, Expected::Value(&spaces.action_space)),
        (column::REWARD, Expected::Number),
        (column::TERMINATED, Expected::Boolean),
        (column::TRUNCATED, Expected::Boolean),
        (column::FINAL_OBSERVATION, Expected::Value(&spaces.observation_space)),
    ];
    for (name, expected) in expected {
        let Ok(field) = footer.schema().field_with_name(name) else {
            return Err(format!("column `{name}` is missing"));
        };
        let found = field.data_type();
        if !expected.accepts(found) {
            return Err(format!("column `{name}` is of type {found}, not {expected}"));
        }
    }
    Ok(())
}

/// What a column has to hold.
enum Expected<'a> {
    Integer,
    Number,
    Boolean,
    Value(&'a Space),
}

impl Expected<'_> {
    fn accepts(&self, found: &DataType) -> bool {
        match (self, found) {
            (Expected::Integer, _) => found.is_integer(),
            (Expected::Number, _) => found.is_numeric(),
            (Expected::Boolean, _) => *found == DataType::Boolean,
            (Expected::Value(space @ Space::Discrete { .. }), _) => holds_cells(space, found),
            (Expected::Value(space), DataType::List(cell) | DataType::LargeList(cell)) => {
                holds_cells(space, cell.data_type())
            }
            (Expected::Value(space), DataType::FixedSizeList(cell, size)) => {
                usize::try_from(*size) == Ok(space.cells()) && holds_cells(space, cell.data_type())
            }
            _ => false,
        }
    }
}

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Integer => write!(f, "an integer"),
            Expected::Number => write!(f, "a number"),
            Expected::Boolean => write!(f, "a boolean"),
            Expected::Value(space) => write!(f, "what its metadata says: {space}"),
        }
    }
}

/// Whether a number of this type can be a cell of a space.
fn holds_cells(space: &Space, found: &DataType) -> bool {
    match space.cell_type() {
        CellType::Float => found.is_numeric(),
        CellType::Byte | CellType::Short => found.is_integer(),
    }
}

/// What one row group holds. `last` are the rows that have a final observation.
struct Part {
    episode: Vec<i64>,
    step: Vec<i64>,
    observations: Cells,
    actions: Cells,
    rewards: Vec<f32>,
    terminated: Vec<bool>,
    truncated: Vec<bool>,
    behaviours: Vec<String>,
    behaviour: Vec<u16>,
    last: Vec<usize>,
    finals: Cells,
}

/// Reads one row group.
fn read_group(
    path: &Path,
    footer: &ArrowReaderMetadata,
    header: &Header,
    group: usize,
) -> Result<Part, DataError> {
    let damaged = |reason: String| DataError::NotParquet { path: path.to_owned(), reason };
    // A file of its own for every thread: clones of one would share a single position.
    let file = File::open(path).map_err(|source| DataError::io(path, source))?;
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(file, footer.clone())
        .with_row_groups(vec![group])
        .with_batch_size(1 << 14)
        .build()
        .map_err(|error| damaged(error.to_string()))?;

    let observation_type = header.metadata.observation_space.cell_type();
    let mut part = Part {
        episode: Vec::new(),
        step: Vec::new(),
        observations: Cells::empty(observation_type),
        actions: Cells::empty(header.metadata.action_space.cell_type()),
        rewards: Vec::new(),
        terminated: Vec::new(),
        truncated: Vec::new(),
        behaviours: Vec::new(),
        behaviour: Vec::new(),
        last: Vec::new(),
        finals: Cells::empty(observation_type),
    };
    let before: i64 = footer.metadata().row_groups()[..group].iter().map(|g| g.num_rows()).sum();
    for batch in reader {
        let batch = batch.map_err(|error| damaged(error.to_string()))?;
        let first_row = before as usize + part.rewards.len();
        part.add(&batch, header).map_err(|Problem { column, row, what }| {
            let row = row.map_or(String::new(), |row| format!(" in row {}", first_row + row));
            DataError::InvalidFile {
                path: path.to_owned(),
                problem: format!("column `{column}`{row}: {what}"),
            }
        })?;
    }
    Ok(part)
}

impl Part {
    fn add(&mut self, batch: &RecordBatch, header: &Header) -> Result<(), Problem> {
        let column = |name: &'static str| {
            batch.column_by_name(name).ok_or_else(|| Problem::new(name, None, "is missing"))
        };
        let complete = |name: &'static str| {
            let array = column(name)?;
            match (0..array.len()).find(|&row| array.is_null(row)) {
                None => Ok(array),
                Some(row) => Err(Problem::new(name, row, "is empty (null)")),
            }
        };
        let first = self.rewards.len();
        let Metadata { observation_space, action_space, .. } = &header.metadata;

        integers(column::EPISODE, complete(column::EPISODE)?, &mut self.episode)?;
        integers(column::STEP, complete(column::STEP)?, &mut self.step)?;
        let observation = complete(column::OBSERVATION)?;
        values(column::OBSERVATION, observation_space, observation, &mut self.observations)?;
        values(column::ACTION, action_space, complete(column::ACTION)?, &mut self.actions)?;
        floats(column::REWARD, complete(column::REWARD)?, &mut self.rewards)?;
        for (name, to) in
            [(column::TERMINATED, &mut self.terminated), (column::TRUNCATED, &mut self.truncated)]
        {
            to.extend(complete(name)?.as_boolean().values().iter());
        }
        if batch.column_by_name(column::BEHAVIOUR).is_some() {
            self.add_behaviours(complete(column::BEHAVIOUR)?)?;
        }

        let last = column(column::FINAL_OBSERVATION)?;
        for row in (0..last.len()).filter(|&row| last.is_valid(row)) {
            let value = last.slice(row, 1);
            values(column::FINAL_OBSERVATION, observation_space, &value, &mut self.finals)
                .map_err(|problem| Problem { row: Some(row), ..problem })?;
            self.last.push(first + row);
        }
        Ok(())
    }

    /// Adds the behaviour names of a batch, none of which is null.
    fn add_behaviours(&mut self, names: &ArrayRef) -> Result<(), Problem> {
        let problem = |what: &str| Problem::new(column::BEHAVIOUR, None, what);
        let name_of = strings(names).ok_or_else(|| problem("does not hold strings"))?;
        // Runs of one name are long, an episode at least: look it up once a run.
        let mut previous: Option<(&str, u16)> = None;
        for row in 0..names.len() {
            let name = name_of(row);
            let index = match previous {
                Some((same, index)) if same == name => index,
                _ => index_of(&mut self.behaviours, name).map_err(|what| problem(&what))?,
            };
            previous = Some((name, index));
            self.behaviour.push(index);
        }
        Ok(())
    }
}

/// Joins the row groups, checking that episodes are whole and in order.
fn assemble(header: &Header, parts: Vec<Part>) -> Result<Columns, String> {
    let width = header.metadata.observation_space.cells();
    // What has been read, not what the header says: that may be anything.
    let steps: usize = parts.iter().map(|part| part.rewards.len()).sum();
    let episodes: usize = parts.iter().map(|part| part.last.len()).sum();
    let mut columns = Columns {
        lengths: Vec::with_capacity(episodes),
        ends: Vec::with_capacity(episodes),
        observations: Cells::empty(header.metadata.observation_space.cell_type()),
        actions: Cells::empty(header.metadata.action_space.cell_type()),
        rewards: Vec::with_capacity(steps),
        provenance: Provenance { names: header.behaviours.clone(), of_episode: Vec::new() },
    };
    columns.observations.reserve((steps + episodes) * width);
    columns.actions.reserve(steps * header.metadata.action_space.cells());

    if parts.iter().all(|part| part.behaviour.is_empty()) {
        columns.provenance.names.clear(); // the column was taken out
    }
    let mut length = 0; // of the episode that is being read
    let mut before = 0; // rows of the parts that have been read
    for part in parts {
        let rows = part.rewards.len();
        let behaviours: Vec<u16> = part
            .behaviours
            .iter()
            .map(|name| index_of(&mut columns.provenance.names, name))
            .collect::<Result<_, _>>()?;
        let mut lasts = part.last.iter().copied().enumerate().peekable();
        let mut copied = 0; // rows of this part whose observations have been copied
        for row in 0..rows {
            let at = || format!("row {}", before + row);
            let episode = columns.lengths.len();
            if part.episode[row] != episode as i64 || part.step[row] != length as i64 {
                return Err(format!(
                    "{}: episode {}, step {} where episode {episode}, step {length} should follow; \
                     rows must be in order, without gaps, and the last of every episode must have a `final_observation`",
                    at(),
                    part.episode[row],
                    part.step[row]
                ));
            }
            if let Some(&behaviour) = part.behaviour.get(row) {
                let behaviour = behaviours[usize::from(behaviour)];
                if length == 0 {
                    columns.provenance.of_episode.push(behaviour);
                } else if columns.provenance.of_episode.last() != Some(&behaviour) {
                    return Err(format!("{}: the behaviour changes within an episode", at()));
                }
            }
            length += 1;

            let is_last = lasts.next_if(|&(_, last)| last == row);
            let end = End { terminated: part.terminated[row], truncated: part.truncated[row] };
            match is_last {
                Some((index, _)) => {
                    let observations = copied * width..(row + 1) * width;
                    columns.observations.extend_from(part.observations.view(), observations);
                    copied = row + 1;
                    let last = index * width..(index + 1) * width;
                    columns.observations.extend_from(part.finals.view(), last);
                    columns.lengths.push(length);
                    columns.ends.push(end);
                    length = 0;
                }
                None if end != End::default() => {
                    return Err(format!(
                        "{}: the episode ends, but there is no `final_observation`",
                        at()
                    ));
                }
                None => {}
            }
        }
        columns.observations.extend_from(part.observations.view(), copied * width..rows * width);
        columns.actions.extend_from(part.actions.view(), 0..part.actions.len());
        columns.rewards.extend_from_slice(&part.rewards);
        before += rows;
    }
    if length > 0 {
        return Err(format!(
            "the last episode, {}, has no `final_observation`: the file is cut short",
            columns.lengths.len()
        ));
    }
    if columns.lengths.len() != header.episodes {
        return Err(format!(
            "its metadata says {} episodes, but it has {}",
            header.episodes,
            columns.lengths.len()
        ));
    }
    Ok(columns)
}

/// The number of a behaviour's name, which is added if it is new.
fn index_of(names: &mut Vec<String>, name: &str) -> Result<u16, String> {
    let known = names.iter().position(|known| known == name);
    let index = known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u16::try_from(index).map_err(|_| "more than 65,536 behaviours".to_owned())
}
