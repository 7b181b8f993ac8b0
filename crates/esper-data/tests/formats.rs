//! Files that other tools wrote (`data/make_formats.py`), and our own for them.

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{random, spaces};
use esper_data::{
    CellsRef, DataError, Dataset, DatasetBuilder, End, Field, FieldKind, Fields, Known, Metadata,
    Space, Word, read_known, read_known_together, write_minari,
};

const TERMINATED: End = End { terminated: true, truncated: false };
const TRUNCATED: End = End { terminated: false, truncated: true };
const LENGTHS: [usize; 3] = [3, 1, 4];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/formats").join(name)
}

fn known(name: &str) -> Known {
    read_known(&file(name)).unwrap().unwrap_or_else(|| panic!("{name} is not recognised"))
}

/// One observation, of all of them in an episode.
fn observation(data: &Dataset, episode: usize, row: usize) -> Vec<f32> {
    let width = data.metadata().observation_space.cells();
    let row = data.episode_observations(episode).start + row;
    let cells = data.observations().view().slice(row * width..(row + 1) * width);
    (0..width).map(|at| cells.number(at)).collect()
}

fn action(data: &Dataset, episode: usize, step: usize) -> Vec<f32> {
    let width = data.metadata().action_space.cells();
    let row = data.episode_steps(episode).start + step;
    let cells = data.actions().view().slice(row * width..(row + 1) * width);
    (0..width).map(|at| cells.number(at)).collect()
}

/// What every file has: three episodes of known lengths, rewards and ends.
fn check_episodes(name: &str, data: &Dataset) {
    let lengths: Vec<usize> = (0..data.episodes()).map(|episode| data.length(episode)).collect();
    assert_eq!(lengths, LENGTHS, "{name}");
    let returns: Vec<f64> = (0..3).map(|episode| data.episode_return(episode)).collect();
    assert_eq!(returns, [3.0, -0.5, 2.0], "{name}");
    let ends: Vec<End> = (0..3).map(|episode| data.end(episode)).collect();
    assert_eq!(ends, [TERMINATED, TRUNCATED, TERMINATED], "{name}");
}

/// `box` of the script: what cell `i` of step `t` in episode `e` holds.
fn real(e: usize, t: usize, i: usize) -> f32 {
    e as f32 + t as f32 / 4.0 + 10.0 * i as f32
}

fn free(cells: usize) -> Space {
    Space::Box { shape: vec![cells], bounds: None }
}

#[test]
fn minari_of_numbers_in_all_layouts() {
    for name in
        ["minari-0.4-box", "minari-0.5-hdf5-box", "minari-0.5-arrow-box", "minari-0.5-parquet-box"]
    {
        let Known { data, notes, .. } = known(name);
        check_episodes(name, &data);
        assert!(notes.is_empty(), "{notes:?}");
        let bounds = Some(vec![[-1.0, 1.0], [-1.0, 2.0]]);
        let action_space = Space::Box { shape: vec![2], bounds };
        assert_eq!(*data.metadata(), Metadata::new(free(2), action_space), "{name}");
        for (episode, length) in LENGTHS.into_iter().enumerate() {
            for row in 0..=length {
                let expected = [real(episode, row, 0), real(episode, row, 1)];
                assert_eq!(observation(&data, episode, row), expected, "{name}");
            }
        }
        assert_eq!(action(&data, 2, 3), [real(2, 3, 0) / 100.0, real(2, 3, 1) / 100.0], "{name}");
    }
}

#[test]
fn minari_of_categories_keeps_their_numbers() {
    let Known { data, format, .. } = known("minari-0.5-hdf5-discrete");
    assert_eq!(format, "Minari (HDF5)");
    check_episodes("discrete", &data);
    assert_eq!(data.metadata().observation_space, Space::Discrete { n: 50 });
    assert_eq!(data.metadata().action_space, Space::Discrete { n: 3 });
    assert_eq!(observation(&data, 2, 4), [24.0]);
    // -1 is the first category, and comes back as -1.
    assert_eq!(action(&data, 0, 0), [0.0]);
    assert_eq!(data.metadata().fields.action_value(&[0.0]), Some((-1).into()));
}

