//! Surprises: by how much what follows a step exceeds what was still to come, and networks that foresee them.
//!
//! > δ_t = r_t + V(s_{t+1}) - V(s_t)
//!
//! with any guess at V. What of them follows from state and action is no chance; and where observations show all of the state, what came
//! before says no more about them ([`depend_on_past`]).

use burn::module::Module;
use burn::tensor::Tensor;
use esper_data::{Moments, Seed};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, Normalization, RowsIn, squared_error};
use rand::RngExt;

use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::policy::{column, floats};
use crate::training::{Checkpointed, Learner, PartOf, Schedule, Trained, train};
use crate::trajectories::{Clock, StepRows};

/// Hidden width of what foresees surprises; guesses at V have half of it.
pub(crate) const HIDDEN: usize = 128;

/// What a network sees of a step beside the time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sees {
    /// The state.
    State,
    /// The state and the action.
    Action,
    /// Both, and what came before: state, action and reward, by this scale.
    Past(Scale),
}

/// Steps of training of what foresees surprises with the past and without it.
const STEPS: usize = 1_000;

/// By what share of the surprises' squares the past has to make them better foreseen.
const LEAST_GAIN: f64 = 0.01;

/// How many standard errors that has to be from nothing.
const SURE: f64 = 3.0;

/// Whether surprises depend on what came before, beside the state and the action, so that observations do not show all of the state (a
/// partially observed world): whether episodes that were not learned from are foreseen better with it. `part` names three parts
/// of a phase.
pub(crate) fn depend_on_past<'m>(
    context: &Context<'_>,
    episodes: &[usize],
    seed: Seed,
    part: &dyn Fn(usize) -> PartOf<'m>,
) -> Result<bool, Error> {
    let (learned, measured) = episodes.split_at(episodes.len() / 2);
    let [rows, others] = [learned, measured].map(|some| StepRows::of_episodes(context.data, some));
    let clock = Clock::of(context.data);
    let returns = context.returns_to_go();
    let scale = Scale::of(rows.steps.iter().map(|&step| f64::from(returns[step])));
    let targets = rows.steps.iter().map(|&step| scale.apply(f64::from(returns[step]))).collect();
    let mut ahead =
        StepRegression::new(context, &rows, targets, clock, Sees::State, seed.named("v"));
    let schedule = |steps: usize| Schedule { steps, decay: true };
    train(&mut ahead, &part(0).name(), schedule(STEPS / 3), &part(0))?;
    let ahead = ahead.into_network();
    let [known, tested] =
        [&rows, &others].map(|rows| surprises_in(context, &ahead, scale, clock, rows));
    let scale = Scale::of(known.iter().copied());
    let mut errors = Vec::new();
    for (at, sees) in [Sees::Action, Sees::Past(rewards_of(context))].into_iter().enumerate() {
        let targets = known.iter().map(|&surprise| scale.apply(surprise)).collect();
        let mut foreseeing =
            StepRegression::new(context, &rows, targets, clock, sees, seed.named("a"));
        let part = part(1 + at);
        train(&mut foreseeing, &part.name(), schedule(STEPS), &part)?;
        let foreseen = predictions(context, &foreseeing.into_network(), clock, sees, &others);
        let error = |(surprise, foreseen): (&f64, f32)| (surprise - scale.undo(foreseen)).powi(2);
        errors.push(tested.iter().zip(foreseen).map(error).collect::<Vec<f64>>());
    }
    // By episode, whose steps have luck in common.
    let mut first = 0;
    let gains = measured.iter().map(|&episode| {
        let steps = first..first + context.data.length(episode);
        first = steps.end;
        steps.map(|at| errors[0][at] - errors[1][at]).sum::<f64>()
    });
    let gains = Moments::of(gains.collect::<Vec<f64>>().into_iter());
    let whole = errors[0].iter().sum::<f64>() / measured.len().max(1) as f64;
    Ok(gains.mean > SURE * gains.standard_error() && gains.mean > LEAST_GAIN * whole)
}

/// The scale of rewards.
pub(crate) fn rewards_of(context: &Context<'_>) -> Scale {
    let rewards = context.data.rewards();
    Scale::of(context.data.step_rows().map(|row| f64::from(rewards[row])))
}

