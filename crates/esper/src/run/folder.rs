//! The folder that keeps a run.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use esper_data::{Checksums, DataError, Dataset, LabelColumns, PendingFile};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::checkpoint::{self, When};
use super::{EventFile, Labelled, Method, Outcome, Plan, Policy, PolicyKind};
use crate::config::Config;
use crate::error::Error;
use crate::policy::{LabelInput, MlpPolicy, Support, TransformerPolicy};
use crate::relabel::Findings;
use crate::training::{Checkpoint, Monitor};
use crate::trajectories::Interface;
use crate::value::{ActorPolicy, QPolicy, Ranges};

/// What was trained on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The version of the program.
    pub version: String,
    /// How the policy came about.
    pub method: Method,
    /// What was trained on labels, if there were any.
    pub policy: PolicyKind,
    /// What decided everything random.
    pub seed: u64,
    /// What it was trained on.
    pub data: DataId,
}

/// Which data it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataId {
    /// The task, if it is a named one.
    pub task: Option<String>,
    /// Its steps.
    pub steps: usize,
    /// Its episodes.
    pub episodes: usize,
    /// Checksums of what it holds.
    pub checksums: Checksums,
}

impl DataId {
    /// Of a data set.
    pub fn of(data: &Dataset) -> Self {
        DataId {
            task: data.metadata().task.clone(),
            steps: data.steps(),
            episodes: data.episodes(),
            checksums: Checksums::of(data),
        }
    }
}

/// What is known when a run is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// How long training took, what was stopped and gone on with included.
    pub train_seconds: f64,
    /// What is known about the labels without the world.
    pub findings: Findings,
}

/// What acting needs beside the weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agents {
    /// How observations and actions enter the policy.
    pub interface: Interface,
    /// How labels do, if they do.
    pub labels: Option<LabelInput>,
    /// Which targets it can be asked for, if it can be asked.
    pub support: Option<Support>,
    /// The times that a transformer has embeddings of.
    pub times: usize,
    /// What the outputs of an actor stand for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Ranges>,
}

/// Means of what was measured over some steps of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was being trained.
    pub phase: String,
    /// Steps taken by then.
    pub step: usize,
    /// The means, by name.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, f64>,
}

impl Record {
    /// What was measured by a step of a phase.
    pub fn new(phase: &str, step: usize, metrics: &[(&'static str, f64)]) -> Self {
        let metrics = metrics.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        Record { phase: phase.to_owned(), step, metrics }
    }
}

/// A run's folder.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    opened: Instant,
    /// Seconds of training before it was opened.
    before: f64,
}

const MANIFEST: &str = "manifest.json";
const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";
const LABELS: &str = "labels.parquet";
const LABELLED: &str = "labelled.json";
const POLICY: &str = "policy.safetensors";
const AGENT: &str = "agent.json";
const SUMMARY: &str = "training.json";
const CHECKPOINTS: &str = "checkpoints";

impl RunFolder {
    fn at(path: &Path) -> Self {
        RunFolder { path: path.to_owned(), opened: Instant::now(), before: 0.0 }
    }

    /// Starts a run in a folder that is new or empty.
    pub fn create(path: &Path, plan: &Plan, data: &DataId) -> Result<Self, Error> {
        let folder = Self::at(path);
        if folder.path.join(MANIFEST).exists() {
            return Err(Error::Data(DataError::Exists(path.to_owned())));
        }
        if !is_free(path) {
            let path = path.display();
            return Err(Error::Run(format!(
                "{path} is not empty; name a folder that is, or a new one"
            )));
        }
        folder.make(&folder.path.join(CHECKPOINTS))?;
        folder.write(CONFIG, plan.config.to_toml().as_bytes())?;
        folder.write_json(MANIFEST, &Manifest::of(plan, data))?;
        Ok(folder)
    }

    /// Opens a run that was started, complete or not.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let folder = Self::at(path);
        if !path.is_dir() {
            return Err(Error::Run(format!("there is no folder {}", path.display())));
        }
        if !path.join(MANIFEST).exists() {
            let path = path.display();
            return Err(Error::Run(format!(
                "{path} is not a run's folder: it has no {MANIFEST}; `esper train` makes one"
            )));
        }
        Ok(folder)
    }

