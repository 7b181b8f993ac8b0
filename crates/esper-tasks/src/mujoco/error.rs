//! What can go wrong with MuJoCo.

use std::path::PathBuf;

use super::library::Version;

/// Why there is no MuJoCo to simulate with, or why it did not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MujocoError {
    /// Nobody said where the library is, and Python does not have it.
    #[error(
        "this task needs the library of MuJoCo, and the Python on the path does not have it: `pip install mujoco` \
         installs it; where it is elsewhere, say so with --mujoco PATH or $MUJOCO_PATH"
    )]
    NotFound,
    /// The library is not where it was said to be.
    #[error(
        "there is no MuJoCo library in {}: name the file (such as libmujoco.so.4.0.0) or the folder it is in; \
         `pip install mujoco` installs one",
        .0.display()
    )]
    NotThere(PathBuf),
    /// The file is no library of this machine, or lacks a function.
    #[error("{} cannot be opened as MuJoCo's library", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the system says about it.
        #[source]
        source: libloading::Error,
    },
    /// Another library is in use already.
    #[error("MuJoCo is open already, from {}", .0.display())]
    AlreadyOpen(PathBuf),
    /// A version that is older than what is needed.
    #[error("{} is MuJoCo {version}; 3.0 or newer is needed: `pip install --upgrade mujoco`", path.display())]
    TooOld {
        /// The file.
        path: PathBuf,
        /// What it says it is.
        version: Version,
    },
    /// A model cannot be made of its description.
    #[error("MuJoCo {version} does not take the model of {model}: {problem}")]
    Model {
        /// The world.
        model: String,
        /// The library's version.
        version: Version,
        /// What it says.
        problem: String,
    },
    /// There is no memory for another copy of a world.
    #[error("MuJoCo has no memory for another copy of the world")]
    Memory,
    /// The simulation diverged, and MuJoCo put it back to its start.
    #[error("the simulation became unstable, and MuJoCo started it again")]
    Unstable,
}
