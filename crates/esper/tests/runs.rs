//! Whole trainings: the same bytes however they came about, and data that is hard to learn from.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use esper::condition::{Condition, Target};
use esper::methods::cql::{CqlConfig, CqlContinuousConfig};
use esper::methods::esper::{ClusterConfig, ReturnsConfig};
use esper::methods::labels::FromFile;
use esper::policy::Policy;
use esper::policy::mlp::MlpPolicyConfig;
use esper::run::{DataId, Plan, RunFolder, RunOptions};
use esper::settings::{General, Preset};
use esper::{Checkpoint, Error, Monitor, Registry, Unwatched};
use esper_data::{Cells, CellsRef, Dataset, DatasetBuilder, End, Metadata, Seed, Space};
use esper_nn::{Device, DeviceName};
use rand::RngExt;

/// Settings of a few steps with small networks.
const TINY: [&str; 28] = [
    "condition=return",
    "promise.steps=60",
    "promise.models=2",
    "leakage.luck_steps=60",
    "cluster.steps=120",
    "cluster.batch=20",
    "cluster.hidden=16",
    "cluster.rep_size=8",
    "cluster.rep_groups=2",
    "cluster.attempts=1",
    "leakage.steps=60",
    "returns.steps=60",
    "returns.hidden=16",
    "mlp.steps=120",
    "mlp.hidden=16",
    "mlp.batch=64",
    "transformer.steps=60",
    "transformer.width=16",
    "transformer.batch=8",
    "transformer.layers=2",
    "transformer.context=4",
    "cql.steps=120",
    "cql.hidden=16",
    "cql.batch=64",
    "cql.target_interval=20",
    "cql_continuous.steps=60",
    "cql_continuous.hidden=16",
    "cql_continuous.batch=32",
];

const METHODS: [&str; 4] = ["esper", "rvs", "cql", "bc"];

/// A plan of a few steps with small networks.
fn tiny(method: &str) -> Plan {
    tiny_with(method, "mlp")
}

fn tiny_with(method: &str, policy: &str) -> Plan {
    let registry = Registry::default();
    let config = registry.config(Preset::Quick).changed(None, &TINY.map(str::to_owned)).unwrap();
    Plan::new(&registry, method, policy, config).unwrap().with_seed(3)
}

fn load(folder: &RunFolder) -> Result<Policy, Error> {
    folder.policy(&Registry::default(), &cpu())
}

fn cpu() -> Device {
    DeviceName::Cpu.open().unwrap()
}

/// Episodes of these lengths, each of which ends on its own.
fn dataset(
    observation_space: Space,
    action_space: Space,
    lengths: Vec<usize>,
    observations: Cells,
    actions: Cells,
    rewards: Vec<f32>,
) -> Dataset {
    let (seen, done) = (observation_space.cells(), action_space.cells());
    let mut builder = DatasetBuilder::new(Metadata::new(observation_space, action_space));
    let row = |cells: &'_ Cells, at: usize, width: usize| -> Cells {
        let mut row = Cells::empty(cells.cell_type());
        row.extend_from(cells.view(), at * width..(at + 1) * width);
        row
    };
    let (mut step, mut observation) = (0, 0);
    for length in lengths {
        for _ in 0..length {
            let (saw, did) = (row(&observations, observation, seen), row(&actions, step, done));
            builder.push(&saw, &did, rewards[step]).unwrap();
            (step, observation) = (step + 1, observation + 1);
        }
        let end = End { terminated: true, truncated: false };
        builder.end(&row(&observations, observation, seen), end).unwrap();
        observation += 1;
    }
    builder.build().unwrap()
}

