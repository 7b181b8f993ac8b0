//! The program as its users meet it.

mod common;

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use common::{Running, esper, json, narrow, program, stderr};

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn files_in(folder: &TempDir) -> Vec<String> {
    let entries = fs::read_dir(folder.path()).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn tasks_are_listed() {
    let folder = folder();
    let tasks = json(&esper(folder.path(), &["tasks", "--json"]));
    let names: Vec<&str> =
        tasks.as_array().unwrap().iter().map(|task| task["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["gambling", "connect-four", "twenty48"]);
    // Also where there is no MuJoCo.
    assert_eq!(
        names[3..],
        [
            "hopper",
            "hopper-v4",
            "walker2d",
            "walker2d-v4",
            "halfcheetah",
            "windy-grid",
            "queue",
            "treatment",
            "drift"
        ]
    );
    assert_eq!(tasks[2]["aliases"][0], "2048");
    assert_eq!(
        (&tasks[0]["version"], &tasks[0]["datasets"][0]["name"]),
        (&1.into(), &"paper".into())
    );
    assert!(narrow(&esper(folder.path(), &["tasks"])).contains("Connect Four"));
}

#[test]
fn collecting_and_describing_agree() {
    let folder = folder();
    for task in ["gambling", "connect-four", "twenty48"] {
        let collected =
            json(&esper(folder.path(), &["collect", task, "--steps", "3000", "--json"]));
        let path = format!("{task}.parquet");
        assert_eq!(collected["path"], path.as_str());
        let described = json(&esper(folder.path(), &["info", &path, "--json"]));
        for key in [
            "path",
            "task",
            "steps",
            "episodes",
            "mean_return",
            "mean_length",
            "behaviours",
            "warnings",
        ] {
            assert_eq!(collected[key], described[key], "{task}: {key}");
        }
        assert!(collected["steps"].as_u64().unwrap() >= 3000);
        assert!(described["seconds"].is_number() && collected["seconds"].is_number());
        narrow(&esper(folder.path(), &["info", &path]));
    }
    // What looks wrong is said when it is collected, and when it is described.
    let few = ["collect", "connect-four", "--steps", "100", "--out", "few.parquet"];
    let collected = narrow(&esper(folder.path(), &few));
    let described = narrow(&esper(folder.path(), &["info", "few.parquet"]));
    let to_look_at = |text: &str| text.split_once("to look at").expect("few episodes").1.to_owned();
    assert_eq!(to_look_at(&collected), to_look_at(&described));
    assert!(collected.contains("averages over clusters of them will be rough"), "{collected}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_with_any_number_of_threads() {
    let folder = folder();
    let collect = |seed: &str, threads: &str, out: &str| {
        let output = esper(
            folder.path(),
            &[
                "collect",
                "gambling",
                "--steps",
                "400000",
                "--seed",
                seed,
                "--threads",
                threads,
                "--out",
                out,
            ],
        );
        assert!(output.status.success(), "{}", stderr(&output));
        fs::read(folder.path().join(out)).unwrap()
    };
    let one = collect("3", "1", "one.parquet");
    assert!(one == collect("3", "4", "four.parquet"));
    assert!(one != collect("4", "1", "other.parquet"));
}

/// A share is the beginning of the whole.
#[test]
fn a_fraction_is_a_part_of_the_steps() {
    let folder = folder();
    let collect = |more: &[&str]| {
        let command = ["collect", "twenty48", "--json", "--force", "--steps"];
        json(&esper(folder.path(), &[&command, more].concat()))
    };
    let part = collect(&["40000", "--fraction", "5%"]);
    let whole = collect(&["2000"]);
    assert_eq!((&part["steps"], &part["mean_return"]), (&whole["steps"], &whole["mean_return"]));
    assert_eq!(part["behaviours"][0]["name"], "expert");
}

/// Trained a little, measured on fresh episodes, then asked to play.
#[test]
fn an_expert_can_be_trained_and_collected_with() {
    let folder = folder();
    let expert = |more: &[&str]| {
        let command =
            ["expert", "gambling", "--set", "ppo.hidden=16", "--episodes", "2000", "--json"];
        esper(folder.path(), &[&command[..], more].concat())
    };
    let trained = json(&expert(&["--until", "0"]));
    assert_eq!(trained["path"], "gambling-expert.safetensors");
    assert!(trained["mean_return"].as_f64().unwrap() >= 0.0);
    let collect = ["collect", "gambling", "--steps", "20000", "--behaviour", "expert", "--expert"];
    let path = "gambling-expert.safetensors";
    let collected = json(&esper(folder.path(), &[&collect[..], &[path, "--json"]].concat()));
    assert!(collected["mean_return"].as_f64().unwrap() > -0.5, "{collected}");
    // It is there already; and no return is above one.
    assert_eq!(expert(&["--until", "0"]).status.code(), Some(1));
    let short = expert(&["--until", "2", "--steps", "20000", "--out", "short.safetensors"]);
    assert_eq!(short.status.code(), Some(1));
    assert!(stderr(&short).contains("--steps"), "{}", stderr(&short));
    assert!(folder.path().join("short.safetensors").exists(), "what was learned is kept");

    // It can go on, and ends with the same bytes as if it had never stopped.
    let long = ["--until", "2", "--steps", "60000", "--out"];
    let refused = expert(&[&long[..], &["short.safetensors"]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--resume"), "{}", stderr(&refused));
    let went_on = expert(&[&long[..], &["short.safetensors", "--resume", "--force"]].concat());
    let whole = expert(&[&long[..], &["whole.safetensors"]].concat());
    assert_eq!((went_on.status.code(), whole.status.code()), (Some(1), Some(1)));
    let bytes = |name: &str| fs::read(folder.path().join(name)).unwrap();
    assert_eq!(bytes("short.safetensors"), bytes("whole.safetensors"));
    let curve = String::from_utf8(bytes("whole.csv")).unwrap();
    assert!(
        curve.starts_with("steps,seconds,mean_return\n") && curve.lines().count() > 2,
        "{curve}"
    );
    let other =
        expert(&[&long[..], &["short.safetensors", "--resume", "--force", "--seed", "1"]].concat());
    assert!(stderr(&other).contains("of another training"), "{}", stderr(&other));
    assert_eq!(bytes("short.safetensors"), bytes("whole.safetensors"), "and nothing was lost");
}

/// Arguments, exit status, and words that the message must contain.
#[test]
fn wrong_use_is_explained() {
    let folder = folder();
    fs::write(folder.path().join("taken.parquet"), "precious").unwrap();
    fs::write(folder.path().join("text.parquet"), "no Parquet").unwrap();
    fs::create_dir(folder.path().join("folder")).unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["collect", "chess"], 2, "there are gambling, connect-four, twenty48"),
        (&["collect", "gambling", "--steps", "0"], 2, "at least one step"),
        (&["collect", "gambling", "--steps", "-5"], 2, "not a whole number above 0"),
        (&["collect", "gambling", "--steps", "many"], 2, "not a whole number above 0"),
        (&["collect", "gambling", "--steps", "1e6"], 2, "not a whole number above 0"),
        (&["collect", "gambling", "--steps", "99999999999999"], 2, "at most 1,000,000,000"),
        (
            &["collect", "gambling", "--steps", "99999999999999999999999"],
            2,
            "at most 1,000,000,000",
        ),
        (&["collect", "gambling", "--seed", "x"], 2, "--seed"),
        (&["collect", "gambling", "--threads", "0"], 2, "--threads"),
        (&["collect", "gambling", "--behaviour", "expert"], 2, "it has random"),
        (&["collect", "gambling", "--behaviour", "random", "--behaviour", "random"], 2, "twice"),
        (&["collect", "gambling", "--epsilon", "0.5"], 2, "none of random does"),
        (&["collect", "gambling", "--dataset", "large"], 2, "it has paper"),
        (&["collect", "gambling+noise=1"], 2, "gambling has no option `noise`"),
        (&["collect", "hopper+wind=1"], 2, "it has noise"),
        (&["collect", "hopper+noise=loud"], 2, "a number from 0 to 10"),
        (&["collect", "hopper", "--mujoco", "folder"], 2, "pip install mujoco"),
        (&["tasks", "--device", "abacus"], 2, "cpu, gpu"),
        (&["completions", "abacus"], 2, "bash"),
        (&["collect", "gambling", "--fraction", "0"], 2, "not a share"),
        (&["collect", "gambling", "--fraction", "101%"], 2, "not a share"),
        (&["collect", "gambling", "--fraction", "nan"], 2, "not a share"),
        (&["collect", "twenty48", "--expert", "missing"], 2, "missing: No such file"),
        (&["collect", "twenty48", "--expert", "text.parquet"], 2, "no expert for the task"),
        (&["expert", "chess"], 2, "there are gambling, connect-four, twenty48"),
        (&["expert", "twenty48", "--until", "often"], 2, "--until"),
        (&["expert", "twenty48", "--out", "taken.parquet"], 1, "--force"),
        (&["collect", "connect-four", "--epsilon", "2"], 2, "from 0 to 1"),
        (&["collect", "connect-four", "--epsilon", "nan"], 2, "from 0 to 1"),
        (&["collect", "gambling", "--out", "taken.parquet"], 1, "--force"),
        (&["collect", "gambling", "--out", "folder", "--force"], 1, "folder: is a directory"),
        (&["collect", "gambling", "--out", "."], 1, ".: is a directory"),
        (&["collect", "gambling", "--out", "no/such/file.parquet"], 1, "no folder no/such"),
        (&["info", "missing.parquet"], 1, "missing.parquet"),
        (&["info", "folder"], 1, "folder"),
        (&["info", "text.parquet"], 1, "cannot be read as a Parquet file"),
        (&["train", "text.parquet", "--memory", "plenty"], 2, "say 2GB, 512MB or 1.5GiB"),
        (&["run", "gambling", "--memory", "2 apples"], 2, "say 2GB, 512MB or 1.5GiB"),
        (&["train", "text.parquet", "--memory", "2GB"], 1, "import it first"),
        (&["dance"], 2, "dance"),
        (
            &["book", "build", "--out", "book.bin", "--database", "text.parquet"],
            1,
            "not the database",
        ),
        (&["book", "build", "--out", "taken.parquet"], 1, "--force"),
        (&["book", "check", "--least-discs", "40"], 2, "no such position"),
    ];
    let before = files_in(&folder);
    for (arguments, status, words) in cases {
        let output = esper(folder.path(), arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(*status), "{arguments:?}: {message}");
        assert!(message.contains(words), "{arguments:?}: {message}");
        assert!(message.starts_with("error: "), "{arguments:?}: {message}");
        assert!(!message.contains("panicked"), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(files_in(&folder), before, "nothing was left behind");
    assert_eq!(fs::read(folder.path().join("taken.parquet")).unwrap(), b"precious");
}

#[test]
fn a_truncated_file_is_explained() {
    let folder = folder();
    esper(folder.path(), &["collect", "gambling", "--steps", "1000"]);
    let path = folder.path().join("gambling.parquet");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let output = esper(folder.path(), &["info", "gambling.parquet"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot be read as a Parquet file"));
}

/// Ctrl-C in the middle leaves nothing under the final name, and no temporary file.
#[cfg(unix)]
#[test]
fn an_interrupted_collection_leaves_nothing() {
    let folder = folder();
    let collect = ["collect", "twenty48", "--steps", "1000000000", "--quiet"];
    let mut child = Running::start(program(folder.path()).args(collect));
    child.wait_until("a file", || !files_in(&folder).is_empty());
    assert!(!files_in(&folder).contains(&"twenty48.parquet".to_owned()));
    // The shell's own: not every machine has a program of that name.
    let kill = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    assert_eq!(child.ended().and_then(|status| status.code()), Some(130));
    assert_eq!(files_in(&folder), Vec::<String>::new());
}

#[test]
fn a_maintainer_can_check_the_book() {
    let folder = folder();
    let checked = json(&esper(folder.path(), &["book", "check", "--sample", "20", "--json"]));
    assert_eq!((&checked["checked"], &checked["wrong"]), (&20.into(), &0.into()));
}

#[test]
fn help_has_examples() {
    let folder = folder();
    for command in [
        &["tasks"][..],
        &["collect"],
        &["info"],
        &["train"],
        &["eval"],
        &["run"],
        &["expert"],
        &["completions"],
        &["report"],
        &["reproduce"],
        &["book", "build"],
        &["book", "check"],
    ] {
        let output = esper(folder.path(), &[command, &["--help"]].concat());
        assert!(output.status.success());
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains(&format!("Example:  esper {}", command.join(" "))), "{help}");
    }
    let help = String::from_utf8(esper(folder.path(), &["--help"]).stdout).unwrap();
    assert!(help.contains("Start with:"), "{help}");
}

/// The version with the commit, where the program was built in its repository.
#[test]
fn the_version_is_told() {
    let folder = folder();
    let version = String::from_utf8(esper(folder.path(), &["--version"]).stdout).unwrap();
    let number = concat!("esper ", env!("CARGO_PKG_VERSION"));
    assert!(version.starts_with(number), "{version}");
    let rest = version.trim_start_matches(number).trim();
    let commit = rest.trim_matches(['(', ')']);
    assert!(commit.chars().all(|c| c.is_ascii_hexdigit()), "{version}");
}

#[test]
fn shells_can_complete_commands() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = esper(folder.path(), &["completions", shell]);
        assert!(script.status.success());
        let script = String::from_utf8(script.stdout).unwrap();
        assert!(script.contains("reproduce") && script.contains("tensorboard"), "{shell}");
    }
}

/// Without a GPU in the program there is a sentence, and nothing is done.
#[cfg(not(feature = "gpu"))]
#[test]
fn a_gpu_has_to_be_built_in() {
    let folder = folder();
    esper(folder.path(), &["collect", "gambling", "--steps", "1000"]);
    let output = esper(folder.path(), &["train", "gambling.parquet", "--device", "gpu"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--features gpu"), "{}", stderr(&output));
    assert_eq!(files_in(&folder), ["gambling.parquet"]);
}

/// The whole text for a data set that is the same for ever.
#[test]
fn info_reads_well() {
    let folder = folder();
    esper(folder.path(), &["collect", "gambling", "--steps", "2000", "--seed", "7"]);
    let output = esper(folder.path(), &["info", "gambling.parquet"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let (first_line, rest) = text.split_once('\n').unwrap();
    assert!(first_line.starts_with("gambling.parquet  (0.0 MB, read in "), "{first_line}");
    let expected = include_str!("info_gambling.txt");
    assert_eq!(rest, expected, "got:\n{rest}");
}

#[test]
fn a_data_set_is_exported_to_minari_and_comes_back() {
    let folder = folder();
    esper(folder.path(), &["collect", "gambling", "--steps", "200", "--seed", "7"]);
    let export = ["export", "gambling.parquet", "--minari", "gambling-v1"];
    let exported = json(&esper(folder.path(), &[&export[..], &["--json"]].concat()));
    let data = esper_data::read(&folder.path().join("gambling.parquet")).unwrap();
    assert_eq!(exported["dataset_id"], "gambling-v1");
    assert_eq!(exported["steps"], data.steps());
    let known = esper_data::read_known(&folder.path().join("gambling-v1")).unwrap().unwrap();
    assert_eq!(known.data, data);
    let again = esper(folder.path(), &export);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr(&again).contains("already exists"), "{}", stderr(&again));
}
