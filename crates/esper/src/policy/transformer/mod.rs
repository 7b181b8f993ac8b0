//! Phase 3 with a Decision Transformer: labels, states and actions as tokens, in turn; actions are read off the states.
//!
//! > label_0, s_0, a_0, label_1, s_1, a_1, …
//!
//! It is trained on windows of trajectories, cut to their true length. Every state of a window is to tell its action, so
//! it learns to act on any number of steps up to its context. That is what it needs when it acts: the window grows to the
//! full context, then starts again with the newer half of it, and what has been computed for a token stays right.

mod agent;

use std::sync::Arc;

use burn::module::Module;
use burn::tensor::Tensor;
use esper_data::{Dataset, Rng, Seed};
use esper_nn::{
    AdamWConfig, Device, Linear, LinearConfig, Noise, Transformer, TransformerConfig, gather_rows,
    to_safetensors_with,
};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use self::agent::TransformerAgent;
use super::{
    Loader, Network, Policy, PolicyCard, PolicyFile, PolicyKind, TrainingSet, column, floats,
};
use crate::agent::{Agent, Episodes};
use crate::error::Error;
use crate::memory::{self, Widths};
use crate::methods::Context;
use crate::settings::{Config, Section};
use crate::training::{Checkpointed, Learner, Schedule, Trained, train};
use crate::trajectories::{AllSteps, Interface, StepRows};

crate::settings! {
    /// Phase 3 as a Decision Transformer: labels, states and actions as tokens.
    pub struct TransformerPolicyConfig in "transformer" {
        /// Context length: steps that it looks back on, the newest included.
        context: usize = 20, within: 1..=1000;
        /// Steps of training.
        steps: usize = 3_000, paper: 50_000, within: 1..=1_000_000_000;
        /// Batch size: windows of a trajectory in a step.
        batch: usize = 64, within: 1..=100_000;
        /// Embedding width: numbers of a token.
        width: usize = 64, paper: 128, within: 1..=4096;
        /// Layers.
        layers: usize = 3, within: 1..=64;
        /// Attention heads.
        heads: usize = 1, within: 1..=64;
        /// Dropout rate: the share of numbers that training leaves out.
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
    }
    together check_heads
}

/// Heads divide a token evenly.
fn check_heads(config: &TransformerPolicyConfig) -> Result<(), Error> {
    let TransformerPolicyConfig { width, heads, .. } = *config;
    if width.is_multiple_of(heads) {
        return Ok(());
    }
    Err(Error::Config(format!(
        "transformer.width is {width}; it has to be a multiple of transformer.heads, {heads}"
    )))
}

/// The policy as a Decision Transformer.
pub struct TransformerKind;

/// What acting needs to know of the network.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sizes {
    context: usize,
    width: usize,
    layers: usize,
    heads: usize,
    /// Times that have an embedding of their own.
    times: usize,
}

const NAME: &str = "transformer";

/// The most times that get an embedding of their own.
const MOST_TIMES: usize = 4_096;

impl PolicyKind for TransformerKind {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "a Decision Transformer: labels, states and actions as tokens"
    }

    fn sections(&self) -> Vec<Section> {
        vec![Section::of::<TransformerPolicyConfig>()]
    }

    fn loader(&self) -> Loader {
        Loader { kind: NAME, load }
    }

    fn memory(&self, widths: &Widths, config: &Config) -> Result<u64, Error> {
        let TransformerPolicyConfig { width, batch, context, .. } = config.get()?;
        // Embeddings of observations and actions, the head; what is put out, its gradient, and what the loss makes of it.
        let layers = widths.both().saturating_add(widths.action);
        let outputs = memory::rows(3, (batch * context) as u64, widths.action);
        Ok(memory::weights(layers, width).saturating_add(outputs))
    }

    fn train(&self, set: &TrainingSet<'_>, context: &Context<'_>) -> Result<Policy, Error> {
        let config = context.config.get::<TransformerPolicyConfig>()?;
        let mut learner = TransformerLearner::new(set, &config, context.seed, context.device);
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
    let Sizes { context, width, layers, heads, times } = sizes;
    let usual = TransformerPolicyConfig::default();
    file.check(&TransformerPolicyConfig { context, width, layers, heads, ..usual })?;
    if !(1..=MOST_TIMES).contains(&times) {
        return Err(file.problem(format!("it has embeddings of {times} times")));
    }
    let blank = Blank::of(sizes, 0.0, &file.card.interface);
    file.expect_parameters(blank.parameters())?;
    let blank = blank.init(&device.clone().autodiff(), &mut Seed::new(0).rng());
    Ok(Arc::new(TransformerNetwork { model: file.fill(blank)?, sizes, device: device.clone() }))
}

