//! A whole training, and the folder that keeps it.
//!
//! | file | what |
//! |---|---|
//! | `manifest.json` | what was trained on what: version, method, policy, seed, data with its checksums |
//! | `config.toml` | every setting, resolved; `--config` takes it again |
//! | `metrics.jsonl` | losses and other measures while training, one JSON document a line |
//! | `labels.parquet` | the label of every step, and the probabilities of its clusters; for methods with targets |
//! | `labelled.json` | what the labels came out like, by behaviour, time and cluster |
//! | `policy.safetensors`, and for ESPER `clusters.safetensors`, `returns.safetensors` | the weights |
//! | `agent.json` | what acting needs beside the weights |
//! | `training.json` | what is known about the labels without the world; written last, so that a folder with it is complete |
//! | `events.out.tfevents.esper` | the same as `metrics.jsonl` for TensorBoard, if it was asked for |
//! | `checkpoints/` | where to go on, while it is not |

mod checkpoint;
mod events;
mod folder;
mod labelled;

use std::time::Instant;

use esper_data::{Dataset, Seed, Space};
use serde::{Deserialize, Serialize};

pub use events::EventFile;
pub use folder::{Agents, DataId, Manifest, Record, RunFolder, Summary};
pub use labelled::{BehaviourLabels, ClusterUse, Histogram, Labelled, TimeLabel};

use crate::agent::Agent;
use crate::config::{Config, Preset};
use crate::error::Error;
use crate::policy::{LabelInput, MlpPolicy, Support, TrainingSet, TransformerPolicy};
use crate::relabel::esper::Esper;
use crate::relabel::{Cloning, Context, Labels, Observed, Relabel};
use crate::training::Monitor;
use crate::trajectories::{Interface, Split};
use crate::value::{self, ActorPolicy, QPolicy};

/// How a policy comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Steps are labelled with the average return of their cluster.
    Esper,
    /// Steps are labelled with the return that followed.
    Rvs,
    /// Conservative Q-learning: no labels, and a policy of its own kind.
    Cql,
    /// Behaviour cloning: no labels.
    Bc,
}

impl Method {
    /// All of them.
    pub const ALL: [Method; 4] = [Method::Esper, Method::Rvs, Method::Cql, Method::Bc];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Method::Esper => "esper",
            Method::Rvs => "rvs",
            Method::Cql => "cql",
            Method::Bc => "bc",
        }
    }

    /// Whether a policy of a chosen kind is trained on labels.
    pub fn has_policy(self) -> bool {
        self != Method::Cql
    }

    /// Whether it can be asked for a target.
    pub fn has_targets(self) -> bool {
        matches!(self, Method::Esper | Method::Rvs)
    }
}

/// What is trained on labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PolicyKind {
    /// State and label in, action out.
    Mlp,
    /// A Decision Transformer.
    Transformer,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 2] = [PolicyKind::Mlp, PolicyKind::Transformer];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PolicyKind::Mlp => "mlp",
            PolicyKind::Transformer => "transformer",
        }
    }
}

/// Something trained that acts.
#[derive(Clone, Debug)]
pub enum Policy {
    /// State and label in, action out.
    Mlp(MlpPolicy),
    /// A Decision Transformer.
    Transformer(Box<TransformerPolicy>),
    /// What is worth most among some actions.
    Values(QPolicy),
    /// What is worth most among real numbers.
    Actor(ActorPolicy),
}

impl Policy {
    /// The weights, as safetensors.
    pub fn to_safetensors(&self) -> Vec<u8> {
        match self {
            Policy::Mlp(policy) => policy.to_safetensors(),
            Policy::Transformer(policy) => policy.to_safetensors(),
            Policy::Values(policy) => policy.to_safetensors(),
            Policy::Actor(policy) => policy.to_safetensors(),
        }
    }

    /// How observations and actions enter it.
    pub fn interface(&self) -> &Interface {
        match self {
            Policy::Mlp(policy) => policy.interface(),
            Policy::Transformer(policy) => policy.interface(),
            Policy::Values(policy) => policy.interface(),
            Policy::Actor(policy) => policy.interface(),
        }
    }

