//! Whole trainings: the same bytes however they came about, policies in files, and data that is hard to learn from.

mod folders;
mod learning;
mod policies;

use esper::condition::Target;
use esper::policy::Policy;
use esper::run::{Plan, RunFolder};
use esper::settings::Preset;
use esper::{Error, Registry};
use esper_data::{Cells, Dataset, DatasetBuilder, End, Metadata, Seed, Space};
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