/// Random walks over four states with two actions; lengths from 1 to `longest`.
fn walks(episodes: usize, longest: usize, reward: fn(u8, u8) -> f32) -> Dataset {
    let mut rng = Seed::new(0).rng();
    let (mut lengths, mut states, mut actions, mut rewards) = (vec![], vec![], vec![], vec![]);
    for _ in 0..episodes {
        let length = rng.random_range(1..=longest);
        lengths.push(length);
        let mut state = 0u8;
        states.push(state);
        for _ in 0..length {
            let action = rng.random_range(0..2u8);
            rewards.push(reward(state, action));
            state = (state + action + u8::from(rng.random_bool(0.3))) % 4;
            states.push(state);
            actions.push(action);
        }
    }
    dataset(
        Space::Discrete { n: 4 },
        Space::Discrete { n: 2 },
        lengths,
        Cells::Byte(states),
        Cells::Byte(actions),
        rewards,
    )
}

fn in_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(work)
}

/// Every file of a run but the one that says how long it took.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap())
        })
        .filter(|(name, _)| name != "training.json")
        .collect();
    files.sort();
    files
}

fn assert_same_files(one: &Path, other: &Path) {
    let (one, other) = (files(one), files(other));
    let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        files.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&one), names(&other));
    for ((name, one), (_, other)) in one.iter().zip(&other) {
        assert!(one == other, "{name} differs");
    }
}

/// Stops after so many steps, and keeps everything in a folder.
struct Stopping<'a> {
    folder: &'a RunFolder,
    after: usize,
    steps: AtomicUsize,
}

