//! Everything that reads what may come from anywhere: bytes in, an error or something that makes sense out, never a panic.
//!
//! One table, [`READERS`], for libFuzzer (`fuzz_targets/reader.rs`) and for the seeded mutations that the tests run
//! (`crates/esper-cli/tests/fuzz.rs`). A new reader is a row.

#[path = "logs.rs"]
mod logs;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use esper::condition::Target;
use esper::policy::Policy;
use esper::run::{DataId, Plan, RunFolder, RunOptions};
use esper::settings::Preset;
use esper::{Checkpoint, Registry, Unwatched};
use esper_data::{CellType, Cells, Dataset, Seed, Space, StepLabels};
use esper_eval::{Experiment, Unobserved};
use esper_nn::default_device;
use esper_report::Report;
use esper_report::reproduction::Reproduction;
use esper_tasks::connect_four::book::{Book, Database};
use esper_tasks::{Behaviour, CollectOptions, Collection, Expert, Task};
use tempfile::TempDir;

/// Something that reads.
pub(crate) struct Reader {
    /// What it reads.
    pub(crate) name: &'static str,
    /// Reads bytes, and does with what came of them what the program would. Gives whether they made sense.
    pub(crate) read: fn(&[u8]) -> bool,
    /// What makes sense to it, to begin with.
    pub(crate) seeds: fn() -> Vec<Vec<u8>>,
}

/// All of them.
pub(crate) const READERS: [Reader; 17] = [
    Reader { name: "data", read: data, seeds: data_seeds },
    Reader { name: "labels", read: labels, seeds: labels_seeds },
    Reader { name: "policy", read: policy, seeds: policy_seeds },
    Reader { name: "card", read: card, seeds: card_seeds },
    Reader { name: "run", read: run, seeds: run_seeds },
    Reader { name: "resume", read: resume, seeds: run_seeds },
    Reader { name: "reproduction", read: reproduction, seeds: reproduction_seeds },
    Reader { name: "settings", read: settings, seeds: settings_seeds },
    Reader { name: "checkpoint", read: checkpoint, seeds: checkpoint_seeds },
    Reader { name: "expert", read: expert, seeds: expert_seeds },
    Reader { name: "book", read: book, seeds: book_seeds },
    Reader { name: "csv", read: logs::log, seeds: logs::csv_seeds },
    Reader { name: "json-lines", read: logs::log, seeds: logs::json_seeds },
    Reader { name: "parquet", read: logs::log, seeds: logs::parquet_seeds },
    Reader { name: "hdf5", read: logs::log, seeds: logs::hdf5_seeds },
    Reader { name: "mapping", read: logs::mapping, seeds: logs::mapping_seeds },
    Reader { name: "request", read: logs::request, seeds: logs::request_seeds },
];

/// A reader by its name.
pub(crate) fn reader(name: &str) -> &'static Reader {
    READERS.iter().find(|reader| reader.name == name).expect("it is one of the readers")
}

/// The Parquet library panics on some kinds of damage, which is caught and becomes an error: no hook is to hear of it.
pub(crate) fn keep_quiet_about_caught_panics() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !esper_data::panics_are_caught() {
            hook(panic);
        }
    }));
}

/// Settings that make networks too small to learn anything.
const SMALL: [&str; 17] = [
    "cluster.steps=4",
    "cluster.hidden=4",
    "cluster.batch=5",
    "cluster.attempts=1",
    "leakage.steps=2",
    "returns.steps=3",
    "returns.batch=5",
    "returns.hidden=4",
    "mlp.steps=4",
    "mlp.hidden=4",
    "mlp.batch=10",
    "cql.steps=3",
    "cql.hidden=4",
    "transformer.steps=2",
    "transformer.width=8",
    "transformer.heads=2",
    "transformer.batch=2",
];

/// What readers are tried on: the folder of a comparison, of one with shares of the data, and of a run.
struct Originals {
    /// Every file, by its path below them.
    files: BTreeMap<PathBuf, Vec<u8>>,
    data: Dataset,
}

fn gambling() -> &'static Task {
    esper_tasks::task("gambling").expect("it is built in")
}

/// The comparison whose folder is read.
fn experiment() -> Experiment {
    let experiment = Experiment::new(gambling()).with_methods(["esper", "rvs", "cql"]);
    experiment
        .expect("they are built in")
        .with_settings(None, SMALL)
        .with_seeds(1)
        .with_steps(200)
        .with_episodes(3)
}

