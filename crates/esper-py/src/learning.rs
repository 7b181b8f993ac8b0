//! Learning: single runs, comparisons, what is known of them, and reports.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use esper::Registry;
use esper::condition::Target;
use esper::run::{DataId, Plan, RunFolder, RunOptions};
use esper::settings::Preset;
use esper_data::{check_name, suspicions};
use esper_eval::{Ask, Evaluation, Experiment, SweepEntry, default_config};
use esper_nn::{Device, DeviceName};
use esper_online::LearnedReplays;
use esper_report::Report;
use esper_tasks::{find_task, task};
use numpy::{PyArray1, PyArray2, PyArrayMethods};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::dataset::Dataset;
use crate::errors::{IntoPython, wrong_policy, wrong_settings};
use crate::json::{document, object};
use crate::policy::Policy;
use crate::relabel::{PythonLabels, Raised};
use crate::watch::{Board, watched};

/// A device by its name.
pub(crate) fn device(name: &str) -> PyResult<Device> {
    let known = DeviceName::ALL.into_iter().find(|device| device.to_string() == name);
    let known = known.ok_or_else(|| {
        wrong_settings(format!("there is no device `{name}`; there are cpu and gpu"))
    })?;
    known.open().map_err(|error| wrong_settings(error.to_string()))
}

fn preset(name: &str) -> PyResult<Preset> {
    let known = Preset::ALL.into_iter().find(|preset| preset.name() == name);
    known.ok_or_else(|| {
        let all: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
        wrong_settings(format!("there is no preset `{name}`; there are {}", all.join(", ")))
    })
}

/// A limit of memory, as in 2GB.
fn limit(memory: Option<&str>) -> PyResult<Option<u64>> {
    memory.map(esper::memory::parse).transpose().map_err(wrong_settings)
}

