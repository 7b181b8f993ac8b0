//! 2048, stopped at the first 128: planning under the randomness of new tiles.

mod env;
pub mod rules;

pub use env::{TIME_LIMIT, Twenty48};

use crate::expert::Expert;
use crate::specs::{BehaviourSpec, DatasetSpec};
use crate::task::Task;
use crate::world::World;

/// A player that wins about four of five games: `esper expert twenty48` made it.
pub fn included_expert() -> Expert {
    let (spaces, bytes) = (Twenty48::default().spaces(), include_bytes!("expert.safetensors"));
    Expert::from_safetensors(bytes, &spaces)
        .expect("the expert that is included is one for this task")
}

/// The task.
pub fn task() -> Task {
    let expert = BehaviourSpec::new(
        "expert",
        "a network that learned by playing, stopped when it won four of five games",
        |_| Ok(Box::new(included_expert())),
    );
    Task::new("twenty48", || Ok(Box::new(Twenty48::default())))
        .with_aliases(["2048"])
        .with_summary(
            "2048 up to the first 128 tile, which pays 1. New tiles appear at random, so a won game says little \
             about how well it was played.",
        )
        .with_behaviour(expert)
        .with_dataset(
            DatasetSpec::new("paper", 5_000_000, ["expert", "random"])
                .with_summary("the paper's: half expert, half random"),
        )
        .with_episodes(1_000)
        .with_expert_return(0.8)
        .with_settings(
            "paper",
            [
                "cluster.beta_act=0.02",
                "cluster.steps=4000",
                "returns.steps=1000",
                "returns.scale=1.0",
            ],
        )
        // A trajectory is a hundred steps, so fewer make a batch; imitating an expert takes a larger policy.
        .with_settings(
            "quick",
            [
                "cluster.batch=32",
                "mlp.hidden=256",
                "mlp.steps=20000",
                "transformer.steps=8000",
                "cql.steps=20000",
            ],
        )
        .with_published("rvs", Some("transformer"), 0.57, 0.05)
        .with_published("rvs", Some("mlp"), 0.56, 0.03)
        .with_published("cql", None, 0.7, 0.09)
        .with_published("esper", Some("transformer"), 0.81, 0.06)
        .with_published("esper", Some("mlp"), 0.81, 0.05)
}