fn originals() -> &'static Originals {
    static MADE: OnceLock<Originals> = OnceLock::new();
    MADE.get_or_init(|| {
        let home = memory();
        let whole = experiment().run(&home.path().join("whole"), &Unobserved);
        whole.expect("a comparison");
        let shares = experiment().with_fractions(vec![0.5, 1.0]);
        shares.run(&home.path().join("shares"), &Unobserved).expect("shares");
        let data = esper_data::read(&home.path().join("whole/data.parquet")).expect("data");
        // One of another kind of policy.
        let registry = Registry::default();
        let config = registry.config(Preset::Quick).changed(None, &SMALL.map(str::to_owned));
        let plan = Plan::new(&registry, "esper", "transformer", config.expect("settings"));
        let path = home.path().join("transformer");
        let plan = plan.expect("a plan");
        plan.train_in(&path, &data, &DataId::of(&data), RunOptions::default(), &Unwatched)
            .expect("a run");
        Originals { files: files(home.path(), home.path()), data }
    })
}

/// A folder of its own, in memory where there is such a place and nobody named another: files are written for every try.
fn memory() -> TempDir {
    let shared = Path::new("/dev/shm");
    match shared.is_dir() && std::env::var_os("TMPDIR").is_none() {
        true => tempfile::tempdir_in(shared).or_else(|_| tempfile::tempdir()),
        false => tempfile::tempdir(),
    }
    .expect("a folder")
}

fn original(name: &str) -> Vec<u8> {
    originals().files.get(Path::new(name)).expect("it was made").clone()
}

/// Writes bytes to a file of this thread, and reads that.
fn with_file<T>(bytes: &[u8], read: impl FnOnce(&Path) -> T) -> T {
    thread_local! {
        static HOME: OnceCell<TempDir> = const { OnceCell::new() };
    }
    HOME.with(|home| {
        let path = home.get_or_init(memory).path().join("read");
        fs::write(&path, bytes).expect("a file");
        read(&path)
    })
}

fn data(bytes: &[u8]) -> bool {
    let Ok(data) = with_file(bytes, esper_data::read) else { return false };
    // What is read is whole: everything can be summed up.
    let _ = esper_data::suspicions(&data);
    let _ = esper_data::return_histogram(&data, 10);
    let _ = DataId::of(&data);
    true
}

fn data_seeds() -> Vec<Vec<u8>> {
    let collected = |task: &str, steps: u64| {
        let task = esper_tasks::task(task).expect("it is built in");
        let options = CollectOptions { steps: Some(steps), ..CollectOptions::default() };
        let collection = Collection::new(task, &options).expect("a collection");
        let home = memory();
        let path = home.path().join("data");
        let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
        let writer = esper_data::DatasetWriter::create(&path, metadata, &behaviours, false);
        let mut writer = writer.expect("a file");
        let played =
            collection.run(|part| writer.write(&part), |_| std::ops::ControlFlow::Continue(()));
        played.expect("episodes");
        writer.finish().expect("a file");
        fs::read(&path).expect("a file")
    };
    vec![
        original("whole/data.parquet"),
        collected("gambling", 20),
        collected("connect-four", 40),
        collected("mdp-3", 60),
        collected("drift", 30),
    ]
}

fn labels(bytes: &[u8]) -> bool {
    let Originals { data, .. } = originals();
    let Ok(labels) = with_file(bytes, |path| StepLabels::read(path, data)) else { return false };
    assert_eq!(labels.labels.len(), data.rows());
    assert!(labels.labels.iter().all(|label| label.is_finite()));
    true
}

fn labels_seeds() -> Vec<Vec<u8>> {
    vec![original("whole/esper-mlp-0/labels.parquet"), original("whole/rvs-mlp-0/labels.parquet")]
}

