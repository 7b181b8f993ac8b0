//! What is learned from data that is poor, long, or of real numbers.

use esper::Unwatched;
use esper::condition::Target;
use esper::methods::cql::CqlContinuousConfig;
use esper::methods::esper::{ClusterConfig, ReturnsConfig};
use esper::policy::Policy;
use esper::policy::mlp::MlpPolicyConfig;
use esper::run::{DataId, RunFolder};
use esper_data::{Cells, Dataset, Seed, Space};
use rand::RngExt;

use super::{METHODS, dataset, load, tiny, walks};

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
