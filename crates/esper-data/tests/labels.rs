//! Labels: what is written is read back, from any program, and whatever is wrong is said.

mod common;

use std::fs;
use std::sync::Arc;

use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, Float32Array, Float64Array, Int8Array, Int64Array, ListArray, StringArray,
    UInt32Array,
};
use common::{Named, folder, random, write_foreign, write_groups};
use esper_data::{DataError, Dataset, DatasetBuilder, End, LabelColumns, Seed, Space, StepLabels};
use rand::RngExt;

/// Two episodes, of two steps and of one.
fn small() -> Dataset {
    let mut builder = DatasetBuilder::inferring();
    builder.push_steps(&[0u8, 1], &[0u8, 1], &[0.0; 2]).unwrap();
    builder.end(&[2u8], End::default()).unwrap();
    builder.push(&[0u8], &[1u8], 0.0).unwrap();
    builder.end(&[2u8], End::default()).unwrap();
    builder.build().unwrap()
}

fn lists(rows: Vec<Vec<i64>>) -> ArrayRef {
    let rows = rows.into_iter().map(|row| Some(row.into_iter().map(Some)));
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(rows))
}

/// Sound labels of `small`, as another program would write them: out of order, of odd types, with an index.
fn columns() -> Vec<Named> {
    vec![
        ("__index_level_0__", Arc::new(StringArray::from(vec!["x", "y", "z"]))),
        ("step", Arc::new(Int8Array::from(vec![1, 0, 0]))),
        ("label", Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5]))),
        ("episode", Arc::new(Int64Array::from(vec![0, 1, 0]))),
        ("clusters", lists(vec![vec![0, 255], vec![1, 254], vec![2, 253]])),
    ]
}

#[test]
fn labels_come_back_as_they_were() {
    let (_folder, path) = folder();
    let data = random(Space::Discrete { n: 7 }, Space::Discrete { n: 3 }, 300, 0);
    let mut rng = Seed::new(1).rng();
    let labels: Vec<f32> = (0..data.rows()).map(|_| rng.random()).collect();
    let clusters: Vec<u8> = (0..data.rows() * 5).map(|_| rng.random()).collect();
    for clusters in [None, Some((5, clusters.into()))] {
        let written = StepLabels { labels: labels.clone(), clusters };
        written.columns().write(&data, &path, true).unwrap();
        assert_eq!(StepLabels::read(&path, &data).unwrap(), written);
    }
}

#[test]
fn rows_are_placed_by_their_episode_and_step() {
    let (_folder, path) = folder();
    let expected = StepLabels {
        labels: vec![2.5, 0.5, 1.5],
        clusters: Some((2, vec![2, 253, 0, 255, 1, 254].into())),
    };
    write_foreign(&path, None, columns());
    assert_eq!(StepLabels::read(&path, &small()).unwrap(), expected);
    write_groups(&path, None, columns(), 2);
    assert_eq!(StepLabels::read(&path, &small()).unwrap(), expected);

    let numbers: [[ArrayRef; 2]; 3] = [
        [
            Arc::new(Float64Array::from(vec![0.0, 1.0, 0.0])),
            Arc::new(Float32Array::from(vec![0.5, 1.5, 2.5])),
        ],
        [
            Arc::new(UInt32Array::from(vec![0, 1, 0])),
            Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5])),
        ],
        [
            Arc::new(Float32Array::from(vec![0.0, 1.0, 0.0])),
            Arc::new(Float64Array::from(vec![0.5, 1.5, 2.5])),
        ],
    ];
    for [episode, label] in numbers {
        let mut columns = columns();
        columns[2].1 = label;
        columns[3].1 = episode;
        columns.truncate(4);
        write_foreign(&path, None, columns);
        let read = StepLabels::read(&path, &small()).unwrap();
        assert_eq!((&read.labels, read.clusters), (&expected.labels, None));
    }
}