/// Loads a policy and asks it for something.
fn policy(bytes: &[u8]) -> bool {
    let (path, registry) = (Path::new("policy.safetensors"), Registry::default());
    let Ok(policy) = Policy::from_bytes(path, bytes.to_vec(), &registry, &default_device()) else {
        return false;
    };
    let card = policy.card();
    let mut targets = vec![Target::Return(1.0), Target::Return(-1e30), Target::Level(0.5)];
    targets.extend(card.offline_target());
    targets.extend(card.sweep().into_iter().take(3));
    let observation = card.interface.observation.space();
    let action = card.interface.action.encoding().space();
    if observation.cells() > 10_000 {
        return true;
    }
    let zero = zeros(observation);
    for target in targets {
        let _ = card.promised(target);
        let mut agent = policy.agent();
        agent.begin(0, target, Seed::new(0));
        for _ in 0..3 {
            let mut actions = Cells::empty(action.cell_type());
            if agent.act(zero.view(), &[0], &mut actions).is_ok() {
                assert_eq!(actions.len(), action.cells());
                let finite = |cell: usize| actions.view().number(cell).is_finite();
                assert!((0..actions.len()).all(finite), "an action is a number");
            }
            let _ = agent.reward(0, 1.0);
        }
        agent.end(0);
    }
    true
}

fn zeros(space: &Space) -> Cells {
    let cells = space.cells();
    match space.cell_type() {
        CellType::Byte => Cells::Byte(vec![0; cells]),
        CellType::Short => Cells::Short(vec![0; cells]),
        CellType::Float => Cells::Float(vec![0.0; cells]),
    }
}

const RUNS: [&str; 4] = ["whole/esper-mlp-0", "whole/rvs-mlp-0", "whole/cql-0", "transformer"];

fn policies() -> [Vec<u8>; 4] {
    RUNS.map(|run| original(&format!("{run}/policy.safetensors")))
}

fn policy_seeds() -> Vec<Vec<u8>> {
    policies().to_vec()
}

/// Everything that a policy says of itself, with the weights of one of the policies: the first byte says of which.
fn card(bytes: &[u8]) -> bool {
    static POLICIES: OnceLock<[Vec<u8>; 4]> = OnceLock::new();
    let Some((which, card)) = bytes.split_first() else { return false };
    let Ok(card) = std::str::from_utf8(card) else { return false };
    let file = &POLICIES.get_or_init(policies)[usize::from(*which) % 4];
    let (header, weights) = parts(file);
    let mut header = header.clone();
    header["__metadata__"]["esper"] = card.into();
    policy(&assembled(&header, weights))
}

/// The header of a safetensors file, and its weights.
fn parts(file: &[u8]) -> (serde_json::Value, &[u8]) {
    let (length, rest) = file.split_first_chunk::<8>().expect("a safetensors file");
    let (header, weights) = rest.split_at(u64::from_le_bytes(*length) as usize);
    (serde_json::from_slice(header).expect("a header"), weights)
}

fn assembled(header: &serde_json::Value, weights: &[u8]) -> Vec<u8> {
    let header = serde_json::to_vec(header).expect("a header");
    [&(header.len() as u64).to_le_bytes()[..], &header, weights].concat()
}

fn card_seeds() -> Vec<Vec<u8>> {
    let card = |(at, file): (usize, &Vec<u8>)| {
        let (header, _) = parts(file);
        let card = header["__metadata__"]["esper"].as_str().expect("a card").to_owned();
        [&[at as u8], card.as_bytes()].concat()
    };
    policies().iter().enumerate().map(card).collect()
}

/// The files of comparisons that are read again; the first byte of an input says which it is.
const FILES: [&str; 13] = [
    "whole/comparison.json",
    "whole/results.json",
    "whole/esper-mlp-0/manifest.json",
    "whole/esper-mlp-0/training.json",
    "whole/esper-mlp-0/labelled.json",
    "whole/esper-mlp-0/metrics.jsonl",
    "whole/esper-mlp-0/config.toml",
    "whole/esper-mlp-0/evaluated.json",
    "whole/cql-0/training.json",
    "shares/comparison.json",
    "shares/scaling.json",
    "shares/50%/results.json",
    "shares/50%/rvs-mlp-0/labelled.json",
];

fn run_seeds() -> Vec<Vec<u8>> {
    let seed = |(at, name): (usize, &&str)| [&[at as u8], &original(name)[..]].concat();
    FILES.iter().enumerate().map(seed).collect()
}

/// Every file in a folder, by its path below a home.
fn files(folder: &Path, home: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path, home));
        } else {
            let below = path.strip_prefix(home).expect("it is below").to_owned();
            found.insert(below, fs::read(&path).expect("a file"));
        }
    }
    found
}

