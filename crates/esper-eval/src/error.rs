//! Why nothing was evaluated.

use std::path::PathBuf;

use esper_data::DataError;
use esper_tasks::{CollectError, OptionsError, WorldError};

use crate::comparison::Again;
use crate::results::ResultsError;

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EvalError {
    /// Something could not be learned, or a policy could not act.
    #[error(transparent)]
    Learning(#[from] esper::Error),
    /// One of several runs failed.
    #[error("{run}: {source}")]
    Run {
        /// Which.
        run: String,
        /// Why.
        source: Box<EvalError>,
    },
    /// A world failed.
    #[error(transparent)]
    World(#[from] WorldError),
    /// What was asked for cannot be collected.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Collecting failed.
    #[error(transparent)]
    Collect(CollectError),
    /// Data could not be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Results could not be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Asked(String),
    /// A folder cannot be made.
    #[error("{}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The data in an experiment's folder is not what it would collect.
    #[error(
        "{} is other data than this experiment collects: of another task, version, data set or size; remove it, or name \
         another folder",
        .0.display()
    )]
    OtherData(PathBuf),
    /// A policy was made for another world.
    #[error("{0}")]
    Mismatch(String),
    /// There is a comparison already.
    #[error("there is a comparison in {} already", .0.display())]
    Exists(PathBuf),
    /// Another comparison is in the folder.
    #[error("{} holds another comparison, that of\n  {again}", path.display())]
    OtherComparison {
        /// The folder.
        path: PathBuf,
        /// What makes the one that is there.
        again: Again,
    },
    /// A comparison on other data is in the folder.
    #[error(
        "{} holds a comparison on other data than {}: that had {steps} steps in {episodes} episodes, and other checksums; go on \
         with the same data, or name another folder",
        path.display(),
        given.display()
    )]
    OtherGivenData {
        /// The folder.
        path: PathBuf,
        /// The data that was given now.
        given: PathBuf,
        /// Steps of the data that was given before.
        steps: usize,
        /// Its episodes.
        episodes: usize,
    },
    /// A run was to be done of something that was not begun, or not where it is seen.
    #[error(
        "there is no comparison in {} that was begun; it is begun elsewhere, and every machine has to see the same folder",
        .0.display()
    )]
    NotBegun(PathBuf),
    /// Somebody asked for it to stop.
    #[error("stopped")]
    Stopped,
}

impl EvalError {
    /// The same, said to be of one of several runs; being stopped is of all of them.
    pub(crate) fn of_run(self, run: &str) -> Self {
        match self {
            EvalError::Stopped | EvalError::Learning(esper::Error::Stopped) => EvalError::Stopped,
            other => EvalError::Run { run: run.to_owned(), source: Box::new(other) },
        }
    }
}

impl EvalError {
    /// Why a run failed, without saying which it was.
    pub fn of_one(&self) -> &EvalError {
        match self {
            EvalError::Run { source, .. } => source,
            other => other,
        }
    }
}

impl From<CollectError> for EvalError {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Stopped => EvalError::Stopped,
            CollectError::World(error) => EvalError::World(error),
            CollectError::Data(error) => EvalError::Data(error),
            other => EvalError::Collect(other),
        }
    }
}
