//! Data sets as Minari's HDF5 layout, which [`read_known`](super::read_known) and Minari itself read again.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::path::Path;

use serde_json::json;

use super::hdf5_writer::{Attribute, Hdf5Writer, Kind, Link};
use super::minari::{BEHAVIOUR, EPISODE, INDEX, MAIN_FILE, METADATA_FILE, OURS};
use crate::cells::CellsRef;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::file::write_json;
use crate::space::Space;

/// The version whose layout this is; all later ones of 0.5 read it.
const MINARI_VERSION: &str = "0.5.0";

/// Writes a data set as a folder that Minari reads: `minari.MinariDataset("FOLDER/data")`, or `minari.load_dataset` with the
/// name of the folder where it lies in Minari's own. Returns the name that Minari knows it by, which ends in a version.
///
/// The folder must not be there, or be empty; it is there whole or not at all. What only this program knows (names of columns,
/// behaviours, the task) is kept in entries that Minari passes over.
pub fn write_minari(data: &Dataset, folder: &Path) -> Result<String, DataError> {
    let parent = match folder.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return Err(DataError::NoFolder(parent.to_owned()));
    }
    let is_empty = || std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
    if folder.symlink_metadata().is_ok() && !is_empty() {
        return Err(DataError::Exists(folder.to_owned()));
    }
    let io = |error: io::Error| DataError::io(folder, error.kind().into());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".esper-").suffix(".partial");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let pending = builder.tempdir_in(parent).map_err(io)?;
    let inner = pending.path().join("data");
    std::fs::create_dir(&inner).map_err(io)?;
    let file = BufWriter::new(File::create(inner.join(MAIN_FILE)).map_err(io)?);
    let file = write_episodes(data, file).map_err(io)?;
    let file = file.into_inner().map_err(|error| io(error.into_error()))?;
    file.sync_all().map_err(io)?;
    let bytes = file.metadata().map_err(io)?.len();

    let id = dataset_id(folder);
    let metadata = data.metadata();
    let json = json!({
        "dataset_id": id,
        "minari_version": MINARI_VERSION,
        "data_format": "hdf5",
        "jpeg_encoding": false,
        "observation_space": space_json(&metadata.observation_space),
        "action_space": space_json(&metadata.action_space),
        "total_episodes": data.episodes(),
        "total_steps": data.steps(),
        "dataset_size": (bytes as f64 / 1e5).round() / 10.0,
        OURS: metadata,
    });
    write_json(&inner.join(METADATA_FILE), &json)?;
    match std::fs::rename(pending.path(), folder) {
        Ok(()) => {
            // It has another name now, and stays.
            let _ = pending.keep();
            Ok(id)
        }
        Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
            Err(DataError::Exists(folder.to_owned()))
        }
        Err(error) => Err(io(error)),
    }
}

/// What Minari accepts as a name: the folder's, with a version.
fn dataset_id(folder: &Path) -> String {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let name = absolute.file_name().map(|name| name.to_string_lossy().into_owned());
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    let name: String = name.unwrap_or_default().chars().map(fits).collect();
    let has_version = name.rsplit_once("-v").is_some_and(|(name, version)| {
        !name.is_empty() && !version.is_empty() && version.bytes().all(|b| b.is_ascii_digit())
    });
    match name.trim_matches('-') {
        "" => "data-v0".to_owned(),
        _ if has_version => name,
        trimmed => format!("{trimmed}-v0"),
    }
}

fn write_episodes<W: Write + Seek>(data: &Dataset, to: W) -> io::Result<W> {
    let metadata = data.metadata();
    let mut file = Hdf5Writer::new(to)?;
    let mut root = Vec::new();
    for episode in 0..data.episodes() {
        let (steps, seen) = (data.episode_steps(episode), data.episode_observations(episode));
        let mut links = Vec::new();
        for (name, space, cells, rows) in [
            ("observations", &metadata.observation_space, data.observations(), seen),
            ("actions", &metadata.action_space, data.actions(), steps.clone()),
        ] {
            let width = space.cells();
            let cells = cells.view().slice(rows.start * width..rows.end * width);
            links.push((name.to_owned(), write_cells(&mut file, space, cells)?));
        }
        let length = steps.len();
        let rewards: Vec<u8> =
            data.rewards()[steps].iter().flat_map(|reward| reward.to_le_bytes()).collect();
        links.push(("rewards".to_owned(), file.array(Kind::Float32, &[length], &rewards)?));
        let end = data.end(episode);
        for (name, last) in [("terminations", end.terminated), ("truncations", end.truncated)] {
            let mut flags = vec![0; length];
            flags[length - 1] = u8::from(last);
            links.push((name.to_owned(), file.array(Kind::Truth, &[length], &flags)?));
        }
        let mut attributes =
            vec![Attribute::count("id", episode), Attribute::count("total_steps", length)];
        if let Some(behaviour) = data.behaviour(episode) {
            attributes.push(Attribute::text(BEHAVIOUR, &data.behaviours()[behaviour]));
        }
        root.push((format!("{EPISODE}{episode}"), file.group(&links, &attributes)?));
    }
    let root = file.group(&root, &[])?;
    file.finish(root)
}

