//! Asking a policy for many targets, and holding what it gets against what it was asked for.

use std::ops::ControlFlow;

use esper::condition::Target;
use esper::policy::Policy;
use esper_data::{Metadata, Moments, Seed};
use esper_tasks::{Spaces, Task, task};
use serde::{Deserialize, Serialize};

use crate::error::EvalError;
use crate::rollouts::{Sweep, rollouts};

/// What a policy is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Ask {
    /// These targets; a sweep over its levels, or over its labels and a little beyond, if none are given.
    pub targets: Option<Vec<Target>>,
    /// Episodes with each target.
    pub episodes: usize,
    /// Decides everything random in the episodes.
    pub seed: u64,
}

/// What a target got.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SweepEntry {
    /// The level that was asked for; null where returns are.
    #[serde(default)]
    pub level: Option<f64>,
    /// The average return that was asked for; null for methods that cannot be asked.
    pub target: Option<f64>,
    /// What was promised from the data alone: of a level its promise, else the target.
    #[serde(default)]
    pub promise: Option<f64>,
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
#[non_exhaustive]
pub struct Evaluation {
    /// The target that got the most; null for methods without targets.
    pub best_target: Option<f64>,
    /// What it got: the paper's number, for which the world is asked what to ask for. Null where there is no world.
    pub best_return: Option<f64>,
    /// The level chosen from the data alone, where levels are told.
    #[serde(default)]
    pub offline_level: Option<f64>,
    /// The target chosen from the data alone.
    pub offline_target: Option<f64>,
    /// What it got: the honest number. Null when other targets were asked for.
    pub offline_return: Option<f64>,
    /// The mean of |achieved - promised| over supported targets; null if there are none.
    pub calibration_error: Option<f64>,
    /// Every target.
    pub sweep: Vec<SweepEntry>,
}

/// Asks a policy for targets in a task's world. One that cannot be asked plays the episodes of one target. `watch` is told
/// how many episodes of how many are done, and may stop it.
///
/// ```no_run
/// use std::ops::ControlFlow;
///
/// use esper::{Registry, policy::Policy};
/// use esper_eval::{Ask, evaluate};
///
/// let device = esper_nn::DeviceName::Cpu.open()?;
/// let policy = Policy::load("my-run/policy.safetensors".as_ref(), &Registry::default(), &device)?;
/// let task = esper_tasks::task("gambling").expect("it is built in");
/// let targets = [-5.0, 1.0].map(esper::condition::Target::Return).to_vec();
/// let ask = Ask { targets: Some(targets), episodes: 1_000, seed: 0 };
/// let evaluation = evaluate(&policy, task, &ask, &mut |_, _| ControlFlow::Continue(()))?;
/// for entry in &evaluation.sweep {
///     println!("asked for {:?}, got {:.2} ± {:.2}", entry.target, entry.achieved, entry.stderr);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn evaluate(
    policy: &Policy,
    task: &Task,
    ask: &Ask,
    watch: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
) -> Result<Evaluation, EvalError> {
    check_world(policy, task)?;
    let nothing = [Target::Return(0.0)];
    let asked = ask.targets.as_deref().unwrap_or(&nothing);
    let is_number = |target: &Target| match target {
        Target::Return(target) => target.is_finite(),
        Target::Level(level) => (0.0..=1.0).contains(level),
    };
    if ask.episodes == 0 || asked.is_empty() || !asked.iter().all(is_number) {
        let problem = "at least one episode and one target are needed; targets are numbers, and levels are from 0 to 1";
        return Err(EvalError::Asked(problem.to_owned()));
    }
    let card = policy.card();
    let targets = match (&card.support, &ask.targets) {
        (None, _) => nothing.to_vec(),
        (Some(_), Some(targets)) => targets.clone(),
        (Some(_), None) => card.sweep(),
    };
    let seed = Seed::new(ask.seed).named("evaluate").named(task.name());
    let sweep = Sweep { targets, episodes: ask.episodes, discount: card.discount, seed };
    let total = sweep.targets.len() * sweep.episodes;
    let mut done = 0;
    let watch = |episodes: usize| {
        done += episodes;
        watch(done, total)
    };
    let mut worlds = task.worlds(sweep.places())?;
    let achieved = rollouts(&mut worlds, policy.agent().as_mut(), &sweep, watch)?;
    let entry = |(&target, achieved): (&Target, &crate::Achieved)| {
        let promised = card.promised(target);
        let supported = promised.is_none_or(|promised| promised.supported);
        SweepEntry {
            level: promised.and_then(|promised| promised.level),
            promise: promised.map(|promised| promised.promise.promise),
            ..SweepEntry::new(
                promised.map(|promised| promised.target),
                &achieved.moments(),
                supported,
            )
        }
    };
    let entries = sweep.targets.iter().zip(&achieved).map(entry).collect();
    let offline = card.offline_target().and_then(|target| card.promised(target));
    Ok(Evaluation {
        offline_level: offline.and_then(|offline| offline.level),
        ..Evaluation::of(entries, offline.map(|offline| offline.target))
    })
}

