//! A comparison: methods and seeds on a task's data, or on shares of it, trained and evaluated side by side.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use esper::Error;
use esper::config::Config;
use esper::run::{DataId, Method, Plan, PolicyKind};
use esper_data::{Dataset, DatasetWriter, PendingFile, Tally};
use esper_eval::report::Report;
use esper_eval::{
    Comparison, DatasetSummary, MethodResults, Results, RunResults, Scaling, ScalingEntry, run_name,
};
use esper_tasks::{CollectOptions, Collection, Task};
use serde::Serialize;

use super::collect::{play, share};
use super::learning::{Ask, Job, PresetName, evaluate, failure, user_stop};
use super::report;
use crate::output::{Failure, Output, leaked, number, percent};
use crate::progress::{Board, duration};

/// What to compare, and where to keep it.
pub(super) struct Compare<'a> {
    pub(super) task: Task,
    pub(super) methods: Vec<Method>,
    pub(super) policy: PolicyKind,
    pub(super) preset: PresetName,
    pub(super) config: Config,
    pub(super) seeds: u64,
    pub(super) steps: u64,
    /// Shares of the data, from the smallest to the largest; none for all of it.
    pub(super) fractions: Option<Vec<f64>>,
    pub(super) episodes: usize,
    pub(super) folder: &'a Path,
    /// Whether what is in the folder already is gone on with.
    pub(super) resume: bool,
    /// Whether TensorBoard is to see the runs.
    pub(super) tensorboard: bool,
    /// The command that goes on with it.
    pub(super) go_on: String,
    /// What tells its runs from those of other comparisons, in front of their names; may be empty.
    pub(super) called: String,
}

/// Data to compare on: all of the task's, or a share of it.
struct Part {
    folder: PathBuf,
    fraction: f64,
    data: Dataset,
    id: DataId,
}

/// One method with one seed, on one part.
struct Entry<'a> {
    name: String,
    plan: Plan,
    path: PathBuf,
    part: &'a Part,
}

impl Entry<'_> {
    /// Says which of several went wrong.
    fn name_error(&self, error: Error) -> Error {
        match error {
            Error::Stopped => Error::Stopped,
            other => Error::Run(format!("{}: {other}", self.name)),
        }
    }
}

/// What a run achieved, in its folder: what is evaluated is not evaluated again.
const EVALUATED: &str = "evaluated.json";

