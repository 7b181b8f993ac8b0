//! Reading a data set: every promise of the layout is checked before a [`Dataset`] exists.

use std::fmt;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema};

use super::arrays::{Problem, floats, integers, strings, values};
use super::checksum::{Checksums, RunningChecksums};
use super::lists::Lists;
use super::source::{ParquetSource, complete, nullable};
use super::{FORMAT, Header, METADATA_KEY, column};
use crate::builder::{DatasetBuilder, Ending, MAX_BEHAVIOURS, TOO_MANY_BEHAVIOURS};
use crate::cells::{CellType, Cells};
use crate::dataset::{Columns, Dataset, End, Metadata};
use crate::error::DataError;
use crate::scratch::{ColumnWriter, Scratch};
use crate::space::Space;

/// Reads a data set from a native file.
pub fn read(path: &Path) -> Result<Dataset, DataError> {
    let source = ParquetSource::open(path)?;
    let header = header(&source, path)?;
    let invalid = |problem: String| DataError::InvalidFile { path: path.to_owned(), problem };
    check_columns(&source, &header).map_err(invalid)?;

    let spaces = &header.metadata;
    let seen = &spaces.observation_space;
    let (width, cells) = (seen.cells(), seen.cell_type());
    let parts = source.read_groups(
        &column::ALL,
        Some(Lists { column: column::OBSERVATION, width, cells }),
        |observations| Part::new(spaces, observations),
        |part, batch| part.add(batch, spaces),
    )?;
    let data = assemble(&header, parts)
        .and_then(DatasetBuilder::build)
        .map_err(|error| error.in_file(path))?;
    if header.checksums.is_some_and(|expected| expected != Checksums::of(&data)) {
        return Err(invalid(damaged()));
    }
    Ok(data)
}

/// What a native file says of itself, without reading a row.
pub fn read_header(path: &Path) -> Result<Header, DataError> {
    let source = ParquetSource::open(path)?;
    let header = header(&source, path)?;
    let invalid = |problem: String| DataError::InvalidFile { path: path.to_owned(), problem };
    check_columns(&source, &header).map_err(invalid)?;
    Ok(header)
}

/// Steps that are in memory at a time while a file goes to disk, about.
const STEPS_AT_ONCE: usize = 1 << 17;

/// Bytes that they take at most, about.
const BYTES_AT_ONCE: usize = 1 << 26;

/// Reads a data set from a native file, as [`read`] does, but leaves observations and actions on disk: at no time is more
/// than a small part of them in memory, or a whole episode. Rewards and what there is one of an episode are in memory.
pub fn read_on_disk(path: &Path, scratch: &Scratch) -> Result<Dataset, DataError> {
    let source = ParquetSource::open(path)?;
    let header = header(&source, path)?;
    let invalid = |problem: String| DataError::InvalidFile { path: path.to_owned(), problem };
    check_columns(&source, &header).map_err(invalid)?;
    let named = source.schema().field_with_name(column::BEHAVIOUR).is_ok();
    let names = if named { &header.behaviours[..] } else { &[] };
    let mut spilled = Spilled::new(&header, names, scratch)?;
    let bytes = header.bytes_a_step().max(1);
    let enough = STEPS_AT_ONCE.min(BYTES_AT_ONCE / bytes).max(1);
    source.read_batches(&column::ALL, |batch, first_row| {
        let mut part = Part::new(&header.metadata, None);
        part.add(batch, &header.metadata).map_err(|problem| source.invalid(problem, first_row))?;
        let in_file = |error: DataError| error.in_file(path);
        spilled.add(&part, first_row).map_err(in_file)?;
        if spilled.builder.steps() >= enough {
            spilled.spill().map_err(in_file)?;
        }
        Ok(())
    })?;
    let (data, checksums) = spilled.finish(&header).map_err(|error| error.in_file(path))?;
    match header.checksums.is_some_and(|expected| expected != checksums) {
        true => Err(invalid(damaged())),
        false => Ok(data),
    }
}