/// The comparisons with one of their files replaced, in a folder of this thread. Afterwards they are as before.
fn replaced(bytes: &[u8], read: impl FnOnce(&str, &Path) -> bool) -> bool {
    thread_local! {
        static COPY: OnceCell<TempDir> = const { OnceCell::new() };
    }
    let Some((which, bytes)) = bytes.split_first() else { return false };
    let name = FILES[usize::from(*which) % FILES.len()];
    COPY.with(|copy| {
        let copy = copy.get_or_init(|| {
            let copy = memory();
            for (path, bytes) in &originals().files {
                let to = copy.path().join(path);
                fs::create_dir_all(to.parent().expect("a folder")).expect("a folder");
                fs::write(to, bytes).expect("a file");
            }
            copy
        });
        fs::write(copy.path().join(name), bytes).expect("a file");
        let made_sense = read(name, copy.path());
        fs::write(copy.path().join(name), original(name)).expect("a file");
        made_sense
    })
}

/// What `esper report` and `esper eval` read.
fn run(bytes: &[u8]) -> bool {
    replaced(bytes, |name, home| {
        let mut made_sense = true;
        for folder in ["whole", "shares", "shares/50%"] {
            if !name.starts_with(folder) {
                continue;
            }
            let Ok(report) = Report::read(&home.join(folder)) else {
                made_sense = false;
                continue;
            };
            assert!(report.page().ends_with("</html>\n"));
            for figure in report.figures() {
                let _ = (figure.csv(), figure.standalone());
            }
        }
        let folder = name.rsplit_once('/').map_or(name, |(folder, _)| folder);
        if let Ok(run) = RunFolder::open(&home.join(folder)) {
            let _ = (run.manifest(), run.summary(), run.labelled(), run.metrics());
            let _ = run.config_text();
        }
        made_sense
    })
}

/// What `esper run --resume` reads.
fn resume(bytes: &[u8]) -> bool {
    replaced(bytes, |name, home| {
        let experiment = match name.starts_with("whole") {
            true => experiment(),
            false => experiment().with_fractions(vec![0.5, 1.0]),
        };
        let folder = home.join(name.split('/').next().expect("a folder"));
        let results = experiment.with_resume(true).run(&folder, &Unobserved);
        if let Ok(results) = &results {
            assert!(results.methods.iter().all(|method| method.runs.len() == 1));
        }
        // What was evaluated again, or written again, is as it was.
        let is_json = |path: &Path| path.extension().is_some_and(|ending| ending == "json");
        for (path, bytes) in originals().files.iter().filter(|(path, _)| is_json(path)) {
            fs::write(home.join(path), bytes).expect("a file");
        }
        results.is_ok()
    })
}

/// What `esper report` reads of a reproduction: Figure 1's table, the agents with several worths, and a table of results.
fn reproduction(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    let home = memory();
    let table = home.path().join("gambling-mlp");
    fs::create_dir(&table).expect("a folder");
    for (at, name) in REPRODUCED.iter().enumerate() {
        let content = match at == usize::from(*which) % REPRODUCED.len() {
            true => bytes.to_vec(),
            false => reproduced(at),
        };
        fs::write(home.path().join(name), content).expect("a file");
    }
    let Ok(reproduction) = Reproduction::read(home.path()) else { return false };
    assert!(reproduction.report().page().ends_with("</html>\n"));
    true
}

const REPRODUCED: [&str; 4] =
    ["figure1.json", "beta.json", "gambling-mlp/comparison.json", "gambling-mlp/results.json"];

fn reproduced(at: usize) -> Vec<u8> {
    match at {
        0 => br#"[{"seed":0,"target":-15.0,"achieved":-5.0,"stderr":0.1},{"seed":0,"target":1.0,"achieved":-0.2,"stderr":0.1}]"#
            .to_vec(),
        1 => br#"[{"beta_act":0.01,"beta_adv":-1.0,"seed":0,"dynamics_loss":0.1,"dynamics_loss_without_clusters":1.0,"leakage":0.5,"offline_return":-5.0,"best_return":1.0},{"beta_act":0.01,"beta_adv":1.0,"seed":0,"dynamics_loss":1.0,"dynamics_loss_without_clusters":1.0,"leakage":0.0,"offline_return":1.0,"best_return":1.0}]"#
            .to_vec(),
        2 => original("whole/comparison.json"),
        _ => original("whole/results.json"),
    }
}

