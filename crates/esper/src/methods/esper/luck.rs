//! Leakage where it counts: labels against the luck that changed returns.
//!
//! With V any guess at what is still to come, and A(s, a) the mean of the surprise δ = r + V(s') - V(s) after taking a in s, chance
//! gave
//!
//! > B_t = δ_t - A(s_t, a_t)
//!
//! in step t: zero on average whoever acts, because what follows (s, a) is up to the world alone. The sum over an episode is its
//! luck. Surprises are small where values are large: a network that predicts them errs by little, and little adds up. A label that says who acted, and no more, is the same whether chance was kind or not. What the first state and
//! action explain of a label was there before chance had a say, and does not count.
//!
//! V and A of an episode are learned from others (two halves, each by the other).

use burn::module::Module;
use esper_data::{Moments, Seed};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, Normalization, RowsIn, squared_error};
use rand::RngExt;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::condition::StartLevels;
use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::policy::{column, floats};
use crate::training::{Checkpointed, Learner, PartOf, Schedule, Trained, train};
use crate::trajectories::{Clock, StepRows};

/// What first labels tell about the luck of their episodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LuckInLabels {
    /// How much of episodes' luck labels explain, as a correlation: 0 is nothing, 1 is all of it.
    pub correlation: f64,
    /// The correlation that labels without any luck in them would show at most, with nineteen chances of twenty.
    pub noise: f64,
    /// The share of the variance of returns that is luck.
    pub share: f64,
}

impl LuckInLabels {
    /// Whether no luck was found in labels: within noise, within what is tolerated, or there is hardly any luck.
    pub fn is_clean(&self, tolerance: f64) -> bool {
        self.correlation <= tolerance.max(self.noise) || self.share < LEAST_SHARE
    }
}

/// Less of returns than this is no luck but an error of the values.
const LEAST_SHARE: f64 = 0.02;

/// The luck of every episode.
pub(crate) struct Luck {
    /// By episode.
    of_episodes: Vec<f64>,
    share: f64,
    /// What episodes have in common before chance has a say: like starts, the same first action.
    groups: Vec<usize>,
}

/// The most episodes that are looked at: half of them is learned from, half is measured.
const MOST_STEPS: usize = 400_000;

/// Labels of a group are told apart by so many heights, if there are enough of them.
const HEIGHTS: usize = 5;
const ENOUGH: usize = 40;

impl Luck {
    /// Learns what every episode owes to luck.
    pub(crate) fn of(context: &Context<'_>, steps: usize) -> Result<Self, Error> {
        let data = context.data;
        let seed = context.seed.named("luck");
        let mut order: Vec<usize> = (0..data.episodes()).collect();
        order.shuffle(&mut seed.rng());
        let mut total = 0;
        order.retain(|&episode| {
            let within = total < MOST_STEPS;
            total += data.length(episode);
            within
        });
        let halves = order.split_at(order.len() / 2);
        let mut of_episodes = vec![f64::NAN; data.episodes()];
        for (half, (learned, measured)) in [halves, (halves.1, halves.0)].into_iter().enumerate() {
            let values = Values::train(context, learned, measured, steps, half)?;
            for part in measured.chunks(EPISODES_AT_ONCE) {
                values.luck(context, part, &mut of_episodes);
            }
        }
        let returns = order.iter().map(|&episode| data.episode_return(episode));
        let known = order.iter().map(|&episode| of_episodes[episode]);
        let variance = |moments: Moments| moments.population_std().powi(2);
        let share = variance(Moments::of(known)) / variance(Moments::of(returns)).max(1e-300);
        let groups = StartLevels::groups(context, seed.named("starts"));
        Ok(Luck { of_episodes, share: share.min(1.0), groups })
    }

    /// Whether chance has a say in returns.
    pub(crate) fn is_there(&self) -> bool {
        self.share >= LEAST_SHARE
    }

