//! `act` and `export` as their users meet them.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use common::{esper, json, refused, small};

fn trained(folder: &Path, policy: &str) {
    json(&esper(folder, &["collect", "gambling", "--steps", "4000", "--json"]));
    let train = ["train", "gambling.parquet", "--method", "rvs", "--out", "run", "--json"];
    json(&small(folder, &[&train[..], &["--policy", policy]].concat()));
}

/// Every line is answered before the next is sent; what is wrong ends nothing.
#[test]
fn lines_are_answered_at_once() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path(), "mlp");
    for run in ["run", "run/policy.safetensors"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_esper"))
            .args(["act", run, "--seed", "1", "--quiet"])
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut requests, answers) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut answers = BufReader::new(answers).lines();
        let mut ask = |line: &str| -> Value {
            writeln!(requests, "{line}").unwrap();
            serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap()
        };
        let first = ask(r#"{"episode": 1, "observation": 0, "target": 1}"#);
        assert_eq!((&first["episode"], &first["promise"]), (&json!(1), &json!(1.0)));
        let total: f64 =
            first["probabilities"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
        assert!(first["action"].is_u64() && (total - 1.0).abs() < 1e-5, "{first}");
        assert!(ask("{").get("error").is_some());
        let both = ask(
            r#"[{"episode": 1, "observation": 3, "reward": 0, "end": true}, {"episode": 2, "observation": 0}]"#,
        );
        assert_eq!((&both[0]["episode"], &both[1]["episode"]), (&json!(1), &json!(2)));
        drop(requests);
        assert!(child.wait().unwrap().success());
    }
    refused(&esper(folder.path(), &["act", "nowhere"]), 1, "there is no folder nowhere");
    refused(&esper(folder.path(), &["act", "gambling.parquet"]), 1, "gambling.parquet");
}

#[test]
fn policies_are_exported() {
    let folder = tempfile::tempdir().unwrap();
    trained(folder.path(), "mlp");
    // Either needs the other's source, and says so.
    let swapped = ["export", "gambling.parquet", "--onnx", "policy.onnx"];
    refused(&esper(folder.path(), &swapped), 2, "gambling.parquet is no run: --onnx writes");
    let swapped = ["export", "run", "--csv", "run.csv"];
    refused(
        &esper(folder.path(), &swapped),
        2,
        "run is a run: --csv and --minari write a data set",
    );
    let export = ["export", "run", "--onnx", "policy.onnx", "--json"];
    let exported = json(&esper(folder.path(), &export));
    assert_eq!(exported["inputs"][1]["name"], "target");
    assert_eq!(exported["outputs"][0]["name"], "probabilities");
    let bytes = std::fs::read(folder.path().join("policy.onnx")).unwrap();
    assert_eq!(exported["bytes"], bytes.len());
    refused(&esper(folder.path(), &export), 1, "replace it with --force");
    json(&esper(folder.path(), &[&export[..], &["--force"]].concat()));
    assert_eq!(std::fs::read(folder.path().join("policy.onnx")).unwrap(), bytes);
    let other = tempfile::tempdir().unwrap();
    trained(other.path(), "transformer");
    refused(&esper(other.path(), &export), 1, "cannot be written as ONNX");
    assert!(!other.path().join("policy.onnx").exists());
}
