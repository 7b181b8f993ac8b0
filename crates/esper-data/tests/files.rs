//! Files: what is written is read back, and whatever is wrong with a file is said.

mod common;

use std::error::Error;
use std::fs;
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, LargeStringArray, ListArray};
use common::{Named, folder, random, spaces, write_foreign, write_groups};
use esper_data::{
    Cells, DataError, Dataset, DatasetBuilder, DatasetWriter, End, Metadata, Seed, Space, read,
};
use rand::RngExt;
use tempfile::TempDir;

const TERMINATED: End = End { terminated: true, truncated: false };

fn gamble() -> Dataset {
    random(Space::Discrete { n: 7 }, Space::Discrete { n: 3 }, 20, 0)
}

fn files_in(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn every_space_comes_back_as_it_was() {
    for (seed, (observation_space, action_space)) in spaces().into_iter().enumerate() {
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
        DatasetWriter::create(&path, part.metadata(), part.behaviours(), false).unwrap();
    let mut whole = DatasetBuilder::new(part.metadata().clone());
    for _ in 0..5 {
        whole.extend(&part).unwrap();
        writer.write(&part).unwrap();
    }
    let whole = whole.build().unwrap();
    writer.finish().unwrap();
    assert_eq!(read(&path).unwrap(), whole);
}

#[test]
fn unknown_behaviours_are_no_behaviours() {
    let (_folder, path) = folder();
    let mut builder = DatasetBuilder::new(gamble().metadata().clone());
    builder.push(&[0u8], &[0u8], 1.0).unwrap();
    builder.end(&[1u8], TERMINATED).unwrap();
    let data = builder.build().unwrap();
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
    let data = read(&path).unwrap();
    assert!(data.behaviours().is_empty());
    assert_eq!(data.behaviour(0), None);
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
        DatasetWriter::create(&path, data.metadata(), data.behaviours(), false).unwrap();
    writer.write(&data).unwrap();
    fs::write(&path, "precious").unwrap();
    assert!(matches!(writer.finish(), Err(DataError::Exists(_))));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    assert_eq!(files_in(&folder), ["data.parquet"]);

    data.write(&path, true).unwrap();
    assert_eq!(read(&path).unwrap(), data);
}

/// Replacing goes through links, and never takes the place of what is no file.
#[cfg(unix)]
#[test]
fn links_stay_and_sockets_are_refused() {
    let (folder, path) = folder();
    let data = gamble();
    fs::write(&path, "old").unwrap();
    let link = folder.path().join("link.parquet");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    data.write(&link, true).unwrap();
    assert!(link.is_symlink());
    assert_eq!(read(&path).unwrap(), data);

    let socket = folder.path().join("socket");
    let _bound = match std::os::unix::net::UnixListener::bind(&socket) {
        Ok(bound) => bound,
        Err(error) => {
            eprintln!("sockets are not tested, whose paths have to be short: {error}");
            return;
        }
    };
    assert!(matches!(data.write(&socket, true), Err(DataError::NotAFile(_))));
    assert!(socket.exists() && !socket.is_file());
}

#[test]
fn a_writer_that_is_dropped_leaves_nothing() {
    let (folder, path) = folder();
    let data = gamble();
    let mut writer =
        DatasetWriter::create(&path, data.metadata(), data.behaviours(), false).unwrap();
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

/// The version of a task's rules is kept where there is one, and leaves no trace where there is none.
#[test]
fn the_version_of_the_task_is_kept() {
    let data = gamble();
    let json = serde_json::to_string(data.metadata()).unwrap();
    assert!(!json.contains("task_version"), "{json}");
    assert_eq!(&serde_json::from_str::<Metadata>(&json).unwrap(), data.metadata());

    let metadata = Metadata { task_version: Some(2), ..data.metadata().clone() };
    let mut builder = DatasetBuilder::new(metadata);
    builder.extend(&data).unwrap();
    let (_folder, path) = folder();
    builder.build().unwrap().write(&path, false).unwrap();
    assert_eq!(read(&path).unwrap().metadata().task_version, Some(2));
}

#[test]
fn errors_keep_what_other_libraries_said() {
    let (_folder, path) = folder();
    let source = |path| read(path).unwrap_err().source().map(ToString::to_string);
    assert!(source(&path).is_some(), "there is no such file");
    fs::write(&path, "hello, I am no Parquet file at all").unwrap();
    assert!(source(&path).is_some(), "not Parquet");
    write_foreign(&path, Some("{"), columns());
    assert!(source(&path).is_some(), "not JSON");
    write_foreign(&path, None, columns());
    assert!(source(&path).is_none(), "nobody else was asked");
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
            // One of several hits renamed the checksums, which may be left out.
            Ok(_) if !bytes.windows(11).any(|bytes| bytes == b"\"checksums\"") => {}
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

#[test]
fn wider_types_are_taken_when_the_values_fit() {
    let (_folder, path) = folder();
    write_foreign(&path, Some(METADATA), columns());
    let data = read(&path).unwrap();
    assert_eq!(data.observations(), &Cells::Byte(vec![0, 1, 1, 2, 2, 2, 0, 0, 1, 1]));
    assert_eq!(data.rewards(), [0.5, 1.0, 2.0]);
    assert_eq!(data.behaviours(), ["a", "b"]);
    assert_eq!(data.end(1), End { terminated: false, truncated: true });
}

/// Other programs cut row groups wherever they like.
#[test]
fn episodes_may_go_on_in_the_next_row_group() {
    let (_folder, path) = folder();
    write_foreign(&path, Some(METADATA), columns());
    let data = read(&path).unwrap();
    for group_rows in [1, 2] {
        write_groups(&path, Some(METADATA), columns(), group_rows);
        assert_eq!(read(&path).unwrap(), data);
    }

    let mut columns = columns();
    columns[7].1 = Arc::new(LargeStringArray::from(vec!["a", "b", "b"]));
    write_groups(&path, Some(METADATA), columns, 1);
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("row 1: the behaviour changes within an episode"), "{error}");
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

/// What is left on disk is the same data set: row by row, with its checksums, behaviours and ends; and what is wrong with a file
/// is found either way.
#[test]
fn a_data_set_on_disk_is_the_same_as_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    let scratch = esper_data::Scratch::in_folder(folder.path());
    let mut rng = Seed::new(3).rng();
    let spaces = Metadata::new(
        Space::Box { shape: vec![3], bounds: None },
        Space::MultiDiscrete { nvec: vec![300, 2] },
    );
    let mut builder = DatasetBuilder::new(spaces).with_behaviours(["one", "two"]);
    for episode in 0..40usize {
        builder.made_by(["one", "two"][episode % 2]);
        for _ in 0..rng.random_range(1..2_000) {
            let seen: [f32; 3] = rng.random();
            let taken = [rng.random_range(0..300u16), rng.random_range(0..2)];
            builder.push(&seen, &taken, rng.random()).unwrap();
        }
        builder.end(&[0.0f32; 3], End { terminated: episode % 3 == 0, truncated: false }).unwrap();
    }
    let data = builder.build().unwrap();
    data.write(&path, false).unwrap();
    let on_disk = esper_data::read_on_disk(&path, &scratch).unwrap();
    assert!(on_disk.scratch().is_some() && data.scratch().is_none());
    let rows: Vec<usize> = (0..50).map(|_| rng.random_range(0..data.rows())).collect();
    let cells = |data: &esper_data::Dataset| {
        data.with_observations(&rows, |cells, rows| {
            rows.iter().map(|&row| cells.number(3 * row + 1)).collect::<Vec<_>>()
        })
    };
    assert_eq!(cells(&data), cells(&on_disk));
    // As wholes, too.
    assert_eq!(on_disk, data);
    assert_eq!(esper_data::Checksums::of(&on_disk), esper_data::Checksums::of(&data));

    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert!(esper_data::read_on_disk(&path, &scratch).is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
}

/// What is said of data on disk is what is said of it in memory, and nothing of it stays in memory: every kind of cell, more rows
/// than are looked at at once, whole and as a view.
#[test]
fn data_on_disk_is_described_without_being_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = esper_data::Scratch::in_folder(folder.path());
    for (at, (seen, done)) in spaces().into_iter().enumerate() {
        let path = folder.path().join(format!("{at}.parquet"));
        let data = random(seen, done, if at == 0 { 5_000 } else { 150 }, at as u64);
        data.write(&path, false).unwrap();
        let on_disk = esper_data::read_on_disk(&path, &scratch).unwrap();
        let view = |data: &Dataset| data.select(&[7, 8, 100, 3]);
        for (ours, theirs) in [(&data, &on_disk), (&view(&data), &view(&on_disk))] {
            assert_eq!(ours, theirs);
            assert_eq!(esper_data::Overview::of(ours, 0.9), esper_data::Overview::of(theirs, 0.9));
            assert_eq!(esper_data::Checksums::of(ours), esper_data::Checksums::of(theirs));
        }
        assert_ne!(view(&on_disk), data.select(&[7, 8, 100, 4]));
        assert_eq!(on_disk.bytes_in_memory(), 0);
        assert!(data.bytes_in_memory() >= data.steps() as u64 * 2);
    }
}
