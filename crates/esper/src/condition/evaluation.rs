//! Fitted Q evaluation: what a policy is worth when it acts as it does, from the data alone.
//!
//! > Q(s_t, a_t, t, u) ← r_t + E_{a ~ π(· | s_{t+1}, t + 1, u)} Q(s_{t+1}, a, t + 1, u)
//!
//! One network knows all levels u, and as one more the behaviour that was logged, whose next action is the logged one. That one's
//! worth is also known for sure, as the mean of returns; by what it is wrong there, everything is put right. Where what follows
//! depends on what came before, beside the state, networks see the step before, too. Several networks each learn from a bootstrap
//! sample of the episodes: their mean is the estimate, and how far they are apart the interval.

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use esper_data::{Cells, Dataset, Moments, Rng, Seed, Space};
use esper_nn::{
    AdamWConfig, Device, Mlp, MlpConfig, Noise, Normalization, RowsIn, SparseRows, mix,
    squared_error,
};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::Condition;
use super::counted::Counted;
use super::levels::Starts;
use super::promises::LEVELS;
use crate::actions::softmax;
use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::policy::{Policy, column, floats};
use crate::surprises::{depend_on_past, rewards_of};
use crate::training::{Checkpointed, Learner, PartOf, Schedule, Trained, train};
use crate::trajectories::{Clock, StepRows};
use crate::transitions::Transitions;

crate::settings! {
    /// How promises of levels are made.
    pub struct PromiseConfig in "promise" {
        /// Estimator: `values` evaluates the policy as it acts (by counting, or fitted Q evaluation where states hardly ever come
        /// again), `labels` calibrates labels on held-out episodes, `auto` takes values unless they would have to be fitted and
        /// episodes are long: errors add up along an episode.
        estimator: Estimator = Estimator::Auto;
        /// Networks, each of a bootstrap sample of the episodes; how far they are apart makes the interval.
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

/// Trainings that tell whether what came before matters.
const TESTS: usize = 3;

/// How far the target moves towards the values in a step.
const TOWARDS: f64 = 0.02;

/// The share of steps that learn from returns, before values learn from values.
const WARM: f64 = 0.2;

/// The level that stands for the behaviour that was logged.
const LOGGED: usize = LEVELS.len();

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
    /// By level, what it is worth on average by each of some bootstrap samples of the episodes.
    pub(super) samples: Vec<Vec<f64>>,
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
        match transitions {
            Some(transitions) => {
                let chooses = context.condition(true)? == Condition::StepLevel;
                let counted = Counted::new(transitions, &log);
                Ok(Some(counted.evaluate(&log, context, chooses, seed)))
            }
            None => learned(&log, context, &config, &episodes, seed).map(Some),
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

    /// How far from its mean a level's worth may be, with nine chances of ten.
    pub(super) fn margin(&self, level: usize) -> f64 {
        // Student's t at 95% by degrees of freedom: few samples do not know their own deviation well.
        const T: [f64; 10] = [6.31, 2.92, 2.35, 2.13, 2.02, 1.94, 1.89, 1.86, 1.83, 1.81];
        let samples = &self.samples[level];
        let t = T.get(samples.len().saturating_sub(2)).copied().unwrap_or(1.7);
        let of_mean = Moments::of(samples.iter().copied()).standard_error();
        t * of_mean * (samples.len() as f64).sqrt()
    }
}

/// Evaluates by networks, one for each bootstrap sample.
fn learned<'a>(
    log: &Log,
    context: &Context<'a>,
    config: &PromiseConfig,
    episodes: &[usize],
    seed: Seed,
) -> Result<Evaluated<'a>, Error> {
    let part = |part: usize| PartOf {
        monitor: context.monitor,
        phase: "promise",
        part,
        parts: TESTS + config.models,
    };
    let hides = depend_on_past(context, episodes, seed.named("past"), &part)?;
    let past = hides.then(|| rewards_of(context));
    let starts = log.starts(context);
    let mut evaluated = Evaluated {
        counts: vec![1.0; starts.len()],
        values: vec![vec![0.0; starts.len()]; LEVELS.len()],
        samples: vec![Vec::new(); LEVELS.len()],
        starts,
        hides,
    };
    for model in 0..config.models {
        let seed = seed.indexed(model as u64);
        let counts = log.bootstrap(seed);
        let mut learner = Evaluation::new((log, past), context, config, &counts, seed);
        let schedule = learner.schedule();
        let part = part(TESTS + model);
        train(&mut learner, &part.name(), schedule, &part)?;
        let values = learner.of_starts();
        // What it is wrong by where the truth is known.
        let error = log.mean_return - Moments::of(values[LOGGED].iter().copied()).mean;
        for (level, of_level) in values[..LOGGED].iter().enumerate() {
            let of_starts = || of_level.iter().map(|value| value + error);
            for (sum, value) in evaluated.values[level].iter_mut().zip(of_starts()) {
                *sum += value / config.models as f64;
            }
            let weighted = of_starts().zip(&counts).map(|(value, &count)| value * f64::from(count));
            evaluated.samples[level].push(weighted.sum::<f64>() / counts.len() as f64);
        }
    }
    Ok(evaluated)
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
    last: Vec<bool>,
    /// Where the steps of every episode begin; then where the last one ends.
    pub(super) first: Vec<usize>,
    returns: Vec<f32>,
    mean_return: f64,
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
        let mean_return = Moments::of(starts.map(|&at| f64::from(returns[at]))).mean;
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
            mean_return,
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

    fn starts<'a>(&self, context: &Context<'a>) -> Starts<'a> {
        let starts = self.first[..self.episodes()].iter();
        let rows = starts.map(|&at| self.rows.observations[at]).collect();
        Starts::of_rows(context.data, &context.interface.observation, rows)
    }
}