/// Said of contents that do not have their checksums.
fn damaged() -> String {
    format!(
        "its contents are not what was written: it is damaged, or was edited without removing `checksums` from its \
         `{METADATA_KEY}` metadata"
    )
}

/// A data set on its way to disk.
struct Spilled<'a> {
    scratch: &'a Scratch,
    /// What is in memory still.
    builder: DatasetBuilder,
    observations: ColumnWriter,
    actions: ColumnWriter,
    rewards: Vec<f32>,
    starts: Vec<usize>,
    ends: Vec<End>,
    behaviours: Vec<String>,
    behaviour_of: Vec<u16>,
    checksums: RunningChecksums,
}

impl<'a> Spilled<'a> {
    fn new(
        header: &Header,
        behaviours: &[String],
        scratch: &'a Scratch,
    ) -> Result<Self, DataError> {
        let Metadata { observation_space, action_space, .. } = &header.metadata;
        Ok(Spilled {
            scratch,
            builder: DatasetBuilder::new(header.metadata.clone()).with_behaviours(behaviours),
            observations: scratch.column(observation_space.cell_type())?,
            actions: scratch.column(action_space.cell_type())?,
            rewards: Vec::new(),
            starts: vec![0],
            ends: Vec::new(),
            behaviours: Vec::new(),
            behaviour_of: Vec::new(),
            checksums: RunningChecksums::default(),
        })
    }

    fn add(&mut self, part: &Part, first_row: usize) -> Result<(), DataError> {
        part.add_to(&mut self.builder, first_row, self.ends.len())
    }

    /// Writes what is complete.
    fn spill(&mut self) -> Result<(), DataError> {
        if self.builder.episodes() == 0 {
            return Ok(());
        }
        let part = self.builder.take_complete().build().map_err(|error| match error {
            DataError::Invalid(problem) if !self.ends.is_empty() => {
                let before = self.ends.len();
                DataError::Invalid(format!("{problem} (episodes counted after the first {before})"))
            }
            error => error,
        })?;
        self.checksums.add(&part);
        self.observations.append(part.observations().view())?;
        self.actions.append(part.actions().view())?;
        self.rewards.extend_from_slice(part.rewards());
        for episode in 0..part.episodes() {
            self.starts.push(self.starts[self.starts.len() - 1] + part.length(episode));
            self.ends.push(part.end(episode));
            let behaviour = part.behaviour(episode);
            self.behaviour_of.extend(behaviour.map(|behaviour| behaviour as u16));
        }
        self.behaviours = part.behaviours().to_vec();
        Ok(())
    }

    fn finish(mut self, header: &Header) -> Result<(Dataset, Checksums), DataError> {
        self.spill()?;
        check_end(header, self.ends.len(), self.builder.steps_under_way())?;
        let data = Dataset::of_checked(Columns {
            metadata: header.metadata.clone(),
            starts: self.starts,
            ends: self.ends,
            observations: self.observations.finish()?.into(),
            actions: self.actions.finish()?.into(),
            rewards: self.rewards,
            behaviours: self.behaviours,
            behaviour_of: self.behaviour_of,
            scratch: Some(self.scratch.clone()),
        });
        Ok((data, self.checksums.finish()))
    }
}

/// Whether a Parquet file says of itself that it is a native one, readable or not.
pub(crate) fn is_native(path: &Path) -> Result<bool, DataError> {
    Ok(entry(&ParquetSource::open(path)?).is_some())
}

/// The text of the `esper` entry of the file's metadata.
fn entry<'a>(source: &'a ParquetSource<'_>) -> Option<&'a str> {
    let entries = source.metadata().file_metadata().key_value_metadata();
    let mut entries = entries.into_iter().flatten();
    entries.find(|entry| entry.key == METADATA_KEY).and_then(|entry| entry.value.as_deref())
}