fn reproduction_seeds() -> Vec<Vec<u8>> {
    (0..REPRODUCED.len()).map(|at| [&[at as u8], &reproduced(at)[..]].concat()).collect()
}

/// A TOML document as `--config` takes it, and every line of it as `--set` does.
fn settings(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let registry = Registry::default();
    let config = registry.config(Preset::Quick);
    let lines = text.lines().map(|line| config.changed(None, &[line.to_owned()]));
    let a_line_did = lines.filter(Result::is_ok).count() > 0;
    let Ok(changed) = config.changed(Some(text), &[]) else { return a_line_did };
    let again = config.changed(Some(&changed.to_toml()), &[]).expect("what was written is read");
    assert_eq!(again.to_toml(), changed.to_toml());
    true
}

fn settings_seeds() -> Vec<Vec<u8>> {
    let registry = Registry::default();
    vec![
        registry.config(Preset::Quick).to_toml().into_bytes(),
        registry.config(Preset::Paper).to_toml().into_bytes(),
        SMALL.join("\n").into_bytes(),
        b"discount=0.5\ncondition=step-level\nbc.percentile=10\n[cluster]\nassign = \"trajectory\"\n".to_vec(),
    ]
}

fn checkpoint(bytes: &[u8]) -> bool {
    let path = Path::new("checkpoint");
    let Ok(checkpoint) = Checkpoint::from_bytes(path, bytes) else { return false };
    let again = Checkpoint::from_bytes(path, &checkpoint.to_bytes());
    assert_eq!(again.expect("what was written is read"), checkpoint);
    true
}

fn checkpoint_seeds() -> Vec<Vec<u8>> {
    let parts = vec![vec![1, 2, 3], Vec::new(), original("whole/cql-0/policy.safetensors")];
    vec![Checkpoint { step: 7, parts }.to_bytes()]
}

fn expert(bytes: &[u8]) -> bool {
    let mut made_sense = false;
    for task in ["twenty48", "gambling", "drift"] {
        let task = esper_tasks::task(task).expect("it is built in");
        let Ok(spaces) = task.spaces() else { continue };
        let Ok(expert) = Expert::from_safetensors(bytes, &spaces) else { continue };
        let mut action = Cells::empty(spaces.action.cell_type());
        let mut rng = Seed::new(0).rng();
        if expert.act(zeros(&spaces.observation).view(), &mut rng, &mut action).is_ok() {
            assert_eq!(action.len(), spaces.action.cells());
        }
        made_sense = true;
    }
    made_sense
}

fn expert_seeds() -> Vec<Vec<u8>> {
    let twenty48 = include_bytes!("../../crates/esper-tasks/src/twenty48/expert.safetensors");
    // A small one for gambling, whose bytes are soon all tried: three states, three actions.
    let tensor = |name: &str, shape: &str, from: usize, to: usize| {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    };
    let spaces = gambling().spaces().expect("they are known");
    let (inputs, outputs) = (spaces.observation.features(), spaces.action.features());
    let weights = 4 * inputs * outputs;
    let header = format!(
        "{{{},{}}}",
        tensor("output.bias", &format!("[{outputs}]"), 0, 4 * outputs),
        tensor(
            "output.weight",
            &format!("[{inputs},{outputs}]"),
            4 * outputs,
            4 * outputs + weights
        ),
    );
    let header: serde_json::Value = serde_json::from_str(&header).expect("a header");
    vec![twenty48.to_vec(), assembled(&header, &vec![0; 4 * outputs + weights])]
}

fn book(bytes: &[u8]) -> bool {
    let _ = Database::from_bytes(bytes);
    let Ok(book) = Book::from_bytes(bytes) else { return false };
    assert_eq!(book.entries().count(), book.len());
    true
}

/// Bytes that a book begins with, before the number of its entries.
const MAGIC: usize = 8;

fn book_seeds() -> Vec<Vec<u8>> {
    let whole = Book::included().to_bytes();
    // The first entries alone: a number, then so many integers, each of which ends with a byte below 128.
    let (magic, rest) = whole.split_at(MAGIC);
    let mut ends = rest.iter().enumerate().filter(|(_, byte)| **byte < 128).map(|(at, _)| at + 1);
    let (first, last) = (ends.next().expect("a number"), ends.nth(99).expect("a hundred entries"));
    vec![[magic, &[100], &rest[first..last]].concat(), whole]
}
