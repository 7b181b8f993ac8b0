//! Phase 2: the average return of clusters (Equation 4), which is what steps are labelled with.
//!
//! > L(ψ) = ‖R_t - f_ψ(I, s_t, a_t)‖²

use std::sync::{Mutex, PoisonError};

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use esper_data::{Rng, Seed};
use esper_nn::{
    AdamWConfig, Device, Mlp, MlpConfig, Noise, Repeated, RowsIn, SparseRows, alone, squared_error,
};
use rayon::prelude::*;

use super::clusters::{Clusters, Representatives, parts};
use super::settings::{ReturnsConfig, TimeInput};
use crate::error::Error;
use crate::features::Scale;
use crate::methods::Context;
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{Clock, StepRows};
use crate::windows::{Windows, batches};

/// `f(I, s_t, a_t)`, in units of its scale.
pub(crate) struct ReturnPredictor {
    pub(crate) mlp: Mlp,
    scale: Scale,
    /// The lowest and the highest return: no average is beyond them.
    range: [f32; 2],
    /// Where time is an input.
    clock: Option<Clock>,
}

/// Steps that are labelled at once: whole episodes of them, or parts of longer ones.
const STEPS_AT_ONCE: usize = 2_048;

impl ReturnPredictor {
    /// Learns the average returns of clusters that do not change any more.
    pub(crate) fn train(
        context: &Context<'_>,
        (config, truncate): (&ReturnsConfig, usize),
        clusters: &Clusters,
        returns: &[f32],
        phase: &str,
    ) -> Result<Self, Error> {
        let device = context.device.clone().autodiff();
        let seed = context.seed.named(phase);
        let scale = if config.scale > 0.0 {
            Scale { mean: 0.0, deviation: config.scale }
        } else {
            Scale::of(context.data.step_rows().map(|row| f64::from(returns[row])))
        };
        let clock = match config.time {
            TimeInput::Never => None,
            TimeInput::Auto if !Clock::matters(context.data) => None,
            TimeInput::Auto | TimeInput::Always => Some(Clock::of(context.data)),
        };
        let inputs = context.interface.width() + clusters.width() + usize::from(clock.is_some());
        let mlp = MlpConfig::new(inputs, 1)
            .with_hidden(config.hidden)
            .with_layers(config.layers)
            .with_normalization(config.normalization.into())
            .init(&device, &mut seed.named("initialisation").rng());
        let optimizer = AdamWConfig::new().with_weight_decay(config.weight_decay);
        let mut learner = Regression {
            context,
            clusters,
            returns,
            scale,
            clock,
            batch: config.batch,
            windows: Windows::of(context, truncate, config.hidden),
            device,
            seed,
            mlp: Trained::new(mlp, &optimizer, config.learning_rate),
        };
        let episodes = context.data.episodes();
        let steps = config.steps_on(episodes, context.data.steps() / episodes.max(1));
        let schedule = Schedule { steps, decay: config.decay };
        train(&mut learner, phase, schedule, context.monitor)?;
        let observed = || context.data.step_rows().map(|row| returns[row]);
        let lowest = observed().fold(f32::INFINITY, f32::min);
        let highest = observed().fold(f32::NEG_INFINITY, f32::max);
        let (mlp, range) = (learner.mlp.into_module(), [lowest, highest]);
        Ok(ReturnPredictor { mlp, scale, range, clock })
    }

    /// The label of every step: the expectation of `f` over its clusters. One pass over the data.
    pub(crate) fn label(
        &self,
        context: &Context<'_>,
        clusters: &Clusters,
        samples: usize,
    ) -> Result<Vec<f32>, Error> {
        let (mlp, data) = (self.mlp.valid(), context.data);
        let parts: Vec<Vec<usize>> = parts(data, 0..data.episodes(), STEPS_AT_ONCE).collect();
        // With the number of steps that are done, so that progress is told in order.
        let labelled = Mutex::new((vec![0.0f32; data.rows()], 0));
        let label = |(part, episodes): (usize, &Vec<usize>)| {
            if context.monitor.stop() {
                return Err(Error::Stopped);
            }
            let mut rng = context.seed.named("label").indexed(part as u64).rng();
            for windows in batches(data, episodes, STEPS_AT_ONCE) {
                let steps = StepRows::of_windows(data, windows.into_iter());
                let some = (&steps, samples);
                let labels = alone(|| self.label_steps(&mlp, context, clusters, some, &mut rng));
                let mut kept = labelled.lock().unwrap_or_else(PoisonError::into_inner);
                let (kept, done) = &mut *kept;
                steps.steps.iter().zip(labels).for_each(|(&step, label)| kept[step] = label);
                *done += steps.steps.len();
                context.monitor.progress("label", *done, data.steps());
            }
            Ok(())
        };
        parts.par_iter().enumerate().try_for_each(label)?;
        let (mut labels, _) = labelled.into_inner().unwrap_or_else(PoisonError::into_inner);
        let [lowest, highest] = self.range;
        labels.iter_mut().for_each(|label| *label = label.clamp(lowest, highest));
        Ok(labels)
    }

