//! W3 to W5: steps of the Decision Transformer and of the policy MLP, and acting with both.

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use esper_nn::{
    AdamW, AdamWConfig, KeyValueCache, Linear, LinearConfig, Mlp, MlpConfig, Noise, SparseRows,
    Transformer, TransformerConfig, cross_entropy, gather_rows,
};
use rand::RngExt;

use crate::clustering::sparse;
use crate::{BATCH, HIDDEN, Rng, Workload, rng};

const OBSERVATION: usize = 84;
const ACTIONS: usize = 7;
const CONTEXT: usize = 20;
const WIDTH: usize = 128;
const LAYERS: usize = 3;

fn random_states(rows: usize, rng: &mut Rng) -> SparseRows {
    let row = |rng: &mut Rng| {
        (0..OBSERVATION as u32).filter(|_| rng.random_bool(0.15)).collect::<Vec<u32>>()
    };
    sparse(OBSERVATION, &(0..rows).map(|_| row(rng)).collect::<Vec<_>>())
}

fn random_actions(rows: usize, rng: &mut Rng) -> Vec<u32> {
    (0..rows).map(|_| rng.random_range(0..ACTIONS as u32)).collect()
}

fn random_column(rows: usize, rng: &mut Rng, device: &Device) -> Tensor<2> {
    let values: Vec<f32> = (0..rows).map(|_| rng.random()).collect();
    Tensor::from_data(TensorData::new(values, [rows, 1]), device)
}

/// Draws an action for every row of logits.
fn sample(logits: Tensor<2>, rng: &mut Rng) -> Vec<usize> {
    let logits: Vec<f32> = logits.into_data().try_to_vec().expect("logits are floats");
    let draw = |logits: &[f32]| {
        let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights: Vec<f32> = logits.iter().map(|logit| (logit - highest).exp()).collect();
        let mut left = rng.random::<f32>() * weights.iter().sum::<f32>();
        let chosen = weights.iter().position(|weight| {
            left -= weight;
            left <= 0.0
        });
        chosen.unwrap_or(weights.len() - 1)
    };
    logits.chunks(ACTIONS).map(draw).collect()
}

/// Labels, states and actions as tokens, in turn; actions are read off the state tokens.
#[derive(Module, Debug)]
struct DecisionTransformer {
    label: Linear,
    state: Linear,
    action: Linear,
    transformer: Transformer,
    head: Linear,
}

impl DecisionTransformer {
    fn new(device: &Device, rng: &mut Rng) -> Self {
        DecisionTransformer {
            label: LinearConfig::new(1, WIDTH).init(device, rng),
            state: LinearConfig::new(OBSERVATION, WIDTH).init(device, rng),
            action: LinearConfig::new(ACTIONS, WIDTH).init(device, rng),
            transformer: TransformerConfig::new(42).with_layers(LAYERS).init(device, rng),
            head: LinearConfig::new(WIDTH, ACTIONS).init(device, rng),
        }
    }
}

struct Windows {
    labels: Tensor<2>,
    states: SparseRows,
    actions: SparseRows,
    taken: Vec<u32>,
}

impl Windows {
    fn random(count: usize, device: &Device, rng: &mut Rng) -> Self {
        let rows = count * CONTEXT;
        let taken = random_actions(rows, rng);
        let one_hot: Vec<Vec<u32>> = taken.iter().map(|&action| vec![action]).collect();
        Windows {
            labels: random_column(rows, rng, device),
            states: random_states(rows, rng),
            actions: sparse(ACTIONS, &one_hot),
            taken,
        }
    }
}

/// W3. The last action of a window is no token: nobody looks at it.
pub(crate) struct TransformerStep {
    model: Option<DecisionTransformer>,
    optimizer: AdamW,
    batches: Vec<Windows>,
    turn: usize,
    noise: Noise,
    order: Vec<u32>,
    times: Vec<u32>,
    offsets: Vec<usize>,
    wanted: Vec<u32>,
}

