//! Every hyperparameter, the presets, and how a user changes them.

use esper_nn::Normalization;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::error::Error;

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Sized for two CPU cores.
    Quick,
    /// The paper's.
    Paper,
}

/// Everything that decides how a run learns, beside method and seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How much a reward counts for less a step later.
    pub discount: f64,
    /// The share of the episodes that is not learned from, to measure on.
    pub held_out: f64,
    /// Phase 1: adversarial clustering.
    pub cluster: ClusterConfig,
    /// How the leakage of clusters is measured.
    pub leakage: LeakageConfig,
    /// Phase 2: average returns of clusters.
    pub returns: ReturnsConfig,
    /// Phase 3: the policy, as an MLP.
    pub mlp: MlpPolicyConfig,
    /// Phase 3: the policy, as a transformer.
    pub transformer: TransformerPolicyConfig,
    /// Behaviour cloning.
    pub bc: BcConfig,
    /// Conservative Q-learning for a choice among actions.
    pub cql: CqlConfig,
    /// Conservative Q-learning for real-valued actions.
    pub cql_continuous: CqlContinuousConfig,
}

/// Phase 1: adversarial clustering (Equations 2 and 3).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// Categories of all groups together.
    pub rep_size: usize,
    /// Categorical variables that make up a cluster.
    pub rep_groups: usize,
    /// What reconstructing actions is worth.
    pub beta_act: f64,
    /// What hiding the world's randomness is worth.
    pub beta_adv: f64,
    /// Steps of training.
    pub steps: usize,
    /// Trajectories in a step.
    pub batch: usize,
    /// The width of all layers.
    pub hidden: usize,
    /// Hidden layers of the encoder, the action predictor and the transition predictor.
    pub layers: usize,
    /// How hidden layers are normalised.
    pub normalization: Norm,
    /// How fast encoder, memory and action predictor learn.
    pub learning_rate: f64,
    /// How fast the transition predictor learns.
    pub transition_learning_rate: f64,
    /// Whether learning rates fall to zero over the second half.
    pub decay: bool,
    /// How fast weights decay.
    pub weight_decay: f64,
    /// The temperature of Gumbel-softmax.
    pub temperature: f64,
    /// Whether samples are one-hot, with the gradient of the soft sample.
    pub hard: bool,
    /// What the transition predictor sees beside the cluster.
    pub transition: TransitionInput,
    /// Steps that gradients flow back through a trajectory.
    pub truncate: usize,
    /// How many clusterings are tried, until one does not leak.
    pub attempts: usize,
}

/// How the leakage of a clustering is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeakageConfig {
    /// Steps of training of the fresh predictor.
    pub steps: usize,
    /// Its learning rate.
    pub learning_rate: f64,
    /// The share of the world's randomness that clusters may tell and still count as clean.
    pub tolerance: f64,
}

/// Phase 2: average returns of clusters (Equation 4).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReturnsConfig {
    /// Steps of training.
    pub steps: usize,
    /// Trajectories in a step.
    pub batch: usize,
    /// The width of hidden layers.
    pub hidden: usize,
    /// Hidden layers.
    pub layers: usize,
    /// How hidden layers are normalised.
    pub normalization: Norm,
    /// How fast it learns.
    pub learning_rate: f64,
    /// Whether the learning rate falls to zero over the second half.
    pub decay: bool,
    /// How fast weights decay.
    pub weight_decay: f64,
    /// Returns are divided by this; 0 standardises them by their mean and deviation.
    pub scale: f64,
    /// Draws of a cluster that a label is the mean of, where there are too many clusters to go through all of them.
    pub samples: usize,
}

/// Phase 3: a policy that sees state and label (Equation 5).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MlpPolicyConfig {
    /// Steps of training.
    pub steps: usize,
    /// Rows in a step.
    pub batch: usize,
    /// The width of hidden layers.
    pub hidden: usize,
    /// Hidden layers.
    pub layers: usize,
    /// The share of hidden numbers that training leaves out.
    pub dropout: f64,
    /// How fast it learns.
    pub learning_rate: f64,
    /// Whether the learning rate falls to zero over the second half.
    pub decay: bool,
    /// Steps over which the learning rate rises from zero.
    pub warmup: usize,
    /// How fast weights decay.
    pub weight_decay: f64,
    /// The most that the norm of all gradients together may be; larger ones are scaled down.
    pub max_norm: f64,
}