#[test]
fn minari_of_mixtures_is_flattened_with_names() {
    for name in ["minari-0.5-hdf5-mixed", "minari-0.5-arrow-mixed", "minari-0.5-parquet-mixed"] {
        let data = known(name).data;
        check_episodes(name, &data);
        let space = Space::Tuple {
            spaces: vec![
                Space::Box { shape: vec![1, 2], bounds: Some(vec![[-9.0, 99.0]; 2]) },
                Space::MultiBinary { shape: vec![2] },
                Space::Discrete { n: 4 },
                Space::MultiDiscrete { nvec: vec![2, 3] },
                free(2),
            ],
        };
        assert_eq!(data.metadata().observation_space, space, "{name}");
        assert_eq!(data.metadata().action_space, Space::MultiDiscrete { nvec: vec![4, 2] });
        let fields = &data.metadata().fields.observation;
        let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        let expected = [
            "arm.angle[0]",
            "arm.angle[1]",
            "arm.grip[0]",
            "arm.grip[1]",
            "mode",
            "pair.0[0]",
            "pair.0[1]",
            "pair.1[0]",
            "pair.1[1]",
        ];
        assert_eq!(names, expected, "{name}");
        let words: Vec<Word> = (5..9).map(Word::Whole).collect();
        assert_eq!(fields[4].kind, FieldKind::Category { values: words });
        // Episode 2, row 3: mode 5 + 5 % 4 = 6 is category 1.
        let row = [2.75, 12.75, 1.0, 0.0, 1.0, 1.0, 0.0, 2.75, 12.75];
        assert_eq!(observation(&data, 2, 3), row, "{name}");
        assert_eq!(action(&data, 2, 3), [1.0, 1.0], "{name}");
    }
}

#[test]
fn minari_nested_in_version_0_4_and_categories_only() {
    let data = known("minari-0.4-nested").data;
    check_episodes("nested", &data);
    let spaces = vec![free(2), Space::Discrete { n: 4 }, free(2)];
    assert_eq!(data.metadata().observation_space, Space::Tuple { spaces });
    assert_eq!(observation(&data, 1, 1), [1.25, 11.25, 2.0, 1.25, 11.25]);

    let data = known("minari-0.5-hdf5-binary").data;
    check_episodes("binary", &data);
    assert_eq!(data.metadata().observation_space, Space::MultiDiscrete { nvec: vec![5, 3, 4] });
    assert_eq!(data.metadata().action_space, Space::MultiBinary { shape: vec![3] });
    assert_eq!(observation(&data, 2, 4), [4.0, 2.0, 0.0]);
    assert_eq!(action(&data, 1, 0), [0.0, 1.0, 1.0]);
}

#[test]
fn minari_is_found_by_its_folder_its_data_and_its_file() {
    let whole = known("minari-0.5-hdf5-box").data;
    for inner in ["minari-0.5-hdf5-box/data", "minari-0.5-hdf5-box/data/main_data.hdf5"] {
        assert_eq!(known(inner).data, whole);
    }
    assert_eq!(known("minari-0.5-arrow-box/data").data, whole);
}

#[test]
fn d4rl_episodes_end_where_flags_say() {
    let Known { data, format, notes } = known("d4rl.hdf5");
    assert_eq!((format, notes.len()), ("D4RL (HDF5)", 0));
    check_episodes("d4rl", &data);
    assert_eq!(*data.metadata(), Metadata::new(free(2), free(2)));
    assert_eq!(observation(&data, 0, 3), [0.75, 10.75]);
    assert_eq!(action(&data, 1, 0), [0.01, 0.11]);

    // No next observations, and the end of the last episode is missing.
    let Known { data, notes, .. } = known("d4rl-unfinished.hdf5");
    assert_eq!(data.steps(), 7);
    assert_eq!(data.end(2), TRUNCATED);
    assert_eq!(observation(&data, 0, 3), observation(&data, 0, 2));
    assert!(notes.iter().any(|note| note.contains("no end after 3 steps")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("last observation")), "{notes:?}");
}

