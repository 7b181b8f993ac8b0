//! The settings of ESPER's first two phases.

use serde::{Deserialize, Serialize};

use super::clusters::STEPS_AT_ONCE;
use crate::condition::Condition;
use crate::error::Error;
use crate::memory::{self, Widths};
use crate::settings::{Config, Norm, check_range};
use crate::trajectories::Interface;
use crate::windows::{most_steps, steps_within};

crate::settings! {
    /// Phase 1: adversarial clustering (Equations 2 and 3).
    pub struct ClusterConfig in "cluster" {
        /// Representation size: categories of all groups together; 0 follows from the data: few where there is luck to tell.
        rep_size: usize = 0, paper: 128, within: 0..=4096;
        /// Representation groups: categorical variables that make up a cluster; 0 follows from the data.
        rep_groups: usize = 0, paper: 4, within: 0..=1024;
        /// β_act: what reconstructing actions is worth.
        beta_act: f64 = 0.05, within: 0.0..=1e9;
        /// β_adv: what hiding the world's randomness is worth. Below zero clusters gain by telling it: that shows what
        /// telling it does.
        beta_adv: f64 = 1.0, within: -1e9..=1e9;
        /// Steps of training; 0 follows from the data.
        steps: usize = 0, paper: 5_000, within: 0..=1_000_000_000;
        /// Batch size: trajectories in a step.
        batch: usize = 100, within: 1..=100_000;
        /// Hidden width of all layers; 0 follows from the data: half as wide where observations are small.
        hidden: usize = 0, paper: 512, within: 0..=8192;
        /// Hidden layers of the encoder, the action predictor and the transition predictor.
        layers: usize = 2, within: 1..=64;
        /// Normalisation of hidden layers.
        normalization: Norm = Norm::Layer, paper: Norm::Batch;
        /// Learning rate of encoder, memory and action predictor.
        learning_rate: f64 = 5e-4, paper: 1e-4, within: 0.0..=1.0;
        /// Learning rate of the transition predictor.
        transition_learning_rate: f64 = 1e-3, paper: 5e-4, within: 0.0..=1.0;
        /// Learning rate decay: whether learning rates fall to zero over the second half.
        decay: bool = true, paper: false;
        /// Weight decay.
        weight_decay: f64 = 0.01, within: 0.0..=1e9;
        /// Temperature of Gumbel-softmax.
        temperature: f64 = 1.0, within: 1e-3..=1e9;
        /// Straight-through Gumbel-softmax: whether samples are one-hot, with the gradient of the soft sample.
        hard: bool = false;
        /// Input of the transition predictor: what it sees beside the cluster, `markov` or `history`.
        transition: TransitionInput = TransitionInput::Markov;
        /// Truncated backpropagation: steps that gradients flow back through a trajectory. Of a longer one a batch has a window of
        /// so many steps; where such windows are too many for memory, a batch has fewer of them.
        truncate: usize = 1_000, within: 1..=1_000_000_000;
        /// Cluster assignment: what has a cluster of its own, every step or every trajectory.
        assign: Assign = Assign::Step;
        /// Attempts: trainings, each of which changes what was wrong with the last, until a clustering does not leak. If none is
        /// clean, nothing is told apart but states and actions.
        attempts: usize = 2, paper: 1, within: 1..=1000;
    }
    together check_groups
}

/// Groups divide the representation evenly.
fn check_groups(config: &ClusterConfig) -> Result<(), Error> {
    let ClusterConfig { rep_size, rep_groups, .. } = *config;
    // What follows from the data fits.
    let rep_groups = rep_groups.max(1);
    if rep_size == 0 {
        return Ok(());
    }
    if !rep_size.is_multiple_of(rep_groups) {
        return Err(Error::Config(format!(
            "cluster.rep_size is {rep_size}; it has to be a multiple of cluster.rep_groups, {rep_groups}"
        )));
    }
    // Probabilities are kept in units of 1/255: with more categories all of them could round to nothing.
    check_range("", "cluster.rep_size / cluster.rep_groups", &(rep_size / rep_groups), &(2..=256))
}

