//! Files: what is written is read back, and whatever is wrong with a file is said.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, ListArray, RecordBatch,
};
use esper_data::{
    Cells, Columns, DataError, Dataset, DatasetWriter, End, Metadata, Provenance, Seed, Space, read,
};
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use rand::RngExt;
use tempfile::TempDir;

const TERMINATED: End = End { terminated: true, truncated: false };

/// Episodes of random lengths with random values of the given spaces.
fn random(observation_space: Space, action_space: Space, episodes: usize, seed: u64) -> Dataset {
    let mut rng = Seed::new(seed).rng();
    let lengths: Vec<usize> = (0..episodes).map(|_| rng.random_range(1..9)).collect();
    let steps: usize = lengths.iter().sum();
    let mut cells = |space: &Space, rows: usize| {
        let limit = match space {
            Space::Discrete { n } => *n,
            Space::MultiDiscrete { nvec } => *nvec.iter().min().unwrap(),
            Space::MultiBinary { .. } => 2,
            Space::Box { .. } => {
                let draw = |_| rng.random_range(-3.0f32..3.0);
                return Cells::Float((0..rows * space.cells()).map(draw).collect());
            }
        };
        let values = (0..rows * space.cells()).map(|_| rng.random_range(0..limit));
        match space.cell_type() {
            esper_data::CellType::Byte => Cells::Byte(values.map(|v| v as u8).collect()),
            _ => Cells::Short(values.map(|v| v as u16).collect()),
        }
    };
    let observations = cells(&observation_space, steps + episodes);
    let actions = cells(&action_space, steps);
    let columns = Columns {
        ends: (0..episodes).map(|e| End { terminated: e % 3 > 0, truncated: e % 3 == 0 }).collect(),
        observations,
        actions,
        rewards: (0..steps).map(|step| step as f32 / 4.0).collect(),
        provenance: Provenance {
            names: vec!["one".to_owned(), "two".to_owned()],
            of_episode: (0..episodes).map(|e| (e % 2) as u16).collect(),
        },
        lengths,
    };
    let metadata = Metadata { task: None, seed: Some(seed), observation_space, action_space };
    Dataset::new(metadata, columns).unwrap()
}

fn gamble() -> Dataset {
    random(Space::Discrete { n: 7 }, Space::Discrete { n: 3 }, 20, 0)
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    (folder, path)
}

