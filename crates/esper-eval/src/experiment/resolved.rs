//! An experiment at work: data, trainings side by side, evaluations, results.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use esper::Monitor;
use esper::methods::Method;
use esper::run::{DataId, Plan, RunOptions};
use esper::settings::{Config, General};
use esper_data::{Dataset, DatasetWriter, Lock, write_json};
use esper_nn::DeviceName;
use esper_tasks::{Collection, Task, share};

use super::work::{Job, work};
use super::{DATA, EVALUATED, Experiment, evaluated};
use crate::comparison::Comparison;
use crate::error::EvalError;
use crate::evaluate::{Ask, evaluate};
use crate::observer::{Observer, PlannedRun, Unobserved, Watched};
use crate::results::{
    DatasetSummary, FailedRun, LeftOut, MethodResults, Results, RunResults, Scaling, ScalingEntry,
    run_name,
};
use crate::source::Source;
use crate::text::percent;

/// An experiment with everything that it did not say.
pub(super) struct Resolved<'a> {
    pub(super) asked: &'a Experiment,
    pub(super) methods: Vec<Arc<dyn Method>>,
    /// Usual methods that cannot learn from the data.
    pub(super) left_out: Vec<LeftOut>,
    pub(super) config: Config,
    /// Settings that differ from the preset's.
    pub(super) changes: Vec<String>,
    /// Shares of the data, from the smallest to the largest.
    pub(super) fractions: Option<Vec<f64>>,
    pub(super) episodes: usize,
    /// The world that policies are tried in, if any.
    pub(super) world: Option<&'a Task>,
    /// Steps of all of the data, and what is collected of it, unless it is given: as much as the largest share needs.
    pub(super) steps: u64,
    pub(super) collection: Option<Collection>,
}

