//! Every hyperparameter, and what makes sense together; the presets; how a user changes them.

mod changes;
mod presets;

use esper_nn::Normalization;
use serde::{Deserialize, Serialize};

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
    /// What hiding the world's randomness is worth. Below zero clusters gain by telling it: that shows what telling it does.
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
    /// What has a cluster of its own.
    #[serde(default)]
    pub assign: Assign,
    /// How many clusterings are tried, until one does not leak.
    pub attempts: usize,
}

/// What has a cluster of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// Every step: that of the rest of its trajectory.
    #[default]
    Step,
    /// Every trajectory: all of its steps have the cluster of the first, which sums up all of them. Near the end of a
    /// trajectory little is left to tell by who acts.
    Trajectory,
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
    /// Noise on labels while training, in units of their deviation. Labels that follow from state and action leave gaps
    /// between them; noise lets a policy make sense of targets in those gaps, and in states where labels are lower.
    #[serde(default)]
    pub label_noise: f64,
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

impl Config {
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
        least("cluster.beta_adv", cluster.beta_adv, -MANY, MANY)?;
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
        least("mlp.label_noise", mlp.label_noise, 0.0, MANY)?;
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
