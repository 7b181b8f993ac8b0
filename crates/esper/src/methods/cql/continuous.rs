//! Conservative Q-learning for real-valued actions, on top of soft actor-critic.
//!
//! Two critics learn `r + γ min Q'(s', a')` with a' the actor's mean, and a conservative term
//!
//! > α (w (log Σ exp Q(s, ·) - Q(s, a)) - τ)
//!
//! where the sum is over actions drawn uniformly and from the actor, weighed by how likely they were drawn, and α grows
//! while the term is above its threshold τ. The actor maximises the lower critic and its own entropy.

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::{Tensor, TensorData};
use esper_data::{Cells, CellsRef, Dataset, Rng, Seed, Space};
use esper_nn::{
    AdamWConfig, Device, Mlp, MlpConfig, Noise, RowsIn, squared_error, to_safetensors_with,
};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::goes_on;
use crate::actor_critic::{LearningCritics, Logarithm, Squash, SquashedGaussian};
use crate::agent::{Agent, Episodes, check_outputs};
use crate::condition::{Target, Told};
use crate::error::Error;
use crate::features::{Column, encode};
use crate::methods::{Context, Curve, Findings, Learned};
use crate::policy::{Loader, Network, Policy, PolicyCard, PolicyFile, column, floats};
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{AllSteps, Interface, StepRows};

crate::settings! {
    /// Conservative Q-learning for real-valued actions, on top of soft actor-critic.
    pub struct CqlContinuousConfig in "cql_continuous" {
        /// Steps of training.
        steps: usize = 20_000, paper: 100_000, within: 1..=1_000_000_000;
        /// Batch size: transitions in a step.
        batch: usize = 256, within: 1..=100_000;
        /// Hidden width.
        hidden: usize = 128, paper: 256, within: 1..=8192;
        /// Hidden layers.
        layers: usize = 2, within: 1..=64;
        /// Learning rate of the actor.
        actor_learning_rate: f64 = 3e-4, paper: 1e-4, within: 0.0..=1.0;
        /// Learning rate of the critics.
        critic_learning_rate: f64 = 1e-3, paper: 3e-4, within: 0.0..=1.0;
        /// Learning rate of the temperature: how fast the worth of entropy is adjusted.
        temperature_learning_rate: f64 = 1e-4, within: 0.0..=1.0;
        /// Learning rate of the Lagrange multiplier α: how fast the worth of being conservative is adjusted.
        alpha_learning_rate: f64 = 1e-4, within: 0.0..=1.0;
        /// Discount factor γ of the values.
        discount: f64 = 0.99, within: 0.0..=1.0;
        /// τ: how far the target moves towards the critics in a step.
        tau: f64 = 0.005, within: 0.0..=1.0;
        /// Conservative weight w: what the conservative term of CQL(H) is multiplied with, before its threshold is taken
        /// off.
        conservative_weight: f64 = 5.0, within: 0.0..=1e9;
        /// Lagrange threshold τ: the weighted term may be this large; while it is larger, the Lagrange multiplier α grows,
        /// and the term is taken more seriously.
        alpha_threshold: f64 = 10.0, within: -1e9..=1e9;
        /// Action samples: actions of each kind, uniform and the actor's, that the log-sum-exp of the conservative term is
        /// estimated with.
        action_samples: usize = 10, within: 1..=1000;
    }
}

const KIND: &str = "actor";

pub(super) const LOADER: Loader = Loader { kind: KIND, load };

/// What acting needs to know of the network.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sizes {
    hidden: usize,
    layers: usize,
    ranges: Squash,
}

/// Learns an actor with conservative critics.
pub(super) fn learn(context: &Context<'_>) -> Result<Learned, Error> {
    let config = context.config.get::<CqlContinuousConfig>()?;
    let network = ActorNetwork::train(context, &config)?;
    let CqlContinuousConfig { hidden, layers, .. } = config;
    let sizes = Sizes { hidden, layers, ranges: network.ranges.clone() };
    let card = PolicyCard::new(KIND, &sizes, context.interface, context.discount, context.origin);
    Ok(Learned {
        labels: None,
        policy: Policy::new(card, network),
        findings: Findings::default(),
        curves: vec![
            Curve::new("TD loss", "values", "td_loss"),
            Curve::new("conservative gap", "values", "conservative_gap"),
            Curve::new("actor loss", "values", "actor_loss"),
        ],
    })
}

