//! An experiment: methods and seeds on a task's data, or on shares of it, trained and evaluated side by side.
//!
//! Everything it does is kept in a folder; what is done is not done again.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use esper::methods::Method;
use esper::methods::labels::FromFile;
use esper::policy::PolicyKind;
use esper::run::{DataId, Plan, RunOptions};
use esper::settings::{Config, Preset};
use esper::{Error, Monitor, Registry};
use esper_data::{Dataset, DatasetWriter, Tally};
use esper_nn::{Device, DeviceName};
use esper_tasks::{CollectOptions, Collection, Task};

use crate::error::EvalError;
use crate::evaluate::{Ask, evaluate};
use crate::results::{
    Comparison, DatasetSummary, MethodResults, Results, ResultsError, RunResults, Scaling,
    ScalingEntry, run_name, write_json,
};
use crate::text::percent;

/// What to compare. Made by [`Experiment::new`] and changed by what begins with `with_`.
#[derive(Clone)]
pub struct Experiment {
    task: Task,
    dataset: Option<String>,
    steps: u64,
    registry: Registry,
    methods: Vec<Arc<dyn Method>>,
    /// Whether the methods were asked for.
    chosen: bool,
    labels: Option<PathBuf>,
    policy: Arc<dyn PolicyKind>,
    preset: Preset,
    config: Config,
    seeds: u64,
    fractions: Option<Vec<f64>>,
    episodes: usize,
    device: Device,
    resume: bool,
    tensorboard: bool,
    /// What tells its runs from those of other experiments, in front of their names; may be empty.
    prefix: String,
}

/// A training that an experiment is going to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// What it is called: method and seed, and the share of the data where there are several.
    pub name: String,
    /// The method.
    pub method: String,
    /// The phases that it goes through, as far as they are known beforehand.
    pub phases: Vec<&'static str>,
}

/// Who follows an experiment, from several threads at once. All of it is optional.
pub trait Observer: Sync {
    /// So many steps of data are collected.
    fn collecting(&self, _task: &str, _done: u64, _total: u64) {}

    /// Everything that is going to be trained and evaluated, in the order of the results.
    fn planned(&self, _runs: &[PlannedRun]) {}

    /// One of the planned runs is so far with a phase.
    fn progress(&self, _run: usize, _phase: &str, _done: usize, _total: usize) {}

    /// One of the planned runs is complete; it may have been so before.
    fn finished(&self, _run: usize, _results: &RunResults, _before: bool) {}

    /// Whether to stop as soon as possible.
    fn stop(&self) -> bool {
        false
    }
}

/// No-op observer: nobody follows.
pub struct Unobserved;

impl Observer for Unobserved {}

/// What is compared where nothing is said; with shares of the data the first two.
const METHODS: usize = 3;

/// Episodes with each target in the paper.
const PAPER_EPISODES: usize = 100;

/// The data, in an experiment's folder.
const DATA: &str = "data.parquet";

/// What a run achieved, in its folder: what is evaluated is not evaluated again.
const EVALUATED: &str = "evaluated.json";

impl Experiment {
    /// The built-in methods on a task, with the settings of `quick` and three seeds.
    pub fn new(task: &Task) -> Result<Self, EvalError> {
        Self::with_registry(task, Registry::default())
    }

    /// The same with methods of your own: those of a registry, the first three where nothing else is said.
    pub fn with_registry(task: &Task, registry: Registry) -> Result<Self, EvalError> {
        let dataset = task.dataset(None);
        let experiment = Experiment {
            task: task.clone(),
            dataset: None,
            steps: dataset.map_or(0, |dataset| dataset.steps),
            methods: registry.methods().iter().take(METHODS).cloned().collect(),
            chosen: false,
            labels: None,
            policy: registry.policies()[0].clone(),
            preset: Preset::Quick,
            config: registry.config(Preset::Quick),
            seeds: 3,
            fractions: None,
            episodes: task.episodes(),
            device: DeviceName::Cpu.open().map_err(Error::from)?,
            resume: false,
            tensorboard: false,
            prefix: String::new(),
            registry,
        };
        experiment.with_preset(Preset::Quick)
    }

    /// Settings of a preset, with what differs for the task, and as many episodes as go with it.
    pub fn with_preset(mut self, preset: Preset) -> Result<Self, EvalError> {
        self.preset = preset;
        self.config = self.default_config()?;
        self.episodes = match preset {
            Preset::Paper => PAPER_EPISODES,
            Preset::Quick => self.task.episodes(),
        };
        Ok(self)
    }

