//! Where the numbers come from: the paper, and what two CPU cores can do.

use super::{
    Assign, BcConfig, ClusterConfig, Config, CqlConfig, CqlContinuousConfig, LeakageConfig,
    MlpPolicyConfig, Norm, Preset, ReturnsConfig, TransformerPolicyConfig, TransitionInput,
};

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

/// What differs between tasks in `quick`.
struct QuickNumbers {
    hidden: usize,
    rep_size: usize,
    beta_act: f64,
    cluster_batch: usize,
    assign: Assign,
    leakage_steps: usize,
    return_steps: usize,
    return_batch: usize,
    policy_hidden: usize,
    policy_steps: usize,
    label_noise: f64,
    transformer_steps: usize,
    cql_steps: usize,
}

fn quick_numbers(task: Option<&str>, paper: &ClusterConfig) -> QuickNumbers {
    let usual = QuickNumbers {
        hidden: 128,
        rep_size: paper.rep_size,
        beta_act: paper.beta_act,
        cluster_batch: 100,
        assign: Assign::Step,
        leakage_steps: 600,
        return_steps: 1_500,
        return_batch: 100,
        policy_hidden: 128,
        policy_steps: 8_000,
        label_noise: 0.0,
        transformer_steps: 3_000,
        cql_steps: 8_000,
    };
    match task {
        // Two steps of seven states need no more; many episodes make up for their luck.
        Some("gambling") => QuickNumbers {
            hidden: 64,
            return_batch: 1_500,
            policy_hidden: 64,
            policy_steps: 3_000,
            cql_steps: 3_000,
            ..usual
        },
        // A trajectory is a hundred steps, so fewer make a batch. Who plays shows a little in every action: telling it
        // has to be worth more than the noise of the adversary, and imitating it takes a larger policy.
        // Fewer categories tell players apart as well and take a quarter of the memory.
        Some("twenty48") => QuickNumbers {
            rep_size: 32,
            beta_act: 0.2,
            cluster_batch: 32,
            assign: Assign::Trajectory,
            leakage_steps: 1_000,
            return_steps: 2_500,
            return_batch: 50,
            policy_hidden: 256,
            policy_steps: 20_000,
            label_noise: 0.3,
            transformer_steps: 8_000,
            cql_steps: 20_000,
            ..usual
        },
        _ => usual,
    }
}

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
                assign: Assign::Step,
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
                label_noise: 0.0,
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
        let QuickNumbers {
            hidden,
            rep_size,
            beta_act,
            cluster_batch,
            assign,
            leakage_steps,
            return_steps,
            return_batch,
            policy_hidden,
            policy_steps,
            label_noise,
            transformer_steps,
            cql_steps,
        } = quick_numbers(task, &paper.cluster);
        Config {
            cluster: ClusterConfig {
                rep_size,
                beta_act,
                batch: cluster_batch,
                assign,
                steps: 2_500,
                hidden,
                normalization: Norm::Layer,
                learning_rate: 5e-4,
                transition_learning_rate: 1e-3,
                decay: true,
                attempts: 3,
                ..paper.cluster
            },
            leakage: LeakageConfig { steps: leakage_steps, ..paper.leakage },
            returns: ReturnsConfig {
                steps: return_steps,
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
                hidden: policy_hidden,
                label_noise,
                dropout: 0.0,
                learning_rate: 1e-3,
                decay: true,
                warmup: 100,
                ..paper.mlp
            },
            transformer: TransformerPolicyConfig {
                steps: transformer_steps,
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
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