fn load(file: &PolicyFile, device: &Device) -> Result<Arc<dyn Network>, Error> {
    let Sizes { hidden, layers, ranges } = file.network()?;
    let interface = &file.card.interface;
    file.check(&CqlContinuousConfig { hidden, layers, ..CqlContinuousConfig::default() })?;
    ranges.check(interface.action.encoding().space()).map_err(|words| file.problem(words))?;
    let config = network(
        hidden,
        layers,
        interface.observation.width(),
        2 * interface.action.encoding().width(),
    );
    file.expect_parameters(config.parameters())?;
    let blank = config.init(&device.clone().autodiff(), &mut Seed::new(0).rng());
    Ok(Arc::new(ActorNetwork { actor: file.fill(blank)?, ranges, device: device.clone() }))
}

fn network(hidden: usize, layers: usize, inputs: usize, outputs: usize) -> MlpConfig {
    MlpConfig::new(inputs, outputs).with_hidden(hidden).with_layers(layers)
}

/// An actor that was trained with conservative critics.
#[derive(Clone, Debug)]
struct ActorNetwork {
    actor: Mlp,
    ranges: Squash,
    device: Device,
}

/// What -1 and 1 stand for: the lowest and the highest number that the data holds in every cell.
fn squash_of(data: &Dataset) -> Squash {
    let cells = data.metadata().action_space.cells();
    let mut ranges = vec![[f32::INFINITY, f32::NEG_INFINITY]; cells];
    for episode in 0..data.episodes() {
        let steps: Vec<usize> = data.episode_steps(episode).collect();
        data.with_actions(&steps, |numbers, rows| {
            for row in rows {
                for (cell, [low, high]) in ranges.iter_mut().enumerate() {
                    let number = numbers.number(row * cells + cell);
                    (*low, *high) = (low.min(number), high.max(number));
                }
            }
        });
    }
    // A number that never changes stays what it is.
    let range =
        |[low, high]: [f32; 2]| if high > low { [low, high] } else { [low - 1.0, low + 1.0] };
    Squash(ranges.into_iter().map(range).collect())
}

impl ActorNetwork {
    /// Learns.
    fn train(context: &Context<'_>, config: &CqlContinuousConfig) -> Result<Self, Error> {
        let Context { data, interface, .. } = *context;
        let device = context.device.clone().autodiff();
        let seed = context.seed.named("values");
        let mut rng = seed.named("initialisation").rng();
        let (states, cells) = (interface.observation.width(), interface.action.encoding().width());
        let network = |inputs, outputs| network(config.hidden, config.layers, inputs, outputs);
        let actor = network(states, 2 * cells).init(&device, &mut rng);
        let everything: Vec<usize> = (0..data.episodes()).collect();
        // Adam: weights do not decay.
        let optimizer = AdamWConfig::new().with_weight_decay(0.0);
        let critics = LearningCritics::new(
            &network(states + cells, 1),
            &optimizer,
            config.critic_learning_rate,
            &device,
            &mut rng,
        );
        let scalar = |rate| Trained::new(Logarithm::new(&device), &optimizer, rate);
        let mut learner = Learning {
            data,
            interface,
            rows: AllSteps::of(data, &everything),
            goes_on: goes_on(data),
            ranges: squash_of(data),
            actor: Trained::new(actor, &optimizer, config.actor_learning_rate),
            critics,
            temperature: scalar(config.temperature_learning_rate),
            alpha: scalar(config.alpha_learning_rate),
            config,
            plain: context.device,
            device: device.clone(),
            seed,
        };
        let schedule = Schedule { steps: config.steps, decay: false };
        train(&mut learner, "values", schedule, context.monitor)?;
        let Learning { actor, ranges, .. } = learner;
        Ok(ActorNetwork { actor: actor.into_module(), ranges, device: context.device.clone() })
    }
}

impl Network for ActorNetwork {
    fn to_safetensors(&self, key: &str, text: &str) -> Vec<u8> {
        to_safetensors_with(&self.actor, key, text)
    }

