//! Asking for many targets.

use std::ops::ControlFlow;

use esper::agent::Agent;
use esper::policy::Support;
use esper_tasks::Env;
use serde::{Deserialize, Serialize};

use crate::rollouts::{Sweep, rollouts};

/// What a target got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepEntry {
    /// What was asked for; null for methods that cannot be asked.
    pub target: Option<f64>,
    /// The mean return, discounted as labels are.
    pub achieved: f64,
    /// Its standard error.
    pub stderr: f64,
    /// The number of episodes.
    pub episodes: usize,
    /// Whether the data speaks about this target.
    pub supported: bool,
}

/// What a policy gives for what it is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The target that got the most; null for methods without targets.
    pub best_target: Option<f64>,
    /// What it got: the paper's number, for which the world is asked what to ask for.
    pub best_return: f64,
    /// The target chosen from the data alone.
    pub offline_target: Option<f64>,
    /// What it got: the honest number. Null when other targets were asked for.
    pub offline_return: Option<f64>,
    /// The mean of |achieved - target| over supported targets; null if there are none.
    pub calibration_error: Option<f64>,
    /// Every target.
    pub sweep: Vec<SweepEntry>,
}

/// Asks an agent for every target, and holds what it gets against what it was asked for. One without support cannot be
/// asked; it plays the episodes of one target.
pub fn sweep<E: Env, A: Agent + ?Sized>(
    env: &E,
    agent: &mut A,
    support: Option<&Support>,
    sweep: &Sweep,
    watch: impl FnMut(usize) -> ControlFlow<()>,
) -> Option<Evaluation> {
    let achieved = rollouts(env, agent, sweep, watch)?;
    let entries = sweep.targets.iter().zip(achieved).map(|(&target, achieved)| SweepEntry {
        target: support.map(|_| target),
        achieved: achieved.mean(),
        stderr: achieved.stderr(),
        episodes: sweep.episodes,
        supported: support.is_none_or(|support| support.supports(target)),
    });
    Some(Evaluation::of(entries.collect(), support.map(Support::offline_target)))
}

impl Evaluation {
    /// Sums up a sweep of at least one entry.
    fn of(sweep: Vec<SweepEntry>, offline_target: Option<f64>) -> Self {
        // The first of equals.
        let best = sweep.iter().rev().max_by(|a, b| a.achieved.total_cmp(&b.achieved));
        let offline = sweep.iter().find(|entry| entry.target == offline_target);
        let misses: Vec<f64> = sweep
            .iter()
            .filter(|entry| entry.supported)
            .filter_map(|entry| Some((entry.achieved - entry.target?).abs()))
            .collect();
        let calibration_error =
            (!misses.is_empty()).then(|| misses.iter().sum::<f64>() / misses.len() as f64);
        Evaluation {
            best_target: best.and_then(|entry| entry.target),
            best_return: best.map_or(0.0, |entry| entry.achieved),
            offline_target,
            offline_return: offline.map(|entry| entry.achieved),
            calibration_error,
            sweep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_supported_targets_count_for_calibration() {
        let entry = |target, achieved, supported| SweepEntry {
            target: Some(target),
            achieved,
            stderr: 0.0,
            episodes: 1,
            supported,
        };
        let sweep = vec![entry(0.0, 0.5, true), entry(1.0, 0.9, true), entry(7.0, 1.1, false)];
        let evaluation = Evaluation::of(sweep, Some(1.0));
        assert!((evaluation.calibration_error.unwrap() - 0.3).abs() < 1e-12);
        assert_eq!((evaluation.best_target, evaluation.best_return), (Some(7.0), 1.1));
        assert_eq!(evaluation.offline_return, Some(0.9));
    }
}