/// Phase 3 with a Decision Transformer: labels, states and actions as tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerPolicyConfig {
    /// Steps that it looks back on, the newest included.
    pub context: usize,
    /// Steps of training.
    pub steps: usize,
    /// Windows of a trajectory in a step.
    pub batch: usize,
    /// Numbers of a token.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads of attention.
    pub heads: usize,
    /// The share of numbers that training leaves out.
    pub dropout: f64,
    /// How fast it learns.
    pub learning_rate: f64,
    /// Whether the learning rate falls to zero over the second half.
    pub decay: bool,
    /// Steps over which the learning rate rises from zero.
    pub warmup: usize,
    /// How fast weights decay.
    pub weight_decay: f64,
    /// The most that the norm of all gradients together may be; larger ones are scaled down.
    pub max_norm: f64,
}

/// Behaviour cloning: what was done, whatever came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BcConfig {
    /// The share of the episodes, in percent and those with the highest returns, that is imitated.
    pub percentile: f64,
}

/// Conservative Q-learning for a choice among actions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CqlConfig {
    /// Steps of training.
    pub steps: usize,
    /// Transitions in a step.
    pub batch: usize,
    /// The width of hidden layers.
    pub hidden: usize,
    /// Hidden layers.
    pub layers: usize,
    /// How fast it learns.
    pub learning_rate: f64,
    /// How much a reward counts for less a step later.
    pub discount: f64,
    /// Steps after which the target network becomes a copy of the one that learns.
    pub target_interval: usize,
    /// What being conservative is worth.
    pub alpha: f64,
}

/// Conservative Q-learning for real-valued actions, on top of soft actor-critic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CqlContinuousConfig {
    /// Steps of training.
    pub steps: usize,
    /// Transitions in a step.
    pub batch: usize,
    /// The width of hidden layers.
    pub hidden: usize,
    /// Hidden layers.
    pub layers: usize,
    /// How fast the actor learns.
    pub actor_learning_rate: f64,
    /// How fast the critics learn.
    pub critic_learning_rate: f64,
    /// How fast the worth of entropy is adjusted.
    pub temperature_learning_rate: f64,
    /// How fast the worth of being conservative is adjusted.
    pub alpha_learning_rate: f64,
    /// How much a reward counts for less a step later.
    pub discount: f64,
    /// How far the target moves towards the critics in a step.
    pub tau: f64,
    /// What the conservative term is multiplied with.
    pub conservative_weight: f64,
    /// The term may be this large before it is taken more seriously.
    pub alpha_threshold: f64,
    /// Actions of each kind that the conservative term is estimated with.
    pub action_samples: usize,
}

/// How hidden layers are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Not at all.
    None,
    /// Over the rows of a batch.
    Batch,
    /// Over each row.
    Layer,
}

impl From<Norm> for Normalization {
    fn from(norm: Norm) -> Self {
        match norm {
            Norm::None => Normalization::None,
            Norm::Batch => Normalization::Batch,
            Norm::Layer => Normalization::Layer,
        }
    }
}

/// What the transition predictor sees beside the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TransitionInput {
    /// The state and the action.
    Markov,
    /// All states and actions so far, as the theorem asks.
    History,
}

/// What the paper tunes for each task.
struct TaskNumbers {
    rep_size: usize,
    rep_groups: usize,
    beta_act: f64,
    cluster_epochs: usize,
    label_epochs: usize,
    scale: f64,
}

/// The paper's table. Data of another kind gets the numbers of Connect Four, with returns standardised.
fn paper_numbers(task: Option<&str>) -> TaskNumbers {
    let (rep_size, rep_groups, beta_act, cluster_epochs, label_epochs, scale) = match task {
        Some("gambling") => (8, 1, 0.01, 5, 1, 5.0),
        Some("connect-four") => (128, 4, 0.05, 5, 5, 1.0),
        Some("twenty48") => (128, 4, 0.02, 4, 1, 1.0),
        _ => (128, 4, 0.05, 5, 5, 0.0),
    };
    TaskNumbers { rep_size, rep_groups, beta_act, cluster_epochs, label_epochs, scale }
}