impl Monitor for Stopping<'_> {
    fn progress(&self, _: &str, _: usize, _: usize) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }
    fn stop(&self) -> bool {
        self.steps.load(Ordering::Relaxed) >= self.after
    }
    fn record(
        &self,
        phase: &str,
        step: usize,
        metrics: &[(&'static str, f64)],
    ) -> Result<(), Error> {
        self.folder.record(phase, step, metrics)
    }
    fn save_checkpoint(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.folder.save_checkpoint(phase, checkpoint)
    }
    fn load_checkpoint(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        self.folder.load_checkpoint(phase)
    }
}

#[test]
fn threads_and_stops_do_not_change_a_byte() {
    // In every phase: luck, clustering, leakage, returns, policy, promise; within a record and at one.
    let stops = [0.01, 0.2, 0.45, 0.65, 0.8, 0.95];
    assert_reproducible(&tiny("esper"), &stops);
    let told = |condition| {
        let mut plan = tiny("esper");
        plan.config =
            plan.config.with(|general: &mut General| general.condition = condition).unwrap();
        plan
    };
    assert_reproducible(&told(Condition::StepLevel), &[0.95]);
    assert_reproducible(&told(Condition::Level), &[0.95]);
    assert_reproducible(&tiny("cql"), &[0.5]);
    assert_reproducible(&tiny_with("bc", "transformer"), &[0.9]);
}

/// The same bytes with one and two threads, and when stopped after such shares of all steps.
fn assert_reproducible(plan: &Plan, stops: &[f64]) {
    let data = walks(300, 12, |state, _| f32::from(state));
    let id = DataId::of(&data);
    let home = tempfile::tempdir().unwrap();
    let whole = |name: &str, threads: usize| {
        let folder = RunFolder::create(&home.path().join(name), plan, &id).unwrap();
        let outcome = in_threads(threads, || plan.train(&data, &folder)).unwrap();
        folder.complete(&data, &outcome).unwrap();
        folder.path().to_owned()
    };
    let one = whole("one", 1);
    let two = whole("two", 2);
    assert_same_files(&one, &two);

    let folder = RunFolder::create(&home.path().join("counted"), plan, &id).unwrap();
    let counting = Stopping { folder: &folder, after: usize::MAX, steps: AtomicUsize::new(0) };
    plan.train(&data, &counting).unwrap();
    let steps = counting.steps.into_inner();
    for after in stops.iter().map(|share| (share * steps as f64) as usize) {
        let path = home.path().join(format!("stopped-{after}"));
        let folder = RunFolder::create(&path, plan, &id).unwrap();
        let stopping = Stopping { folder: &folder, after, steps: AtomicUsize::new(0) };
        assert!(matches!(plan.train(&data, &stopping), Err(Error::Stopped)), "{after}");
        assert!(load(&folder).is_err(), "not complete");
        let busy = RunFolder::resume(&path, plan, &id).unwrap_err().to_string();
        assert!(busy.contains("is being written by process"), "{busy}");
        drop(folder);
        let folder = RunFolder::resume(&path, plan, &id).unwrap();
        let outcome = plan.train(&data, &folder).unwrap();
        let took = folder.complete(&data, &outcome).unwrap().train_seconds;
        assert!(
            after < 100 || took > outcome.seconds,
            "{after} of {steps}: what came before counts"
        );
        drop(folder);
        assert_same_files(&one, &path);
    }

    // Going on with something else is refused.
    let other = Plan { seed: 4, ..plan.clone() };
    let error = RunFolder::resume(&one, &other, &id).unwrap_err().to_string();
    assert!(error.contains("another seed"), "{error}");
    let mut other = plan.clone();
    other.config = other.config.with(|general: &mut General| general.discount = 0.5).unwrap();
    let error = RunFolder::resume(&one, &other, &id).unwrap_err().to_string();
    assert!(error.contains("another configuration"), "{error}");
    // Settings that the method makes no use of may change.
    let mut same = plan.clone();
    same.config = match plan.about().name.as_str() {
        "cql" => same.config.with(|cluster: &mut ClusterConfig| cluster.steps += 1).unwrap(),
        _ => same.config.with(|cql: &mut CqlConfig| cql.steps += 1).unwrap(),
    };
    RunFolder::resume(&one, &same, &id).unwrap();
    let error = RunFolder::create(&one, plan, &id).unwrap_err();
    assert!(matches!(error, Error::RunExists(_)), "{error}");
}

#[test]
fn a_policy_acts_the_same_after_a_file() {
    for policy in ["mlp", "transformer"] {
        for method in METHODS {
            acts_the_same(&tiny_with(method, policy));
        }
    }
}

/// What a policy does in 200 places with the four states in turn.
fn actions(policy: &Policy, target: f64) -> Cells {
    let mut agent = policy.agent();
    let states = Cells::Byte([0, 1, 2, 3].repeat(50));
    let places: Vec<usize> = (0..200).collect();
    places.iter().for_each(|&place| {
        agent.begin(place, Target::Return(target), Seed::new(0).indexed(place as u64));
    });
    let mut actions = Cells::Byte(Vec::new());
    agent.act(states.view(), &places, &mut actions).unwrap();
    actions
}

fn acts_the_same(plan: &Plan) {
    let data = walks(100, 5, |_, action| f32::from(action));
    let home = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(&home.path().join("run"), plan, &DataId::of(&data)).unwrap();
    let outcome = plan.train(&data, &folder).unwrap();
    folder.complete(&data, &outcome).unwrap();
    let policy = load(&RunFolder::open(folder.path()).unwrap()).unwrap();
    assert_eq!(policy.card(), outcome.learned.policy.card());
    assert_eq!(policy.to_safetensors(), outcome.learned.policy.to_safetensors());
    assert_eq!(actions(&policy, 1.0), actions(&outcome.learned.policy, 1.0));
    // Far beyond what it knows it does the best it knows.
    let highest = policy.card().labels.map_or(0.0, |labels| labels.range()[1]);
    assert_eq!(actions(&policy, 1e30), actions(&policy, highest));
}

/// A policy that was trained a little, and the file it is in.
fn kept_policy(method: &str, policy: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let data = walks(100, 5, |_, action| f32::from(action));
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("policy.safetensors");
    let outcome = tiny_with(method, policy).train(&data, &Unwatched).unwrap();
    outcome.learned.policy.write(&path).unwrap();
    (home, path)
}

/// The bytes of a file with its card changed.
fn with_card(path: &Path, change: impl Fn(&mut serde_json::Value)) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
    let card = header["__metadata__"]["esper"].as_str().unwrap();
    let mut card: serde_json::Value = serde_json::from_str(card).unwrap();
    change(&mut card);
    header["__metadata__"]["esper"] = card.to_string().into();
    let header = header.to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes[8 + length..]].concat()
}

