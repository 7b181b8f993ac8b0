//! What clusters tell about the world's own randomness, and what else is known about them, on held-out trajectories.

use std::collections::HashMap;

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use esper_data::{Moments, Seed, Space, Window};
use esper_nn::{AdamWConfig, Device, LstmState, Noise, gather_rows, squared_error};
use serde::{Deserialize, Serialize};

use super::cluster::Theta;
use super::clusters::{Clusters, STEPS_AT_ONCE, parts};
use super::luck::LuckInLabels;
use super::settings::{ClusterConfig, EsperConfig, LeakageConfig};
use super::transition::TransitionPredictor;
use crate::error::Error;
use crate::methods::Context;
use crate::settings::Norm;
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::Trajectories;
use crate::windows::{Windows, batches};

/// What is known about a clustering without the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clustering {
    /// Which attempt it is, the first being 1; phases of later ones have its number in their names.
    pub attempt: usize,
    /// How much the clusters help to predict the next state.
    pub leakage: Leakage,
    /// The mean of -log p(a_t | s_t, I), with clusters drawn as phase 1 draws them.
    pub action_loss: f64,
    /// Clusters (most likely ones) that at least one in a thousand steps has.
    pub clusters_used: usize,
    /// How many equally common clusters would be as hard to guess: e to the entropy.
    pub clusters_effective: f64,
    /// What first labels tell about the luck of their episodes, where that was looked for.
    #[serde(default)]
    pub luck: Option<LuckInLabels>,
    /// Whether no leak was found, or only one that is tolerated: of luck into labels where that was looked for; not known, and so
    /// `false`, in files of versions that did not say.
    #[serde(default)]
    pub clean: bool,
}

impl Clustering {
    /// Nothing is told apart, in place of a clustering.
    pub(super) fn nothing(attempt: usize, instead_of: &Clustering) -> Self {
        Clustering {
            attempt,
            leakage: Leakage { mean: 0.0, stderr: 0.0, ..instead_of.leakage },
            clusters_used: 1,
            clusters_effective: 1.0,
            luck: None,
            clean: true,
            ..instead_of.clone()
        }
    }
}

/// How much clusters help a fresh predictor to predict the next state of held-out trajectories.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Leakage {
    /// Loss without clusters minus loss with clusters, a mean over trajectories. Zero or less is none.
    pub mean: f64,
    /// Its standard error.
    pub stderr: f64,
    /// The loss without clusters: what there is to tell. Of real-valued observations at least 5% of their variance: what is
    /// less is an error of the predictor rather than chance, and whatever helps it is no leak.
    pub baseline: f64,
}

/// The least that counts as being there to tell, of standardised numbers.
const LEAST_TO_TELL: f64 = 0.05;

/// A gain that does not matter even where there is next to nothing to tell: features are one-hot or standardised.
const NEGLIGIBLE: f64 = 1e-5;

impl Leakage {
    /// What clusters tell, and its standard error, as shares of what there is to tell.
    pub fn share(&self) -> [f64; 2] {
        [self.mean, self.stderr].map(|value| value / self.baseline.max(f64::MIN_POSITIVE))
    }

    /// Whether no leak was found: what clusters tell is within noise, or within a tolerated share of what there is to
    /// tell. With few held-out trajectories much is within noise; the standard error says so.
    pub fn is_clean(&self, tolerance: f64) -> bool {
        self.mean <= (2.0 * self.stderr).max(tolerance * self.baseline + NEGLIGIBLE)
    }
}

/// The name of a phase in an attempt.
pub(crate) fn phase_of(name: &str, attempt: usize) -> String {
    match attempt {
        1 => name.to_owned(),
        _ => format!("{name}-{attempt}"),
    }
}

/// Measures a clustering on held-out trajectories.
pub(crate) fn examine(
    context: &Context<'_>,
    config: &EsperConfig,
    theta: &Theta,
    clusters: &Clusters,
    attempt: usize,
) -> Result<Clustering, Error> {
    let phase = &phase_of("leakage", attempt);
    let leakage = leakage(context, config, clusters, phase)?;
    let (theta, device) = (theta.valid(), context.device);
    let seed = context.seed.named(phase).named("actions");
    let (mut rng, mut noise) = (seed.rng(), Noise::new(seed.named("noise").value()));
    let (mut action_sum, mut steps) = (0.0, 0);
    let mut counts: HashMap<Vec<u32>, usize> = HashMap::new();
    // Window after window from the last to the first where an episode is long: the memory runs backwards.
    let mut after: Option<LstmState> = None;
    let ordered = held_out(context).flat_map(|mut batches| {
        batches.reverse();
        batches
    });
    for windows in ordered {
        let batch = Trajectories::new(context.data, context.interface, &windows, device);
        let goes_on = ends_early(context, &windows);
        let (sampled, state) =
            theta.clusters.sample(&batch, after.take().filter(|_| goes_on), &mut noise);
        after = Some(state);
        let past = gather_rows(sampled, &batch.past(&mut rng));
        let predicted = theta.actions.forward(&batch, past, &mut noise);
        let loss = context
            .interface
            .action
            .reconstruction_loss(predicted, &batch.taken)
            .into_scalar::<f32>();
        action_sum += f64::from(loss) * batch.packed.rows() as f64;
        steps += batch.packed.rows();
        let own = clusters.of_steps(batch.packed.step_rows());
        for at in 0..batch.packed.rows() {
            *counts.entry(own.likeliest(at)).or_default() += 1;
        }
    }
    let shares = counts.values().map(|&count| count as f64 / steps as f64);
    // Summed in a fixed order: that of a hash map changes from run to run.
    let mut entropies: Vec<f64> = shares.clone().map(|share| -share * share.ln()).collect();
    entropies.sort_by(f64::total_cmp);
    Ok(Clustering {
        attempt,
        leakage,
        action_loss: action_sum / steps as f64,
        clusters_used: shares.filter(|&share| share >= 1e-3).count(),
        clusters_effective: entropies.iter().sum::<f64>().exp(),
        luck: None,
        clean: leakage.is_clean(config.leakage.tolerance),
    })
}