/// Steps of 100 trajectories in what the paper calls an epoch.
const EPOCH: usize = 1_000;

impl Config {
    /// The numbers of a preset for a task, or for data of no known task.
    pub fn preset(preset: Preset, task: Option<&str>) -> Self {
        match preset {
            Preset::Paper => Self::paper(task),
            Preset::Quick => Self::quick(task),
        }
    }

    fn paper(task: Option<&str>) -> Self {
        let TaskNumbers { rep_size, rep_groups, beta_act, cluster_epochs, label_epochs, scale } =
            paper_numbers(task);
        Config {
            discount: 1.0,
            held_out: 0.1,
            cluster: ClusterConfig {
                rep_size,
                rep_groups,
                beta_act,
                beta_adv: 1.0,
                steps: cluster_epochs * EPOCH,
                batch: 100,
                hidden: 512,
                layers: 2,
                normalization: Norm::Batch,
                learning_rate: 1e-4,
                transition_learning_rate: 5e-4,
                decay: false,
                weight_decay: 0.01,
                temperature: 1.0,
                hard: false,
                transition: TransitionInput::Markov,
                truncate: 1_000,
                attempts: 1,
            },
            leakage: LeakageConfig { steps: EPOCH, learning_rate: 1e-3, tolerance: 0.02 },
            returns: ReturnsConfig {
                steps: label_epochs * EPOCH,
                batch: 100,
                hidden: 512,
                layers: 2,
                normalization: Norm::Batch,
                learning_rate: 1e-4,
                decay: false,
                weight_decay: 0.01,
                scale,
                samples: 16,
            },
            mlp: MlpPolicyConfig {
                steps: 50_000,
                batch: 64,
                hidden: 512,
                layers: 3,
                dropout: 0.1,
                learning_rate: 5e-4,
                decay: false,
                warmup: 10_000,
                weight_decay: 1e-4,
                max_norm: 0.25,
            },
            transformer: TransformerPolicyConfig {
                context: 20,
                steps: 50_000,
                batch: 64,
                width: 128,
                layers: 3,
                heads: 1,
                dropout: 0.1,
                learning_rate: 5e-4,
                decay: false,
                warmup: 10_000,
                weight_decay: 1e-4,
                max_norm: 0.25,
            },
            bc: BcConfig { percentile: 100.0 },
            cql: CqlConfig {
                steps: 100_000,
                batch: 32,
                hidden: 256,
                layers: 2,
                learning_rate: 6.25e-5,
                discount: 0.99,
                target_interval: 8_000,
                alpha: 1.0,
            },
            cql_continuous: CqlContinuousConfig {
                steps: 100_000,
                batch: 256,
                hidden: 256,
                layers: 2,
                actor_learning_rate: 1e-4,
                critic_learning_rate: 3e-4,
                temperature_learning_rate: 1e-4,
                alpha_learning_rate: 1e-4,
                discount: 0.99,
                tau: 0.005,
                conservative_weight: 5.0,
                alpha_threshold: 10.0,
                action_samples: 10,
            },
        }
    }