crate::settings! {
    /// How the leakage of a clustering is measured.
    pub struct LeakageConfig in "leakage" {
        /// Steps of training of the fresh predictor.
        steps: usize = 600, paper: 1_000, within: 1..=1_000_000_000;
        /// Its learning rate.
        learning_rate: f64 = 1e-3, within: 0.0..=1.0;
        /// Tolerance: the share of the world's randomness that clusters may tell and still count as clean.
        tolerance: f64 = 0.02, within: 0.0..=1.0;
        /// Steps of training of what tells luck: what actions are worth in their states; where episodes are
        /// long, up to six times as many are tried, too. 0 does not look for luck in labels.
        luck_steps: usize = 1_000, paper: 0, within: 0..=1_000_000_000;
        /// Tolerance of luck: the correlation of labels with luck that still counts as clean.
        luck_tolerance: f64 = 0.1, within: 0.0..=1.0;
    }
}

/// Observations of fewer features than this are small.
const SMALL: usize = 64;

impl ClusterConfig {
    /// The same with everything that follows from the data: `luck` is whether chance has a say in returns, and `told` what the
    /// policy is told.
    pub fn following(&self, interface: &Interface, luck: bool, told: Condition) -> Self {
        let config = self.for_features(interface.width(), luck);
        // Of a whole episode who acts is all there is to tell. Where every action says little of it, telling it has to be
        // worth more than the noise of the adversary, and take more than one variable.
        if luck && told == Condition::Level && self.rep_size == 0 && self.rep_groups == 0 {
            let beta_act = 4.0 * self.beta_act;
            return ClusterConfig { rep_groups: 4, rep_size: 32, beta_act, ..config };
        }
        config
    }

    /// The same, given features of observations and actions together.
    pub(crate) fn for_features(&self, features: usize, luck: bool) -> Self {
        let small = features <= SMALL;
        let or = |value: usize, other: usize| if value == 0 { other } else { value };
        // What tells little can tell little of luck; without luck, clusters may tell everything.
        let (rep_size, rep_groups) = if luck { (8, 1) } else { (128, 4) };
        let groups = or(self.rep_groups, rep_groups);
        let size = or(self.rep_size, rep_size.max(2 * groups)).next_multiple_of(groups);
        ClusterConfig {
            rep_groups: groups,
            rep_size: size,
            beta_act: if luck && self.rep_size == 0 { self.beta_act / 5.0 } else { self.beta_act },
            steps: or(self.steps, if small { 1_500 } else { 2_500 }),
            hidden: or(self.hidden, if small { 64 } else { 128 }),
            ..self.clone()
        }
    }

    /// What to try after a clustering that leaks: fewer categories, and more weight for whom it hides from.
    pub(crate) fn after_leak(&self) -> Self {
        ClusterConfig {
            rep_groups: 1,
            rep_size: (self.rep_size / self.rep_groups / 2).clamp(2, 8),
            beta_act: self.beta_act / 3.0,
            ..self.clone()
        }
    }
}