impl Compare<'_> {
    /// Does what is not done yet; leaves results and a report in the folder. There is one entry without shares.
    pub(super) fn run(&self, output: &Output) -> Result<Scaling, Failure> {
        let new = !self.folder.exists();
        make_folder(self.folder)?;
        self.keep()?;
        let parts = self.fractions.clone().unwrap_or_else(|| vec![1.0]).into_iter();
        let parts = parts.map(|fraction| self.part(fraction, output));
        let parts = parts.collect::<Result<Vec<Part>, Failure>>()?;
        let entries: Vec<Entry<'_>> = parts.iter().flat_map(|part| self.entries(part)).collect();
        let check = |entry: &Entry<'_>| entry.plan.check(&entry.part.data);
        if let Err(error) = entries.iter().try_for_each(check) {
            // Nothing can come of this folder; one that was there before is not ours to remove.
            if new {
                let _ = std::fs::remove_dir_all(self.folder);
            }
            return Err(failure(error, ""));
        }
        let runs = self.work(&entries, output).map_err(|error| failure(error, &self.go_on))?;
        let mut runs = runs.into_iter();
        let mut scaling = Scaling {
            task: self.task.name().to_owned(),
            preset: self.preset.name().to_owned(),
            fractions: Vec::new(),
        };
        for part in &parts {
            let results = self.results(part, &mut runs);
            if self.fractions.is_some() {
                // So that there can be a report on a share alone.
                write_json(&part.folder.join(Comparison::FILE), &self.share(part.fraction))?;
            }
            write_json(&part.folder.join(Results::FILE), &results)?;
            scaling.fractions.push(ScalingEntry { fraction: part.fraction, results });
        }
        if self.fractions.is_some() {
            write_json(&self.folder.join(Scaling::FILE), &scaling)?;
        }
        let page = Report::read(self.folder).map_err(report::failed)?.page();
        report::write(&self.folder.join(report::PAGE), page.as_bytes())?;
        Ok(scaling)
    }

    /// Keeps in the folder what is compared in it, so that only the same is gone on with.
    fn keep(&self) -> Result<(), Failure> {
        let comparison = self.comparison();
        let path = self.folder.join(Comparison::FILE);
        if !path.exists() {
            return write_json(&path, &comparison);
        }
        let kept = Comparison::read(self.folder).map_err(Failure::error)?;
        let folder = self.folder.display();
        match (self.resume, kept == comparison) {
            (true, true) => Ok(()),
            (true, false) => Err(Failure::error(format!(
                "{folder} holds another comparison, that of\n  {}\nname another folder with --out",
                kept.command()
            ))),
            (false, _) => Err(Failure::error(format!(
                "there is a comparison in {folder} already; name another folder with --out, or go on with it with --resume"
            ))),
        }
    }

    /// The comparison on a share of the data alone.
    fn share(&self, fraction: f64) -> Comparison {
        let steps = share(self.steps, fraction);
        Comparison { steps, fractions: None, ..self.comparison() }
    }

    fn comparison(&self) -> Comparison {
        Comparison {
            task: self.task.name().to_owned(),
            steps: self.steps,
            preset: self.preset.name().to_owned(),
            methods: self.methods.iter().map(|method| method.name().to_owned()).collect(),
            policy: self.policy.name().to_owned(),
            seeds: self.seeds,
            episodes: self.episodes,
            fractions: self.fractions.clone(),
            changes: self.config.changes_from(&self.preset.config(Some(self.task.name()))),
        }
    }

    /// The data of a share: collected, or there from before. Fewer steps are the beginning of more.
    fn part(&self, fraction: f64, output: &Output) -> Result<Part, Failure> {
        let folder = match self.fractions {
            Some(_) => self.folder.join(percent(fraction)),
            None => self.folder.to_owned(),
        };
        make_folder(&folder)?;
        let path = folder.join("data.parquet");
        if !path.exists() {
            let steps = share(self.steps, fraction);
            let behaviours = Vec::new();
            let options =
                CollectOptions { steps, seed: 0, behaviours, epsilon: None, expert: None };
            let collection = Collection::new(self.task, &options).map_err(Failure::misuse)?;
            let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
            let mut writer = DatasetWriter::create(&path, metadata, &behaviours, false)
                .map_err(Failure::writing)?;
            play(&collection, self.task, &mut writer, output, &self.go_on)?;
            writer.finish().map_err(Failure::writing)?;
        }
        let data = esper_data::read(&path).map_err(Failure::error)?;
        Ok(Part { folder, fraction, id: DataId::of(&data), data })
    }

    /// What is to be done on a part.
    fn entries<'a>(&self, part: &'a Part) -> Vec<Entry<'a>> {
        let share = match self.fractions {
            Some(_) => format!("{} of the data, ", percent(part.fraction)),
            None => String::new(),
        };
        let entry = |method: Method, seed: u64| Entry {
            name: format!("{}{share}{} seed {seed}", self.called, method.name()),
            path: part.folder.join(run_name(method.name(), self.policy_of(method), seed)),
            plan: Plan { method, policy: self.policy, config: self.config.clone(), seed },
            part,
        };
        let seeds = |&method: &Method| (0..self.seeds).map(move |seed| (method, seed));
        let pairs = self.methods.iter().flat_map(seeds);
        pairs.map(|(method, seed)| entry(method, seed)).collect()
    }

    /// The policy of a method, if there is a choice.
    fn policy_of(&self, method: Method) -> Option<&'static str> {
        method.has_policy().then(|| self.policy.name())
    }

    /// Trains and evaluates every entry, as many side by side as there are threads: small networks gain little from
    /// several.
    fn work(&self, entries: &[Entry<'_>], output: &Output) -> Result<Vec<RunResults>, Error> {
        let threads = rayon::current_num_threads();
        let workers = threads.min(entries.len());
        let board = Board::new(output);
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let stop = || user_stop() || failed.load(Ordering::Relaxed);
        let done: Mutex<Vec<Option<Result<RunResults, Error>>>> =
            Mutex::new(entries.iter().map(|_| None).collect());
        // The most data first: what takes longest should not be begun last.
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by(|&a, &b| entries[b].part.fraction.total_cmp(&entries[a].part.fraction));
        let take = || -> Option<usize> {
            let at = next.fetch_add(1, Ordering::Relaxed);
            order.get(at).copied().filter(|_| !stop())
        };
        let worker = || {
            while let Some(at) = take() {
                let entry = &entries[at];
                let before = entry.path.join(EVALUATED).exists();
                let result =
                    self.one(entry, &board, &stop).map_err(|error| entry.name_error(error));
                board.finish(&entry.name);
                match &result {
                    Ok(run) if output.talks() => eprintln!("{}", told(entry, run, before)),
                    Ok(_) => {}
                    Err(_) => failed.store(true, Ordering::Relaxed),
                }
                done.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[at] = Some(result);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    let threads = threads.div_ceil(workers).max(1);
                    match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
                        Ok(pool) => pool.install(worker),
                        Err(_) => worker(),
                    }
                });
            }
        });
        let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        // What went wrong in one says more than that the others were stopped.
        let mut stopped = false;
        let mut runs = Vec::new();
        for result in done {
            match result {
                Some(Ok(run)) => runs.push(run),
                Some(Err(Error::Stopped)) | None => stopped = true,
                Some(Err(error)) => return Err(error),
            }
        }
        if stopped { Err(Error::Stopped) } else { Ok(runs) }
    }

    fn one(
        &self,
        entry: &Entry<'_>,
        board: &Board,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<RunResults, Error> {
        let Entry { name, plan, path, part } = entry;
        let Compare { resume, tensorboard, .. } = *self;
        let job = Job { name, plan, path, resume, tensorboard };
        let (folder, summary) = job.train(&part.data, &part.id, board, stop)?;
        let evaluated = path.join(EVALUATED);
        // Damaged, or of another version: it is evaluated again.
        if let Some(kept) =
            std::fs::read(&evaluated).ok().and_then(|b| serde_json::from_slice(&b).ok())
        {
            return Ok(kept);
        }
        let ask = Ask { targets: None, episodes: self.episodes, seed: plan.seed };
        let evaluation =
            evaluate(&folder, self.task, &ask, board, name, stop)?.ok_or(Error::Stopped)?;
        let results = RunResults {
            seed: plan.seed,
            evaluation,
            leakage: summary.findings.clustering.as_ref().map(|clustering| clustering.leakage.mean),
            train_seconds: summary.train_seconds,
            findings: summary.findings,
        };
        write_json(&evaluated, &results).map_err(|failure| Error::Run(failure.to_string()))?;
        Ok(results)
    }

    /// The results on a part, from runs in the order of its entries.
    fn results(&self, part: &Part, runs: &mut impl Iterator<Item = RunResults>) -> Results {
        let total = Tally::of(&part.data).total();
        let methods = self.methods.iter().map(|&method| {
            let runs = runs.by_ref().take(self.seeds as usize).collect();
            MethodResults::of(self.task.name(), method.name(), self.policy_of(method), runs)
        });
        Results {
            task: self.task.name().to_owned(),
            preset: self.preset.name().to_owned(),
            seeds: self.seeds as usize,
            dataset: DatasetSummary {
                steps: total.steps,
                episodes: total.episodes,
                mean_return: total.mean_return,
            },
            methods: methods.collect(),
        }
    }
}

pub(super) fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::error(format!("{}: {error}", folder.display())))
}

pub(super) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut file = PendingFile::create(path, true).map_err(Failure::writing)?;
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
    file.finish().map_err(Failure::writing)
}

/// A line about a run that is over.
fn told(entry: &Entry<'_>, run: &RunResults, before: bool) -> String {
    let mut line = match before {
        true => format!("{}: done before", entry.name),
        false => format!("{}: trained in {}", entry.name, duration(run.train_seconds)),
    };
    if let Some(clustering) = &run.findings.clustering {
        line += &format!(", leakage {}", leaked(&clustering.leakage));
        if !clustering.leakage.is_clean(entry.plan.config.leakage.tolerance) {
            line += " (more than is tolerated)";
        }
    }
    line += &format!(", best return {}", number(run.evaluation.best_return));
    if let Some(achieved) = run.evaluation.offline_return {
        line += &format!(", offline {}", number(achieved));
    }
    line
}