    fn quick(task: Option<&str>) -> Self {
        let paper = Self::paper(task);
        // Two steps of seven states need no more; many episodes make up for their luck.
        let (hidden, return_batch, policy_steps, cql_steps) = match task {
            Some("gambling") => (64, 1_500, 3_000, 3_000),
            _ => (128, 100, 8_000, 8_000),
        };
        Config {
            cluster: ClusterConfig {
                steps: 2_500,
                hidden,
                normalization: Norm::Layer,
                learning_rate: 5e-4,
                transition_learning_rate: 1e-3,
                decay: true,
                attempts: 3,
                ..paper.cluster
            },
            leakage: LeakageConfig { steps: 600, ..paper.leakage },
            returns: ReturnsConfig {
                steps: 1_500,
                batch: return_batch,
                hidden,
                normalization: Norm::Layer,
                learning_rate: 1e-3,
                decay: true,
                scale: 0.0,
                ..paper.returns
            },
            mlp: MlpPolicyConfig {
                steps: policy_steps,
                batch: 512,
                hidden,
                dropout: 0.0,
                learning_rate: 1e-3,
                decay: true,
                warmup: 100,
                ..paper.mlp
            },
            transformer: TransformerPolicyConfig {
                steps: 3_000,
                width: 64,
                dropout: 0.0,
                learning_rate: 1e-3,
                decay: true,
                warmup: 100,
                ..paper.transformer
            },
            cql: CqlConfig {
                steps: cql_steps,
                batch: 256,
                hidden: 2 * hidden,
                learning_rate: 5e-4,
                target_interval: 250,
                ..paper.cql
            },
            cql_continuous: CqlContinuousConfig {
                steps: 10_000,
                hidden: 128,
                ..paper.cql_continuous
            },
            ..paper
        }
    }

    /// Changes what a TOML document says, then what `key=value` pairs say (`cluster.beta_act=0.02`).
    pub fn changed(&self, document: Option<&str>, pairs: &[String]) -> Result<Self, Error> {
        let mut table = Table::try_from(self).map_err(|error| Error::Config(error.to_string()))?;
        if let Some(document) = document {
            let changes: Table = document
                .parse()
                .map_err(|error| Error::Config(format!("the configuration is no TOML: {error}")))?;
            merge(&mut table, changes, "")?;
        }
        for pair in pairs {
            merge(&mut table, parse_pair(pair)?, "")?;
        }
        let config: Config = table
            .try_into()
            .map_err(|error: toml::de::Error| Error::Config(one_line(&error.to_string())))?;
        config.check()?;
        Ok(config)
    }

