//! Data sets as Minari's HDF5 layout, which [`read_known`](super::read_known) and Minari itself read again.

use std::io::ErrorKind;
use std::path::Path;

use hdf5_writer::{
    AttributeBuilder, ByteOrder, DatasetBuilder, Datatype, EnumMember, Error, Hdf5Builder,
    WriteOptions,
};
use serde_json::json;

use super::minari::{BEHAVIOUR, EPISODE, INDEX, MAIN_FILE, METADATA_FILE, OURS};
use super::problem;
use crate::cells::CellsRef;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::file::{write_file, write_json};
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
    let id = dataset_id(folder);
    let bytes =
        encode(data).map_err(|error| problem(folder, format!("cannot be written: {error}")))?;
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
        "dataset_size": (bytes.len() as f64 / 1e5).round() / 10.0,
        OURS: metadata,
    });

    let io = |error: std::io::Error| DataError::io(folder, error.kind().into());
    let mut builder = tempfile::Builder::new();
    builder.prefix(".esper-").suffix(".partial");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o777));
    let pending = builder.tempdir_in(parent).map_err(io)?;
    let inner = pending.path().join("data");
    std::fs::create_dir(&inner).map_err(io)?;
    write_file(&inner.join(MAIN_FILE), &bytes)?;
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

fn encode(data: &Dataset) -> Result<Vec<u8>, Error> {
    let metadata = data.metadata();
    let mut file = Hdf5Builder::new();
    for episode in 0..data.episodes() {
        let name = format!("{EPISODE}{episode}");
        let (steps, seen) = (data.episode_steps(episode), data.episode_observations(episode));
        for (what, space, cells, rows) in [
            ("observations", &metadata.observation_space, data.observations(), seen),
            ("actions", &metadata.action_space, data.actions(), steps.clone()),
        ] {
            let width = space.cells();
            let cells = cells.view().slice(rows.start * width..rows.end * width);
            for dataset in arrays(format!("{name}/{what}"), space, cells)? {
                file = file.dataset(dataset);
            }
        }
        let length = steps.len();
        let rewards = DatasetBuilder::typed_data(
            format!("{name}/rewards"),
            vec![length as u64],
            &data.rewards()[steps],
        )?;
        let end = data.end(episode);
        let flags = |what: &str, last: bool| {
            let mut flags = vec![0u8; length];
            flags[length - 1] = u8::from(last);
            DatasetBuilder::new(format!("{name}/{what}"), boolean(), vec![length as u64])
                .raw_data(flags)
        };
        file = file
            .dataset(rewards)
            .dataset(flags("terminations", end.terminated))
            .dataset(flags("truncations", end.truncated))
            .group_attribute(&name, AttributeBuilder::scalar("id", episode as i64)?)
            .group_attribute(&name, AttributeBuilder::scalar("total_steps", length as i64)?);
        if let Some(behaviour) = data.behaviour(episode) {
            let text = AttributeBuilder::fixed_string(BEHAVIOUR, &data.behaviours()[behaviour]);
            file = file.group_attribute(&name, text);
        }
    }
    file.into_plan()?.encode(WriteOptions::default())
}

/// What h5py takes for a boolean.
fn boolean() -> Datatype {
    let base = Datatype::FixedPoint { size: 1, signed: true, byte_order: ByteOrder::LittleEndian };
    let member = |name: &str, value: u8| EnumMember { name: name.to_owned(), value: vec![value] };
    Datatype::Enum { base: Box::new(base), members: vec![member("FALSE", 0), member("TRUE", 1)] }
}

/// The cells of a space as an array, those of a tuple as one for every space.
fn arrays(name: String, space: &Space, cells: CellsRef<'_>) -> Result<Vec<DatasetBuilder>, Error> {
    let width = space.cells();
    let rows = cells.len() / width;
    let mut first = 0;
    let mut arrays = Vec::new();
    for (at, part) in space.parts().iter().enumerate() {
        let name = match space {
            Space::Tuple { .. } => format!("{name}/{INDEX}{at}"),
            _ => name.clone(),
        };
        let inner = part.cells();
        let places = (0..rows).flat_map(|row| row * width + first..row * width + first + inner);
        let whole = |at: usize| cells.number(at) as i64;
        let shape = |of_row: &[usize]| -> Vec<u64> {
            std::iter::once(rows).chain(of_row.iter().copied()).map(|n| n as u64).collect()
        };
        arrays.push(match part {
            Space::Discrete { .. } => {
                let values: Vec<i64> = places.map(whole).collect();
                DatasetBuilder::typed_data(name, shape(&[]), &values)?
            }
            Space::MultiDiscrete { .. } => {
                let values: Vec<i64> = places.map(whole).collect();
                DatasetBuilder::typed_data(name, shape(&[inner]), &values)?
            }
            Space::MultiBinary { shape: of_row } => {
                let values: Vec<i8> = places.map(|at| cells.number(at) as i8).collect();
                DatasetBuilder::typed_data(name, shape(of_row), &values)?
            }
            Space::Box { shape: of_row, .. } => {
                let values: Vec<f32> = places.map(|at| cells.number(at)).collect();
                DatasetBuilder::typed_data(name, shape(of_row), &values)?
            }
            Space::Tuple { .. } => {
                return Err(Error::UnsupportedFeature("a tuple within a tuple".to_owned()));
            }
        });
        first += inner;
    }
    Ok(arrays)
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
