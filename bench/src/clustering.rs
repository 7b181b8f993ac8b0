//! W1 and W2: one update of the cluster model and one of the transition predictor, with and without clusters.
//!
//! Ours is the paper's Algorithm 2: one forward pass of the transition predictor serves both updates, and one backward
//! pass gives both gradients, turned round where the clusters enter it. Rows are packed, observations sparse.

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use esper_nn::{
    AdamW, AdamWConfig, GumbelSoftmax, GumbelSoftmaxConfig, Lstm, LstmConfig, Mlp, MlpConfig,
    Noise, Normalization, SparseRows, cross_entropy, gather_rows, scale_gradient, squared_error,
};
use rand::RngExt;

use crate::{BATCH, HIDDEN, Rng, Workload, rng};

const REP_SIZE: usize = 128;
const REP_GROUPS: usize = 4;
const BETA_ACT: f32 = 0.05;

/// The sizes of a task.
pub(crate) struct Sizes {
    pub(crate) observation: usize,
    pub(crate) actions: usize,
    pub(crate) lengths: std::ops::RangeInclusive<usize>,
    /// Cells of which exactly one feature each is one; otherwise features are ones at random.
    pub(crate) one_hot_cells: Option<usize>,
}

#[derive(Module, Debug)]
struct ClusterModel {
    encoder: Mlp,
    lstm: Lstm,
    logits: Mlp,
    gumbel: GumbelSoftmax,
    action: Mlp,
}

/// A batch of trajectories, packed.
struct Batch {
    offsets: Vec<usize>,
    states: SparseRows,
    states_and_actions: SparseRows,
    taken: Vec<u32>,
    following: Tensor<2>,
}

pub(crate) struct Clustering {
    cluster_model: Option<ClusterModel>,
    transition: Option<Mlp>,
    cluster_optimizer: AdamW,
    transition_optimizer: AdamW,
    batches: Vec<Batch>,
    turn: usize,
    rng: Rng,
    noise: Noise,
    flops: f64,
}

impl Clustering {
    pub(crate) fn new(sizes: &Sizes) -> Self {
        let device = Device::flex().autodiff();
        let mut rng = rng();
        let Sizes { observation, actions, .. } = *sizes;
        let mut mlp = |inputs: usize, outputs: usize, layers: usize| {
            MlpConfig::new(inputs, outputs)
                .with_hidden(HIDDEN)
                .with_layers(layers)
                .with_normalization(Normalization::Batch)
                .init(&device, &mut rng)
        };
        let encoder = mlp(observation + actions, HIDDEN, 2);
        let logits = mlp(HIDDEN, REP_SIZE, 1);
        let action = mlp(observation + REP_SIZE, actions, 2);
        let transition = mlp(observation + actions + REP_SIZE, observation, 2);
        let lstm = LstmConfig::new(HIDDEN, HIDDEN).with_reverse(true).init(&device, &mut rng);
        let gumbel = GumbelSoftmaxConfig::new(REP_GROUPS, REP_SIZE / REP_GROUPS).init();
        let batches: Vec<Batch> = (0..4).map(|_| batch(sizes, &device, &mut rng)).collect();
        let rows = batches.iter().map(|batch| batch.taken.len()).sum::<usize>() / batches.len();
        Clustering {
            cluster_model: Some(ClusterModel { encoder, lstm, logits, gumbel, action }),
            transition: Some(transition),
            cluster_optimizer: AdamWConfig::new().init(),
            transition_optimizer: AdamWConfig::new().init(),
            batches,
            turn: 0,
            rng,
            noise: Noise::new(0),
            flops: flops(observation, actions, rows),
        }
    }
}

