//! What a policy is told: the return that is left to collect, as in the paper, or where a behaviour stands among those that were
//! seen from the same start.
//!
//! The paper tells a policy the label of each step, and while it acts the target less the rewards received so far. That is right
//! where every episode starts alike and pays at its end. Where starts differ, the highest labels belong to lucky starts, and are
//! asked of all; where rewards come on the way, luck is taken off the target and changes what is done next. A *level* does
//! neither: it is the rank, from 0 to 1, of an episode's first label among the first labels of episodes that started
//! like it. It stays the same for a whole episode, and every start has behaviours of all levels. A *step level* is the rank of
//! every step's label among those of the same state: asked for a high one everywhere, a policy does in each state what
//! the best did there, and can exceed every one of them.
//!
//! What a level is worth is not read off labels, of which the highest are the luckiest: the policy is evaluated as it
//! acts, from the data alone (`evaluation.rs`). Where episodes are too long for that, labels are calibrated on held-out
//! episodes instead (`promises.rs`).

mod counted;
mod evaluation;
mod fitted;
mod levels;
mod promises;
mod ranks;
mod shrinkage;

pub use evaluation::PromiseConfig;
pub use levels::StartLevels;
pub use promises::{Promise, Promises, RankPiece};

use esper_data::Seed;
use serde::{Deserialize, Serialize};

use crate::agent::Remaining;
use crate::error::Error;
use crate::methods::Context;
use crate::policy::{LabelInput, Policy};
use crate::trajectories::Split;
use esper_data::Dataset;

/// What a policy is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// The label of each step; while acting, the target less the rewards received so far. The paper's.
    #[default]
    Return,
    /// Where an episode's behaviour stands among all that were seen from the same start, from 0 to 1.
    Level,
    /// Where a step's behaviour stands among all that were seen in the same state, from 0 to 1.
    StepLevel,
    /// As a setting only: what the method was made for, and where that is a level, of steps unless episodes are too long for its
    /// promise.
    Auto,
}

impl Condition {
    /// What is told, given data and what a method was made for.
    pub(crate) fn resolved(self, data: &Dataset, made_for_levels: bool) -> Self {
        match self {
            Condition::Auto if !made_for_levels => Condition::Return,
            Condition::Auto if evaluation::is_short(data) => Condition::StepLevel,
            Condition::Auto => Condition::Level,
            condition => condition,
        }
    }
}

impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Condition::Return => "return",
            Condition::Level => "level",
            Condition::StepLevel => "step-level",
            Condition::Auto => "auto",
        })
    }
}

/// What an episode is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Target {
    /// An average return.
    Return(f64),
    /// A level: 0.9 is what is better than nine tenths of all that was seen from the same start.
    Level(f64),
}

/// What is told in an episode under way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Told {
    /// What is left to be reached.
    Remaining(Remaining),
    /// The same all along.
    Level(f64),
}

impl Told {
    /// The number that a policy is told now.
    pub fn number(self) -> f64 {
        match self {
            Told::Remaining(remaining) => remaining.target(),
            Told::Level(level) => level,
        }
    }

    /// A reward was received.
    pub fn receive(&mut self, reward: f32) {
        if let Told::Remaining(remaining) = self {
            remaining.receive(reward);
        }
    }
}

/// Levels of the episodes that a policy was trained on: what each is worth from a start, and what it promises on average.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// What a level is worth from a start.
    pub starts: StartLevels,
    /// What levels promise.
    pub promises: Promises,
}

impl Levels {
    /// Promises of a policy as it acts, in place of what labels say, and what has to be said of them. `None` where it cannot be
    /// evaluated, or not be trusted.
    pub(crate) fn evaluated(
        &self,
        policy: &Policy,
        context: &Context<'_>,
        episodes: &[usize],
    ) -> Result<Option<(Self, Vec<String>)>, Error> {
        let Some(values) = evaluation::Evaluated::of(policy, context, episodes)? else {
            return Ok(None);
        };
        let promises = Promises::evaluated(&values);
        let starts = self.starts.evaluated(&values, &promises);
        let warnings = if values.hides { vec![HIDES.to_owned()] } else { Vec::new() };
        Ok(Some((Levels { starts, promises }, warnings)))
    }