/// What makes no sense is an error that names the file, and never a panic or a heap of memory.
#[test]
fn a_policy_is_checked_when_it_is_loaded() {
    let (_home, path) = kept_policy("rvs", "mlp");
    let registry = Registry::default();
    let problem = |bytes: Vec<u8>| {
        let error = Policy::from_bytes(&path, bytes, &registry, &cpu()).unwrap_err();
        let (source, words) = (std::error::Error::source(&error).is_some(), error.to_string());
        let problem = words.strip_prefix(&path.display().to_string()).expect("it names the file");
        // What a library or another check said is kept.
        let caused = ["safetensors", "finite", "not described", "mlp.hidden"];
        assert!(source || caused.iter().all(|cause| !problem.contains(cause)), "{words}");
        problem.to_owned()
    };
    let good = fs::read(&path).unwrap();
    Policy::from_bytes(&path, good.clone(), &registry, &cpu()).unwrap();

    let mut infinite = good.clone();
    let end = infinite.len();
    infinite[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    assert!(problem(infinite).contains("finite"));
    assert!(problem(good[..good.len() / 2].to_vec()).contains("safetensors"));
    assert!(problem(b"nonsense".to_vec()).contains("safetensors"));
    type Change = fn(&mut serde_json::Value);
    let changes: [(Change, &str); 12] = [
        (|card| card["format"] = 99.into(), "format 99"),
        (|card| card["kind"] = "oracle".into(), "`oracle`, which is not known"),
        (|card| card["network"]["hidden"] = 8192.into(), "network of"),
        (|card| card["network"]["hidden"] = 0.into(), "mlp.hidden is 0"),
        (|card| card["network"]["layers"] = 1_000_000.into(), "mlp.layers is 1000000"),
        (|card| card["network"] = serde_json::Value::Null, "not described"),
        (|card| card["discount"] = 7.into(), "discount factor is 7"),
        (|card| card["labels"]["range"] = serde_json::json!([1.0, 0.0]), "range from 1 to 0"),
        (|card| card["labels"]["scale"]["deviation"] = 0.0.into(), "deviation 0"),
        (|card| card["labels"] = serde_json::Value::Null, "nothing of labels"),
        (|card| card["support"]["quantiles"] = serde_json::json!([1.0, 0.0]), "not in order"),
        (|card| card["interface"]["observation"]["space"]["n"] = 0.into(), "no categories"),
    ];
    for (change, words) in changes {
        let words_found = problem(with_card(&path, change));
        assert!(words_found.contains(words), "{words}: {words_found}");
    }
    let (_home, cql) = kept_policy("cql", "mlp");
    let wider = with_card(&cql, |card| card["network"]["hidden"] = 17.into());
    assert!(problem(wider).contains("network of"));
    let several = serde_json::json!({ "type": "MultiDiscrete", "nvec": [1, 1] });
    let several =
        with_card(&cql, |card| card["interface"]["action"]["encoding"]["space"] = several.clone());
    assert!(problem(several).contains("but they are MultiDiscrete"));
}

/// An observation outside its space, or a place without an episode, is an error; then nothing was chosen.
#[test]
fn acting_refuses_what_makes_no_sense() {
    for (method, policy) in [("rvs", "mlp"), ("rvs", "transformer"), ("cql", "mlp")] {
        let (_home, path) = kept_policy(method, policy);
        let policy = Policy::load(&path, &Registry::default(), &cpu()).unwrap();
        let mut agent = policy.agent();
        // A place that nobody can have an observation for takes no memory.
        agent.begin(usize::MAX, Target::Return(1.0), Seed::new(0));
        let mut actions = Cells::Byte(Vec::new());
        let mut problem = |seen: CellsRef<'_>, places: &[usize], actions: &mut Cells| {
            agent.act(seen, places, actions).unwrap_err().to_string()
        };
        let outside = problem((&[0u8, 9]).into(), &[1], &mut actions);
        assert!(outside.contains("place 1 is outside Discrete(4)"), "{outside}");
        assert!(problem((&[0.5f32]).into(), &[0], &mut actions).contains("Float"));
        for place in [3, usize::MAX] {
            let missing = problem((&[0u8]).into(), &[place], &mut actions);
            assert!(missing.contains(&format!("no observation for place {place}")), "{missing}");
        }
        let mut floats = Cells::Float(Vec::new());
        assert!(problem((&[0u8]).into(), &[0], &mut floats).contains("Float"));
        assert!(problem((&[0u8]).into(), &[0], &mut actions).contains("no episode has begun"));
        assert!(problem((&[0u8, 0]).into(), &[1, 0, 1], &mut actions).contains("twice"));
        agent.act((&[0u8]).into(), &[], &mut actions).unwrap();
        assert!(actions.is_empty(), "nothing was chosen");
        agent.begin(0, Target::Return(1.0), Seed::new(0));
        agent.act((&[0u8]).into(), &[0], &mut actions).unwrap();
        assert_eq!(actions.len(), 1);
        assert!(agent.reward(0, f32::NAN).is_err());
        agent.end(0);
        assert!(agent.act((&[0u8]).into(), &[0], &mut actions).is_err());
        assert!(agent.reward(0, 1.0).is_err());
        if method != "cql" {
            agent.begin(0, Target::Return(f64::NAN), Seed::new(0));
            let target = agent.act((&[0u8]).into(), &[0], &mut actions).unwrap_err().to_string();
            assert!(target.contains("target in place 0 is NaN"), "{target}");
        }
    }
}

