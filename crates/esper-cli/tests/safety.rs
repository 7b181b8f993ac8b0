//! Nothing is lost, written over, obeyed or waited for: what files and processes may do to the program.

mod common;

use std::fs;
use std::path::Path;

use common::{Running, esper, json, program, refused, small, stderr};

/// A run in a folder `run`, on `gambling.parquet`.
fn trained(here: &Path) {
    json(&esper(here, &["collect", "gambling", "--steps", "4000", "--json"]));
    json(&small(here, &["train", "gambling.parquet", "--out", "run", "--json"]));
}

const TRAIN: [&str; 4] = ["train", "gambling.parquet", "--out", "run"];

/// A complete run that lacks a file is not said to be a success, and how to get it back is true.
#[test]
fn what_a_complete_run_lacks_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    trained(here);
    let resume = || small(here, &[&TRAIN[..], &["--resume", "--quiet"]].concat());
    let run = here.join("run");
    let names = ["policy.safetensors", "labels.parquet", "labelled.json", "metrics.jsonl"];
    let models = ["clusters.safetensors", "returns.safetensors"];
    for name in names.iter().chain(&models) {
        let bytes = fs::read(run.join(name)).unwrap();
        fs::remove_file(run.join(name)).unwrap();
        let missing = resume();
        refused(&missing, 1, &format!("{name} is missing"));
        assert!(stderr(&missing).contains("training.json"), "{}", stderr(&missing));
        fs::write(run.join(name), bytes).unwrap();
        assert!(resume().status.success());
    }
    // What it says to do.
    let kept = names.map(|name| fs::read(run.join(name)).unwrap());
    fs::remove_file(run.join("policy.safetensors")).unwrap();
    fs::remove_file(run.join("training.json")).unwrap();
    assert!(resume().status.success());
    let again = names.map(|name| fs::read(run.join(name)).unwrap());
    assert!(kept == again, "trained again to the same bytes");
    assert!(!run.join("checkpoints").exists());
}

/// A folder in which a run was ended before it had begun is taken; what somebody else keeps in one is not.
#[test]
fn a_folder_that_was_only_begun_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    trained(here);
    let leftover = ".esper-1-00000000-AbCdEf.partial";
    for more in [&[][..], &["--resume"]] {
        let begun = here.join("begun");
        fs::create_dir_all(begun.join("checkpoints")).unwrap();
        for name in [leftover, "config.toml", ".esper.lock", "checkpoints/.esper-1-0-x.partial"] {
            fs::write(begun.join(name), "half").unwrap();
        }
        let train = ["train", "gambling.parquet", "--out", "begun", "--quiet"];
        let output = small(here, &[&train[..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        let names = |path: &Path| {
            let entries = fs::read_dir(path).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&begun), names(&here.join("run")));
        fs::remove_dir_all(&begun).unwrap();
    }
    // Settings of somebody's own are not ours to replace.
    fs::create_dir(here.join("mine")).unwrap();
    fs::write(here.join("mine/config.toml"), "discount = 1.0\n").unwrap();
    let mine = ["train", "gambling.parquet", "--out", "mine"];
    refused(&small(here, &mine), 1, "mine is not empty");
    assert_eq!(fs::read_to_string(here.join("mine/config.toml")).unwrap(), "discount = 1.0\n");
}

/// Starts a command that takes long, and waits until it has the lock and has made something. The lock's file is created, then
/// locked, and only then says whose it is; one of somebody who was killed may be there before.
fn started(here: &Path, arguments: &[&str], lock: &str, makes: &str) -> Running {
    let mut running = Running::start(program(here).args(arguments));
    let holder = format!("process {} ", running.id());
    let locked = || fs::read_to_string(here.join(lock)).is_ok_and(|text| text.starts_with(&holder));
    running.wait_until(makes, || here.join(makes).exists() && locked());
    running
}

/// The second in a folder is told who the first is; who only reads is not kept waiting; the lock dies with its process.
#[test]
fn two_processes_do_not_share_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    trained(here);
    let long = ["--set", "cluster.steps=1000000"];
    let train = [&["train", "gambling.parquet", "--out", "t"], &long[..]].concat();
    let run = [&["run", "gambling", "--out", "r"], &long[..]].concat();
    let prove = [&["prove", "--worlds", "1", "--out", "p"], &long[..]].concat();
    let expert = ["expert", "twenty48", "--until", "1", "--out", "x.safetensors", "--force"];
    let reproduce = ["reproduce", "--only", "gambling", "--out", "all"];
    let cases: [(&[&str], &[&str], &str, &str); 5] = [
        (&train, &["--resume"], "t", "t/manifest.json"),
        (&run, &["--resume"], "r", "r/comparison.json"),
        (&prove, &[], "p", "p/mdp-1000"),
        (&expert, &[], "x.safetensors", ".x.safetensors.lock"),
        (&reproduce, &[], "all", "all/gambling-mlp"),
    ];
    for (command, again, place, makes) in cases {
        let of_folder = format!("{place}/.esper.lock");
        let lock = if makes.ends_with(".lock") { makes } else { &of_folder };
        let first = started(here, command, lock, makes);
        let second = esper(here, &[command, again].concat());
        let said = format!("{place} is being written by process {}", first.id());
        refused(&second, 1, &said);
        drop(first);
        // The next one takes the lock over.
        drop(started(here, &[command, again].concat(), lock, makes));
    }
    let resume = [&train[..], &["--resume"]].concat();
    let _first = started(here, &resume, "t/.esper.lock", "t/manifest.json");
    refused(&esper(here, &["eval", "t"]), 1, "not complete");
}