/// The network: embeddings of the three kinds of tokens, the transformer, and what actions are read off with.
#[derive(Module, Debug)]
struct DecisionTransformer {
    label: Linear,
    state: Linear,
    action: Linear,
    transformer: Transformer,
    head: Linear,
}

/// The network before its weights are drawn.
struct Blank {
    label: LinearConfig,
    state: LinearConfig,
    action: LinearConfig,
    transformer: TransformerConfig,
    head: LinearConfig,
}

impl Blank {
    fn of(sizes: Sizes, dropout: f64, interface: &Interface) -> Self {
        let Sizes { width, layers, heads, times, .. } = sizes;
        Blank {
            label: LinearConfig::new(1, width),
            state: LinearConfig::new(interface.observation.width(), width),
            action: LinearConfig::new(interface.action.encoding().width(), width),
            transformer: TransformerConfig::new(times)
                .with_width(width)
                .with_layers(layers)
                .with_heads(heads)
                .with_dropout(dropout),
            head: LinearConfig::new(width, interface.action.outputs()),
        }
    }

    fn parameters(&self) -> usize {
        let linear = [&self.label, &self.state, &self.action, &self.head];
        linear.iter().map(|part| part.parameters()).sum::<usize>() + self.transformer.parameters()
    }

    fn init(&self, device: &Device, rng: &mut Rng) -> DecisionTransformer {
        DecisionTransformer {
            label: self.label.init(device, rng),
            state: self.state.init(device, rng),
            action: self.action.init(device, rng),
            transformer: self.transformer.init(device, rng),
            head: self.head.init(device, rng),
        }
    }
}

impl TrainingSet<'_> {
    /// The times that get an embedding of their own.
    fn times(&self) -> usize {
        self.data.longest().clamp(1, MOST_TIMES)
    }
}

/// A part of an episode: its steps from `start` to `end`, the latter included.
#[derive(Clone, Copy, Debug)]
struct Window {
    episode: usize,
    start: usize,
    end: usize,
}

impl DecisionTransformer {
    /// The parameters of the distribution over actions at every step of the windows, one after the other. `told` says what the
    /// policy is told in a window at a step.
    fn forward(
        &self,
        data: &Dataset,
        interface: &Interface,
        told: &dyn Fn(usize, usize) -> f32,
        windows: &[Window],
        noise: &mut Noise,
    ) -> (Tensor<2>, Vec<usize>) {
        let device = self.head.device();
        let mut rows = StepRows::default();
        let (mut order, mut times) = (Vec::new(), Vec::new());
        let (mut offsets, mut wanted) = (vec![0], Vec::new());
        let count: usize = windows.iter().map(|window| window.end - window.start + 1).sum();
        let mut window_of = Vec::new();
        for (window, &Window { episode, start, end }) in windows.iter().enumerate() {
            for time in start..=end {
                let row = rows.steps.len();
                window_of.push(window);
                rows.steps.push(data.episode_steps(episode).start + time);
                rows.observations.push(data.episode_observations(episode).start + time);
                wanted.push(order.len() as u32 + 1);
                // Label, state, and action but for the last, which nobody looks at.
                let kinds = if time < end { 3 } else { 2 };
                for kind in 0..kinds {
                    order.push((kind * count + row) as u32);
                    times.push(time as u32);
                }
            }
            offsets.push(order.len());
        }
        let asked = rows.steps.iter().zip(&window_of).map(|(&step, &at)| told(at, step)).collect();
        let parts = vec![
            self.label.forward(column(asked, &device)),
            self.state.forward(interface.states(data, &rows.observations, &device)),
            self.action.forward(interface.actions(data, &rows.steps, &device)),
        ];
        let tokens = gather_rows(Tensor::cat(parts, 0), &order);
        let output = self.transformer.forward(tokens, &times, &offsets, &wanted, noise);
        (self.head.forward(output), rows.steps)
    }
}

