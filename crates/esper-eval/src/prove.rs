//! The proving ground: how well promises hold in worlds whose truth is known.
//!
//! Every world gives a log, every contender learns from it and promises, and then the promise is held against what the policy
//! achieves, against the best behaviour in the log and against the optimum, which dynamic programming knows.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use esper::condition::Condition;
use esper::run::RunFolder;
use esper_data::{Dataset, Lock, Moments, write_json};
use esper_nn::{Device, default_device};
use esper_tasks::proving::{self, Truth};
use serde::{Deserialize, Serialize};

use crate::error::EvalError;
use crate::experiment::{DATA, Experiment};
use crate::observer::Observer;
use crate::results::{RunResults, run_name};

/// Who is tried: a method, and what its policy is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contender {
    /// The method.
    pub method: String,
    /// What its policy is told; what is usual if nothing is said.
    pub condition: Option<Condition>,
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.condition {
            Some(condition) => write!(f, "{}-{condition}", self.method),
            None => f.write_str(&self.method),
        }
    }
}

/// What to try: worlds, contenders, seeds.
#[derive(Clone)]
pub struct Proof {
    /// Names of worlds of the proving ground.
    pub worlds: Vec<String>,
    /// Who is tried.
    pub contenders: Vec<Contender>,
    /// Seeds of training: 0, 1, 2, …
    pub seeds: u64,
    /// Steps of every log; as many as the world's data set has if nothing is said.
    pub steps: Option<u64>,
    /// Episodes with each level.
    pub episodes: usize,
    /// Settings that are changed, as `key=value`.
    pub settings: Vec<String>,
    /// Where tensors are.
    pub device: Device,
}

impl Default for Proof {
    fn default() -> Self {
        Proof {
            worlds: Vec::new(),
            contenders: Vec::new(),
            seeds: 1,
            steps: None,
            episodes: 30_000,
            settings: Vec::new(),
            device: default_device(),
        }
    }
}

/// A contender in a world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The world.
    pub world: String,
    /// What kind of world it is.
    pub kind: String,
    /// The seed of training.
    pub seed: u64,
    /// The method.
    pub method: String,
    /// What its policy was told.
    pub condition: Condition,
    /// What was promised for what was chosen from the data alone; null for methods that promise nothing.
    pub promise: Option<f64>,
    /// What that achieved.
    pub achieved: f64,
    /// Its standard error.
    pub stderr: f64,
    /// The mean return of the best behaviour.
    pub best_behaviour: f64,
    /// The highest mean return that there is.
    pub optimum: f64,
    /// From the worst behaviour's mean return to the best's.
    pub range: f64,
    /// The mean of |achieved - promised| over a sweep.
    pub calibration_error: Option<f64>,
    /// What the program had to say beforehand.
    pub warned: bool,
    /// How much clusters help to predict the world.
    pub leakage: Option<f64>,
    /// Mean |correlation| of first labels with returns, within one behaviour and one start.
    pub label_return_correlation: Option<f64>,
    /// Mean |correlation| of first labels with the luck of episodes, within one behaviour and one start.
    pub label_luck_correlation: Option<f64>,
    /// How long training took.
    pub train_seconds: f64,
}

impl Tried {
    /// How far the promise was from what was achieved, as a share of the range.
    pub fn error(&self) -> Option<f64> {
        self.promise.map(|promise| (promise - self.achieved).abs() / self.range)
    }

    /// How far what was achieved is below the best behaviour, as a share of the range.
    pub fn regret(&self) -> f64 {
        (self.best_behaviour - self.achieved) / self.range
    }

    /// Whether there is much more to be had than the best behaviour gets.
    fn has_room(&self) -> bool {
        self.optimum - self.best_behaviour > 0.05 * self.range
    }
}

