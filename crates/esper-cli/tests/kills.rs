//! Whatever moment a process is killed at, the same command goes on and ends with the bytes of one that was not; nothing is
//! left behind.
#![cfg(unix)]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use esper_data::Seed;
use rand::RngExt as _;
use serde_json::Value;

use common::{esper, json, small_settings};

/// A command that is killed again and again until it ends by itself.
struct Case {
    name: &'static str,
    /// The command, without what makes it go on.
    command: &'static [&'static str],
    /// What is added once there is something to go on with.
    resume: &'static [&'static str],
    /// Whether it learns, in small networks.
    learns: bool,
    /// What it writes: a file or a folder.
    out: &'static str,
    /// Kills in all, over as many repetitions as that takes.
    kills: usize,
}

const CASES: [Case; 8] = [
    Case {
        name: "collect",
        command: &["collect", "connect-four", "--steps", "3000", "--out", "out.parquet"],
        resume: &[],
        learns: false,
        out: "out.parquet",
        kills: 60,
    },
    Case {
        name: "train",
        command: &["train", "data.parquet", "--out", "out"],
        resume: &["--resume"],
        learns: true,
        out: "out",
        kills: 120,
    },
    Case {
        name: "train a transformer",
        command: &["train", "data.parquet", "--policy", "transformer", "--out", "out"],
        resume: &["--resume"],
        learns: true,
        out: "out",
        kills: 60,
    },
    Case {
        name: "run",
        command: &[
            "run",
            "gambling",
            "--seeds",
            "2",
            "--steps",
            "2000",
            "--episodes",
            "50",
            "--out",
            "out",
        ],
        resume: &["--resume"],
        learns: true,
        out: "out",
        kills: 120,
    },
    Case {
        name: "run on shares of the data",
        command: &[
            "run",
            "gambling",
            "--seeds",
            "1",
            "--steps",
            "2000",
            "--episodes",
            "50",
            "--fractions",
            "50%,100%",
            "--out",
            "out",
        ],
        resume: &["--resume"],
        learns: true,
        out: "out",
        kills: 40,
    },
    Case {
        name: "prove",
        command: &[
            "prove",
            "--worlds",
            "1",
            "--method",
            "rvs:return",
            "--episodes",
            "50",
            "--out",
            "out",
        ],
        resume: &[],
        learns: true,
        out: "out",
        kills: 30,
    },
    Case {
        name: "expert",
        command: &[
            "expert",
            "twenty48",
            "--until",
            "0",
            "--steps",
            "20000",
            "--episodes",
            "50",
            "--out",
            "out.safetensors",
            "--resume",
        ],
        resume: &[],
        learns: false,
        out: "out.safetensors",
        kills: 30,
    },
    // So little memory that rows go through temporary files.
    Case {
        name: "import",
        command: &[
            "import",
            "log.csv",
            "--map",
            "log.csv.map.toml",
            "--memory",
            "1MB",
            "--out",
            "out.parquet",
        ],
        resume: &[],
        learns: false,
        out: "out.parquet",
        kills: 40,
    },
];

/// The longest that everything should take. Then a quarter of the kills is enough; after ten times as long, what there was.
/// What is left out is said.
const LONGEST: Duration = Duration::from_secs(150);

/// Everything that came of a command, without how long it took.
fn everything(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    if path.is_file() {
        found.insert(PathBuf::new(), fs::read(path).unwrap());
        return found;
    }
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let at = entry.unwrap().path();
            if at.is_dir() {
                folders.push(at);
                continue;
            }
            let bytes = match at.extension().and_then(|ending| ending.to_str()) {
                Some("json") => timeless(&fs::read(&at).unwrap()),
                // A page tells how long training took in many places; what it is made from is compared.
                Some("html") => Vec::new(),
                _ => fs::read(&at).unwrap(),
            };
            found.insert(at.strip_prefix(path).unwrap().to_owned(), bytes);
        }
    }
    found
}

fn names_in(folder: &Path) -> BTreeSet<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// A JSON document without seconds.
fn timeless(bytes: &[u8]) -> Vec<u8> {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.remove("train_seconds");
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let mut value = serde_json::from_slice(bytes).expect("a document that is there is whole");
    strip(&mut value);
    serde_json::to_vec(&value).unwrap()
}