/// A policy in training: all steps count the same.
pub struct TransformerLearner<'a> {
    set: &'a TrainingSet<'a>,
    /// Every step may end a window.
    steps: AllSteps<'a>,
    config: TransformerPolicyConfig,
    sizes: Sizes,
    device: Device,
    seed: Seed,
    model: Trained<DecisionTransformer>,
}

impl<'a> TransformerLearner<'a> {
    /// Begins.
    pub fn new(
        set: &'a TrainingSet<'a>,
        config: &TransformerPolicyConfig,
        seed: Seed,
        device: &Device,
    ) -> Self {
        let device = device.clone().autodiff();
        let seed = seed.named("policy");
        let mut rng = seed.named("initialisation").rng();
        let TransformerPolicyConfig { context, width, layers, heads, dropout, .. } = *config;
        let sizes = Sizes { context, width, layers, heads, times: set.times() };
        let model = Blank::of(sizes, dropout, set.interface).init(&device, &mut rng);
        let optimizer = AdamWConfig::new()
            .with_weight_decay(config.weight_decay)
            .with_warmup_steps(config.warmup)
            .with_max_norm(Some(config.max_norm));
        TransformerLearner {
            set,
            steps: AllSteps::of(set.data, set.episodes),
            config: config.clone(),
            sizes,
            device,
            seed,
            model: Trained::new(model, &optimizer, config.learning_rate),
        }
    }

    /// What was learned.
    pub fn policy(self, context: &Context<'_>) -> Policy {
        let sizes = self.sizes;
        let card = self.set.card(NAME, &sizes, context);
        let (model, device) = (self.model.into_module(), context.device.clone());
        Policy::new(card, TransformerNetwork { model, sizes, device })
    }
}

impl Learner for TransformerLearner<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let TrainingSet { data, interface, conditioned, .. } = *self.set;
        let seed = self.seed.indexed(step as u64);
        let mut rng = seed.rng();
        let windows: Vec<Window> = (0..self.config.batch)
            .map(|_| {
                let (episode, end) = self.steps.place(rng.random_range(0..self.steps.len()));
                let start = (end + 1).saturating_sub(self.config.context);
                Window { episode, start, end }
            })
            .collect();
        let noise = &mut Noise::new(seed.named("noise").value());
        let model = self.model.module();
        // One draw a window: an episode has one level.
        let mut ranks = seed.named("ranks").rng();
        let within: Vec<f32> = windows.iter().map(|_| ranks.random()).collect();
        let told = |window: usize, step: usize| conditioned.told(step, within[window]);
        let (outputs, steps) = model.forward(data, interface, &told, &windows, noise);
        let taken = interface.taken(data, &steps, &self.device);
        let loss = interface.action.loss(outputs, &taken);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.model.step(pace, &mut loss.backward());
        vec![("policy_loss", measured)]
    }

    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
        vec![&mut self.model]
    }
}

struct TransformerNetwork {
    model: DecisionTransformer,
    sizes: Sizes,
    device: Device,
}

impl Network for TransformerNetwork {
    fn to_safetensors(&self, key: &str, text: &str) -> Vec<u8> {
        to_safetensors_with(&self.model, key, text)
    }

    fn agent(&self, card: &PolicyCard) -> Box<dyn Agent> {
        Box::new(self.transformer_agent(card.clone()))
    }

    fn distributions(
        &self,
        card: &PolicyCard,
        data: &Dataset,
        episodes: &[usize],
        told: f64,
    ) -> Option<Vec<f32>> {
        let told = card.labels?.apply(told);
        let model = self.model.valid();
        let outputs = card.interface.action.outputs();
        let mut all = Vec::new();
        for &episode in episodes {
            let (mut start, mut known, length) = (0, 0, data.length(episode));
            // As an agent looks back: until the window is full, then from the newer half of it.
            while known < length {
                let end = (start + self.sizes.context).min(length) - 1;
                let window = [Window { episode, start, end }];
                let noise = &mut Noise::new(0);
                let (rows, _) = model.forward(data, &card.interface, &|_, _| told, &window, noise);
                all.extend_from_slice(&floats(rows)[(known - start) * outputs..]);
                known = end + 1;
                start = known - self.sizes.context.min(known) / 2;
            }
        }
        Some(all)
    }
}

