//! What a policy is worth when it acts as it does, from the data alone: by counting where states come again (`counted.rs`), else by
//! fitted Q evaluation (`fitted.rs`).

use esper_data::{Cells, Dataset, Moments, Seed, Space};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::Condition;
use super::counted::Counted;
use super::fitted::fitted;
use super::levels::Starts;
use super::promises::LEVELS;
use crate::actions::softmax;
use crate::error::Error;
use crate::methods::Context;
use crate::policy::Policy;
use crate::trajectories::StepRows;
use crate::transitions::Transitions;

crate::settings! {
    /// How promises of levels are made.
    pub struct PromiseConfig in "promise" {
        /// Estimator: `values` evaluates the policy as it acts (by counting, or fitted Q evaluation where states hardly ever come
        /// again), `labels` calibrates labels on held-out episodes, `auto` takes values unless they would have to be fitted and
        /// episodes are long: errors add up along an episode.
        estimator: Estimator = Estimator::Auto;
        /// Networks, in pairs, each of one half of the episodes; how far the two are apart makes the interval. An odd number
        /// counts as the next even one.
        models: usize = 4, within: 2..=100;
        /// Steps of training of each; 0 takes more of them for longer episodes.
        steps: usize = 0, within: 0..=1_000_000_000;
        /// Batch size: transitions in a step.
        batch: usize = 256, within: 1..=1_000_000;
        /// Hidden width.
        hidden: usize = 128, within: 1..=8192;
        /// Learning rate.
        learning_rate: f64 = 2e-3, within: 0.0..=1.0;
    }
}

/// Where promises come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Estimator {
    /// Values, unless episodes are long and states hardly ever come again.
    Auto,
    /// Values of the policy as it acts.
    Values,
    /// Labels, calibrated.
    Labels,
}

/// The longest episode that values are fitted for by `auto`.
const LONGEST: usize = 100;

/// The most steps that are looked at.
const MOST_STEPS: usize = 200_000;

/// Whether values can be fitted to episodes like these.
pub(crate) fn is_short(data: &Dataset) -> bool {
    data.longest() <= LONGEST
}

/// What a policy is worth, told each of [`LEVELS`].
pub(super) struct Evaluated<'a> {
    /// The starts that were looked at.
    pub(super) starts: Starts<'a>,
    /// How often each of them came.
    pub(super) counts: Vec<f64>,
    /// By level and start.
    pub(super) values: Vec<Vec<f64>>,
    /// By level, how far from its mean its worth may be, with nine chances of ten.
    pub(super) margins: Vec<f64>,
    /// Whether what follows depends on more than was taken into account.
    pub(super) hides: bool,
}

impl<'a> Evaluated<'a> {
    /// Evaluates a policy; `None` where it cannot be, or labels are to be taken.
    pub(super) fn of(
        policy: &Policy,
        context: &Context<'a>,
        episodes: &[usize],
    ) -> Result<Option<Self>, Error> {
        let config = context.config.get::<PromiseConfig>()?;
        if config.estimator == Estimator::Labels {
            return Ok(None);
        }
        let seed = context.seed.named("promise");
        let episodes = some_episodes(context.data, episodes, seed.named("episodes"));
        let transitions = Transitions::of(context.data, &episodes);
        if config.estimator == Estimator::Auto && transitions.is_none() && !is_short(context.data) {
            return Ok(None);
        }
        let Some(log) = Log::new(policy, context, &episodes) else { return Ok(None) };
        let chooses = context.condition(true)? == Condition::StepLevel;
        match transitions {
            Some(transitions) => {
                let counted = Counted::new(transitions, &log);
                Ok(Some(counted.evaluate(&log, context, chooses, seed)))
            }
            None => fitted(&log, context, &config, &episodes, chooses, seed).map(Some),
        }
    }

    /// What a level is worth from a start.
    pub(super) fn value(&self, level: usize, start: usize) -> f64 {
        self.values[level][start]
    }

    /// What a level is worth on average over all starts.
    pub(super) fn mean(&self, level: usize) -> f64 {
        let total: f64 = self.counts.iter().sum();
        let values = self.values[level].iter().zip(&self.counts);
        values.map(|(value, count)| value * count).sum::<f64>() / total
    }
}

