//! ESPER: every step is labelled with the average return of its cluster.
//!
//! Phase 1 (`cluster.rs`) learns clusters that say what the agent did and nothing about the world's luck; phase 2
//! (`returns.rs`) their average returns. What the clusters do tell about the world, the leakage, is measured apart
//! (`leakage.rs`), on trajectories that were not learned from; and so is the luck that is left in labels (`luck.rs`).
//! Adversarial training sometimes ends in a clustering that leaks; then another is tried that changes what was wrong, and
//! the choice is made by these measures alone.

mod cluster;
mod clusters;
mod leakage;
mod luck;
mod returns;
mod settings;
mod transition;

pub use cluster::ClusterLearner;
pub use clusters::{Clusters, Representatives, SomeClusters};
pub use leakage::{Clustering, Leakage};
pub use luck::LuckInLabels;
pub use settings::{
    Assign, ClusterConfig, LeakageConfig, ReturnsConfig, TimeInput, TransitionInput,
};

use esper_nn::to_safetensors;

use self::cluster::train_clusters;
use self::leakage::{examine, phase_of};
use self::luck::Luck;
use self::returns::ReturnPredictor;
use self::settings::EsperConfig;
use super::{About, Context, Curve, Findings, Labels, Relabel};
use crate::error::Error;
use crate::memory::Widths;
use crate::settings::{Config, Section};

/// The relabeller of the paper.
#[derive(Clone, Copy, Debug, Default)]
pub struct Esper;

impl Relabel for Esper {
    fn about(&self) -> About {
        About::new("esper")
            .titled("ESPER")
            .summed_up("labels steps by the average return of their cluster, which knows no luck")
    }

    fn sections(&self) -> Vec<Section> {
        vec![
            Section::of::<ClusterConfig>(),
            Section::of::<LeakageConfig>(),
            Section::of::<ReturnsConfig>(),
        ]
    }

    fn phases(&self) -> Vec<&'static str> {
        vec!["luck", "cluster", "assign", "leakage", "returns", "label"]
    }

    fn memory(&self, widths: &Widths, config: &Config) -> Result<u64, Error> {
        Ok(EsperConfig::of(config)?.memory(widths))
    }

    fn is_limited(&self, widths: &Widths, config: &Config, memory: u64) -> Result<bool, Error> {
        Ok(EsperConfig::of(config)?.is_limited(widths, memory))
    }

    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let config = EsperConfig::of(context.config)?;
        let luck = match config.leakage.luck_steps {
            0 => None,
            steps => Some(Luck::of(context, steps)?),
        };
        let Tried { models, clusters, clustering, values, rejected } =
            cluster(context, &config, luck.as_ref())?;
        let warnings = if clustering.clean { Vec::new() } else { vec![LEAKS.to_owned()] };
        Ok(Labels {
            episodes: None,
            clusters: Some(clusters),
            curves: curves(&phase_of("cluster", clustering.attempt)),
            findings: Findings {
                calibration: Some(context.calibration(&values)),
                clustering: Some(clustering),
                rejected,
                warnings,
                ..Findings::default()
            },
            models,
            values,
        })
    }
}

/// Said of clusters that tell more than is tolerated.
const LEAKS: &str = "clusters leak more than is tolerated: labels may promise what only luck brings; do not take high promises at their word, \
     try another seed, more episodes, or a larger cluster.beta_adv";

/// What a report draws of the training, given the phase of the clustering that was taken.
fn curves(phase: &str) -> Vec<Curve> {
    let told = Curve {
        less: Some("transition_loss".to_owned()),
        words: Some(
            "What clusters tell is by how much they lower the loss of the predictor they hide from, in its own units: \
             around zero while they hide, and below it while they mislead."
                .to_owned(),
        ),
        ..Curve::new("told by clusters", phase, "baseline_loss")
    };
    vec![
        Curve::new("action loss", phase, "action_loss"),
        Curve::new("transition loss", phase, "transition_loss"),
        told,
        Curve::new("return loss", "returns", "return_loss"),
    ]
}