    /// Settings changed: by a TOML document, then by `key=value` pairs.
    pub fn with_settings(
        mut self,
        document: Option<&str>,
        pairs: &[String],
    ) -> Result<Self, EvalError> {
        self.config = self.config.changed(document, pairs)?;
        Ok(self)
    }

    /// These methods, each once.
    pub fn with_methods<S: AsRef<str>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, EvalError> {
        let mut methods: Vec<Arc<dyn Method>> = Vec::new();
        for name in names {
            let method = self.registry.method(name.as_ref())?;
            if methods.iter().all(|other| other.about().name != method.about().name) {
                methods.push(method);
            }
        }
        self.methods = methods;
        self.chosen = true;
        Ok(self)
    }

    /// Beside the methods, labels from a file for the very data that is collected.
    pub fn with_labels(mut self, path: PathBuf) -> Self {
        self.methods.push(Arc::new(FromFile { path: path.clone() }));
        self.labels = Some(path);
        self
    }

    /// What is trained on labels.
    pub fn with_policy(mut self, name: &str) -> Result<Self, EvalError> {
        self.policy = self.registry.policy(name)?;
        Ok(self)
    }

    /// Seeds 0, 1, 2, …
    pub fn with_seeds(self, seeds: u64) -> Self {
        Experiment { seeds, ..self }
    }

    /// Another data set of the task.
    pub fn with_dataset(mut self, name: &str) -> Result<Self, EvalError> {
        let options = CollectOptions { dataset: Some(name.to_owned()), ..Default::default() };
        self.steps = Collection::new(&self.task, &options)?.steps();
        self.dataset = Some(name.to_owned());
        Ok(self)
    }

    /// At least so many steps of data.
    pub fn with_steps(self, steps: u64) -> Self {
        Experiment { steps, ..self }
    }

    /// The same with each of these shares of the data, of which there is at least one. Without methods that were asked for,
    /// the first two are compared.
    pub fn with_fractions(mut self, mut fractions: Vec<f64>) -> Self {
        fractions.sort_by(f64::total_cmp);
        // Two that are called the same would share a folder.
        fractions.dedup_by_key(|fraction| percent(*fraction));
        self.fractions = Some(fractions);
        if !self.chosen {
            self.methods.truncate(METHODS - 1);
        }
        self
    }

    /// Episodes with each target.
    pub fn with_episodes(self, episodes: usize) -> Self {
        Experiment { episodes, ..self }
    }

    /// Where tensors are.
    pub fn with_device(self, device: Device) -> Self {
        Experiment { device, ..self }
    }

    /// Whether what is in the folder already is gone on with.
    pub fn resuming(self, resume: bool) -> Self {
        Experiment { resume, ..self }
    }

    /// Whether runs also write event files for TensorBoard.
    pub fn with_tensorboard(self, tensorboard: bool) -> Self {
        Experiment { tensorboard, ..self }
    }

