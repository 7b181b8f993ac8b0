//! Writing: streamed row group by row group into a temporary file, which takes its final name only when complete.

use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::UInt16Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, FixedSizeListArray, Float32Array, Int32Array,
    RecordBatch, StringArray, UInt8Array, UInt16Array,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;

use super::checksum::RunningChecksums;
use super::pending::PendingFile;
use super::{FORMAT, Header, METADATA_KEY, cell_field, column, schema};
use crate::cells::Cells;
use crate::dataset::{Dataset, Metadata};
use crate::error::DataError;
use crate::space::Space;

/// Writes a data set that arrives in parts, each a row group of the file.
///
/// Nothing appears under the final name before [`DatasetWriter::finish`]; a writer that is dropped leaves nothing.
pub struct DatasetWriter {
    path: PathBuf,
    header: Header,
    schema: Arc<Schema>,
    writer: ArrowWriter<BufWriter<PendingFile>>,
    checksums: RunningChecksums,
}

impl DatasetWriter {
    /// Starts a file. `behaviours` are the names that every part will have; none if nothing is known about them.
    pub fn create(
        path: &Path,
        metadata: &Metadata,
        behaviours: &[String],
        overwrite: bool,
    ) -> Result<Self, DataError> {
        let file = BufWriter::new(PendingFile::create(path, overwrite)?);
        let schema = Arc::new(schema(metadata, !behaviours.is_empty()));
        let writer = ArrowWriter::try_new(file, schema.clone(), Some(properties()))
            .map_err(|error| failure(path, error))?;
        let header = Header {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            steps: 0,
            episodes: 0,
            behaviours: behaviours.to_vec(),
            metadata: metadata.clone(),
            checksums: None,
        };
        let checksums = RunningChecksums::default();
        Ok(DatasetWriter { path: path.to_owned(), header, schema, writer, checksums })
    }

    /// Appends a part as one row group. Its spaces and behaviours must be those the file was started with.
    pub fn write(&mut self, part: &Dataset) -> Result<(), DataError> {
        let (ours, theirs) = (&self.header.metadata, part.metadata());
        if ours.observation_space != theirs.observation_space
            || ours.action_space != theirs.action_space
            || self.header.behaviours != part.behaviours()
        {
            let problem = "a part has other spaces or behaviours than the file was started with";
            return Err(DataError::Invalid(problem.to_owned()));
        }
        let rows = record_batch(part, self.header.episodes, self.schema.clone())
            .map_err(|error| failure(&self.path, error.into()))?;
        self.writer
            .write(&rows)
            .and_then(|()| self.writer.flush())
            .map_err(|error| failure(&self.path, error))?;
        self.checksums.add(part);
        self.header.steps += part.steps();
        self.header.episodes += part.episodes();
        Ok(())
    }

    /// Completes the file and gives it its name. There has to be something in it.
    pub fn finish(self) -> Result<(), DataError> {
        let DatasetWriter { path, mut header, mut writer, checksums, .. } = self;
        if header.episodes == 0 {
            return Err(DataError::Invalid("there are no episodes to write".to_owned()));
        }
        header.checksums = Some(checksums.finish());
        let header = serde_json::to_string(&header)
            .map_err(|error| DataError::Invalid(format!("metadata: {error}")))?;
        writer.append_key_value_metadata(KeyValue::new(METADATA_KEY.to_owned(), header));
        let buffer = writer.into_inner().map_err(|error| failure(&path, error))?;
        let file = buffer.into_inner().map_err(|error| DataError::io(&path, error.into_error()))?;
        file.finish()
    }
}

impl Dataset {
    /// Writes the data set to a file; of a view, its own episodes.
    pub fn write(&self, path: &Path, overwrite: bool) -> Result<(), DataError> {
        let mut writer =
            DatasetWriter::create(path, self.metadata(), self.behaviours(), overwrite)?;
        writer.write(self)?;
        writer.finish()
    }
}

