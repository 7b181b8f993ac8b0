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
use esper_data::Window;
use esper_nn::{
    AdamWConfig, Device, GumbelSoftmax, GumbelSoftmaxConfig, Lstm, LstmConfig, LstmState, Mlp,
    MlpConfig, Noise, gather_rows, scale_gradient, squared_error,
};

use super::settings::ClusterConfig;
use super::transition::TransitionPredictor;
use crate::error::Error;
use crate::methods::Context;
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{Interface, Trajectories};
use crate::windows::{Windows, burn_in};

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

    /// The logits of every step's cluster, from the steps that are left of its trajectory: `[rows, rep_size]`, and the
    /// memory's state at the first steps.
    ///
    /// The memory runs backwards in time; `after` is its state after the last steps of windows that end before their
    /// trajectories do. Gradients flow through the batch and no further.
    fn logits(
        &self,
        batch: &Trajectories,
        after: Option<LstmState>,
        noise: &mut Noise,
    ) -> (Tensor<2>, LstmState) {
        let encoded = self.encoder.forward(batch.states_and_actions.clone(), noise);
        let (memory, state) = self.memory.forward(encoded, batch.offsets(), after);
        (self.logits.forward(memory, noise), state)
    }

    /// The memory's state after windows of a batch, by a burn-in over what comes next.
    fn state_after(
        &self,
        context: &Context<'_>,
        windows: Windows,
        batch: &Trajectories,
        device: &Device,
    ) -> Option<LstmState> {
        let Context { data, interface, .. } = *context;
        let packed = batch.packed.windows();
        // All windows that go on are as long as the longest: the others end with their trajectories.
        let longest = packed.first().map_or(0, |window| window.length);
        let goes_on = packed.iter().take_while(|window| window.length == longest);
        let next: Vec<Option<Window>> =
            goes_on.map(|&window| windows.after(data, window)).collect();
        burn_in(&next, device, |next| {
            let batch = Trajectories::new(data, interface, next, context.device);
            self.valid().logits(&batch, None, &mut Noise::new(0)).1
        })
    }

    /// A sample of every step's cluster, `[rows, rep_size]`, and the memory's state as in [`logits`](Self::logits).
    pub(super) fn sample(
        &self,
        batch: &Trajectories,
        after: Option<LstmState>,
        noise: &mut Noise,
    ) -> (Tensor<2>, LstmState) {
        let (logits, state) = self.logits(batch, after, noise);
        (self.gumbel.forward(logits, noise), state)
    }

    /// The probabilities of every step's clusters, `[rows, rep_size]`, and the memory's state as in
    /// [`logits`](Self::logits).
    pub(super) fn probabilities(
        &self,
        batch: &Trajectories,
        after: Option<LstmState>,
    ) -> (Tensor<2>, LstmState) {
        let (logits, state) = self.logits(batch, after, &mut Noise::new(0));
        (self.gumbel.probabilities(logits), state)
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
    windows: Windows,
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
            windows: Windows::of(context, config.truncate, config.hidden),
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
        let ClusterConfig { batch, beta_act, beta_adv, .. } = *self.config;
        let seed = self.seed.indexed(step as u64);
        let (mut rng, mut noise) = (seed.rng(), Noise::new(seed.named("noise").value()));
        let windows = self.windows.draw(data, split, batch, &mut rng, seed);
        let batch = Trajectories::new(data, interface, &windows, &self.device);
        let (theta, phi) = (self.theta.module(), self.phi.module());

        let after = theta.clusters.state_after(self.context, self.windows, &batch, &self.device);
        let before = phi.state_before(self.context, self.windows, &batch, &self.device);
        let (clusters, _) = theta.clusters.sample(&batch, after, &mut noise);
        let past = gather_rows(clusters.clone(), &batch.past(&mut rng));
        let predicted = theta.actions.forward(&batch, past, &mut noise);
        let action_loss = interface.action.reconstruction_loss(predicted, &batch.taken);

        let past = gather_rows(clusters, &batch.past(&mut rng));
        let against = scale_gradient(past, -beta_adv as f32);
        let next = phi.forward(&batch, against, before, &mut noise);
        let transition_loss = squared_error(next.with_clusters, batch.following.clone(), None);
        // Without clusters: what is left to be told about the next state.
        let baseline_loss = squared_error(next.without, batch.following.clone(), None);

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

    fn episodes(lengths: &[usize]) -> esper_data::Dataset {
        let steps: usize = lengths.iter().sum();
        let seen: Vec<u8> = (0..steps + lengths.len()).map(|at| (at % 5) as u8).collect();
        let taken: Vec<u8> = (0..steps).map(|at| (at % 2) as u8).collect();
        discrete([5, 2], lengths, &seen, &taken, &vec![0.0; steps], &[])
    }

    fn model(interface: &Interface) -> ClusterModel {
        let config =
            ClusterConfig { hidden: 8, rep_size: 8, rep_groups: 2, ..ClusterConfig::default() };
        ClusterModel::new(&config, interface, &cpu().autodiff(), &mut Seed::new(0).rng())
    }

    /// Cutting a trajectory does not cut values: window after window, from the last to the first, every step has the logits that
    /// it has in the whole.
    #[test]
    fn windows_carry_the_state_of_what_comes_after() {
        let data = episodes(&[9]);
        let interface = Interface::of(&data);
        let model = model(&interface).valid();
        let logits = |window: Window, after: Option<LstmState>| {
            let batch = Trajectories::new(&data, &interface, &[window], &cpu());
            let (logits, state) = model.logits(&batch, after, &mut Noise::new(0));
            (crate::policy::floats(logits), state)
        };
        let (whole, _) = logits(Window::whole(&data, 0), None);
        for length in [1, 2, 3, 8, 9] {
            let (mut parts, mut after) = (Vec::new(), None);
            for window in crate::windows::cut(&data, 0, length).into_iter().rev() {
                let (part, state) = logits(window, after.take());
                parts.splice(0..0, part);
                after = Some(state);
            }
            assert_eq!(parts.len(), whole.len());
            for (whole, part) in whole.iter().zip(parts) {
                assert!((whole - part).abs() < 1e-5, "{length}: {whole} {part}");
            }
        }
    }

    /// Where a burn-in reaches the end of a trajectory, a window in a batch has the logits that its steps have in the whole: the
    /// first and the second of three windows of one trajectory, the last of another, and a short one between them.
    #[test]
    fn a_burn_in_gives_windows_their_state() {
        let data = episodes(&[7, 2, 5]);
        let interface = Interface::of(&data);
        let model = model(&interface);
        let given = crate::fixtures::Given::of(episodes(&[1; 20]), 0);
        let context = Context { data: &data, interface: &interface, ..given.context() };
        let windows = Windows::of(&context, 3, 8);
        let window = |episode, start, length| Window { episode, start, length };
        let some = [window(1, 0, 2), window(2, 3, 2), window(0, 3, 3), window(2, 0, 3)];
        let device = cpu().autodiff();
        let batch = Trajectories::new(&data, &interface, &some, &device);
        let after = model.state_after(&context, windows, &batch, &device);
        let (logits, _) = model.logits(&batch, after, &mut Noise::new(0));
        let logits = crate::policy::floats(logits);
        for (at, window) in batch.packed.windows().iter().enumerate() {
            let whole = Trajectories::new(
                &data,
                &interface,
                &[Window::whole(&data, window.episode)],
                &device,
            );
            let (expected, _) = model.logits(&whole, None, &mut Noise::new(0));
            let expected = crate::policy::floats(expected);
            for time in 0..window.length {
                let row = batch.offsets()[time] + at;
                let (row, same) = (row * 8, (window.start + time) * 8);
                for cell in 0..8 {
                    let (found, expected) = (logits[row + cell], expected[same + cell]);
                    assert!((found - expected).abs() < 1e-5, "{window:?} {found} {expected}");
                }
            }
        }
    }
}