/// Two who write one file: whoever comes second is told at once, unless the file may be replaced.
#[test]
fn two_processes_do_not_write_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let collect = ["collect", "twenty48", "--steps", "100000000", "--out", "d.parquet"];
    let mut first = Running::start(program(here).args(collect));
    let partial = || {
        let entries = fs::read_dir(here).unwrap().flatten();
        entries.map(|entry| entry.path()).find(|path| path.extension().is_some())
    };
    // It is created, then locked: until then it may be anybody's.
    first.wait_until("a file that is being written", || {
        let file = partial().and_then(|path| fs::File::options().write(true).open(path).ok());
        file.is_some_and(|file| matches!(file.try_lock(), Err(fs::TryLockError::WouldBlock)))
    });
    let second = esper(here, &["collect", "gambling", "--steps", "100", "--out", "d.parquet"]);
    refused(&second, 1, &format!("d.parquet is being written by process {}", first.id()));
    assert!(partial().is_some(), "what the living write stays");
    drop(first);
    json(&esper(here, &["collect", "gambling", "--steps", "100", "--out", "d.parquet", "--json"]));
    assert_eq!(fs::read_dir(here).unwrap().count(), 1, "what the dead left is gone");
}

/// Where a file is read, a pipe is not waited for.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    trained(here);
    let made = std::process::Command::new("mkfifo").arg(here.join("pipe")).status();
    if !made.is_ok_and(|status| status.success()) {
        eprintln!("there is no mkfifo: pipes are not tested");
        return;
    }
    let socket = std::os::unix::net::UnixListener::bind(here.join("socket"));
    if let Err(error) = &socket {
        eprintln!("sockets are not tested, whose paths have to be short: {error}");
    }
    for (place, words) in [
        ("pipe", "pipe, a socket or a device"),
        ("socket", "pipe, a socket or a device"),
        ("/dev/zero", "pipe, a socket or a device"),
        (".", "directory"),
    ] {
        if place == "socket" && socket.is_err() {
            continue;
        }
        // A folder may be one of part files; this one is not.
        let of_data = if place == "." { "which is no part of a table" } else { words };
        refused(&esper(here, &["info", place]), 1, of_data);
        refused(&esper(here, &["train", place]), 1, of_data);
        let train = ["train", "gambling.parquet", "--out", "other"];
        refused(&esper(here, &[&train[..], &["--labels", place]].concat()), 1, words);
        refused(&esper(here, &[&train[..], &["--config", place]].concat()), 2, words);
        let expert = ["collect", "twenty48", "--steps", "10", "--expert", place];
        refused(&esper(here, &expert), 2, words);
    }
    assert!(!here.join("other").exists());
    for name in ["training.json", "manifest.json", "config.toml", "policy.safetensors"] {
        let path = here.join("run").join(name);
        let bytes = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(here.join("pipe"), &path).unwrap();
        let resume = small(here, &[&TRAIN[..], &["--resume"]].concat());
        assert_eq!(resume.status.code(), Some(1), "{name}: {}", stderr(&resume));
        let eval = esper(here, &["eval", "run", "--episodes", "5"]);
        assert!(name == "config.toml" || eval.status.code() == Some(1), "{name}");
        fs::remove_file(&path).unwrap();
        fs::write(&path, bytes).unwrap();
    }
}

/// Names in files and arguments are shown, not obeyed.
#[test]
fn terminals_are_told_nothing_by_names() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    trained(here);
    let evil = "\x1b]0;owned\x07\x1b[31m\u{9b}2J\u{202e}";
    let obeyed = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let found = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert!(found.is_none(), "{text:?}");
    };
    // A behaviour's name and a task's, in a table and in JSON.
    let two = esper_data::Space::Discrete { n: 2 };
    let metadata = esper_data::Metadata {
        task: Some(evil.to_owned()),
        ..esper_data::Metadata::new(two.clone(), two)
    };
    let mut data = esper_data::DatasetBuilder::new(metadata).with_behaviours([evil]);
    for _ in 0..30 {
        data.made_by(evil);
        data.push(&[0u8], &[1u8], 1.0).unwrap();
        data.end(&[1u8], esper_data::End { terminated: true, truncated: false }).unwrap();
    }
    data.build().unwrap().write(&here.join("evil.parquet"), false).unwrap();
    let info = esper(here, &["info", "evil.parquet"]);
    assert!(info.status.success(), "{}", stderr(&info));
    obeyed(&info.stdout);
    let info = esper(here, &["info", "evil.parquet", "--json"]);
    obeyed(&info.stdout);
    assert_eq!(json(&info)["behaviours"][0]["name"], evil);
    for arguments in [
        vec!["info".to_owned(), format!("no{evil}file")],
        vec!["train".to_owned(), "gambling.parquet".to_owned(), format!("--set={evil}=1")],
        vec!["run".to_owned(), evil.to_owned()],
        vec!["run".to_owned(), "gambling".to_owned(), format!("--dataset={evil}")],
        vec!["eval".to_owned(), format!("run{evil}")],
        vec![evil.to_owned()],
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = esper(here, &arguments);
        assert!(!output.status.success());
        obeyed(&output.stderr);
        obeyed(&output.stdout);
    }
    // A word in a file of a run.
    let path = here.join("run/manifest.json");
    let manifest = fs::read_to_string(&path).unwrap();
    fs::write(&path, manifest.replace("\"mlp\"", &serde_json::to_string(evil).unwrap())).unwrap();
    let train: Vec<&str> = [&TRAIN[..], &["--resume"]].concat();
    obeyed(&small(here, &train).stderr);
    fs::write(&path, manifest.replace("gambling", "gambl\\u001b[31m")).unwrap();
    let eval = esper(here, &["eval", "run", "--episodes", "5", "--json"]);
    obeyed(&eval.stderr);
}
