//! Why something could not be learned, kept or acted on.

use std::io;
use std::path::PathBuf;

use esper_data::DataError;
use esper_nn::{DeviceError, StoreError};

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is nothing to be learned from this data, or not in this way.
    #[error("{0}")]
    Unsuitable(String),
    /// A setting is wrong.
    #[error("{0}")]
    Config(String),
    /// Settings cannot be read.
    #[error("{problem}")]
    Settings {
        /// What is wrong, and where.
        problem: String,
        /// What it came from.
        source: BoxedError,
    },
    /// There is no method, policy or the like of that name.
    #[error("there is no {what} `{name}`; there are {known}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// Its name.
        name: String,
        /// What there is.
        known: String,
    },
    /// A number ran away while training.
    #[error(
        "training of {phase} failed at step {step}: {what} is not a number any more; try a lower learning rate"
    )]
    Diverged {
        /// What was being trained.
        phase: String,
        /// When.
        step: usize,
        /// Which quantity.
        what: &'static str,
    },
    /// Somebody asked for it to stop.
    #[error("stopped")]
    Stopped,
    /// An agent was asked for something that makes no sense.
    #[error("{0}")]
    Acting(String),
    /// A policy cannot be written in another form.
    #[error("{0}")]
    Export(String),
    /// A run folder is not as it should be.
    #[error("{0}")]
    Run(String),
    /// A file of a run cannot be made sense of.
    #[error("{path} cannot be read: {source}", path = path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: BoxedError,
    },
    /// There is a run already.
    #[error("there is a run in {} already", .0.display())]
    RunExists(PathBuf),
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file or folder in question.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A policy's file cannot be used.
    #[error("{path}: {problem}", path = path.display())]
    PolicyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What it came from.
        #[source]
        source: Option<BoxedError>,
    },
    /// Data could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Weights could not be read.
    #[error("weights: {0}")]
    Store(#[from] StoreError),
    /// The device cannot be used.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// An error of a library.
pub(crate) type BoxedError = Box<dyn std::error::Error + Send + Sync>;