    fn agent(&self, card: &PolicyCard) -> Box<dyn Agent> {
        Box::new(Actor {
            actor: self.actor.valid(),
            interface: card.interface.clone(),
            ranges: self.ranges.clone(),
            device: self.device.clone(),
            episodes: Episodes::default(),
        })
    }
}

struct Learning<'a> {
    data: &'a Dataset,
    interface: &'a Interface,
    rows: AllSteps<'a>,
    goes_on: Vec<bool>,
    ranges: Squash,
    config: &'a CqlContinuousConfig,
    /// Where tensors are, without gradients.
    plain: &'a Device,
    device: Device,
    seed: Seed,
    actor: Trained<Mlp>,
    critics: LearningCritics,
    temperature: Trained<Logarithm>,
    alpha: Trained<Logarithm>,
}

impl Learning<'_> {
    /// `r + γ min Q'(s', a')`: `[rows, 1]`.
    fn returns(&self, drawn: &StepRows, next: &RowsIn) -> Tensor<2> {
        let middle = SquashedGaussian::of(&self.actor.module().valid(), next).middle();
        let worth = floats(self.critics.target().lower(next, middle));
        let discount = self.config.discount as f32;
        let returns = drawn.steps.iter().zip(worth).map(|(&step, worth)| {
            let after = if self.goes_on[step] { discount * worth } else { 0.0 };
            self.data.rewards()[step] + after
        });
        column(returns.collect(), &self.device)
    }

    /// Actions that the conservative term sums over, of every state: those that the actor draws there, those that it draws in
    /// the state that followed, and uniform ones.
    fn sampled(&self, states: &RowsIn, plain: [&RowsIn; 2], rng: &mut Rng) -> Sampled {
        let (samples, rows) = (self.config.action_samples, states.rows());
        let (cells, each) = (self.ranges.0.len(), 3 * samples);
        let actor = self.actor.module().valid();
        // The distribution of a state is computed once, whatever is drawn from it.
        let [here, after] = plain.map(|states| {
            let drawn = SquashedGaussian::of(&actor, states).repeated(samples).draw(rng);
            (floats(drawn.actions), floats(drawn.log_probability))
        });
        let uniform_density = cells as f32 * 0.5f32.ln();
        let (mut actions, mut densities) = (Vec::new(), Vec::new());
        for row in 0..rows {
            let own = row * samples..(row + 1) * samples;
            for (numbers, log_probability) in [&here, &after] {
                actions.extend_from_slice(&numbers[own.start * cells..own.end * cells]);
                densities.extend_from_slice(&log_probability[own.clone()]);
            }
            actions.extend((0..samples * cells).map(|_| rng.random_range(-1.0f32..1.0)));
            densities.extend(std::iter::repeat_n(uniform_density, samples));
        }
        let of: Vec<u32> =
            (0..rows as u32).flat_map(|row| std::iter::repeat_n(row, each)).collect();
        let actions = TensorData::new(actions, [rows * each, cells]);
        let densities = TensorData::new(densities, [rows, each]);
        Sampled {
            states_and_actions: states.gather(&of).with(Tensor::from_data(actions, &self.device)),
            densities: Tensor::from_data(densities, &self.device),
        }
    }
}

/// Actions that the conservative term sums over, and how likely they were drawn.
struct Sampled {
    /// As many rows as there are actions of all states.
    states_and_actions: RowsIn,
    /// `[states, actions of each]`
    densities: Tensor<2>,
}

impl Sampled {
    /// `log Σ exp Q(s, ·) - Q(s, a)`, a mean over states. All actions go through the critic at once.
    fn gap(&self, critic: &Mlp, taken: Tensor<2>) -> Tensor<1> {
        let values = critic.forward(self.states_and_actions.clone(), &mut Noise::new(0));
        let weighed = values.reshape(self.densities.dims()) - self.densities.clone();
        let highest = weighed.clone().max_dim(1).detach();
        let sum = (weighed - highest.clone()).exp().sum_dim(1).log() + highest;
        (sum - taken).mean()
    }
}