impl Workload for Clustering {
    fn round(&mut self) {
        let Batch { offsets, states, states_and_actions, taken, following } =
            &self.batches[self.turn % self.batches.len()];
        self.turn += 1;
        let model = self.cluster_model.take().expect("there is always one");
        let transition = self.transition.take().expect("there is always one");
        let noise = &mut self.noise;

        let encoded = model.encoder.forward(states_and_actions.clone(), noise);
        let (memory, _) = model.lstm.forward(encoded, offsets, None);
        let clusters = model.gumbel.forward(model.logits.forward(memory, noise), noise);
        let for_actions = gather_rows(clusters.clone(), &past(offsets, &mut self.rng));
        let logits = model.action.forward((states.clone(), for_actions), noise);
        let action_loss = cross_entropy(logits, taken, None);

        let for_states = gather_rows(clusters, &past(offsets, &mut self.rng));
        let against = scale_gradient(for_states, -1.0);
        let with_clusters = transition.forward((states_and_actions.clone(), against), noise);
        let without = transition.forward(states_and_actions.clone(), noise);
        let loss = action_loss * BETA_ACT
            + squared_error(with_clusters, following.clone(), None)
            + squared_error(without, following.clone(), None);

        let mut gradients = loss.backward();
        let model = self.cluster_optimizer.step_part(1e-4, model, &mut gradients);
        self.cluster_model = Some(model);
        self.transition =
            Some(self.transition_optimizer.step_part(5e-4, transition, &mut gradients));
    }

    fn flops(&self) -> f64 {
        self.flops
    }
}

/// For every packed row the row of a step drawn uniformly from 0..=t of the same trajectory.
fn past(offsets: &[usize], rng: &mut Rng) -> Vec<u32> {
    let mut rows = Vec::with_capacity(offsets[offsets.len() - 1]);
    for time in 0..offsets.len() - 1 {
        for episode in 0..offsets[time + 1] - offsets[time] {
            rows.push((offsets[rng.random_range(0..=time)] + episode) as u32);
        }
    }
    rows
}

fn batch(sizes: &Sizes, device: &Device, rng: &mut Rng) -> Batch {
    let mut lengths: Vec<usize> =
        (0..BATCH).map(|_| rng.random_range(sizes.lengths.clone())).collect();
    lengths.sort_by(|a, b| b.cmp(a));
    let mut offsets = vec![0];
    for time in 0..lengths[0] {
        let alive = lengths.iter().filter(|&&length| length > time).count();
        offsets.push(offsets[time] + alive);
    }
    let rows = offsets[offsets.len() - 1];
    let states = random_rows(rows, sizes, rng);
    let taken: Vec<u32> = (0..rows).map(|_| rng.random_range(0..sizes.actions as u32)).collect();
    let with_actions: Vec<Vec<u32>> = states
        .iter()
        .zip(&taken)
        .map(|(state, action)| [&state[..], &[sizes.observation as u32 + action]].concat())
        .collect();
    let following = sparse(sizes.observation, &random_rows(rows, sizes, rng));
    Batch {
        offsets,
        states: sparse(sizes.observation, &states),
        states_and_actions: sparse(sizes.observation + sizes.actions, &with_actions),
        taken,
        following: following.to_dense(device),
    }
}

fn random_rows(rows: usize, sizes: &Sizes, rng: &mut Rng) -> Vec<Vec<u32>> {
    let features = sizes.observation as u32;
    let mut row = || match sizes.one_hot_cells {
        Some(cells) => {
            let categories = features / cells as u32;
            (0..cells as u32)
                .map(|cell| cell * categories + rng.random_range(0..categories))
                .collect()
        }
        None => (0..features).filter(|_| rng.random_bool(0.15)).collect(),
    };
    (0..rows).map(|_| row()).collect()
}

pub(crate) fn sparse(features: usize, rows: &[Vec<u32>]) -> SparseRows {
    let mut end = 0;
    let ends = rows.iter().map(|row| {
        end += row.len() as u32;
        end
    });
    SparseRows::new(features, ends.collect(), rows.concat())
}

/// Floating-point operations of the matrix products of a round: forward, gradients of weights, gradients of inputs where
/// they are used. Sparse products are left out.
fn flops(observation: usize, actions: usize, rows: usize) -> f64 {
    let square = HIDDEN * HIDDEN;
    let encoder = 3 * (square + square);
    let lstm = 3 * (2 * 4 * square);
    let logits = 3 * (square + HIDDEN * REP_SIZE);
    let clusters_in = HIDDEN * REP_SIZE;
    let action = 3 * (clusters_in + square + HIDDEN * actions);
    let transition = 3 * (clusters_in + square + HIDDEN * observation);
    let without = 3 * (square + HIDDEN * observation);
    2.0 * rows as f64 * (encoder + lstm + logits + action + transition + without) as f64
}
