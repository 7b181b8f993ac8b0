//! Formats of other tools for reinforcement learning: Minari, D4RL, d3rlpy, RLlib and RLDS.
//!
//! [`read_known`] recognises a file or folder by what it holds, not by its name. Whatever is damaged or contradicts itself is an
//! error that names the file and the place in it. [`write_minari`] is the way back.

mod arrow;
mod d3rlpy;
mod d4rl;
mod hdf5;
mod hdf5_writer;
mod log;
mod minari;
mod numbers;
mod rows;
mod spaces;
mod write_minari;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::builder::DatasetBuilder;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::file::guarded;

pub use write_minari::write_minari;

/// What is said where a format keeps no last observation.
const NO_LAST_OBSERVATION: &str = "the file does not hold what last actions led to; the last observation of every episode stands for it";

/// Data that was read from another tool's format.
#[derive(Clone, Debug)]
pub struct Known {
    /// The episodes.
    pub data: Dataset,
    /// The format's name, for people.
    pub format: &'static str,
    /// What its owner should know: what was assumed or left out.
    pub notes: Vec<String>,
}

/// Reads a file or folder of Minari (0.4 and 0.5: HDF5, Arrow, Parquet), D4RL, d3rlpy, RLlib (Parquet) or RLDS (Parquet).
/// `None` where it is none of them; an HDF5 file that is none is an error that says what is in it, as nothing else here
/// reads HDF5.
///
/// ```no_run
/// if let Some(known) = esper_data::read_known("hopper-medium-v2.hdf5".as_ref())? {
///     println!("{}: {} episodes", known.format, known.data.episodes());
/// }
/// # Ok::<(), esper_data::DataError>(())
/// ```
pub fn read_known(path: &Path) -> Result<Option<Known>, DataError> {
    let damaged = || problem(path, "it is damaged: its parts contradict each other".to_owned());
    guarded(|| recognise(path).map_err(|error| error.in_file(path)), damaged)
}

/// The same of several sources, which become one data set: all of one format, with the same spaces. `None` where the first is of
/// none of these formats.
pub fn read_known_together(paths: &[PathBuf]) -> Result<Option<Known>, DataError> {
    let [first, rest @ ..] = paths else { return Ok(None) };
    let Some(known) = read_known(first)? else { return Ok(None) };
    if rest.is_empty() {
        return Ok(Some(known));
    }
    let Known { data, format, mut notes } = known;
    let metadata = data.metadata().clone();
    let mut all = DatasetBuilder::new(metadata.clone());
    all.extend(&data)?;
    for path in rest {
        let other = match read_known(path)? {
            Some(other) if other.format == format => other,
            other => {
                let found = other.map_or("a table", |other| other.format);
                let first = first.display();
                let told = format!("{found}, and {first} is {format}: import them one by one");
                return Err(problem(path, told));
            }
        };
        all.extend(&other.data).map_err(|error| error.in_file(path))?;
        if other.data.metadata().fields != metadata.fields {
            let first = first.display();
            let told = format!("its parts have other names than those of {first}");
            return Err(problem(path, told));
        }
        let new: Vec<String> =
            other.notes.into_iter().filter(|note| !notes.contains(note)).collect();
        notes.extend(new);
    }
    Ok(Some(Known { data: all.build()?, format, notes }))
}

fn recognise(path: &Path) -> Result<Option<Known>, DataError> {
    let metadata = std::fs::metadata(path).map_err(|error| DataError::io(path, error))?;
    if metadata.is_dir() {
        return recognise_folder(path);
    }
    // A pipe would block, a device may never end.
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut start = Vec::new();
    let file = File::open(path).map_err(|error| DataError::io(path, error))?;
    file.take(8).read_to_end(&mut start).map_err(|error| DataError::io(path, error))?;
    if start == hdf5::MAGIC {
        return read_hdf5(path).map(Some);
    }
    if start.starts_with(b"PAR1") {
        return read_parquet(&[path.to_owned()]);
    }
    Ok(None)
}

fn recognise_folder(folder: &Path) -> Result<Option<Known>, DataError> {
    match minari::find(folder)? {
        Some(minari::Layout::Hdf5(file)) => {
            read_hdf5(&file).map(Some).map_err(|error| error.in_file(&file))
        }
        Some(minari::Layout::Tables { folder, is_parquet, about }) => {
            minari::read_tables(&folder, is_parquet, *about).map(Some)
        }
        None => read_parquet(&arrow::files(folder, "parquet")?),
    }
}

fn read_hdf5(path: &Path) -> Result<Known, DataError> {
    let file = hdf5::Hdf5::open(path)?;
    let root = file.root()?;
    let (groups, datasets) = file.members(&root, "/")?;
    let mut names: Vec<&str> = datasets.iter().map(|dataset| dataset.name()).collect();
    if d3rlpy::is_it(&names) {
        return d3rlpy::read(&file, &datasets);
    }
    if d4rl::is_it(&names) {
        return d4rl::read(&file, &datasets);
    }
    if groups.iter().any(|group| group.name().starts_with(minari::EPISODE)) {
        return minari::read_hdf5(&file, &root, &groups);
    }
    names.extend(groups.iter().map(|group| group.name()));
    names.truncate(10);
    let found = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    Err(problem(
        path,
        format!("an HDF5 file, but neither of Minari nor of D4RL or d3rlpy: it holds {found}"),
    ))
}

/// Files of one table, if the first has the columns of a format that is known.
fn read_parquet(paths: &[PathBuf]) -> Result<Option<Known>, DataError> {
    let [first, ..] = paths else { return Ok(None) };
    let (schema, is_ours) = arrow::schema(first)?;
    match rows::Kind::of(&schema) {
        Some(kind) if !is_ours => kind.read(paths).map(Some),
        _ => Ok(None),
    }
}

/// Something that is wrong with a file.
fn problem(path: &Path, problem: String) -> DataError {
    DataError::InvalidFile { path: path.to_owned(), problem }
}

/// `1 episode`, `2 episodes`.
fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