/// Values that are learning: `Q(s, ·, t, u)` of a choice, `Q(s, a, t, u)` otherwise.
struct Evaluation<'a> {
    log: &'a Log,
    /// The scale of rewards, where networks see what came before.
    past: Option<Scale>,
    context: &'a Context<'a>,
    config: &'a PromiseConfig,
    /// Rows of the bootstrap sample.
    drawn: Vec<u32>,
    clock: Clock,
    /// Rewards are divided by it.
    scale: f32,
    device: Device,
    seed: Seed,
    values: Trained<Mlp>,
    target: Mlp,
}

impl<'a> Evaluation<'a> {
    fn new(
        (log, past): (&'a Log, Option<Scale>),
        context: &'a Context<'a>,
        config: &'a PromiseConfig,
        counts: &[u32],
        seed: Seed,
    ) -> Self {
        let device = context.device.clone().autodiff();
        let interface = context.interface;
        let (inputs, outputs) = match log.choice {
            true => (interface.observation.width(), log.outputs),
            false => (interface.width(), 1),
        };
        let inputs = inputs + past.map_or(0, |_| interface.past_width());
        let values = MlpConfig::new(inputs + 1 + LEVELS.len() + 1, outputs)
            .with_hidden(config.hidden)
            .with_normalization(Normalization::Layer)
            .init(&device, &mut seed.named("initialisation").rng());
        let mut drawn = Vec::new();
        for (episode, &count) in counts.iter().enumerate() {
            for _ in 0..count {
                drawn.extend((log.first[episode]..log.first[episode + 1]).map(|at| at as u32));
            }
        }
        let returns = log.returns.iter().map(|&returned| f64::from(returned));
        let deviation = Moments::of(returns).population_std() as f32;
        Evaluation {
            log,
            past,
            context,
            config,
            drawn,
            clock: Clock::of(context.data),
            scale: if deviation > 0.0 { deviation } else { 1.0 },
            device,
            seed,
            target: values.valid(),
            values: Trained::new(
                values,
                &AdamWConfig::new().with_weight_decay(0.0),
                config.learning_rate,
            ),
        }
    }

    fn schedule(&self) -> Schedule {
        let longest =
            (1..self.log.first.len()).map(|at| self.log.first[at] - self.log.first[at - 1]);
        let steps = match self.config.steps {
            0 => 3_500 + 60 * longest.max().unwrap_or(1),
            steps => steps,
        };
        Schedule { steps, decay: true }
    }

    /// What the network sees of some rows of the log under some levels: state, level, time, and the action unless all of them
    /// are put out.
    fn inputs(
        &self,
        rows: &StepRows,
        levels: &[usize],
        actions: Option<&Cells>,
        device: &Device,
    ) -> RowsIn {
        let Context { data, interface, .. } = *self.context;
        let told = SparseRows::new(
            LEVELS.len() + 1,
            (1..=levels.len() as u32).collect(),
            levels.iter().map(|&level| level as u32).collect(),
        );
        let states = match actions {
            None => interface.states(data, &rows.observations, device),
            Some(actions) => {
                let every: Vec<usize> = (0..levels.len()).collect();
                interface.states_with(data, &rows.observations, (actions.view(), &every), device)
            }
        };
        let states = match self.past {
            Some(rewards) => states.beside(interface.past(data, rows, rewards, device)),
            None => states,
        };
        states.with_ones(&told).with(self.clock.column(&rows.times, device))
    }

    /// Appends the action that was taken in a row of the log.
    fn taken(&self, row: usize, actions: &mut Cells) {
        let cells = self.context.interface.action.encoding().space().cells();
        actions.extend_from(self.log.actions.view(), row * cells..(row + 1) * cells);
    }

    /// What some rows of the log are worth under some levels, when the policy chooses, by a network.
    fn worth(&self, network: &Mlp, at: &[usize], levels: &[usize], rng: &mut Rng) -> Vec<f32> {
        let Context { data, interface, device, .. } = *self.context;
        let rows = self.log.rows.only(at);
        let outputs = self.log.outputs;
        let noise = &mut Noise::new(0);
        let policy = |row: usize, level: usize| &self.log.policy[level][row * outputs..][..outputs];
        if self.log.choice {
            let values = floats(network.forward(self.inputs(&rows, levels, None, device), noise));
            let worth = |((values, &row), &level): ((&[f32], &usize), &usize)| match level {
                LOGGED => values[self.log.actions.category(row)],
                level => values.iter().zip(policy(row, level)).map(|(q, p)| q * p).sum(),
            };
            return values.chunks_exact(outputs).zip(at).zip(levels).map(worth).collect();
        }
        let mut actions = Cells::empty(data.action_type());
        for (&row, &level) in at.iter().zip(levels) {
            match level {
                LOGGED => self.taken(row, &mut actions),
                level => interface.action.draw(policy(row, level), rng, &mut actions),
            }
        }
        floats(network.forward(self.inputs(&rows, levels, Some(&actions), device), noise))
    }

    /// By level, the logged behaviour last, what every start is worth.
    fn of_starts(&self) -> Vec<Vec<f64>> {
        let network = self.values.module().valid();
        let starts = &self.log.first[..self.log.episodes()];
        let mut rng = self.seed.named("starts").rng();
        let of_level = |level: usize| {
            let mut values = Vec::with_capacity(starts.len());
            for part in starts.chunks(4_096) {
                let worth = self.worth(&network, part, &vec![level; part.len()], &mut rng);
                values.extend(worth.iter().map(|value| f64::from(value * self.scale)));
            }
            values
        };
        (0..=LOGGED).map(of_level).collect()
    }
}

impl Learner for Evaluation<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let Context { data, discount, .. } = *self.context;
        let mut rng = self.seed.indexed(step as u64).rng();
        let at: Vec<usize> = (0..self.config.batch)
            .map(|_| self.drawn[rng.random_range(0..self.drawn.len())] as usize)
            .collect();
        let levels: Vec<usize> = at.iter().map(|_| rng.random_range(0..=LOGGED)).collect();
        let warm = (step as f64) < WARM * self.schedule().steps as f64;
        let targets: Vec<f32> = if warm {
            at.iter().map(|&row| self.log.returns[row] / self.scale).collect()
        } else {
            // The last step has no next: whatever stands there counts for nothing.
            let next: Vec<usize> =
                at.iter().map(|&row| if self.log.last[row] { row } else { row + 1 }).collect();
            let after = self.worth(&self.target, &next, &levels, &mut rng);
            let target = |(&row, after): (&usize, f32)| {
                let reward = data.rewards()[self.log.rows.steps[row]] / self.scale;
                reward + if self.log.last[row] { 0.0 } else { discount as f32 * after }
            };
            at.iter().zip(after).map(target).collect()
        };
        let rows = self.log.rows.only(&at);
        let noise = &mut Noise::new(0);
        let module = self.values.module();
        let predicted = if self.log.choice {
            let values = module.forward(self.inputs(&rows, &levels, None, &self.device), noise);
            let taken = at.iter().map(|&row| self.log.actions.category(row) as i32);
            let taken = TensorData::new(taken.collect::<Vec<i32>>(), [at.len(), 1]);
            values.gather(1, Tensor::<2, Int>::from_data(taken, &self.device))
        } else {
            let mut actions = Cells::empty(data.action_type());
            at.iter().for_each(|&row| self.taken(row, &mut actions));
            module.forward(self.inputs(&rows, &levels, Some(&actions), &self.device), noise)
        };
        let loss = squared_error(predicted, column(targets, &self.device), None);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.values.step(pace, &mut loss.backward());
        self.target = mix(self.target.clone(), &self.values.module().valid(), TOWARDS);
        vec![("value_loss", measured)]
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.values, &mut self.target]
    }
}
