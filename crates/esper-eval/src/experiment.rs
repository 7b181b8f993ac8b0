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
use esper::{Monitor, Registry};
use esper_data::{Dataset, DatasetWriter, Tally, write_json};
use esper_nn::{Device, DeviceName, default_device};
use esper_tasks::{CollectOptions, Collection, Replays, Task, share};

use crate::error::EvalError;
use crate::evaluate::{Ask, evaluate};
use crate::results::{
    Comparison, DatasetSummary, MethodResults, Results, RunResults, Scaling, ScalingEntry, run_name,
};
use crate::text::percent;

/// What to compare: a task, methods, seeds. [`Experiment::new`] makes one, what begins with `with_` changes it, in any order.
///
/// ```
/// use esper_eval::Experiment;
///
/// let task = esper_tasks::task("gambling").expect("it is built in");
/// let experiment = Experiment::new(task).with_methods(["esper", "rvs"])?.with_seeds(1);
/// // `experiment.run(folder, &Unobserved)` would do what this command does.
/// assert_eq!(
///     experiment.comparison()?.again().to_string(),
///     "esper run gambling --methods esper,rvs --policy mlp --seeds 1 --preset quick --steps 100000 --episodes 4000"
/// );
/// # Ok::<(), esper_eval::EvalError>(())
/// ```
#[derive(Clone)]
pub struct Experiment {
    task: Task,
    registry: Registry,
    policy: Arc<dyn PolicyKind>,
    preset: Preset,
    first_seed: u64,
    seeds: u64,
    device: Device,
    resume: bool,
    tensorboard: bool,
    memory: Option<u64>,
    /// What tells its runs from those of other experiments, in front of their names; may be empty.
    prefix: String,
    // What was asked for, if anything was.
    methods: Option<Vec<Arc<dyn Method>>>,
    labels: Option<PathBuf>,
    document: Option<String>,
    pairs: Vec<String>,
    dataset: Option<String>,
    steps: Option<u64>,
    fractions: Option<Vec<f64>>,
    episodes: Option<usize>,
    /// Who learns by acting, where data is a replay.
    replays: Option<Arc<dyn Replays>>,
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

/// All settings with a preset's defaults, and what differs for a task, where there is one.
pub fn default_config(
    registry: &Registry,
    preset: Preset,
    task: Option<&Task>,
) -> Result<Config, EvalError> {
    let of_task = task.map_or(Vec::new(), |task| task.settings(preset.name()));
    Ok(registry.config(preset).changed(None, &of_task)?)
}

/// Episodes with each target in the paper.
const PAPER_EPISODES: usize = 100;

/// The data, in an experiment's folder.
pub const DATA: &str = "data.parquet";

/// What a run achieved, in its folder: what is evaluated is not evaluated again.
const EVALUATED: &str = "evaluated.json";

impl Experiment {
    /// The built-in methods on a task, with the settings of `quick` and three seeds.
    pub fn new(task: &Task) -> Self {
        Self::in_registry(task, Registry::default())
    }

    /// The same with methods of your own: those of a registry, the first three where nothing else is said.
    pub fn in_registry(task: &Task, registry: Registry) -> Self {
        Experiment {
            task: task.clone(),
            policy: registry.policies()[0].clone(),
            registry,
            preset: Preset::Quick,
            first_seed: 0,
            seeds: 3,
            device: default_device(),
            resume: false,
            tensorboard: false,
            memory: None,
            prefix: String::new(),
            methods: None,
            labels: None,
            document: None,
            pairs: Vec::new(),
            dataset: None,
            steps: None,
            fractions: None,
            episodes: None,
            replays: None,
        }
    }

    /// The methods that are compared where nothing is said, with shares of the data or without.
    pub fn usual_methods(registry: &Registry, shares: bool) -> &[Arc<dyn Method>] {
        let usual = if shares { METHODS - 1 } else { METHODS };
        &registry.methods()[..usual.min(registry.methods().len())]
    }