/// For every step of some whole episodes by how much its reward and what is still to come after it exceed what was still to come
/// before. Nothing comes after the last, which ends an episode or cuts it.
pub(crate) fn surprises_in(
    context: &Context<'_>,
    ahead: &Mlp,
    scale: Scale,
    clock: Clock,
    rows: &StepRows,
) -> Vec<f64> {
    let worth = predictions(context, ahead, clock, Sees::State, rows);
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

/// Steps that go through a network at once.
const STEPS_AT_ONCE: usize = 1 << 16;

/// What a network says of some steps.
pub(crate) fn predictions(
    context: &Context<'_>,
    mlp: &Mlp,
    clock: Clock,
    sees: Sees,
    rows: &StepRows,
) -> Vec<f32> {
    in_parts(context, clock, sees, rows, |input| mlp.forward(input, &mut Noise::new(0)))
}

/// What is made of some steps, some of them at once.
pub(crate) fn in_parts(
    context: &Context<'_>,
    clock: Clock,
    sees: Sees,
    rows: &StepRows,
    of: impl Fn(RowsIn) -> Tensor<2>,
) -> Vec<f32> {
    let all: Vec<usize> = (0..rows.steps.len()).collect();
    let mut made = Vec::with_capacity(all.len());
    // Parts of about one size: a product of a handful of rows is summed up in another order.
    let parts = all.len().div_ceil(STEPS_AT_ONCE).max(1);
    for part in all.chunks(all.len().div_ceil(parts).max(1)) {
        let input = input(context, &rows.only(part), clock, sees, context.device);
        made.extend(floats(of(input)));
    }
    made
}

/// What a network sees of some steps, and the time.
fn input(
    context: &Context<'_>,
    rows: &StepRows,
    clock: Clock,
    sees: Sees,
    device: &Device,
) -> RowsIn {
    let Context { data, interface, .. } = *context;
    let seen = match sees {
        Sees::State => interface.states(data, &rows.observations, device),
        Sees::Action => interface.states_and_actions(data, rows, device),
        Sees::Past(rewards) => interface
            .states_and_actions(data, rows, device)
            .beside(interface.past(data, rows, rewards, device)),
    };
    seen.with(clock.column(&rows.times, device))
}

/// A number for every step, learned.
pub(crate) struct StepRegression<'a> {
    context: &'a Context<'a>,
    rows: &'a StepRows,
    targets: Vec<f32>,
    clock: Clock,
    sees: Sees,
    device: Device,
    seed: Seed,
    mlp: Trained<Mlp>,
}

impl<'a> StepRegression<'a> {
    /// Begins.
    pub(crate) fn new(
        context: &'a Context<'a>,
        rows: &'a StepRows,
        targets: Vec<f32>,
        clock: Clock,
        sees: Sees,
        seed: Seed,
    ) -> Self {
        let device = context.device.clone().autodiff();
        let interface = context.interface;
        let (seen, hidden) = match sees {
            Sees::State => (interface.observation.width(), HIDDEN / 2),
            Sees::Action => (interface.width(), HIDDEN),
            Sees::Past(_) => (interface.width() + interface.past_width(), HIDDEN),
        };
        let mlp = MlpConfig::new(seen + 1, 1)
            .with_hidden(hidden)
            .with_normalization(Normalization::Layer)
            .init(&device, &mut seed.named("initialisation").rng());
        let mlp = Trained::new(mlp, &AdamWConfig::new(), 2e-3);
        StepRegression { context, rows, targets, clock, sees, device, seed, mlp }
    }

    /// What was learned.
    pub(crate) fn into_network(self) -> Mlp {
        self.mlp.into_module().valid()
    }
}

impl Learner for StepRegression<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let mut rng = self.seed.indexed(step as u64).rng();
        let at: Vec<usize> = (0..512).map(|_| rng.random_range(0..self.targets.len())).collect();
        let rows = self.rows.only(&at);
        let targets = column(at.iter().map(|&at| self.targets[at]).collect(), &self.device);
        let input = input(self.context, &rows, self.clock, self.sees, &self.device);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Given, discrete};

    /// A coin is shown at the start (state 0 or 1), then forgotten (state 2), then decides what is paid, or another coin does.
    fn coin(matters: bool) -> Given {
        let episodes = 600usize;
        let (mut seen, mut rewards) = (Vec::new(), Vec::new());
        for at in 0..episodes {
            let paid = if matters { at } else { at / 2 };
            seen.extend([(at % 2) as u8, 2, 3]);
            rewards.extend([0.0, (paid % 2) as f32]);
        }
        let taken: Vec<u8> = (0..2 * episodes).map(|at| (at / 7 % 2) as u8).collect();
        Given::of(discrete([4, 2], &vec![2; episodes], &seen, &taken, &rewards, &[]), 0)
    }

    #[test]
    fn what_is_forgotten_is_found_in_the_past() {
        for matters in [true, false] {
            let given = coin(matters);
            let context = given.context();
            let part = |part| PartOf { monitor: &crate::Unwatched, phase: "past", part, parts: 3 };
            // In an order in which neither half is special.
            let episodes: Vec<usize> = (0..600).map(|at| at * 7 % 600).collect();
            let found = depend_on_past(&context, &episodes, Seed::new(1), &part).unwrap();
            assert_eq!(found, matters);
        }
    }

    #[test]
    fn the_past_is_the_step_before() {
        let given = coin(true);
        let context = given.context();
        let rows = StepRows::of_episodes(context.data, &[0, 3]);
        let rewards = Scale { mean: 0.0, deviation: 0.5 };
        let past = context.interface.past(context.data, &rows, rewards, context.device);
        assert_eq!(past.features(), context.interface.past_width());
        let numbers = floats(past.to_dense(context.device));
        let of_step: Vec<&[f32]> = numbers.chunks_exact(past.features()).collect();
        // Nothing came before the first of an episode; before the second, state 0 or 1, something done, and no reward.
        assert_eq!((of_step[0], of_step[2]), (of_step[0], of_step[0]));
        assert_eq!((of_step[1][0], of_step[3][1]), (1.0, 1.0));
        assert_eq!([of_step[0][6], of_step[1][6], of_step[1][7]], [0.0, 1.0, 0.0]);
    }
}