    /// How labels enter it, if they do.
    pub fn labels(&self) -> Option<&LabelInput> {
        match self {
            Policy::Mlp(policy) => Some(policy.labels()),
            Policy::Transformer(policy) => Some(policy.labels()),
            Policy::Values(_) | Policy::Actor(_) => None,
        }
    }

    /// The policy as something that acts.
    pub fn agent(&self) -> Box<dyn Agent> {
        match self {
            Policy::Mlp(policy) => Box::new(policy.agent()),
            Policy::Transformer(policy) => Box::new(policy.agent()),
            Policy::Values(policy) => Box::new(policy.agent()),
            Policy::Actor(policy) => Box::new(policy.agent()),
        }
    }
}

/// What to train.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// How a policy comes about.
    pub method: Method,
    /// What is trained on labels, if there are any.
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
    /// What acts.
    pub policy: Policy,
    /// Which targets it can be asked for, if it can be asked.
    pub support: Option<Support>,
    /// The times that a transformer has embeddings of.
    times: usize,
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
        if self.method == Method::Cql {
            value::check(data)?;
        }
        self.split(data).map(|_| ())
    }

    /// A configuration without what this plan makes no use of: settings of other methods may change.
    fn used(&self, config: Config) -> Config {
        let other = Config::preset(Preset::Quick, None);
        let labels = self.method == Method::Esper;
        let policy = |kind: PolicyKind| self.method.has_policy() && self.policy == kind;
        let values = self.method == Method::Cql;
        Config {
            discount: config.discount,
            held_out: config.held_out,
            cluster: if labels { config.cluster } else { other.cluster },
            leakage: if labels { config.leakage } else { other.leakage },
            returns: if labels { config.returns } else { other.returns },
            mlp: if policy(PolicyKind::Mlp) { config.mlp } else { other.mlp },
            transformer: match policy(PolicyKind::Transformer) {
                true => config.transformer,
                false => other.transformer,
            },
            bc: if self.method == Method::Bc { config.bc } else { other.bc },
            cql: if values { config.cql } else { other.cql },
            cql_continuous: if values { config.cql_continuous } else { other.cql_continuous },
        }
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
        let relabeller: Box<dyn Relabel> = match method {
            Method::Esper => Box::new(Esper { config: config.clone() }),
            Method::Rvs => Box::new(Observed),
            Method::Bc | Method::Cql => Box::new(Cloning { percentile: config.bc.percentile }),
        };
        let labels = relabeller.relabel(&context)?;
        let everything: Vec<usize> = (0..data.episodes()).collect();
        let set = TrainingSet {
            data,
            interface: &interface,
            labels: &labels.values,
            episodes: labels.episodes.as_deref().unwrap_or(&everything),
            discount: config.discount,
        };
        let times = set.times();
        let policy = match (method, self.policy) {
            (Method::Cql, _)
                if matches!(interface.action.encoding().space(), Space::Box { .. }) =>
            {
                let config = &config.cql_continuous;
                Policy::Actor(ActorPolicy::train(data, &interface, config, seed, monitor)?)
            }
            (Method::Cql, _) => {
                Policy::Values(QPolicy::train(data, &interface, &config.cql, seed, monitor)?)
            }
            (_, PolicyKind::Mlp) => {
                Policy::Mlp(MlpPolicy::train(&set, &config.mlp, seed, monitor)?)
            }
            (_, PolicyKind::Transformer) => Policy::Transformer(Box::new(
                TransformerPolicy::train(&set, &config.transformer, seed, monitor)?,
            )),
        };
        let first_steps = (0..data.episodes()).map(|episode| data.episode_steps(episode).start);
        let first_labels = first_steps.map(|step| labels.values[step]);
        let reach = policy.labels().map(LabelInput::range);
        let support =
            reach.filter(|_| method.has_targets()).map(|reach| Support::of(first_labels, reach));
        let seconds = started.elapsed().as_secs_f64();
        Ok(Outcome { labels, policy, support, times, seconds })
    }
}