    /// What first labels tell about it.
    pub(crate) fn in_labels(&self, labels: &[f32], context: &Context<'_>) -> LuckInLabels {
        let data = context.data;
        let label = |episode: usize| labels[data.episode_steps(episode).start];
        let mut members: Vec<Vec<usize>> =
            vec![Vec::new(); self.groups.iter().max().map_or(0, |most| most + 1)];
        let known = |episode: &usize| !self.of_episodes[*episode].is_nan();
        (0..data.episodes()).filter(known).for_each(|it| members[self.groups[it]].push(it));
        let all = members.iter().flatten().map(|&episode| f64::from(label(episode)));
        // Labels that differ by a hair are the same.
        let hair = 1e-3 * Moments::of(all.collect::<Vec<_>>().into_iter()).population_std();
        let (mut explained, mut whole, mut chance, mut count) = (0.0, 0.0, 0.0, 0usize);
        for group in &mut members {
            if group.len() < ENOUGH {
                continue;
            }
            group.sort_by(|&a, &b| label(a).total_cmp(&label(b)).then(a.cmp(&b)));
            let luck = Moments::of(group.iter().map(|&episode| self.of_episodes[episode]));
            let variance = luck.population_std().powi(2);
            whole += variance * group.len() as f64;
            count += group.len();
            // Heights of about as many episodes each; equal labels stay together.
            let size = (group.len() / HEIGHTS).max(ENOUGH);
            let (mut start, mut heights) = (0, 0);
            while start < group.len() {
                let mut end = (start + size).min(group.len());
                while end < group.len()
                    && f64::from(label(group[end]) - label(group[end - 1])) <= hair
                {
                    end += 1;
                }
                let some = group[start..end].iter().map(|&episode| self.of_episodes[episode]);
                let difference = Moments::of(some).mean - luck.mean;
                explained += difference.powi(2) * (end - start) as f64;
                (start, heights) = (end, heights + 1);
            }
            // By chance alone every height but one takes a share of the variance.
            chance += (heights - 1) as f64 * variance;
        }
        if whole <= 0.0 {
            return LuckInLabels { correlation: 0.0, noise: 0.0, share: self.share };
        }
        LuckInLabels {
            correlation: ((explained - chance).max(0.0) / whole).sqrt(),
            noise: 1.65 / (count as f64).sqrt(),
            share: self.share,
        }
    }
}

/// V and A of some episodes.
struct Values {
    ahead: Mlp,
    taken: Mlp,
    scale: Scale,
    /// That of surprises.
    surprise: Scale,
    clock: Clock,
}

impl Values {
    /// Learns from some episodes; for how long A is learned, others decide, whose surprises are to be foreseen.
    fn train(
        context: &Context<'_>,
        episodes: &[usize],
        others: &[usize],
        steps: usize,
        half: usize,
    ) -> Result<Self, Error> {
        let seed = context.seed.named("luck").indexed(half as u64);
        let returns = context.returns_to_go();
        let rows = StepRows::of_episodes(context.data, episodes);
        let clock = Clock::of(context.data);
        let scale = Scale::of(rows.steps.iter().map(|&step| f64::from(returns[step])));
        // A rough guess at V will do: what is fitted closely is rough in another way, and harder to foresee.
        let rough = Schedule { steps: (steps / 3).max(1), decay: true };
        // What A is wrong by adds up along an episode. But learned for long it may know its episodes by heart.
        let mean_length = context.data.steps() / context.data.episodes().max(1);
        let mut times = vec![1, (mean_length / 30).clamp(1, 6)];
        times.dedup();
        // V and A of both halves.
        let part = |part: usize| PartOf {
            monitor: context.monitor,
            phase: "luck",
            part: 3 * half + part,
            parts: 6,
        };
        let observed = |step: usize| scale.apply(f64::from(returns[step]));
        let targets: Vec<f32> = rows.steps.iter().map(|&step| observed(step)).collect();
        let mut ahead = Regression::new(context, &rows, targets, clock, false, seed.named("v"));
        train(&mut ahead, &part(0).name(), rough, &part(0))?;
        let ahead = ahead.mlp.into_module().valid();
        let mut surprises = Vec::with_capacity(rows.steps.len());
        for part in episodes.chunks(EPISODES_AT_ONCE) {
            let rows = StepRows::of_episodes(context.data, part);
            surprises.extend(surprises_in(context, &ahead, scale, clock, &rows));
        }
        let surprise = Scale::of(surprises.iter().copied());
        let targets: Vec<f32> = surprises.into_iter().map(|it| surprise.apply(it)).collect();
        let mut best: Option<(f64, Values)> = None;
        for (at, times) in times.into_iter().enumerate() {
            let (targets, seed) = (targets.clone(), seed.named(["a", "longer"][at]));
            let mut taken = Regression::new(context, &rows, targets, clock, true, seed);
            let schedule = Schedule { steps: steps * times, decay: true };
            let part = part(1 + at);
            train(&mut taken, &part.name(), schedule, &part)?;
            let (ahead, taken) = (ahead.clone(), taken.mlp.into_module().valid());
            let values = Values { ahead, taken, scale, surprise, clock };
            let error = values.squared_error(context, others);
            if best.as_ref().is_none_or(|(least, _)| error < *least) {
                best = Some((error, values));
            }
        }
        best.map(|(_, values)| values).ok_or(Error::Stopped)
    }

    /// What chance gave in every step of some episodes, and what else A does not foresee.
    fn by_chance(&self, context: &Context<'_>, episodes: &[usize]) -> Vec<f64> {
        let rows = StepRows::of_episodes(context.data, episodes);
        let taken = predictions(context, &self.taken, self.clock, true, &rows);
        let surprises = surprises_in(context, &self.ahead, self.scale, self.clock, &rows);
        surprises.iter().zip(taken).map(|(it, taken)| it - self.surprise.undo(taken)).collect()
    }