    /// The configuration as a TOML document, which [`Config::changed`] takes again.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a configuration can always be written")
    }

    /// Whether the numbers make sense together.
    pub fn check(&self) -> Result<(), Error> {
        let Config { cluster, returns, leakage, mlp, transformer, bc, cql, .. } = self;
        let continuous = &self.cql_continuous;
        let least = |name: &str, value: f64, least: f64, most: f64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(Error::Config(format!(
                    "{name} is {value}; it has to be from {least} to {most}"
                )))
            }
        };
        const MANY: f64 = 1e9;
        least("discount", self.discount, 0.0, 1.0)?;
        least("held_out", self.held_out, 0.001, 0.5)?;
        least("cluster.rep_groups", cluster.rep_groups as f64, 1.0, 1024.0)?;
        least("cluster.rep_size", cluster.rep_size as f64, 2.0, 4096.0)?;
        if !cluster.rep_size.is_multiple_of(cluster.rep_groups) {
            return Err(Error::Config(format!(
                "cluster.rep_size is {}; it has to be a multiple of cluster.rep_groups, {}",
                cluster.rep_size, cluster.rep_groups
            )));
        }
        // Probabilities are kept in units of 1/255: with more categories all of them could round to nothing.
        let categories = cluster.rep_size / cluster.rep_groups;
        least("cluster.rep_size / cluster.rep_groups", categories as f64, 2.0, 256.0)?;
        least("cluster.beta_act", cluster.beta_act, 0.0, MANY)?;
        least("cluster.beta_adv", cluster.beta_adv, 0.0, MANY)?;
        least("cluster.temperature", cluster.temperature, 1e-3, MANY)?;
        least("leakage.tolerance", leakage.tolerance, 0.0, 1.0)?;
        least("returns.scale", returns.scale, 0.0, MANY)?;
        least("cluster.weight_decay", cluster.weight_decay, 0.0, MANY)?;
        least("returns.weight_decay", returns.weight_decay, 0.0, MANY)?;
        least("mlp.max_norm", mlp.max_norm, 1e-9, MANY)?;
        least("transformer.dropout", transformer.dropout, 0.0, 0.99)?;
        least("transformer.weight_decay", transformer.weight_decay, 0.0, MANY)?;
        least("transformer.max_norm", transformer.max_norm, 1e-9, MANY)?;
        if !transformer.width.is_multiple_of(transformer.heads.max(1)) {
            return Err(Error::Config(format!(
                "transformer.width is {}; it has to be a multiple of transformer.heads, {}",
                transformer.width, transformer.heads
            )));
        }
        least("bc.percentile", bc.percentile, 0.01, 100.0)?;
        least("cql.discount", cql.discount, 0.0, 1.0)?;
        least("cql.alpha", cql.alpha, 0.0, MANY)?;
        least("cql_continuous.discount", continuous.discount, 0.0, 1.0)?;
        least("cql_continuous.tau", continuous.tau, 0.0, 1.0)?;
        least("cql_continuous.conservative_weight", continuous.conservative_weight, 0.0, MANY)?;
        least("cql_continuous.alpha_threshold", continuous.alpha_threshold, -MANY, MANY)?;
        least("mlp.dropout", mlp.dropout, 0.0, 0.99)?;
        least("mlp.weight_decay", mlp.weight_decay, 0.0, MANY)?;
        for (name, count, most) in [
            ("cluster.steps", cluster.steps, MANY),
            ("cluster.batch", cluster.batch, 1e5),
            ("cluster.hidden", cluster.hidden, 8192.0),
            ("cluster.layers", cluster.layers, 64.0),
            ("cluster.truncate", cluster.truncate, MANY),
            ("cluster.attempts", cluster.attempts, 1000.0),
            ("leakage.steps", leakage.steps, MANY),
            ("returns.steps", returns.steps, MANY),
            ("returns.batch", returns.batch, 1e5),
            ("returns.hidden", returns.hidden, 8192.0),
            ("returns.layers", returns.layers, 64.0),
            ("returns.samples", returns.samples, 4096.0),
            ("mlp.steps", mlp.steps, MANY),
            ("mlp.batch", mlp.batch, 1e6),
            ("mlp.hidden", mlp.hidden, 8192.0),
            ("mlp.layers", mlp.layers, 64.0),
            ("transformer.context", transformer.context, 1000.0),
            ("transformer.steps", transformer.steps, MANY),
            ("transformer.batch", transformer.batch, 1e5),
            ("transformer.width", transformer.width, 4096.0),
            ("transformer.layers", transformer.layers, 64.0),
            ("transformer.heads", transformer.heads, 64.0),
            ("cql.steps", cql.steps, MANY),
            ("cql.batch", cql.batch, 1e6),
            ("cql.hidden", cql.hidden, 8192.0),
            ("cql.layers", cql.layers, 64.0),
            ("cql.target_interval", cql.target_interval, MANY),
            ("cql_continuous.steps", continuous.steps, MANY),
            ("cql_continuous.batch", continuous.batch, 1e5),
            ("cql_continuous.hidden", continuous.hidden, 8192.0),
            ("cql_continuous.layers", continuous.layers, 64.0),
            ("cql_continuous.action_samples", continuous.action_samples, 1000.0),
        ] {
            least(name, count as f64, 1.0, most)?;
        }
        for (name, rate) in [
            ("cluster.learning_rate", cluster.learning_rate),
            ("cluster.transition_learning_rate", cluster.transition_learning_rate),
            ("leakage.learning_rate", leakage.learning_rate),
            ("returns.learning_rate", returns.learning_rate),
            ("mlp.learning_rate", mlp.learning_rate),
            ("transformer.learning_rate", transformer.learning_rate),
            ("cql.learning_rate", cql.learning_rate),
            ("cql_continuous.actor_learning_rate", continuous.actor_learning_rate),
            ("cql_continuous.critic_learning_rate", continuous.critic_learning_rate),
            ("cql_continuous.temperature_learning_rate", continuous.temperature_learning_rate),
            ("cql_continuous.alpha_learning_rate", continuous.alpha_learning_rate),
        ] {
            least(name, rate, 0.0, 1.0)?;
        }
        Ok(())
    }
}

