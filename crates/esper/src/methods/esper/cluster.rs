//! Phase 1: clusters of trajectories that help to predict actions and do not help to predict the world.
//!
//! Two losses take turns in the paper. Equation 2, for the cluster model and the action predictor (θ):
//!
//! > L(θ) = -β_act log p_θ(a_t | s_t, I) + β_adv log p_φ(s_{t+1} | s_0, a_0, …, s_t, a_t, I)
//!
//! and Equation 3, for the transition predictor (φ):
//!
//! > L(φ) = -log p_φ(s_{t+1} | s_0, a_0, …, s_t, a_t, I)
//!
//! Both come out of the same forward pass (Algorithm 2). So here they come out of the same backward pass too: the
//! gradient of L(φ) is turned round, and weighed with β_adv, where it reaches the clusters.

use burn::module::Module;
use burn::tensor::Tensor;
use esper_nn::{
    AdamWConfig, Device, GumbelSoftmax, GumbelSoftmaxConfig, Lstm, LstmConfig, Mlp, MlpConfig,
    Noise, gather_rows, scale_gradient, squared_error,
};

use super::settings::ClusterConfig;
use super::transition::TransitionPredictor;
use crate::error::Error;
use crate::methods::Context;
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{Interface, Trajectories};

/// From the rest of a trajectory to the logits of its cluster.
#[derive(Module, Debug)]
pub(crate) struct ClusterModel {
    encoder: Mlp,
    memory: Lstm,
    logits: Mlp,
    gumbel: GumbelSoftmax,
}

/// `p(a_t | s_t, I)`.
#[derive(Module, Debug)]
pub(crate) struct ActionPredictor {
    mlp: Mlp,
}

/// The two sides of Equation 2 that learn together: θ.
#[derive(Module, Debug)]
pub(crate) struct Theta {
    pub(crate) clusters: ClusterModel,
    pub(crate) actions: ActionPredictor,
}

impl ClusterModel {
    fn new(
        config: &ClusterConfig,
        interface: &Interface,
        device: &Device,
        rng: &mut esper_data::Rng,
    ) -> Self {
        let ClusterConfig { rep_size, rep_groups, hidden, layers, .. } = *config;
        let mut mlp = |inputs: usize, outputs: usize, layers: usize| {
            hidden_layers(config, inputs, outputs, layers).init(device, rng)
        };
        let encoder = mlp(interface.width(), hidden, layers);
        let logits = mlp(hidden, rep_size, 1);
        ClusterModel {
            encoder,
            logits,
            memory: LstmConfig::new(hidden, hidden).with_reverse(true).init(device, rng),
            gumbel: GumbelSoftmaxConfig::new(rep_groups, rep_size / rep_groups)
                .with_temperature(config.temperature)
                .with_hard(config.hard)
                .init(),
        }
    }

    /// The logits of every step's cluster, from the steps that are left of its trajectory: `[rows, rep_size]`.
    ///
    /// The memory runs backwards in time. Gradients flow through `truncate` steps of it; values through all.
    fn logits(&self, batch: &Trajectories, truncate: usize, noise: &mut Noise) -> Tensor<2> {
        let encoded = self.encoder.forward(batch.states_and_actions.clone(), noise);
        let offsets = batch.offsets();
        let times = offsets.len() - 1;
        let mut parts = Vec::new();
        let mut state = None;
        let mut end = times;
        while end > 0 {
            let start = end.saturating_sub(truncate);
            let (first, last) = (offsets[start], offsets[end]);
            let within: Vec<usize> = offsets[start..=end].iter().map(|at| at - first).collect();
            let rows = encoded.clone().narrow(0, first, last - first);
            let (hidden, carried) = self.memory.forward(rows, &within, state.take());
            parts.push(hidden);
            state = Some(carried);
            end = start;
        }
        parts.reverse();
        let memory = if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 0) };
        self.logits.forward(memory, noise)
    }

    /// A sample of every step's cluster: `[rows, rep_size]`.
    pub(super) fn sample(
        &self,
        batch: &Trajectories,
        truncate: usize,
        noise: &mut Noise,
    ) -> Tensor<2> {
        let logits = self.logits(batch, truncate, noise);
        self.gumbel.forward(logits, noise)
    }

    /// The probabilities of every step's clusters: `[rows, rep_size]`.
    pub(crate) fn probabilities(&self, batch: &Trajectories) -> Tensor<2> {
        let logits = self.logits(batch, usize::MAX, &mut Noise::new(0));
        self.gumbel.probabilities(logits)
    }
}

impl ActionPredictor {
    /// The parameters of the distribution over actions.
    pub(crate) fn forward(
        &self,
        batch: &Trajectories,
        clusters: Tensor<2>,
        noise: &mut Noise,
    ) -> Tensor<2> {
        self.mlp.forward(batch.states.clone().with(clusters), noise)
    }
}

/// The paper's MLPs: hidden layers of one width, normalised.
pub(super) fn hidden_layers(
    config: &ClusterConfig,
    inputs: usize,
    outputs: usize,
    layers: usize,
) -> MlpConfig {
    MlpConfig::new(inputs, outputs)
        .with_hidden(config.hidden)
        .with_layers(layers)
        .with_normalization(config.normalization.into())
}