/// The `esper` entry of the file's metadata.
fn header(source: &ParquetSource<'_>, path: &Path) -> Result<Header, DataError> {
    let not_ours = |reason: String, source| {
        let path = path.to_owned();
        DataError::NotADataset { path, reason, source }
    };
    let json = entry(source).ok_or_else(|| {
        let reason = format!(
            "it has no `{METADATA_KEY}` entry in its metadata; `esper collect` and `esper import` write files that have one"
        );
        not_ours(reason, None)
    })?;
    // The format first: a later one may have a header that this version cannot parse.
    #[derive(serde::Deserialize)]
    struct Format {
        format: u32,
    }
    let damaged = |error: serde_json::Error| {
        not_ours(format!("its `{METADATA_KEY}` metadata is damaged: {error}"), Some(error))
    };
    let Format { format } = serde_json::from_str(json).map_err(damaged)?;
    if format != FORMAT {
        let reason =
            format!("it has format {format}, and this version of esper reads format {FORMAT}");
        return Err(not_ours(reason, None));
    }
    let header: Header = serde_json::from_str(json).map_err(damaged)?;
    for space in [&header.metadata.observation_space, &header.metadata.action_space] {
        space.validate().map_err(|reason| not_ours(reason, None))?;
    }
    Ok(header)
}

/// Checks what can be told without reading a row.
fn check_columns(source: &ParquetSource<'_>, header: &Header) -> Result<(), String> {
    let rows = source.metadata().file_metadata().num_rows();
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
    expected.into_iter().try_for_each(|(name, expected)| expected.check(name, source.schema()))
}

/// What a column has to hold.
pub(super) enum Expected<'a> {
    Integer,
    Number,
    Boolean,
    IntegerList,
    Value(&'a Space),
}