fn files_in(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_space_comes_back_as_it_was() {
    let spaces = [
        (Space::Discrete { n: 7 }, Space::Discrete { n: 3 }),
        (Space::Discrete { n: 500 }, Space::Discrete { n: 300 }),
        (Space::MultiDiscrete { nvec: vec![8; 16] }, Space::Discrete { n: 4 }),
        (Space::MultiBinary { shape: vec![2, 7, 6] }, Space::MultiDiscrete { nvec: vec![3, 4] }),
        (
            Space::Box { shape: vec![3], bounds: None },
            Space::Box { shape: vec![2], bounds: Some(vec![[-3.0, 3.0]; 2]) },
        ),
    ];
    for (seed, (observation_space, action_space)) in spaces.into_iter().enumerate() {
        let (_folder, path) = folder();
        let data = random(observation_space, action_space, 50, seed as u64);
        data.write(&path, false).unwrap();
        assert_eq!(read(&path).unwrap(), data);
    }
}

#[test]
fn parts_make_one_data_set() {
    let (_folder, path) = folder();
    let part = gamble();
    let mut writer =
        DatasetWriter::create(&path, part.metadata(), &part.provenance().names, false).unwrap();
    let mut whole = part.clone();
    writer.write(&part).unwrap();
    for _ in 0..4 {
        whole.append(&part).unwrap();
        writer.write(&part).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(read(&path).unwrap(), whole);
}

#[test]
fn unknown_behaviours_are_no_behaviours() {
    let (_folder, path) = folder();
    let columns = Columns {
        lengths: vec![1],
        ends: vec![TERMINATED],
        observations: Cells::Byte(vec![0, 1]),
        actions: Cells::Byte(vec![0]),
        rewards: vec![1.0],
        provenance: Provenance::default(),
    };
    let data = Dataset::new(gamble().metadata().clone(), columns).unwrap();
    data.write(&path, false).unwrap();
    assert_eq!(read(&path).unwrap(), data);
}

/// A column that someone took out, or that was never there: the data is still good.
#[test]
fn the_behaviour_column_may_be_missing() {
    let (_folder, path) = folder();
    let without = columns().into_iter().filter(|column| column.0 != "behaviour").collect();
    let metadata = METADATA.replace("\"task\"", "\"behaviours\":[\"a\",\"b\"],\"task\"");
    write_foreign(&path, Some(&metadata), without);
    assert_eq!(read(&path).unwrap().provenance(), &Provenance::default());
}

#[test]
fn nothing_is_overwritten_without_leave() {
    let (folder, path) = folder();
    fs::write(&path, "precious").unwrap();
    let data = gamble();
    assert!(matches!(data.write(&path, false), Err(DataError::Exists(_))));
    assert_eq!(fs::read(&path).unwrap(), b"precious");

    // Also when it appears while the file is being written.
    fs::remove_file(&path).unwrap();
    let mut writer =
        DatasetWriter::create(&path, data.metadata(), &data.provenance().names, false).unwrap();
    writer.write(&data).unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(matches!(writer.finish(), Err(DataError::Exists(_))));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(files_in(&folder), ["data.parquet"]);

    data.write(&path, true).unwrap();
    assert_eq!(read(&path).unwrap(), data);
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let (folder, path) = folder();
    let data = gamble();
    let mut writer =
        DatasetWriter::create(&path, data.metadata(), &data.provenance().names, false).unwrap();
    writer.write(&data).unwrap();
    assert!(!path.exists());
    drop(writer);
    assert!(files_in(&folder).is_empty());
}

#[test]
fn paths_that_cannot_be_are_refused_at_once() {
    let (folder, _) = folder();
    let data = gamble();
    let missing = folder.path().join("no").join("such").join("folder.parquet");
    assert!(matches!(data.write(&missing, false), Err(DataError::NoFolder(_))));
    assert!(matches!(data.write(folder.path(), true), Err(DataError::Io { .. })));
    assert!(matches!(read(&missing), Err(DataError::Io { .. })));
    assert!(matches!(read(folder.path()), Err(DataError::Io { .. })));
}

#[test]
fn files_of_other_kinds_are_told_apart() {
    let (_folder, path) = folder();
    for bytes in [&b""[..], b"PAR1", b"hello, I am no Parquet file at all"] {
        fs::write(&path, bytes).unwrap();
        assert!(matches!(read(&path), Err(DataError::NotParquet { .. })), "{bytes:?}");
    }
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    write_foreign(&path, None, vec![("x", column)]);
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("not an esper data set"), "{error}");
}

#[test]
fn a_file_that_was_cut_off_is_not_read() {
    let (_folder, path) = folder();
    gamble().write(&path, false).unwrap();
    let bytes = fs::read(&path).unwrap();
    for length in [bytes.len() - 1, bytes.len() - 8, bytes.len() / 2, 5] {
        fs::write(&path, &bytes[..length]).unwrap();
        assert!(matches!(read(&path), Err(DataError::NotParquet { .. })), "{length} bytes");
    }
}

/// Whatever bytes change, reading ends with an error or with the data as it was, never with other data or a panic.
#[test]
fn damage_is_an_error_not_a_crash() {
    let (_folder, path) = folder();
    let spaces = (Space::MultiDiscrete { nvec: vec![8; 4] }, Space::Discrete { n: 4 });
    let data = random(spaces.0, spaces.1, 200, 1);
    data.write(&path, false).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut rng = Seed::new(0).rng();
    let mut errors = 0;
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        fs::write(&path, &bytes).unwrap();
        match read(&path) {
            Err(_) => errors += 1,
            // What was hit is not learned from: unused bytes, a name, the seed.
            Ok(read) => {
                assert!(read.observations() == data.observations());
                assert!(read.actions() == data.actions());
                assert!(read.rewards() == data.rewards());
                assert!(read.returns_to_go(1.0) == data.returns_to_go(1.0));
            }
        }
    }
    assert!(errors > 1000, "only {errors} of 2000 damaged files were noticed");
}

/// The metadata that goes with `columns()`.
const METADATA: &str = r#"{"format":1,"version":"0","steps":3,"episodes":2,"task":null,"seed":null,
    "observation_space":{"type":"MultiDiscrete","nvec":[3,3]},"action_space":{"type":"Discrete","n":2}}"#;

type Named = (&'static str, ArrayRef);

/// The columns of two episodes as another program would write them: wide integers, double floats, plain lists.
fn columns() -> Vec<Named> {
    let lists = |rows: Vec<Option<[i64; 2]>>| -> ArrayRef {
        let rows = rows.into_iter().map(|row| row.map(|cells| cells.map(Some)));
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows))
    };
    vec![
        ("episode", Arc::new(Int64Array::from(vec![0, 0, 1]))),
        ("step", Arc::new(Int64Array::from(vec![0, 1, 0]))),
        ("observation", lists(vec![Some([0, 1]), Some([1, 2]), Some([0, 0])])),
        ("action", Arc::new(Int64Array::from(vec![0, 1, 1]))),
        ("reward", Arc::new(Float64Array::from(vec![0.5, 1.0, 2.0]))),
        ("terminated", Arc::new(BooleanArray::from(vec![false, true, false]))),
        ("truncated", Arc::new(BooleanArray::from(vec![false, false, true]))),
        ("behaviour", Arc::new(LargeStringArray::from(vec!["a", "a", "b"]))),
        ("final_observation", lists(vec![None, Some([2, 2]), Some([1, 1])])),
    ]
}