/// Writes the cells of a space as an array, those of a tuple as a group with an array for every space.
fn write_cells<W: Write + Seek>(
    file: &mut Hdf5Writer<W>,
    space: &Space,
    cells: CellsRef<'_>,
) -> io::Result<u64> {
    let width = space.cells();
    let rows = cells.len() / width;
    let mut first = 0;
    let mut links: Vec<Link> = Vec::new();
    for (at, part) in space.parts().iter().enumerate() {
        let inner = part.cells();
        let places = (0..rows).flat_map(|row| row * width + first..row * width + first + inner);
        let values = places.map(|at| cells.number(at));
        let (kind, bytes): (Kind, Vec<u8>) = match part {
            Space::Discrete { .. } | Space::MultiDiscrete { .. } => {
                (Kind::Int64, values.flat_map(|value| (value as i64).to_le_bytes()).collect())
            }
            Space::MultiBinary { .. } => (Kind::Int8, values.map(|value| value as u8).collect()),
            Space::Box { .. } | Space::Tuple { .. } => {
                (Kind::Float32, values.flat_map(f32::to_le_bytes).collect())
            }
        };
        let of_row = match part {
            Space::Discrete { .. } => &[],
            Space::MultiDiscrete { .. } | Space::Tuple { .. } => &[inner][..],
            Space::MultiBinary { shape } | Space::Box { shape, .. } => shape,
        };
        let address = file.array(kind, &[&[rows], of_row].concat(), &bytes)?;
        links.push((format!("{INDEX}{at}"), address));
        first += inner;
    }
    match (space, &links[..]) {
        (Space::Tuple { .. }, links) => file.group(links, &[]),
        (_, [(_, address), ..]) => Ok(*address),
        (_, []) => Err(ErrorKind::InvalidInput.into()),
    }
}

/// A space as Minari writes it, with Python's names for what is infinite.
fn space_json(space: &Space) -> String {
    match space {
        Space::Discrete { n } => {
            format!(r#"{{"type": "Discrete", "dtype": "int64", "start": 0, "n": {n}}}"#)
        }
        Space::MultiDiscrete { nvec } => {
            let starts = vec![0; nvec.len()];
            format!(
                r#"{{"type": "MultiDiscrete", "dtype": "int64", "nvec": {nvec:?}, "start": {starts:?}}}"#
            )
        }
        Space::MultiBinary { shape } => match shape[..] {
            [n] => format!(r#"{{"type": "MultiBinary", "n": {n}}}"#),
            _ => format!(r#"{{"type": "MultiBinary", "n": {shape:?}}}"#),
        },
        Space::Box { shape, bounds } => {
            let side = |side: usize, open: f32| {
                let values = match bounds {
                    Some(bounds) => bounds.iter().map(|pair| pair[side]).collect(),
                    None => vec![open; space.cells()],
                };
                nested(&values, shape)
            };
            let (low, high) = (side(0, f32::NEG_INFINITY), side(1, f32::INFINITY));
            format!(
                r#"{{"type": "Box", "dtype": "float32", "shape": {shape:?}, "low": {low}, "high": {high}}}"#
            )
        }
        Space::Tuple { spaces } => {
            let spaces: Vec<String> = spaces.iter().map(space_json).collect();
            format!(r#"{{"type": "Tuple", "subspaces": [{}]}}"#, spaces.join(", "))
        }
    }
}

/// Numbers as lists within lists, as `numpy.ndarray.tolist` gives them.
fn nested(values: &[f32], shape: &[usize]) -> String {
    let number = |value: f32| match value {
        f32::INFINITY => "Infinity".to_owned(),
        f32::NEG_INFINITY => "-Infinity".to_owned(),
        value => format!("{value:?}"),
    };
    let Some((&rows, shape)) = shape.split_first() else {
        return values.first().map_or_else(String::new, |&value| number(value));
    };
    let width = shape.iter().product::<usize>().max(1);
    let rows: Vec<String> =
        values.chunks(width).take(rows).map(|values| nested(values, shape)).collect();
    format!("[{}]", rows.join(", "))
}
