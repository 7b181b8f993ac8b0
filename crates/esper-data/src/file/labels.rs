//! Labels beside a data set: one row a step, as in the data's own file.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `episode`, `step` | int32 | which step |
//! | `label` | float32 | what its return is expected to be |
//! | `clusters` | list of uint8 | probabilities of the clusters it was made from, in units of 1/255; may be missing |

use std::io::BufWriter;
use std::ops::Range;
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
    pub clusters: Option<(usize, &'a [u8])>,
}

/// Episodes in a row group.
const EPISODES_AT_ONCE: usize = 8_192;

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
        episodes: Range<usize>,
        schema: Arc<Schema>,
    ) -> Result<RecordBatch, ArrowError> {
        let numbers = episodes.clone().flat_map(|e| std::iter::repeat_n(e as i32, data.length(e)));
        let times = episodes.clone().flat_map(|e| 0..data.length(e) as i32);
        let steps = episodes.map(|e| data.episode_steps(e));
        let labels: Vec<f32> = steps.clone().flat_map(|rows| &self.labels[rows]).copied().collect();
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(numbers)),
            Arc::new(Int32Array::from_iter_values(times)),
            Arc::new(Float32Array::from(labels)),
        ];
        if let Some((width, probabilities)) = self.clusters {
            let mut cells = Vec::new();
            for rows in steps {
                cells.extend_from_slice(&probabilities[rows.start * width..rows.end * width]);
            }
            let field = cell_field(DataType::UInt8);
            let cells = Arc::new(UInt8Array::from(cells));
            columns.push(Arc::new(FixedSizeListArray::try_new(field, width as i32, cells, None)?));
        }
        RecordBatch::try_new(schema, columns)
    }
}
