//! Tells the program its version: with the commit it was built from, where there is a repository to ask.

use std::path::Path;
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=ESPER_VERSION={version}");
    println!("cargo:rerun-if-changed=build.rs");
    let head = Path::new("../../.git/logs/HEAD");
    if head.exists() {
        println!("cargo:rerun-if-changed={}", head.display());
    }
}

/// The commit, if this is a checkout of the project itself and not a copy within another.
fn commit() -> Option<String> {
    if !Path::new("../../.git").exists() {
        return None;
    }
    let output = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output().ok()?;
    let commit = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !commit.is_empty()).then_some(commit)
}
