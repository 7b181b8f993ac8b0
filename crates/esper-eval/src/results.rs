//! Several methods and seeds on one task: what is compared (`comparison.json`), and what came of it (`results.json`,
//! `scaling.json`).

use std::fmt;
use std::path::{Path, PathBuf};

use esper::Registry;
use esper::condition::Condition;
use esper::methods::{About, Curve, Findings};
use esper::settings::Preset;
use esper_data::{DataError, Moments, read_file};
use esper_tasks::{ReferenceReturns, Task, task};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::evaluate::Evaluation;
use crate::text::{percent, plural};

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
}

/// One training, evaluated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunResults {
    /// What decided everything random.
    pub seed: u64,
    /// What it achieves.
    #[serde(flatten)]
    pub evaluation: Evaluation,
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
    /// The task.
    pub task: String,
    /// The preset.
    pub preset: String,
    /// The number of seeds.
    pub seeds: usize,
    /// What was learned from.
    pub dataset: DatasetSummary,
    /// Every method.
    pub methods: Vec<MethodResults>,
}

impl RunResults {
    /// What a seed achieves, of whose training nothing is known.
    pub fn new(seed: u64, evaluation: Evaluation) -> Self {
        RunResults {
            seed,
            evaluation,
            condition: Condition::Return,
            leakage: None,
            train_seconds: 0.0,
            findings: Findings::default(),
            curves: Vec::new(),
        }
    }

    /// Whether it makes sense; what was read from a file may not.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.evaluation.sweep.is_empty() {
            true => Err(format!("of seed {} nothing was asked for", self.seed)),
            false => Ok(()),
        }
    }

    /// The standard error of the best return: that of the episodes of the best target.
    pub fn best_stderr(&self) -> Option<f64> {
        let best = self.evaluation.best_return;
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

    /// Sums up the runs of a method with a policy on one of a task's data sets, if not on its first.
    pub fn of(
        task: &Task,
        dataset: Option<&str>,
        about: &About,
        policy: Option<&str>,
        runs: Vec<RunResults>,
    ) -> Self {
        let over =
            |value: fn(&RunResults) -> Option<f64>| MeanStd::of(runs.iter().filter_map(value));
        let mut results = MethodResults {
            method: about.name.clone(),
            title: about.title(policy).to_owned(),
            summary: about.summary.clone(),
            policy: policy.map(str::to_owned),
            condition: runs.first().filter(|_| policy.is_some()).map(|run| run.condition),
            best_return: over(|run| Some(run.evaluation.best_return)),
            offline_return: over(|run| run.evaluation.offline_return),
            calibration_error: over(|run| run.evaluation.calibration_error),
            train_seconds: over(|run| Some(run.train_seconds)),
            paper_best_return: task
                .published(&about.name, policy, dataset)
                .map(|published| MeanStd { mean: published.mean, std: published.std }),
            normalised: None,
            runs,
        };
        results.normalised =
            task.reference_returns().map(|returns| NormalisedScores::of(&returns, &results));
        results
    }
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The task.
    pub task: String,
    /// The data set, if it is another than the task's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Steps of data.
    pub steps: u64,
    /// Where settings come from.
    pub preset: String,
    /// The methods.
    pub methods: Vec<String>,
    /// What is trained on labels.
    pub policy: String,
    /// Seeds 0, 1, 2, …
    pub seeds: u64,
    /// Episodes with each target.
    pub episodes: usize,
    /// The shares of the data, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fractions: Option<Vec<f64>>,
    /// Settings that differ from the preset's, as `key=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// A file of labels that is compared with the methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
    /// Where tensors are.
    pub device: String,
}

