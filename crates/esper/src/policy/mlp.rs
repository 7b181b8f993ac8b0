//! Phase 3 with an MLP: state and label in, action out (Equation 5).
//!
//! > L(ξ) = -log π_ξ(a_t | s_t, label_t)

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use esper_data::{Cells, CellsRef, Dataset, Rng, Seed};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, RowsIn, to_safetensors_with};
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::{
    Loader, Network, Policy, PolicyCard, PolicyFile, PolicyKind, TrainingSet, column, floats,
};
use crate::agent::{Agent, Choice, Episodes};
use crate::condition::Target;
use crate::error::Error;
use crate::features::{Column, encode};
use crate::memory::{self, Widths};
use crate::methods::Context;
use crate::methods::esper::TimeInput;
use crate::onnx::FeedForward;
use crate::settings::{Config, Section};
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{AllSteps, Clock, Interface, StepRows};

crate::settings! {
    /// Phase 3 as an MLP: a policy that sees state and label.
    pub struct MlpPolicyConfig in "mlp" {
        /// Steps of training.
        steps: usize = 8_000, paper: 50_000, within: 1..=1_000_000_000;
        /// Batch size: rows in a step.
        batch: usize = 512, paper: 64, within: 1..=1_000_000;
        /// Hidden width.
        hidden: usize = 128, paper: 512, within: 1..=8192;
        /// Hidden layers.
        layers: usize = 3, within: 1..=64;
        /// Dropout rate: the share of hidden numbers that training leaves out.
        dropout: f64 = 0.0, paper: 0.1, within: 0.0..=0.99;
        /// Learning rate.
        learning_rate: f64 = 1e-3, paper: 5e-4, within: 0.0..=1.0;
        /// Learning rate decay: whether it falls to zero over the second half.
        decay: bool = true, paper: false;
        /// Warm-up: steps over which the learning rate rises from zero.
        warmup: usize = 100, paper: 10_000, within: 0..=1_000_000_000;
        /// Weight decay.
        weight_decay: f64 = 1e-4, within: 0.0..=1e9;
        /// Gradient clipping: the most that the norm of all gradients together may be; larger ones are scaled down.
        max_norm: f64 = 0.25, within: 1e-9..=1e9;
        /// Label noise while training, in units of the labels' deviation. Labels that follow from state and action leave
        /// gaps between them; noise lets a policy make sense of targets in those gaps, and in states where labels are
        /// lower.
        label_noise: f64 = 0.0, within: 0.0..=1e9;
        /// Time as an input: whether the policy sees the steps since the start, `never`, `always`, or `auto`: where it is told
        /// levels and episodes are cut.
        time: TimeInput = TimeInput::Auto, paper: TimeInput::Never;
    }
}

/// The policy as an MLP.
pub struct MlpKind;

/// What acting needs to know of the network.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sizes {
    hidden: usize,
    layers: usize,
    /// Where time is an input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock: Option<Clock>,
}

const NAME: &str = "mlp";

impl PolicyKind for MlpKind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "an MLP: state and label in, action out"
    }

    fn sections(&self) -> Vec<Section> {
        vec![Section::of::<MlpPolicyConfig>()]
    }

    fn loader(&self) -> Loader {
        Loader { kind: NAME, load }
    }

    fn memory(&self, widths: &Widths, config: &Config) -> Result<u64, Error> {
        let MlpPolicyConfig { hidden, batch, .. } = config.get()?;
        // What is put out, its gradient, and what the loss makes of it.
        let outputs = memory::rows(3, batch as u64, widths.action);
        Ok(memory::weights(widths.both(), hidden).saturating_add(outputs))
    }

    fn train(&self, set: &TrainingSet<'_>, context: &Context<'_>) -> Result<Policy, Error> {
        let config = context.config.get::<MlpPolicyConfig>()?;
        let mut learner = MlpLearner::new(set, &config, context.seed, context.device);
        let schedule = Schedule { steps: config.steps, decay: config.decay };
        train(&mut learner, "policy", schedule, context.monitor)?;
        Ok(learner.policy(context))
    }
}