/// `a.b=1` as the document it stands for. What is not TOML is text, so that `cluster.transition=history` needs no quotes.
fn parse_pair(pair: &str) -> Result<Table, Error> {
    let (key, value) = pair.split_once('=').ok_or_else(|| {
        Error::Config(format!("`{pair}` is no setting; write key=value, as in mlp.steps=1000"))
    })?;
    let (key, value) = (key.trim(), value.trim());
    let parsed: Result<Table, _> = format!("value = {value}").parse();
    let value = match parsed {
        Ok(mut table) => table.remove("value").expect("it was just written"),
        Err(_) => Value::String(value.to_owned()),
    };
    Ok(key
        .rsplit('.')
        .fold(None, |inner: Option<Table>, part| {
            let value = inner.map_or_else(|| value.clone(), Value::Table);
            Some(Table::from_iter([(part.to_owned(), value)]))
        })
        .expect("there is at least one part"))
}

/// Puts changes into a table that has an entry for everything there is.
fn merge(table: &mut Table, changes: Table, path: &str) -> Result<(), Error> {
    for (key, value) in changes {
        let full = format!("{path}{key}");
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(changes)) => {
                merge(inner, changes, &format!("{full}."))?;
            }
            (Some(Value::Table(inner)), _) => {
                let known = keys(inner);
                return Err(Error::Config(format!("{full} is a section; it has {known}")));
            }
            (None, _) => {
                let known = keys(table);
                return Err(Error::Config(format!(
                    "there is no setting {full}; there are {known}"
                )));
            }
            (Some(old), value) => *old = value,
        }
    }
    Ok(())
}

/// A message of several lines as one.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn keys(table: &Table) -> String {
    table.keys().cloned().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(pairs: &[&str]) -> Result<Config, Error> {
        let pairs: Vec<String> = pairs.iter().map(|&pair| pair.to_owned()).collect();
        Config::preset(Preset::Quick, Some("gambling")).changed(None, &pairs)
    }

    /// The numbers of the paper's tables.
    #[test]
    fn the_paper_is_the_paper() {
        let config = Config::preset(Preset::Paper, Some("connect-four"));
        let ClusterConfig { rep_size, rep_groups, beta_act, beta_adv, steps, .. } = config.cluster;
        assert_eq!((rep_size, rep_groups, steps), (128, 4, 5_000));
        assert_eq!((beta_act, beta_adv), (0.05, 1.0));
        assert_eq!((config.returns.steps, config.mlp.steps), (5_000, 50_000));
        assert_eq!(Config::preset(Preset::Paper, Some("gambling")).returns.scale, 5.0);
    }

    #[test]
    fn settings_change_one_by_one() {
        let config =
            changed(&["cluster.beta_act=1", "cluster.transition=history", "returns.scale = 2"])
                .unwrap();
        assert_eq!(config.cluster.beta_act, 1.0);
        assert_eq!(config.cluster.transition, TransitionInput::History);
        assert_eq!(config.returns.scale, 2.0);
        assert_eq!(config.cluster.rep_size, 8);
    }

    #[test]
    fn what_was_resolved_resolves_to_itself() {
        for preset in [Preset::Quick, Preset::Paper] {
            for task in [None, Some("gambling"), Some("twenty48")] {
                let config = Config::preset(preset, task);
                config.check().unwrap();
                let again =
                    Config::preset(Preset::Quick, None).changed(Some(&config.to_toml()), &[]);
                let again = again.unwrap();
                assert_eq!(again, config);
            }
        }
    }

    #[test]
    fn wrong_settings_say_what_is_right() {
        for (pair, words) in [
            ("cluster.beta", "there is no setting cluster.beta; there are"),
            ("cluster", "write key=value"),
            ("cluster=3", "is a section"),
            ("cluster.beta=3", "rep_size"),
            ("cluster.rep_groups=3", "multiple"),
            ("mlp.steps=0", "from 1"),
            ("mlp.steps=many", "mlp.steps"),
            ("mlp.hidden=1000000000", "to 8192"),
            ("cluster.rep_size=2048", "256"),
            ("cluster.transition=psychic", "history"),
            ("discount=nan", "from 0 to 1"),
        ] {
            let pair = if pair.contains('=') || pair == "cluster" {
                pair.to_owned()
            } else {
                format!("{pair}=1")
            };
            let error = changed(&[&pair]).unwrap_err().to_string();
            assert!(error.contains(words), "{pair}: {error}");
        }
    }
}