/// A contender over all worlds, or all of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The kind of world; null for all of them.
    pub kind: Option<String>,
    /// The method.
    pub method: String,
    /// What its policy was told.
    pub condition: Condition,
    /// Trainings.
    pub tried: usize,
    /// The share whose promise was kept within 5% of the range.
    pub kept_5: Option<f64>,
    /// The share whose promise was kept within 10% of the range.
    pub kept_10: Option<f64>,
    /// The mean over worlds of the calibration error, as a share of the range.
    pub calibration_error: Option<f64>,
    /// The mean regret against the best behaviour, as a share of the range; below zero is better than it.
    pub regret: f64,
    /// The share that achieved at least the best behaviour's return, less 3% of the range.
    pub good: f64,
    /// Of worlds whose optimum is more than 5% of the range above the best behaviour, the share that achieved more than it.
    pub above_best: Option<f64>,
    /// Mean |correlation| of first labels with returns, within a behaviour and a start.
    pub label_return_correlation: Option<f64>,
    /// The same with luck.
    pub label_luck_correlation: Option<f64>,
    /// Of promises that missed by more than 10%, the share that came with a warning.
    pub missed_warned: Option<f64>,
    /// Of promises that were kept within 5%, the share that came with a warning.
    pub kept_warned: Option<f64>,
    /// The mean time of training.
    pub train_seconds: f64,
}

impl Verdict {
    fn of(kind: Option<&str>, tried: &[&Tried]) -> Option<Self> {
        let first = tried.first()?;
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (mut sum, mut count) = (0.0, 0);
            values.for_each(|value| (sum, count) = (sum + value, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        let share = |among: &dyn Fn(&Tried) -> bool, is: &dyn Fn(&Tried) -> bool| {
            let among = tried.iter().filter(|tried| among(tried));
            mean(&mut among.map(|tried| f64::from(u8::from(is(tried)))))
        };
        let promised = |tried: &Tried| tried.promise.is_some();
        let within = |tried: &Tried, most: f64| tried.error().is_some_and(|error| error <= most);
        let everything = |_: &Tried| true;
        Some(Verdict {
            kind: kind.map(str::to_owned),
            method: first.method.clone(),
            condition: first.condition,
            tried: tried.len(),
            kept_5: share(&promised, &|tried| within(tried, 0.05)),
            kept_10: share(&promised, &|tried| within(tried, 0.1)),
            calibration_error: mean(
                &mut tried.iter().filter_map(|t| Some(t.calibration_error? / t.range)),
            ),
            regret: mean(&mut tried.iter().map(|tried| tried.regret())).unwrap_or(0.0),
            good: share(&everything, &|tried| tried.regret() <= 0.03).unwrap_or(0.0),
            above_best: share(&Tried::has_room, &|tried| tried.regret() < 0.0),
            label_return_correlation: mean(
                &mut tried.iter().filter_map(|tried| tried.label_return_correlation),
            ),
            label_luck_correlation: mean(
                &mut tried.iter().filter_map(|tried| tried.label_luck_correlation),
            ),
            missed_warned: share(&|t| promised(t) && !within(t, 0.1), &|tried| tried.warned),
            kept_warned: share(&|tried| within(tried, 0.05), &|tried| tried.warned),
            train_seconds: mean(&mut tried.iter().map(|tried| tried.train_seconds)).unwrap_or(0.0),
        })
    }
}

/// Everything that was tried, and what it says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Proven {
    /// Every contender in every world, with every seed.
    pub worlds: Vec<Tried>,
    /// Every contender over all worlds, then by kind of world.
    pub summary: Vec<Verdict>,
}

impl Proven {
    /// What is kept in the folder.
    pub const FILE: &str = "proof.json";

