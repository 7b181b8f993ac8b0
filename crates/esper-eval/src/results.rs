//! What came of several methods and seeds on one data set (`results.json`, `scaling.json`).

use std::path::{Path, PathBuf};

use esper::condition::Condition;
use esper::methods::{About, Curve, Findings};
use esper::policy::Outlook;
use esper::run::Summary;
use esper_data::{DataError, Dataset, Moments, Overview, read_file};
use esper_tasks::{ReferenceReturns, Task};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::comparison::{NAMELESS, stem};
use crate::evaluate::Evaluation;

/// The seeds that the paper's numbers are over.
pub const PAPER_SEEDS: usize = 3;

/// A mean over seeds and the standard deviation around it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeanStd {
    /// The mean.
    pub mean: f64,
    /// The standard deviation over seeds, as the paper gives it (of the seeds there are, not of a sample).
    pub std: f64,
}

impl MeanStd {
    /// Of some values; `None` if there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let moments = Moments::of(values.iter().copied());
        let of_some = MeanStd { mean: moments.mean, std: moments.population_std() };
        (!values.is_empty()).then_some(of_some)
    }

    /// As the paper writes it: 0.81 (0.05). One seed deviates from nothing: 0.81.
    pub fn text(self, seeds: usize) -> String {
        let MeanStd { mean, std } = self;
        if seeds == 1 { format!("{mean:.2}") } else { format!("{mean:.2} ({std:.2})") }
    }
}

/// What was learned from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetSummary {
    /// Its steps.
    pub steps: usize,
    /// Its episodes.
    pub episodes: usize,
    /// Their mean return.
    pub mean_return: f64,
    /// Where it was, if it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// What it says by itself: who acted how well, and what looks wrong. Null in files of versions that did not say.
    #[serde(default)]
    pub overview: Option<Overview>,
}

impl DatasetSummary {
    /// Of a data set that was given at a path, or made; returns are discounted by this in its overview.
    pub fn of(data: &Dataset, path: Option<&Path>, discount: f64) -> Self {
        let returns = (0..data.episodes()).map(|episode| data.episode_return(episode));
        DatasetSummary {
            steps: data.steps(),
            episodes: data.episodes(),
            mean_return: Moments::of(returns).mean,
            path: path.map(Path::to_owned),
            overview: Some(Overview::of(data, discount)),
        }
    }
}

/// One training, evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunResults {
    /// What decided everything random.
    pub seed: u64,
    /// What it achieves; nothing of that is known where there is no world.
    #[serde(flatten)]
    pub evaluation: Evaluation,
    /// What every level gets, as far as the data says; empty for methods that cannot be asked.
    #[serde(default)]
    pub promises: Vec<Outlook>,
    /// The same of the target that was chosen from the data alone.
    #[serde(default)]
    pub offline_promise: Option<Outlook>,
    /// What the policy is told.
    #[serde(default)]
    pub condition: Condition,
    /// How much clusters help to predict the world; null for methods without clusters.
    pub leakage: Option<f64>,
    /// How long training took.
    pub train_seconds: f64,
    /// What is known without the world.
    pub findings: Findings,
    /// What of its metrics a report draws.
    #[serde(default)]
    pub curves: Vec<Curve>,
}

/// One method, over seeds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MethodResults {
    /// Its name.
    pub method: String,
    /// Its name for people, with the policy in mind; empty in files of versions that did not know it.
    #[serde(default)]
    pub title: String,
    /// What it does, in half a sentence.
    #[serde(default)]
    pub summary: String,
    /// Its policy; null for methods that have no choice of one.
    pub policy: Option<String>,
    /// What it is told; null for methods that are told nothing, and in files of versions that did not say.
    #[serde(default)]
    pub condition: Option<Condition>,
    /// Best over the sweep.
    pub best_return: Option<MeanStd>,
    /// With the target chosen offline.
    pub offline_return: Option<MeanStd>,
    /// What that target promises: means over seeds, from the lowest lower end to the highest upper one.
    #[serde(default)]
    pub offline_promise: Option<Outlook>,
    /// |achieved - target|.
    pub calibration_error: Option<MeanStd>,
    /// How long training took.
    pub train_seconds: Option<MeanStd>,
    /// The paper's best return.
    pub paper_best_return: Option<MeanStd>,
    /// Normalised scores of the three, where the task has returns to normalise by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalised: Option<NormalisedScores>,
    /// Every seed.
    pub runs: Vec<RunResults>,
}

/// Normalised scores, as in D4RL: 0 is random play, 100 is an expert.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NormalisedScores {
    /// Of the best return.
    pub best: Option<MeanStd>,
    /// Of the offline return.
    pub offline: Option<MeanStd>,
    /// Of the paper's best return.
    pub paper: Option<MeanStd>,
}

