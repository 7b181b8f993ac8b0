//! Methods that learn what actions are worth: conservative Q-learning, for a choice among actions and for real numbers.

mod continuous;
mod cql;

pub use continuous::{Actor, ActorPolicy, Ranges};
pub use cql::{Greedy, QPolicy};

use esper_data::{Dataset, Space};

use crate::error::Error;

/// Whether actions are of a kind that the method knows.
pub fn check(data: &Dataset) -> Result<(), Error> {
    match &data.metadata().action_space {
        Space::Discrete { .. } | Space::Box { .. } => Ok(()),
        other => Err(Error::Unsuitable(format!(
            "cql needs one choice among some actions, or real numbers; the actions of this data are {other}"
        ))),
    }
}

/// For every step whether the world goes on after it: it does where an episode was only cut.
fn goes_on(data: &Dataset) -> Vec<bool> {
    let mut goes_on = vec![true; data.steps()];
    for episode in 0..data.episodes() {
        goes_on[data.episode_steps(episode).end - 1] = !data.end(episode).terminated;
    }
    goes_on
}