/// Names that methods may have, and those of Python beside those that are built in.
fn registry(relabellers: Vec<(String, Bound<'_, PyAny>)>, raised: &Raised) -> PyResult<Registry> {
    let mut registry = Registry::default();
    for (name, source) in relabellers {
        check_name(&name).map_err(wrong_settings)?;
        if name == "labels" || registry.method_names().contains(&name) {
            return Err(wrong_settings(format!("there is another method that is called `{name}`")));
        }
        registry = registry.with(PythonLabels::new(name, &source, raised.clone())?);
    }
    Ok(registry)
}

/// What a function of Python raised, if one did; else the error.
pub(crate) fn failure(raised: &Raised, error: impl IntoPython) -> PyErr {
    let raised = raised.lock().unwrap_or_else(PoisonError::into_inner).take();
    raised.unwrap_or_else(|| error.raise())
}

/// Trains in a folder; gives nothing, it is all in there.
#[pyfunction]
#[pyo3(signature = (data, method, policy, seed, preset_name, document, pairs, out, resume, tensorboard, device_name, memory, relabellers, listener))]
#[expect(clippy::too_many_arguments, reason = "options, one by one")]
pub(crate) fn train(
    py: Python<'_>,
    data: &Bound<'_, Dataset>,
    method: &str,
    policy: &str,
    seed: u64,
    preset_name: &str,
    document: Option<&str>,
    pairs: Vec<String>,
    out: PathBuf,
    resume: bool,
    tensorboard: bool,
    device_name: &str,
    memory: Option<&str>,
    relabellers: Vec<(String, Bound<'_, PyAny>)>,
    listener: Option<Py<PyAny>>,
) -> PyResult<()> {
    let data = data.get().data.clone();
    let raised = Raised::default();
    let registry = registry(relabellers, &raised)?;
    let task = data.metadata().task.as_deref().and_then(task);
    let config = default_config(&registry, preset(preset_name)?, task)
        .and_then(|config| Ok(config.changed(document, &pairs)?))
        .map_err(IntoPython::raise)?;
    let plan = Plan::new(&registry, method, policy, config).map_err(IntoPython::raise)?;
    let plan = plan.with_seed(seed).with_device(device(device_name)?).with_memory(limit(memory)?);
    let board = Board::default();
    let trained = watched(py, &board, listener.as_ref(), || {
        let options = RunOptions { resume, tensorboard };
        plan.train_in(&out, &data, &DataId::of(&data), options, &board).map(|_| ())
    })?;
    trained.map_err(|error| failure(&raised, error))
}

/// What is asked of a comparison, as a dictionary of Python's.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked<'py> {
    methods: Option<Vec<String>>,
    policy: String,
    seeds: u64,
    preset: String,
    document: Option<String>,
    pairs: Vec<String>,
    resume: bool,
    tensorboard: bool,
    device: String,
    memory: Option<String>,
    relabellers: Vec<(String, Bound<'py, PyAny>)>,
    offline: bool,
    episodes: Option<usize>,
    dataset: Option<String>,
    steps: Option<u64>,
    prefix: String,
}

impl Asked<'_> {
    /// The experiment on data that was at a path, or on a task by its name.
    pub(crate) fn experiment(
        self,
        source: &Bound<'_, PyAny>,
        path: &Path,
        raised: &Raised,
    ) -> PyResult<Experiment> {
        let registry = registry(self.relabellers, raised)?;
        let experiment = match source.cast::<Dataset>() {
            Ok(data) => Experiment::on_in_registry(data.get().data.clone(), path, registry),
            Err(_) => {
                let task = find_task(source.extract()?).map_err(IntoPython::raise)?;
                Experiment::in_registry(task, registry)
            }
        };
        let device = device(&self.device)?;
        let mut experiment = experiment
            .with_prefix(self.prefix)
            .with_offline(self.offline)
            .with_preset(preset(&self.preset)?)
            .with_settings(self.document.as_deref(), self.pairs)
            .with_policy(&self.policy)
            .map_err(IntoPython::raise)?
            .with_seeds(self.seeds)
            .with_tensorboard(self.tensorboard)
            .with_resume(self.resume)
            .with_replays(Arc::new(LearnedReplays { device: device.clone() }))
            .with_memory(limit(self.memory.as_deref())?)
            .with_device(device);
        if let Some(names) = self.methods {
            experiment = experiment.with_methods(names).map_err(IntoPython::raise)?;
        }
        if let Some(dataset) = self.dataset {
            experiment = experiment.with_dataset(dataset);
        }
        if let Some(steps) = self.steps {
            experiment = experiment.with_steps(steps);
        }
        if let Some(episodes) = self.episodes {
            experiment = experiment.with_episodes(episodes);
        }
        Ok(experiment)
    }
}

/// Compares methods and seeds in a folder; gives what `esper run --json` prints, and leaves a report.
#[pyfunction]
#[pyo3(signature = (source, path, asked, fractions, out, listener))]
pub(crate) fn run<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    path: PathBuf,
    asked: Asked<'py>,
    fractions: Option<Vec<f64>>,
    out: PathBuf,
    listener: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let raised = Raised::default();
    let mut experiment = asked.experiment(source, &path, &raised)?;
    let is_scaling = fractions.is_some();
    if let Some(fractions) = fractions {
        experiment = experiment.with_fractions(fractions);
    }
    let board = Board::default();
    let scaling = watched(py, &board, listener.as_ref(), || experiment.run_shares(&out, &board))?;
    let mut scaling = scaling.map_err(|error| failure(&raised, error))?;
    py.detach(|| Report::read(&out)?.write(&out.join(esper_report::PAGE)))
        .map_err(IntoPython::raise)?;
    match is_scaling {
        true => crate::json::document(py, &scaling),
        false => crate::json::document(py, &scaling.fractions.remove(0).results),
    }
}

/// Everything that a run's folder says of itself.
#[pyfunction]
pub(crate) fn run_info<'py>(
    py: Python<'py>,
    path: PathBuf,
    data: Option<&Bound<'py, Dataset>>,
) -> PyResult<Bound<'py, PyAny>> {
    let folder = RunFolder::open(&path).map_err(IntoPython::raise)?;
    let read = || -> Result<Value, esper::Error> {
        let (manifest, summary) = (folder.manifest()?, folder.summary()?);
        let mut warnings = data.map_or(Vec::new(), |data| suspicions(&data.get().data));
        warnings.extend(summary.findings.warnings.clone());
        let leakage = summary.findings.clustering.as_ref().map(|of| of.leakage.mean);
        Ok(json!({
            "manifest": manifest,
            "summary": summary,
            "warnings": warnings,
            "leakage": leakage,
            "config": folder.config_text()?,
            "labelled": folder.labelled()?,
            "differences": folder.differences()?,
            "overview": folder.overview()?,
            "metrics": folder.metrics()?,
        }))
    };
    object(py, &read().map_err(IntoPython::raise)?)
}

