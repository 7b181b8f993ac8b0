//! Conservative Q-learning (CQL): learns what actions are worth, for a choice among actions and for real numbers.

mod continuous;
mod discrete;

pub use continuous::CqlContinuousConfig;
pub use discrete::CqlConfig;

use esper_data::{Dataset, Space};

use super::{About, Context, Learned, Method};
use crate::error::Error;
use crate::memory::{self, Widths};
use crate::policy::Loader;
use crate::settings::{Config, Section};

/// Conservative Q-learning. It has no labels, and a policy of its own kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cql;

impl Method for Cql {
    fn about(&self) -> About {
        About::new("cql")
            .titled("CQL")
            .summed_up("learns what actions are worth, and takes the best")
    }

    fn sections(&self) -> Vec<Section> {
        vec![Section::of::<CqlConfig>(), Section::of::<CqlContinuousConfig>()]
    }

    fn loaders(&self) -> Vec<Loader> {
        vec![discrete::LOADER, continuous::LOADER]
    }

    fn phases(&self) -> Vec<&'static str> {
        vec!["values"]
    }

    fn check_actions(&self, actions: &Space) -> Result<(), Error> {
        match actions {
            Space::Discrete { .. } | Space::Box { .. } => Ok(()),
            other => Err(Error::Unsuitable(format!(
                "cql needs one choice among some actions, or real numbers; the actions of this data are {other}"
            ))),
        }
    }

    fn check(&self, data: &Dataset, _: &Config) -> Result<(), Error> {
        self.check_actions(&data.metadata().action_space)
    }

    fn memory(&self, widths: &Widths, config: &Config) -> Result<u64, Error> {
        let choice: CqlConfig = config.get()?;
        let numbers: CqlContinuousConfig = config.get()?;
        // What learns, and what follows it slowly.
        Ok(memory::weights(widths.both(), choice.hidden.max(numbers.hidden)).saturating_mul(2))
    }

    fn learn(&self, context: &Context<'_>) -> Result<Learned, Error> {
        match context.interface.action.encoding().space() {
            Space::Box { .. } => continuous::learn(context),
            _ => discrete::learn(context),
        }
    }
}

/// For every step row whether the world goes on after it: it does where an episode was only cut.
fn goes_on(data: &Dataset) -> Vec<bool> {
    let mut goes_on = vec![true; data.rows()];
    for episode in 0..data.episodes() {
        goes_on[data.episode_steps(episode).end - 1] = !data.end(episode).terminated;
    }
    goes_on
}
