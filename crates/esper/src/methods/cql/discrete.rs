//! Conservative Q-learning for a choice among actions: double DQN, and a term that keeps what nobody did from looking
//! good.
//!
//! > L = huber(Q(s, a) - r - γ Q'(s', argmax Q(s', ·))) + α (log Σ exp Q(s, ·) - Q(s, a))
//!
//! The last term is the cross-entropy of the actions taken, with the values as logits.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Int, Tensor, TensorData};
use esper_data::{Cells, CellsRef, Dataset, Seed, Space};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, cross_entropy, to_safetensors_with};
use serde::{Deserialize, Serialize};

use super::goes_on;
use crate::agent::{Agent, Episodes, check_outputs};
use crate::condition::{Target, Told};
use crate::error::Error;
use crate::features::{Column, encode};
use crate::methods::{Context, Curve, Findings, Learned};
use crate::onnx::FeedForward;
use crate::policy::{Loader, Network, Policy, PolicyCard, PolicyFile, column, floats};
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{AllSteps, Interface, StepRows};

crate::settings! {
    /// Conservative Q-learning for a choice among actions.
    pub struct CqlConfig in "cql" {
        /// Steps of training.
        steps: usize = 8_000, paper: 100_000, within: 1..=1_000_000_000;
        /// Batch size: transitions in a step.
        batch: usize = 256, paper: 32, within: 1..=1_000_000;
        /// Hidden width.
        hidden: usize = 256, within: 1..=8192;
        /// Hidden layers.
        layers: usize = 2, within: 1..=64;
        /// Learning rate.
        learning_rate: f64 = 5e-4, paper: 6.25e-5, within: 0.0..=1.0;
        /// Discount factor γ of the values.
        discount: f64 = 0.99, within: 0.0..=1.0;
        /// Target update interval: steps after which the target network becomes a copy of the one that learns.
        target_interval: usize = 250, paper: 8_000, within: 1..=1_000_000_000;
        /// α: what being conservative is worth.
        alpha: f64 = 1.0, within: 0.0..=1e9;
    }
}

const KIND: &str = "q-values";

pub(super) const LOADER: Loader = Loader { kind: KIND, load };

/// What acting needs to know of the network.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sizes {
    hidden: usize,
    layers: usize,
}

/// Learns what actions are worth.
pub(super) fn learn(context: &Context<'_>) -> Result<Learned, Error> {
    let config = context.config.get::<CqlConfig>()?;
    let network = QNetwork::train(context, &config)?;
    let CqlConfig { hidden, layers, .. } = config;
    let card = PolicyCard::new(
        KIND,
        &Sizes { hidden, layers },
        context.interface,
        context.discount,
        context.origin,
    );
    Ok(Learned {
        labels: None,
        policy: Policy::new(card, network),
        findings: Findings::default(),
        curves: vec![
            Curve::new("TD loss", "values", "td_loss"),
            Curve::new("conservative loss", "values", "conservative_loss"),
        ],
    })
}

fn load(file: &PolicyFile, device: &Device) -> Result<Arc<dyn Network>, Error> {
    let Sizes { hidden, layers } = file.network()?;
    file.check(&CqlConfig { hidden, layers, ..CqlConfig::default() })?;
    let action = file.card.interface.action.encoding().space();
    if !matches!(action, Space::Discrete { .. }) {
        return Err(file.problem(format!("it has values of actions, but they are {action}")));
    }
    let config = network(hidden, layers, &file.card.interface);
    file.expect_parameters(config.parameters())?;
    let blank = config.init(&device.clone().autodiff(), &mut Seed::new(0).rng());
    Ok(Arc::new(QNetwork { values: file.fill(blank)?, device: device.clone() }))
}

fn network(hidden: usize, layers: usize, interface: &Interface) -> MlpConfig {
    MlpConfig::new(interface.observation.width(), interface.action.outputs())
        .with_hidden(hidden)
        .with_layers(layers)
}

/// What actions are worth: `Q(s, ·)`.
#[derive(Clone, Debug)]
struct QNetwork {
    values: Mlp,
    device: Device,
}