    /// Where settings come from. What differs for the task, and as many episodes as go with it, come with that.
    pub fn with_preset(self, preset: Preset) -> Self {
        Experiment { preset, ..self }
    }

    /// Settings that are changed: by a TOML document, then by `key=value` pairs.
    pub fn with_settings<S: Into<String>>(
        mut self,
        document: Option<&str>,
        pairs: impl IntoIterator<Item = S>,
    ) -> Self {
        self.document = document.map(str::to_owned).or(self.document);
        self.pairs.extend(pairs.into_iter().map(Into::into));
        self
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
        self.methods = Some(methods);
        Ok(self)
    }

    /// Beside the methods, labels from a file for the very data that is collected.
    pub fn with_labels(self, path: PathBuf) -> Self {
        Experiment { labels: Some(path), ..self }
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

    /// Seeds from this one on, in place of 0.
    pub(crate) fn with_first_seed(self, first_seed: u64) -> Self {
        Experiment { first_seed, ..self }
    }

    /// Another data set of the task.
    pub fn with_dataset(self, name: impl Into<String>) -> Self {
        Experiment { dataset: Some(name.into()), ..self }
    }

    /// At least so many steps of data.
    pub fn with_steps(self, steps: u64) -> Self {
        Experiment { steps: Some(steps), ..self }
    }

    /// The same with each of these shares of the data. Unless methods were asked for, the first two are compared.
    pub fn with_fractions(self, fractions: Vec<f64>) -> Self {
        Experiment { fractions: Some(fractions), ..self }
    }

    /// Episodes with each target.
    pub fn with_episodes(self, episodes: usize) -> Self {
        Experiment { episodes: Some(episodes), ..self }
    }

    /// Who learns by acting, where the data is a replay: nothing here does.
    pub fn with_replays(self, replays: Arc<dyn Replays>) -> Self {
        Experiment { replays: Some(replays), ..self }
    }

    /// Where tensors are.
    pub fn with_device(self, device: Device) -> Self {
        Experiment { device, ..self }
    }

    /// Whether what is in the folder already is gone on with.
    pub fn with_resume(self, resume: bool) -> Self {
        Experiment { resume, ..self }
    }

    /// Whether runs also write event files for TensorBoard.
    pub fn with_tensorboard(self, tensorboard: bool) -> Self {
        Experiment { tensorboard, ..self }
    }

    /// The most bytes of memory that all of it may take; data that is larger stays on disk.
    pub fn with_memory(self, memory: Option<u64>) -> Self {
        Experiment { memory, ..self }
    }

    /// What tells its runs from those of other experiments, in front of their names.
    pub fn with_prefix(self, prefix: impl Into<String>) -> Self {
        Experiment { prefix: prefix.into(), ..self }
    }

    /// What is compared, as it is kept.
    pub fn comparison(&self) -> Result<Comparison, EvalError> {
        Ok(self.resolve()?.comparison())
    }

    /// Does what is not done yet, and leaves results in the folder.
    pub fn run(&self, folder: &Path, observer: &dyn Observer) -> Result<Results, EvalError> {
        let mut scaling = self.run_shares(folder, observer)?;
        let last = scaling.fractions.pop().expect("there is at least one share");
        Ok(last.results)
    }

    /// The same, with every share of the data; without shares there is one entry.
    pub fn run_shares(&self, folder: &Path, observer: &dyn Observer) -> Result<Scaling, EvalError> {
        self.resolve()?.run(folder, observer)
    }

    /// What was asked for, checked and made whole.
    fn resolve(&self) -> Result<Resolved<'_>, EvalError> {
        let refused = |words: &str| Err(EvalError::Asked(words.to_owned()));
        if self.seeds == 0 {
            return refused("at least one seed is needed");
        }
        if self.episodes == Some(0) {
            return refused("at least one episode with each target is needed");
        }
        let mut fractions = self.fractions.clone();
        if let Some(fractions) = &mut fractions {
            let is_share = |share: &f64| *share > 0.0 && *share <= 1.0;
            if fractions.is_empty() || !fractions.iter().all(is_share) {
                return refused("shares of the data have to be above 0 and at most 1");
            }
            if self.labels.is_some() {
                return refused("labels are of all of the data; they cannot go with shares of it");
            }
            fractions.sort_by(f64::total_cmp);
            // Two that are called the same would share a folder.
            fractions.dedup_by_key(|fraction| percent(*fraction));
        }
        let usual = || Self::usual_methods(&self.registry, fractions.is_some()).to_vec();
        let mut methods = self.methods.clone().unwrap_or_else(usual);
        if let Some(path) = &self.labels {
            methods.push(Arc::new(FromFile { path: path.clone() }));
        }
        if methods.is_empty() {
            return refused("at least one method is needed");
        }
        let defaults = default_config(&self.registry, self.preset, Some(&self.task))?;
        let config = defaults.changed(self.document.as_deref(), &self.pairs)?;
        let options = CollectOptions {
            dataset: self.dataset.clone(),
            steps: self.steps,
            ..CollectOptions::default()
        };
        let whole = Collection::new(&self.task, &options)?;
        let largest = fractions.as_ref().and_then(|all| all.last()).copied().unwrap_or(1.0);
        Ok(Resolved {
            asked: self,
            episodes: self.episodes.unwrap_or(match self.preset {
                Preset::Paper => PAPER_EPISODES,
                _ => self.task.episodes(),
            }),
            changes: config.changes_from(&defaults),
            steps: whole.steps(),
            collection: whole.with_share(largest).with_replays(self.replays.clone()),
            config,
            methods,
            fractions,
        })
    }
}

/// An experiment with everything that it did not say.
struct Resolved<'a> {
    asked: &'a Experiment,
    methods: Vec<Arc<dyn Method>>,
    config: Config,
    /// Settings that differ from the preset's.
    changes: Vec<String>,
    /// Shares of the data, from the smallest to the largest.
    fractions: Option<Vec<f64>>,
    episodes: usize,
    /// Steps of all of the data, and what is collected of it: as much as the largest share needs.
    steps: u64,
    collection: Collection,
}

