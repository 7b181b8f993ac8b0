//! The native file: Parquet, one row per step, readable elsewhere without a manual.
//!
//! | column | type | holds |
//! |---|---|---|
//! | `episode` | int32 | the episode's number, counting from 0 without gaps |
//! | `step` | int32 | the step within the episode, counting from 0 |
//! | `observation` | list of uint8 / uint16 / float32, or one such number for a `Discrete` space | what was seen |
//! | `action` | as `observation` | what was done |
//! | `reward` | float32 | what it paid |
//! | `terminated`, `truncated` | bool | how the episode ended; true only in its last row |
//! | `behaviour` | string | which behaviour made the episode, where known; never shown to a learner |
//! | `final_observation` | as `observation`, null but in the last row of an episode | what the last action led to |
//!
//! The entry `esper` of the file's key-value metadata is a JSON document ([`Header`]) with the spaces, the task, the
//! seed, the sizes, checksums of the contents, and the version of the program that wrote it.

mod arrays;
mod checksum;
mod labels;
mod lists;
mod lock;
mod pending;
mod read;
mod regular;
mod source;
mod write;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use serde::{Deserialize, Serialize};

use crate::cells::CellType;
use crate::dataset::Metadata;
use crate::space::Space;

pub use checksum::Checksums;
pub use labels::{LabelColumns, StepLabels};
pub use lock::Lock;
pub use pending::{PendingFile, clean_folder, write_file, write_json};
pub(crate) use read::is_native;
pub use read::{read, read_header, read_on_disk};
pub use regular::{read_file, read_text};
pub use source::panics_are_caught;
pub use write::DatasetWriter;

pub(crate) use arrays::{first_null, floats, integers};
pub(crate) use source::{Batches, ParquetSource, guarded};

/// The key of the file's metadata entry.
pub(crate) const METADATA_KEY: &str = "esper";

/// The version of the layout described above. A reader refuses what it does not know.
const FORMAT: u32 = 1;

/// Names of the columns.
mod column {
    pub(super) const EPISODE: &str = "episode";
    pub(super) const STEP: &str = "step";
    pub(super) const OBSERVATION: &str = "observation";
    pub(super) const ACTION: &str = "action";
    pub(super) const REWARD: &str = "reward";
    pub(super) const TERMINATED: &str = "terminated";
    pub(super) const TRUNCATED: &str = "truncated";
    pub(super) const BEHAVIOUR: &str = "behaviour";
    pub(super) const FINAL_OBSERVATION: &str = "final_observation";

    pub(super) const ALL: [&str; 9] = [
        EPISODE,
        STEP,
        OBSERVATION,
        ACTION,
        REWARD,
        TERMINATED,
        TRUNCATED,
        BEHAVIOUR,
        FINAL_OBSERVATION,
    ];
}

/// The JSON document in the file's metadata.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the layout.
    pub format: u32,
    /// The version of the program that wrote the file.
    pub version: String,
    /// The number of steps, which is the number of rows.
    pub steps: usize,
    /// The number of episodes.
    pub episodes: usize,
    /// The names of the behaviours, in the order they are to be listed; empty when none are known.
    #[serde(default)]
    pub behaviours: Vec<String>,
    /// What the columns mean.
    #[serde(flatten)]
    pub metadata: Metadata,
    /// What the contents have to add up to. Left out, they are not checked against anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Checksums>,
}

impl Header {
    /// Bytes that a step takes in memory: its observation, its action, its reward.
    pub fn bytes_a_step(&self) -> usize {
        let bytes = |space: &Space| {
            let cell = match space.cell_type() {
                CellType::Byte => 1,
                CellType::Short => 2,
                CellType::Float => 4,
            };
            cell * space.cells()
        };
        bytes(&self.metadata.observation_space) + bytes(&self.metadata.action_space) + 4
    }
}

/// The columns of a file for these spaces.
fn schema(metadata: &Metadata, with_behaviour: bool) -> Schema {
    let observation = value_type(&metadata.observation_space);
    let mut fields = vec![
        Field::new(column::EPISODE, DataType::Int32, false),
        Field::new(column::STEP, DataType::Int32, false),
        Field::new(column::OBSERVATION, observation.clone(), false),
        Field::new(column::ACTION, value_type(&metadata.action_space), false),
        Field::new(column::REWARD, DataType::Float32, false),
        Field::new(column::TERMINATED, DataType::Boolean, false),
        Field::new(column::TRUNCATED, DataType::Boolean, false),
    ];
    if with_behaviour {
        let names = DataType::Dictionary(Box::new(DataType::UInt16), Box::new(DataType::Utf8));
        fields.push(Field::new(column::BEHAVIOUR, names, false));
    }
    fields.push(Field::new(column::FINAL_OBSERVATION, observation, true));
    Schema::new(fields)
}

/// The type of one observation or action: a number for a `Discrete` space, else a list of its cells.
fn value_type(space: &Space) -> DataType {
    let cell = match space.cell_type() {
        CellType::Byte => DataType::UInt8,
        CellType::Short => DataType::UInt16,
        CellType::Float => DataType::Float32,
    };
    match space {
        Space::Discrete { .. } => cell,
        _ => DataType::FixedSizeList(cell_field(cell), space.cells() as i32),
    }
}

/// The field of a list's elements.
fn cell_field(cell: DataType) -> Arc<Field> {
    Arc::new(Field::new("cell", cell, false))
}
