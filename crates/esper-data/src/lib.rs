//! Logged episodes at rest.
//!
//! A [`Dataset`] holds episodes in columns; its [`Metadata`] says what they mean, as [`Space`]s. It is made by a
//! [`DatasetBuilder`], written to and read from Parquet ([`DatasetWriter`], [`read`]), summed up by [`Tally`] and
//! [`Distribution`], and handed to training as [`PackedBatch`]es. [`Seed`] is where all randomness of the project comes
//! from.
//!
//! [`read_known`] reads what other tools for reinforcement learning write, [`write_minari`] writes for one of them.
//!
//! Nothing here knows of learning or of tasks.

mod builder;
mod calendar;
mod cells;
mod dataset;
mod draw;
mod error;
mod fields;
mod file;
mod formats;
mod info;
mod names;
mod numbers;
mod overview;
mod packed;
mod scratch;
mod seed;
mod space;
mod statistics;
mod suspicions;
pub mod tables;

pub use builder::{DatasetBuilder, Ending};
pub use calendar::{SECONDS_OF_A_DAY, parse_date};
pub use cells::{Cell, CellType, Cells, CellsMut, CellsRef};
pub use dataset::{Dataset, End, Metadata};
pub use draw::{LOG_DEVIATIONS, draw_softmax, draw_squashed, draw_weighted, index_at};
pub use error::DataError;
pub use fields::{Field, FieldKind, Fields, Word, parse_truth};
pub use file::{
    Checksums, DatasetWriter, Header, LabelColumns, Lock, PendingFile, StepLabels, clean_folder,
    panics_are_caught, read, read_file, read_header, read_on_disk, read_text, write_file,
    write_json,
};
pub use formats::{Known, read_known, read_known_together, write_minari};
pub use info::Info;
pub use names::check_name;
pub use numbers::Moments;
pub use overview::{BehaviourReturns, Overview};
pub use packed::{PackedBatch, Window};
pub use scratch::{ByteColumn, Scratch};
pub use seed::{Rng, Seed};
pub use space::{CellError, MAX_CATEGORIES, MAX_CELLS, Space};
pub use statistics::{Bar, BehaviourSummary, Distribution, Tally, return_histogram};
pub use suspicions::{Suspicions, suspicions};
pub use tables::open;
