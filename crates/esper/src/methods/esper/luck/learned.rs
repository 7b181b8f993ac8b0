//! Luck where states hardly ever come again: networks learn V and A.
//!
//! Surprises are small where values are large, so a network that predicts them errs by little. V and A of an episode are learned
//! from others (two halves, each by the other). Then A is put right where it is measured: what of the rest is a linear function of the
//! network's features there (least squares) is no luck.

use burn::module::Module;
use burn::tensor::Tensor;
use esper_data::Seed;
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, Normalization, RowsIn, squared_error};
use rand::RngExt;

use super::least_squares::LeastSquares;
use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::policy::{column, floats};
use crate::training::{Checkpointed, Learner, PartOf, Schedule, Trained, train};
use crate::trajectories::{Clock, StepRows};

/// The luck of some episodes, in their order.
pub(super) fn of_episodes(
    context: &Context<'_>,
    episodes: &[usize],
    steps: usize,
) -> Result<Vec<f64>, Error> {
    let (first, second) = episodes.split_at(episodes.len() / 2);
    let of_second = Values::train(context, first, second, steps, 0)?.luck(context, second);
    let of_first = Values::train(context, second, first, steps, 1)?.luck(context, first);
    Ok([of_first, of_second].concat())
}

/// Hidden width of A; V is rougher.
const HIDDEN: usize = 128;

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

    /// The luck of some episodes.
    fn luck(&self, context: &Context<'_>, episodes: &[usize]) -> Vec<f64> {
        let mut rest = LeastSquares::new(HIDDEN);
        for part in episodes.chunks(EPISODES_AT_ONCE) {
            rest.add(&self.features(context, part), &self.by_chance(context, part));
        }
        let weights = rest.solve();
        let mut luck = Vec::with_capacity(episodes.len());
        for part in episodes.chunks(EPISODES_AT_ONCE) {
            let features = self.features(context, part);
            let foreseen = features.chunks_exact(HIDDEN).map(|row| weights.apply(row));
            let by_chance = self.by_chance(context, part);
            let mut left = by_chance.iter().zip(foreseen).map(|(all, foreseen)| all - foreseen);
            luck.extend(
                part.iter()
                    .map(|&episode| left.by_ref().take(context.data.length(episode)).sum::<f64>()),
            );
        }
        luck
    }

    /// What the last hidden layer of A makes of the steps of some episodes: `[steps, HIDDEN]`.
    fn features(&self, context: &Context<'_>, episodes: &[usize]) -> Vec<f32> {
        let rows = StepRows::of_episodes(context.data, episodes);
        let of = |input: RowsIn| {
            self.taken.features(&input, &mut Noise::new(0)).expect("it has hidden layers")
        };
        in_parts(context, self.clock, true, &rows, of)
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
    in_parts(context, clock, with_action, rows, |input| mlp.forward(input, &mut Noise::new(0)))
}

/// What is made of some steps, some of them at once.
fn in_parts(
    context: &Context<'_>,
    clock: Clock,
    with_action: bool,
    rows: &StepRows,
    of: impl Fn(RowsIn) -> Tensor<2>,
) -> Vec<f32> {
    let all: Vec<usize> = (0..rows.steps.len()).collect();
    let mut made = Vec::with_capacity(all.len());
    // Parts of about one size: a product of a handful of rows is summed up in another order.
    let parts = all.len().div_ceil(STEPS_AT_ONCE).max(1);
    for part in all.chunks(all.len().div_ceil(parts).max(1)) {
        let input = input(context, &rows.only(part), clock, with_action, context.device);
        made.extend(floats(of(input)));
    }
    made
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
            .with_hidden(if with_action { HIDDEN } else { HIDDEN / 2 })
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
