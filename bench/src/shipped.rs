//! The models that the program trains and acts with, on made-up data of the sizes of the paper's tasks.

use esper::condition::{Condition, Conditioned, Target};
use esper::methods::Context;
use esper::methods::esper::{ClusterConfig, ClusterLearner};
use esper::policy::mlp::{MlpKind, MlpLearner, MlpPolicyConfig};
use esper::policy::transformer::{TransformerKind, TransformerLearner, TransformerPolicyConfig};
use esper::policy::{Policy, PolicyOrigin, TrainingSet};
use esper::settings::{Config, Preset};
use esper::training::Learner;
use esper::{Interface, Registry, Split, Unwatched};
use esper_data::{Cells, Dataset, DatasetBuilder, End, Metadata, Rng, Seed, Space};
use esper_nn::{Device, DeviceName};
use rand::RngExt;

use crate::Workload;

/// What made-up data looks like.
pub(crate) struct Sizes {
    pub(crate) observation: Space,
    pub(crate) actions: u32,
    pub(crate) lengths: std::ops::RangeInclusive<usize>,
    pub(crate) episodes: usize,
}

/// Connect Four: planes of 84 bits, of which about a seventh are set.
pub(crate) fn connect_four(lengths: std::ops::RangeInclusive<usize>, episodes: usize) -> Sizes {
    let observation = Space::MultiBinary { shape: vec![2, 7, 6] };
    Sizes { observation, actions: 7, lengths, episodes }
}

/// 2048: sixteen cells of eight categories.
pub(crate) fn twenty48(lengths: std::ops::RangeInclusive<usize>, episodes: usize) -> Sizes {
    let observation = Space::MultiDiscrete { nvec: vec![8; 16] };
    Sizes { observation, actions: 4, lengths, episodes }
}

impl Sizes {
    /// Episodes of random cells, actions and rewards.
    fn data(&self, rng: &mut Rng) -> Dataset {
        let metadata = Metadata::new(self.observation.clone(), Space::Discrete { n: self.actions });
        let mut builder = DatasetBuilder::new(metadata);
        for _ in 0..self.episodes {
            for _ in 0..rng.random_range(self.lengths.clone()) {
                let (seen, action) = (self.observe(rng), rng.random_range(0..self.actions as u8));
                builder.push(&seen, &[action], rng.random()).expect("made-up data is valid");
            }
            let end = End { terminated: true, truncated: false };
            builder.end(&self.observe(rng), end).expect("made-up data is valid");
        }
        builder.build().expect("made-up data is valid")
    }

    fn observe(&self, rng: &mut Rng) -> Vec<u8> {
        match &self.observation {
            Space::MultiDiscrete { nvec } => {
                nvec.iter().map(|&n| rng.random_range(0..n as u8)).collect()
            }
            space => (0..space.cells()).map(|_| u8::from(rng.random_bool(0.15))).collect(),
        }
    }
}

/// Everything that a method is given. It is kept for as long as the program runs: a workload borrows from it.
struct Given {
    data: Dataset,
    interface: Interface,
    split: Split,
    config: Config,
    device: Device,
    origin: PolicyOrigin,
    labels: Vec<f32>,
    episodes: Vec<usize>,
}

impl Given {
    fn of(sizes: &Sizes, settings: &[&str]) -> &'static Self {
        let data = sizes.data(&mut Seed::new(0).rng());
        let settings: Vec<String> = settings.iter().map(|&setting| setting.to_owned()).collect();
        let config = Registry::default().config(Preset::Paper).changed(None, &settings);
        Box::leak(Box::new(Given {
            interface: Interface::of(&data),
            split: Split::new(&data, 0.1, Seed::new(0)).expect("there are enough episodes"),
            config: config.expect("the settings make sense"),
            device: DeviceName::Cpu.open().expect("there is a CPU"),
            origin: PolicyOrigin::default(),
            labels: data.returns_to_go(1.0),
            episodes: (0..data.episodes()).collect(),
            data,
        }))
    }

    fn context(&'static self) -> &'static Context<'static> {
        Box::leak(Box::new(Context {
            data: &self.data,
            interface: &self.interface,
            split: &self.split,
            config: &self.config,
            discount: 1.0,
            seed: Seed::new(0),
            device: &self.device,
            monitor: &Unwatched,
            policy: &MlpKind,
            origin: &self.origin,
            memory: None,
        }))
    }

    fn set(&'static self) -> &'static TrainingSet<'static> {
        Box::leak(Box::new(TrainingSet {
            data: &self.data,
            interface: &self.interface,
            labels: &self.labels,
            conditioned: Box::leak(Box::new(Conditioned::on_labels(
                &self.labels,
                &self.data,
                &self.episodes,
            ))),
            episodes: &self.episodes,
            discount: 1.0,
            has_targets: true,
        }))
    }
}

/// A training step.
pub(crate) struct Training {
    learner: Box<dyn Learner>,
    step: usize,
    flops: f64,
}

impl Workload for Training {
    fn round(&mut self) {
        std::hint::black_box(self.learner.learn(self.step, 1.0));
        self.step += 1;
    }

    fn flops(&self) -> f64 {
        self.flops
    }
}

