//! Gambling: the paper's Figure 1, where imitating luck loses.
//!
//! One choice among three: two gambles that look good when they go well, and a safe bet that is better on average.

mod env;
pub mod rules;

pub use env::Gambling;

use crate::specs::DatasetSpec;
use crate::task::Task;

/// The task.
pub fn task() -> Task {
    Task::new("gambling", || Ok(Box::new(Gambling::default())))
        .with_summary(
            "One choice among two gambles and a safe bet. The gambles look best when they go well, the safe bet \
             is best on average: imitating what won gambles one time in three.",
        )
        .with_dataset(
            DatasetSpec::new("paper", 100_000, ["random"])
                .with_summary("the paper's: uniformly random actions"),
        )
        // Short episodes with much luck.
        .with_episodes(4_000)
        .with_settings(
            "paper",
            [
                "cluster.rep_size=8",
                "cluster.rep_groups=1",
                "cluster.beta_act=0.01",
                "returns.steps=1000",
                "returns.scale=5.0",
            ],
        )
        // Two steps of seven states need no larger networks. What is learned is the same with those of every other world, and takes
        // three quarters more time.
        .with_settings(
            "quick",
            [
                "cluster.hidden=64",
                "returns.hidden=64",
                "mlp.hidden=64",
                "cql.hidden=128",
                "cql.steps=3000",
            ],
        )
        .with_published("rvs", Some("transformer"), -0.02, 0.24)
        .with_published("rvs", Some("mlp"), -0.05, 0.27)
        .with_published("cql", None, 1.0, 0.0)
        .with_published("esper", None, 1.0, 0.0)
}