    /// Opens a run to go on with it, if it is the same: plan, data and version.
    pub fn resume(path: &Path, plan: &Plan, data: &DataId) -> Result<Self, Error> {
        let mut folder = Self::open(path)?;
        let (theirs, ours) = (folder.manifest()?, Manifest::of(plan, data));
        let same_config = plan.used(folder.config()?) == plan.used(plan.config.clone());
        let different = match () {
            () if theirs.version != ours.version => "version of the program",
            () if theirs.method != ours.method => "method",
            () if theirs.policy != ours.policy => "policy",
            () if theirs.seed != ours.seed => "seed",
            () if theirs.data != ours.data => "data",
            () if !same_config => "configuration",
            () => {
                folder.go_back_to_checkpoint()?;
                return Ok(folder);
            }
        };
        Err(Error::Run(format!(
            "{} was started with another {different}; go on with the same, or start again elsewhere",
            path.display()
        )))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was trained on what.
    pub fn manifest(&self) -> Result<Manifest, Error> {
        self.read_json(MANIFEST)
    }

    /// The settings.
    pub fn config(&self) -> Result<Config, Error> {
        let text = self.read(CONFIG)?;
        let text = String::from_utf8(text).map_err(|_| self.damaged(CONFIG, "it is no text"))?;
        let config: Config =
            toml::from_str(&text).map_err(|error| self.damaged(CONFIG, error.message()))?;
        config.check()?;
        Ok(config)
    }

    /// Whether the training is complete.
    pub fn is_complete(&self) -> bool {
        self.path.join(SUMMARY).exists()
    }

    /// What is known since the training is complete.
    pub fn summary(&self) -> Result<Summary, Error> {
        if !self.is_complete() {
            let path = self.path.display();
            return Err(Error::Run(format!(
                "the training in {path} is not complete; go on with `esper train … --out {path} --resume`"
            )));
        }
        self.read_json(SUMMARY)
    }

    /// Keeps everything that came of the training.
    pub fn complete(&self, data: &Dataset, outcome: &Outcome) -> Result<Summary, Error> {
        let Outcome { labels, policy, support, times, seconds } = outcome;
        if support.is_some() {
            let clusters = labels.clusters.as_ref();
            let columns = LabelColumns {
                labels: &labels.values,
                clusters: clusters.map(|clusters| (clusters.width(), clusters.probabilities())),
            };
            columns.write(data, &self.path.join(LABELS), true)?;
            self.write_json(LABELLED, &Labelled::of(data, labels))?;
        }
        for (name, weights) in &labels.models {
            self.write(&format!("{name}.safetensors"), weights)?;
        }
        self.write(POLICY, &policy.to_safetensors())?;
        let agents = Agents {
            interface: policy.interface().clone(),
            labels: policy.labels().copied(),
            support: support.clone(),
            times: *times,
            ranges: match policy {
                Policy::Actor(policy) => Some(policy.ranges().clone()),
                _ => None,
            },
        };
        self.write_json(AGENT, &agents)?;
        let summary =
            Summary { train_seconds: self.before + seconds, findings: labels.findings.clone() };
        self.write_json(SUMMARY, &summary)?;
        // Complete: nothing to go on with any more.
        let checkpoints = self.path.join(CHECKPOINTS);
        fs::remove_dir_all(&checkpoints).map_err(|error| failed(&checkpoints, error))?;
        Ok(summary)
    }

    /// What its labels came out like; `None` for methods without, and while it is not complete.
    pub fn labelled(&self) -> Result<Option<Labelled>, Error> {
        if !self.path.join(LABELLED).exists() {
            return Ok(None);
        }
        self.read_json(LABELLED).map(Some)
    }

    /// What was measured while training, in order.
    pub fn metrics(&self) -> Result<Vec<Record>, Error> {
        if !self.path.join(METRICS).exists() {
            return Ok(Vec::new());
        }
        let text = String::from_utf8(self.read(METRICS)?);
        let text = text.map_err(|_| self.damaged(METRICS, "it is no text"))?;
        let record = |line: &str| {
            serde_json::from_str(line).map_err(|error| self.damaged(METRICS, &error.to_string()))
        };
        text.lines().map(record).collect()
    }

    /// An event file for TensorBoard with what was measured so far, to be added to.
    pub fn events(&self) -> Result<EventFile, Error> {
        let path = self.path.join(EventFile::NAME);
        let failed = |error| failed(&path, error);
        let mut events = EventFile::create(&path).map_err(failed)?;
        for record in self.metrics()? {
            events.add(&record).map_err(failed)?;
        }
        Ok(events)
    }

    /// The policy, and which targets it can be asked for, if it can be asked.
    pub fn policy(&self) -> Result<(Policy, Option<Support>), Error> {
        self.summary()?;
        let (manifest, config) = (self.manifest()?, self.config()?);
        let Agents { interface, labels, support, times, ranges } = self.read_json(AGENT)?;
        let weights = self.read(POLICY)?;
        if manifest.method == Method::Cql {
            if let Some(ranges) = ranges {
                let config = &config.cql_continuous;
                let actor = ActorPolicy::from_safetensors(&weights, config, interface, ranges)?;
                return Ok((Policy::Actor(actor), support));
            }
            let values = QPolicy::from_safetensors(&weights, &config.cql, interface)?;
            return Ok((Policy::Values(values), support));
        }
        let labels = labels.ok_or_else(|| self.damaged(AGENT, "it says nothing of labels"))?;
        let discount = config.discount;
        let policy = match manifest.policy {
            PolicyKind::Mlp => Policy::Mlp(MlpPolicy::from_safetensors(
                &weights,
                &config.mlp,
                interface,
                labels,
                discount,
            )?),
            PolicyKind::Transformer => {
                Policy::Transformer(Box::new(TransformerPolicy::from_safetensors(
                    &weights,
                    &config.transformer,
                    interface,
                    labels,
                    discount,
                    times,
                )?))
            }
        };
        Ok((policy, support))
    }

    /// Metrics that came after the last checkpoint are forgotten: they will come again. The time it took counts.
    fn go_back_to_checkpoint(&mut self) -> Result<(), Error> {
        let (folder, path) = (self.path.join(CHECKPOINTS), self.path.join(METRICS));
        if self.is_complete() || !path.exists() {
            return Ok(());
        }
        let mut known = 0;
        for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
            let entry = entry.map_err(|error| failed(&folder, error))?.path();
            // What was being written when everything ended has a name of its own.
            if entry.extension().is_none_or(|extension| extension != "partial") {
                let bytes = fs::read(&entry).map_err(|error| failed(&entry, error))?;
                let (_, when) = checkpoint::from_bytes(&entry, &bytes)?;
                known = known.max(when.metrics);
                self.before = self.before.max(when.seconds);
            }
        }
        let file = fs::OpenOptions::new().write(true).open(&path);
        let cut = file.and_then(|file| file.set_len(file.metadata()?.len().min(known)));
        cut.map_err(|error| failed(&path, error))
    }

