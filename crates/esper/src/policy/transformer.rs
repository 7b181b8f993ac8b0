//! Phase 3 with a Decision Transformer: labels, states and actions as tokens, in turn; actions are read off the states.
//!
//! > label_0, s_0, a_0, label_1, s_1, a_1, …
//!
//! It is trained on windows of trajectories, cut to their true length. Every state of a window is to tell its action, so
//! it learns to act on any number of steps up to its context. That is what it needs when it acts: the window grows to the
//! full context, then starts again with the newer half of it, and what has been computed for a token stays right.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use esper_data::{Cells, CellsRef, Dataset, Rng, Seed};
use esper_nn::{
    AdamWConfig, KeyValueCache, Linear, LinearConfig, Noise, RowsIn, Transformer,
    TransformerConfig, from_safetensors, gather_rows, to_safetensors,
};
use rand::RngExt;

use super::{Episodes, LabelInput, TrainingSet, column, floats};
use crate::agent::{Agent, Remaining};
use crate::config::TransformerPolicyConfig;
use crate::error::Error;
use crate::features::{Column, encode};
use crate::training::{Kept, Learner, Monitor, Schedule, Trained, train};
use crate::trajectories::{Interface, StepRows};

/// The network: embeddings of the three kinds of tokens, the transformer, and what actions are read off with.
#[derive(Module, Debug)]
struct DecisionTransformer {
    label: Linear,
    state: Linear,
    action: Linear,
    transformer: Transformer,
    head: Linear,
}

/// A trained policy.
#[derive(Clone, Debug)]
pub struct TransformerPolicy {
    model: DecisionTransformer,
    interface: Interface,
    labels: LabelInput,
    discount: f64,
    context: usize,
}

/// The most times that get an embedding of their own.
const MOST_TIMES: usize = 4_096;

impl TransformerPolicy {
    /// Learns to do what was done, given labels and what came before. All steps count the same.
    pub(crate) fn train(
        set: &TrainingSet<'_>,
        config: &TransformerPolicyConfig,
        seed: Seed,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let device = Device::flex().autodiff();
        let seed = seed.named("policy");
        let labels = LabelInput::of(set.labels, set.data, set.episodes);
        let mut rng = seed.named("initialisation").rng();
        let model = network(config, set.interface, set.times(), &device, &mut rng);
        let optimizer = AdamWConfig::new()
            .with_weight_decay(config.weight_decay)
            .with_warmup_steps(config.warmup)
            .with_max_norm(Some(config.max_norm));
        let mut learner = Cloning {
            set,
            input: set.labels.iter().map(|&label| labels.apply(f64::from(label))).collect(),
            steps: set.places(),
            config,
            device,
            seed,
            model: Trained::new(model, &optimizer, config.learning_rate),
        };
        let schedule = Schedule { steps: config.steps, decay: config.decay };
        train(&mut learner, "policy", schedule, monitor)?;
        Ok(TransformerPolicy {
            model: learner.model.into_module(),
            interface: set.interface.clone(),
            labels,
            discount: set.discount,
            context: config.context,
        })
    }

    /// The weights.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_safetensors(&self.model)
    }

    /// A policy from its weights and what is kept beside them; `times` as in training.
    pub(crate) fn from_safetensors(
        bytes: &[u8],
        config: &TransformerPolicyConfig,
        interface: Interface,
        labels: LabelInput,
        discount: f64,
        times: usize,
    ) -> Result<Self, Error> {
        let device = Device::flex().autodiff();
        let blank = network(config, &interface, times, &device, &mut Seed::new(0).rng());
        let model = from_safetensors(blank, bytes)?;
        Ok(TransformerPolicy { model, interface, labels, discount, context: config.context })
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
    pub fn agent(&self) -> TransformerAgent {
        let policy = TransformerPolicy { model: self.model.valid(), ..self.clone() };
        let cache = policy.model.transformer.cache(0, 3 * policy.context);
        TransformerAgent { policy, cache, windows: Vec::new(), episodes: Episodes::default() }
    }
}

impl TrainingSet<'_> {
    /// The times that get an embedding of their own.
    pub(crate) fn times(&self) -> usize {
        let longest = (0..self.data.episodes()).map(|episode| self.data.length(episode)).max();
        longest.unwrap_or(1).min(MOST_TIMES)
    }
}

