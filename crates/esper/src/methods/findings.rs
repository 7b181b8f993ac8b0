//! What a training tells a report: what is known about labels without the world, and which curves to draw.

use esper_data::Moments;
use serde::{Deserialize, Serialize};

use super::esper::Clustering;

/// What is known about labels, or whatever else was learned, without the world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// How labels compare with the returns of episodes that were not learned from.
    pub calibration: Option<LabelCalibration>,
    /// What the clusters are like; `None` for methods without.
    pub clustering: Option<Clustering>,
    /// Clusterings that were tried and not taken, in order.
    pub rejected: Vec<Clustering>,
    /// Whatever else a method measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<Measure>,
    /// What whoever uses the policy has to know first, a sentence each without a stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Something that a method measured, for people to read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What it is.
    pub name: String,
    /// How much.
    pub value: f64,
}

/// A metric of training that a report draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// What it is called.
    pub label: String,
    /// The phase it was recorded in.
    pub phase: String,
    /// The metric.
    pub metric: String,
    /// A metric of the same phase that is taken off it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub less: Option<String>,
    /// What to know about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
}

impl Curve {
    /// A metric of a phase, under a name for people.
    pub fn new(
        label: impl Into<String>,
        phase: impl Into<String>,
        metric: impl Into<String>,
    ) -> Self {
        let (label, phase, metric) = (label.into(), phase.into(), metric.into());
        Curve { label, phase, metric, less: None, words: None }
    }
}

/// How labels compare with returns of held-out episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelCalibration {
    /// The mean over groups of |mean return - mean label|, by their numbers of steps.
    pub error: f64,
    /// Explained variance: the share of the variance of returns that labels explain, 1 - mean (return - label)² by the variance
    /// of returns; `None` if returns do not differ.
    #[serde(default)]
    pub explained: Option<f64>,
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
                Moments::of(group.iter().map(|step| f64::from(of(step)))).mean
            };
            groups.push(LabelGroup { steps: end, label: mean(|s| s.0), observed: mean(|s| s.1) });
            rest = after;
        }
        let error = |group: &LabelGroup| (group.observed - group.label).abs() * group.steps as f64;
        let total = steps.len().max(1) as f64;
        let variance =
            Moments::of(steps.iter().map(|step| f64::from(step.1))).population_std().powi(2);
        let misses = steps.iter().map(|step| f64::from(step.1 - step.0).powi(2));
        let explained = (variance > 0.0).then(|| 1.0 - misses.sum::<f64>() / total / variance);
        LabelCalibration { error: groups.iter().map(error).sum::<f64>() / total, explained, groups }
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
        // Returns 0, 4, 2, 4 have variance 2.75; labels miss each by 1.
        assert!((calibration.explained.unwrap() - (1.0 - 1.0 / 2.75)).abs() < 1e-12);
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