#[test]
fn d3rlpy_buffers_of_both_kinds_of_actions() {
    let Known { data, format, notes } = known("d3rlpy-continuous.h5");
    assert_eq!((format, notes.len()), ("d3rlpy (HDF5)", 1));
    check_episodes("d3rlpy", &data);
    assert_eq!(*data.metadata(), Metadata::new(free(2), free(2)));
    assert_eq!(observation(&data, 2, 3), observation(&data, 2, 4));

    let data = known("d3rlpy-discrete.h5").data;
    check_episodes("d3rlpy", &data);
    assert_eq!(data.metadata().observation_space, free(3));
    assert_eq!(data.metadata().action_space, Space::Discrete { n: 3 });
    assert_eq!(observation(&data, 1, 0), [1.0, 11.0, 1.0]);
    assert_eq!(action(&data, 2, 3), [2.0]);
}

#[test]
fn rllib_rows_come_in_any_order() {
    let Known { data, format, notes } = known("rllib.parquet");
    assert_eq!((format, notes.len()), ("RLlib (Parquet)", 0));
    check_episodes("rllib", &data);
    assert_eq!(*data.metadata(), Metadata::new(free(2), Space::Discrete { n: 3 }));
    for (episode, length) in LENGTHS.into_iter().enumerate() {
        for row in 0..=length {
            let expected = [real(episode, row, 0), real(episode, row, 1)];
            assert_eq!(observation(&data, episode, row), expected);
        }
    }
    let Known { data, notes, .. } = known("rllib-dones.parquet");
    assert_eq!(data.end(1), TERMINATED);
    assert_eq!((data.episodes(), data.steps(), notes.len()), (3, 8, 2));
}

#[test]
fn rlds_counts_no_last_step() {
    for name in ["rlds.parquet", "rlds-flat.parquet"] {
        let Known { data, notes, .. } = known(name);
        check_episodes(name, &data);
        assert!(notes.is_empty(), "{notes:?}");
        let spaces = vec![Space::Discrete { n: 5 }, free(2)];
        // pyarrow keeps the order of the columns.
        let spaces = spaces.into_iter().rev().collect();
        assert_eq!(data.metadata().observation_space, Space::Tuple { spaces }, "{name}");
        assert_eq!(observation(&data, 2, 4), [3.0, 13.0, 4.0], "{name}");
        assert_eq!(action(&data, 0, 1), [0.0025, 0.1025], "{name}");
    }
}

#[test]
fn what_is_none_of_them_is_left_to_others() {
    let (folder, path) = common::folder();
    assert!(read_known(folder.path()).unwrap().is_none());
    std::fs::write(&path, "a,b\n1,2\n").unwrap();
    assert!(read_known(&path).unwrap().is_none());
    std::fs::write(&path, "").unwrap();
    assert!(read_known(&path).unwrap().is_none());
    let column = std::sync::Arc::new(arrow_array::Int32Array::from(vec![1])) as _;
    common::write_foreign(&path, None, vec![("obs", column)]);
    assert!(read_known(&path).unwrap().is_none());
    assert!(matches!(read_known(&folder.path().join("none")), Err(DataError::Io { .. })));
}

