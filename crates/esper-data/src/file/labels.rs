//! Labels beside a data set: one row a step, as in the data's own file.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `episode`, `step` | int32 | which step |
//! | `label` | float32 | what its return is expected to be |
//! | `clusters` | list of uint8 | probabilities of the clusters it was made from, in units of 1/255; may be missing |
//!
//! Files of other programs may have the rows in any order, numbers of any width, and further columns.

use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Int32Array, RecordBatch, UInt8Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;

use super::arrays::{Problem, floats, list_width, lists, whole_numbers};
use super::pending::PendingFile;
use super::read::Expected;
use super::source::{ParquetSource, complete};
use super::write::{failure, properties};
use super::{cell_field, column};
use crate::cells::{CellType, Cells};
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::scratch::ByteColumn;

/// The names of the columns that a data set does not have.
const LABEL: &str = "label";
const CLUSTERS: &str = "clusters";

/// Labels of every step of a data set, and what they were made from. Both are by row, as [`Dataset::rewards`] are:
/// [`Dataset::rows`] entries, of which a view only uses those of its own episodes.
#[derive(Clone, Copy, Debug)]
pub struct LabelColumns<'a> {
    /// One a row.
    pub labels: &'a [f32],
    /// The probabilities of clusters, in units of 1/255, so many a row; none if there are none.
    pub clusters: Option<(usize, &'a ByteColumn)>,
}

/// Labels that were read: [`LabelColumns`] that own what they hold.
#[derive(Clone, Debug, PartialEq)]
pub struct StepLabels {
    /// One a row; 0 in rows that belong to no episode of a view.
    pub labels: Vec<f32>,
    /// The probabilities of clusters, in units of 1/255, so many a row; none if there are none.
    pub clusters: Option<(usize, ByteColumn)>,
}

/// Episodes in a row group.
const EPISODES_AT_ONCE: usize = 8_192;

/// Steps in a row group at most, or those of one episode.
const STEPS_AT_ONCE: usize = EPISODES_AT_ONCE * 1_000;

/// Rows that are handed to the writer at once: a multiple of what it takes in at a time, so that its pages do not depend on it.
const ROWS_AT_ONCE: usize = 1 << 17;

impl LabelColumns<'_> {
    /// Writes them: columns `episode`, `step`, `label`, and `clusters` if there are any.
    ///
    /// # Panics
    ///
    /// When there is not one label a row.
    pub fn write(&self, data: &Dataset, path: &Path, overwrite: bool) -> Result<(), DataError> {
        assert_eq!(self.labels.len(), data.rows(), "one label a row");
        let mut fields = vec![
            Field::new(column::EPISODE, DataType::Int32, false),
            Field::new(column::STEP, DataType::Int32, false),
            Field::new(LABEL, DataType::Float32, false),
        ];
        if let Some((width, clusters)) = self.clusters {
            assert_eq!(clusters.len(), data.rows() * width, "{width} clusters a row");
            let list = DataType::FixedSizeList(cell_field(DataType::UInt8), width as i32);
            fields.push(Field::new(CLUSTERS, list, false));
        }
        let schema = Arc::new(Schema::new(fields));
        let file = BufWriter::new(PendingFile::create(path, overwrite)?);
        let failed = |error| failure(path, error);
        let mut writer =
            ArrowWriter::try_new(file, schema.clone(), Some(properties())).map_err(failed)?;
        let mut last = 0;
        while last < data.episodes() {
            let first = last;
            let mut steps = 0;
            while last < data.episodes()
                && last - first < EPISODES_AT_ONCE
                && (last == first || steps + data.length(last) <= STEPS_AT_ONCE)
            {
                steps += data.length(last);
                last += 1;
            }
            let steps = |episode: usize| {
                let times = data.episode_steps(episode).enumerate();
                times.map(move |(time, row)| (episode as i32, time as i32, row))
            };
            let mut steps = (first..last).flat_map(steps);
            loop {
                let some: Vec<(i32, i32, usize)> = steps.by_ref().take(ROWS_AT_ONCE).collect();
                if some.is_empty() {
                    break;
                }
                let rows = self.record_batch(&some, schema.clone());
                let rows = rows.map_err(|error| failed(error.into()))?;
                writer.write(&rows).map_err(failed)?;
            }
            writer.flush().map_err(failed)?;
        }
        let buffer = writer.into_inner().map_err(failed)?;
        let file = buffer.into_inner().map_err(|error| DataError::io(path, error.into_error()))?;
        file.finish()
    }

    /// Some steps: episode, time and row of each.
    fn record_batch(
        &self,
        steps: &[(i32, i32, usize)],
        schema: Arc<Schema>,
    ) -> Result<RecordBatch, ArrowError> {
        let labels = steps.iter().map(|&(_, _, row)| self.labels[row]);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(steps.iter().map(|&(episode, ..)| episode))),
            Arc::new(Int32Array::from_iter_values(steps.iter().map(|&(_, time, _)| time))),
            Arc::new(Float32Array::from_iter_values(labels)),
        ];
        if let Some((width, probabilities)) = self.clusters {
            let mut cells = Vec::with_capacity(steps.len() * width);
            let rows: Vec<usize> = steps.iter().map(|&(_, _, row)| row).collect();
            probabilities.gather(&rows, width, &mut cells);
            let field = cell_field(DataType::UInt8);
            let cells = Arc::new(UInt8Array::from(cells));
            columns.push(Arc::new(FixedSizeListArray::try_new(field, width as i32, cells, None)?));
        }
        RecordBatch::try_new(schema, columns)
    }
}