impl Expected<'_> {
    /// Checks that there is such a column, and its type.
    pub(super) fn check(&self, name: &str, schema: &Schema) -> Result<(), String> {
        let Ok(field) = schema.field_with_name(name) else {
            return Err(format!("column `{name}` is missing"));
        };
        match field.data_type() {
            found if self.accepts(found) => Ok(()),
            found => Err(format!("column `{name}` is of type {found}, not {self}")),
        }
    }

    fn accepts(&self, found: &DataType) -> bool {
        match (self, found) {
            (Expected::Integer, _) => found.is_integer(),
            (Expected::Number, _) => found.is_numeric(),
            (Expected::Boolean, _) => *found == DataType::Boolean,
            (
                Expected::IntegerList,
                DataType::List(cell) | DataType::LargeList(cell) | DataType::FixedSizeList(cell, _),
            ) => cell.data_type().is_integer(),
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
            Expected::IntegerList => write!(f, "a list of integers"),
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

impl Part {
    /// No rows yet, perhaps with their observations, all of them.
    fn new(spaces: &Metadata, observations: Option<Cells>) -> Self {
        let observation_type = spaces.observation_space.cell_type();
        Part {
            episode: Vec::new(),
            step: Vec::new(),
            observations: observations.unwrap_or_else(|| Cells::empty(observation_type)),
            actions: Cells::empty(spaces.action_space.cell_type()),
            rewards: Vec::new(),
            terminated: Vec::new(),
            truncated: Vec::new(),
            behaviours: Vec::new(),
            behaviour: Vec::new(),
            last: Vec::new(),
            finals: Cells::empty(observation_type),
        }
    }

    fn add(&mut self, batch: &RecordBatch, spaces: &Metadata) -> Result<(), Problem> {
        let complete = |name| complete(batch, name);
        let first = self.rewards.len();
        let Metadata { observation_space, action_space, .. } = spaces;

        integers(column::EPISODE, complete(column::EPISODE)?, &mut self.episode)?;
        integers(column::STEP, complete(column::STEP)?, &mut self.step)?;
        if batch.column_by_name(column::OBSERVATION).is_some() {
            let observation = complete(column::OBSERVATION)?;
            values(column::OBSERVATION, observation_space, observation, &mut self.observations)?;
        }
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

        let last = nullable(batch, column::FINAL_OBSERVATION)?;
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

    /// Adds the rows to those of the parts before, which have so many: `first_row`; and so many episodes before those of the
    /// builder.
    fn add_to(
        &self,
        builder: &mut DatasetBuilder,
        first_row: usize,
        before: usize,
    ) -> Result<(), DataError> {
        let behaviours = self.behaviour_indices(builder)?;
        let (mut episode, mut step) = (before + builder.episodes(), builder.steps_under_way());
        let mut behaviour = builder.behaviour();
        let mut endings = Vec::with_capacity(self.last.len());
        for row in 0..self.rewards.len() {
            let refused = |problem: &str| {
                Err(DataError::Invalid(format!("row {}: {problem}", first_row + row)))
            };
            if self.episode[row] != episode as i64 || self.step[row] != step as i64 {
                return refused(&format!(
                    "episode {}, step {} where episode {episode}, step {step} should follow; \
                     rows must be in order, without gaps, and the last of every episode must have a \
                     `final_observation`",
                    self.episode[row], self.step[row]
                ));
            }
            if let Some(&named) = self.behaviour.get(row) {
                let named = Some(behaviours[usize::from(named)]);
                if step > 0 && behaviour != named {
                    return refused("the behaviour changes within an episode");
                }
                behaviour = named;
            }
            let end = End { terminated: self.terminated[row], truncated: self.truncated[row] };
            if self.last.get(endings.len()) == Some(&row) {
                endings.push(Ending { row, end, behaviour: behaviour.take() });
                (episode, step) = (episode + 1, 0);
            } else if end != End::default() {
                return refused("the episode ends, but there is no `final_observation`");
            } else {
                step += 1;
            }
        }
        let (observations, finals) = (self.observations.view(), self.finals.view());
        builder.push_log(observations, self.actions.view(), &self.rewards, finals, &endings)?;
        builder.set_behaviour(behaviour);
        Ok(())
    }

    /// For every name of this part its index in the whole.
    fn behaviour_indices(&self, builder: &mut DatasetBuilder) -> Result<Vec<usize>, DataError> {
        let indices = self.behaviours.iter().map(|name| builder.behaviour_index(name)).collect();
        match builder.behaviours().len() {
            ..=MAX_BEHAVIOURS => Ok(indices),
            _ => Err(DataError::Invalid(TOO_MANY_BEHAVIOURS.to_owned())),
        }
    }
}

/// Joins the row groups, checking that episodes are whole and in order.
fn assemble(header: &Header, parts: Vec<Part>) -> Result<DatasetBuilder, DataError> {
    let mut builder = DatasetBuilder::new(header.metadata.clone());
    // What has been read, not what the header says: that may be anything.
    let steps = parts.iter().map(|part| part.rewards.len()).sum();
    builder.reserve(steps, parts.iter().map(|part| part.last.len()).sum());
    // A column of behaviours that was taken out leaves none of their names.
    if parts.iter().any(|part| !part.behaviour.is_empty()) {
        builder = builder.with_behaviours(&header.behaviours);
    }
    let mut rows = 0;
    for part in parts {
        part.add_to(&mut builder, rows, 0)?;
        rows += part.rewards.len();
    }
    check_end(header, builder.episodes(), builder.steps_under_way())?;
    Ok(builder)
}

/// Checks that all episodes are there, and whole.
fn check_end(header: &Header, episodes: usize, under_way: usize) -> Result<(), DataError> {
    if under_way > 0 {
        return Err(DataError::Invalid(format!(
            "the last episode, {episodes}, has no `final_observation`: the file is cut short"
        )));
    }
    if episodes != header.episodes {
        let expected = header.episodes;
        return Err(DataError::Invalid(format!(
            "its metadata says {expected} episodes, but it has {episodes}"
        )));
    }
    Ok(())
}

/// The number of a behaviour's name, which is added if it is new.
fn index_of(names: &mut Vec<String>, name: &str) -> Result<u16, String> {
    let known = names.iter().position(|known| known == name);
    let index = known.unwrap_or_else(|| {
        names.push(name.to_owned());
        names.len() - 1
    });
    u16::try_from(index).map_err(|_| TOO_MANY_BEHAVIOURS.to_owned())
}
