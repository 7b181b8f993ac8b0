//! The examples do what they say.

use std::path::Path;
use std::process::Command;

/// What an example prints.
fn run(program: &str, folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.expect("the example starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("it prints text")
}

/// The number after some words.
fn number_after(text: &str, words: &str) -> f64 {
    let rest = text.split(words).nth(1).unwrap_or_else(|| panic!("no `{words}` in {text}"));
    let number: String =
        rest.trim_start().chars().take_while(|c| c.is_ascii_digit() || "-.".contains(*c)).collect();
    number.parse().unwrap_or_else(|_| panic!("no number after `{words}` in {text}"))
}

/// A trained policy is promised 1 and gets it; loaded from its file, asked for 1, it takes the safe bet.
#[test]
fn train_and_act() {
    let folder = tempfile::tempdir().expect("there is room");
    let text = run(env!("CARGO_BIN_EXE_train"), folder.path(), &[]);
    assert!(number_after(&text, "ESPER: Some(") > 0.95, "{text}");
    assert!(number_after(&text, "return conditioning: Some(") < -3.0, "{text}");
    let policy = "runs/train/esper-mlp-0/policy.safetensors";
    let acted = run(env!("CARGO_BIN_EXE_act"), folder.path(), &[policy, "1"]);
    assert!(acted.contains("in Byte([0]) does 2"), "{acted}");
    assert_eq!(number_after(&acted, "received"), 1.0, "{acted}");
}

/// Fishing pays 1. Sailing out pays 3 with luck and nothing on average, which return conditioning does not know.
#[test]
fn a_world_of_ones_own() {
    let folder = tempfile::tempdir().expect("there is room");
    let text = run(env!("CARGO_BIN_EXE_world"), folder.path(), &[]);
    assert!(number_after(&text, "ESPER is promised") < 1.3, "{text}");
    let (esper, rvs) = text.split_once('\n').expect("two lines");
    assert!(number_after(esper, "gets") > 0.95, "{text}");
    assert!(number_after(rvs, "gets") < 0.5, "{text}");
}

/// A relabeller that nobody inside knows of has results and a place in the report.
#[test]
fn a_relabeller_of_ones_own() {
    let folder = tempfile::tempdir().expect("there is room");
    let text = run(env!("CARGO_BIN_EXE_relabeller"), folder.path(), &[]);
    assert!(number_after(&text, "ESPER:") > 0.95, "{text}");
    assert!(number_after(&text, "counting:") > 0.95, "{text}");
    let page = std::fs::read_to_string(folder.path().join("runs/counting/report.html"));
    let page = page.expect("there is a report");
    assert!(page.contains("What labels know: counting") && page.contains("kinds of steps"));
    assert!(page.contains("settings counting.prior=1.0"), "settings of its own");
    assert!(!page.contains("esper run"), "the program does not know the method");
}