    /// Whether they make sense; those that were read from a file may not.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.starts.check()?;
        self.promises.check()
    }
}

/// Said where promises are of a world that is not all observed.
const HIDES: &str = "what follows an action depends on more than is observed: on what came before it, of which the latest alone is taken \
     into account, so that promises may be off; observe what is missing, or what came before, as columns of their own";

/// What a policy is told at every step of the data: something from `low` to `high`, where a draw within spreads ties evenly.
pub struct Conditioned {
    /// By step row.
    low: Vec<f32>,
    /// The same as `low` where there is none.
    high: Option<Vec<f32>>,
    /// How it enters a network.
    pub input: LabelInput,
    /// What that is.
    pub condition: Condition,
    /// What levels are worth by labels alone, where levels are told.
    pub levels: Option<Levels>,
}

impl Conditioned {
    /// The label of each step.
    pub fn on_labels(labels: &[f32], data: &Dataset, episodes: &[usize]) -> Self {
        let input = LabelInput::of(labels, data, episodes);
        Conditioned {
            low: labels.to_vec(),
            high: None,
            input,
            condition: Condition::Return,
            levels: None,
        }
    }

    /// The level of each step among those of the same state.
    pub fn on_step_levels(
        labels: &[f32],
        context: &Context<'_>,
        episodes: &[usize],
    ) -> Result<Self, Error> {
        let of_episodes = Self::on_levels(labels, context, episodes);
        let ranks = ranks::of_steps(labels, context, episodes)?;
        let (low, high) = ranks.into_iter().map(|[low, high]| (low, high)).unzip();
        Ok(Conditioned { low, high: Some(high), condition: Condition::StepLevel, ..of_episodes })
    }

    /// The level of each episode, by its first label.
    pub fn on_levels(labels: &[f32], context: &Context<'_>, episodes: &[usize]) -> Self {
        let Context { data, interface, split, discount, .. } = *context;
        let first = |&episode: &usize| f64::from(labels[data.episode_steps(episode).start]);
        let first_labels: Vec<f64> = episodes.iter().map(first).collect();
        let starts = levels::Starts::of_episodes(data, &interface.observation, episodes);
        let seed = context.seed.named("levels");
        let (start_levels, ranks) = StartLevels::of(&starts, &first_labels, seed);
        let (mut low, mut high) = (vec![0.0; data.rows()], vec![0.0; data.rows()]);
        for (&episode, rank) in episodes.iter().zip(&ranks) {
            for step in data.episode_steps(episode) {
                (low[step], high[step]) = (rank[0] as f32, rank[1] as f32);
            }
        }
        let returns = data.returns_to_go(discount);
        let observed = |&episode: &usize| f64::from(returns[data.episode_steps(episode).start]);
        let observed: Vec<f64> = episodes.iter().map(observed).collect();
        let promises = Promises::of(
            &start_levels,
            &first_labels,
            &observed,
            &held_out(split, episodes),
            seed.named("promises"),
        );
        Conditioned {
            low,
            high: Some(high),
            input: LabelInput::levels(),
            condition: Condition::Level,
            levels: Some(Levels { starts: start_levels, promises }),
        }
    }

    /// What a policy sees at a step, given where within its range: from 0 to 1.
    pub fn told(&self, step: usize, within: f32) -> f32 {
        let low = self.low[step];
        let high = self.high.as_ref().map_or(low, |high| high[step]);
        self.input.apply(f64::from(low + within * (high - low)))
    }
}

/// Which of some episodes are held out.
fn held_out(split: &Split, episodes: &[usize]) -> Vec<bool> {
    let highest = episodes.iter().copied().max().map_or(0, |most| most + 1);
    let mut is_held_out = vec![false; highest];
    for &episode in split.held_out.iter().filter(|&&episode| episode < highest) {
        is_held_out[episode] = true;
    }
    episodes.iter().map(|&episode| is_held_out[episode]).collect()
}

/// The stream of a start's draws.
fn stream(seed: Seed, name: &str) -> esper_data::Rng {
    seed.named(name).rng()
}
