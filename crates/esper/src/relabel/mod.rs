//! From observed returns to labels.

mod cloning;
pub mod esper;
mod observed;

use esper_data::{Dataset, Seed};
use serde::{Deserialize, Serialize};

pub use cloning::Cloning;
pub use observed::Observed;

use crate::error::Error;
use crate::training::Monitor;
use crate::trajectories::{Interface, Split};

/// What a relabeller is given.
pub struct Context<'a> {
    /// The episodes.
    pub data: &'a Dataset,
    /// How they enter networks.
    pub interface: &'a Interface,
    /// Which of them to learn from. All of them are labelled.
    pub split: &'a Split,
    /// How much a reward counts for less a step later.
    pub discount: f64,
    /// Decides everything random.
    pub seed: Seed,
    /// Who follows it.
    pub monitor: &'a dyn Monitor,
}

/// What a policy is asked for at every step of the data, and how that came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// One a step.
    pub values: Vec<f32>,
    /// The episodes that a policy is to imitate; all of them if nothing is said.
    pub episodes: Option<Vec<usize>>,
    /// The probabilities of all clusters at every step, if the method has clusters.
    pub clusters: Option<esper::Clusters>,
    /// What is known about them without the world.
    pub findings: Findings,
    /// Weights that were learned on the way, as safetensors, by name.
    pub models: Vec<(&'static str, Vec<u8>)>,
}

/// What is known about labels without the world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// How labels compare with the returns of episodes that were not learned from.
    pub calibration: Option<LabelCalibration>,
    /// What the clusters are like; `None` for methods without.
    pub clustering: Option<esper::Clustering>,
    /// Clusterings that were tried and not taken, in order.
    pub rejected: Vec<esper::Clustering>,
}

/// A way to label the steps of a data set.
pub trait Relabel {
    /// Labels every step.
    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error>;
}

/// How labels compare with returns of held-out episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelCalibration {
    /// The mean over groups of |mean return - mean label|, by their numbers of steps.
    pub error: f64,
    /// Steps with labels of about the same height, lowest first.
    pub groups: Vec<LabelGroup>,
}

/// Steps with labels of about the same height.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelGroup {
    /// How many.
    pub steps: usize,
    /// Their mean label.
    pub label: f64,
    /// Their mean return.
    pub observed: f64,
}

/// The groups that held-out labels are compared in.
const GROUPS: usize = 10;

impl LabelCalibration {
    /// Compares labels of held-out steps with their returns, in groups of about equal size. Equal labels stay together.
    pub fn of(mut steps: Vec<(f32, f32)>) -> Self {
        steps.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut groups: Vec<LabelGroup> = Vec::new();
        let size = steps.len().div_ceil(GROUPS).max(1);
        let mut rest = &steps[..];
        while !rest.is_empty() {
            let mut end = size.min(rest.len());
            while end < rest.len() && rest[end].0 == rest[end - 1].0 {
                end += 1;
            }
            let (group, after) = rest.split_at(end);
            let mean = |of: fn(&(f32, f32)) -> f32| {
                group.iter().map(|step| f64::from(of(step))).sum::<f64>() / end as f64
            };
            groups.push(LabelGroup { steps: end, label: mean(|s| s.0), observed: mean(|s| s.1) });
            rest = after;
        }
        let error = |group: &LabelGroup| (group.observed - group.label).abs() * group.steps as f64;
        let total = steps.len().max(1) as f64;
        LabelCalibration { error: groups.iter().map(error).sum::<f64>() / total, groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_held_against_the_mean_return_of_their_like() {
        // Label 1 pays 0 or 2; label 5 pays 4.
        let steps = vec![(1.0, 0.0), (5.0, 4.0), (1.0, 2.0), (5.0, 4.0)];
        let calibration = LabelCalibration::of(steps);
        assert_eq!(calibration.error, 0.5);
        assert_eq!(
            calibration.groups,
            [
                LabelGroup { steps: 2, label: 1.0, observed: 1.0 },
                LabelGroup { steps: 2, label: 5.0, observed: 4.0 }
            ]
        );
        assert_eq!(LabelCalibration::of(Vec::new()).error, 0.0);
    }
}
