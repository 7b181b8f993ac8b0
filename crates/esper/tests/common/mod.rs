//! What tests of long episodes share.

use std::sync::Arc;

use esper::Registry;
use esper::methods::esper::Esper;
use esper::policy::mlp::MlpKind;
use esper::run::Plan;
use esper::settings::Preset;
use esper_data::{Dataset, DatasetBuilder, End, Metadata, Space};

pub(crate) const ENDED: End = End { terminated: true, truncated: false };

/// Twenty-four short episodes and one of `long` steps, over three states and two actions.
pub(crate) fn with_a_long_one(long: usize) -> Dataset {
    let spaces = [3, 2].map(|n| Space::Discrete { n });
    let [observation_space, action_space] = spaces;
    let mut builder = DatasetBuilder::new(Metadata::new(observation_space, action_space));
    for episode in 0..25 {
        let length = if episode == 12 { long } else { 4 };
        for step in 0..length {
            let (seen, taken) = ((step * 7 % 3) as u8, ((step + episode) % 2) as u8);
            builder.push(&[seen], &[taken], f32::from(taken) / length as f32).unwrap();
        }
        builder.end(&[0u8], ENDED).unwrap();
    }
    builder.build().unwrap()
}

/// ESPER in the quick preset, with settings.
pub(crate) fn plan(settings: &[&str]) -> Plan {
    let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
    let config = Registry::default().config(Preset::Quick).changed(None, &settings).unwrap();
    Plan::of(Arc::new(Esper), Arc::new(MlpKind), config)
}

/// Settings that make networks too small to learn much.
pub(crate) const TINY: [&str; 9] = [
    "cluster.steps=12",
    "cluster.hidden=16",
    "cluster.truncate=64",
    "cluster.attempts=1",
    "leakage.steps=12",
    "leakage.luck_steps=10",
    "returns.steps=12",
    "returns.hidden=16",
    "mlp.steps=10",
];
