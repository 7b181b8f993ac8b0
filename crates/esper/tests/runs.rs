//! Whole trainings: the same bytes however they came about, and data that is hard to learn from.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use esper::config::{Config, Preset};
use esper::run::{DataId, Method, Plan, Policy, PolicyKind, RunFolder};
use esper::{Checkpoint, Error, Monitor, Unwatched};
use esper_data::{Cells, Columns, Dataset, End, Metadata, Provenance, Seed, Space};
use rand::RngExt;

/// A plan of a few steps with small networks.
fn tiny(method: Method) -> Plan {
    let mut config = Config::preset(Preset::Quick, None);
    config.cluster.steps = 120;
    config.cluster.batch = 20;
    config.cluster.hidden = 16;
    (config.cluster.rep_size, config.cluster.rep_groups) = (8, 2);
    config.cluster.attempts = 1;
    config.leakage.steps = 60;
    config.returns.steps = 60;
    config.returns.hidden = 16;
    (config.mlp.steps, config.mlp.hidden, config.mlp.batch) = (120, 16, 64);
    (config.transformer.steps, config.transformer.width, config.transformer.batch) = (60, 16, 8);
    (config.transformer.layers, config.transformer.context) = (2, 4);
    (config.cql.steps, config.cql.hidden, config.cql.batch) = (120, 16, 64);
    config.cql.target_interval = 20;
    (config.cql_continuous.steps, config.cql_continuous.hidden) = (60, 16);
    config.cql_continuous.batch = 32;
    Plan { method, policy: PolicyKind::Mlp, config, seed: 3 }
}

fn dataset(
    observation_space: Space,
    action_space: Space,
    lengths: Vec<usize>,
    observations: Cells,
    actions: Cells,
    rewards: Vec<f32>,
) -> Dataset {
    let metadata = Metadata { task: None, seed: None, observation_space, action_space };
    let ends = vec![End { terminated: true, truncated: false }; lengths.len()];
    let provenance = Provenance::default();
    let columns = Columns { lengths, ends, observations, actions, rewards, provenance };
    Dataset::new(metadata, columns).unwrap()
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
    fn keep(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.folder.keep(phase, checkpoint)
    }
    fn kept(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        self.folder.kept(phase)
    }
}

#[test]
fn threads_and_stops_do_not_change_a_byte() {
    // In every phase: clustering, leakage, returns, policy; within a record and at one.
    let stops = [7, 100, 150, 230, 300];
    assert_reproducible(&tiny(Method::Esper), &stops);
    assert_reproducible(&tiny(Method::Cql), &[60]);
    let transformer = Plan { policy: PolicyKind::Transformer, ..tiny(Method::Bc) };
    assert_reproducible(&transformer, &[55]);
}

/// The same bytes with one and two threads, and when stopped after so many steps.
fn assert_reproducible(plan: &Plan, stops: &[usize]) {
    let data = walks(300, 12, |state, _| f32::from(state));
    let id = DataId::of(&data);
    let home = tempfile::tempdir().unwrap();
    let whole = |name: &str, threads: usize| {
        let folder = RunFolder::create(&home.path().join(name), plan, &id).unwrap();
        let outcome = in_threads(threads, || plan.train(&data, &folder)).unwrap();
        folder.complete(&data, &outcome).unwrap();
        folder
    };
    let one = whole("one", 1);
    let two = whole("two", 2);
    assert_same_files(one.path(), two.path());

    for &after in stops {
        let path = home.path().join(format!("stopped-{after}"));
        let folder = RunFolder::create(&path, plan, &id).unwrap();
        let stopping = Stopping { folder: &folder, after, steps: AtomicUsize::new(0) };
        assert!(matches!(plan.train(&data, &stopping), Err(Error::Stopped)), "{after}");
        assert!(folder.policy().is_err(), "not complete");
        let folder = RunFolder::resume(&path, plan, &id).unwrap();
        let outcome = plan.train(&data, &folder).unwrap();
        let took = folder.complete(&data, &outcome).unwrap().train_seconds;
        assert!(after < 100 || took > outcome.seconds, "what came before the stop counts");
        assert_same_files(one.path(), &path);
    }

    // Going on with something else is refused.
    let other = Plan { seed: 4, ..plan.clone() };
    let error = RunFolder::resume(one.path(), &other, &id).unwrap_err().to_string();
    assert!(error.contains("another seed"), "{error}");
    let mut other = plan.clone();
    other.config.discount = 0.5;
    let error = RunFolder::resume(one.path(), &other, &id).unwrap_err().to_string();
    assert!(error.contains("another configuration"), "{error}");
    // Settings that the method makes no use of may change.
    let mut same = plan.clone();
    match plan.method {
        Method::Cql => same.config.cluster.steps += 1,
        _ => same.config.cql.steps += 1,
    }
    RunFolder::resume(one.path(), &same, &id).unwrap();
    let error = RunFolder::create(one.path(), plan, &id).unwrap_err().to_string();
    assert!(error.contains("exists"), "{error}");
}

#[test]
fn a_policy_acts_the_same_after_a_file() {
    for policy in PolicyKind::ALL {
        for method in Method::ALL {
            acts_the_same(&Plan { policy, ..tiny(method) });
        }
    }
}