/// A clustering that was taken with the labels that it gives, and those that were not.
struct Tried {
    models: Vec<(&'static str, Vec<u8>)>,
    clusters: Clusters,
    clustering: Clustering,
    values: Vec<f32>,
    rejected: Vec<Clustering>,
}

/// Clusters until a clustering is clean. If none is, nothing is told apart: what states and actions are worth says nothing of
/// luck. Where luck is not looked for, the one that leaks least is taken.
fn cluster(
    context: &Context<'_>,
    config: &EsperConfig,
    luck: Option<&Luck>,
) -> Result<Tried, Error> {
    let has_luck = luck.is_none_or(Luck::is_there);
    let told = context.condition(true)?;
    let mut sizes = config.cluster.following(context.interface, has_luck, told);
    let mut taken: Option<Tried> = None;
    for attempt in 1..=config.cluster.attempts {
        let tried = EsperConfig { cluster: sizes.clone(), ..config.clone() };
        let theta = train_clusters(context, &sizes, &phase_of("cluster", attempt))?;
        let groups = sizes.rep_groups;
        let categories = sizes.rep_size / groups;
        let mut clusters = Clusters::assign(&theta.clusters, context, groups, categories)?;
        if sizes.assign == Assign::Trajectory {
            clusters.take_first(context.data)?;
        }
        let clustering = examine(context, &tried, &theta, &clusters, attempt)?;
        let mut new = Tried::labelled(context, config, clusters, clustering, luck)?;
        new.models.push(("clusters", to_safetensors(&theta)));
        let best = match taken.take() {
            None => new,
            Some(old) => old.or(new),
        };
        if best.clustering.clean {
            return Ok(best);
        }
        taken = Some(best);
        sizes = sizes.after_leak();
    }
    let least =
        taken.ok_or_else(|| Error::Config("cluster.attempts has to be at least 1".to_owned()))?;
    if luck.is_none() {
        return Ok(least);
    }
    let attempt = config.cluster.attempts + 1;
    let nothing = Clustering::nothing(attempt, &least.clustering);
    let without = Tried::labelled(context, config, Clusters::one(context.data)?, nothing, luck)?;
    Ok(least.or(without))
}

impl Tried {
    /// Labels by a clustering, and what luck there is in them.
    fn labelled(
        context: &Context<'_>,
        config: &EsperConfig,
        clusters: Clusters,
        clustering: Clustering,
        luck: Option<&Luck>,
    ) -> Result<Self, Error> {
        let attempt = clustering.attempt;
        let returns = context.returns_to_go();
        let phase = phase_of("returns", attempt);
        let sizes = (&config.returns, config.cluster.truncate);
        let predictor = ReturnPredictor::train(context, sizes, &clusters, &returns, &phase)?;
        // Where nothing is left to chance, what an episode returned is what its behaviour returns on average.
        let values = match luck.is_none_or(Luck::is_there) {
            true => predictor.label(context, &clusters, config.returns.samples)?,
            false => returns,
        };
        let luck = luck.map(|luck| luck.in_labels(&values, context));
        let clean = luck.map_or(clustering.clean, |luck: LuckInLabels| {
            luck.is_clean(config.leakage.luck_tolerance)
        });
        let models = vec![("returns", to_safetensors(&predictor.mlp))];
        let clustering = Clustering { luck, clean, ..clustering };
        Ok(Tried { models, clusters, clustering, values, rejected: Vec::new() })
    }

    /// The one of two that leaks less; the other is remembered as rejected.
    fn or(self, other: Tried) -> Tried {
        let leak = |tried: &Tried| match tried.clustering.luck {
            Some(luck) => luck.correlation,
            None => tried.clustering.leakage.mean,
        };
        let better = other.clustering.clean || leak(&other) < leak(&self);
        let (mut taken, rejected) = if better { (other, self) } else { (self, other) };
        let mut all = rejected.rejected;
        all.append(&mut taken.rejected);
        all.push(rejected.clustering);
        taken.rejected = all;
        taken
    }
}