impl Learner for Learning<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let seed = self.seed.indexed(step as u64);
        let mut rng = seed.rng();
        let drawn = self.rows.draw(self.config.batch, &mut rng);
        let after: Vec<usize> = drawn.observations.iter().map(|row| row + 1).collect();
        let states = self.interface.states(self.data, &drawn.observations, &self.device);
        let next = self.interface.states(self.data, &after, self.plain);
        let cells = self.ranges.0.len();
        let actions = self.data.with_actions(&drawn.steps, |numbers, rows| {
            let taken = rows.iter().flat_map(|row| row * cells..(row + 1) * cells);
            self.ranges.matrix(taken.map(|at| numbers.number(at)), &self.device)
        });
        let scalar = |loss: &Tensor<1>| f64::from(loss.clone().into_scalar::<f32>());

        // Critics, and how conservative they have to be.
        let returns = self.returns(&drawn, &next);
        let here = self.interface.states(self.data, &drawn.observations, self.plain);
        let sampled = self.sampled(&states, [&here, &next], &mut rng);
        let taken = states.clone().with(actions);
        let alpha = self.alpha.module().number().min(1e6);
        let CqlContinuousConfig { conservative_weight, alpha_threshold, tau, .. } = *self.config;
        let measured = self.critics.learn(pace, tau, |critic| {
            let values = critic.forward(taken.clone(), &mut Noise::new(0));
            let td_loss = squared_error(values.clone(), returns.clone(), None);
            let gap = sampled.gap(critic, values);
            let says = [scalar(&td_loss), scalar(&gap)];
            let excess = gap * conservative_weight - alpha_threshold;
            (td_loss + excess * alpha, says)
        });
        let both = |at: usize| measured[0][at] + measured[1][at];
        let (measured_td, measured_gap) = (both(0), both(1));
        let excess = measured_gap * conservative_weight - 2.0 * alpha_threshold;
        self.alpha.step(pace, &mut self.alpha.module().loss(excess).backward());

        // The actor, and how random it has to be.
        let sampled = SquashedGaussian::of(self.actor.module(), &states).draw(&mut rng);
        let temperature = self.temperature.module().number();
        let worth = self.critics.fixed().lower(&states, sampled.actions);
        let log_probability = sampled.log_probability;
        let surprise = f64::from(log_probability.clone().mean().into_scalar::<f32>());
        let actor_loss = (log_probability * temperature - worth).mean();
        let measured_actor = scalar(&actor_loss);
        self.actor.step(pace, &mut actor_loss.backward());
        let temperature_loss = self.temperature.module().loss(surprise - cells as f64);
        self.temperature.step(pace, &mut temperature_loss.backward());
        vec![
            ("td_loss", measured_td),
            ("conservative_gap", measured_gap),
            ("actor_loss", measured_actor),
            ("temperature", temperature),
            ("alpha", alpha),
        ]
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.actor, &mut self.critics, &mut self.temperature, &mut self.alpha]
    }
}

/// Takes the action in the middle of what the actor would do.
struct Actor {
    actor: Mlp,
    interface: Interface,
    ranges: Squash,
    device: Device,
    episodes: Episodes,
}

impl Agent for Actor {
    fn begin(&mut self, place: usize, _: Target, seed: Seed) {
        self.episodes.begin(place, Told::Level(0.0), seed);
    }

    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        let Actor { actor, interface, ranges, device, episodes } = self;
        interface.check_places(observations, places, actions)?;
        episodes.check(places)?;
        let encoding = &interface.observation;
        let seen = Column { encoding, cells: observations, rows: places };
        let middle = SquashedGaussian::of(actor, &encode(&[seen], device)).middle();
        let Cells::Float(actions) = actions else { return Ok(()) };
        let bounds = match interface.action.encoding().space() {
            Space::Box { bounds: Some(bounds), .. } => bounds.clone(),
            _ => vec![[f32::NEG_INFINITY, f32::INFINITY]; ranges.0.len()],
        };
        let middle = floats(middle);
        check_outputs(&middle)?;
        for (at, number) in middle.into_iter().enumerate() {
            let cell = at % ranges.0.len();
            let [low, high] = bounds[cell];
            actions.push(ranges.undo(cell, number).max(low).min(high));
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
