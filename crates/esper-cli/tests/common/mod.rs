//! What tests of the program share.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Settings that make networks too small to learn much.
const SMALL: [&str; 15] = [
    "cluster.steps=60",
    "cluster.hidden=16",
    "cluster.batch=20",
    "leakage.steps=30",
    "returns.steps=60",
    "returns.batch=50",
    "returns.hidden=16",
    "mlp.steps=150",
    "mlp.hidden=16",
    "mlp.batch=100",
    "cql.steps=60",
    "cql.hidden=16",
    "transformer.steps=30",
    "transformer.width=16",
    "transformer.batch=8",
];

/// Runs the program in a folder.
pub(crate) fn esper(folder: &Path, arguments: &[&str]) -> Output {
    let program =
        Command::new(env!("CARGO_BIN_EXE_esper")).args(arguments).current_dir(folder).output();
    program.expect("the program starts")
}

/// The same with small networks.
pub(crate) fn small(folder: &Path, arguments: &[&str]) -> Output {
    let settings = SMALL.iter().flat_map(|setting| ["--set", setting]);
    esper(folder, &arguments.iter().copied().chain(settings).collect::<Vec<_>>())
}

pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with a status, and says this.
pub(crate) fn refused(output: &Output, status: i32, words: &str) {
    assert_eq!(output.status.code(), Some(status), "{}", stderr(output));
    assert!(stderr(output).contains(words), "{}", stderr(output));
    assert!(output.stdout.is_empty());
}
