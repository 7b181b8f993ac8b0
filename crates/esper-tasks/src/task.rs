//! The tasks that are built in: a world, who acts in it, and how much data the paper took.

use esper_data::{Dataset, Space};

use crate::behaviour::{Mixture, UniformRandom};
use crate::collect::collect;
use crate::connect_four::ConnectFour;
use crate::connect_four::behaviours::{EpsilonOptimal, Exploiter};
use crate::env::Env;
use crate::gambling::Gambling;
use crate::twenty48::Twenty48;

/// A task that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The gamble of the paper's Figure 1.
    Gambling,
    /// Connect Four against a nearly perfect opponent.
    ConnectFour,
    /// 2048 up to the first 128.
    Twenty48,
}

/// A behaviour that a task offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BehaviourInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Whether it has a part in the task's data when nothing else is asked for.
    pub by_default: bool,
}

/// What to collect.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectOptions {
    /// At least this many steps; the last episode is played to its end.
    pub steps: u64,
    /// Decides everything.
    pub seed: u64,
    /// The behaviours to mix, each with the same share of the episodes; empty for the task's own mixture.
    pub behaviours: Vec<String>,
    /// The share of random moves of `epsilon-optimal`.
    pub epsilon: f64,
}

/// A behaviour was asked for that the task does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} has no behaviour `{asked}`; it has {known}")]
pub struct UnknownBehaviour {
    task: &'static str,
    asked: String,
    known: String,
}

/// The share of random moves of the paper's Connect Four player.
pub const DEFAULT_EPSILON: f64 = 0.01;

impl Task {
    /// All of them.
    pub const ALL: [Task; 3] = [Task::Gambling, Task::ConnectFour, Task::Twenty48];

    /// The task with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.name() == name)
    }

    /// Its name, as the command line takes it.
    pub fn name(self) -> &'static str {
        match self {
            Task::Gambling => "gambling",
            Task::ConnectFour => "connect-four",
            Task::Twenty48 => "twenty48",
        }
    }

    /// What it is and what it shows, in a sentence or two.
    pub fn summary(self) -> &'static str {
        match self {
            Task::Gambling => {
                "One choice among two gambles and a safe bet. The gambles look best when they go well, the safe bet \
                 is best on average: imitating what won gambles one time in three."
            }
            Task::ConnectFour => {
                "Connect Four against a perfect opponent that in one of five cases forgets to block the last column. \
                 Stacking that column wins by luck; playing well wins every time."
            }
            Task::Twenty48 => {
                "2048 up to the first 128 tile, which pays 1. New tiles appear at random, so a won game says little \
                 about how well it was played."
            }
        }
    }

    /// The steps of the paper's data set.
    pub fn default_steps(self) -> u64 {
        match self {
            Task::Gambling => 100_000,
            Task::ConnectFour => 1_000_000,
            Task::Twenty48 => 5_000_000,
        }
    }

    /// The behaviours it offers.
    pub fn behaviours(self) -> &'static [BehaviourInfo] {
        const RANDOM: BehaviourInfo = BehaviourInfo {
            name: "random",
            summary: "every action equally likely",
            by_default: true,
        };
        match self {
            Task::Gambling | Task::Twenty48 => &[RANDOM],
            Task::ConnectFour => &[
                BehaviourInfo {
                    name: "epsilon-optimal",
                    summary: "the solver's best column, now and then any column",
                    by_default: true,
                },
                BehaviourInfo {
                    name: "exploiter",
                    summary: "always the last column, hoping that the opponent forgets it",
                    by_default: true,
                },
                BehaviourInfo {
                    by_default: false,
                    ..RANDOM
                },
            ],
        }
    }

    /// What should be known about its data and is not yet as it will be.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Task::Twenty48 => Some(
                "there is no expert for twenty48 yet: all episodes are random play, where the paper's data is half expert",
            ),
            _ => None,
        }
    }

    /// What an observation looks like.
    pub fn observation_space(self) -> Space {
        match self {
            Task::Gambling => Gambling::default().observation_space(),
            Task::ConnectFour => ConnectFour::default().observation_space(),
            Task::Twenty48 => Twenty48::default().observation_space(),
        }
    }

    /// What an action looks like.
    pub fn action_space(self) -> Space {
        match self {
            Task::Gambling => Gambling::default().action_space(),
            Task::ConnectFour => ConnectFour::default().action_space(),
            Task::Twenty48 => Twenty48::default().action_space(),
        }
    }

    /// Collects data and hands it on in parts, in order; an error of `sink` ends the collection and is returned within.
    pub fn collect<Error: Send>(
        self,
        options: &CollectOptions,
        sink: impl FnMut(Dataset) -> Result<(), Error> + Send,
    ) -> Result<Result<(), Error>, UnknownBehaviour> {
        let names = self.behaviour_names(&options.behaviours)?;
        let CollectOptions {
            steps,
            seed,
            epsilon,
            ..
        } = *options;
        let task = self.name();
        Ok(match self {
            Task::Gambling => {
                let env = Gambling::default();
                collect(&env, &random_only(&env, &names), task, seed, steps, sink)
            }
            Task::ConnectFour => {
                let env = ConnectFour::default();
                let mixture = names
                    .into_iter()
                    .fold(Mixture::new(), |mixture, name| match name {
                        "epsilon-optimal" => mixture.with(name, 1.0, EpsilonOptimal { epsilon }),
                        "exploiter" => mixture.with(name, 1.0, Exploiter),
                        _ => mixture.with(name, 1.0, uniform(&env)),
                    });
                collect(&env, &mixture, task, seed, steps, sink)
            }
            Task::Twenty48 => {
                let env = Twenty48::default();
                collect(&env, &random_only(&env, &names), task, seed, steps, sink)
            }
        })
    }

    /// The behaviours asked for, or the task's own mixture when none are.
    pub fn behaviour_names(self, asked: &[String]) -> Result<Vec<&'static str>, UnknownBehaviour> {
        let known = self.behaviours();
        if asked.is_empty() {
            return Ok(known
                .iter()
                .filter(|b| b.by_default)
                .map(|b| b.name)
                .collect());
        }
        let find = |asked: &String| {
            known
                .iter()
                .map(|b| b.name)
                .find(|name| name == asked)
                .ok_or_else(|| UnknownBehaviour {
                    task: self.name(),
                    asked: asked.clone(),
                    known: known.iter().map(|b| b.name).collect::<Vec<_>>().join(", "),
                })
        };
        asked.iter().map(find).collect()
    }
}

fn uniform(env: &impl Env) -> UniformRandom {
    UniformRandom::over(&env.action_space()).expect("the task has at most 256 actions")
}

fn random_only<E: Env<Action = u8>>(env: &E, names: &[&'static str]) -> Mixture<E> {
    names.iter().fold(Mixture::new(), |mixture, &name| {
        mixture.with(name, 1.0, uniform(env))
    })
}
