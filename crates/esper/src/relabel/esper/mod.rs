//! ESPER: every step is labelled with the average return of its cluster.
//!
//! Phase 1 ([`cluster`]) learns clusters that say what the agent did and nothing about the world's luck; phase 2
//! ([`returns`]) their average returns. What the clusters do tell about the world, the leakage, is measured apart
//! ([`leakage`]), on trajectories that were not learned from. Adversarial training sometimes ends in a clustering that
//! leaks; then another is tried, and the choice is made by these measures alone.

mod cluster;
mod clusters;
mod leakage;
mod returns;
mod transition;

pub use clusters::{Clusters, Representatives};
pub use leakage::{Clustering, Leakage};

use esper_nn::to_safetensors;

use self::cluster::{Theta, train_clusters};
use self::leakage::{examine, phase_of};
use self::returns::ReturnPredictor;
use super::{Context, Findings, LabelCalibration, Labels, Relabel};
use crate::config::{Assign, Config};
use crate::error::Error;
use crate::trajectories::StepRows;

/// The relabeller of the paper.
#[derive(Clone, Debug)]
pub struct Esper {
    /// All its numbers.
    pub config: Config,
}

impl Relabel for Esper {
    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let Tried { theta, clusters, clustering, rejected } = self.cluster(context)?;
        let config = &self.config.returns;
        let returns = context.data.returns_to_go(context.discount);
        let predictor = ReturnPredictor::train(context, config, &clusters, &returns)?;
        let values = predictor.label(context, &clusters, config.samples)?;

        let held_out = StepRows::of_episodes(context.data, &context.split.held_out);
        let pairs = held_out.steps.iter().map(|&step| (values[step], returns[step])).collect();
        Ok(Labels {
            values,
            episodes: None,
            clusters: Some(clusters),
            findings: Findings {
                calibration: Some(LabelCalibration::of(pairs)),
                clustering: Some(clustering),
                rejected,
            },
            models: vec![
                ("clusters", to_safetensors(&theta)),
                ("returns", to_safetensors(&predictor.mlp)),
            ],
        })
    }
}

/// A clustering that was taken, and those that were not.
struct Tried {
    theta: Theta,
    clusters: Clusters,
    clustering: Clustering,
    rejected: Vec<Clustering>,
}

impl Esper {
    /// Clusters until a clustering is clean; if none is, takes the one that leaks least.
    fn cluster(&self, context: &Context<'_>) -> Result<Tried, Error> {
        let config = &self.config;
        let categories = config.cluster.rep_size / config.cluster.rep_groups;
        let mut taken: Option<Tried> = None;
        for attempt in 1..=config.cluster.attempts {
            let phase = phase_of("cluster", attempt);
            let theta = train_clusters(context, &config.cluster, &phase)?;
            let mut clusters = Clusters::assign(
                &theta.clusters,
                context.data,
                context.interface,
                config.cluster.rep_groups,
                categories,
                context.monitor,
            )?;
            if config.cluster.assign == Assign::Trajectory {
                clusters.take_first(context.data);
            }
            let clustering = examine(context, config, &theta, &clusters, attempt)?;
            let new = Tried { theta, clusters, clustering, rejected: Vec::new() };
            taken = Some(match taken {
                None => new,
                Some(old) => old.or(new),
            });
            let leakage = taken.as_ref().expect("one was just tried").clustering.leakage;
            if leakage.is_clean(config.leakage.tolerance) {
                break;
            }
        }
        taken.ok_or_else(|| Error::Config("cluster.attempts has to be at least 1".to_owned()))
    }
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
