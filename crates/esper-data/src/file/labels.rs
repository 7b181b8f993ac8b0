//! Labels beside a data set: one row a step, as in the data's own file.

use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    ArrayRef, FixedSizeListArray, Float32Array, Int32Array, RecordBatch, UInt8Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use parquet::arrow::ArrowWriter;

use super::pending::PendingFile;
use super::write::{failure, properties};
use super::{cell_field, column};
use crate::dataset::Dataset;
use crate::error::DataError;

/// Labels of every step of a data set, and what they were made from.
#[derive(Clone, Copy, Debug)]
pub struct LabelColumns<'a> {
    /// One a step.
    pub labels: &'a [f32],
    /// The probabilities of clusters, in units of 1/255, so many a step; none if there are none.
    pub clusters: Option<(usize, &'a [u8])>,
}

/// Episodes in a row group.
const EPISODES_AT_ONCE: usize = 8_192;

impl LabelColumns<'_> {
    /// Writes them: columns `episode`, `step`, `label`, and `clusters` if there are any.
    ///
    /// # Panics
    ///
    /// When there is not one label a step.
    pub fn write(&self, data: &Dataset, path: &Path, overwrite: bool) -> Result<(), DataError> {
        assert_eq!(self.labels.len(), data.steps(), "one label a step");
        let mut fields = vec![
            Field::new(column::EPISODE, DataType::Int32, false),
            Field::new(column::STEP, DataType::Int32, false),
            Field::new("label", DataType::Float32, false),
        ];
        if let Some((width, _)) = self.clusters {
            let list = DataType::FixedSizeList(cell_field(DataType::UInt8), width as i32);
            fields.push(Field::new("clusters", list, false));
        }
        let schema = Arc::new(Schema::new(fields));
        let file = BufWriter::new(PendingFile::create(path, overwrite)?);
        let failed = |error| failure(path, error);
        let mut writer =
            ArrowWriter::try_new(file, schema.clone(), Some(properties())).map_err(failed)?;
        for first in (0..data.episodes()).step_by(EPISODES_AT_ONCE) {
            let last = (first + EPISODES_AT_ONCE).min(data.episodes());
            let rows = self.record_batch(data, first..last, schema.clone());
            let rows = rows.map_err(|error| failed(error.into()))?;
            writer.write(&rows).and_then(|()| writer.flush()).map_err(failed)?;
        }
        let buffer = writer.into_inner().map_err(failed)?;
        let file = buffer.into_inner().map_err(|error| DataError::io(path, error.into_error()))?;
        file.finish()
    }

    fn record_batch(
        &self,
        data: &Dataset,
        episodes: std::ops::Range<usize>,
        schema: Arc<Schema>,
    ) -> Result<RecordBatch, ArrowError> {
        let steps =
            data.episode_steps(episodes.start).start..data.episode_steps(episodes.end - 1).end;
        let numbers = episodes.clone().flat_map(|e| std::iter::repeat_n(e as i32, data.length(e)));
        let times = episodes.clone().flat_map(|e| 0..data.length(e) as i32);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(numbers)),
            Arc::new(Int32Array::from_iter_values(times)),
            Arc::new(Float32Array::from(self.labels[steps.clone()].to_vec())),
        ];
        if let Some((width, probabilities)) = self.clusters {
            let rows = probabilities[steps.start * width..steps.end * width].to_vec();
            let field = cell_field(DataType::UInt8);
            let cells = Arc::new(UInt8Array::from(rows));
            columns.push(Arc::new(FixedSizeListArray::try_new(field, width as i32, cells, None)?));
        }
        RecordBatch::try_new(schema, columns)
    }
}
