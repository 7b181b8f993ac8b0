//! A whole training, and the folder that keeps it.
//!
//! | file | what |
//! |---|---|
//! | `manifest.json` | what was trained on what: version, method, policy, seed, data with its checksums |
//! | `config.toml` | every setting, resolved; `--config` takes it again |
//! | `metrics.jsonl` | losses and other measures while training, one JSON document a line |
//! | `labels.parquet` | the label of every step, and the probabilities of its clusters |
//! | `clusters.safetensors`, `returns.safetensors`, `policy.safetensors` | the weights |
//! | `agent.json` | what acting needs beside the weights |
//! | `training.json` | what is known about the labels without the world; written last, so that a folder with it is complete |
//! | `checkpoints/` | where to go on, while it is not |

mod checkpoint;
mod folder;

use std::time::Instant;

use esper_data::{Dataset, Seed};
use serde::{Deserialize, Serialize};

pub use folder::{Agents, DataId, Manifest, RunFolder, Summary};

use crate::config::Config;
use crate::error::Error;
use crate::policy::{MlpPolicy, Support};
use crate::relabel::esper::Esper;
use crate::relabel::{Context, Labels, Observed, Relabel};
use crate::training::Monitor;
use crate::trajectories::{Interface, Split};

/// How labels are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The average return of a step's cluster.
    Esper,
    /// The return that followed.
    Rvs,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 2] = [Method::Esper, Method::Rvs];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Esper => "esper",
            Method::Rvs => "rvs",
        }
    }
}

/// What is trained on labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// State and label in, action out.
    Mlp,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 1] = [PolicyKind::Mlp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Mlp => "mlp",
        }
    }
}

/// What to train.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How labels are made.
    pub method: Method,
    /// What is trained on them.
    pub policy: PolicyKind,
    /// Every setting.
    pub config: Config,
    /// Decides everything random.
    pub seed: u64,
}

/// What came of it.
pub struct Outcome {
    /// The labels, and what is known about them.
    pub labels: Labels,
    /// The policy.
    pub policy: MlpPolicy,
    /// Which targets it can be asked for.
    pub support: Support,
    /// How long it took.
    pub seconds: f64,
}

impl Plan {
    /// Whether there is any sense in training on this data.
    pub fn check(&self, data: &Dataset) -> Result<(), Error> {
        self.config.check()?;
        if !data.returns_to_go(self.config.discount).iter().all(|value| value.is_finite()) {
            let problem = "rewards add up to more than a number can hold; make their unit larger";
            return Err(Error::Unsuitable(problem.to_owned()));
        }
        self.split(data).map(|_| ())
    }

    fn split(&self, data: &Dataset) -> Result<Split, Error> {
        Split::new(data, self.config.held_out, self.stream().named("split"))
    }

    /// Where everything random in a training comes from.
    fn stream(&self) -> Seed {
        Seed::new(self.seed).named("train")
    }

    /// Trains.
    pub fn train(&self, data: &Dataset, monitor: &dyn Monitor) -> Result<Outcome, Error> {
        let started = Instant::now();
        let Plan { method, config, .. } = self;
        self.check(data)?;
        let seed = self.stream();
        let interface = Interface::of(data);
        let split = self.split(data)?;
        let context = Context {
            data,
            interface: &interface,
            split: &split,
            discount: config.discount,
            seed: seed.named(method.name()),
            monitor,
        };
        let labels = match method {
            Method::Esper => Esper { config: config.clone() }.relabel(&context)?,
            Method::Rvs => Observed.relabel(&context)?,
        };
        let policy = MlpPolicy::train(
            data,
            &interface,
            &labels.values,
            config.discount,
            &config.mlp,
            seed,
            monitor,
        )?;
        let first_steps = (0..data.episodes()).map(|episode| data.episode_steps(episode).start);
        let support = Support::of(first_steps.map(|step| labels.values[step]));
        Ok(Outcome { labels, policy, support, seconds: started.elapsed().as_secs_f64() })
    }
}
