//! Data sets of other tools for reinforcement learning, as users meet them: described, imported, trained on, refused.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use common::{esper, json, narrow, refused, small, stderr};

fn formats() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "../esper-data/tests/data/formats"].iter().collect()
}

fn file(name: &str) -> String {
    formats().join(name).display().to_string()
}

/// What is imported is what is described directly, and the file that comes of it describes itself the same.
#[test]
fn what_other_tools_wrote_is_imported() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    for (name, format) in [
        ("minari-0.4-box", "Minari"),
        ("minari-0.4-nested", "Minari"),
        ("minari-0.5-arrow-mixed", "Minari"),
        ("minari-0.5-hdf5-discrete", "Minari"),
        ("minari-0.5-parquet-box", "Minari"),
        ("d4rl.hdf5", "D4RL"),
        ("d3rlpy-discrete.h5", "d3rlpy"),
        ("rllib.parquet", "RLlib"),
        ("rlds.parquet", "RLDS"),
    ] {
        let (source, out) = (file(name), format!("{name}.out.parquet"));
        let imported = json(&esper(home, &["import", &source, "--out", &out, "--json"]));
        assert!(imported["format"].as_str().unwrap().starts_with(format), "{imported}");
        assert_eq!(imported["path"], json!(out));
        for path in [&source, &out] {
            let described = json(&esper(home, &["info", path, "--json"]));
            assert!(described["bytes"].as_u64() > Some(0), "{described}");
            for key in ["steps", "episodes", "mean_return", "observation_space", "action_space"] {
                assert_eq!(imported[key], described[key], "{name}: {key}");
            }
        }
    }
    let said =
        narrow(&esper(home, &["import", &file("rllib-dones.parquet"), "--out", "d.parquet"]));
    assert!(said.contains("RLlib (Parquet)") && said.contains("`dones` does not tell"), "{said}");
    let dry = narrow(&esper(&formats(), &["import", "minari-0.5-arrow-mixed", "--dry-run"]));
    assert!(dry.contains("Tuple(Box(1 x 2)") && dry.contains("a dry run"), "{dry}");
    let box_of = file("minari-0.4-box");
    let twice = json(&esper(home, &["import", &box_of, &box_of, "--out", "two.parquet", "--json"]));
    let once = json(&esper(home, &["info", &box_of, "--json"]));
    assert_eq!(twice["steps"].as_u64(), once["steps"].as_u64().map(|steps| 2 * steps));
}

#[test]
fn what_makes_no_sense_with_them_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let d4rl = file("d4rl.hdf5");
    let import =
        |more: &[&str]| esper(home, &[&["import"], more, &["--out", "x.parquet"]].concat());
    for option in [
        ["--episode", "id"],
        ["--observation", "a,b"],
        ["--reward-per", "step"],
        ["--ignore", "a"],
        ["--memory", "2GB"],
    ] {
        refused(&import(&[&[&d4rl[..]], &option[..]].concat()), 2, option[0]);
    }
    refused(&import(&[&d4rl, &file("rllib.parquet")]), 1, "one by one");
    refused(
        &import(&[&file("minari-0.5-hdf5-discrete"), &file("minari-0.5-hdf5-binary")]),
        1,
        "follow",
    );
    refused(&import(&[&file("nowhere.hdf5")]), 1, "nowhere.hdf5");
    let bytes = fs::read(&d4rl).unwrap();
    fs::write(home.join("half.hdf5"), &bytes[..bytes.len() / 2]).unwrap();
    refused(&import(&["half.hdf5"]), 1, "half.hdf5");
    fs::write(home.join("page.hdf5"), "<html>moved</html>").unwrap();
    refused(&import(&["page.hdf5"]), 1, "not an HDF5 file");
    fs::create_dir(home.join("empty")).unwrap();
    refused(&import(&["empty"]), 1, "empty");
    assert!(!home.join("x.parquet").exists(), "nothing is left of what was refused");
    assert!(import(&[&d4rl]).status.success());
    refused(&import(&[&d4rl]), 1, "--force");
    refused(&import(&["x.parquet", "--force"]), 2, "would be lost");
    fs::copy(home.join("x.parquet"), home.join("y.parquet")).unwrap();
    refused(&import(&["y.parquet", "--force"]), 2, "needs no import");
    refused(&esper(home, &["train", &d4rl, "--memory", "2GB", "--out", "run"]), 1, "esper import");
    assert!(!Path::new(&home.join("run")).exists());
}

/// A policy comes of a Minari folder as it is, and data within a limit of memory gives the same one.
#[test]
fn what_other_tools_wrote_is_trained_on() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let mut log = "episode,step,x,action,reward\n".to_owned();
    for row in 0..400 {
        let (action, paid) = (["left", "right"][row % 2], row % 3);
        log += &format!("{},{},{},{action},{paid}\n", row / 4, row % 4, row % 7);
    }
    fs::write(home.join("log.csv"), log).unwrap();
    narrow(&esper(home, &["import", "log.csv", "--out", "log.parquet"]));
    narrow(&esper(home, &["export", "log.parquet", "--minari", "log-v0"]));
    let train = |data: &str, out: &str, more: &[&str]| {
        let command = ["train", data, "--method", "bc", "--out", out, "--json"];
        let trained = small(home, &[&command, more].concat());
        assert!(trained.status.success(), "{}", stderr(&trained));
        fs::read(home.join(out).join("policy.safetensors")).unwrap().len()
    };
    assert!(train("log-v0", "minari", &[]) > 0);
    let run = ["run", "log.parquet", "--methods", "bc", "--seeds", "1", "--out", "all"];
    let run = small(home, &[&run[..], &["--memory", "600MB", "--json"]].concat());
    assert_eq!(json(&run)["methods"][0]["method"], "bc");
    let alone = fs::read(home.join("all/bc-mlp-0/policy.safetensors")).unwrap();
    train("log.parquet", "free", &[]);
    assert_eq!(alone, fs::read(home.join("free/policy.safetensors")).unwrap());
}