impl NormalisedScores {
    fn of(references: &ReferenceReturns, results: &MethodResults) -> Self {
        let score = |returns: Option<MeanStd>| {
            returns.map(|MeanStd { mean, std }| MeanStd {
                mean: references.normalised_score(mean),
                std: references.normalised_score(references.random + std),
            })
        };
        NormalisedScores {
            best: score(results.best_return),
            offline: score(results.offline_return),
            paper: score(results.paper_best_return),
        }
    }
}

/// Everything that a comparison gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Results {
    /// The task; null for data of none.
    pub task: Option<String>,
    /// The preset.
    pub preset: String,
    /// The number of seeds.
    pub seeds: usize,
    /// What was learned from.
    pub dataset: DatasetSummary,
    /// Every method.
    pub methods: Vec<MethodResults>,
    /// Runs that failed, where the others went on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedRun>,
    /// Usual methods that cannot learn from this data, where nobody asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// A method that was left out of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name.
    pub method: String,
    /// Why.
    pub why: String,
}

/// A run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedRun {
    /// The name of its method.
    pub method: String,
    /// Its seed.
    pub seed: u64,
    /// Why.
    pub error: String,
}

impl RunResults {
    /// What a seed achieves, of whose training nothing is known.
    pub fn new(seed: u64, evaluation: Evaluation) -> Self {
        RunResults {
            seed,
            evaluation,
            promises: Vec::new(),
            offline_promise: None,
            condition: Condition::Return,
            leakage: None,
            train_seconds: 0.0,
            findings: Findings::default(),
            curves: Vec::new(),
        }
    }

    /// What a training left, and what it achieves where that was tried.
    pub fn of(seed: u64, summary: Summary, evaluation: Option<Evaluation>) -> Self {
        let unknown = || Evaluation::unknown(summary.offline_level, summary.offline_target);
        let evaluation = evaluation.unwrap_or_else(unknown);
        RunResults {
            leakage: summary.findings.clustering.as_ref().map(|clustering| clustering.leakage.mean),
            promises: summary.outlook,
            offline_promise: summary.chosen,
            condition: summary.condition,
            train_seconds: summary.train_seconds,
            findings: summary.findings,
            curves: summary.curves,
            ..RunResults::new(seed, evaluation)
        }
    }

    /// Whether it makes sense; what was read from a file may not.
    pub(crate) fn check(&self) -> Result<(), String> {
        // Where there is no world, nothing was tried.
        match self.evaluation.sweep.is_empty() && self.evaluation.best_return.is_some() {
            true => Err(format!("of seed {} nothing was asked for", self.seed)),
            false => Ok(()),
        }
    }

    /// The standard error of the best return: that of the episodes of the best target.
    pub fn best_stderr(&self) -> Option<f64> {
        let best = self.evaluation.best_return?;
        let mut sweep = self.evaluation.sweep.iter();
        sweep.find(|entry| entry.achieved == best).map(|entry| entry.stderr)
    }
}

impl MethodResults {
    /// How far the best return may be off: its standard deviation over seeds, or of a single seed the standard error of its
    /// episodes.
    pub fn best_spread(&self) -> f64 {
        match &self.runs[..] {
            [only] => only.best_stderr().unwrap_or(0.0),
            _ => self.best_return.map_or(0.0, |best| best.std),
        }
    }

    /// Its name for people, whatever version wrote it down.
    pub fn title(&self) -> &str {
        if self.title.is_empty() { &self.method } else { &self.title }
    }

    /// Whether it can be asked for a return.
    pub fn has_targets(&self) -> bool {
        self.runs.iter().any(|run| run.evaluation.offline_target.is_some())
    }

    /// Sums up the runs of a method with a policy.
    pub fn of(about: &About, policy: Option<&str>, runs: Vec<RunResults>) -> Self {
        let over =
            |value: fn(&RunResults) -> Option<f64>| MeanStd::of(runs.iter().filter_map(value));
        MethodResults {
            method: about.name.clone(),
            title: about.title(policy).to_owned(),
            summary: about.summary.clone(),
            policy: policy.map(str::to_owned),
            condition: runs.first().filter(|_| policy.is_some()).map(|run| run.condition),
            best_return: over(|run| run.evaluation.best_return),
            offline_return: over(|run| run.evaluation.offline_return),
            offline_promise: over_seeds(&runs),
            calibration_error: over(|run| run.evaluation.calibration_error),
            train_seconds: over(|run| Some(run.train_seconds)),
            paper_best_return: None,
            normalised: None,
            runs,
        }
    }

    /// The same beside what was published of one of a task's data sets (its first if none is named), and in normalised scores
    /// where the task has returns to normalise by.
    pub fn beside_published(self, task: &Task, dataset: Option<&str>) -> Self {
        let published = task.published(&self.method, self.policy.as_deref(), dataset);
        let paper_best_return =
            published.map(|published| MeanStd { mean: published.mean, std: published.std });
        MethodResults { paper_best_return, ..self }.normalised(task)
    }

    /// The same with normalised scores, where the task has returns to normalise by.
    pub(crate) fn normalised(mut self, task: &Task) -> Self {
        self.normalised =
            task.reference_returns().map(|returns| NormalisedScores::of(&returns, &self));
        self
    }
}

