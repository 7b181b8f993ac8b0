//! The rank of every step's label among the labels of the same state, and time where that matters.
//!
//! Where states come again they are counted. Where they hardly ever do, a network learns the quantiles of labels given the state
//! (pinball regression), and the rank is where among them a label lies.

use std::collections::HashMap;

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use esper_data::{Dataset, Moments, Seed};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, Normalization, RowsIn};

use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::policy::{column, floats};
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{AllSteps, Clock, StepRows};

/// Steps of a state that make counting worth more than learning, on average.
const ENOUGH: usize = 50;

/// Labels that differ by less than this share of their deviation count as the same.
const SAME: f64 = 0.005;

/// Steps that are looked at together.
const ROWS_AT_ONCE: usize = 8_192;

/// Quantiles that are learned.
const QUANTILES: usize = 20;

/// For every step row the rank of its label, from this to that: equal labels share the ranks that they take up.
pub(super) fn of_steps(
    labels: &[f32],
    context: &Context<'_>,
    episodes: &[usize],
) -> Result<Vec<[f32; 2]>, Error> {
    let data = context.data;
    let rows = AllSteps::of(data, episodes);
    let deviation = Moments::of(rows.rows().map(|step| f64::from(labels[step]))).population_std();
    let same = (SAME * deviation) as f32;
    match counted(labels, same, data, &rows) {
        Some(ranks) => Ok(ranks),
        None => learned(labels, same, context, &rows),
    }
}

/// Ranks among the steps of exactly the same state; `None` where states are too many.
fn counted(
    labels: &[f32],
    same: f32,
    data: &Dataset,
    rows: &AllSteps<'_>,
) -> Option<Vec<[f32; 2]>> {
    let timed = Clock::matters(data);
    let cells = data.metadata().observation_space.cells();
    let most = rows.len() / ENOUGH;
    let mut states: HashMap<(Vec<u32>, u32), Vec<usize>> = HashMap::new();
    for start in (0..rows.len()).step_by(ROWS_AT_ONCE) {
        let end = (start + ROWS_AT_ONCE).min(rows.len());
        let some = rows.only(&(start..end).collect::<Vec<_>>());
        let few = data.with_observations(&some.observations, |seen, at| {
            for ((row, &step), &time) in at.iter().zip(&some.steps).zip(&some.times) {
                let time = if timed { time } else { 0 };
                let state = row * cells..(row + 1) * cells;
                let state = state.map(|cell| seen.number(cell).to_bits()).collect();
                states.entry((state, time)).or_default().push(step);
                if states.len() > most {
                    return false;
                }
            }
            true
        });
        if !few {
            return None;
        }
    }
    let mut ranks = vec![[0.0, 1.0]; data.rows()];
    for members in states.values() {
        let mut sorted: Vec<f32> = members.iter().map(|&step| labels[step]).collect();
        sorted.sort_by(f32::total_cmp);
        for &step in members {
            ranks[step] = rank(&sorted, labels[step], same);
        }
    }
    Some(ranks)
}

/// Where a number lies among some in order: those that are the same share their ranks, and one that is not among them lies
/// between its neighbours.
fn rank(sorted: &[f32], number: f32, same: f32) -> [f32; 2] {
    let count = sorted.len() as f32;
    let below = sorted.partition_point(|&other| other < number - same);
    let upto = sorted.partition_point(|&other| other <= number + same);
    if upto > below {
        return [below as f32 / count, upto as f32 / count];
    }
    match (below.checked_sub(1).map(|at| sorted[at]), sorted.get(below)) {
        (Some(under), Some(over)) => {
            let share = (number - under) / (over - under).max(f32::MIN_POSITIVE);
            let at = (below as f32 - 0.5 + share.clamp(0.0, 1.0)) / count;
            [at, at]
        }
        (None, _) => [0.0, 0.5 / count],
        (_, None) => [1.0 - 0.5 / count, 1.0],
    }
}