/// Trains a clustering.
pub(crate) fn train_clusters(
    context: &Context<'_>,
    config: &ClusterConfig,
    phase: &str,
) -> Result<Theta, Error> {
    let mut learner = ClusterLearner::new(context, config, phase);
    let schedule = Schedule { steps: config.steps, decay: config.decay };
    train(&mut learner, phase, schedule, context.monitor)?;
    Ok(learner.theta.into_module())
}

/// The cluster model and the transition predictor, which learn against each other.
pub struct ClusterLearner<'a> {
    context: &'a Context<'a>,
    config: &'a ClusterConfig,
    device: Device,
    seed: esper_data::Seed,
    theta: Trained<Theta>,
    phi: Trained<TransitionPredictor>,
}

impl<'a> ClusterLearner<'a> {
    /// Begins; the phase names the random stream.
    pub fn new(context: &'a Context<'a>, config: &'a ClusterConfig, phase: &str) -> Self {
        let device = context.device.clone().autodiff();
        let seed = context.seed.named(phase);
        let mut rng = seed.named("initialisation").rng();
        let interface = context.interface;
        let clusters = ClusterModel::new(config, interface, &device, &mut rng);
        let inputs = interface.observation.width() + config.rep_size;
        let actions =
            hidden_layers(config, inputs, interface.action.reconstruction_outputs(), config.layers)
                .init(&device, &mut rng);
        let theta = Theta { clusters, actions: ActionPredictor { mlp: actions } };
        let phi = TransitionPredictor::new(config, interface, &device, &mut rng);
        let optimizer = AdamWConfig::new().with_weight_decay(config.weight_decay);
        ClusterLearner {
            context,
            config,
            device,
            seed,
            theta: Trained::new(theta, &optimizer, config.learning_rate),
            phi: Trained::new(phi, &optimizer, config.transition_learning_rate),
        }
    }
}

impl Learner for ClusterLearner<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let Context { data, interface, split, .. } = *self.context;
        let ClusterConfig { batch, truncate, beta_act, beta_adv, .. } = *self.config;
        let seed = self.seed.indexed(step as u64);
        let (mut rng, mut noise) = (seed.rng(), Noise::new(seed.named("noise").value()));
        let episodes = split.draw(batch, &mut rng);
        let batch = Trajectories::new(data, interface, &episodes, &self.device);
        let (theta, phi) = (self.theta.module(), self.phi.module());

        let clusters = theta.clusters.sample(&batch, truncate, &mut noise);
        let past = gather_rows(clusters.clone(), &batch.past(&mut rng));
        let predicted = theta.actions.forward(&batch, past, &mut noise);
        let action_loss = interface.action.reconstruction_loss(predicted, &batch.taken);

        let past = gather_rows(clusters, &batch.past(&mut rng));
        let against = scale_gradient(past, -beta_adv as f32);
        let (with_clusters, without) = phi.forward(&batch, against, &mut noise);
        let transition_loss = squared_error(with_clusters, batch.following.clone(), None);
        // Without clusters: what is left to be told about the next state.
        let baseline_loss = squared_error(without, batch.following.clone(), None);

        let measured = [
            ("action_loss", &action_loss),
            ("transition_loss", &transition_loss),
            ("baseline_loss", &baseline_loss),
        ]
        .map(|(name, loss)| (name, f64::from(loss.clone().into_scalar::<f32>())));
        let loss = action_loss * beta_act + transition_loss + baseline_loss;
        let mut gradients = loss.backward();
        self.theta.step(pace, &mut gradients);
        self.phi.step(pace, &mut gradients);
        measured.to_vec()
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.theta, &mut self.phi]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{cpu, discrete};
    use esper_data::Seed;

    /// Cutting gradients does not cut values: a cluster sums up the whole rest of its trajectory either way.
    #[test]
    fn truncation_is_for_gradients_only() {
        let lengths = [9, 1, 4, 7, 4];
        let steps: usize = lengths.iter().sum();
        let seen: Vec<u8> = (0..steps + lengths.len()).map(|at| (at % 5) as u8).collect();
        let taken: Vec<u8> = (0..steps).map(|at| (at % 2) as u8).collect();
        let data = discrete([5, 2], &lengths, &seen, &taken, &vec![0.0; steps], &[]);
        let interface = Interface::of(&data);
        let config =
            ClusterConfig { hidden: 8, rep_size: 8, rep_groups: 2, ..ClusterConfig::default() };
        let device = cpu().autodiff();
        let model = ClusterModel::new(&config, &interface, &device, &mut Seed::new(0).rng());
        let batch = Trajectories::new(&data, &interface, &[0, 1, 2, 3, 4], &device);
        let logits = |truncate: usize| -> Vec<f32> {
            let logits = model.logits(&batch, truncate, &mut Noise::new(0));
            logits.into_data().try_to_vec().unwrap()
        };
        let whole = logits(usize::MAX);
        for truncate in [1, 2, 3, 8, 9] {
            for (whole, part) in whole.iter().zip(logits(truncate)) {
                assert!((whole - part).abs() < 1e-5, "{truncate}: {whole} {part}");
            }
        }
    }
}
