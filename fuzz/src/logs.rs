//! Readers of other programs' logs, and of requests for actions.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

use esper::Registry;
use esper::policy::Policy;
use esper::serving::{Desk, DeskOptions};
use esper_data::tables::Mapping;
use esper_nn::default_device;

use super::{original, with_file};

/// Opens a table or another tool's file, whatever it is.
pub(super) fn log(bytes: &[u8]) -> bool {
    let Ok(data) = with_file(bytes, esper_data::open) else { return false };
    let _ = esper_data::suspicions(&data);
    true
}

/// A file of the importers' tests.
fn kept(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    // The tests of the program are two folders below the root, libFuzzer's package one.
    let data = |root: &Path| root.join("crates/esper-data/tests/data").join(name);
    let found = folder.ancestors().find_map(|root| fs::read(data(root)).ok());
    found.expect("it is in the repository")
}

pub(super) fn csv_seeds() -> Vec<Vec<u8>> {
    vec![
        kept("tables/pandas.csv"),
        b"episode;step;x;action;reward\n1;0;2,5;\"a\nb\";0\n1;1;;c;1e3\n".to_vec(),
    ]
}

pub(super) fn json_seeds() -> Vec<Vec<u8>> {
    vec![kept("tables/pandas.jsonl"), kept("tables/arrays.pandas.jsonl")]
}

pub(super) fn parquet_seeds() -> Vec<Vec<u8>> {
    ["pandas", "polars", "duckdb", "arrays.duckdb"]
        .map(|name| kept(&format!("tables/{name}.parquet")))
        .to_vec()
}

pub(super) fn hdf5_seeds() -> Vec<Vec<u8>> {
    vec![kept("formats/minari-0.5-hdf5-box/data/main_data.hdf5"), kept("formats/d4rl.hdf5")]
}

/// A mapping of columns, as `esper import --map` takes it.
pub(super) fn mapping(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let Ok(mapping) = Mapping::from_toml(text) else { return false };
    let again = Mapping::from_toml(&mapping.to_toml()).expect("what was written is read");
    assert_eq!(again, mapping);
    true
}

pub(super) fn mapping_seeds() -> Vec<Vec<u8>> {
    let text = "episode = \"patient\"\ntime = \"\"\nobservation = [\"age\", \"kind\"]\naction = [\"treatment\"]\nreward = \"outcome\"\n\
                reward_per = \"episode\"\n\n[kinds]\nage = \"number\"\nkind = \"category\"\n";
    vec![text.as_bytes().to_vec()]
}

/// A line for `esper act`: whatever it is, it is answered, by JSON.
pub(super) fn request(bytes: &[u8]) -> bool {
    thread_local! {
        static DESK: RefCell<Option<Desk>> = const { RefCell::new(None) };
    }
    DESK.with_borrow_mut(|desk| {
        let desk = desk.get_or_insert_with(|| {
            let bytes = original("whole/esper-mlp-0/policy.safetensors");
            let path = Path::new("policy.safetensors");
            let policy = Policy::from_bytes(path, bytes, &Registry::default(), &default_device());
            Desk::new(&policy.expect("it was made"), DeskOptions::default())
        });
        let mut answer = Vec::new();
        desk.answer_line(bytes, &mut answer);
        if answer.is_empty() {
            return false;
        }
        let answer: serde_json::Value = serde_json::from_slice(&answer).expect("JSON");
        answer.get("action").is_some() || answer.is_array()
    })
}

pub(super) fn request_seeds() -> Vec<Vec<u8>> {
    [
        r#"{"episode":"a","observation":0,"level":0.9}"#,
        r#"{"episode":7,"observation":[0],"target":1.0}"#,
        r#"[{"episode":"b","observation":0},{"episode":"c","observation":2,"reward":0.5,"end":true}]"#,
    ]
    .map(|line| line.as_bytes().to_vec())
    .to_vec()
}
