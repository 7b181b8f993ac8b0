//! Conservative Q-learning for a choice among actions: double DQN, and a term that keeps what nobody did from looking
//! good.
//!
//! > L = huber(Q(s, a) - r - γ Q'(s', argmax Q(s', ·))) + α (log Σ exp Q(s, ·) - Q(s, a))
//!
//! The last term is the cross-entropy of the actions taken, with the values as logits.

use burn::module::Module;
use burn::tensor::{Device, Int, Tensor, TensorData};
use esper_data::{Cells, CellsRef, Dataset, Rng, Seed};
use esper_nn::{
    AdamWConfig, Mlp, MlpConfig, Noise, cross_entropy, from_safetensors, to_safetensors,
};

use super::goes_on;
use crate::agent::Agent;
use crate::config::CqlConfig;
use crate::error::Error;
use crate::features::{Column, encode};
use crate::policy::{column, floats};
use crate::training::{Kept, Learner, Monitor, Schedule, Trained, train};
use crate::trajectories::{Interface, StepRows};

/// Takes the action that is worth most.
#[derive(Clone, Debug)]
pub struct QPolicy {
    values: Mlp,
    interface: Interface,
}

impl QPolicy {
    /// Learns what actions are worth.
    pub(crate) fn train(
        data: &Dataset,
        interface: &Interface,
        config: &CqlConfig,
        seed: Seed,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let device = Device::flex().autodiff();
        let seed = seed.named("values");
        let values = network(config, interface, &device, &mut seed.named("initialisation").rng());
        let everything: Vec<usize> = (0..data.episodes()).collect();
        // Adam: weights do not decay.
        let optimizer = AdamWConfig::new().with_weight_decay(0.0);
        let mut learner = Learning {
            data,
            interface,
            rows: StepRows::of_episodes(data, &everything),
            goes_on: goes_on(data),
            config,
            device,
            seed,
            target: values.valid(),
            values: Trained::new(values, &optimizer, config.learning_rate),
        };
        let schedule = Schedule { steps: config.steps, decay: false };
        train(&mut learner, "values", schedule, monitor)?;
        Ok(QPolicy { values: learner.values.into_module(), interface: interface.clone() })
    }

    /// The weights.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_safetensors(&self.values)
    }

    /// A policy from its weights.
    pub(crate) fn from_safetensors(
        bytes: &[u8],
        config: &CqlConfig,
        interface: Interface,
    ) -> Result<Self, Error> {
        let device = Device::flex().autodiff();
        let blank = network(config, &interface, &device, &mut Seed::new(0).rng());
        Ok(QPolicy { values: from_safetensors(blank, bytes)?, interface })
    }

    /// How observations and actions enter it.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// What every action is worth in some observations: `[rows, actions]`, row after row.
    pub fn values(&self, observations: CellsRef<'_>, rows: &[usize]) -> Vec<f32> {
        let seen = Column { encoding: &self.interface.observation, cells: observations, rows };
        let input = encode(&[seen], &Device::flex());
        floats(self.values.valid().forward(input, &mut Noise::new(0)))
    }

    /// The policy as something that acts.
    pub fn agent(&self) -> Greedy {
        Greedy { policy: QPolicy { values: self.values.valid(), ..self.clone() } }
    }
}

fn network(config: &CqlConfig, interface: &Interface, device: &Device, rng: &mut Rng) -> Mlp {
    MlpConfig::new(interface.observation.width(), interface.action.outputs())
        .with_hidden(config.hidden)
        .with_layers(config.layers)
        .init(device, rng)
}

struct Learning<'a> {
    data: &'a Dataset,
    interface: &'a Interface,
    rows: StepRows,
    goes_on: Vec<bool>,
    config: &'a CqlConfig,
    device: Device,
    seed: Seed,
    values: Trained<Mlp>,
    target: Mlp,
}

impl Learning<'_> {
    /// `r + γ Q'(s', argmax Q(s', ·))`, by the values that learn for the choice and by the target for its worth.
    fn returns(&self, drawn: &StepRows) -> Vec<f32> {
        let next: Vec<usize> = drawn.observations.iter().map(|row| row + 1).collect();
        let states = self.interface.states(self.data, &next, &Device::flex());
        let noise = &mut Noise::new(0);
        let chosen = floats(self.values.module().valid().forward(states.clone(), noise));
        let worth = floats(self.target.forward(states, noise));
        let actions = self.interface.action.outputs();
        let rows = chosen.chunks_exact(actions).zip(worth.chunks_exact(actions));
        let discount = self.config.discount as f32;
        drawn
            .steps
            .iter()
            .zip(rows)
            .map(|(&step, (chosen, worth))| {
                let after = if self.goes_on[step] { discount * worth[best(chosen)] } else { 0.0 };
                self.data.rewards()[step] + after
            })
            .collect()
    }
}

impl Learner for Learning<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        if step.is_multiple_of(self.config.target_interval) {
            self.target = self.values.module().valid();
        }
        let seed = self.seed.indexed(step as u64);
        let drawn = self.rows.draw(self.config.batch, &mut seed.rng());
        let returns = column(self.returns(&drawn), &self.device);
        let actions = self.data.actions();
        let taken: Vec<u32> = drawn.steps.iter().map(|&s| actions.category(s) as u32).collect();

        let states = self.interface.states(self.data, &drawn.observations, &self.device);
        let noise = &mut Noise::new(0);
        let values = self.values.module().forward(states, noise);
        let conservative_loss = cross_entropy(values.clone(), &taken, None);
        let indices = TensorData::new(
            taken.iter().map(|&action| action as i32).collect::<Vec<i32>>(),
            [taken.len(), 1],
        );
        let indices = Tensor::<2, Int>::from_data(indices, &self.device);
        let difference = (values.gather(1, indices) - returns).abs();
        // Huber: half the square up to one, straight beyond.
        let near = difference.clone().clamp_max(1.0);
        let td_loss = (near.clone().square() * 0.5 + difference - near).mean();

        let measured = [("td_loss", &td_loss), ("conservative_loss", &conservative_loss)]
            .map(|(name, loss)| (name, f64::from(loss.clone().into_scalar::<f32>())));
        let loss = td_loss + conservative_loss * self.config.alpha;
        self.values.step(pace, &mut loss.backward());
        measured.to_vec()
    }

    fn kept(&mut self) -> Vec<&mut dyn Kept> {
        vec![&mut self.values, &mut self.target]
    }
}

/// The action that is worth most; the first of equals.
fn best(values: &[f32]) -> usize {
    (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
}

/// Takes the action that is worth most. Has no targets.
pub struct Greedy {
    policy: QPolicy,
}

impl Agent for Greedy {
    fn begin(&mut self, _: usize, _: f64, _: Seed) {}

    fn act(&mut self, observations: CellsRef<'_>, places: &[usize], actions: &mut Cells) {
        let values = self.policy.values(observations, places);
        for values in values.chunks_exact(self.policy.interface.action.outputs()) {
            actions.push_category(best(values));
        }
    }

    fn reward(&mut self, _: usize, _: f32) {}
}
