//! Why something could not be learned.

use esper_data::DataError;
use esper_nn::StoreError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nothing to be learned from this data, or not in this way.
    #[error("{0}")]
    Unsuitable(String),
    /// A setting is wrong.
    #[error("{0}")]
    Config(String),
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
    /// A run folder is not as it should be.
    #[error("{0}")]
    Run(String),
    /// Data could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Weights could not be read.
    #[error("weights: {0}")]
    Store(#[from] StoreError),
}
