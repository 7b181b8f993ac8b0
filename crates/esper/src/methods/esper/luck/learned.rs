//! Luck where states hardly ever come again: networks learn V and A.
//!
//! Surprises are small where values are large, so a network that predicts them errs by little. V and A of an episode are learned
//! from others (two halves, each by the other). Then A is put right where it is measured: what of the rest is a linear function of the
//! network's features there (least squares) is no luck.

use esper_nn::{Mlp, Noise, RowsIn};

use super::least_squares::LeastSquares;
use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::surprises::{HIDDEN, Sees, StepRegression, in_parts, predictions, surprises_in};
use crate::training::{PartOf, Schedule, train};
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

/// Episodes that are looked at together.
const EPISODES_AT_ONCE: usize = 200;

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
        let mut ahead =
            StepRegression::new(context, &rows, targets, clock, Sees::State, seed.named("v"));
        train(&mut ahead, &part(0).name(), rough, &part(0))?;
        let ahead = ahead.into_network();
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
            let mut taken = StepRegression::new(context, &rows, targets, clock, Sees::Action, seed);
            let schedule = Schedule { steps: steps * times, decay: true };
            let part = part(1 + at);
            train(&mut taken, &part.name(), schedule, &part)?;
            let (ahead, taken) = (ahead.clone(), taken.into_network());
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
        let taken = predictions(context, &self.taken, self.clock, Sees::Action, &rows);
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
        in_parts(context, self.clock, Sees::Action, &rows, of)
    }
}
