//! Connect Four against an opponent that is perfect but for one weakness: it sometimes forgets the last column.
//!
//! Playing well wins for certain; stacking discs in the last column wins by luck, one time in five.

pub mod behaviours;
pub mod book;
mod env;
mod oracle;
pub mod rules;
mod solver;

pub use env::{ConnectFour, LAPSE_COLUMN, LAPSE_PROBABILITY};
pub use oracle::Oracle;
pub use solver::{Solver, obvious_column};

use self::behaviours::{EpsilonOptimal, Exploiter};
use crate::specs::{BehaviourSpec, DatasetSpec};
use crate::task::Task;

/// Epsilon of the paper's player.
const EPSILON: f64 = 0.01;

/// The task.
pub fn task() -> Task {
    let epsilon_optimal = BehaviourSpec::new(
        "epsilon-optimal",
        "the solver's best column, now and then any column",
        |options| {
            let epsilon = options.epsilon.unwrap_or(EPSILON);
            Ok(Box::new(EpsilonOptimal { epsilon, oracle: Oracle::shared() }))
        },
    );
    let exploiter = BehaviourSpec::new(
        "exploiter",
        "always the last column, hoping that the opponent forgets it",
        |_| Ok(Box::new(Exploiter)),
    );
    Task::new("connect-four", || Ok(Box::new(ConnectFour::default())))
        .with_aliases(["c4"])
        .with_summary(
            "Connect Four against a perfect opponent that in one of five cases forgets to block the last column. \
             Stacking that column wins by luck; playing well wins every time.",
        )
        .with_behaviour(epsilon_optimal.with_epsilon(EPSILON))
        .with_behaviour(exploiter)
        .with_dataset(
            DatasetSpec::new("paper", 1_000_000, ["epsilon-optimal", "exploiter"])
                .with_summary("the paper's: half ε-optimal, half exploiter"),
        )
        .with_episodes(400)
        .with_settings("paper", ["returns.scale=1.0"])
        .with_published("rvs", Some("transformer"), 0.8, 0.07)
        .with_published("rvs", Some("mlp"), 0.24, 0.15)
        .with_published("cql", None, 0.61, 0.05)
        .with_published("esper", Some("transformer"), 0.99, 0.03)
        .with_published("esper", Some("mlp"), 0.99, 0.01)
}
