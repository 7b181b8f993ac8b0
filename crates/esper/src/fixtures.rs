//! Small data sets for tests, and the CPU.

use esper_data::{Dataset, DatasetBuilder, End, Metadata, Seed, Space};
use esper_nn::{Device, DeviceName};

use crate::methods::Context;
use crate::policy::mlp::MlpKind;
use crate::policy::{Policy, PolicyOrigin};
use crate::run::Plan;
use crate::settings::{Config, Preset};
use crate::{Interface, Registry, Split, Unwatched};

/// Episodes of these lengths, over so many states and actions; every one ends on its own. `behaviours` names who made each,
/// if anybody did.
pub(crate) fn discrete(
    [states, actions]: [u32; 2],
    lengths: &[usize],
    seen: &[u8],
    taken: &[u8],
    rewards: &[f32],
    behaviours: &[&str],
) -> Dataset {
    let spaces = [states, actions].map(|n| Space::Discrete { n });
    let [observation_space, action_space] = spaces;
    let mut builder = DatasetBuilder::new(Metadata::new(observation_space, action_space));
    let (mut step, mut observation) = (0, 0);
    for (episode, &length) in lengths.iter().enumerate() {
        for _ in 0..length {
            let (seen, taken) = (&seen[observation..=observation], &taken[step..=step]);
            builder.push(seen, taken, rewards[step]).expect("the fixture is valid");
            step += 1;
            observation += 1;
        }
        if let Some(name) = behaviours.get(episode) {
            builder.made_by(name);
        }
        let end = End { terminated: true, truncated: false };
        builder.end(&seen[observation..=observation], end).expect("the fixture is valid");
        observation += 1;
    }
    builder.build().expect("the fixture is valid")
}

/// The CPU.
pub(crate) fn cpu() -> Device {
    DeviceName::Cpu.open().expect("there is a CPU")
}

/// A policy that was trained for a moment, with settings that are changed.
pub(crate) fn trained(data: &Dataset, method: &str, policy: &str, more: &[&str]) -> Policy {
    let registry = Registry::default();
    let small = [
        "mlp.steps=40",
        "mlp.hidden=16",
        "transformer.steps=2",
        "transformer.width=8",
        "transformer.context=4",
        "promise.steps=5",
        "promise.models=2",
        "promise.hidden=8",
        "cql.steps=20",
        "cql.hidden=8",
    ];
    let settings: Vec<String> = small.iter().chain(more).map(|text| (*text).to_owned()).collect();
    let config = registry.config(Preset::Quick).changed(None, &settings).expect("settings fit");
    let plan = Plan::new(&registry, method, policy, config).expect("there is such a method");
    plan.train(data, &Unwatched).expect("the data can be learned from").learned.policy
}

/// Data with everything that a method is given beside it.
pub(crate) struct Given {
    data: Dataset,
    interface: Interface,
    split: Split,
    config: Config,
    seed: Seed,
    device: Device,
    origin: PolicyOrigin,
}

impl Given {
    pub(crate) fn of(data: Dataset, seed: u64) -> Self {
        let seed = Seed::new(seed);
        Given {
            interface: Interface::of(&data),
            split: Split::new(&data, 0.2, seed).expect("there is enough of it"),
            config: Registry::default().config(Preset::Quick),
            device: cpu(),
            origin: PolicyOrigin::default(),
            data,
            seed,
        }
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            data: &self.data,
            interface: &self.interface,
            split: &self.split,
            config: &self.config,
            discount: 1.0,
            seed: self.seed,
            device: &self.device,
            monitor: &Unwatched,
            policy: &MlpKind,
            origin: &self.origin,
            memory: None,
        }
    }
}
