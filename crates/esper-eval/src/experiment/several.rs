//! Several experiments at once, on one machine or on many.

use std::path::{Path, PathBuf};

use esper_data::write_json;

use super::resolved::{Begun, Entry, Resolved};
use super::work::{Job, work};
use super::{Experiment, evaluated};
use crate::error::EvalError;
use crate::observer::{Observer, Watched};
use crate::results::{FailedRun, Results, RunResults};

/// Experiments that were begun, each in a folder of its own, which is locked for as long as this is there.
///
/// [`Experiments::run`] does all runs here. They may as well be done by others, on any machine that shares the folders:
/// [`Experiment::run_one`] is one of them. Either way everything is in the folders, and [`Experiments::gather`] makes results of it; a
/// run that failed is named there, and takes no other with it.
///
/// ```
/// use esper_eval::{Experiment, Experiments, Unobserved};
///
/// # let home = tempfile::tempdir()?;
/// # let home = home.path();
/// let task = esper_tasks::task("gambling").expect("it is built in");
/// let experiment = |steps: &str| {
///     let experiment = Experiment::new(task).with_methods(["rvs"]).expect("it is built in");
///     experiment.with_settings(None, [format!("mlp.steps={steps}")]).with_seeds(1).with_steps(1_000)
/// };
/// let cells = ["100", "200"].map(|steps| (experiment(steps), home.join(steps)));
/// let experiments = Experiments::begin(cells.into(), &Unobserved)?;
/// let failures = experiments.run(&Unobserved)?;
/// for results in experiments.gather(&failures)? {
///     println!("{:?}", results.expect("nothing failed").methods[0].offline_return);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Experiments {
    cells: Vec<Cell>,
}

struct Cell {
    experiment: Experiment,
    begun: Begun,
}

/// A run of one of several experiments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExperimentRun {
    /// Which of the experiments it is of.
    pub experiment: usize,
    /// What it is called.
    pub name: String,
    /// The name of its method.
    pub method: String,
    /// What decides everything random.
    pub seed: u64,
    /// Its folder.
    pub path: PathBuf,
}

impl Experiments {
    /// Begins experiments, each in its folder: those are made and locked, and data is collected where it is a task's.
    pub fn begin(
        experiments: Vec<(Experiment, PathBuf)>,
        observer: &dyn Observer,
    ) -> Result<Self, EvalError> {
        let mut cells: Vec<Cell> = Vec::new();
        for (experiment, folder) in experiments {
            let begun = experiment.resolve().and_then(|resolved| resolved.begin(&folder, observer));
            match begun {
                Ok(begun) => cells.push(Cell { experiment, begun }),
                Err(error) => {
                    // Stopped, its folders are gone on with; what makes no sense leaves nothing behind.
                    if !matches!(error, EvalError::Stopped) {
                        cells.iter().for_each(|cell| cell.begun.undo());
                    }
                    return Err(error);
                }
            }
        }
        Ok(Experiments { cells })
    }

    /// Every run, in the order of the experiments, their methods and seeds.
    pub fn runs(&self) -> Result<Vec<ExperimentRun>, EvalError> {
        let mut runs = Vec::new();
        for (experiment, cell) in self.cells.iter().enumerate() {
            let resolved = cell.experiment.resolve()?;
            let (entries, _) = resolved.entries(&cell.begun)?;
            runs.extend(entries.into_iter().map(|entry| ExperimentRun {
                experiment,
                method: entry.plan.about().name,
                seed: entry.plan.seed,
                name: entry.name,
                path: entry.path,
            }));
        }
        Ok(runs)
    }

    /// Does what is not done yet, here, side by side. Gives why runs failed, in the order of [`Experiments::runs`].
    pub fn run(&self, observer: &dyn Observer) -> Result<Vec<Option<String>>, EvalError> {
        let resolved: Vec<Resolved<'_>> =
            self.cells.iter().map(|cell| cell.experiment.resolve()).collect::<Result<_, _>>()?;
        let (mut entries, mut beside) = (Vec::new(), usize::MAX);
        for (cell, resolved) in self.cells.iter().zip(&resolved) {
            let (of_cell, beside_in_cell) = resolved.entries(&cell.begun)?;
            beside = match cell.experiment.memory {
                Some(_) => beside.min(beside_in_cell),
                None => beside,
            };
            entries.extend(of_cell.into_iter().map(|entry| (resolved, entry)));
        }
        let jobs: Vec<Job<'_>> = entries.iter().map(|(of, entry)| Job { of, entry }).collect();
        let runs = work(&jobs, beside, true, observer)?;
        Ok(runs.into_iter().map(|run| run.err().map(|error| error.of_one().to_string())).collect())
    }

    /// What came of every experiment, from its folder: results, which are also written there, or if all of its runs failed, why. Of
    /// runs that failed elsewhere the reasons are given, in the order of [`Experiments::runs`].
    pub fn gather(
        &self,
        failures: &[Option<String>],
    ) -> Result<Vec<Result<Results, Vec<FailedRun>>>, EvalError> {
        let mut failures = failures.iter();
        let mut gathered = Vec::new();
        for cell in &self.cells {
            let resolved = cell.experiment.resolve()?;
            let (entries, _) = resolved.entries(&cell.begun)?;
            let runs: Vec<Result<RunResults, FailedRun>> = entries
                .iter()
                .map(|entry| left_by(entry, failures.next().and_then(Option::as_ref)))
                .collect();
            if runs.iter().all(Result::is_err) {
                gathered.push(Err(runs.into_iter().filter_map(Result::err).collect()));
                continue;
            }
            // Several experiments have no shares of data.
            let (part, mut runs) = (&cell.begun.parts[0], runs.into_iter());
            let results = resolved.results(part, &mut runs)?;
            write_json(&part.folder.join(Results::FILE), &results)?;
            gathered.push(Ok(results));
        }
        Ok(gathered)
    }
}

/// What a run left in its folder, unless it failed.
fn left_by(entry: &Entry<'_>, failure: Option<&String>) -> Result<RunResults, FailedRun> {
    let failed =
        |error: String| FailedRun { method: entry.plan.about().name, seed: entry.plan.seed, error };
    if let Some(error) = failure {
        return Err(failed(error.clone()));
    }
    let left = evaluated(&entry.path).filter(|kept| kept.seed == entry.plan.seed);
    left.ok_or_else(|| {
        let path = entry.path.display();
        failed(format!(
            "it is done, but {path} has no results of it; every machine has to see the same folder"
        ))
    })
}

impl Experiment {
    /// Does one run of an experiment that [`Experiments`] began in a folder, perhaps on another machine: it goes on where it was
    /// stopped, and everything is left in the folder.
    pub fn run_one(
        &self,
        folder: &Path,
        method: &str,
        seed: u64,
        observer: &dyn Observer,
    ) -> Result<RunResults, EvalError> {
        let resumed = self.clone().with_resume(true);
        let resolved = resumed.resolve()?;
        let begun = resolved.join(folder)?;
        let (entries, _) = resolved.entries(&begun)?;
        let is_asked =
            |entry: &&Entry<'_>| entry.plan.seed == seed && entry.plan.about().name == method;
        let entry = entries.iter().find(is_asked).ok_or_else(|| {
            EvalError::Asked(format!("{method} with seed {seed} is no run of this experiment"))
        })?;
        observer.planned(&[entry.planned(resolved.world.is_some())]);
        let stop = || observer.stop();
        let (run, before) = resolved.one(entry, &Watched { run: 0, observer, stop: &stop })?;
        observer.finished(0, &run, before);
        Ok(run)
    }
}
