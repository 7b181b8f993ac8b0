//! ESPER: every step is labelled with the average return of its cluster.
//!
//! Phase 1 (`cluster.rs`) learns clusters that say what the agent did and nothing about the world's luck; phase 2
//! (`returns.rs`) their average returns. What the clusters do tell about the world, the leakage, is measured apart
//! (`leakage.rs`), on trajectories that were not learned from. Adversarial training sometimes ends in a clustering that
//! leaks; then another is tried, and the choice is made by these measures alone.

mod cluster;
mod clusters;
mod leakage;
mod returns;
mod settings;
mod transition;

pub use cluster::ClusterLearner;
pub use clusters::{Clusters, Representatives};
pub use leakage::{Clustering, Leakage};
pub use settings::{
    Assign, ClusterConfig, LeakageConfig, ReturnsConfig, TimeInput, TransitionInput,
};

use esper_nn::to_safetensors;

use self::cluster::{Theta, train_clusters};
use self::leakage::{examine, phase_of};
use self::returns::ReturnPredictor;
use self::settings::EsperConfig;
use super::{About, Context, Curve, Findings, Labels, Relabel};
use crate::error::Error;
use crate::settings::Section;

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
        vec!["cluster", "assign", "leakage", "returns", "label"]
    }

    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let config = EsperConfig::of(context.config)?;
        let Tried { theta, clusters, clustering, rejected } = cluster(context, &config)?;
        let returns = context.returns_to_go();
        let predictor = ReturnPredictor::train(context, &config.returns, &clusters, &returns)?;
        let values = predictor.label(context, &clusters, config.returns.samples)?;
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
            models: vec![
                ("clusters", to_safetensors(&theta)),
                ("returns", to_safetensors(&predictor.mlp)),
            ],
            values,
        })
    }
}

/// Said of clusters that tell more than is tolerated.
const LEAKS: &str =
    "clusters leak more than is tolerated: labels may promise what only luck brings";

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

/// A clustering that was taken, and those that were not.
struct Tried {
    theta: Theta,
    clusters: Clusters,
    clustering: Clustering,
    rejected: Vec<Clustering>,
}

/// Clusters until a clustering is clean; if none is, takes the one that leaks least.
fn cluster(context: &Context<'_>, config: &EsperConfig) -> Result<Tried, Error> {
    let ClusterConfig { rep_size, rep_groups, assign, attempts, .. } = config.cluster;
    let mut taken: Option<Tried> = None;
    for attempt in 1..=attempts {
        let theta = train_clusters(context, &config.cluster, &phase_of("cluster", attempt))?;
        let categories = rep_size / rep_groups;
        let mut clusters = Clusters::assign(&theta.clusters, context, rep_groups, categories)?;
        if assign == Assign::Trajectory {
            clusters.take_first(context.data);
        }
        let clustering = examine(context, config, &theta, &clusters, attempt)?;
        let new = Tried { theta, clusters, clustering, rejected: Vec::new() };
        let best = match taken.take() {
            None => new,
            Some(old) => old.or(new),
        };
        if best.clustering.clean {
            return Ok(best);
        }
        taken = Some(best);
    }
    taken.ok_or_else(|| Error::Config("cluster.attempts has to be at least 1".to_owned()))
}

impl Tried {
    /// The one of two that leaks less; the other is remembered as rejected.
    fn or(self, other: Tried) -> Tried {
        let better = other.clustering.leakage.mean < self.clustering.leakage.mean;
        let (mut taken, rejected) = if better { (other, self) } else { (self, other) };
        let mut all = rejected.rejected;
        all.append(&mut taken.rejected);
        all.push(rejected.clustering);
        taken.rejected = all;
        taken
    }
}