/// A copy of a data set of Minari whose metadata is changed.
fn changed(name: &str, from: &str, to: &str) -> String {
    fn copy(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
            let to = to.join(entry.file_name());
            match entry.path().is_dir() {
                true => copy(&entry.path(), &to),
                false => drop(std::fs::copy(entry.path(), to).unwrap()),
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy(&file(name).join("data"), folder.path());
    let path = folder.path().join("metadata.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(&path, text.replace(from, to)).unwrap();
    read_known(folder.path()).unwrap_err().to_string()
}

#[test]
fn contradictions_are_said_with_their_place() {
    let more = ("\"total_episodes\": 3", "\"total_episodes\": 4");
    for (name, (from, to), words) in [
        (
            "minari-0.5-hdf5-box",
            more,
            "main_data.hdf5: `/`: 3 episodes, where `total_episodes` is 4",
        ),
        ("minari-0.5-arrow-box", more, "/3: "),
        ("minari-0.5-parquet-box", more, "/3: "),
        (
            "minari-0.5-hdf5-discrete",
            ("\\\"n\\\": 50", "\\\"n\\\": 5"),
            "episode_1/observations, row 0: 10 is not one of the categories 0 to 4",
        ),
        (
            "minari-0.5-hdf5-mixed",
            ("MultiBinary\\\", \\\"n\\\": 2", "MultiBinary\\\", \\\"n\\\": 3"),
            "episode_0/observations/arm/grip: 2 numbers a row where MultiBinary(3) has 3",
        ),
        (
            "minari-0.5-arrow-mixed",
            ("\\\"mode\\\"", "\\\"mood\\\""),
            "there is no column `observations.mood`",
        ),
        (
            "minari-0.5-parquet-box",
            ("\\\"Box\\\"", "\\\"Text\\\""),
            "is Text, which is not supported",
        ),
    ] {
        let error = changed(name, from, to);
        assert!(error.contains(words), "{name}: {error}");
    }
}

/// Data sets of all spaces; in the last one, everything that Minari has no place for.
fn samples() -> Vec<Dataset> {
    let mut samples: Vec<Dataset> = spaces()
        .into_iter()
        .enumerate()
        .map(|(at, (observation, action))| random(observation, action, 5, at as u64))
        .collect();
    let words = vec![Word::Text("stay".to_owned()), Word::Text("go".to_owned())];
    let mut metadata = Metadata::new(
        Space::Box {
            shape: vec![2, 1],
            bounds: Some(vec![[f32::MIN, 0.1], [-1.5, f32::INFINITY]]),
        },
        Space::Discrete { n: 2 },
    );
    metadata.task = Some("somewhere".to_owned());
    metadata.fields = Fields {
        observation: vec![
            Field::new("age", FieldKind::Number { fill: Some(1.0) }),
            Field::new("size", FieldKind::Number { fill: None }),
        ],
        action: vec![Field::new("what", FieldKind::Category { values: words })],
    };
    let mut builder = DatasetBuilder::new(metadata);
    builder.made_by("señor\u{1F600}");
    builder.push(&[1.0f32, -2.0], &[1u8], 0.25).unwrap();
    builder.end(&[0.5f32, 3.0], End::default()).unwrap();
    samples.push(builder.build().unwrap());
    samples
}

#[test]
fn minari_exports_come_back_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    for (at, data) in samples().into_iter().enumerate() {
        let path = folder.path().join(format!("sample {at}-v3"));
        let id = write_minari(&data, &path).unwrap();
        assert_eq!(id, format!("sample-{at}-v3"));
        let Known { data: again, format, notes } = read_known(&path).unwrap().unwrap();
        assert_eq!((format, notes.len()), ("Minari (HDF5)", 0));
        assert_eq!(again, data);
        assert!(matches!(write_minari(&data, &path), Err(DataError::Exists(_))));
        // A view is written as if it were all there is.
        let view = data.select(&[data.episodes() - 1]);
        let path = folder.path().join(format!("view {at}"));
        assert!(write_minari(&view, &path).unwrap().ends_with("-v0"));
        assert_eq!(read_known(&path).unwrap().unwrap().data, view);
    }
    // Nothing half-written stays behind.
    let left = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().starts_with('.')).count(), 0);
}

/// Minari itself reads what we write: lengths, sums and spaces as it sees them.
const READ_BACK: &str = r#"
import json, sys, warnings
warnings.filterwarnings("ignore")
import minari, numpy as np
def flat(values):
    return sum(map(flat, values)) if isinstance(values, tuple) else float(np.sum(values, dtype=np.float64))
data = minari.MinariDataset(sys.argv[1])
episodes = list(data.iterate_episodes())
for episode in episodes:
    n = len(episode.rewards)
    assert episode.terminations.dtype == bool and episode.terminations.shape == (n,), episode.terminations
    assert len(episode.actions) == n
    for value in episode.actions:
        # Loggers clip and round, so that numbers a little outside of their bounds are normal.
        assert value.shape == data.action_space.shape and value.dtype == data.action_space.dtype, value
        assert value.dtype == np.float32 or data.action_space.contains(value), value
print(json.dumps({
    "id": data.spec.dataset_id, "episodes": data.total_episodes, "steps": int(data.total_steps),
    "observations": [flat(e.observations) for e in episodes], "actions": [flat(e.actions) for e in episodes],
    "returns": [flat(e.rewards) for e in episodes],
    "ends": [[bool(e.terminations[-1]), bool(e.truncations[-1])] for e in episodes],
    "space": type(data.observation_space).__name__,
}))
"#;

