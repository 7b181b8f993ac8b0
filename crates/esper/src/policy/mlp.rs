//! Phase 3 with an MLP: state and label in, action out (Equation 5).
//!
//! > L(ξ) = -log π_ξ(a_t | s_t, label_t)

use burn::module::Module;
use burn::tensor::Device;
use esper_data::{Cells, CellsRef, Rng, Seed};
use esper_nn::{AdamWConfig, Mlp, MlpConfig, Noise, from_safetensors, to_safetensors};

use super::{Episodes, LabelInput, TrainingSet, column, floats};
use crate::agent::{Agent, Remaining};
use crate::config::MlpPolicyConfig;
use crate::error::Error;
use crate::features::{Column, encode};
use crate::statistics::normal;
use crate::training::{Kept, Learner, Monitor, Schedule, Trained, train};
use crate::trajectories::{Interface, StepRows};

/// A trained policy.
#[derive(Clone, Debug)]
pub struct MlpPolicy {
    mlp: Mlp,
    interface: Interface,
    labels: LabelInput,
    discount: f64,
}

impl MlpPolicy {
    /// Learns to do what was done, given the label it was done under. All steps count the same.
    pub(crate) fn train(
        set: &TrainingSet<'_>,
        config: &MlpPolicyConfig,
        seed: Seed,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let device = Device::flex().autodiff();
        let seed = seed.named("policy");
        let input = LabelInput::of(set.labels, set.data, set.episodes);
        let mlp = network(config, set.interface, &device, &mut seed.named("initialisation").rng());
        let optimizer = AdamWConfig::new()
            .with_weight_decay(config.weight_decay)
            .with_warmup_steps(config.warmup)
            .with_max_norm(Some(config.max_norm));
        let mut learner = Cloning {
            set,
            rows: StepRows::of_episodes(set.data, set.episodes),
            labels: set.labels.iter().map(|&label| input.apply(f64::from(label))).collect(),
            batch: config.batch,
            label_noise: config.label_noise as f32,
            device,
            seed,
            mlp: Trained::new(mlp, &optimizer, config.learning_rate),
        };
        let schedule = Schedule { steps: config.steps, decay: config.decay };
        train(&mut learner, "policy", schedule, monitor)?;
        let (mlp, interface) = (learner.mlp.into_module(), set.interface.clone());
        Ok(MlpPolicy { mlp, interface, labels: input, discount: set.discount })
    }

    /// The weights.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_safetensors(&self.mlp)
    }

    /// A policy from its weights and what is kept beside them.
    pub(crate) fn from_safetensors(
        bytes: &[u8],
        config: &MlpPolicyConfig,
        interface: Interface,
        labels: LabelInput,
        discount: f64,
    ) -> Result<Self, Error> {
        let device = Device::flex().autodiff();
        let blank = network(config, &interface, &device, &mut Seed::new(0).rng());
        let mlp = from_safetensors(blank, bytes)?;
        Ok(MlpPolicy { mlp, interface, labels, discount })
    }

    /// How observations and actions enter it.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// How labels enter it.
    pub fn labels(&self) -> &LabelInput {
        &self.labels
    }

    /// The policy as something that acts.
    pub fn agent(&self) -> MlpAgent {
        let policy = MlpPolicy { mlp: self.mlp.valid(), ..self.clone() };
        MlpAgent { policy, episodes: Episodes::default() }
    }
}

/// State features, then the label.
fn network(config: &MlpPolicyConfig, interface: &Interface, device: &Device, rng: &mut Rng) -> Mlp {
    MlpConfig::new(interface.observation.width() + 1, interface.action.outputs())
        .with_hidden(config.hidden)
        .with_layers(config.layers)
        .with_dropout(config.dropout)
        .init(device, rng)
}

struct Cloning<'a> {
    set: &'a TrainingSet<'a>,
    rows: StepRows,
    labels: Vec<f32>,
    batch: usize,
    label_noise: f32,
    device: Device,
    seed: Seed,
    mlp: Trained<Mlp>,
}

impl Learner for Cloning<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let TrainingSet { data, interface, .. } = *self.set;
        let seed = self.seed.indexed(step as u64);
        let drawn = self.rows.draw(self.batch, &mut seed.rng());
        let mut labels: Vec<f32> = drawn.steps.iter().map(|&step| self.labels[step]).collect();
        if self.label_noise > 0.0 {
            let mut rng = seed.named("labels").rng();
            labels.iter_mut().for_each(|label| *label += self.label_noise * normal(&mut rng));
        }
        let states = interface.states(data, &drawn.observations, &self.device);
        let input = states.with(column(labels, &self.device));
        let noise = &mut Noise::new(seed.named("noise").value());
        let outputs = self.mlp.module().forward(input, noise);
        let taken = interface.taken(data, &drawn.steps, &self.device);
        let loss = interface.action.loss(outputs, &taken);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.mlp.step(pace, &mut loss.backward());
        vec![("policy_loss", measured)]
    }

    fn kept(&mut self) -> Vec<&mut dyn Kept> {
        vec![&mut self.mlp]
    }
}

/// Acts as the policy says.
pub struct MlpAgent {
    policy: MlpPolicy,
    episodes: Episodes,
}

impl Agent for MlpAgent {
    fn begin(&mut self, place: usize, target: f64, seed: Seed) {
        self.episodes.begin(place, Remaining::new(target, self.policy.discount), seed);
    }

    fn act(&mut self, observations: CellsRef<'_>, places: &[usize], actions: &mut Cells) {
        let MlpPolicy { mlp, interface, labels, .. } = &self.policy;
        let device = Device::flex();
        let seen = Column { encoding: &interface.observation, cells: observations, rows: places };
        let targets =
            places.iter().map(|&place| labels.apply(self.episodes.target(place))).collect();
        let input = encode(&[seen], &device).with(column(targets, &device));
        let outputs = floats(mlp.forward(input, &mut Noise::new(0)));
        self.episodes.draw(&interface.action, &outputs, places, actions);
    }

    fn reward(&mut self, place: usize, reward: f32) {
        self.episodes.reward(place, reward);
    }
}