/// A finite number may still be too large: then there is an error, not an action, and nothing is remembered of it.
#[test]
fn observations_far_outside_are_errors() {
    let numbers = |at: usize| at as f32 / 60.0;
    let states: Vec<f32> = (0..60).flat_map(|at| [numbers(at); 7]).collect();
    let data = dataset(
        Space::Box { shape: vec![1], bounds: None },
        Space::Discrete { n: 2 },
        vec![6; 60],
        Cells::Float(states),
        Cells::Byte([0, 1].repeat(180)),
        (0..360).map(numbers).collect(),
    );
    for (method, policy) in [("rvs", "mlp"), ("rvs", "transformer"), ("cql", "mlp")] {
        let policy = tiny_with(method, policy).train(&data, &Unwatched).unwrap().learned.policy;
        let (mut agent, mut unharmed) = (policy.agent(), policy.agent());
        let places: Vec<usize> = (0..20).collect();
        for &place in &places {
            let seed = Seed::new(0).indexed(place as u64);
            agent.begin(place, Target::Return(1.0), seed);
            unharmed.begin(place, Target::Return(1.0), seed);
        }
        // Beyond the context of the transformer, so that its window is full, too.
        for time in 0..12 {
            let seen: Vec<f32> = places.iter().map(|&place| numbers(place + time)).collect();
            let mut far = seen.clone();
            far[7] = f32::MAX;
            let mut actions = Cells::Byte(Vec::new());
            let error = agent.act((&far).into(), &places, &mut actions).unwrap_err().to_string();
            assert!(error.contains("far outside") && actions.is_empty(), "{error}");
            agent.act((&seen).into(), &places, &mut actions).unwrap();
            let mut expected = Cells::Byte(Vec::new());
            unharmed.act((&seen).into(), &places, &mut expected).unwrap();
            assert_eq!(actions, expected, "{method} {policy:?} at step {time}");
            for &place in &places {
                agent.reward(place, 0.1).unwrap();
                unharmed.reward(place, 0.1).unwrap();
            }
        }
    }
}