impl Resolved<'_> {
    pub(super) fn comparison(&self) -> Comparison {
        let Experiment { source, registry, policy, preset, seeds, dataset, labels, device, .. } =
            self.asked;
        let named = |method: &Arc<dyn Method>| method.about().name;
        let known = registry.method_names();
        Comparison {
            task: self.task_name(),
            data: source.given_data().cloned(),
            world: self.world.is_some(),
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

    /// The name of the task that the data is of.
    fn task_name(&self) -> Option<String> {
        match &self.asked.source {
            Source::Task(task) => Some(task.name().to_owned()),
            Source::Given { given, .. } => given.id.task.clone(),
        }
    }

    pub(super) fn run(&self, folder: &Path, observer: &dyn Observer) -> Result<Scaling, EvalError> {
        let begun = self.begin(folder, observer)?;
        let entries = self.entries(&begun);
        let ready = entries.and_then(|(entries, beside)| {
            entries.iter().try_for_each(|entry| entry.plan.check(&entry.part.data))?;
            Ok((entries, beside))
        });
        if ready.is_err() {
            begun.undo();
        }
        let (entries, beside) = ready?;
        let jobs: Vec<Job<'_>> = entries.iter().map(|entry| Job { of: self, entry }).collect();
        let runs: Vec<RunResults> =
            work(&jobs, beside, false, observer)?.into_iter().collect::<Result<_, _>>()?;
        let mut runs = runs.into_iter().map(Ok);
        let mut scaling = Scaling {
            task: self.task_name(),
            preset: self.asked.preset.name().to_owned(),
            fractions: Vec::new(),
        };
        for part in &begun.parts {
            let results = self.results(part, &mut runs)?;
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

    /// Makes the folder, locks it, keeps in it what is compared, and sees to the data.
    pub(super) fn begin(&self, folder: &Path, observer: &dyn Observer) -> Result<Begun, EvalError> {
        let new = !folder.exists();
        make_folder(folder)?;
        let lock = Lock::folder(folder)?;
        self.keep(folder)?;
        let data = self.data(folder, observer)?;
        let parts = self.parts(folder, &data)?;
        Ok(Begun { folder: folder.to_owned(), new, data, parts, _lock: Some(lock) })
    }

    /// What somebody else has begun and holds the lock of, for one who does a run of it.
    pub(super) fn join(&self, folder: &Path) -> Result<Begun, EvalError> {
        let comparison = folder.join(Comparison::FILE);
        if !comparison.exists() {
            return Err(EvalError::NotBegun(folder.to_owned()));
        }
        self.keep(folder)?;
        let data = match self.collection.is_some() && !folder.join(DATA).exists() {
            true => return Err(EvalError::NotBegun(folder.to_owned())),
            false => self.data(folder, &Unobserved)?,
        };
        let parts = self.parts(folder, &data)?;
        Ok(Begun { folder: folder.to_owned(), new: false, data, parts, _lock: None })
    }

    /// The shares of the data; all of it is one.
    fn parts(&self, folder: &Path, data: &Dataset) -> Result<Vec<Part>, EvalError> {
        let fractions = self.fractions.clone().unwrap_or_else(|| vec![1.0]);
        fractions.into_iter().map(|fraction| self.part(folder, data, fraction)).collect()
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
        if kept.is_same(&comparison) {
            return Ok(());
        }
        let path = folder.to_owned();
        match (&kept.data, &comparison.data) {
            (Some(before), Some(now)) if before.id != now.id => Err(EvalError::OtherGivenData {
                path,
                given: now.path.clone(),
                steps: before.id.steps,
                episodes: before.id.episodes,
            }),
            _ => Err(EvalError::OtherComparison { path, again: kept.again() }),
        }
    }

    /// The data: given, or collected, or there from before.
    fn data(&self, folder: &Path, observer: &dyn Observer) -> Result<Dataset, EvalError> {
        let (task, collection) = match (&self.asked.source, &self.collection) {
            (Source::Given { data, .. }, _) => return Ok(data.clone()),
            (Source::Task(task), Some(collection)) => (task, collection),
            (Source::Task(_), None) => unreachable!("a task's data is collected"),
        };
        let path = folder.join(DATA);
        let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
        if !path.exists() {
            let mut writer = DatasetWriter::create(&path, metadata, &behaviours, false)?;
            let played = AtomicUsize::new(0);
            let watch = |steps: u64| {
                let before = played.fetch_add(steps as usize, Ordering::Relaxed) as u64;
                observer.collecting(task.name(), before + steps, collection.steps());
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
        let id = match self.asked.source.given_data() {
            Some(given) if self.fractions.is_none() => given.id.clone(),
            _ => DataId::of(&data),
        };
        Ok(Part { folder, fraction, id, data })
    }

    /// What is to be done on all parts, and how much of it side by side.
    pub(super) fn entries<'a>(
        &self,
        begun: &'a Begun,
    ) -> Result<(Vec<Entry<'a>>, usize), EvalError> {
        let mut entries: Vec<Entry<'a>> =
            begun.parts.iter().flat_map(|part| self.entries_of(part)).collect();
        let beside = self.share_memory(&begun.data, &mut entries)?;
        Ok((entries, beside))
    }

    /// What is to be done on a part.
    fn entries_of<'a>(&self, part: &'a Part) -> Vec<Entry<'a>> {
        let Experiment { policy, device, prefix, seeds, first_seed, .. } = self.asked;
        let share = match self.fractions {
            Some(_) => format!("{} of the data, ", percent(part.fraction)),
            None => String::new(),
        };
        let entry = |method: &Arc<dyn Method>, seed: u64| {
            let plan = Plan::of(method.clone(), policy.clone(), self.config.clone())
                .with_seed(seed)
                .with_device(device.clone())
                .with_memory(self.asked.memory);
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

    /// How many runs may go on side by side, each with its share of the memory that is allowed. That share decides how large
    /// batches are, so it follows from the limit, the data and what is asked for, and not from how many threads there are.
    fn share_memory(&self, data: &Dataset, entries: &mut [Entry<'_>]) -> Result<usize, EvalError> {
        let Some(limit) = self.asked.memory else { return Ok(entries.len()) };
        let mut most = 1;
        for entry in &*entries {
            most = most.max(entry.plan.least_memory(&entry.part.data)?);
        }
        let left = limit.saturating_sub(data.bytes_in_memory());
        let beside = usize::try_from(left / most).unwrap_or(usize::MAX).clamp(1, entries.len());
        for entry in entries {
            entry.plan.memory = Some(left / beside as u64);
        }
        Ok(beside)
    }

    /// Trains one entry, and evaluates it where there is a world; says whether all of that was done before.
    pub(super) fn one(
        &self,
        entry: &Entry<'_>,
        watched: &Watched<'_>,
    ) -> Result<(RunResults, bool), EvalError> {
        let Entry { plan, path, part, .. } = entry;
        let Experiment { registry, device, resume, tensorboard, .. } = self.asked;
        let options = RunOptions { resume: *resume, tensorboard: *tensorboard };
        let (folder, summary) = plan.train_in(path, &part.data, &part.id, options, watched)?;
        if let Some(kept) = evaluated(path).filter(|kept| kept.seed == plan.seed) {
            return Ok((kept, true));
        }
        let evaluation = match self.world {
            None => None,
            Some(world) => {
                let policy = folder.policy(registry, device)?;
                let ask = Ask { targets: None, episodes: self.episodes, seed: plan.seed };
                Some(evaluate(&policy, world, &ask, &mut |done, total| {
                    watched.progress("evaluate", done, total);
                    go_on(watched.stop())
                })?)
            }
        };
        let results = RunResults::of(plan.seed, summary, evaluation);
        write_json(&path.join(EVALUATED), &results)?;
        Ok((results, false))
    }

    /// The results on a part, from runs in the order of its entries. A method of which nothing came is not among them.
    pub(super) fn results(
        &self,
        part: &Part,
        runs: &mut impl Iterator<Item = Result<RunResults, FailedRun>>,
    ) -> Result<Results, EvalError> {
        let Experiment { source, policy, preset, seeds, dataset, .. } = self.asked;
        let mut failed = Vec::new();
        let methods = self.methods.iter().filter_map(|method| {
            let mut complete = Vec::new();
            for run in runs.by_ref().take(*seeds as usize) {
                match run {
                    Ok(run) => complete.push(run),
                    Err(run) => failed.push(run),
                }
            }
            if complete.is_empty() {
                return None;
            }
            let policy = method.takes_policy().then(|| policy.name());
            let results = MethodResults::of(&method.about(), policy, complete);
            Some(match (source, self.world) {
                (Source::Task(task), Some(_)) => results.beside_published(task, dataset.as_deref()),
                (Source::Given { .. }, Some(world)) => results.normalised(world),
                (_, None) => results,
            })
        });
        let methods = methods.collect();
        let discount = self.config.get::<General>()?.discount;
        let path = source.given_data().map(|given| given.path.as_path());
        let summary = DatasetSummary::of(&part.data, path, discount);
        let task = self.task_name();
        let results =
            Results::new(task.as_deref(), preset.name(), *seeds as usize, summary, methods);
        Ok(Results { failed, left_out: self.left_out.clone(), ..results })
    }
}

/// An experiment that was begun: its folder is there, and so is its data.
pub(super) struct Begun {
    pub(super) folder: PathBuf,
    /// Whether the folder was made for it.
    new: bool,
    data: Dataset,
    pub(super) parts: Vec<Part>,
    /// Nobody else begins one here; who does a run of it holds the lock of that run.
    _lock: Option<Lock>,
}

impl Begun {
    /// Nothing can come of the folder; one that was there before is not ours to remove.
    pub(super) fn undo(&self) {
        if self.new {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// Data to compare on: all of it, or a share.
pub(super) struct Part {
    pub(super) folder: PathBuf,
    fraction: f64,
    pub(super) data: Dataset,
    id: DataId,
}

/// One method with one seed, on one part.
pub(super) struct Entry<'a> {
    pub(super) name: String,
    pub(super) plan: Plan,
    pub(super) path: PathBuf,
    pub(super) part: &'a Part,
}

impl Entry<'_> {
    pub(super) fn planned(&self, in_world: bool) -> PlannedRun {
        let mut phases = self.plan.method.phases();
        phases.extend(in_world.then_some("evaluate"));
        PlannedRun { name: self.name.clone(), method: self.plan.about().name, phases }
    }
}

fn go_on(stop: bool) -> ControlFlow<()> {
    if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

fn make_folder(folder: &Path) -> Result<(), EvalError> {
    fs::create_dir_all(folder)
        .map_err(|source| EvalError::Folder { path: folder.to_owned(), source })
}