/// The world of a data set that names a built-in task, if it is data of that very world: the same version of its rules, the same
/// observations and actions. A world that cannot be made is an error.
pub(crate) fn world_of(metadata: &Metadata) -> Result<Option<&'static Task>, EvalError> {
    let Some(task) = metadata.task.as_deref().and_then(task) else { return Ok(None) };
    if metadata.task_version.is_some_and(|version| version != task.version()) {
        return Ok(None);
    }
    let Spaces { observation, action } = task.spaces()?;
    let is_same = observation == metadata.observation_space && action == metadata.action_space;
    Ok(is_same.then_some(task))
}

/// Whether a policy was made for a task's world.
fn check_world(policy: &Policy, task: &Task) -> Result<(), EvalError> {
    let card = policy.card();
    let Spaces { observation, action } = task.spaces()?;
    if *card.interface.observation.space() != observation
        || *card.interface.action.encoding().space() != action
    {
        return Err(EvalError::Mismatch(format!(
            "the policy was trained on other observations or actions than those of {}",
            task.name()
        )));
    }
    match card.origin.task_version {
        Some(version)
            if card.origin.task.as_deref() == Some(task.name()) && version != task.version() =>
        {
            Err(EvalError::Mismatch(format!(
                "the policy was trained on data of {} with the rules of version {version}; they are now of version {}: \
                 collect and train again",
                task.name(),
                task.version()
            )))
        }
        _ => Ok(()),
    }
}

impl SweepEntry {
    /// What the returns of a target's episodes come to.
    pub fn new(target: Option<f64>, returns: &Moments, supported: bool) -> Self {
        SweepEntry {
            level: None,
            target,
            promise: target,
            achieved: returns.mean,
            stderr: returns.standard_error(),
            episodes: returns.count,
            supported,
        }
    }
}

impl Evaluation {
    /// Of a policy that was not tried in any world: what it would be asked for is known, and nothing of what it gets.
    pub fn unknown(offline_level: Option<f64>, offline_target: Option<f64>) -> Self {
        Evaluation { offline_level, ..Evaluation::of(Vec::new(), offline_target) }
    }

    /// Whether it was tried in a world.
    pub fn is_known(&self) -> bool {
        self.best_return.is_some()
    }

    /// Sums up a sweep of at least one entry, given the target that was chosen from the data alone.
    pub fn of(sweep: Vec<SweepEntry>, offline_target: Option<f64>) -> Self {
        // The first of equals.
        let best = sweep.iter().rev().max_by(|a, b| a.achieved.total_cmp(&b.achieved));
        let offline = sweep.iter().find(|entry| entry.target == offline_target);
        let misses: Vec<f64> = sweep
            .iter()
            .filter(|entry| entry.supported)
            .filter_map(|entry| Some((entry.achieved - entry.promise.or(entry.target)?).abs()))
            .collect();
        let calibration_error =
            (!misses.is_empty()).then(|| Moments::of(misses.iter().copied()).mean);
        Evaluation {
            best_target: best.and_then(|entry| entry.target),
            best_return: best.map(|entry| entry.achieved),
            offline_level: None,
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
        let entry = |target, achieved: f64, supported| {
            SweepEntry::new(Some(target), &Moments::of([achieved].into_iter()), supported)
        };
        let sweep = vec![entry(0.0, 0.5, true), entry(1.0, 0.9, true), entry(7.0, 1.1, false)];
        let evaluation = Evaluation::of(sweep, Some(1.0));
        assert!((evaluation.calibration_error.unwrap() - 0.3).abs() < 1e-12);
        assert_eq!((evaluation.best_target, evaluation.best_return), (Some(7.0), Some(1.1)));
        assert_eq!(evaluation.offline_return, Some(0.9));
    }
}