/// Trains a fresh predictor on the clusters, and sees how much they help it on held-out trajectories.
fn leakage(
    context: &Context<'_>,
    config: &EsperConfig,
    clusters: &Clusters,
    phase: &str,
) -> Result<Leakage, Error> {
    let predictor = train_predictor(context, config, clusters, phase)?.valid();
    let device = context.device;
    let mut rng = context.seed.named(phase).named("held-out").rng();
    let mut gains = Vec::new();
    let mut baseline_sum = 0.0;
    for batches in held_out(context) {
        let mut before = None;
        let mut sums = vec![Sums::default(); batches[0].len()];
        for windows in batches {
            let batch = Trajectories::new(context.data, context.interface, &windows, device);
            let past = past_probabilities(clusters, &batch, &mut rng, device);
            let next = predictor.forward(&batch, past, before.take(), &mut Noise::new(0));
            before = next.state;
            let losses = row_losses(next.with_clusters, &batch.following);
            let baselines = row_losses(next.without, &batch.following);
            for bounds in batch.offsets().windows(2) {
                for (sums, row) in sums.iter_mut().zip(bounds[0]..bounds[1]) {
                    sums.add(losses[row], baselines[row]);
                }
            }
        }
        for sums in sums {
            let [loss, baseline] = [sums.loss, sums.baseline].map(|sum| sum / sums.steps as f64);
            gains.push(baseline - loss);
            baseline_sum += baseline;
        }
    }
    let gain = Moments::of(gains.iter().copied());
    let baseline = match context.interface.observation.space() {
        Space::Box { .. } | Space::Tuple { .. } => {
            (baseline_sum / gains.len() as f64).max(LEAST_TO_TELL)
        }
        _ => baseline_sum / gains.len() as f64,
    };
    Ok(Leakage { mean: gain.mean, stderr: gain.standard_error(), baseline })
}

/// What a predictor misses along an episode.
#[derive(Clone, Copy, Default)]
struct Sums {
    loss: f64,
    baseline: f64,
    steps: usize,
}

impl Sums {
    fn add(&mut self, loss: f32, baseline: f32) {
        self.loss += f64::from(loss);
        self.baseline += f64::from(baseline);
        self.steps += 1;
    }
}

/// A fresh predictor, trained on fixed clusters.
fn train_predictor(
    context: &Context<'_>,
    config: &EsperConfig,
    clusters: &Clusters,
    phase: &str,
) -> Result<TransitionPredictor, Error> {
    let device = context.device.clone().autodiff();
    let seed = context.seed.named(phase);
    let sizes = ClusterConfig {
        // At evaluation batch norm goes by running means, which two kinds of input would share.
        normalization: Norm::Layer,
        ..config.cluster.clone()
    };
    let mut rng = seed.named("initialisation").rng();
    let predictor = TransitionPredictor::new(&sizes, context.interface, &device, &mut rng);
    let LeakageConfig { steps, learning_rate, .. } = config.leakage;
    let mut learner = Predictor {
        context,
        clusters,
        batch: config.cluster.batch,
        windows: Windows::of(context, sizes.truncate, sizes.hidden),
        device,
        seed,
        predictor: Trained::new(predictor, &AdamWConfig::new(), learning_rate),
    };
    train(&mut learner, phase, Schedule { steps, decay: true }, context.monitor)?;
    Ok(learner.predictor.into_module())
}

struct Predictor<'a> {
    context: &'a Context<'a>,
    clusters: &'a Clusters,
    batch: usize,
    windows: Windows,
    device: Device,
    seed: Seed,
    predictor: Trained<TransitionPredictor>,
}