/// What makes a comparison again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// A command of the program.
    Command(String),
    /// A call of the library, in words.
    Call(String),
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Again::Command(words) | Again::Call(words)) = self;
        f.write_str(words)
    }
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
fn read_checked<T: DeserializeOwned>(
    path: PathBuf,
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<T, ResultsError> {
    let read = read_json(path.clone())?;
    check(&read).map_err(|problem| ResultsError::Senseless { path, problem })?;
    Ok(read)
}

impl Comparison {
    /// The file it is kept in.
    pub const FILE: &str = "comparison.json";

    /// What is compared in a folder.
    pub fn read(folder: &Path) -> Result<Self, ResultsError> {
        read_checked(folder.join(Self::FILE), Self::check)
    }

    /// Whether it makes sense; one that was read from a file may not.
    fn check(&self) -> Result<(), String> {
        match () {
            () if self.seeds == 0 => Err("it has no seeds".to_owned()),
            () if self.episodes == 0 => Err("it has no episodes".to_owned()),
            () if self.fractions.as_ref().is_some_and(Vec::is_empty) => {
                Err("it has no shares of the data".to_owned())
            }
            () => Ok(()),
        }
    }

    /// What makes it again: a command, or if the program cannot know of what was compared, words for the library call.
    pub fn again(&self) -> Again {
        match self.is_built_in() {
            true => Again::Command(self.command()),
            false => Again::Call(self.call()),
        }
    }

    /// Whether task, data set, methods, policy and settings are such as the program has.
    fn is_built_in(&self) -> bool {
        let registry = Registry::default();
        let preset = Preset::ALL.into_iter().find(|preset| preset.name() == self.preset);
        let known_data = |task: &Task| {
            self.dataset.as_ref().is_none_or(|dataset| task.dataset(dataset).is_some())
        };
        let known_settings =
            |preset: Preset| registry.config(preset).changed(None, &self.changes).is_ok();
        task(&self.task).is_some_and(|task| task.name() == self.task && known_data(task))
            && self.methods.iter().all(|method| registry.method(method).is_ok())
            && registry.policy(&self.policy).is_ok()
            && preset.is_some_and(known_settings)
    }

    /// The library call, in words.
    fn call(&self) -> String {
        let Comparison { task, steps, preset, methods, policy, seeds, episodes, .. } = self;
        let mut words = format!(
            "an `Experiment` of the library on the task {task}: methods {}, policy {policy}, {}, preset {preset}, {} of \
             data, {} with each target",
            methods.join(", "),
            plural(*seeds as usize, "seed"),
            plural(*steps as usize, "step"),
            plural(*episodes, "episode"),
        );
        if let Some(dataset) = &self.dataset {
            words += &format!(", data set {dataset}");
        }
        if let Some(fractions) = &self.fractions {
            let shares: Vec<String> = fractions.iter().copied().map(percent).collect();
            words += &format!(", shares {}", shares.join(", "));
        }
        if let Some(labels) = &self.labels {
            words += &format!(", labels {}", labels.display());
        }
        if !self.changes.is_empty() {
            words += &format!(", settings {}", self.changes.join(", "));
        }
        words
    }

    /// The command that makes it again.
    fn command(&self) -> String {
        let Comparison { task, steps, preset, methods, policy, seeds, episodes, .. } = self;
        let mut command = format!("esper run {task}");
        if let Some(fractions) = &self.fractions {
            let shares: Vec<String> = fractions.iter().copied().map(percent).collect();
            command += &format!(" --fractions {}", shares.join(","));
        }
        if let Some(dataset) = &self.dataset {
            command += &format!(" --dataset {dataset}");
        }
        command += &format!(
            " --methods {} --policy {policy} --seeds {seeds} --preset {preset} --steps {steps} --episodes {episodes}",
            methods.join(",")
        );
        if let Some(labels) = &self.labels {
            command += &format!(" --labels {}", quoted(&labels.display().to_string()));
        }
        if self.device != "cpu" {
            command += &format!(" --device {}", self.device);
        }
        self.changes.iter().for_each(|change| command += &format!(" --set {}", quoted(change)));
        command
    }
}

impl Results {
    /// What came of methods on a task's data, with a preset and so many seeds.
    pub fn new(
        task: impl Into<String>,
        preset: impl Into<String>,
        seeds: usize,
        dataset: DatasetSummary,
        methods: Vec<MethodResults>,
    ) -> Self {
        Results { task: task.into(), preset: preset.into(), seeds, dataset, methods }
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

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-=/%+,:".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
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
    /// The task.
    pub task: String,
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

    /// A command is only given where the program would take it.
    #[test]
    fn what_is_from_outside_is_no_command() {
        let inside = Comparison {
            task: "gambling".to_owned(),
            dataset: None,
            steps: 2_000,
            preset: "quick".to_owned(),
            methods: vec!["esper".to_owned(), "rvs".to_owned()],
            policy: "mlp".to_owned(),
            seeds: 1,
            episodes: 50,
            fractions: None,
            changes: vec!["mlp.steps=10".to_owned()],
            labels: None,
            device: "cpu".to_owned(),
        };
        let command = "esper run gambling --methods esper,rvs --policy mlp --seeds 1 --preset quick --steps 2000 \
                       --episodes 50 --set mlp.steps=10";
        assert_eq!(inside.again(), Again::Command(command.to_owned()));
        let word = || "mine".to_owned();
        let outside = [
            Comparison { task: word(), ..inside.clone() },
            Comparison { dataset: Some(word()), ..inside.clone() },
            Comparison { methods: vec![word()], ..inside.clone() },
            Comparison { policy: word(), ..inside.clone() },
            Comparison { changes: vec!["mine.prior=1".to_owned()], ..inside.clone() },
        ];
        for comparison in outside {
            let Again::Call(words) = comparison.again() else { panic!("{comparison:?}") };
            assert!(words.contains("mine") && !words.contains("esper run"), "{words}");
        }
    }
}