crate::settings! {
    /// Phase 2: average returns of clusters (Equation 4).
    pub struct ReturnsConfig in "returns" {
        /// Steps of training; 0 takes 1,500, but fewer where episodes are few and short: their luck would be learned by heart.
        steps: usize = 0, paper: 5_000, within: 0..=1_000_000_000;
        /// Batch size: trajectories in a step.
        batch: usize = 100, within: 1..=100_000;
        /// Hidden width.
        hidden: usize = 128, paper: 512, within: 1..=8192;
        /// Hidden layers.
        layers: usize = 2, within: 1..=64;
        /// Normalisation of hidden layers.
        normalization: Norm = Norm::Layer, paper: Norm::Batch;
        /// Learning rate.
        learning_rate: f64 = 1e-3, paper: 1e-4, within: 0.0..=1.0;
        /// Learning rate decay: whether it falls to zero over the second half.
        decay: bool = true, paper: false;
        /// Weight decay.
        weight_decay: f64 = 0.01, within: 0.0..=1e9;
        /// Return scale: returns are divided by this; 0 standardises them by their mean and deviation.
        scale: f64 = 0.0, within: 0.0..=1e9;
        /// Time as an input: whether the predictor sees the steps since the start, `never`, `always`, or `auto`: where episodes
        /// are cut, and the same state is worth less the later it is reached.
        time: TimeInput = TimeInput::Auto, paper: TimeInput::Never;
        /// Draws of a cluster that a label is the mean of, where there are too many clusters to go through all of them.
        samples: usize = 16, within: 1..=4096;
    }
}

impl ReturnsConfig {
    /// The steps of training on so many episodes of a mean length. Seen again and again, the luck of an episode becomes the
    /// average return of its states, and levels rank luck; where episodes are long, there is more to learn of each.
    pub(crate) fn steps_on(&self, episodes: usize, mean_length: usize) -> usize {
        const MOST: usize = 1_500;
        const LEAST: usize = 150;
        const PASSES: usize = 50;
        if self.steps > 0 {
            return self.steps;
        }
        let passes = (PASSES * episodes).div_ceil(self.batch);
        passes.max(10 * mean_length).clamp(LEAST, MOST)
    }
}

/// What has a cluster of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// Every step: that of the rest of its trajectory.
    #[default]
    Step,
    /// Every trajectory: all of its steps have the cluster of the first, which sums up all of them. Near the end of a
    /// trajectory little is left to tell by who acts.
    Trajectory,
}

/// Whether time is an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TimeInput {
    /// Where episodes are cut.
    Auto,
    /// It is not.
    Never,
    /// It is.
    Always,
}

/// What the transition predictor sees beside the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransitionInput {
    /// The state and the action.
    Markov,
    /// All states and actions so far, as the theorem asks.
    History,
}

/// All that ESPER's first two phases go by.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EsperConfig {
    pub(crate) cluster: ClusterConfig,
    pub(crate) leakage: LeakageConfig,
    pub(crate) returns: ReturnsConfig,
}

impl EsperConfig {
    /// Bytes that the phase that takes most takes because of how many features there are.
    pub(crate) fn memory(&self, widths: &Widths) -> u64 {
        let features = usize::try_from(widths.both()).unwrap_or(usize::MAX);
        let ClusterConfig { hidden, batch, truncate, .. } =
            self.cluster.for_features(features, true);
        // The encoder; what predicts actions, in and out; what predicts observations, in and out.
        let layers = [widths.both(), widths.both(), widths.both(), widths.observation];
        let layers = layers.iter().fold(0u64, |all, &layer| all.saturating_add(layer));
        let steps = match widths.longest > truncate as u64 {
            true => widths.batch(batch).min(most_steps(hidden).max(truncate) as u64),
            false => widths.batch(batch),
        };
        // What follows, two predictions of it, their gradients, and what a loss makes of one of them; of actions logits, their
        // gradient, and what a loss makes of them.
        let matrices = memory::rows(6, steps, widths.observation).saturating_add(memory::rows(
            3,
            steps,
            widths.action,
        ));
        let training = memory::weights(layers, hidden).saturating_add(matrices);
        // Held-out episodes go through the predictor of the leakage, without gradients.
        let at_once = (STEPS_AT_ONCE as u64).min(widths.steps);
        training.max(memory::rows(5, at_once, widths.observation))
    }

