//! Tables: what other programs write is understood, rows may come in any order, and whatever is wrong is said with its place.

#[path = "../common/mod.rs"]
mod common;
mod exactness;
mod faults;
mod kinds;
mod round_trips;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, RecordBatch, StringArray,
    TimestampNanosecondArray, UInt64Array,
};
use common::{random, spaces};
use esper_data::tables::{Mapping, Survey, Table, is_native_file, open_with_notes, write_csv};
use esper_data::{
    Cells, DataError, Dataset, DatasetBuilder, End, Field, FieldKind, Fields, Metadata, Seed,
    Space, Word, open, read,
};
use rand::RngExt;
use rand::seq::SliceRandom;
use tempfile::TempDir;

fn go_on(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tables").join(name)
}

fn mapping(toml: &str) -> Mapping {
    Mapping::from_toml(toml).unwrap()
}

fn survey(paths: &[PathBuf], mapping: &Mapping) -> Result<Survey, DataError> {
    Table::open(paths)?.survey(mapping, go_on)
}

fn import(paths: &[PathBuf], mapping: &Mapping) -> Result<Dataset, DataError> {
    survey(paths, mapping)?.dataset(go_on)
}

/// Files of given texts.
fn files(texts: &[(&str, &[u8])]) -> (TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let paths = texts.iter().map(|(name, text)| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    });
    let paths = paths.collect();
    (folder, paths)
}

/// Imports one text, with a mapping.
fn imported(text: &str, toml: &str) -> Result<Dataset, String> {
    let (_folder, paths) = files(&[("log.csv", text.as_bytes())]);
    import(&paths, &mapping(toml)).map_err(|error| error.to_string())
}

fn notes(text: &str, toml: &str) -> Vec<String> {
    let (_folder, paths) = files(&[("log.csv", text.as_bytes())]);
    survey(&paths, &mapping(toml)).unwrap().notes().to_vec()
}

fn text(text: &str) -> Word {
    Word::Text(text.to_owned())
}

/// What `visits.csv` holds, by hand.
fn visits() -> Dataset {
    let category = |values: Vec<Word>| FieldKind::Category { values };
    let mean = (40.5 + 70.0 + 70.25 + 33.0) / 4.0;
    let origin = esper_data::parse_date("2023-12-31").unwrap();
    let fields = Fields {
        observation: vec![
            Field::new("age", FieldKind::Number { fill: Some(mean) }),
            Field::new("age", FieldKind::Missing),
            Field::new("ward", category(vec![Word::Missing, text("north"), text("south")])),
            Field::new("seen", FieldKind::Date { origin, fill: None }),
            Field::new("urgent", FieldKind::Boolean { fill: None }),
        ],
        action: vec![Field::new(
            "treatment",
            category(vec![text("drug"), text("none, yet"), text("rest")]),
        )],
    };
    let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
    let seen = Space::Tuple { spaces: vec![real(2), Space::Discrete { n: 3 }, real(2)] };
    let metadata = Metadata { fields, ..Metadata::new(seen, Space::Discrete { n: 3 }) };
    let mut log = DatasetBuilder::new(metadata);
    let ended = End { terminated: true, truncated: false };
    let cut = End { terminated: false, truncated: true };
    log.made_by("Ada");
    log.push(&[40.5, 0.0, 1.0, 4.0, 1.0], &[0u8], 0.5).unwrap();
    log.push(&[mean, 1.0, 1.0, 5.0, 0.0], &[1u8], 0.25).unwrap();
    log.end(&[mean, 1.0, 1.0, 5.0, 0.0], ended).unwrap();
    log.made_by("Bo");
    log.push(&[70.0, 0.0, 2.0, 0.0, 0.0], &[0u8], -1.0).unwrap();
    log.push(&[70.25, 0.0, 0.0, 60.0, 1.0], &[2u8], 0.0).unwrap();
    log.end(&[70.25, 0.0, 0.0, 60.0, 1.0], cut).unwrap();
    log.made_by("Ada");
    log.push(&[33.0, 0.0, 2.0, 1.0, 0.0], &[2u8], 2.0).unwrap();
    log.end(&[33.0, 0.0, 2.0, 1.0, 0.0], ended).unwrap();
    log.build().unwrap()
}