impl Case {
    fn start(&self, home: &Path) -> Command {
        let (command, rest) = self.command.split_first().unwrap();
        let mut program = common::program(home);
        program.arg(command);
        if self.learns {
            program.args(small_settings());
        }
        program.args(rest).arg("--quiet").stdout(Stdio::null()).stderr(Stdio::piped());
        // Something to go on with, or at least a place that is taken.
        if home.join(self.out).exists() {
            program.args(self.resume);
        }
        program
    }

    /// Runs to the end without a kill; gives how long that took.
    fn whole(&self, home: &Path) -> Duration {
        let started = Instant::now();
        let output = self.start(home).output().expect("the program starts");
        assert!(output.status.success(), "{}: {}", self.name, common::stderr(&output));
        started.elapsed()
    }

    /// Starts it, and kills it after a while unless it has ended. Gives whether it had.
    fn killed(&self, home: &Path, after: Duration) -> bool {
        let mut child = self.start(home).spawn().expect("the program starts");
        let started = Instant::now();
        while started.elapsed() < after {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        // SIGKILL: nothing can be done about it.
        let _ = child.kill();
        let output = child.wait_with_output().unwrap();
        match output.status.code() {
            // Killed.
            None => false,
            Some(0) => true,
            Some(code) => panic!(
                "{} after a kill: status {code}: {}",
                self.name,
                String::from_utf8_lossy(&output.stderr)
            ),
        }
    }
}

#[test]
fn whenever_it_is_killed_it_goes_on_to_the_same_bytes() {
    let begun = Instant::now();
    let shared = tempfile::tempdir().unwrap();
    json(&esper(
        shared.path(),
        &["collect", "gambling", "--steps", "4000", "--out", "data.parquet", "--json"],
    ));
    json(&esper(shared.path(), &["export", "data.parquet", "--csv", "log.csv", "--json"]));
    let home = || {
        let home = tempfile::tempdir().unwrap();
        for name in ["data.parquet", "log.csv", "log.csv.map.toml"] {
            fs::copy(shared.path().join(name), home.path().join(name)).unwrap();
        }
        home
    };
    let mut rng = Seed::new(17).named("kills").rng();
    let total: usize = CASES.iter().map(|case| case.kills).sum();
    let (mut done, mut finished) = (0, 0);
    for case in &CASES {
        let reference = home();
        let takes = case.whole(reference.path());
        let expected = everything(&reference.path().join(case.out));
        let until = LONGEST * u32::try_from(done + case.kills).unwrap() / total as u32;
        let more = |kills: usize| {
            let patience = if kills * 4 < case.kills { until * 10 } else { until };
            kills < case.kills && begun.elapsed() < patience
        };
        let mut kills = 0;
        while more(kills) {
            let home = home();
            // Early moments are as many as all others together: there folders are made.
            loop {
                let share: f64 = rng.random();
                let share = if rng.random::<bool>() { share * 0.15 } else { share };
                if !more(kills) || case.killed(home.path(), takes.mul_f64(share)) {
                    break;
                }
                kills += 1;
                // Complete, and killed before it could end: a file that is there is not written again. What it could have
                // been gone on with is removed only after it is there.
                if home.path().join(case.out).is_file() {
                    let output = case.start(home.path()).output().expect("the program starts");
                    common::refused(&output, 1, "already exists");
                    let checkpoint = home.path().join(case.out).with_extension("checkpoint");
                    let _ = fs::remove_file(checkpoint);
                    break;
                }
            }
            if !home.path().join(case.out).is_file() {
                case.whole(home.path());
            }
            let found = everything(&home.path().join(case.out));
            let names: Vec<_> = found.keys().collect();
            assert_eq!(names, expected.keys().collect::<Vec<_>>(), "{}", case.name);
            for (name, bytes) in &found {
                assert!(*bytes == expected[name], "{}: {} differs", case.name, name.display());
            }
            let left = names_in(home.path());
            assert_eq!(left, names_in(reference.path()), "{}: nothing is left behind", case.name);
            finished += 1;
        }
        assert!(kills > 0, "{}: it was never killed", case.name);
        done += case.kills;
        eprintln!(
            "{}: {kills} kills of {}, {:.2} s without",
            case.name,
            case.kills,
            takes.as_secs_f64()
        );
    }
    eprintln!("{finished} came to their end in {:.0} s", begun.elapsed().as_secs_f64());
}