#[test]
fn whatever_is_wrong_is_said_with_its_row() {
    let ints = |values: [i64; 3]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
    let floats = |values: Vec<Option<f64>>| -> ArrayRef { Arc::new(Float64Array::from(values)) };
    let words = || -> ArrayRef { Arc::new(StringArray::from(vec!["a", "b", "c"])) };
    let cases: Vec<(&str, Option<ArrayRef>, &str)> = vec![
        ("label", None, "column `label` is missing"),
        ("step", None, "column `step` is missing"),
        ("label", Some(words()), "column `label` is of type Utf8, not a number"),
        ("episode", Some(words()), "column `episode` is of type Utf8, not a number"),
        (
            "label",
            Some(floats(vec![Some(1.0), None, None])),
            "column `label` in row 1: is empty (null)",
        ),
        (
            "label",
            Some(floats(vec![Some(1.0), Some(0.0), Some(f64::NAN)])),
            "column `label` in row 2: NaN is not a finite number",
        ),
        (
            "label",
            Some(floats(vec![Some(1e300), Some(0.0), Some(0.0)])),
            "column `label` in row 0: inf is not a finite number",
        ),
        (
            "step",
            Some(floats(vec![Some(0.5), Some(0.0), Some(0.0)])),
            "column `step` in row 0: 0.5 is not a whole number",
        ),
        ("episode", Some(ints([0, 2, 0])), "row 1: no episode 2; the data has 2"),
        ("episode", Some(ints([-1, 1, 0])), "row 0: no episode -1; the data has 2"),
        ("step", Some(ints([1, 1, 0])), "row 1: episode 1 has no step 1; its length is 1"),
        ("step", Some(ints([1, 0, 1])), "row 2: a second label for episode 0, step 1"),
        ("clusters", Some(words()), "column `clusters` is of type Utf8, not a list of integers"),
        (
            "clusters",
            Some(lists(vec![vec![0, 1], vec![0], vec![0, 1]])),
            "column `clusters` in row 1: has 1 cells; the row before has 2",
        ),
        (
            "clusters",
            Some(lists(vec![vec![0], vec![0], vec![256]])),
            "column `clusters` in row 2: 256 is out of range",
        ),
        ("clusters", Some(lists(vec![vec![]; 3])), "column `clusters` in row 0: has no cells"),
    ];
    let (_folder, path) = folder();
    for (name, array, expected) in cases {
        let mut columns = columns();
        let at = columns.iter().position(|column| column.0 == name).unwrap();
        match array {
            Some(array) => columns[at].1 = array,
            None => drop(columns.remove(at)),
        }
        write_foreign(&path, None, columns);
        let error = StepLabels::read(&path, &small()).expect_err(expected).to_string();
        assert!(error.contains(expected), "expected: {expected}\n     got: {error}");
        assert!(error.contains("data.parquet"), "the file is named: {error}");
    }
}

#[test]
fn row_groups_have_to_agree_on_the_number_of_clusters() {
    let (_folder, path) = folder();
    let mut columns = columns();
    columns[4].1 = lists(vec![vec![0, 1], vec![0], vec![0]]);
    write_groups(&path, None, columns, 1);
    let error = StepLabels::read(&path, &small()).unwrap_err().to_string();
    assert!(error.ends_with("rows have different numbers of cells"), "{error}");
}

#[test]
fn steps_without_a_label_are_counted() {
    let (_folder, path) = folder();
    let columns = columns().into_iter().map(|(name, array)| (name, array.slice(0, 1))).collect();
    write_foreign(&path, None, columns);
    let error = StepLabels::read(&path, &small()).unwrap_err().to_string();
    let expected = "no label for episode 0, step 0; 2 of 3 steps have none";
    assert!(error.ends_with(expected), "{error}");
}

/// Whatever bytes change, reading ends with an error or with labels, never with a panic.
#[test]
fn damage_is_an_error_not_a_crash() {
    let (_folder, path) = folder();
    let data = random(Space::Discrete { n: 7 }, Space::Discrete { n: 3 }, 100, 0);
    let labels = data.returns_to_go(1.0);
    let clusters = vec![7; data.rows() * 4].into();
    let columns = LabelColumns { labels: &labels, clusters: Some((4, &clusters)) };
    columns.write(&data, &path, false).unwrap();
    let whole = fs::read(&path).unwrap();
    let mut rng = Seed::new(0).rng();
    let mut errors = 0;
    for _ in 0..1000 {
        let mut bytes = whole.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(0..bytes.len());
            bytes[at] = rng.random();
        }
        fs::write(&path, &bytes).unwrap();
        match StepLabels::read(&path, &data) {
            Err(_) => errors += 1,
            Ok(read) => assert_eq!(read.labels.len(), data.rows()),
        }
    }
    assert!(errors > 300, "only {errors} of 1000 damaged files were noticed");

    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    assert!(matches!(StepLabels::read(&path, &data), Err(DataError::NotParquet { .. })));
}