impl Learner for Predictor<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let Context { data, interface, split, .. } = *self.context;
        let seed = self.seed.indexed(step as u64);
        let mut rng = seed.rng();
        let windows = self.windows.draw(data, split, self.batch, &mut rng, seed);
        let batch = Trajectories::new(data, interface, &windows, &self.device);
        let past = past_probabilities(self.clusters, &batch, &mut rng, &self.device);
        let noise = &mut Noise::new(seed.named("noise").value());
        let predictor = self.predictor.module();
        let before = predictor.state_before(self.context, self.windows, &batch, &self.device);
        let next = predictor.forward(&batch, past, before, noise);
        let transition_loss = squared_error(next.with_clusters, batch.following.clone(), None);
        let baseline_loss = squared_error(next.without, batch.following.clone(), None);
        let measured = [("transition_loss", &transition_loss), ("baseline_loss", &baseline_loss)]
            .map(|(name, loss)| (name, f64::from(loss.clone().into_scalar::<f32>())));
        let mut gradients = (transition_loss + baseline_loss).backward();
        self.predictor.step(pace, &mut gradients);
        measured.to_vec()
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.predictor]
    }
}

/// For every row the probabilities of the clusters at a step drawn uniformly from 0..=t of the same trajectory:
/// `[rows, width]`. Probabilities, not a draw from them: a label is an expectation, so it can tell all that they tell.
fn past_probabilities(
    clusters: &Clusters,
    batch: &Trajectories,
    rng: &mut esper_data::Rng,
    device: &Device,
) -> Tensor<2> {
    let (past, width) = (batch.past_steps(rng), clusters.width());
    let some = clusters.of_steps(&past);
    let rows = some.probabilities().iter().map(|&probability| f32::from(probability) / 255.0);
    let rows: Vec<f32> = rows.collect();
    Tensor::from_data(TensorData::new(rows, [past.len(), width]), device)
}

/// The held-out episodes in parts that fit into memory, each a batch, or several that follow each other where an episode is
/// long.
fn held_out<'a>(context: &Context<'a>) -> impl Iterator<Item = Vec<Vec<Window>>> + use<'a> {
    let data = context.data;
    parts(data, context.split.held_out.iter().copied(), STEPS_AT_ONCE)
        .map(move |episodes| batches(data, &episodes, STEPS_AT_ONCE))
}

/// Whether a batch is a window that its episode goes on after.
fn ends_early(context: &Context<'_>, windows: &[Window]) -> bool {
    matches!(windows, [window] if window.end() < context.data.length(window.episode))
}

/// The squared error of every row, a mean over columns.
fn row_losses(predicted: Tensor<2>, following: &Tensor<2>) -> Vec<f32> {
    let squares = (predicted - following.clone()).square().mean_dim(1);
    squares.into_data().try_to_vec().expect("losses are floats")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Given, discrete};
    use rand::RngExt;

    #[test]
    fn clean_is_within_noise_or_tolerance() {
        let leakage = |mean, stderr| Leakage { mean, stderr, baseline: 1.0 };
        assert!(leakage(-0.1, 0.0).is_clean(0.0));
        assert!(leakage(0.1, 0.06).is_clean(0.0));
        assert!(!leakage(0.1, 0.04).is_clean(0.0));
        assert!(leakage(0.01, 0.0).is_clean(0.02));
    }

    /// Clusters that are the outcome of a coin, and clusters that are another coin.
    #[test]
    fn clusters_that_tell_the_future_are_found_out() {
        let mut rng = Seed::new(0).rng();
        let (mut states, mut telling, mut silent) = (Vec::new(), Vec::new(), Vec::new());
        let probabilities = |category: bool| if category { [0, 255] } else { [255, 0] };
        for _ in 0..2_000 {
            let coin: bool = rng.random();
            states.extend([0, 1 + u8::from(coin)]);
            telling.extend(probabilities(coin));
            silent.extend(probabilities(rng.random()));
        }
        let (lengths, taken, rewards) = ([1; 2_000], [0; 2_000], [0.0; 2_000]);
        let given = Given::of(discrete([3, 2], &lengths, &states, &taken, &rewards, &[]), 1);
        let config = EsperConfig {
            cluster: ClusterConfig {
                rep_size: 2,
                rep_groups: 1,
                hidden: 32,
                ..ClusterConfig::default()
            },
            leakage: LeakageConfig::default(),
            returns: Default::default(),
        };
        let measured = |probabilities| {
            let clusters = Clusters::new(1, 2, probabilities);
            leakage(&given.context(), &config, &clusters, "leakage").unwrap()
        };
        // A fair coin: variance 1/4 in two of three features.
        let told = measured(telling);
        assert!((told.baseline - 0.5 / 3.0).abs() < 0.01, "{told:?}");
        assert!((told.mean - told.baseline).abs() < 0.01 && !told.is_clean(0.02), "{told:?}");
        let nothing = measured(silent);
        assert!(nothing.mean.abs() < 0.01 && nothing.is_clean(0.02), "{nothing:?}");
    }
}