/// A view of a data set is learned from as a copy of the same episodes is, to the last byte.
#[test]
fn views_are_learned_from_like_copies() {
    let data = walks(120, 6, |state, _| f32::from(state));
    let turned: Vec<usize> = (20..120).rev().collect();
    let view = data.select(&turned);
    let mut builder = DatasetBuilder::new(data.metadata().clone());
    builder.extend(&view).unwrap();
    let copy = builder.build().unwrap();
    assert_eq!(DataId::of(&view), DataId::of(&copy));
    for method in METHODS {
        let plan = tiny(method);
        let home = tempfile::tempdir().unwrap();
        let trained = |data: &Dataset, name: &str| {
            let (path, options) = (home.path().join(name), RunOptions::default());
            plan.train_in(&path, data, &DataId::of(data), options, &Unwatched).unwrap().0
        };
        assert_same_files(trained(&view, "view").path(), trained(&copy, "copy").path());
    }
}

/// An agent can act in another thread.
#[test]
fn agents_can_be_sent() {
    let (_home, path) = kept_policy("rvs", "transformer");
    let policy = Policy::load(&path, &Registry::default(), &cpu()).unwrap();
    let here = actions(&policy, 1.0);
    let there = std::thread::spawn(move || actions(&policy, 1.0)).join().unwrap();
    assert_eq!(here, there);
}

/// A folder of the first layout had no number, and no policy that says everything about itself.
#[test]
fn folders_of_other_versions_are_refused() {
    let data = walks(100, 5, |_, action| f32::from(action));
    let (home, plan) = (tempfile::tempdir().unwrap(), tiny("rvs"));
    let folder = RunFolder::create(&home.path().join("run"), &plan, &DataId::of(&data)).unwrap();
    let manifest = folder.path().join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("\"format\": 2,", "")).unwrap();
    let error = RunFolder::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("layout 1") && error.contains("train again"), "{error}");
    fs::write(&manifest, text.replace("\"format\": 2,", "\"format\": 3,")).unwrap();
    let error = RunFolder::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("layout 3"), "{error}");
}

/// Labels that another program made: those of a run, read again, give the same policy.
#[test]
fn labels_can_come_from_a_file() {
    let data = walks(100, 5, |_, action| f32::from(action));
    let home = tempfile::tempdir().unwrap();
    let (id, options) = (DataId::of(&data), RunOptions::default());
    let rvs = tiny("rvs");
    let path = home.path().join("rvs");
    let (folder, _) = rvs.train_in(&path, &data, &id, options, &Unwatched).unwrap();
    let labels = folder.labels(&data).unwrap().expect("it has labels").labels;
    assert_eq!(labels, data.returns_to_go(1.0));

    let method = std::sync::Arc::new(FromFile { path: path.join("labels.parquet") });
    let given = Plan { method, ..rvs };
    let there = home.path().join("given");
    let (again, summary) = given.train_in(&there, &data, &id, options, &Unwatched).unwrap();
    assert!(summary.findings.calibration.is_some());
    let (one, other) = (load(&folder).unwrap(), load(&again).unwrap());
    assert_eq!(actions(&one, 1.0), actions(&other, 1.0));

    // Labels of other data do not fit, and a run is not gone on with when its labels changed.
    let short = walks(50, 5, |_, action| f32::from(action));
    assert!(given.check(&short).is_err());
    fs::copy(there.join("policy.safetensors"), path.join("labels.parquet")).unwrap();
    let resume = RunOptions { resume: true, ..options };
    assert!(given.train_in(&there, &data, &id, resume, &Unwatched).is_err());
}

/// The lowest and the highest return that was observed from any step on.
fn returns_to_go(data: &Dataset) -> [f32; 2] {
    let mut range = [f32::INFINITY, f32::NEG_INFINITY];
    for episode in 0..data.episodes() {
        let mut sum = 0.0;
        for step in data.episode_steps(episode).rev() {
            sum += data.rewards()[step];
            range = [range[0].min(sum), range[1].max(sum)];
        }
    }
    range
}