const WINDOWS: usize = 64;

impl TransformerStep {
    pub(crate) fn new() -> Self {
        let device = Device::flex().autodiff();
        let mut rng = rng();
        let rows = WINDOWS * CONTEXT;
        let tokens = 3 * CONTEXT - 1;
        let mut order = Vec::new();
        for window in 0..WINDOWS {
            for token in 0..tokens {
                order.push((token % 3 * rows + window * CONTEXT + token / 3) as u32);
            }
        }
        let position = |row: usize| row / CONTEXT * tokens + row % CONTEXT * 3 + 1;
        TransformerStep {
            model: Some(DecisionTransformer::new(&device, &mut rng)),
            optimizer: AdamWConfig::new().with_weight_decay(1e-4).with_max_norm(Some(0.25)).init(),
            batches: (0..4).map(|_| Windows::random(WINDOWS, &device, &mut rng)).collect(),
            turn: 0,
            noise: Noise::new(0),
            times: (0..WINDOWS * tokens).map(|row| (row % tokens / 3) as u32).collect(),
            offsets: (0..=WINDOWS).map(|window| window * tokens).collect(),
            wanted: (0..rows).map(|row| position(row) as u32).collect(),
            order,
        }
    }
}

impl Workload for TransformerStep {
    fn round(&mut self) {
        let Windows { labels, states, actions, taken } = &self.batches[self.turn % 4];
        self.turn += 1;
        let model = self.model.take().expect("there is always one");
        let parts = vec![
            model.label.forward(labels.clone()),
            model.state.forward(states.clone()),
            model.action.forward(actions.clone()),
        ];
        let tokens = gather_rows(Tensor::cat(parts, 0), &self.order);
        let (times, offsets, wanted) = (&self.times, &self.offsets, &self.wanted);
        let output = model.transformer.forward(tokens, times, offsets, wanted, &mut self.noise);
        let loss = cross_entropy(model.head.forward(output), taken, None);
        self.model = Some(self.optimizer.step(5e-4, model, loss.backward()));
    }

    fn flops(&self) -> f64 {
        let (tokens, wanted) = ((3 * CONTEXT - 1) * WINDOWS, CONTEXT * WINDOWS);
        let square = WIDTH * WIDTH;
        let attention = |rows: usize| rows * 2 * (3 * CONTEXT) * WIDTH;
        let (qkv, rest) = (3 * square, (1 + 8) * square);
        let full = tokens * (qkv + rest) + attention(tokens);
        let last = tokens * qkv + attention(tokens) + wanted * rest;
        2.0 * 3.0 * ((LAYERS - 1) * full + last) as f64
    }
}

fn policy(device: &Device, rng: &mut Rng) -> Mlp {
    MlpConfig::new(OBSERVATION + 1, ACTIONS).with_hidden(HIDDEN).with_layers(3).init(device, rng)
}

fn policy_flops(rows: usize) -> f64 {
    2.0 * rows as f64 * (2 * HIDDEN * HIDDEN + HIDDEN * ACTIONS) as f64
}

/// W4.
pub(crate) struct PolicyStep {
    model: Option<Mlp>,
    optimizer: AdamW,
    batches: Vec<(SparseRows, Tensor<2>, Vec<u32>)>,
    turn: usize,
    noise: Noise,
}

impl PolicyStep {
    pub(crate) fn new() -> Self {
        let device = Device::flex().autodiff();
        let mut rng = rng();
        let mut batch = |_| {
            let states = random_states(BATCH, &mut rng);
            let labels = random_column(BATCH, &mut rng, &device);
            (states, labels, random_actions(BATCH, &mut rng))
        };
        let batches = (0..4).map(&mut batch).collect();
        PolicyStep {
            model: Some(policy(&device, &mut rng)),
            optimizer: AdamWConfig::new().with_weight_decay(1e-4).init(),
            batches,
            turn: 0,
            noise: Noise::new(0),
        }
    }
}