impl StepLabels {
    /// The same, borrowed: what can be written.
    pub fn columns(&self) -> LabelColumns<'_> {
        let clusters = self.clusters.as_ref().map(|(width, clusters)| (*width, clusters));
        LabelColumns { labels: &self.labels, clusters }
    }

    /// Reads the labels of a data set. Every step has to have one, found by its `episode` and `step`.
    pub fn read(path: &Path, data: &Dataset) -> Result<Self, DataError> {
        let source = ParquetSource::open(path)?;
        let invalid = |problem: String| DataError::InvalidFile { path: path.to_owned(), problem };
        for name in [column::EPISODE, column::STEP, LABEL] {
            Expected::Number.check(name, source.schema()).map_err(invalid)?;
        }
        if source.schema().field_with_name(CLUSTERS).is_ok() {
            Expected::IntegerList.check(CLUSTERS, source.schema()).map_err(invalid)?;
        }
        let columns = [column::EPISODE, column::STEP, LABEL, CLUSTERS];
        let parts = source.read_groups(&columns, None, |_| Part::default(), Part::add)?;
        assemble(data, &parts).map_err(invalid)
    }
}

/// What one row group holds.
#[derive(Default)]
struct Part {
    episode: Vec<i64>,
    step: Vec<i64>,
    labels: Vec<f32>,
    /// How many clusters a row has, if there are any.
    width: usize,
    clusters: Vec<u8>,
}

impl Part {
    fn add(&mut self, batch: &RecordBatch) -> Result<(), Problem> {
        let first = self.labels.len();
        whole_numbers(column::EPISODE, complete(batch, column::EPISODE)?, &mut self.episode)?;
        whole_numbers(column::STEP, complete(batch, column::STEP)?, &mut self.step)?;
        floats(LABEL, complete(batch, LABEL)?, &mut self.labels)?;
        let labels = &self.labels[first..];
        if let Some(row) = labels.iter().position(|label| !label.is_finite()) {
            let what = format!("{} is not a finite number", labels[row]);
            return Err(Problem::new(LABEL, row, what));
        }
        if batch.column_by_name(CLUSTERS).is_none() || batch.num_rows() == 0 {
            return Ok(());
        }
        let clusters = complete(batch, CLUSTERS)?;
        if first == 0 {
            self.width = list_width(clusters);
        }
        if self.width == 0 {
            return Err(Problem::new(CLUSTERS, 0, "has no cells"));
        }
        let mut cells = Cells::empty(CellType::Byte);
        lists(CLUSTERS, clusters, self.width, &"the row before", &mut cells)?;
        if let Cells::Byte(cells) = cells {
            self.clusters.extend_from_slice(&cells);
        }
        Ok(())
    }
}

/// Puts every row where its step is.
fn assemble(data: &Dataset, parts: &[Part]) -> Result<StepLabels, String> {
    let rows = place(data, parts)?;
    let mut labels = vec![0.0; data.rows()];
    let found = parts.iter().flat_map(|part| &part.labels);
    rows.iter().zip(found).for_each(|(&row, &label)| labels[row] = label);

    let width = parts.iter().map(|part| part.width).max().unwrap_or(0);
    if parts.iter().any(|part| part.width != width && !part.labels.is_empty()) {
        return Err(format!("column `{CLUSTERS}`: rows have different numbers of cells"));
    }
    if width == 0 {
        return Ok(StepLabels { labels, clusters: None });
    }
    let mut clusters = vec![0; data.rows() * width];
    let found = parts.iter().flat_map(|part| part.clusters.chunks_exact(width));
    for (&row, found) in rows.iter().zip(found) {
        clusters[row * width..(row + 1) * width].copy_from_slice(found);
    }
    Ok(StepLabels { labels, clusters: Some((width, clusters.into())) })
}

/// For every row of the file the row of the data that it belongs to, after checking that every step has exactly one.
fn place(data: &Dataset, parts: &[Part]) -> Result<Vec<usize>, String> {
    let mut starts = Vec::with_capacity(data.episodes());
    let mut steps = 0;
    for episode in 0..data.episodes() {
        starts.push(steps);
        steps += data.length(episode);
    }
    let mut has_label = vec![false; steps];
    let mut rows = Vec::with_capacity(steps);
    let found = parts.iter().flat_map(|part| part.episode.iter().zip(&part.step));
    for (row, (&episode, &step)) in found.enumerate() {
        let below = |number: i64, limit: usize| usize::try_from(number).ok().filter(|&n| n < limit);
        let Some(e) = below(episode, data.episodes()) else {
            let episodes = data.episodes();
            return Err(format!("row {row}: no episode {episode}; the data has {episodes}"));
        };
        let Some(s) = below(step, data.length(e)) else {
            let length = data.length(e);
            let problem = format!("episode {e} has no step {step}; its length is {length}");
            return Err(format!("row {row}: {problem}"));
        };
        if std::mem::replace(&mut has_label[starts[e] + s], true) {
            return Err(format!("row {row}: a second label for episode {e}, step {s}"));
        }
        rows.push(data.episode_steps(e).start + s);
    }
    match has_label.iter().position(|&has_label| !has_label) {
        None => Ok(rows),
        Some(at) => {
            let episode = starts.partition_point(|&start| start <= at) - 1;
            let step = at - starts[episode];
            let missing = has_label.iter().filter(|&&has_label| !has_label).count();
            Err(format!(
                "no label for episode {episode}, step {step}; {missing} of {steps} steps have none"
            ))
        }
    }
}