impl TransformerNetwork {
    fn transformer_agent(&self, card: PolicyCard) -> TransformerAgent {
        let model = self.model.valid();
        TransformerAgent {
            cache: model.transformer.cache(0, 3 * self.sizes.context),
            model,
            context: self.sizes.context,
            device: self.device.clone(),
            interface: card.interface.clone(),
            labels: card.labels.expect("a policy that was trained on labels has a scale for them"),
            card,
            windows: Vec::new(),
            episodes: Episodes::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use esper_data::Cells;

    use super::*;
    use crate::condition::Target;
    use crate::fixtures::discrete;
    use crate::policy::LabelInput;
    use crate::policy::PolicyOrigin;

    /// Acting sees exactly what training saw: at every step of an episode, with its own actions and what is left of its
    /// return, the agent's outputs are those of the window that training would cut there.
    #[test]
    fn acting_and_training_see_the_same_tokens() {
        let lengths = [11, 3];
        let steps = 14;
        let seen: Vec<u8> = (0..steps as u8 + 2).map(|at| at * 7 % 5).collect();
        let taken: Vec<u8> = (0..steps as u8).map(|at| at * 5 % 3).collect();
        let rewards: Vec<f32> = (0..steps).map(|at| (at % 4) as f32 - 1.0).collect();
        let data = discrete([5, 3], &lengths, &seen, &taken, &rewards, &[]);
        let interface = Interface::of(&data);
        let labels = data.returns_to_go(1.0);
        let input = LabelInput::of(&labels, &data, &[0, 1]);
        let seen: Vec<f32> = labels.iter().map(|&label| input.apply(f64::from(label))).collect();
        let device = crate::fixtures::cpu();
        let sizes = Sizes { context: 4, width: 16, layers: 3, heads: 1, times: 11 };
        let blank = Blank::of(sizes, 0.0, &interface);
        let model = blank.init(&device.clone().autodiff(), &mut Seed::new(1).rng());
        let network = TransformerNetwork { model, sizes, device: device.clone() };
        let origin = PolicyOrigin::default();
        let mut agent = network.transformer_agent(PolicyCard {
            labels: Some(input),
            ..PolicyCard::new(NAME, &(), &interface, 1.0, &origin)
        });
        let mut windows_seen = Vec::new();
        for episode in 0..2 {
            let start = data.episode_steps(episode).start;
            agent.begin(episode, Target::Return(f64::from(labels[start])), Seed::new(0));
        }
        for time in 0..lengths[0] {
            // Both episodes side by side while they last, in either order.
            let mut places: Vec<usize> =
                (0..2).filter(|&episode| time < lengths[episode]).collect();
            places.reverse();
            let rows: Vec<usize> =
                places.iter().map(|&e| data.episode_observations(e).start + time).collect();
            let states = interface.states(&data, &rows, &device);
            let outputs = agent.outputs(states, &places).unwrap();
            for (&episode, outputs) in places.iter().zip(outputs.chunks_exact(3)) {
                let length = agent.windows[episode].steps.len();
                windows_seen.push(length);
                let window = Window { episode, start: time + 1 - length, end: time };
                let model = network.model.valid();
                let noise = &mut Noise::new(0);
                let told = |_: usize, step: usize| seen[step];
                let (whole, _) = model.forward(&data, &interface, &told, &[window], noise);
                let whole = floats(whole);
                for (acting, training) in outputs.iter().zip(&whole[whole.len() - 3..]) {
                    assert!((acting - training).abs() < 1e-4, "step {time} of {episode}");
                }
            }
            let taken: Vec<usize> =
                places.iter().map(|&e| data.episode_steps(e).start + time).collect();
            let cells: Vec<u8> =
                taken.iter().map(|&step| data.actions().category(step) as u8).collect();
            agent.took(Cells::Byte(cells).view(), &places);
            for (&place, &step) in places.iter().zip(&taken) {
                agent.reward(place, data.rewards()[step]).unwrap();
            }
        }
        assert_eq!(windows_seen.iter().max(), Some(&4));
    }
}