#[test]
fn what_other_programs_write_is_the_same_data() {
    let by_doctor = mapping("behaviour = \"doctor\"");
    for name in [
        "visits.csv",
        "pandas.csv",
        "pandas.jsonl",
        "pandas.parquet",
        "polars.tsv",
        "polars.ndjson",
        "polars.parquet",
        "duckdb.csv",
        "duckdb.parquet",
        "parts",
    ] {
        let data = import(&[golden(name)], &by_doctor);
        assert_eq!(data.unwrap_or_else(|error| panic!("{name}: {error}")), visits(), "{name}");
    }
}

#[test]
fn formats_can_be_mixed_and_columns_come_in_any_order() {
    let (_folder, paths) = files(&[
        ("a.csv", b"episode,step,x,action,reward\n0,1,2,b,1\n"),
        ("b.csv", b"action;reward;x;step;episode\r\na;0;1;0;0\r\n"),
        (
            "c.jsonl",
            b"{\"episode\": 7, \"step\": 0, \"x\": 3.5, \"action\": \"b\", \"reward\": 2}\n",
        ),
    ]);
    let data = import(&paths, &Mapping::default()).unwrap();
    assert_eq!((data.episodes(), data.steps()), (2, 3));
    assert_eq!(*data.observations(), Cells::Float(vec![1.0, 2.0, 2.0, 3.5, 3.5]));
    assert_eq!(*data.actions(), Cells::Byte(vec![0, 1, 1]));
    assert_eq!(data.rewards(), [0.0, 1.0, 2.0]);
    let notes = survey(&paths, &Mapping::default()).unwrap().notes().join("\n");
    assert!(notes.contains("1 episodes have rows in more than one"), "{notes}");
}

#[test]
fn byte_order_marks_line_ends_and_quotes() {
    let plain = "episode,t,x,action,reward\n0,0,1,\"a\nb\",1\n0,1,2,\"c \"\"d\"\"\",0\n";
    let expected = imported(plain, "").unwrap();
    for text in [
        format!("\u{feff}{plain}"),
        plain.replace("1\n", "1\r\n").replace("0\n", "0\r\n").replace("reward\n", "reward\r\n"),
        plain.trim_end().to_owned(),
        format!("\n\n{plain}\n\n"),
        plain.replace(',', ";"),
        plain.replace(',', "\t"),
        plain.replace(',', "|"),
        plain.replace("episode,t", " episode , t"),
    ] {
        assert_eq!(imported(&text, "").unwrap(), expected, "{text:?}");
    }
    assert_eq!(
        expected.metadata().fields.action[0].kind,
        FieldKind::Category { values: vec![text("a\nb"), text("c \"d\"")] }
    );
}

/// Rows of a data set as a table of random looks.
fn disguised(rng: &mut esper_data::Rng) -> (String, String) {
    let separator = [",", ";", "\t", "|"][rng.random_range(0..4)];
    let line_end = ["\n", "\r\n"][rng.random_range(0..2)];
    let names = ["i d", "when", "f\"1", "f2", "did", "paid", "fin"];
    let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for episode in 0..rng.random_range(1..9) {
        for step in 0..rng.random_range(1..7) {
            rows.push(vec![
                format!("ep {episode}"),
                format!("{}", step * 3 - 5),
                format!("{}", f64::from(rng.random_range(-40..40)) / 8.0),
                ["red", "green \"x\"", "blue\nor, not"][rng.random_range(0..3)].to_owned(),
                ["go", "stop"][rng.random_range(0..2)].to_owned(),
                format!("{}", f64::from(rng.random_range(-40..40)) / 8.0),
                "no".to_owned(),
            ]);
        }
    }
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.shuffle(rng);
    rows.shuffle(rng);
    let line = |cells: &[String]| {
        let cells = order.iter().map(|&at| cells[at].clone());
        cells.collect::<Vec<_>>().join(separator) + line_end
    };
    let header: Vec<String> = names.iter().map(|name| quote(name)).collect();
    let body: String = rows
        .iter()
        .map(|row| line(&row.iter().map(|cell| quote(cell)).collect::<Vec<_>>()))
        .collect();
    // The same rows, in order, plain: sorted by the episode's first row in the disguised table, then by time.
    let first = |id: &str| rows.iter().position(|row| row[0] == id).unwrap();
    let mut sorted = rows.clone();
    sorted.sort_by_key(|row| (first(&row[0]), row[1].parse::<i64>().unwrap()));
    let swap = |rows: &[Vec<String>]| -> String {
        rows.iter()
            .map(|row| row.iter().map(|cell| quote(cell)).collect::<Vec<_>>().join(",") + "\n")
            .collect()
    };
    let plain = format!("{}\n{}", header.join(","), swap(&sorted));
    (line(&header) + &body, plain)
}