fn acts_the_same(plan: &Plan) {
    let data = walks(100, 5, |_, action| f32::from(action));
    let home = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(&home.path().join("run"), plan, &DataId::of(&data)).unwrap();
    let outcome = plan.train(&data, &folder).unwrap();
    folder.complete(&data, &outcome).unwrap();
    let (policy, support) = RunFolder::open(folder.path()).unwrap().policy().unwrap();
    assert_eq!(support, outcome.support);
    let actions = |policy: &Policy, target: f64| {
        let mut agent = policy.agent();
        let states = Cells::Byte([0, 1, 2, 3].repeat(50));
        let places: Vec<usize> = (0..200).collect();
        places
            .iter()
            .for_each(|&place| agent.begin(place, target, Seed::new(0).indexed(place as u64)));
        let mut actions = Cells::Byte(Vec::new());
        agent.act(states.view(), &places, &mut actions);
        actions
    };
    assert_eq!(actions(&policy, 1.0), actions(&outcome.policy, 1.0));
    // Far beyond what it knows it does the best it knows.
    let highest = policy.labels().map_or(0.0, |labels| labels.range()[1]);
    assert_eq!(actions(&policy, 1e30), actions(&policy, highest));
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
        let mut plan = tiny(Method::Rvs);
        plan.config.mlp.label_noise = label_noise;
        plan.config.mlp.steps = 1_000;
        let mut agent = plan.train(&data, &Unwatched).unwrap().policy.agent();
        let places: Vec<usize> = (0..200).collect();
        places
            .iter()
            .for_each(|&place| agent.begin(place, 1.0, Seed::new(0).indexed(place as u64)));
        let mut actions = Cells::Byte(Vec::new());
        agent.act(Cells::Byte(vec![0; 200]).view(), &places, &mut actions);
        (0..200).filter(|&at| actions.view().category(at) == 1).count()
    };
    assert!(ones(0.0) > 190, "asked for 1 it takes 1: {}", ones(0.0));
    assert!((60..=140).contains(&ones(100.0)), "as often as everybody: {}", ones(100.0));
}

/// Works, and gives labels that are numbers.
fn learns(data: &Dataset) {
    for method in Method::ALL {
        let outcome = tiny(method).train(data, &Unwatched).unwrap();
        let labels = &outcome.labels.values;
        assert!(labels.iter().all(|label| label.is_finite()));
        if method == Method::Esper {
            // A cluster's average is not beyond what its members returned.
            let [lowest, highest] = returns_to_go(data);
            assert!(labels.iter().all(|label| (lowest..=highest).contains(label)));
        }
        assert_eq!(outcome.support.is_some(), method.has_targets());
        assert!(outcome.support.is_none_or(|support| !support.sweep().is_empty()));
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
    let mut plan = tiny(Method::Esper);
    plan.config.cluster.truncate = 3;
    plan.train(&walks(60, 40, |state, _| f32::from(state)), &Unwatched).unwrap();
}

#[test]
fn too_little_data_is_refused_with_words() {
    let error = tiny(Method::Esper).train(&walks(19, 3, |_, _| 1.0), &Unwatched).err().unwrap();
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
    for method in [Method::Esper, Method::Rvs] {
        let mut plan = tiny(method);
        (plan.config.returns.steps, plan.config.returns.hidden) = (1_000, 32);
        (plan.config.mlp.steps, plan.config.mlp.hidden) = (1_000, 32);
        let outcome = plan.train(&data, &Unwatched).unwrap();
        let mut agent = outcome.policy.agent();
        for (target, factor) in [(1.0, 2.0), (0.0, -1.0)] {
            let states = Cells::Float(vec![-0.5, 7.0, 0.25, 7.0]);
            (0..2).for_each(|place| agent.begin(place, target, Seed::new(0)));
            let mut actions = Cells::Float(Vec::new());
            agent.act(states.view(), &[0, 1], &mut actions);
            for (place, state) in [-0.5f32, 0.25].into_iter().enumerate() {
                let acted = actions.view().number(place);
                let wanted = factor * state;
                assert!(
                    (acted - wanted).abs() < 0.15,
                    "{method:?} {target}: {acted}, not {wanted}"
                );
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
    let mut plan = tiny(Method::Cql);
    let config = &mut plan.config.cql_continuous;
    (config.steps, config.hidden, config.batch) = (1_500, 32, 64);
    (config.actor_learning_rate, config.critic_learning_rate) = (1e-3, 2e-3);
    let home = tempfile::tempdir().unwrap();
    let folder = RunFolder::create(&home.path().join("run"), &plan, &DataId::of(&data)).unwrap();
    let outcome = plan.train(&data, &folder).unwrap();
    folder.complete(&data, &outcome).unwrap();
    let acted = |policy: &Policy| {
        let mut acted = Cells::Float(Vec::new());
        policy.agent().act(Cells::Float(vec![-0.8, 0.0, 0.8]).view(), &[0, 1, 2], &mut acted);
        acted
    };
    let chosen = acted(&outcome.policy);
    for (at, wanted) in [-0.4, 0.0, 0.4].into_iter().enumerate() {
        let number = chosen.view().number(at);
        assert!((number - wanted).abs() < 0.25, "{number}, not {wanted}");
    }
    assert_eq!(acted(&folder.policy().unwrap().0), chosen);
}