/// One part as arrow columns, its episodes numbered from `first_episode`.
fn record_batch(
    part: &Dataset,
    first_episode: usize,
    schema: Arc<Schema>,
) -> Result<RecordBatch, ArrowError> {
    let steps = part.steps();
    let (mut episode, mut step) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
    let (mut terminated, mut truncated) = (vec![false; steps], vec![false; steps]);
    let mut observation_rows = Vec::with_capacity(steps);
    let mut is_last = vec![false; steps];
    for e in 0..part.episodes() {
        let length = part.length(e);
        episode.extend(std::iter::repeat_n((first_episode + e) as i32, length));
        step.extend(0..length as i32);
        let last = step.len() - 1;
        terminated[last] = part.end(e).terminated;
        truncated[last] = part.end(e).truncated;
        is_last[last] = true;
        observation_rows.extend(part.episode_observations(e).take(length));
    }

    let observation_space = &part.metadata().observation_space;
    let step_rows: Vec<usize> = part.step_rows().collect();
    let next_rows: Vec<usize> = observation_rows.iter().map(|row| row + 1).collect();
    let rewards = step_rows.iter().map(|&row| part.rewards()[row]);
    let mut columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(episode)),
        Arc::new(Int32Array::from(step)),
        values(observation_space, part.observations(), &observation_rows, None)?,
        values(&part.metadata().action_space, part.actions(), &step_rows, None)?,
        Arc::new(Float32Array::from_iter_values(rewards)),
        Arc::new(BooleanArray::from(terminated)),
        Arc::new(BooleanArray::from(truncated)),
    ];
    if schema.field_with_name(column::BEHAVIOUR).is_ok() {
        columns.push(behaviours(part)?);
    }
    columns.push(values(observation_space, part.observations(), &next_rows, Some(is_last.into()))?);
    RecordBatch::try_new(schema, columns)
}

/// The chosen rows of a column of cells, as the arrow type of their space; null where `valid` is false.
fn values(
    space: &Space,
    cells: &Cells,
    rows: &[usize],
    valid: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    fn chosen<T: Copy>(values: &[T], rows: &[usize], width: usize) -> Vec<T> {
        let mut chosen = Vec::with_capacity(rows.len() * width);
        for &row in rows {
            chosen.extend_from_slice(&values[row * width..(row + 1) * width]);
        }
        chosen
    }
    let width = space.cells();
    let scalar = matches!(space, Space::Discrete { .. });
    let nulls = if scalar { valid.clone() } else { None };
    let array: ArrayRef = match cells {
        Cells::Byte(v) => Arc::new(UInt8Array::try_new(chosen(v, rows, width).into(), nulls)?),
        Cells::Short(v) => Arc::new(UInt16Array::try_new(chosen(v, rows, width).into(), nulls)?),
        Cells::Float(v) => Arc::new(Float32Array::try_new(chosen(v, rows, width).into(), nulls)?),
    };
    if scalar {
        return Ok(array);
    }
    let field = cell_field(array.data_type().clone());
    Ok(Arc::new(FixedSizeListArray::try_new(field, width as i32, array, valid)?))
}

/// The name of the behaviour of every step, as a dictionary.
fn behaviours(part: &Dataset) -> Result<ArrayRef, ArrowError> {
    let mut keys = Vec::with_capacity(part.steps());
    for episode in 0..part.episodes() {
        // A builder names every episode's behaviour, or none.
        let behaviour = part.behaviour(episode).unwrap_or_default() as u16;
        keys.extend(std::iter::repeat_n(behaviour, part.length(episode)));
    }
    let names = StringArray::from_iter_values(part.behaviours());
    Ok(Arc::new(DictionaryArray::<UInt16Type>::try_new(keys.into(), Arc::new(names))?))
}

/// Dictionaries make small integers a few bits each; counters are best as differences.
pub(super) fn properties() -> WriterProperties {
    let counter = |name: &str| ColumnPath::from(name);
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_statistics_enabled(EnabledStatistics::None)
        .set_column_dictionary_enabled(counter(column::EPISODE), false)
        .set_column_encoding(counter(column::EPISODE), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(counter(column::STEP), false)
        .set_column_encoding(counter(column::STEP), Encoding::DELTA_BINARY_PACKED)
        .build()
}

/// A failed write is nearly always the system's refusal (a full disk); keep its words.
pub(super) fn failure(path: &Path, error: ParquetError) -> DataError {
    let not_written = |source| DataError::NotWritten { path: path.to_owned(), source };
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(source) => DataError::io(path, *source),
            Err(other) => not_written(other),
        },
        other => not_written(Box::new(other)),
    }
}