fn network(
    config: &TransformerPolicyConfig,
    interface: &Interface,
    times: usize,
    device: &Device,
    rng: &mut Rng,
) -> DecisionTransformer {
    let TransformerPolicyConfig { width, layers, heads, dropout, .. } = *config;
    DecisionTransformer {
        label: LinearConfig::new(1, width).init(device, rng),
        state: LinearConfig::new(interface.observation.width(), width).init(device, rng),
        action: LinearConfig::new(interface.action.encoding().width(), width).init(device, rng),
        transformer: TransformerConfig::new(times)
            .with_width(width)
            .with_layers(layers)
            .with_heads(heads)
            .with_dropout(dropout)
            .init(device, rng),
        head: LinearConfig::new(width, interface.action.outputs()).init(device, rng),
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
    /// The parameters of the distribution over actions at every step of the windows, one after the other.
    fn forward(
        &self,
        data: &Dataset,
        interface: &Interface,
        labels: &[f32],
        windows: &[Window],
        noise: &mut Noise,
    ) -> (Tensor<2>, Vec<usize>) {
        let device = self.head.device();
        let mut rows = StepRows::default();
        let (mut order, mut times) = (Vec::new(), Vec::new());
        let (mut offsets, mut wanted) = (vec![0], Vec::new());
        let count: usize = windows.iter().map(|window| window.end - window.start + 1).sum();
        for &Window { episode, start, end } in windows {
            for time in start..=end {
                let row = rows.steps.len();
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
        let asked = rows.steps.iter().map(|&step| labels[step]).collect();
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

struct Cloning<'a> {
    set: &'a TrainingSet<'a>,
    input: Vec<f32>,
    /// Every step that may end a window: its episode and its time.
    steps: Vec<(u32, u32)>,
    config: &'a TransformerPolicyConfig,
    device: Device,
    seed: Seed,
    model: Trained<DecisionTransformer>,
}

impl Learner for Cloning<'_> {
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)> {
        let TrainingSet { data, interface, .. } = *self.set;
        let seed = self.seed.indexed(step as u64);
        let mut rng = seed.rng();
        let windows: Vec<Window> = (0..self.config.batch)
            .map(|_| {
                let (episode, end) = self.steps[rng.random_range(0..self.steps.len())];
                let end = end as usize;
                let start = (end + 1).saturating_sub(self.config.context);
                Window { episode: episode as usize, start, end }
            })
            .collect();
        let noise = &mut Noise::new(seed.named("noise").value());
        let model = self.model.module();
        let (outputs, steps) = model.forward(data, interface, &self.input, &windows, noise);
        let taken = interface.taken(data, &steps, &self.device);
        let loss = interface.action.loss(outputs, &taken);
        let measured = f64::from(loss.clone().into_scalar::<f32>());
        self.model.step(pace, &mut loss.backward());
        vec![("policy_loss", measured)]
    }

    fn kept(&mut self) -> Vec<&mut dyn Kept> {
        vec![&mut self.model]
    }
}

/// Acts as the policy says.
pub struct TransformerAgent {
    policy: TransformerPolicy,
    cache: KeyValueCache,
    windows: Vec<Tokens>,
    episodes: Episodes,
}

/// What an episode looks back on.
#[derive(Clone, Default)]
struct Tokens {
    /// The time of the next step.
    time: usize,
    /// The steps of the window before it, each three tokens side by side.
    steps: Vec<Vec<f32>>,
}

impl TransformerAgent {
    /// The parameters of the distributions over the next actions of some places.
    fn outputs(&mut self, states: RowsIn, places: &[usize]) -> Vec<f32> {
        let TransformerPolicy { model, labels, context, .. } = &self.policy;
        let device = Device::flex();
        let asked = places.iter().map(|&place| labels.apply(self.episodes.target(place))).collect();
        let label = floats(model.label.forward(column(asked, &device)));
        let state = floats(model.state.forward(states));
        let width = label.len() / places.len().max(1);
        // Places that extend their window by as many tokens go through the network together.
        let mut groups: Vec<Group> = Vec::new();
        for (at, &place) in places.iter().enumerate() {
            let window = &mut self.windows[place];
            let mut tokens = Vec::new();
            if window.steps.len() >= *context {
                // Full: start again with the newer half.
                window.steps.drain(..window.steps.len() - context / 2);
                self.cache.clear(place);
            }
            let cached = self.cache.length(place);
            let first = window.time - window.steps.len();
            let mut times = Vec::new();
            for (step, three) in window.steps.iter().enumerate() {
                for (kind, token) in three.chunks_exact(width).enumerate() {
                    if 3 * step + kind >= cached {
                        tokens.extend_from_slice(token);
                        times.push((first + step) as u32);
                    }
                }
            }
            let range = at * width..(at + 1) * width;
            tokens.extend_from_slice(&label[range.clone()]);
            tokens.extend_from_slice(&state[range.clone()]);
            times.extend([window.time as u32; 2]);
            window.steps.push([&label[range.clone()], &state[range]].concat());
            let count = times.len();
            let known = groups.iter().position(|group| group.count == count);
            let group = known.unwrap_or_else(|| {
                groups.push(Group { count, ..Group::default() });
                groups.len() - 1
            });
            groups[group].tokens.extend(tokens);
            groups[group].times.extend(times);
            groups[group].members.push((at, place));
        }
        let actions = self.policy.interface.action.outputs();
        let mut outputs = vec![0.0; places.len() * actions];
        for Group { count, tokens, times, members } in groups {
            let rows = times.len();
            let tokens = Tensor::from_data(TensorData::new(tokens, [rows, width]), &device);
            let sequences: Vec<usize> = members.iter().map(|(_, place)| *place).collect();
            let extended = model.transformer.extend(tokens, &times, &sequences, &mut self.cache);
            let states: Vec<u32> =
                (1..=members.len()).map(|member| (member * count - 1) as u32).collect();
            let read = floats(model.head.forward(gather_rows(extended, &states)));
            for ((at, _), read) in members.into_iter().zip(read.chunks_exact(actions)) {
                outputs[at * actions..(at + 1) * actions].copy_from_slice(read);
            }
        }
        outputs
    }

    /// The actions that were then taken in those places.
    fn took(&mut self, actions: CellsRef<'_>, places: &[usize]) {
        let TransformerPolicy { model, interface, .. } = &self.policy;
        let rows: Vec<usize> = (0..places.len()).collect();
        let taken = Column { encoding: interface.action.encoding(), cells: actions, rows: &rows };
        let tokens = floats(model.action.forward(encode(&[taken], &Device::flex())));
        let width = tokens.len() / places.len().max(1);
        for (&place, token) in places.iter().zip(tokens.chunks_exact(width)) {
            let window = &mut self.windows[place];
            window.steps.last_mut().expect("an action follows a state").extend_from_slice(token);
            window.time += 1;
        }
    }
}

/// Places that extend their window by as many tokens.
#[derive(Default)]
struct Group {
    count: usize,
    tokens: Vec<f32>,
    times: Vec<u32>,
    /// Which of the places asked for, and the place.
    members: Vec<(usize, usize)>,
}

impl Agent for TransformerAgent {
    fn begin(&mut self, place: usize, target: f64, seed: Seed) {
        let remaining = Remaining::new(target, self.policy.discount);
        self.episodes.begin(place, remaining, seed);
        if place >= self.windows.len() {
            self.windows.resize_with(place + 1, Tokens::default);
            self.cache.grow(place + 1);
        }
        self.windows[place] = Tokens::default();
        self.cache.clear(place);
    }

    fn act(&mut self, observations: CellsRef<'_>, places: &[usize], actions: &mut Cells) {
        let encoding = &self.policy.interface.observation;
        let seen = Column { encoding, cells: observations, rows: places };
        let states = encode(&[seen], &Device::flex());
        let outputs = self.outputs(states, places);
        let before = actions.len();
        self.episodes.draw(&self.policy.interface.action, &outputs, places, actions);
        let mut chosen = Cells::empty(actions.cell_type());
        chosen.extend_from(actions.view(), before..actions.len());
        self.took(chosen.view(), places);
    }

    fn reward(&mut self, place: usize, reward: f32) {
        self.episodes.reward(place, reward);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::discrete;
    use esper_data::Provenance;

    /// Acting sees exactly what training saw: at every step of an episode, with its own actions and what is left of its
    /// return, the agent's outputs are those of the window that training would cut there.
    #[test]
    fn acting_and_training_see_the_same_tokens() {
        let lengths = [11, 3];
        let steps = 14;
        let seen = (0..steps as u8 + 2).map(|at| at * 7 % 5).collect();
        let taken = (0..steps as u8).map(|at| at * 5 % 3).collect();
        let rewards = (0..steps).map(|at| (at % 4) as f32 - 1.0).collect();
        let data = discrete([5, 3], lengths.to_vec(), seen, taken, rewards, Provenance::default());
        let interface = Interface::of(&data);
        let labels = data.returns_to_go(1.0);
        let input = LabelInput::of(&labels, &data, &[0, 1]);
        let seen: Vec<f32> = labels.iter().map(|&label| input.apply(f64::from(label))).collect();
        let mut config =
            crate::config::Config::preset(crate::config::Preset::Quick, None).transformer;
        (config.width, config.context) = (16, 4);
        let device = Device::flex().autodiff();
        let model = network(&config, &interface, 11, &device, &mut Seed::new(1).rng());
        let policy =
            TransformerPolicy { model, interface, labels: input, discount: 1.0, context: 4 };
        let mut agent = policy.agent();
        let mut windows_seen = Vec::new();
        for episode in 0..2 {
            let start = data.episode_steps(episode).start;
            agent.begin(episode, f64::from(labels[start]), Seed::new(0));
        }
        for time in 0..lengths[0] {
            // Both episodes side by side while they last, in either order.
            let mut places: Vec<usize> =
                (0..2).filter(|&episode| time < lengths[episode]).collect();
            places.reverse();
            let rows: Vec<usize> =
                places.iter().map(|&e| data.episode_observations(e).start + time).collect();
            let states = policy.interface.states(&data, &rows, &Device::flex());
            let outputs = agent.outputs(states, &places);
            for (&episode, outputs) in places.iter().zip(outputs.chunks_exact(3)) {
                let length = agent.windows[episode].steps.len();
                windows_seen.push(length);
                let window = Window { episode, start: time + 1 - length, end: time };
                let model = policy.model.valid();
                let noise = &mut Noise::new(0);
                let (whole, _) = model.forward(&data, &policy.interface, &seen, &[window], noise);
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
                agent.reward(place, data.rewards()[step]);
            }
        }
        assert_eq!(windows_seen.iter().max(), Some(&4));
    }
}