#[test]
fn minari_reads_our_exports() {
    let Some(python) = std::env::var_os("ESPER_PYTHON") else {
        // Past the capture of passing tests: that nothing was tested has to be seen.
        let _ = writeln!(
            std::io::stderr(),
            "ESPER_PYTHON names no Python with minari: it is not tested that Minari reads what is exported for it"
        );
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    for (at, data) in samples().into_iter().enumerate() {
        let path = folder.path().join(format!("sample-{at}-v0"));
        let id = write_minari(&data, &path).unwrap();
        let output =
            Command::new(&python).args(["-c", READ_BACK]).arg(path.join("data")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{error}");
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let sums = |cells: CellsRef<'_>, rows: std::ops::Range<usize>, width: usize| -> f64 {
            (rows.start * width..rows.end * width).map(|at| f64::from(cells.number(at))).sum()
        };
        let episodes = || 0..data.episodes();
        let (observation, action) =
            (&data.metadata().observation_space, &data.metadata().action_space);
        let observations: Vec<f64> = episodes()
            .map(|e| {
                sums(data.observations().view(), data.episode_observations(e), observation.cells())
            })
            .collect();
        let actions: Vec<f64> = episodes()
            .map(|e| sums(data.actions().view(), data.episode_steps(e), action.cells()))
            .collect();
        let ends: Vec<[bool; 2]> =
            episodes().map(|e| [data.end(e).terminated, data.end(e).truncated]).collect();
        let returns: Vec<f64> = episodes().map(|e| data.episode_return(e)).collect();
        let name = observation.to_string();
        let expected = serde_json::json!({
            "id": id, "episodes": data.episodes(), "steps": data.steps(),
            "observations": observations, "actions": actions, "returns": returns, "ends": ends,
            "space": name.split('(').next(),
        });
        let close = |key: &str| {
            let of = |value: &serde_json::Value| -> Vec<f64> {
                value[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
            };
            let (found, expected) = (of(&found), of(&expected));
            assert_eq!(found.len(), expected.len());
            assert!(
                found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4),
                "{found:?} {expected:?}"
            );
        };
        ["observations", "actions", "returns"].into_iter().for_each(close);
        for key in ["id", "episodes", "steps", "ends", "space"] {
            assert_eq!(found[key], expected[key], "{key}");
        }
    }
}

/// Several sources of one format are one data set; of different ones they are refused, as are other spaces.
#[test]
fn sources_of_one_format_are_one_data_set() {
    let together = |names: &[&str]| {
        let paths: Vec<PathBuf> = names.iter().map(|name| file(name)).collect();
        read_known_together(&paths)
    };
    let once = known("minari-0.4-box");
    let twice = together(&["minari-0.4-box", "minari-0.4-box"]).unwrap().unwrap();
    assert_eq!((twice.format, &twice.notes), (once.format, &once.notes));
    let mut expected = DatasetBuilder::new(once.data.metadata().clone());
    expected.extend(&once.data).unwrap();
    expected.extend(&once.data).unwrap();
    assert_eq!(twice.data, expected.build().unwrap());
    assert_eq!(together(&["d4rl.hdf5"]).unwrap().unwrap().data, known("d4rl.hdf5").data);
    let words = |names: &[&str]| together(names).unwrap_err().to_string();
    let mixed = words(&["d4rl.hdf5", "rllib.parquet"]);
    assert!(mixed.contains("rllib.parquet") && mixed.contains("one by one"), "{mixed}");
    let table = words(&["d4rl.hdf5", "../tables/visits.csv"]);
    assert!(table.contains("visits.csv") && table.contains("a table"), "{table}");
    let spaces = words(&["minari-0.5-hdf5-discrete", "minari-0.5-hdf5-binary"]);
    assert!(spaces.contains("cannot follow") && spaces.contains("binary"), "{spaces}");
    assert!(together(&["../tables/visits.csv"]).unwrap().is_none());
    assert!(read_known_together(&[]).unwrap().is_none());
}