impl QNetwork {
    /// Learns what actions are worth.
    fn train(context: &Context<'_>, config: &CqlConfig) -> Result<Self, Error> {
        let Context { data, interface, .. } = *context;
        let device = context.device.clone().autodiff();
        let seed = context.seed.named("values");
        let values = network(config.hidden, config.layers, interface)
            .init(&device, &mut seed.named("initialisation").rng());
        let everything: Vec<usize> = (0..data.episodes()).collect();
        // Adam: weights do not decay.
        let optimizer = AdamWConfig::new().with_weight_decay(0.0);
        let mut learner = Learning {
            data,
            interface,
            rows: AllSteps::of(data, &everything),
            goes_on: goes_on(data),
            config,
            plain: context.device,
            device,
            seed,
            target: values.valid(),
            values: Trained::new(values, &optimizer, config.learning_rate),
        };
        let schedule = Schedule { steps: config.steps, decay: false };
        train(&mut learner, "values", schedule, context.monitor)?;
        Ok(QNetwork { values: learner.values.into_module(), device: context.device.clone() })
    }
}

fn evaluate(
    values: &Mlp,
    interface: &Interface,
    observations: CellsRef<'_>,
    rows: &[usize],
    device: &Device,
) -> Vec<f32> {
    let seen = Column { encoding: &interface.observation, cells: observations, rows };
    floats(values.forward(encode(&[seen], device), &mut Noise::new(0)))
}

impl Network for QNetwork {
    fn feed_forward(&self) -> Option<FeedForward> {
        let layers = self.values.to_dense_layers()?;
        Some(FeedForward { layers, is_told: false, clock: None, is_value: true })
    }

    fn to_safetensors(&self, key: &str, text: &str) -> Vec<u8> {
        to_safetensors_with(&self.values, key, text)
    }

    fn agent(&self, card: &PolicyCard) -> Box<dyn Agent> {
        Box::new(Greedy {
            values: self.values.valid(),
            interface: card.interface.clone(),
            device: self.device.clone(),
            episodes: Episodes::default(),
        })
    }

    fn action_values(
        &self,
        card: &PolicyCard,
        observations: CellsRef<'_>,
        rows: &[usize],
    ) -> Option<Vec<f32>> {
        let values = self.values.valid();
        Some(evaluate(&values, &card.interface, observations, rows, &self.device))
    }
}

struct Learning<'a> {
    data: &'a Dataset,
    interface: &'a Interface,
    rows: AllSteps<'a>,
    goes_on: Vec<bool>,
    config: &'a CqlConfig,
    /// Where tensors are, without gradients.
    plain: &'a Device,
    device: Device,
    seed: Seed,
    values: Trained<Mlp>,
    target: Mlp,
}

impl Learning<'_> {
    /// `r + γ Q'(s', argmax Q(s', ·))`, by the values that learn for the choice and by the target for its worth.
    fn returns(&self, drawn: &StepRows) -> Vec<f32> {
        let next: Vec<usize> = drawn.observations.iter().map(|row| row + 1).collect();
        let states = self.interface.states(self.data, &next, self.plain);
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
        let taken: Vec<u32> = self.data.with_actions(&drawn.steps, |actions, rows| {
            rows.iter().map(|&row| actions.category(row) as u32).collect()
        });

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

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.values, &mut self.target]
    }
}

/// The action that is worth most; the first of equals.
fn best(values: &[f32]) -> usize {
    (0..values.len()).rev().max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
}

/// Greedy: takes the action that is worth most. Has no targets.
struct Greedy {
    values: Mlp,
    interface: Interface,
    device: Device,
    episodes: Episodes,
}

impl Agent for Greedy {
    fn begin(&mut self, place: usize, _: Target, seed: Seed) {
        self.episodes.begin(place, Told::Level(0.0), seed);
    }

    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        self.interface.check_places(observations, places, actions)?;
        self.episodes.check(places)?;
        let values = evaluate(&self.values, &self.interface, observations, places, &self.device);
        check_outputs(&values)?;
        for values in values.chunks_exact(self.interface.action.outputs()) {
            actions.push_category(best(values));
        }
        Ok(())
    }

    fn reward(&mut self, place: usize, reward: f32) -> Result<(), Error> {
        self.episodes.reward(place, reward)
    }

    fn end(&mut self, place: usize) {
        self.episodes.end(place);
    }
}