/// How many standard errors away the truth may be, with nine chances of ten: Student's t by degrees of freedom. A few samples do not
/// know their own deviation well.
pub(super) fn student(freedom: usize) -> f64 {
    const T: [f64; 10] = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81];
    T.get(freedom.saturating_sub(1)).copied().unwrap_or(1.7)
}

/// Episodes to look at: all of them, or some where they are many.
fn some_episodes(data: &Dataset, episodes: &[usize], seed: Seed) -> Vec<usize> {
    let mut order = episodes.to_vec();
    order.shuffle(&mut seed.rng());
    let mut steps = 0;
    order.retain(|&episode| {
        let within = steps < MOST_STEPS;
        steps += data.length(episode);
        within
    });
    order
}

/// Logged steps, and what the policy would do at each of them.
pub(super) struct Log {
    pub(super) rows: StepRows,
    /// What was done in them.
    pub(super) actions: Cells,
    /// Whether a step is the last of its episode; else the next one is the next row.
    pub(super) last: Vec<bool>,
    /// Where the steps of every episode begin; then where the last one ends.
    pub(super) first: Vec<usize>,
    pub(super) returns: Vec<f32>,
    pub(super) mean_return: f64,
    /// Its standard error.
    pub(super) mean_error: f64,
    /// By level and row: probabilities of actions, or parameters of their distribution where they are not a plain choice.
    pub(super) policy: Vec<Vec<f32>>,
    pub(super) outputs: usize,
    /// Whether an action is a choice among some, so that the expectation over them can be had.
    pub(super) choice: bool,
}

impl Log {
    fn new(policy: &Policy, context: &Context<'_>, episodes: &[usize]) -> Option<Self> {
        let data = context.data;
        let rows = StepRows::of_episodes(data, episodes);
        let mut first = vec![0];
        let mut last = vec![false; rows.steps.len()];
        for &episode in episodes {
            let end = first[first.len() - 1] + data.length(episode);
            last[end - 1] = true;
            first.push(end);
        }
        let action = &context.interface.action;
        let (outputs, space) = (action.outputs(), action.encoding().space());
        let choice = matches!(space, Space::Discrete { .. });
        let mut tables = Vec::new();
        for rank in LEVELS {
            let mut table = policy.distributions(data, episodes, rank)?;
            if choice {
                table.chunks_exact_mut(outputs).for_each(softmax);
            }
            tables.push(table);
        }
        let all = context.returns_to_go();
        let returns: Vec<f32> = rows.steps.iter().map(|&step| all[step]).collect();
        let starts = first[..first.len() - 1].iter();
        let of_episodes = Moments::of(starts.map(|&at| f64::from(returns[at])));
        let mut actions = Cells::empty(data.action_type());
        let cells = space.cells();
        data.with_actions(&rows.steps, |taken, at| {
            at.iter().for_each(|row| actions.extend_from(taken, row * cells..(row + 1) * cells));
        });
        Some(Log {
            rows,
            actions,
            last,
            first,
            returns,
            mean_return: of_episodes.mean,
            mean_error: of_episodes.standard_error(),
            policy: tables,
            outputs,
            choice,
        })
    }

    /// How many episodes there are.
    pub(super) fn episodes(&self) -> usize {
        self.first.len() - 1
    }

    /// How often a bootstrap sample has each episode.
    pub(super) fn bootstrap(&self, seed: Seed) -> Vec<u32> {
        let mut rng = seed.named("bootstrap").rng();
        let mut counts = vec![0u32; self.episodes()];
        (0..counts.len()).for_each(|_| counts[rng.random_range(0..self.episodes())] += 1);
        counts
    }

    /// All episodes in two halves; one that is alone is in both.
    pub(super) fn halves(&self, seed: Seed) -> [Vec<usize>; 2] {
        let mut order: Vec<usize> = (0..self.episodes()).collect();
        order.shuffle(&mut seed.named("halves").rng());
        let (one, other) = order.split_at(order.len() / 2);
        [if one.is_empty() { other } else { one }, other].map(<[usize]>::to_vec)
    }

    pub(super) fn starts<'a>(&self, context: &Context<'a>) -> Starts<'a> {
        let starts = self.first[..self.episodes()].iter();
        let rows = starts.map(|&at| self.rows.observations[at]).collect();
        Starts::of_rows(context.data, &context.interface.observation, rows)
    }
}