fn load(file: &PolicyFile, device: &Device) -> Result<Arc<dyn Network>, Error> {
    let sizes: Sizes = file.network()?;
    if file.card.labels.is_none() {
        return Err(file.problem("its card says nothing of labels"));
    }
    let Sizes { hidden, layers, clock } = sizes;
    if clock.is_some_and(|clock| !clock.is_sound()) {
        return Err(file.problem("its clock makes no sense"));
    }
    file.check(&MlpPolicyConfig { hidden, layers, ..MlpPolicyConfig::default() })?;
    let config = network(sizes, 0.0, &file.card.interface);
    file.expect_parameters(config.parameters())?;
    let blank = config.init(&device.clone().autodiff(), &mut Seed::new(0).rng());
    Ok(Arc::new(MlpNetwork { mlp: file.fill(blank)?, sizes, device: device.clone() }))
}

/// State features, then what is told, then the time.
fn network(sizes: Sizes, dropout: f64, interface: &Interface) -> MlpConfig {
    let inputs = interface.observation.width() + 1 + usize::from(sizes.clock.is_some());
    MlpConfig::new(inputs, interface.action.outputs())
        .with_hidden(sizes.hidden)
        .with_layers(sizes.layers)
        .with_dropout(dropout)
}

/// A policy in training: all steps count the same.
pub struct MlpLearner<'a> {
    set: &'a TrainingSet<'a>,
    rows: AllSteps<'a>,
    sizes: Sizes,
    config: MlpPolicyConfig,
    device: Device,
    seed: Seed,
    mlp: Trained<Mlp>,
}

impl<'a> MlpLearner<'a> {
    /// Begins.
    pub fn new(
        set: &'a TrainingSet<'a>,
        config: &MlpPolicyConfig,
        seed: Seed,
        device: &Device,
    ) -> Self {
        let device = device.clone().autodiff();
        let seed = seed.named("policy");
        let matters = set.conditioned.levels.is_some() && Clock::matters(set.data);
        let clock = match config.time {
            TimeInput::Never => None,
            TimeInput::Auto if !matters => None,
            TimeInput::Auto | TimeInput::Always => Some(Clock::of(set.data)),
        };
        let sizes = Sizes { hidden: config.hidden, layers: config.layers, clock };
        let mut rng: Rng = seed.named("initialisation").rng();
        let mlp = network(sizes, config.dropout, set.interface).init(&device, &mut rng);
        let optimizer = AdamWConfig::new()
            .with_weight_decay(config.weight_decay)
            .with_warmup_steps(config.warmup)
            .with_max_norm(Some(config.max_norm));
        MlpLearner {
            set,
            rows: AllSteps::of(set.data, set.episodes),
            sizes,
            config: config.clone(),
            device,
            seed,
            mlp: Trained::new(mlp, &optimizer, config.learning_rate),
        }
    }

    /// What was learned.
    pub fn policy(self, context: &Context<'_>) -> Policy {
        let card = self.set.card(NAME, &self.sizes, context);
        let (mlp, sizes, device) = (self.mlp.into_module(), self.sizes, context.device.clone());
        Policy::new(card, MlpNetwork { mlp, sizes, device })
    }
}

impl Learner for MlpLearner<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let TrainingSet { data, interface, conditioned, .. } = *self.set;
        let seed = self.seed.indexed(step as u64);
        let drawn = self.rows.draw(self.config.batch, &mut seed.rng());
        // Equal labels take up all of the ranks that they share.
        let mut ranks = seed.named("ranks").rng();
        let told = |&step: &usize| conditioned.told(step, ranks.random());
        let mut labels: Vec<f32> = drawn.steps.iter().map(told).collect();
        if self.config.label_noise > 0.0 {
            let (mut rng, scale) = (seed.named("labels").rng(), self.config.label_noise as f32);
            let noisy = |label: &mut f32| *label += scale * rng.sample::<f32, _>(StandardNormal);
            labels.iter_mut().for_each(noisy);
        }
        let states = interface.states(data, &drawn.observations, &self.device);
        let input = with_time(states, column(labels, &self.device), self.sizes.clock, &drawn.times);
        let noise = &mut Noise::new(seed.named("noise").value());
        let outputs = self.mlp.module().forward(input, noise);
        let taken = interface.taken(data, &drawn.steps, &self.device);
        let loss = interface.action.loss(outputs, &taken);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.mlp.step(pace, &mut loss.backward());
        vec![("policy_loss", measured)]
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.mlp]
    }
}