/// A policy that is shown labels under noise much larger than they are learns to do without them.
#[test]
fn noise_drowns_labels() {
    // One step, one state: the return is the action that was taken.
    let data = walks(300, 1, |_, action| f32::from(action));
    let ones = |label_noise: f64| {
        let mut plan = tiny("rvs");
        let noisy = |mlp: &mut MlpPolicyConfig| (mlp.label_noise, mlp.steps) = (label_noise, 1_000);
        plan.config = plan.config.with(noisy).unwrap();
        let mut agent = plan.train(&data, &Unwatched).unwrap().learned.policy.agent();
        let places: Vec<usize> = (0..200).collect();
        places.iter().for_each(|&place| {
            agent.begin(place, Target::Return(1.0), Seed::new(0).indexed(place as u64));
        });
        let mut actions = Cells::Byte(Vec::new());
        agent.act(Cells::Byte(vec![0; 200]).view(), &places, &mut actions).unwrap();
        (0..200).filter(|&at| actions.view().category(at) == 1).count()
    };
    assert!(ones(0.0) > 190, "asked for 1 it takes 1: {}", ones(0.0));
    assert!((60..=140).contains(&ones(100.0)), "as often as everybody: {}", ones(100.0));
}

/// Works, and gives labels that are numbers.
fn learns(data: &Dataset) {
    for method in METHODS {
        let learned = tiny(method).train(data, &Unwatched).unwrap().learned;
        let labels = learned.labels.as_ref().map_or(&[][..], |labels| &labels.values);
        assert!(labels.iter().all(|label| label.is_finite()));
        if method == "esper" {
            // A cluster's average is not beyond what its members returned.
            let [lowest, highest] = returns_to_go(data);
            assert!(labels.iter().all(|label| (lowest..=highest).contains(label)));
        }
        assert_eq!(learned.support().is_some(), ["esper", "rvs"].contains(&method));
        assert!(learned.support().is_none_or(|support| !support.sweep().is_empty()));
    }
}

#[test]
fn poor_data_is_learned_from_as_far_as_it_goes() {
    // One-step episodes; returns that are all the same; a trajectory longer than gradients flow.
    learns(&walks(50, 1, |state, _| f32::from(state)));
    learns(&walks(50, 6, |_, _| 0.0));
    let single = |n: u32| {
        let states: Vec<u8> = [0, 1, 2].repeat(60);
        dataset(
            Space::Discrete { n: 3 },
            Space::Discrete { n },
            vec![2; 60],
            Cells::Byte(states),
            Cells::Byte(vec![0; 120]),
            vec![1.0; 120],
        )
    };
    // A single action: the only one there is, or the only one anybody took.
    learns(&single(1));
    learns(&single(4));
    let mut plan = tiny("esper");
    plan.config = plan.config.with(|cluster: &mut ClusterConfig| cluster.truncate = 3).unwrap();
    plan.train(&walks(60, 40, |state, _| f32::from(state)), &Unwatched).unwrap();
}

#[test]
fn too_little_data_is_refused_with_words() {
    let error = tiny("esper").train(&walks(19, 3, |_, _| 1.0), &Unwatched).err().unwrap();
    assert!(error.to_string().contains("19 episodes; at least 20"), "{error}");
}