    /// What tells its runs from those of other experiments, in front of their names.
    pub fn with_prefix(self, prefix: impl Into<String>) -> Self {
        Experiment { prefix: prefix.into(), ..self }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// What is compared, as it is kept.
    pub fn comparison(&self) -> Result<Comparison, EvalError> {
        let named = |method: &Arc<dyn Method>| method.about().name;
        let known = self.registry.method_names();
        Ok(Comparison {
            task: self.task.name().to_owned(),
            dataset: self.dataset.clone(),
            steps: self.steps,
            preset: self.preset.name().to_owned(),
            methods: self.methods.iter().map(named).filter(|name| known.contains(name)).collect(),
            policy: self.policy.name().to_owned(),
            seeds: self.seeds,
            episodes: self.episodes,
            fractions: self.fractions.clone(),
            changes: self.config.changes_from(&self.default_config()?),
            labels: self.labels.clone(),
            device: DeviceName::of(&self.device).to_string(),
        })
    }

    /// The preset's settings for the task.
    fn default_config(&self) -> Result<Config, EvalError> {
        let of_task = self.task.settings(self.preset.name());
        Ok(self.registry.config(self.preset).changed(None, &of_task)?)
    }

    /// Does what is not done yet, and leaves results in the folder.
    pub fn run(&self, folder: &Path, observer: &dyn Observer) -> Result<Results, EvalError> {
        let mut scaling = self.run_shares(folder, observer)?;
        let last = scaling.fractions.pop().expect("there is at least one share");
        Ok(last.results)
    }

    /// The same, with every share of the data; without shares there is one entry.
    pub fn run_shares(&self, folder: &Path, observer: &dyn Observer) -> Result<Scaling, EvalError> {
        let new = !folder.exists();
        make_folder(folder)?;
        self.keep(folder)?;
        let data = self.data(folder, observer)?;
        let fractions = self.fractions.clone().unwrap_or_else(|| vec![1.0]);
        let parts: Vec<Part> = fractions
            .into_iter()
            .map(|fraction| self.part(folder, &data, fraction))
            .collect::<Result<_, _>>()?;
        let entries: Vec<Entry<'_>> = parts.iter().flat_map(|part| self.entries(part)).collect();
        let check = |entry: &Entry<'_>| entry.plan.check(&entry.part.data);
        if let Err(error) = entries.iter().try_for_each(check) {
            // Nothing can come of this folder; one that was there before is not ours to remove.
            if new {
                let _ = fs::remove_dir_all(folder);
            }
            return Err(error.into());
        }
        let mut runs = self.work(&entries, observer)?.into_iter();
        let mut scaling = Scaling {
            task: self.task.name().to_owned(),
            preset: self.preset.name().to_owned(),
            fractions: Vec::new(),
        };
        for part in &parts {
            let results = self.results(part, &mut runs);
            if self.fractions.is_some() {
                // So that there can be a report on a share alone.
                let steps = share(self.steps, part.fraction);
                let comparison = Comparison { steps, fractions: None, ..self.comparison()? };
                write_json(&part.folder.join(Comparison::FILE), &comparison)?;
            }
            write_json(&part.folder.join(Results::FILE), &results)?;
            scaling.fractions.push(ScalingEntry { fraction: part.fraction, results });
        }
        if self.fractions.is_some() {
            write_json(&folder.join(Scaling::FILE), &scaling)?;
        }
        Ok(scaling)
    }

    /// Keeps in the folder what is compared in it, so that only the same is gone on with.
    fn keep(&self, folder: &Path) -> Result<(), EvalError> {
        let comparison = self.comparison()?;
        let path = folder.join(Comparison::FILE);
        if !path.exists() {
            return Ok(write_json(&path, &comparison)?);
        }
        if !self.resume {
            return Err(EvalError::Exists(folder.to_owned()));
        }
        let kept = Comparison::read(folder)?;
        match kept == comparison {
            true => Ok(()),
            false => {
                Err(EvalError::OtherComparison { path: folder.to_owned(), command: kept.command() })
            }
        }
    }

    /// The data: collected, or there from before. Of shares, as much as the largest needs.
    fn data(&self, folder: &Path, observer: &dyn Observer) -> Result<Dataset, EvalError> {
        let path = folder.join(DATA);
        if !path.exists() {
            let largest = self.fractions.as_ref().and_then(|all| all.last()).copied();
            let steps = share(self.steps, largest.unwrap_or(1.0));
            let options = CollectOptions {
                dataset: self.dataset.clone(),
                steps: Some(steps),
                ..CollectOptions::default()
            };
            let collection = Collection::new(&self.task, &options)?;
            let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
            let mut writer = DatasetWriter::create(&path, metadata, &behaviours, false)?;
            let played = AtomicUsize::new(0);
            let watch = |steps: u64| {
                let before = played.fetch_add(steps as usize, Ordering::Relaxed) as u64;
                observer.collecting(self.task.name(), before + steps, collection.steps());
                go_on(observer.stop())
            };
            collection.run(|part| writer.write(&part), watch)?;
            writer.finish()?;
        }
        Ok(esper_data::read(&path)?)
    }

    /// A share of the data. Fewer steps are the beginning of more.
    fn part(&self, folder: &Path, data: &Dataset, fraction: f64) -> Result<Part, EvalError> {
        let folder = match self.fractions {
            Some(_) => folder.join(percent(fraction)),
            None => folder.to_owned(),
        };
        make_folder(&folder)?;
        let data = match self.fractions {
            Some(_) => data.first_steps(share(self.steps, fraction) as usize),
            None => data.clone(),
        };
        Ok(Part { folder, fraction, id: DataId::of(&data), data })
    }

    /// What is to be done on a part.
    fn entries<'a>(&self, part: &'a Part) -> Vec<Entry<'a>> {
        let share = match self.fractions {
            Some(_) => format!("{} of the data, ", percent(part.fraction)),
            None => String::new(),
        };
        let entry = |method: &Arc<dyn Method>, seed: u64| {
            let plan = Plan {
                method: method.clone(),
                policy: self.policy.clone(),
                config: self.config.clone(),
                seed,
                device: self.device.clone(),
            };
            let name = plan.about().name;
            Entry {
                path: part.folder.join(run_name(&name, plan.policy_name(), seed)),
                name: format!("{}{share}{name} seed {seed}", self.prefix),
                plan,
                part,
            }
        };
        let seeds = |method| (0..self.seeds).map(move |seed| entry(method, seed));
        self.methods.iter().flat_map(seeds).collect()
    }

    /// Trains and evaluates every entry, as many side by side as there are threads: small networks gain little from
    /// several.
    fn work(
        &self,
        entries: &[Entry<'_>],
        observer: &dyn Observer,
    ) -> Result<Vec<RunResults>, EvalError> {
        let planned: Vec<PlannedRun> = entries.iter().map(Entry::planned).collect();
        observer.planned(&planned);
        let threads = rayon::current_num_threads();
        let workers = threads.min(entries.len());
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let stop = || observer.stop() || failed.load(Ordering::Relaxed);
        let done: Mutex<Vec<Option<Result<RunResults, EvalError>>>> =
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
                let watched = Watched { run: at, observer, stop: &stop };
                let result = self.one(entry, &watched).map_err(|error| error.of_run(&entry.name));
                match &result {
                    Ok((run, before)) => observer.finished(at, run, *before),
                    Err(_) => failed.store(true, Ordering::Relaxed),
                }
                let result = result.map(|(run, _)| run);
                done.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
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
        // What went wrong in one says more than that the others were stopped.
        let mut stopped = false;
        let mut runs = Vec::new();
        for result in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            match result {
                Some(Ok(run)) => runs.push(run),
                Some(Err(EvalError::Stopped)) | None => stopped = true,
                Some(Err(error)) => return Err(error),
            }
        }
        if stopped { Err(EvalError::Stopped) } else { Ok(runs) }
    }

    /// Trains and evaluates one entry; says whether all of that was done before.
    fn one(
        &self,
        entry: &Entry<'_>,
        watched: &Watched<'_>,
    ) -> Result<(RunResults, bool), EvalError> {
        let Entry { plan, path, part, .. } = entry;
        let options = RunOptions { resume: self.resume, tensorboard: self.tensorboard };
        let (folder, summary) = plan.train_in(path, &part.data, &part.id, options, watched)?;
        let evaluated = path.join(EVALUATED);
        // Damaged, or of another version: it is evaluated again.
        if let Some(kept) = fs::read(&evaluated).ok().and_then(|b| serde_json::from_slice(&b).ok())
        {
            return Ok((kept, true));
        }
        let policy = folder.policy(&self.registry, &self.device)?;
        let ask = Ask { targets: None, episodes: self.episodes, seed: plan.seed };
        let evaluation = evaluate(&policy, &self.task, &ask, &mut |done, total| {
            watched.progress("evaluate", done, total);
            go_on(watched.stop())
        })?;
        let results = RunResults {
            seed: plan.seed,
            evaluation,
            leakage: summary.findings.clustering.as_ref().map(|clustering| clustering.leakage.mean),
            train_seconds: summary.train_seconds,
            findings: summary.findings,
            curves: summary.curves,
        };
        write_json(&evaluated, &results)?;
        Ok((results, false))
    }

    /// The results on a part, from runs in the order of its entries.
    fn results(&self, part: &Part, runs: &mut impl Iterator<Item = RunResults>) -> Results {
        let total = Tally::of(&part.data).total();
        let methods = self.methods.iter().map(|method| {
            let runs = runs.by_ref().take(self.seeds as usize).collect();
            let policy = method.takes_policy().then(|| self.policy.name());
            MethodResults::of(&self.task, &method.about(), policy, runs)
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
    fn planned(&self) -> PlannedRun {
        let mut phases = self.plan.method.phases();
        phases.push("evaluate");
        PlannedRun { name: self.name.clone(), method: self.plan.about().name, phases }
    }
}

/// One of the runs, as its observer sees it.
struct Watched<'a> {
    run: usize,
    observer: &'a dyn Observer,
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Monitor for Watched<'_> {
    fn progress(&self, phase: &str, done: usize, total: usize) {
        self.observer.progress(self.run, phase, done, total);
    }

    fn stop(&self) -> bool {
        (self.stop)()
    }
}

fn go_on(stop: bool) -> ControlFlow<()> {
    if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// A share of some steps, at least one.
fn share(steps: u64, fraction: f64) -> u64 {
    ((steps as f64 * fraction).round() as u64).max(1)
}

fn make_folder(folder: &Path) -> Result<(), EvalError> {
    let failed = |source| ResultsError::Unwritable { path: folder.to_owned(), source };
    Ok(fs::create_dir_all(folder).map_err(failed)?)
}