impl Resolved<'_> {
    fn comparison(&self) -> Comparison {
        let Experiment { task, registry, policy, preset, seeds, dataset, labels, device, .. } =
            self.asked;
        let named = |method: &Arc<dyn Method>| method.about().name;
        let known = registry.method_names();
        Comparison {
            task: task.name().to_owned(),
            dataset: dataset.clone(),
            steps: self.steps,
            preset: preset.name().to_owned(),
            methods: self.methods.iter().map(named).filter(|name| known.contains(name)).collect(),
            policy: policy.name().to_owned(),
            seeds: *seeds,
            episodes: self.episodes,
            fractions: self.fractions.clone(),
            changes: self.changes.clone(),
            labels: labels.clone(),
            device: DeviceName::of(device).to_string(),
        }
    }

    fn run(&self, folder: &Path, observer: &dyn Observer) -> Result<Scaling, EvalError> {
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
            task: self.asked.task.name().to_owned(),
            preset: self.asked.preset.name().to_owned(),
            fractions: Vec::new(),
        };
        for part in &parts {
            let results = self.results(part, &mut runs);
            if self.fractions.is_some() {
                // So that there can be a report on a share alone.
                let steps = share(self.steps, part.fraction);
                let comparison = Comparison { steps, fractions: None, ..self.comparison() };
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
        let comparison = self.comparison();
        let path = folder.join(Comparison::FILE);
        if !path.exists() {
            return Ok(write_json(&path, &comparison)?);
        }
        if !self.asked.resume {
            return Err(EvalError::Exists(folder.to_owned()));
        }
        let kept = Comparison::read(folder)?;
        match kept == comparison {
            true => Ok(()),
            false => {
                Err(EvalError::OtherComparison { path: folder.to_owned(), again: kept.again() })
            }
        }
    }

    /// The data: collected, or there from before.
    fn data(&self, folder: &Path, observer: &dyn Observer) -> Result<Dataset, EvalError> {
        let path = folder.join(DATA);
        let collection = &self.collection;
        let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
        if !path.exists() {
            let mut writer = DatasetWriter::create(&path, metadata, &behaviours, false)?;
            let played = AtomicUsize::new(0);
            let watch = |steps: u64| {
                let before = played.fetch_add(steps as usize, Ordering::Relaxed) as u64;
                observer.collecting(self.asked.task.name(), before + steps, collection.steps());
                go_on(observer.stop())
            };
            collection.run(|part| writer.write(&part), watch)?;
            writer.finish()?;
        }
        let data = match self.asked.memory {
            Some(limit) => esper::memory::read_within(&path, limit, folder)?,
            None => esper_data::read(&path)?,
        };
        match collection.is_of(&data) {
            true => Ok(data),
            false => Err(EvalError::OtherData(path)),
        }
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
        let Experiment { policy, device, prefix, seeds, first_seed, .. } = self.asked;
        // Runs go on side by side: each has its share.
        let beside = rayon::current_num_threads().min(self.methods.len() * *seeds as usize).max(1);
        let memory = self.asked.memory.map(|memory| memory / beside as u64);
        let share = match self.fractions {
            Some(_) => format!("{} of the data, ", percent(part.fraction)),
            None => String::new(),
        };
        let entry = |method: &Arc<dyn Method>, seed: u64| {
            let plan = Plan::of(method.clone(), policy.clone(), self.config.clone())
                .with_seed(seed)
                .with_device(device.clone())
                .with_memory(memory);
            let name = plan.about().name;
            Entry {
                path: part.folder.join(run_name(&name, plan.policy_name(), seed)),
                name: format!("{prefix}{share}{name} seed {seed}"),
                plan,
                part,
            }
        };
        let of_seeds = |method| (0..*seeds).map(move |seed| entry(method, first_seed + seed));
        self.methods.iter().flat_map(of_seeds).collect()
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
        let Experiment { task, registry, device, resume, tensorboard, .. } = self.asked;
        let options = RunOptions { resume: *resume, tensorboard: *tensorboard };
        let (folder, summary) = plan.train_in(path, &part.data, &part.id, options, watched)?;
        let evaluated = path.join(EVALUATED);
        // Damaged, or of another version: it is evaluated again.
        if let Some(kept) = fs::read(&evaluated).ok().and_then(|b| serde_json::from_slice(&b).ok())
        {
            return Ok((kept, true));
        }
        let policy = folder.policy(registry, device)?;
        let ask = Ask { targets: None, episodes: self.episodes, seed: plan.seed };
        let evaluation = evaluate(&policy, task, &ask, &mut |done, total| {
            watched.progress("evaluate", done, total);
            go_on(watched.stop())
        })?;
        let results = RunResults {
            leakage: summary.findings.clustering.as_ref().map(|clustering| clustering.leakage.mean),
            condition: summary.condition,
            train_seconds: summary.train_seconds,
            findings: summary.findings,
            curves: summary.curves,
            ..RunResults::new(plan.seed, evaluation)
        };
        write_json(&evaluated, &results)?;
        Ok((results, false))
    }

    /// The results on a part, from runs in the order of its entries.
    fn results(&self, part: &Part, runs: &mut impl Iterator<Item = RunResults>) -> Results {
        let Experiment { task, policy, preset, seeds, dataset, .. } = self.asked;
        let total = Tally::of(&part.data).total();
        let methods = self.methods.iter().map(|method| {
            let runs = runs.by_ref().take(*seeds as usize).collect();
            let policy = method.takes_policy().then(|| policy.name());
            MethodResults::of(task, dataset.as_deref(), &method.about(), policy, runs)
        });
        let dataset = DatasetSummary {
            steps: total.steps,
            episodes: total.episodes,
            mean_return: total.mean_return,
        };
        Results::new(task.name(), preset.name(), *seeds as usize, dataset, methods.collect())
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

fn make_folder(folder: &Path) -> Result<(), EvalError> {
    fs::create_dir_all(folder)
        .map_err(|source| EvalError::Folder { path: folder.to_owned(), source })
}