    /// The expectation of `f` for each of some steps, in their order.
    fn label_steps(
        &self,
        mlp: &Mlp,
        context: &Context<'_>,
        clusters: &Clusters,
        (steps, samples): (&StepRows, usize),
        rng: &mut Rng,
    ) -> Vec<f32> {
        // Every step as often as it has representatives, in turn.
        let (mut drawn, mut of) = (Representatives::default(), Vec::new());
        let own = clusters.of_steps(&steps.steps);
        for at in 0..steps.steps.len() {
            own.represent(at, samples, rng, &mut drawn);
            of.resize(drawn.weights.len(), at as u32);
        }
        let Representatives { columns, weights, .. } = drawn;
        let ends = (1..=weights.len() as u32).map(|row| row * clusters.groups() as u32);
        let repeated = Repeated {
            rows: inputs(context, self.clock, steps, context.device),
            of: of.into(),
            ones: SparseRows::new(clusters.width(), ends.collect(), columns),
        };
        let predicted: Vec<f32> = mlp
            .forward_repeated(&repeated, &mut Noise::new(0))
            .into_data()
            .try_to_vec()
            .expect("predictions are floats");
        let mut labels = vec![0.0; steps.steps.len()];
        for ((&at, weight), predicted) in repeated.of.iter().zip(weights).zip(predicted) {
            labels[at as usize] += weight * self.scale.undo(predicted) as f32;
        }
        labels
    }
}

/// What the predictor sees of some steps beside their clusters.
fn inputs(
    context: &Context<'_>,
    clock: Option<Clock>,
    steps: &StepRows,
    device: &Device,
) -> RowsIn {
    let rows = context.interface.states_and_actions(context.data, steps, device);
    match clock {
        Some(clock) => rows.with(clock.column(&steps.times, device)),
        None => rows,
    }
}

struct Regression<'a> {
    context: &'a Context<'a>,
    clusters: &'a Clusters,
    returns: &'a [f32],
    scale: Scale,
    clock: Option<Clock>,
    batch: usize,
    windows: Windows,
    device: Device,
    seed: Seed,
    mlp: Trained<Mlp>,
}

impl Learner for Regression<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let Context { data, split, .. } = *self.context;
        let seed = self.seed.indexed(step as u64);
        let mut rng = seed.rng();
        let windows = self.windows.draw_steps(data, split, self.batch, &mut rng, seed);
        let rows = StepRows::of_windows(data, windows.into_iter());
        let (mut ends, mut columns) = (Vec::new(), Vec::new());
        let own = self.clusters.of_steps(&rows.steps);
        for at in 0..rows.steps.len() {
            own.draw(at, &mut rng, &mut columns);
            ends.push(columns.len() as u32);
        }
        let drawn = SparseRows::new(self.clusters.width(), ends, columns);
        let scaled: Vec<f32> = rows
            .steps
            .iter()
            .map(|&step| self.scale.apply(f64::from(self.returns[step])))
            .collect();
        let targets =
            Tensor::from_data(TensorData::new(scaled, [rows.steps.len(), 1]), &self.device);
        let input = inputs(self.context, self.clock, &rows, &self.device).with_ones(&drawn);
        let noise = &mut Noise::new(seed.named("noise").value());
        let loss = squared_error(self.mlp.module().forward(input, noise), targets, None);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.mlp.step(pace, &mut loss.backward());
        vec![("return_loss", measured)]
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.mlp]
    }
}