/// Rows in any order, columns in any order and any separator give the same data.
#[test]
fn looks_do_not_matter() {
    let toml = "episode = \"i d\"\ntime = \"when\"\nobservation = [\"f\\\"1\", \"f2\"]\naction = [\"did\"]\nreward = \"paid\"\nend = \"fin\"";
    for seed in 0..200 {
        let mut rng = Seed::new(seed).rng();
        let (disguised, plain) = disguised(&mut rng);
        let expected = imported(&plain, toml).unwrap();
        assert_eq!(imported(&disguised, toml).unwrap(), expected, "seed {seed}: {disguised}");
        // Already in order, no times are needed.
        let without = toml.replace("time = \"when\"", "time = \"\"\nignore = [\"when\"]");
        assert_eq!(imported(&plain, &without).unwrap(), expected, "seed {seed}");
    }
}

#[test]
fn little_memory_gives_the_same_file() {
    let mut rng = Seed::new(3).rng();
    let mut rows: Vec<String> = Vec::new();
    for episode in 0..4_000 {
        for step in 0..rng.random_range(1..60) {
            let x: f32 = rng.random_range(-1.0..1.0);
            let word = ["a", "b", "c"][rng.random_range(0..3)];
            let last = if rng.random_range(0..2) == 0 { String::new() } else { format!("{x}") };
            let player = episode % 7;
            rows.push(format!(
                "e{episode},{step},{x},{},{word},{},{last},p{player}\n",
                x * 2.0,
                rng.random_range(0..5)
            ));
        }
    }
    rows.shuffle(&mut rng);
    let log = format!("episode,t,x,y,action,reward,final_x,behaviour\n{}", rows.concat())
        .replace("final_x", "final_x,final_y")
        .replace(",p", ",,p");
    let (folder, paths) = files(&[("log.csv", log.as_bytes())]);
    let survey = survey(&paths, &Mapping::default()).unwrap();
    let (much, little) = (folder.path().join("much"), folder.path().join("little"));
    survey.write(&much, false, 1 << 40, |_| Ok(()), go_on).unwrap();
    survey.write(&little, false, 1_000_000, |_| Ok(()), go_on).unwrap();
    assert!(fs::read(&much).unwrap() == fs::read(&little).unwrap());
    assert_eq!(read(&much).unwrap(), survey.dataset(go_on).unwrap());
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["little", "log.csv", "much"]);
}

#[test]
fn spreadsheets_say_their_separator() {
    let plain = "episode;t;x;action;reward\n0;0;1;a;1\n0;1;2;b;0\n";
    let expected = imported(plain, "").unwrap();
    for start in ["sep=;\n", "\u{feff}sep=;\r\n", "\"SEP=;\"\n"] {
        assert_eq!(imported(&format!("{start}{plain}"), "").unwrap(), expected, "{start:?}");
    }
    let error = imported(&format!("sep=;\n{}", plain.replace("b;0", "b")), "").unwrap_err();
    assert!(error.contains("line 4: has 4 fields"), "{error}");
    let error = imported(&plain.replace('\n', "\r"), "").unwrap_err();
    assert!(error.contains("carriage returns alone"), "{error}");
}