    fn make(&self, path: &Path) -> Result<(), Error> {
        fs::create_dir_all(path).map_err(|error| failed(path, error))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.path.join(name);
        fs::read(&path).map_err(|error| failed(&path, error))
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let bytes = self.read(name)?;
        serde_json::from_slice(&bytes).map_err(|error| self.damaged(name, &error.to_string()))
    }

    /// Writes a file in one step: it is there whole, or as it was.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path.join(name);
        let mut file = PendingFile::create(&path, true)?;
        file.write_all(bytes).map_err(|error| failed(&path, error))?;
        Ok(file.finish()?)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let mut bytes = serde_json::to_vec_pretty(value).expect("it can always be written");
        bytes.push(b'\n');
        self.write(name, &bytes)
    }

    fn damaged(&self, name: &str, reason: &str) -> Error {
        Error::Run(format!("{} cannot be read: {reason}", self.path.join(name).display()))
    }
}

/// Keeps metrics and checkpoints; shows nothing and never stops.
impl Monitor for RunFolder {
    fn record(
        &self,
        phase: &str,
        step: usize,
        metrics: &[(&'static str, f64)],
    ) -> Result<(), Error> {
        let record = Record::new(phase, step, metrics);
        let line = serde_json::to_string(&record).expect("numbers can always be written") + "\n";
        let path = self.path.join(METRICS);
        let file = fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.map_err(|error| failed(&path, error))
    }

    fn keep(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        let metrics = fs::metadata(self.path.join(METRICS)).map_or(0, |file| file.len());
        let name = format!("{CHECKPOINTS}/{phase}");
        let seconds = self.before + self.opened.elapsed().as_secs_f64();
        self.write(&name, &checkpoint::to_bytes(checkpoint, When { metrics, seconds }))
    }

    fn kept(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        let path = self.path.join(CHECKPOINTS).join(phase);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(checkpoint::from_bytes(&path, &bytes)?.0)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, error)),
        }
    }
}

impl Manifest {
    fn of(plan: &Plan, data: &DataId) -> Self {
        Manifest {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            method: plan.method,
            policy: plan.policy,
            seed: plan.seed,
            data: data.clone(),
        }
    }
}

/// Whether a folder is new or empty, or holds only what a run leaves that ended before it began.
fn is_free(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else { return true };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    let ours = names.iter().all(|name| name == CHECKPOINTS || name == CONFIG);
    names.is_empty() || ours && names.iter().any(|name| name == CHECKPOINTS)
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::Run(format!("{}: {error}", path.display()))
}