impl Workload for PolicyStep {
    fn round(&mut self) {
        let (states, labels, taken) = &self.batches[self.turn % 4];
        self.turn += 1;
        let model = self.model.take().expect("there is always one");
        let logits = model.forward((states.clone(), labels.clone()), &mut self.noise);
        let loss = cross_entropy(logits, taken, None);
        self.model = Some(self.optimizer.step(5e-4, model, loss.backward()));
    }

    fn flops(&self) -> f64 {
        3.0 * policy_flops(BATCH)
    }
}

/// W5, the MLP.
pub(crate) struct PolicyActing {
    model: Mlp,
    states: SparseRows,
    labels: Tensor<2>,
    rng: Rng,
}

impl PolicyActing {
    pub(crate) fn new(episodes: usize) -> Self {
        let device = Device::flex();
        let mut rng = rng();
        PolicyActing {
            model: policy(&device.clone().autodiff(), &mut rng).valid(),
            states: random_states(episodes, &mut rng),
            labels: random_column(episodes, &mut rng, &device),
            rng,
        }
    }
}

impl Workload for PolicyActing {
    fn round(&mut self) {
        let rows = (self.states.clone(), self.labels.clone());
        let logits = self.model.forward(rows, &mut Noise::new(0));
        std::hint::black_box(sample(logits, &mut self.rng));
    }

    fn flops(&self) -> f64 {
        policy_flops(self.states.rows())
    }
}

/// W5, the transformer, with all of its context but the newest step in the cache.
pub(crate) struct TransformerActing {
    model: DecisionTransformer,
    cache: KeyValueCache,
    newest: Windows,
    episodes: usize,
    rng: Rng,
}

impl TransformerActing {
    pub(crate) fn new(episodes: usize) -> Self {
        let device = Device::flex();
        let mut rng = rng();
        let model = DecisionTransformer::new(&device.clone().autodiff(), &mut rng).valid();
        let mut cache = model.transformer.cache(episodes, 3 * CONTEXT);
        let all: Vec<usize> = (0..episodes).collect();
        // What the cache holds does not change the time it takes.
        for token in 0..3 * CONTEXT - 3 {
            let tokens = Tensor::zeros([episodes, WIDTH], &device);
            let times = vec![token as u32 / 3; episodes];
            model.transformer.extend(tokens, &times, &all, &mut cache);
        }
        let newest = Windows {
            labels: random_column(episodes, &mut rng, &device),
            states: random_states(episodes, &mut rng),
            actions: sparse(ACTIONS, &vec![vec![0]; episodes]),
            taken: Vec::new(),
        };
        TransformerActing { model, cache, newest, episodes, rng }
    }
}

impl Workload for TransformerActing {
    fn round(&mut self) {
        // The action of the step before, then label and state of this one.
        let Windows { labels, states, actions, .. } = &self.newest;
        let parts = vec![
            self.model.action.forward(actions.clone()),
            self.model.label.forward(labels.clone()),
            self.model.state.forward(states.clone()),
        ];
        let episodes = self.episodes;
        let order: Vec<u32> =
            (0..3 * episodes).map(|row| (row % 3 * episodes + row / 3) as u32).collect();
        let tokens = gather_rows(Tensor::cat(parts, 0), &order);
        let times: Vec<u32> =
            (0..3 * episodes).map(|row| CONTEXT as u32 - 1 - u32::from(row % 3 == 0)).collect();
        let all: Vec<usize> = (0..episodes).collect();
        let output = self.model.transformer.extend(tokens, &times, &all, &mut self.cache);
        let states: Vec<u32> = (0..episodes).map(|episode| 3 * episode as u32 + 2).collect();
        let logits = self.model.head.forward(gather_rows(output, &states));
        std::hint::black_box(sample(logits, &mut self.rng));
        (0..episodes).for_each(|episode| self.cache.forget(episode, 3));
    }

    fn flops(&self) -> f64 {
        2.0 * (3 * self.episodes * LAYERS * 12 * WIDTH * WIDTH) as f64
    }
}