    /// Whether a limit of memory makes batches smaller than they would be, so that something else is learned.
    pub(crate) fn is_limited(&self, widths: &Widths, memory: u64) -> bool {
        let features = usize::try_from(widths.both()).unwrap_or(usize::MAX);
        let ClusterConfig { hidden, batch, truncate, .. } =
            self.cluster.for_features(features, true);
        let longest = usize::try_from(widths.longest).unwrap_or(usize::MAX);
        let is_limited = |hidden: usize, batch: usize, longest: usize| {
            let most =
                if widths.longest > truncate as u64 { most_steps(hidden) } else { usize::MAX };
            steps_within(memory, hidden) < batch.saturating_mul(longest).min(most)
        };
        is_limited(hidden, batch, longest.min(truncate))
            || is_limited(self.returns.hidden, self.returns.batch, longest)
    }

    /// All of them.
    pub(crate) fn of(config: &Config) -> Result<Self, Error> {
        Ok(EsperConfig { cluster: config.get()?, leakage: config.get()?, returns: config.get()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Preset, Settings};

    /// Many episodes, or long ones, take all steps; few and short ones are seen fifty times.
    #[test]
    fn few_short_episodes_are_not_learned_by_heart() {
        let steps =
            |episodes, length| ReturnsConfig::preset(Preset::Quick).steps_on(episodes, length);
        assert_eq!([steps(10_000, 3), steps(2_000, 3), steps(300, 3)], [1_500, 1_000, 150]);
        assert_eq!([steps(300, 20), steps(300, 1_000)], [200, 1_500]);
        let said = ReturnsConfig { steps: 7, ..ReturnsConfig::preset(Preset::Quick) };
        assert_eq!(said.steps_on(300, 3), 7);
    }

    /// The numbers of the paper's tables.
    #[test]
    fn the_paper_is_the_paper() {
        let ClusterConfig { rep_size, rep_groups, beta_act, beta_adv, steps, .. } =
            ClusterConfig::preset(Preset::Paper);
        assert_eq!((rep_size, rep_groups, steps), (128, 4, 5_000));
        assert_eq!((beta_act, beta_adv), (0.05, 1.0));
        assert_eq!(ReturnsConfig::preset(Preset::Paper).steps, 5_000);
    }

    #[test]
    fn groups_divide_the_representation() {
        let problem = |rep_size: usize, rep_groups: usize| {
            let config = ClusterConfig { rep_size, rep_groups, ..ClusterConfig::default() };
            config.check().err().map(|error| error.to_string())
        };
        assert!(problem(128, 3).is_some_and(|words| words.contains("multiple")));
        assert!(problem(2048, 0).is_some_and(|words| words.contains("256")));
        assert_eq!((problem(0, 3), problem(8, 0)), (None, None));
    }

    /// Few categories where there is luck to tell, more of whole episodes, many where there is none; what was said stays.
    #[test]
    fn sizes_follow_from_the_data() {
        let data = crate::fixtures::discrete([3, 2], &[1], &[0, 1], &[0], &[1.0], &[]);
        let interface = Interface::of(&data);
        let following = |config: ClusterConfig, luck: bool, told: Condition| {
            let config = config.following(&interface, luck, told);
            config.check().unwrap();
            config
        };
        let sizes = |config: ClusterConfig, luck: bool| {
            let config = following(config, luck, Condition::StepLevel);
            (config.rep_size, config.rep_groups, config.hidden)
        };
        let usual = ClusterConfig::default;
        assert_eq!(sizes(usual(), true), (8, 1, 64));
        assert_eq!(sizes(usual(), false), (128, 4, 64));
        assert_eq!(sizes(ClusterConfig { rep_size: 32, hidden: 16, ..usual() }, true), (32, 1, 16));
        assert_eq!(sizes(ClusterConfig { rep_groups: 3, ..usual() }, true), (9, 3, 64));
        let whole = following(usual(), true, Condition::Level);
        assert_eq!((whole.rep_size, whole.rep_groups, whole.beta_act), (32, 4, 0.2));
        assert_eq!(following(usual(), false, Condition::Level).rep_size, 128);
    }
}
