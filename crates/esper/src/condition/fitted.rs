//! Fitted Q evaluation: what a policy is worth when it acts as it does, by networks.
//!
//! > Q(s_t, a_t, t, u) ← r_t + E_{a ~ π(· | s_{t+1}, t + 1, u)} Q(s_{t+1}, a, t + 1, u)
//!
//! One network knows all levels u, and as one more the behaviour that was logged, whose next action is the logged one. That one's
//! worth is also known for sure, as the mean of returns; by what it is wrong there, everything is put right. Where what follows
//! depends on what came before, beside the state, networks see the step before, too.
//!
//! Networks come in pairs, each of which learns from one half of the episodes: their mean is the estimate, and how far they are apart
//! the interval. What the two halves do not agree on, of what actions are worth, is chance; and a policy that chooses among actions
//! may have chosen by it. So not all of what it gains on the logged behaviour counts ([`Agreement`]).

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use esper_data::{Cells, Moments, Rng, Seed};
use esper_nn::{
    AdamWConfig, Device, Mlp, MlpConfig, Noise, Normalization, RowsIn, SparseRows, mix,
    squared_error,
};
use rand::RngExt;

use super::evaluation::{Evaluated, Log, PromiseConfig, student};
use super::promises::LEVELS;
use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::policy::{column, floats};
use crate::surprises::{depend_on_past, rewards_of};
use crate::training::{Checkpointed, Learner, PartOf, Schedule, Trained, train};
use crate::trajectories::{Clock, StepRows};

/// Trainings that tell whether what came before matters.
const TESTS: usize = 3;

/// How far the target moves towards the values in a step.
const TOWARDS: f64 = 0.02;

/// The share of steps that learn from returns, before values learn from values.
const WARM: f64 = 0.2;

/// Steps in which two networks are compared, and the most numbers that describe them.
const COMPARED: usize = 4_096;
const MOST_NUMBERS: usize = 10_000_000;

/// The level that stands for the behaviour that was logged.
const LOGGED: usize = LEVELS.len();

/// What the policy is worth at every level, by networks, pair by pair.
pub(super) fn fitted<'a>(
    log: &Log,
    context: &Context<'a>,
    config: &PromiseConfig,
    episodes: &[usize],
    chooses: bool,
    seed: Seed,
) -> Result<Evaluated<'a>, Error> {
    let pairs = config.models.div_ceil(2);
    let part = |part: usize| PartOf {
        monitor: context.monitor,
        phase: "promise",
        part,
        parts: TESTS + 2 * pairs,
    };
    let hides = depend_on_past(context, episodes, seed.named("past"), &part)?;
    let past = hides.then(|| rewards_of(context));
    let starts = log.starts(context);
    // By level, the logged behaviour last, what every start is worth by all networks, and squares of by how much pairs differ.
    let mut values = vec![vec![0.0; starts.len()]; LEVELS.len() + 1];
    let mut apart = vec![0.0; LEVELS.len()];
    let mut agreements = vec![Agreement::default(); LEVELS.len()];
    for pair in 0..pairs {
        let seed = seed.indexed(pair as u64);
        let mut learned = Vec::new();
        for (at, half) in log.halves(seed).into_iter().enumerate() {
            let seed = seed.indexed(at as u64);
            let mut learner = Evaluation::new((log, past), context, config, &half, seed);
            let (schedule, part) = (learner.schedule(), part(TESTS + 2 * pair + at));
            train(&mut learner, &part.name(), schedule, &part)?;
            learned.push(learner);
        }
        let mut means = Vec::new();
        for learner in &learned {
            let of_starts = learner.of_starts();
            // What it is wrong by where the truth is known.
            let error = log.mean_return - Moments::of(of_starts[LOGGED].iter().copied()).mean;
            for (sum, of_level) in values.iter_mut().zip(&of_starts) {
                for (sum, value) in sum.iter_mut().zip(of_level) {
                    *sum += (value + error) / (2 * pairs) as f64;
                }
            }
            let mean = |of_level: &Vec<f64>| Moments::of(of_level.iter().copied()).mean + error;
            means.push(of_starts[..LOGGED].iter().map(mean).collect::<Vec<f64>>());
        }
        for (level, apart) in apart.iter_mut().enumerate() {
            *apart += (means[0][level] - means[1][level]).powi(2) / pairs as f64;
        }
        if chooses {
            for (level, agreement) in agreements.iter_mut().enumerate() {
                agreement.look(&learned[0], &learned[1], level, seed.named("agreement"));
            }
        }
    }
    let logged = values.pop().unwrap_or_default();
    let mut margins = Vec::new();
    for (level, of_level) in values.iter_mut().enumerate() {
        let no_chance = if chooses { agreements[level].share() } else { 1.0 };
        // Chosen by chance wherever there is some, a gain would count by this share; chosen by something else, for all it is.
        let (counts, doubt) = (f64::midpoint(1.0, no_chance), (1.0 - no_chance) / 2.0);
        let gain = Moments::of(of_level.iter().copied()).mean - log.mean_return;
        for (value, logged) in of_level.iter_mut().zip(&logged) {
            *value = logged + counts * (*value - logged);
        }
        // The mean of two halves varies half as much as they differ; that of all returns is known to within its error.
        let of_halves = student(pairs) * counts * apart[level].sqrt() / 2.0;
        let of_mean = student(log.episodes() - 1) * log.mean_error;
        margins.push(of_halves.hypot(of_mean).hypot(doubt * gain));
    }
    Ok(Evaluated { counts: vec![1.0; starts.len()], values, margins, starts, hides })
}

