//! What can be wrong with data, said so that its owner can mend it.

use std::io;
use std::path::{Path, PathBuf};

/// An error of this crate. Its message says everything; `source` is what another library said, where one did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// The operating system refused.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file in question.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file would have been overwritten.
    #[error("{path} already exists; choose another path, or say that it may be overwritten", path = .0.display())]
    Exists(PathBuf),
    /// What would have been overwritten is no file but a device, a pipe or a socket.
    #[error("{path} is not a file, and is not replaced by one; choose another path", path = .0.display())]
    NotAFile(PathBuf),
    /// What should have been read is no regular file but a device, a pipe or a socket.
    #[error("{path} is a pipe, a socket or a device; only regular files are read: write it to one first", path = .0.display())]
    NotRegular(PathBuf),
    /// Somebody else is writing there.
    #[error(
        "{path} is being written by {holder}; wait until that is done or end it, or choose another place",
        path = path.display()
    )]
    Locked {
        /// The folder or file.
        path: PathBuf,
        /// Who has it.
        holder: String,
    },
    /// The folder a file should go to is not there.
    #[error("there is no folder {path}; make it first", path = .0.display())]
    NoFolder(PathBuf),
    /// The file is no Parquet file, or a damaged one.
    #[error("{path} cannot be read as a Parquet file: {reason}", path = path.display())]
    NotParquet {
        /// The file in question.
        path: PathBuf,
        /// What the reader found.
        reason: String,
        /// The Parquet library's error, if it was the one that found it.
        source: Option<BoxedError>,
    },
    /// The Parquet library could not write a file.
    #[error("{path} cannot be written as a Parquet file: {source}", path = path.display())]
    NotWritten {
        /// The file in question.
        path: PathBuf,
        /// What the library said.
        source: BoxedError,
    },
    /// The file is Parquet, but not a data set of this program.
    #[error("{path} is not an esper data set: {reason}", path = path.display())]
    NotADataset {
        /// The file in question.
        path: PathBuf,
        /// What is missing or different.
        reason: String,
        /// Why its metadata could not be parsed, if that is the reason.
        source: Option<serde_json::Error>,
    },
    /// The file can be read, but what it holds contradicts itself or what it belongs to.
    #[error("{path}: {problem}", path = path.display())]
    InvalidFile {
        /// The file in question.
        path: PathBuf,
        /// What is wrong, with its row or column.
        problem: String,
    },
    /// It is in doubt which columns of a table are what, or it was said wrongly.
    #[error("{path}: {problem}", path = path.display())]
    Mapping {
        /// The table in question.
        path: PathBuf,
        /// What is in doubt, and how to say it.
        problem: String,
    },
    /// Somebody who watches said to stop.
    #[error("stopped before everything was read")]
    Stopped,
    /// Data handed over in memory contradicts itself.
    #[error("{0}")]
    Invalid(String),
}

/// An error of a library.
type BoxedError = Box<dyn std::error::Error + Send + Sync>;

impl DataError {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        DataError::Io { path: path.to_owned(), source }
    }

    /// The same problem, known to be in a file.
    pub(crate) fn in_file(self, path: &Path) -> Self {
        match self {
            DataError::Invalid(problem) => {
                DataError::InvalidFile { path: path.to_owned(), problem }
            }
            other => other,
        }
    }
}