fn write_foreign(path: &Path, metadata: Option<&str>, columns: Vec<Named>) {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    if let Some(json) = metadata {
        writer.append_key_value_metadata(KeyValue::new("esper".to_owned(), json.to_owned()));
    }
    writer.close().unwrap();
}

#[test]
fn wider_types_are_taken_when_the_values_fit() {
    let (_folder, path) = folder();
    write_foreign(&path, Some(METADATA), columns());
    let data = read(&path).unwrap();
    assert_eq!(data.observations(), &Cells::Byte(vec![0, 1, 1, 2, 2, 2, 0, 0, 1, 1]));
    assert_eq!(data.rewards(), [0.5, 1.0, 2.0]);
    assert_eq!(data.provenance().names, ["a", "b"]);
    assert_eq!(data.end(1), End { terminated: false, truncated: true });
}

/// Each change to a sound file, and what has to be said about it.
#[test]
fn whatever_disagrees_is_named() {
    type Change = Box<dyn Fn(&mut String, &mut Vec<Named>)>;
    let set = |name: &'static str, array: ArrayRef| -> Change {
        Box::new(move |_, columns| {
            let column = columns.iter_mut().find(|column| column.0 == name).unwrap();
            column.1 = array.clone();
        })
    };
    let remove = |name: &'static str| -> Change {
        Box::new(move |_, columns| columns.retain(|column| column.0 != name))
    };
    let metadata = |from: &'static str, to: &'static str| -> Change {
        Box::new(move |json, _| {
            assert!(json.contains(from));
            *json = json.replace(from, to);
        })
    };
    let ints = |values: Vec<i64>| -> ArrayRef { Arc::new(Int64Array::from(values)) };
    let cases: Vec<(Change, &str)> = vec![
        (remove("reward"), "column `reward` is missing"),
        (remove("final_observation"), "column `final_observation` is missing"),
        (
            set("step", Arc::new(BooleanArray::from(vec![true; 3]))),
            "column `step` is of type Boolean, not an integer",
        ),
        (
            set("observation", ints(vec![0, 1, 2])),
            "column `observation` is of type Int64, not what its metadata says: MultiDiscrete(2 cells of 3)",
        ),
        (
            set("action", ints(vec![0, 2, 1])),
            "action outside Discrete(2): episode 0, step 1, cell 0: 2 is not below 2",
        ),
        (set("action", ints(vec![0, 1, -1])), "column `action` in row 2: -1 is out of range"),
        (
            set("reward", Arc::new(Float64Array::from(vec![0.0, f64::NAN, 1.0]))),
            "the reward of episode 0, step 1 is NaN",
        ),
        (
            set("reward", Arc::new(Float64Array::from(vec![Some(0.0), None, None]))),
            "column `reward` in row 1: is empty (null)",
        ),
        (
            set("episode", ints(vec![0, 0, 2])),
            "row 2: episode 2, step 0 where episode 1, step 0 should follow",
        ),
        (
            set("step", ints(vec![0, 2, 0])),
            "row 1: episode 0, step 2 where episode 0, step 1 should follow",
        ),
        (
            set("terminated", Arc::new(BooleanArray::from(vec![true, true, false]))),
            "row 0: the episode ends, but there is no `final_observation`",
        ),
        (
            set("final_observation", columns()[2].1.clone()),
            "episode 0, step 1 where episode 1, step 0",
        ),
        (set("behaviour", ints(vec![0, 0, 1])), "column `behaviour`: does not hold strings"),
        (metadata("\"steps\":3", "\"steps\":4"), "its metadata says 4 steps, but it has 3 rows"),
        (
            metadata("\"episodes\":2", "\"episodes\":3"),
            "its metadata says 3 episodes, but it has 2",
        ),
        (
            metadata("\"nvec\":[3,3]", "\"nvec\":[3,3,3]"),
            "column `observation` in row 0: has 2 cells; MultiDiscrete(3 cells of 3) has 3",
        ),
        (
            metadata("\"nvec\":[3,3]", "\"nvec\":[3,2]"),
            "observation outside MultiDiscrete([3, 2]): episode 0, step 1, cell 1: 2 is not below 2",
        ),
        (
            metadata("\"n\":2", "\"n\":0"),
            "not an esper data set: Discrete(0): a cell has no categories",
        ),
        (
            metadata("\"format\":1", "\"format\":9"),
            "it has format 9, and this version of esper reads format 1",
        ),
        (metadata("MultiDiscrete", "Nonsense"), "metadata is damaged: unknown variant `Nonsense`"),
        (metadata("{\"format\"", "\"format\""), "metadata is damaged"),
    ];
    let (_folder, path) = folder();
    for (change, expected) in cases {
        let (mut json, mut named) = (METADATA.to_owned(), columns());
        change(&mut json, &mut named);
        write_foreign(&path, Some(&json), named);
        let error = read(&path).expect_err(expected).to_string();
        assert!(error.contains(expected), "expected: {expected}\n     got: {error}");
        assert!(error.contains("data.parquet"), "the file is named: {error}");
    }
}
