//! Phase 3 with an MLP: state and label in, action out (Equation 5).
//!
//! > L(ξ) = -log π_ξ(a_t | s_t, label_t)

use std::sync::Arc;

use burn::module::Module;
use esper_data::{Cells, CellsRef, Rng, Seed};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, to_safetensors_with};
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use super::{
    Loader, Network, Policy, PolicyCard, PolicyFile, PolicyKind, TrainingSet, column, floats,
};
use crate::agent::{Agent, Episodes, Remaining};
use crate::error::Error;
use crate::features::{Column, encode};
use crate::methods::Context;
use crate::settings::Section;
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{Interface, StepRows};

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
    }
}

/// The policy as an MLP.
pub struct MlpKind;

/// What acting needs to know of the network.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sizes {
    hidden: usize,
    layers: usize,
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
    let Sizes { hidden, layers } = sizes;
    file.check(&MlpPolicyConfig { hidden, layers, ..MlpPolicyConfig::default() })?;
    let config = network(sizes, 0.0, &file.card.interface);
    file.expect_parameters(config.parameters())?;
    let blank = config.init(&device.clone().autodiff(), &mut Seed::new(0).rng());
    Ok(Arc::new(MlpNetwork { mlp: file.fill(blank)?, device: device.clone() }))
}

/// State features, then the label.
fn network(sizes: Sizes, dropout: f64, interface: &Interface) -> MlpConfig {
    MlpConfig::new(interface.observation.width() + 1, interface.action.outputs())
        .with_hidden(sizes.hidden)
        .with_layers(sizes.layers)
        .with_dropout(dropout)
}

/// A policy in training: all steps count the same.
pub struct MlpLearner<'a> {
    set: &'a TrainingSet<'a>,
    rows: StepRows,
    labels: Vec<f32>,
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
        let input = set.label_input();
        let sizes = Sizes { hidden: config.hidden, layers: config.layers };
        let mut rng: Rng = seed.named("initialisation").rng();
        let mlp = network(sizes, config.dropout, set.interface).init(&device, &mut rng);
        let optimizer = AdamWConfig::new()
            .with_weight_decay(config.weight_decay)
            .with_warmup_steps(config.warmup)
            .with_max_norm(Some(config.max_norm));
        MlpLearner {
            set,
            rows: StepRows::of_episodes(set.data, set.episodes),
            labels: set.labels.iter().map(|&label| input.apply(f64::from(label))).collect(),
            config: config.clone(),
            device,
            seed,
            mlp: Trained::new(mlp, &optimizer, config.learning_rate),
        }
    }

    /// What was learned.
    pub fn policy(self, context: &Context<'_>) -> Policy {
        let MlpPolicyConfig { hidden, layers, .. } = self.config;
        let card = self.set.card(NAME, &Sizes { hidden, layers }, self.set.label_input(), context);
        let (mlp, device) = (self.mlp.into_module(), context.device.clone());
        Policy::new(card, MlpNetwork { mlp, device })
    }
}

impl Learner for MlpLearner<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let TrainingSet { data, interface, .. } = *self.set;
        let seed = self.seed.indexed(step as u64);
        let drawn = self.rows.draw(self.config.batch, &mut seed.rng());
        let mut labels: Vec<f32> = drawn.steps.iter().map(|&step| self.labels[step]).collect();
        if self.config.label_noise > 0.0 {
            let (mut rng, scale) = (seed.named("labels").rng(), self.config.label_noise as f32);
            let noisy = |label: &mut f32| *label += scale * rng.sample::<f32, _>(StandardNormal);
            labels.iter_mut().for_each(noisy);
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

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.mlp]
    }
}

struct MlpNetwork {
    mlp: Mlp,
    device: Device,
}

impl Network for MlpNetwork {
    fn to_safetensors(&self, key: &str, text: &str) -> Vec<u8> {
        to_safetensors_with(&self.mlp, key, text)
    }

    fn agent(&self, card: &PolicyCard) -> Box<dyn Agent> {
        Box::new(MlpAgent {
            mlp: self.mlp.valid(),
            device: self.device.clone(),
            card: card.clone(),
            episodes: Episodes::default(),
        })
    }
}

/// Acts as the policy says.
struct MlpAgent {
    mlp: Mlp,
    device: Device,
    card: PolicyCard,
    episodes: Episodes,
}

impl Agent for MlpAgent {
    fn begin(&mut self, place: usize, target: f64, seed: Seed) {
        self.episodes.begin(place, Remaining::new(target, self.card.discount), seed);
    }

    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        let PolicyCard { interface, labels: Some(labels), .. } = &self.card else {
            return Err(Error::Acting("the policy knows nothing of labels".to_owned()));
        };
        interface.check_places(observations, places, actions)?;
        let asked = self.episodes.targets(places)?;
        let asked = asked.into_iter().map(|target| labels.apply(target)).collect();
        let seen = Column { encoding: &interface.observation, cells: observations, rows: places };
        let input = encode(&[seen], &self.device).with(column(asked, &self.device));
        let outputs = floats(self.mlp.forward(input, &mut Noise::new(0)));
        self.episodes.draw(&interface.action, &outputs, places, actions)
    }

    fn reward(&mut self, place: usize, reward: f32) -> Result<(), Error> {
        self.episodes.reward(place, reward)
    }

    fn end(&mut self, place: usize) {
        self.episodes.end(place);
    }
}