/// How far two networks that learned from different episodes agree on by how much actions differ.
#[derive(Clone, Copy, Default)]
struct Agreement {
    /// What they say in common: the sum of products.
    common: f64,
    /// All that they say: the sum of squares.
    all: f64,
}

impl Agreement {
    /// Compares what was done in some steps with what the policy would do there at any level.
    fn look(&mut self, one: &Evaluation<'_>, other: &Evaluation<'_>, level: usize, seed: Seed) {
        let mut rng = seed.rng();
        let rows = one.log.rows.steps.len();
        let most = (MOST_NUMBERS / one.context.interface.width()).clamp(1, COMPARED);
        let at: Vec<usize> = (0..most).map(|_| rng.random_range(0..rows)).collect();
        let others: Vec<usize> = at.iter().map(|_| rng.random_range(0..LOGGED)).collect();
        let drawn = one.drawn_actions(&at, &others, &mut rng);
        let [a, b] = [one, other].map(|of| of.differences(&at, level, &drawn));
        a.into_iter().zip(b).for_each(|(a, b)| self.add([a, b]));
    }

    fn add(&mut self, differences: [f32; 2]) {
        let [a, b] = differences.map(f64::from);
        self.common += a * b;
        self.all += (a * a).midpoint(b * b);
    }

    /// The share of what their mean says that is no chance: the rest is half as much in it as in each.
    fn share(self) -> f64 {
        let Agreement { common, all } = self;
        match all > 0.0 {
            true if common > 0.0 => 2.0 * common / (common + all),
            true => 0.0,
            false => 1.0,
        }
    }
}

/// Values that are learning: `Q(s, ·, t, u)` of a choice, `Q(s, a, t, u)` otherwise.
struct Evaluation<'a> {
    log: &'a Log,
    /// The scale of rewards, where networks see what came before.
    past: Option<Scale>,
    context: &'a Context<'a>,
    config: &'a PromiseConfig,
    /// Rows of the episodes that are learned from.
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
        episodes: &[usize],
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
        let steps = |&episode: &usize| log.first[episode] as u32..log.first[episode + 1] as u32;
        let drawn = episodes.iter().flat_map(steps).collect();
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

    /// What the policy told these levels might do in some rows of the log.
    fn drawn_actions(&self, at: &[usize], levels: &[usize], rng: &mut Rng) -> Cells {
        let (log, action) = (self.log, &self.context.interface.action);
        let mut actions = Cells::empty(self.context.data.action_type());
        for (&row, &level) in at.iter().zip(levels) {
            match level {
                LOGGED => self.taken(row, &mut actions),
                level => {
                    let told = &log.policy[level][row * log.outputs..][..log.outputs];
                    let logits: Vec<f32>;
                    let told = match log.choice {
                        true => {
                            logits = told.iter().map(|chance| chance.ln()).collect();
                            &logits
                        }
                        false => told,
                    };
                    action.draw(told, rng, &mut actions);
                }
            }
        }
        actions
    }

    /// In some rows of the log, by how much what was done is worth more than these actions, under a level.
    fn differences(&self, at: &[usize], level: usize, others: &Cells) -> Vec<f32> {
        let (network, rows) = (self.values.module().valid(), self.log.rows.only(at));
        let (levels, noise) = (vec![level; at.len()], &mut Noise::new(0));
        let device = self.context.device;
        if self.log.choice {
            let values = floats(network.forward(self.inputs(&rows, &levels, None, device), noise));
            let difference = |(place, (&row, values)): (usize, (&usize, &[f32]))| {
                values[self.log.actions.category(row)] - values[others.category(place)]
            };
            let values = values.chunks_exact(self.log.outputs);
            return at.iter().zip(values).enumerate().map(difference).collect();
        }
        let mut taken = Cells::empty(self.context.data.action_type());
        at.iter().for_each(|&row| self.taken(row, &mut taken));
        let mut worth = |actions: &Cells| {
            floats(network.forward(self.inputs(&rows, &levels, Some(actions), device), noise))
        };
        let (taken, others) = (worth(&taken), worth(others));
        taken.into_iter().zip(others).map(|(taken, other)| taken - other).collect()
    }

    /// What some rows of the log are worth under some levels, when the policy chooses, by a network.
    fn worth(&self, network: &Mlp, at: &[usize], levels: &[usize], rng: &mut Rng) -> Vec<f32> {
        let device = self.context.device;
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
        let actions = self.drawn_actions(at, levels, rng);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Of what both say ±1 is true, and as much is chance of their own: in their mean half as much, so that two thirds are true.
    #[test]
    fn what_two_halves_agree_on_is_no_chance() {
        let mut agreement = Agreement::default();
        for truth in [-1.0, 1.0] {
            for chances in [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]] {
                agreement.add(chances.map(|chance| truth + chance));
            }
        }
        assert_eq!(agreement.share(), 2.0 / 3.0);
        let of = |pairs: &[[f32; 2]]| {
            let mut agreement = Agreement::default();
            pairs.iter().for_each(|&pair| agreement.add(pair));
            agreement.share()
        };
        assert_eq!(of(&[[2.0, 2.0], [-1.0, -1.0]]), 1.0);
        assert_eq!(of(&[[2.0, -1.0], [-1.0, 2.0]]), 0.0);
        assert_eq!(of(&[[2.0, -2.0]]), 0.0);
        // Nothing to tell: actions are worth the same.
        assert_eq!(of(&[[0.0, 0.0]]), 1.0);
    }
}