/// States, what is told, and the time where it is an input.
fn with_time(states: RowsIn, told: Tensor<2>, clock: Option<Clock>, times: &[u32]) -> RowsIn {
    let device = told.device();
    let rows = states.with(told);
    match clock {
        Some(clock) => rows.with(clock.column(times, &device)),
        None => rows,
    }
}

struct MlpNetwork {
    mlp: Mlp,
    sizes: Sizes,
    device: Device,
}

impl Network for MlpNetwork {
    fn to_safetensors(&self, key: &str, text: &str) -> Vec<u8> {
        to_safetensors_with(&self.mlp, key, text)
    }

    fn agent(&self, card: &PolicyCard) -> Box<dyn Agent> {
        Box::new(MlpAgent {
            mlp: self.mlp.valid(),
            clock: self.sizes.clock,
            device: self.device.clone(),
            card: card.clone(),
            episodes: Episodes::default(),
        })
    }

    fn feed_forward(&self) -> Option<FeedForward> {
        let layers = self.mlp.to_dense_layers()?;
        let clock = self.sizes.clock.map(Clock::longest);
        Some(FeedForward { layers, is_told: true, clock, is_value: false })
    }

    fn distributions(
        &self,
        card: &PolicyCard,
        data: &Dataset,
        episodes: &[usize],
        told: f64,
    ) -> Option<Vec<f32>> {
        let told = card.labels?.apply(told);
        let mlp = self.mlp.valid();
        let rows = StepRows::of_episodes(data, episodes);
        let mut outputs = Vec::with_capacity(rows.steps.len() * card.interface.action.outputs());
        let parts = rows.observations.chunks(ROWS_AT_ONCE).zip(rows.times.chunks(ROWS_AT_ONCE));
        for (observations, times) in parts {
            let states = card.interface.states(data, observations, &self.device);
            let told = column(vec![told; times.len()], &self.device);
            let input = with_time(states, told, self.sizes.clock, times);
            outputs.extend(floats(mlp.forward(input, &mut Noise::new(0))));
        }
        Some(outputs)
    }
}

/// Rows that go through the network at once.
const ROWS_AT_ONCE: usize = 8_192;

/// Acts as the policy says.
struct MlpAgent {
    mlp: Mlp,
    clock: Option<Clock>,
    device: Device,
    card: PolicyCard,
    episodes: Episodes,
}

impl MlpAgent {
    fn choose(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        choice: Choice,
        actions: &mut Cells,
        probabilities: Option<&mut Vec<f32>>,
    ) -> Result<(), Error> {
        let PolicyCard { interface, labels: Some(labels), .. } = &self.card else {
            return Err(Error::Acting("the policy knows nothing of labels".to_owned()));
        };
        interface.check_places(observations, places, actions)?;
        let asked = self.episodes.targets(places)?;
        let asked = asked.into_iter().map(|target| labels.apply(target)).collect();
        let seen = Column { encoding: &interface.observation, cells: observations, rows: places };
        let (states, told) = (encode(&[seen], &self.device), column(asked, &self.device));
        let input = with_time(states, told, self.clock, &self.episodes.times(places)?);
        let outputs = floats(self.mlp.forward(input, &mut Noise::new(0)));
        let head = &interface.action;
        self.episodes.take(head, &outputs, places, choice, actions, probabilities)
    }
}

impl Agent for MlpAgent {
    fn begin(&mut self, place: usize, target: Target, seed: Seed) {
        self.episodes.begin(place, self.card.told(target, seed), seed);
    }

    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        self.choose(observations, places, Choice::Drawn, actions, None)
    }

    fn decide(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        choice: Choice,
        actions: &mut Cells,
        probabilities: &mut Vec<f32>,
    ) -> Result<(), Error> {
        self.choose(observations, places, choice, actions, Some(probabilities))
    }

    fn reward(&mut self, place: usize, reward: f32) -> Result<(), Error> {
        self.episodes.reward(place, reward)
    }

    fn end(&mut self, place: usize) {
        self.episodes.end(place);
    }
}