/// W1 and W2: one update of the cluster model and one of the transition predictor, with and without clusters, as the
/// preset `paper` has them.
pub(crate) fn clustering(sizes: &Sizes) -> Training {
    let given = Given::of(sizes, &[]);
    let config: ClusterConfig = given.config.get().expect("it has settings");
    let config = config.following(&given.interface, true, Condition::StepLevel);
    let config: &'static ClusterConfig = Box::leak(Box::new(config));
    let rows = config.batch * given.data.steps() / given.data.episodes();
    Training {
        learner: Box::new(ClusterLearner::new(given.context(), config, "cluster")),
        step: 0,
        flops: clustering_flops(config, &given.interface, rows),
    }
}

/// Floating-point operations of the matrix products of a round: forward, gradients of weights, gradients of inputs where
/// they are used. Sparse products are left out.
fn clustering_flops(config: &ClusterConfig, interface: &Interface, rows: usize) -> f64 {
    let ClusterConfig { hidden, rep_size, .. } = *config;
    let (observation, actions) = (interface.observation.width(), interface.action.outputs());
    let square = hidden * hidden;
    let encoder = 3 * (square + square);
    let lstm = 3 * (2 * 4 * square);
    let logits = 3 * (square + hidden * rep_size);
    let clusters_in = hidden * rep_size;
    let action = 3 * (clusters_in + square + hidden * actions);
    let transition = 3 * (clusters_in + square + hidden * observation);
    let without = 3 * (square + hidden * observation);
    2.0 * rows as f64 * (encoder + lstm + logits + action + transition + without) as f64
}

/// W3: the Decision Transformer of the preset `paper`. Episodes are so long that nearly all windows are full.
pub(crate) fn transformer_step() -> Training {
    let given = Given::of(&connect_four(2_000..=2_000, 20), &[]);
    let config: TransformerPolicyConfig = given.config.get().expect("it has settings");
    let TransformerPolicyConfig { context, batch, width, layers, .. } = config;
    let (tokens, wanted) = ((3 * context - 1) * batch, context * batch);
    let square = width * width;
    let attention = |rows: usize| rows * 2 * (3 * context) * width;
    let (qkv, rest) = (3 * square, (1 + 8) * square);
    let full = tokens * (qkv + rest) + attention(tokens);
    let last = tokens * qkv + attention(tokens) + wanted * rest;
    Training {
        learner: Box::new(TransformerLearner::new(
            given.set(),
            &config,
            Seed::new(0),
            &given.device,
        )),
        step: 0,
        flops: 2.0 * 3.0 * ((layers - 1) * full + last) as f64,
    }
}

/// W4 and W5: the MLP policy of the paper, without dropout, in batches of 100.
const MLP: [&str; 2] = ["mlp.batch=100", "mlp.dropout=0"];

fn mlp_flops(rows: usize) -> f64 {
    let MlpPolicyConfig { hidden, layers, .. } = esper::settings::Settings::preset(Preset::Paper);
    2.0 * rows as f64 * ((layers - 1) * hidden * hidden + hidden * 7) as f64
}

/// W4.
pub(crate) fn mlp_step() -> Training {
    let given = Given::of(&connect_four(4..=22, 500), &MLP);
    let config: MlpPolicyConfig = given.config.get().expect("it has settings");
    Training {
        learner: Box::new(MlpLearner::new(given.set(), &config, Seed::new(0), &given.device)),
        step: 0,
        flops: 3.0 * mlp_flops(config.batch),
    }
}

/// W5: one action in so many episodes, with all that an agent does for it.
pub(crate) struct Acting {
    agent: Box<dyn esper::agent::Agent>,
    observations: Cells,
    places: Vec<usize>,
    flops: f64,
}

impl Acting {
    pub(crate) fn mlp(episodes: usize) -> Self {
        let given = Given::of(&connect_four(4..=22, 500), &["mlp.steps=1"]);
        let learned = esper::policy::PolicyKind::train(&MlpKind, given.set(), given.context());
        Self::of(&learned.expect("it can be trained"), episodes, mlp_flops(episodes))
    }

    /// By the time that it is measured, its window is full and begins again now and then, as in any long episode.
    pub(crate) fn transformer(episodes: usize) -> Self {
        let given = Given::of(&connect_four(2_000..=2_000, 20), &["transformer.steps=1"]);
        let learned =
            esper::policy::PolicyKind::train(&TransformerKind, given.set(), given.context());
        let TransformerPolicyConfig { width, layers, .. } =
            given.config.get().expect("it has settings");
        let flops = 2.0 * (3 * episodes * layers * 12 * width * width) as f64;
        Self::of(&learned.expect("it can be trained"), episodes, flops)
    }

    fn of(policy: &Policy, episodes: usize, flops: f64) -> Self {
        let mut agent = policy.agent();
        let places: Vec<usize> = (0..episodes).collect();
        places
            .iter()
            .for_each(|&place| agent.begin(place, Target::Return(1.0), Seed::new(place as u64)));
        let mut rng = Seed::new(1).rng();
        let sizes = connect_four(1..=1, 1);
        let observations =
            Cells::Byte(places.iter().flat_map(|_| sizes.observe(&mut rng)).collect());
        Acting { agent, observations, places, flops }
    }
}

impl Workload for Acting {
    fn round(&mut self) {
        let mut actions = Cells::Byte(Vec::new());
        let acted = self.agent.act(self.observations.view(), &self.places, &mut actions);
        acted.expect("observations are valid");
        std::hint::black_box(actions);
    }

    fn flops(&self) -> f64 {
        self.flops
    }
}