/// The labels of a run, by step, and the probabilities of its clusters.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "two arrays that may not be there")]
pub(crate) fn labels<'py>(
    py: Python<'py>,
    path: PathBuf,
    data: &Bound<'py, Dataset>,
) -> PyResult<Option<(Bound<'py, PyArray1<f32>>, Option<Bound<'py, PyArray2<u8>>>)>> {
    let data = data.get();
    let folder = RunFolder::open(&path).map_err(IntoPython::raise)?;
    let found = py.detach(|| folder.labels(&data.data)).map_err(IntoPython::raise)?;
    let Some(found) = found else { return Ok(None) };
    let clusters = found.clusters.map(|(width, column)| {
        let rows: Vec<usize> = data.data.step_rows().collect();
        let mut cells = Vec::with_capacity(rows.len() * width);
        column.gather(&rows, width, &mut cells);
        PyArray1::from_vec(py, cells).reshape([data.data.steps(), width])
    });
    Ok(Some((PyArray1::from_vec(py, data.by_step(&found.labels)), clusters.transpose()?)))
}

/// The page about a folder.
#[pyfunction]
pub(crate) fn report(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| Report::read(&path).map(|report| report.page())).map_err(IntoPython::raise)
}

/// The page about several runs on the same data.
#[pyfunction]
pub(crate) fn report_of(py: Python<'_>, paths: Vec<PathBuf>) -> PyResult<String> {
    py.detach(|| Report::of_runs(&paths).map(|report| report.page())).map_err(IntoPython::raise)
}

/// The methods that are built in, with their summaries.
#[pyfunction]
pub(crate) fn methods() -> Vec<(String, String)> {
    let registry = Registry::default();
    let about = registry.methods().iter().map(|method| method.about());
    about.map(|about| (about.name, about.summary)).collect()
}

/// Asks a policy for targets in a built-in task's world.
#[pyfunction]
#[pyo3(signature = (policy, task_name, levels, targets, episodes, seed, listener))]
#[expect(clippy::too_many_arguments, reason = "options, one by one")]
pub(crate) fn evaluate<'py>(
    py: Python<'py>,
    policy: &Bound<'py, Policy>,
    task_name: &str,
    levels: Vec<f64>,
    targets: Vec<f64>,
    episodes: Option<usize>,
    seed: u64,
    listener: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let task = find_task(task_name).map_err(IntoPython::raise)?;
    let policy = policy.get().policy.clone();
    let returns = targets.into_iter().map(Target::Return);
    let asked: Vec<Target> = returns.chain(levels.into_iter().map(Target::Level)).collect();
    if !asked.is_empty() && policy.card().support.is_none() {
        let method = &policy.card().origin.method;
        return Err(wrong_policy(format!(
            "a policy of {method} cannot be asked for a return; leave out levels and targets"
        )));
    }
    let ask = Ask {
        targets: (!asked.is_empty()).then_some(asked),
        episodes: episodes.unwrap_or_else(|| task.episodes()),
        seed,
    };
    let board = Board::default();
    let found = watched(py, &board, listener.as_ref(), || {
        esper_eval::evaluate(&policy, task, &ask, &mut |done, total| {
            board.note(0, "evaluate", done, total);
            match board.stopped() {
                true => std::ops::ControlFlow::Break(()),
                false => std::ops::ControlFlow::Continue(()),
            }
        })
    })?;
    document(py, &found.map_err(IntoPython::raise)?)
}

/// Sums up what targets got in a world of Python's: levels, targets, and returns of episodes.
#[pyfunction]
pub(crate) fn sum_up<'py>(
    py: Python<'py>,
    policy: &Bound<'py, Policy>,
    asked: Vec<(Option<f64>, Option<f64>, Vec<f64>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let card = policy.get().policy.card();
    let entry = |(level, target, returns): (Option<f64>, Option<f64>, Vec<f64>)| {
        let asked = level.map(Target::Level).or(target.map(Target::Return));
        let promised = asked.and_then(|asked| card.promised(asked));
        let moments = esper_data::Moments::of(returns.iter().copied());
        let supported = promised.is_none_or(|promised| promised.supported);
        let mut entry = SweepEntry::new(promised.map(|of| of.target), &moments, supported);
        entry.level = promised.and_then(|promised| promised.level);
        entry.promise = promised.map(|promised| promised.promise.promise);
        entry
    };
    let offline = card.offline_target().and_then(|target| card.promised(target));
    let sweep = asked.into_iter().map(entry).collect();
    let mut evaluation = Evaluation::of(sweep, offline.map(|offline| offline.target));
    evaluation.offline_level = offline.and_then(|offline| offline.level);
    document(py, &evaluation)
}

/// Where the policy of a run or a file of one is.
pub(crate) fn policy_file(path: &Path) -> Result<PathBuf, esper::Error> {
    match path.is_dir() {
        false => Ok(path.to_owned()),
        true => {
            let folder = RunFolder::open(path)?;
            folder.summary()?;
            Ok(folder.policy_path())
        }
    }
}