    fn of(worlds: Vec<Tried>) -> Self {
        let mut contenders: Vec<(String, Condition)> = Vec::new();
        let mut kinds: Vec<String> = Vec::new();
        for Tried { method, condition, kind, .. } in &worlds {
            if !contenders.contains(&(method.clone(), *condition)) {
                contenders.push((method.clone(), *condition));
            }
            kinds.push(kind.clone());
        }
        kinds.sort();
        kinds.dedup();
        let verdict = |(method, condition): &(String, Condition), kind: Option<&str>| {
            let of = |tried: &&Tried| {
                (&tried.method, tried.condition) == (method, *condition)
                    && kind.is_none_or(|kind| tried.kind == kind)
            };
            Verdict::of(kind, &worlds.iter().filter(of).collect::<Vec<_>>())
        };
        let mut summary: Vec<Verdict> =
            contenders.iter().filter_map(|contender| verdict(contender, None)).collect();
        for kind in &kinds {
            summary.extend(contenders.iter().filter_map(|one| verdict(one, Some(kind))));
        }
        Proven { worlds, summary }
    }
}

impl Proof {
    /// Tries what is not tried yet, several side by side, and leaves what came of it in the folder. `watch` is told of everything
    /// that is done, and how much there is; `stop` says whether to stop.
    pub fn run(
        &self,
        folder: &Path,
        watch: &(dyn Fn(&Tried, usize, usize) + Sync),
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Proven, EvalError> {
        let mut entries = Vec::new();
        for world in &self.worlds {
            for contender in &self.contenders {
                entries.extend((0..self.seeds).map(|seed| (world, contender, seed)));
            }
        }
        if entries.is_empty() || self.episodes == 0 {
            return Err(EvalError::Asked("there is nothing to try".to_owned()));
        }
        fs::create_dir_all(folder)
            .map_err(|source| EvalError::Folder { path: folder.to_owned(), source })?;
        let _lock = Lock::folder(folder)?;
        let threads = rayon::current_num_threads();
        let (next, done, failed) =
            (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let stop = || stop() || failed.load(Ordering::Relaxed);
        let results: Mutex<Vec<Option<Result<Tried, EvalError>>>> =
            Mutex::new(entries.iter().map(|_| None).collect());
        let worker = || {
            while !stop() {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some((world, contender, seed)) = entries.get(at) else { break };
                let tried = self.one(folder, world, contender, *seed, &stop);
                match &tried {
                    Ok(tried) => {
                        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
                        watch(tried, done, entries.len());
                    }
                    Err(_) => failed.store(true, Ordering::Relaxed),
                }
                results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(tried);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..threads.min(entries.len()) {
                scope.spawn(|| match rayon::ThreadPoolBuilder::new().num_threads(1).build() {
                    Ok(pool) => pool.install(worker),
                    Err(_) => worker(),
                });
            }
        });
        let mut tried = Vec::new();
        let mut stopped = false;
        for result in results.into_inner().unwrap_or_else(PoisonError::into_inner) {
            match result {
                Some(Ok(one)) => tried.push(one),
                Some(Err(EvalError::Stopped)) | None => stopped = true,
                Some(Err(error)) => return Err(error),
            }
        }
        if stopped {
            return Err(EvalError::Stopped);
        }
        let proven = Proven::of(tried);
        write_json(&folder.join(Proven::FILE), &proven)?;
        Ok(proven)
    }

    fn one(
        &self,
        folder: &Path,
        world: &str,
        contender: &Contender,
        seed: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Tried, EvalError> {
        let unknown = || EvalError::Asked(format!("{world} is no world of the proving ground"));
        let task = esper_tasks::task(world).ok_or_else(unknown)?;
        let truth = proving::truth(world).ok_or_else(unknown)?;
        let folder = folder.join(world).join(contender.to_string());
        let condition = contender.condition.map(|condition| format!("condition={condition}"));
        let experiment = Experiment::new(task)
            .with_methods([&contender.method])?
            .with_settings(None, condition.into_iter().chain(self.settings.iter().cloned()))
            .with_first_seed(seed)
            .with_seeds(1)
            .with_episodes(self.episodes)
            .with_device(self.device.clone())
            .with_resume(true);
        let experiment = match self.steps {
            Some(steps) => experiment.with_steps(steps),
            None => experiment,
        };
        let folder = folder.join(seed.to_string());
        let results = experiment.run(&folder, &Stopping(stop))?;
        let (method, run) = (&results.methods[0], &results.methods[0].runs[0]);
        let path = folder.join(run_name(&contender.method, method.policy.as_deref(), seed));
        let trained = RunFolder::open(&path)?;
        let condition = trained.summary()?.condition;
        let data = esper_data::read(&folder.join(DATA))?;
        let labels = trained.labels(&data)?.map(|labels| labels.labels);
        let correlations = |of: &dyn Fn(&Dataset) -> Option<Vec<f64>>| {
            let starts = proving::first_states(world, &data)?;
            correlation_within(&data, &starts, labels.as_ref()?, &of(&data)?)
        };
        let returns = |data: &Dataset| {
            Some((0..data.episodes()).map(|episode| data.episode_return(episode)).collect())
        };
        // Data is made again from its seed; what was learned from it is kept.
        let _ = fs::remove_file(folder.join(DATA));
        Ok(Tried {
            label_return_correlation: correlations(&returns),
            label_luck_correlation: correlations(&|data| proving::luck(world, data)),
            ..tried(world, &truth, contender, condition, run)
        })
    }
}

/// What a run achieved, beside the truth.
fn tried(
    world: &str,
    truth: &Truth,
    contender: &Contender,
    condition: Condition,
    run: &RunResults,
) -> Tried {
    let evaluation = &run.evaluation;
    let of_level = |entry: &&crate::SweepEntry| {
        entry.level == evaluation.offline_level && entry.target == evaluation.offline_target
    };
    let chosen = evaluation.sweep.iter().find(of_level).or(evaluation.sweep.first());
    Tried {
        world: world.to_owned(),
        kind: truth.kind.clone(),
        seed: run.seed,
        method: contender.method.clone(),
        condition,
        promise: evaluation.offline_target.and(chosen.and_then(|entry| entry.promise)),
        achieved: evaluation.offline_return.or(evaluation.best_return).unwrap_or(f64::NAN),
        stderr: chosen.map_or(0.0, |entry| entry.stderr),
        best_behaviour: truth.best_behaviour,
        optimum: truth.optimum,
        range: truth.range(),
        calibration_error: evaluation.calibration_error,
        warned: !run.findings.warnings.is_empty(),
        leakage: run.leakage,
        label_return_correlation: None,
        label_luck_correlation: None,
        train_seconds: run.train_seconds,
    }
}

/// The fewest episodes of a behaviour from a start that a correlation is taken of.
const FEWEST: usize = 50;

/// The mean |correlation| of first labels with some number of every episode, within one behaviour and one start; `None` where
/// nothing varies.
fn correlation_within(
    data: &Dataset,
    starts: &[usize],
    labels: &[f32],
    numbers: &[f64],
) -> Option<f64> {
    let mut groups: std::collections::BTreeMap<(usize, usize), Vec<usize>> = Default::default();
    for (episode, &start) in starts.iter().enumerate() {
        groups.entry((data.behaviour(episode)?, start)).or_default().push(episode);
    }
    let first = |episode: usize| f64::from(labels[data.episode_steps(episode).start]);
    // Labels that differ by a hair are the same.
    let hair = 0.01 * Moments::of((0..data.episodes()).map(first)).population_std();
    let (mut sum, mut total) = (0.0, 0.0);
    for members in groups.values().filter(|members| members.len() >= FEWEST) {
        let pair = |&episode: &usize| (first(episode), numbers[episode]);
        let pairs: Vec<(f64, f64)> = members.iter().map(pair).collect();
        let count = pairs.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / count;
        let (a, b) = (mean(|pair| pair.0), mean(|pair| pair.1));
        let product = |f: &dyn Fn(f64, f64) -> f64| {
            pairs.iter().map(|(x, y)| f(x - a, y - b)).sum::<f64>() / count
        };
        let (xx, yy, xy) = (product(&|x, _| x * x), product(&|_, y| y * y), product(&|x, y| x * y));
        if yy > 1e-12 {
            let correlation = if xx > hair.powi(2) + 1e-12 { xy / (xx * yy).sqrt() } else { 0.0 };
            sum += count * correlation.abs();
            total += count;
        }
    }
    (total > 0.0).then(|| sum / total)
}

/// An experiment that can only be stopped.
struct Stopping<'a>(&'a (dyn Fn() -> bool + Sync));

impl Observer for Stopping<'_> {
    fn stop(&self) -> bool {
        (self.0)()
    }
}