/// A world of real numbers: the action that was taken is twice the observation in half of the episodes, which pay 1, and
/// minus the observation in the others, which pay 0. Asked for 1, the policy doubles; asked for 0, it negates.
#[test]
fn real_observations_and_actions_are_learned() {
    let mut rng = Seed::new(5).rng();
    let (mut states, mut actions, mut rewards) = (vec![], vec![], vec![]);
    for episode in 0..2_000 {
        let state: f32 = rng.random_range(-1.0..1.0);
        let good = episode % 2 == 0;
        states.extend([state, 7.0, state, 7.0]);
        actions.push(if good { 2.0 * state } else { -state });
        rewards.push(f32::from(good));
    }
    let data = dataset(
        Space::Box { shape: vec![2], bounds: None },
        Space::Box { shape: vec![1], bounds: Some(vec![[-2.0, 2.0]]) },
        vec![1; 2_000],
        Cells::Float(states),
        Cells::Float(actions),
        rewards,
    );
    for method in ["esper", "rvs"] {
        let mut plan = tiny(method);
        plan.config = plan
            .config
            .with(|returns: &mut ReturnsConfig| (returns.steps, returns.hidden) = (1_000, 32))
            .and_then(|c| c.with(|mlp: &mut MlpPolicyConfig| (mlp.steps, mlp.hidden) = (1_000, 32)))
            .unwrap();
        let outcome = plan.train(&data, &Unwatched).unwrap();
        let mut agent = outcome.learned.policy.agent();
        for (target, factor) in [(1.0, 2.0), (0.0, -1.0)] {
            let states = Cells::Float(vec![-0.5, 7.0, 0.25, 7.0]);
            (0..2).for_each(|place| agent.begin(place, Target::Return(target), Seed::new(0)));
            let mut actions = Cells::Float(Vec::new());
            agent.act(states.view(), &[0, 1], &mut actions).unwrap();
            for (place, state) in [-0.5f32, 0.25].into_iter().enumerate() {
                let acted = actions.view().number(place);
                let wanted = factor * state;
                assert!((acted - wanted).abs() < 0.15, "{method} {target}: {acted}, not {wanted}");
            }
        }
    }
}

/// One-step episodes that pay most where the action is half the observation; actions were drawn at random. What is worth
/// most is found, and found again after a file.
#[test]
fn values_of_real_actions_are_learned() {
    let mut rng = Seed::new(6).rng();
    let (mut states, mut actions, mut rewards) = (vec![], vec![], vec![]);
    for _ in 0..5_000 {
        let (state, action) = (rng.random_range(-1.0..1.0f32), rng.random_range(-2.0..2.0f32));
        states.extend([state, state]);
        actions.push(action);
        rewards.push(-4.0 * (action - state / 2.0).powi(2));
    }
    let data = dataset(
        Space::Box { shape: vec![1], bounds: None },
        Space::Box { shape: vec![1], bounds: Some(vec![[-2.0, 2.0]]) },
        vec![1; 5_000],
        Cells::Float(states),
        Cells::Float(actions),
        rewards,
    );
    let mut plan = tiny("cql");
    let longer = |config: &mut CqlContinuousConfig| {
        (config.steps, config.hidden, config.batch) = (1_500, 32, 64);
        (config.actor_learning_rate, config.critic_learning_rate) = (1e-3, 2e-3);
    };
    plan.config = plan.config.with(longer).unwrap();
    let home = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(&home.path().join("run"), &plan, &DataId::of(&data)).unwrap();
    let outcome = plan.train(&data, &folder).unwrap();
    folder.complete(&data, &outcome).unwrap();
    let acted = |policy: &Policy| {
        let mut acted = Cells::Float(Vec::new());
        let (seen, mut agent) = (Cells::Float(vec![-0.8, 0.0, 0.8]), policy.agent());
        (0..3).for_each(|place| agent.begin(place, Target::Return(0.0), Seed::new(0)));
        agent.act(seen.view(), &[0, 1, 2], &mut acted).unwrap();
        acted
    };
    let chosen = acted(&outcome.learned.policy);
    for (at, wanted) in [-0.4, 0.0, 0.4].into_iter().enumerate() {
        let number = chosen.view().number(at);
        assert!((number - wanted).abs() < 0.25, "{number}, not {wanted}");
    }
    assert_eq!(acted(&load(&folder).unwrap()), chosen);
}