/// Ranks among the quantiles of labels given the state, which a network learns.
fn learned(
    labels: &[f32],
    same: f32,
    context: &Context<'_>,
    rows: &AllSteps<'_>,
) -> Result<Vec<[f32; 2]>, Error> {
    let device = context.device.clone().autodiff();
    let seed = context.seed.named("ranks");
    let clock = Clock::matters(context.data).then(|| Clock::of(context.data));
    let inputs = context.interface.observation.width() + usize::from(clock.is_some());
    let mlp = MlpConfig::new(inputs, QUANTILES)
        .with_hidden(128)
        .with_normalization(Normalization::Layer)
        .init(&device, &mut seed.named("initialisation").rng());
    let mut learner = Quantiles {
        context,
        labels,
        rows,
        clock,
        scale: Scale::of(rows.rows().map(|step| f64::from(labels[step]))),
        device,
        seed,
        mlp: Trained::new(mlp, &AdamWConfig::new(), 1e-3),
    };
    train(&mut learner, "ranks", Schedule { steps: 2_000, decay: true }, context.monitor)?;
    let (mlp, scale) = (learner.mlp.into_module().valid(), learner.scale);
    let mut ranks = vec![[0.0, 1.0]; context.data.rows()];
    for start in (0..rows.len()).step_by(ROWS_AT_ONCE) {
        let end = (start + ROWS_AT_ONCE).min(rows.len());
        let some = rows.only(&(start..end).collect::<Vec<_>>());
        let input = states(context, clock, &some, context.device);
        let quantiles = floats(mlp.forward(input, &mut Noise::new(0)));
        for (of_state, &step) in quantiles.chunks_exact(QUANTILES).zip(&some.steps) {
            let mut sorted: Vec<f32> = of_state.iter().map(|&q| scale.undo(q) as f32).collect();
            // A network's quantiles may cross.
            sorted.sort_by(f32::total_cmp);
            ranks[step] = rank(&sorted, labels[step], same);
        }
    }
    Ok(ranks)
}

/// What a network sees of some steps: the state, and the time where it matters.
fn states(context: &Context<'_>, clock: Option<Clock>, rows: &StepRows, device: &Device) -> RowsIn {
    let states = context.interface.states(context.data, &rows.observations, device);
    match clock {
        Some(clock) => states.with(clock.column(&rows.times, device)),
        None => states,
    }
}

struct Quantiles<'a> {
    context: &'a Context<'a>,
    labels: &'a [f32],
    rows: &'a AllSteps<'a>,
    clock: Option<Clock>,
    scale: Scale,
    device: Device,
    seed: Seed,
    mlp: Trained<Mlp>,
}

impl Learner for Quantiles<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let drawn = self.rows.draw(512, &mut self.seed.indexed(step as u64).rng());
        let label = |&step: &usize| self.scale.apply(f64::from(self.labels[step]));
        let targets = column(drawn.steps.iter().map(label).collect(), &self.device);
        let input = states(self.context, self.clock, &drawn, &self.device);
        let quantiles = self.mlp.module().forward(input, &mut Noise::new(0));
        let shares: Vec<f32> =
            (0..QUANTILES).map(|at| (at as f32 + 0.5) / QUANTILES as f32).collect();
        let shares = Tensor::<2>::from_data(TensorData::new(shares, [1, QUANTILES]), &self.device);
        // Pinball: a label above its quantile counts as the share, one below as the rest.
        let above = targets - quantiles;
        let loss = (above.clone() * shares.clone()).max_pair(above * (shares - 1.0)).mean();
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.mlp.step(pace, &mut loss.backward());
        vec![("quantile_loss", measured)]
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.mlp]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Given, discrete};

    /// In state 0 labels are 1, 2, 2, 3 again and again, in state 1 always 5.
    #[test]
    fn ranks_are_among_the_same_state() {
        let episodes = 400;
        let lengths = vec![1; episodes];
        let states: Vec<u8> = (0..episodes).flat_map(|at| [u8::from(at >= 200), 2]).collect();
        let taken: Vec<u8> = (0..episodes).map(|at| (at % 2) as u8).collect();
        let rewards = vec![0.0; episodes];
        let given = Given::of(discrete([3, 2], &lengths, &states, &taken, &rewards, &[]), 1);
        let label = |at: usize| if at < 200 { [1.0, 2.0, 2.0, 3.0][at % 4] } else { 5.0 };
        let labels: Vec<f32> = (0..episodes).map(label).collect();
        let all: Vec<usize> = (0..episodes).collect();
        let ranks = of_steps(&labels, &given.context(), &all).unwrap();
        assert_eq!(ranks[0], [0.0, 0.25]);
        assert_eq!((ranks[1], ranks[2]), ([0.25, 0.75], [0.25, 0.75]));
        assert_eq!((ranks[3], ranks[300]), ([0.75, 1.0], [0.0, 1.0]));
    }

    #[test]
    fn a_number_between_others_has_a_rank_between_theirs() {
        let sorted = [0.0, 1.0, 2.0, 3.0];
        assert_eq!(rank(&sorted, 1.5, 0.1), [0.5, 0.5]);
        assert_eq!(rank(&sorted, -1.0, 0.1), [0.0, 0.125]);
        assert_eq!(rank(&sorted, 9.0, 0.1), [0.875, 1.0]);
        assert_eq!(rank(&sorted, 2.05, 0.1), [0.5, 0.75]);
    }
}
