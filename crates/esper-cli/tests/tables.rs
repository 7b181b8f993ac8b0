//! Tables of one's own, in and out, as users meet them.

mod common;

use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use common::{esper, json, narrow, refused, small, stderr};

const VISITS: &str = "patient_id,day,age,ward,treatment,outcome\n\
    b,2,41,A,none,1\n\
    b,1,,A,drug,\n\
    a,1,70,B,drug,0\n";

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("visits.csv"), VISITS).unwrap();
    folder
}

#[test]
fn a_table_becomes_a_data_set_and_a_table_again() {
    let folder = folder();
    let run = |arguments: &[&str]| esper(folder.path(), arguments);
    let imported = json(&run(&["import", "visits.csv", "--out", "visits.parquet", "--json"]));
    assert_eq!((&imported["steps"], &imported["episodes"]), (&json!(3), &json!(2)));
    assert_eq!(imported["mapping"]["episode"], "patient_id");
    let described = json(&run(&["info", "visits.parquet", "--json"]));
    for key in [
        "path",
        "task",
        "steps",
        "episodes",
        "mean_return",
        "mean_length",
        "behaviours",
        "warnings",
        "fields",
        "observation_space",
        "action_space",
    ] {
        assert_eq!(imported[key], described[key], "{key}");
    }
    assert_eq!(described["fields"]["action"][0]["values"], json!(["drug", "none"]));
    assert!(narrow(&run(&["info", "visits.parquet"])).contains("treatment: one of 2: drug, none"));
    assert!(
        narrow(&run(&["import", "visits.csv", "--out", "visits.parquet", "--force"]))
            .contains("how it was read")
    );
    refused(&run(&["import", "visits.csv", "--out", "visits.parquet"]), 1, "--force");
    refused(&run(&["import", "visits.parquet", "--out", "again.parquet"]), 2, "needs no import");

    narrow(&run(&["export", "visits.parquet", "--csv", "out.csv"]));
    refused(&run(&["export", "visits.parquet", "--csv", "out.csv"]), 1, "--force");
    let again = ["import", "out.csv", "--map", "out.csv.map.toml", "--out", "again.parquet"];
    narrow(&run(&again));
    let bytes = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("visits.parquet"), bytes("again.parquet"));
}

#[test]
fn a_dry_run_prints_a_mapping_that_can_be_used() {
    let folder = folder();
    let run = |arguments: &[&str]| esper(folder.path(), arguments);
    let printed = narrow(&run(&["import", "visits.csv", "--dry-run"]));
    assert!(printed.contains("# observation `ward`: category: A, B"), "{printed}");
    fs::write(folder.path().join("map.toml"), printed).unwrap();
    json(&run(&["import", "visits.csv", "--map", "map.toml", "--out", "a.parquet", "--json"]));
    json(&run(&["import", "visits.csv", "--out", "b.parquet", "--json"]));
    let bytes = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("a.parquet"), bytes("b.parquet"));
    let said = json(&run(&["import", "visits.csv", "--dry-run", "--ignore", "ward", "--json"]));
    assert_eq!(said["mapping"]["ignore"], json!(["ward"]));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    // Nothing is left of what was misused.
    refused(&run(&["import", "visits.csv"]), 2, "--out");
    refused(
        &run(&["import", "visits.csv", "--episode", "nobody", "--out", "c.parquet"]),
        2,
        "no column `nobody`",
    );
    refused(&run(&["import", "visits.csv", "--memory", "much", "--out", "c.parquet"]), 2, "2GB");
    refused(&run(&["import", "nowhere.csv", "--out", "c.parquet"]), 1, "nowhere.csv");
    assert!(!folder.path().join("c.parquet").exists());
}

/// A table whose columns are not in doubt is described and trained on as it is; what is in doubt is asked.
#[test]
fn tables_are_taken_directly() {
    let folder = folder();
    let info = esper(folder.path(), &["info", "visits.csv"]);
    assert!(stderr(&info).contains("note: `age`: 1 of 3 values are missing"), "{}", stderr(&info));
    narrow(&info);
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../esper-data/tests/data/tables");
    let pandas = golden.join("pandas.parquet");
    let pandas = json(&esper(folder.path(), &["info", pandas.to_str().unwrap(), "--json"]));
    assert_eq!((&pandas["steps"], &pandas["episodes"]), (&json!(5), &json!(3)));
    fs::write(folder.path().join("doubt.csv"), "user_id,session_id,x,action,reward\n1,2,3,4,5\n")
        .unwrap();
    let doubt = esper(folder.path(), &["info", "doubt.csv"]);
    refused(&doubt, 1, "`user_id`, `session_id`? Say so with --episode, in `esper import");

    let mut log = "episode,step,x,action,reward\n".to_owned();
    for row in 0..200 {
        log += &format!(
            "{},{},{},{},{}\n",
            row / 4,
            row % 4,
            row % 7,
            ["left", "right"][row % 2],
            row % 3
        );
    }
    fs::write(folder.path().join("log.csv"), log).unwrap();
    let trained =
        small(folder.path(), &["train", "log.csv", "--method", "bc", "--out", "run", "--json"]);
    assert_eq!(json(&trained)["method"], "bc");
}

/// What is imported is not written over, whatever it is called and however it is forced.
#[test]
fn sources_are_never_written_over() {
    let folder = folder();
    let parts = folder.path().join("parts");
    fs::create_dir(&parts).unwrap();
    fs::write(parts.join("a.csv"), VISITS).unwrap();
    let absolute = folder.path().join("visits.csv");
    for (source, out) in [
        ("visits.csv", "visits.csv"),
        ("visits.csv", "./parts/../visits.csv"),
        ("visits.csv", absolute.to_str().unwrap()),
        ("parts", "parts/a.csv"),
        ("parts", "parts/new.parquet"),
        ("parts", "parts"),
    ] {
        let run = esper(folder.path(), &["import", source, "--out", out, "--force"]);
        refused(&run, 2, "would be lost");
    }
    assert_eq!(fs::read_to_string(absolute).unwrap(), VISITS);
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 1);
    json(&esper(folder.path(), &["import", "parts", "--out", "parts.parquet", "--json"]));
}

/// A dry run refuses what importing refuses.
#[test]
fn a_dry_run_finds_times_that_are_there_twice() {
    let folder = folder();
    fs::write(folder.path().join("twice.csv"), VISITS.replace("b,1,", "b,2,")).unwrap();
    for last in [&["--dry-run"][..], &["--out", "x.parquet"]] {
        let arguments = [&["import", "twice.csv"], last].concat();
        refused(&esper(folder.path(), &arguments), 1, "line 3: episode `b` has the same time");
    }
}
