//! Phase 3 with an MLP: state and label in, action out (Equation 5).
//!
//! > L(ξ) = -log π_ξ(a_t | s_t, label_t)

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use esper_data::{Cells, CellsRef, Dataset, Rng, Seed};
use esper_nn::{AdamWConfig, Mlp, MlpConfig, Noise, from_safetensors, to_safetensors};
use rand::RngExt;

use super::LabelInput;
use crate::agent::{Agent, Remaining};
use crate::config::MlpPolicyConfig;
use crate::error::Error;
use crate::features::{Column, encode};
use crate::training::{Learner, Monitor, Schedule, Trained, train};
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
    pub fn train(
        data: &Dataset,
        interface: &Interface,
        labels: &[f32],
        discount: f64,
        config: &MlpPolicyConfig,
        seed: Seed,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let device = Device::flex().autodiff();
        let seed = seed.named("policy");
        let input = LabelInput::of(labels);
        let mlp = network(config, interface, &device, &mut seed.named("initialisation").rng());
        let optimizer = AdamWConfig::new()
            .with_weight_decay(config.weight_decay)
            .with_warmup_steps(config.warmup)
            .with_max_norm(Some(config.max_norm));
        let everything: Vec<usize> = (0..data.episodes()).collect();
        let mut learner = Cloning {
            data,
            interface,
            rows: StepRows::of_episodes(data, &everything),
            labels: labels.iter().map(|&label| input.apply(f64::from(label))).collect(),
            batch: config.batch,
            device,
            seed,
            mlp: Trained::new(mlp, &optimizer, config.learning_rate),
        };
        let schedule = Schedule { steps: config.steps, decay: config.decay };
        train(&mut learner, "policy", schedule, monitor)?;
        let mlp = learner.mlp.into_module();
        Ok(MlpPolicy { mlp, interface: interface.clone(), labels: input, discount })
    }

    /// The weights.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_safetensors(&self.mlp)
    }

    /// A policy from its weights and what is kept beside them.
    pub fn from_safetensors(
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
        MlpAgent {
            policy: MlpPolicy { mlp: self.mlp.valid(), ..self.clone() },
            episodes: Vec::new(),
        }
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

/// Labels as a column: `[rows, 1]`.
fn column(labels: Vec<f32>, device: &Device) -> Tensor<2> {
    let rows = labels.len();
    Tensor::from_data(TensorData::new(labels, [rows, 1]), device)
}

struct Cloning<'a> {
    data: &'a Dataset,
    interface: &'a Interface,
    rows: StepRows,
    labels: Vec<f32>,
    batch: usize,
    device: Device,
    seed: Seed,
    mlp: Trained<Mlp>,
}

impl Learner for Cloning<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let seed = self.seed.indexed(step as u64);
        let mut rng = seed.rng();
        let drawn: Vec<usize> =
            (0..self.batch).map(|_| rng.random_range(0..self.rows.steps.len())).collect();
        let observations: Vec<usize> = drawn.iter().map(|&at| self.rows.observations[at]).collect();
        let steps: Vec<usize> = drawn.iter().map(|&at| self.rows.steps[at]).collect();
        let labels = steps.iter().map(|&step| self.labels[step]).collect();
        let input = self
            .interface
            .states(self.data, &observations, &self.device)
            .with(column(labels, &self.device));
        let noise = &mut Noise::new(seed.named("noise").value());
        let outputs = self.mlp.module().forward(input, noise);
        let taken = self.interface.taken(self.data, &steps, &self.device);
        let loss = self.interface.action.loss(outputs, &taken);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.mlp.step(pace, &mut loss.backward());
        vec![("policy_loss", measured)]
    }

    fn parts(&self) -> Vec<Vec<u8>> {
        self.mlp.parts().to_vec()
    }

    fn restore(&mut self, parts: &[Vec<u8>]) -> Result<(), Error> {
        self.mlp.restore(parts)
    }
}

/// Acts as the policy says.
pub struct MlpAgent {
    policy: MlpPolicy,
    episodes: Vec<Episode>,
}

struct Episode {
    remaining: Remaining,
    rng: Rng,
}

impl Agent for MlpAgent {
    fn begin(&mut self, place: usize, target: f64, seed: Seed) {
        let discount = self.policy.discount;
        let blank =
            || Episode { remaining: Remaining::new(0.0, discount), rng: Seed::new(0).rng() };
        if place >= self.episodes.len() {
            self.episodes.resize_with(place + 1, blank);
        }
        let remaining = Remaining::new(target, self.policy.discount);
        self.episodes[place] = Episode { remaining, rng: seed.rng() };
    }

    fn act(&mut self, observations: CellsRef<'_>, places: &[usize], actions: &mut Cells) {
        let MlpPolicy { mlp, interface, labels, .. } = &self.policy;
        let device = Device::flex();
        let column_of =
            Column { encoding: &interface.observation, cells: observations, rows: places };
        let targets = places
            .iter()
            .map(|&place| labels.apply(self.episodes[place].remaining.target()))
            .collect();
        let input = encode(&[column_of], &device).with(column(targets, &device));
        let outputs: Vec<f32> = mlp
            .forward(input, &mut Noise::new(0))
            .into_data()
            .try_to_vec()
            .expect("outputs are floats");
        let width = interface.action.outputs();
        for (&place, outputs) in places.iter().zip(outputs.chunks_exact(width)) {
            interface.action.draw(outputs, &mut self.episodes[place].rng, actions);
        }
    }

    fn reward(&mut self, place: usize, reward: f32) {
        self.episodes[place].remaining.receive(reward);
    }
}