    /// The mean square of it.
    fn squared_error(&self, context: &Context<'_>, episodes: &[usize]) -> f64 {
        let (mut sum, mut count) = (0.0, 0usize);
        for part in episodes.chunks(EPISODES_AT_ONCE) {
            let by_chance = self.by_chance(context, part);
            sum += by_chance.iter().map(|it| it * it).sum::<f64>();
            count += by_chance.len();
        }
        sum / count.max(1) as f64
    }

    /// Writes the luck of some episodes.
    fn luck(&self, context: &Context<'_>, episodes: &[usize], luck: &mut [f64]) {
        let mut by_chance = self.by_chance(context, episodes).into_iter();
        for &episode in episodes {
            luck[episode] = by_chance.by_ref().take(context.data.length(episode)).sum();
        }
    }
}

/// For every step of some whole episodes by how much its reward and what is still to come after it exceed what was still to come
/// before. Nothing comes after the last, which ends an episode or cuts it.
fn surprises_in(
    context: &Context<'_>,
    ahead: &Mlp,
    scale: Scale,
    clock: Clock,
    rows: &StepRows,
) -> Vec<f64> {
    let worth = predictions(context, ahead, clock, false, rows);
    let surprise = |at: usize| {
        let after = match rows.times.get(at + 1) {
            Some(&time) if time > 0 => context.discount * scale.undo(worth[at + 1]),
            _ => 0.0,
        };
        let reward = f64::from(context.data.rewards()[rows.steps[at]]);
        reward + after - scale.undo(worth[at])
    };
    (0..worth.len()).map(surprise).collect()
}

/// Episodes that are looked at together.
const EPISODES_AT_ONCE: usize = 200;

/// Steps that go through a network at once.
const STEPS_AT_ONCE: usize = 1 << 16;

/// What a network says of some steps.
fn predictions(
    context: &Context<'_>,
    mlp: &Mlp,
    clock: Clock,
    with_action: bool,
    rows: &StepRows,
) -> Vec<f32> {
    let all: Vec<usize> = (0..rows.steps.len()).collect();
    let mut predicted = Vec::with_capacity(all.len());
    // Parts of about one size: a product of a handful of rows is summed up in another order.
    let parts = all.len().div_ceil(STEPS_AT_ONCE).max(1);
    for part in all.chunks(all.len().div_ceil(parts).max(1)) {
        let input = input(context, &rows.only(part), clock, with_action, context.device);
        predicted.extend(floats(mlp.forward(input, &mut Noise::new(0))));
    }
    predicted
}

/// What a network sees of some steps: state and time, with the action or without.
fn input(
    context: &Context<'_>,
    rows: &StepRows,
    clock: Clock,
    with_action: bool,
    device: &Device,
) -> RowsIn {
    let Context { data, interface, .. } = *context;
    let seen = match with_action {
        true => interface.states_and_actions(data, rows, device),
        false => interface.states(data, &rows.observations, device),
    };
    seen.with(clock.column(&rows.times, device))
}

/// A number for every step, learned.
struct Regression<'a> {
    context: &'a Context<'a>,
    rows: &'a StepRows,
    targets: Vec<f32>,
    clock: Clock,
    with_action: bool,
    device: Device,
    seed: Seed,
    mlp: Trained<Mlp>,
}

impl<'a> Regression<'a> {
    fn new(
        context: &'a Context<'a>,
        rows: &'a StepRows,
        targets: Vec<f32>,
        clock: Clock,
        with_action: bool,
        seed: Seed,
    ) -> Self {
        let device = context.device.clone().autodiff();
        let interface = context.interface;
        let seen = if with_action { interface.width() } else { interface.observation.width() };
        let mlp = MlpConfig::new(seen + 1, 1)
            .with_hidden(if with_action { 128 } else { 64 })
            .with_normalization(Normalization::Layer)
            .init(&device, &mut seed.named("initialisation").rng());
        let mlp = Trained::new(mlp, &AdamWConfig::new(), 2e-3);
        Regression { context, rows, targets, clock, with_action, device, seed, mlp }
    }
}

impl Learner for Regression<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let mut rng = self.seed.indexed(step as u64).rng();
        let at: Vec<usize> = (0..512).map(|_| rng.random_range(0..self.targets.len())).collect();
        let rows = self.rows.only(&at);
        let targets = column(at.iter().map(|&at| self.targets[at]).collect(), &self.device);
        let input = input(self.context, &rows, self.clock, self.with_action, &self.device);
        let predicted = self.mlp.module().forward(input, &mut Noise::new(0));
        let loss = squared_error(predicted, targets, None);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.mlp.step(pace, &mut loss.backward());
        vec![("value_loss", measured)]
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.mlp]
    }
}