/// What the targets that were chosen promise, over seeds.
fn over_seeds(runs: &[RunResults]) -> Option<Outlook> {
    let chosen: Vec<Outlook> = runs.iter().filter_map(|run| run.offline_promise).collect();
    let mean = |of: fn(&Outlook) -> Option<f64>| MeanStd::of(chosen.iter().filter_map(of));
    let ends = |of: fn(&Outlook) -> Option<f64>| chosen.iter().filter_map(of);
    let episodes = mean(|of| Some(of.episodes as f64))?.mean;
    Some(Outlook {
        level: mean(|of| of.level).map(|level| level.mean),
        promise: mean(|of| Some(of.promise))?.mean,
        low: ends(|of| of.low).reduce(f64::min),
        high: ends(|of| of.high).reduce(f64::max),
        episodes: episodes.round() as usize,
    })
}

/// Why a file of results cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// It is not there, or cannot be opened.
    #[error(transparent)]
    Unreadable(#[from] DataError),
    /// It holds something else.
    #[error("{} cannot be read: {source}; it may be of another version of esper", path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// It can be read, but what it says cannot be.
    #[error("{} makes no sense: {problem}; it may have been changed or damaged, and is made again where it came from", path.display())]
    Senseless {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

/// Reads a JSON file.
pub fn read_json<T: DeserializeOwned>(path: PathBuf) -> Result<T, ResultsError> {
    let bytes = read_file(&path)?;
    serde_json::from_slice(&bytes).map_err(|source| ResultsError::Damaged { path, source })
}

/// Reads a JSON file and checks what it says.
pub(crate) fn read_checked<T: DeserializeOwned>(
    path: PathBuf,
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<T, ResultsError> {
    let read = read_json(path.clone())?;
    check(&read).map_err(|problem| ResultsError::Senseless { path, problem })?;
    Ok(read)
}

impl Results {
    /// What came of methods on data, of a task if it is one's, with a preset and so many seeds.
    pub fn new(
        task: Option<&str>,
        preset: impl Into<String>,
        seeds: usize,
        dataset: DatasetSummary,
        methods: Vec<MethodResults>,
    ) -> Self {
        let (task, preset) = (task.map(str::to_owned), preset.into());
        Results { task, preset, seeds, dataset, methods, failed: Vec::new(), left_out: Vec::new() }
    }

    /// What they are of: the file of the data, or the task.
    pub fn name(&self) -> String {
        let task = || self.task.clone().unwrap_or_else(|| NAMELESS.to_owned());
        self.dataset.path.as_deref().map_or_else(task, stem)
    }

    /// Whether policies were tried in a world.
    pub fn in_world(&self) -> bool {
        let mut runs = self.methods.iter().flat_map(|method| &method.runs);
        runs.any(|run| run.evaluation.is_known())
    }

    /// The file they are kept in.
    pub const FILE: &str = "results.json";

    /// The results in a folder.
    pub fn read(folder: &Path) -> Result<Self, ResultsError> {
        read_checked(folder.join(Self::FILE), Self::check)
    }

    /// Whether they make sense; what was read from a file may not.
    fn check(&self) -> Result<(), String> {
        if self.methods.is_empty() {
            return Err("it has no methods".to_owned());
        }
        self.methods.iter().try_for_each(|method| {
            let of = |problem: String| format!("{}: {problem}", method.method);
            if method.runs.is_empty() {
                return Err(of("it has no runs".to_owned()));
            }
            method.runs.iter().try_for_each(RunResults::check).map_err(of)
        })
    }
}

impl Scaling {
    /// The file it is kept in.
    pub const FILE: &str = "scaling.json";

    /// What is in a folder.
    pub fn read(folder: &Path) -> Result<Self, ResultsError> {
        read_checked(folder.join(Self::FILE), |scaling: &Self| match &scaling.fractions[..] {
            [] => Err("it has no shares of the data".to_owned()),
            entries => entries.iter().try_for_each(|entry| entry.results.check()),
        })
    }
}

/// The folder of one run within that of its comparison.
pub fn run_name(method: &str, policy: Option<&str>, seed: u64) -> String {
    match policy {
        Some(policy) => format!("{method}-{policy}-{seed}"),
        None => format!("{method}-{seed}"),
    }
}

/// Results with several shares of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// The task; null for data of none.
    pub task: Option<String>,
    /// The preset that settings come from.
    pub preset: String,
    /// One entry a share, the smallest first.
    pub fractions: Vec<ScalingEntry>,
}

/// Results with one share of the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalingEntry {
    /// The share, from 0 to 1.
    pub fraction: f64,
    /// What it gave.
    #[serde(flatten)]
    pub results: Results,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_over_what_there_is() {
        assert_eq!(MeanStd::of([1.0, 3.0].into_iter()), Some(MeanStd { mean: 2.0, std: 1.0 }));
        assert_eq!(MeanStd::of(std::iter::empty()), None);
    }
}
