//! The folder that keeps a run.

use std::ffi::OsString;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use esper_data::{
    Dataset, LabelColumns, Lock, Overview, PendingFile, StepLabels, clean_folder, read_file,
    read_text, write_file, write_json,
};
use esper_nn::Device;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::Table;

use super::checkpoint::{self, When};
use super::manifest::{DataId, FORMAT, LevelPromise, Manifest, Record, Summary};
use super::{EventFile, Labelled, Outcome, Plan};
use crate::Registry;
use crate::differences::Differences;
use crate::error::Error;
use crate::policy::Policy;
use crate::settings::part;
use crate::training::{Checkpoint, Monitor};

/// A run's folder.
#[derive(Debug)]
pub struct RunFolder {
    path: PathBuf,
    opened: Instant,
    /// Seconds of training before it was opened.
    before: f64,
    /// Nobody else writes in it; who only reads does not ask.
    _lock: Option<Lock>,
}

const MANIFEST: &str = "manifest.json";
const CONFIG: &str = "config.toml";
const METRICS: &str = "metrics.jsonl";
const LABELS: &str = "labels.parquet";
const LABELLED: &str = "labelled.json";
const OVERVIEW: &str = "data.json";
const DIFFERENCES: &str = "differences.json";
const POLICY: &str = "policy.safetensors";
const SUMMARY: &str = "training.json";
const CHECKPOINTS: &str = "checkpoints";

impl RunFolder {
    fn at(path: &Path) -> Self {
        RunFolder { path: path.to_owned(), opened: Instant::now(), before: 0.0, _lock: None }
    }

    /// The same for one who writes: nobody else does so now, and what the dead left half-written is gone.
    fn locked(self) -> Result<Self, Error> {
        let lock = Lock::folder(&self.path)?;
        clean_folder(&self.path);
        clean_folder(&self.path.join(CHECKPOINTS));
        Ok(RunFolder { _lock: Some(lock), ..self })
    }

    /// Starts a run in a folder that is new or empty, or in which one was ended before it had begun.
    pub fn create(path: &Path, plan: &Plan, data: &DataId) -> Result<Self, Error> {
        let folder = Self::at(path);
        // What is somebody else's is not even locked.
        let refuse = || match folder.path.join(MANIFEST).exists() {
            true => Err(Error::RunExists(path.to_owned())),
            false if is_free(path) => Ok(()),
            false => Err(Error::Run(format!(
                "{} is not empty, and what is in it is no run; name a folder that is empty, or a new one",
                path.display()
            ))),
        };
        refuse()?;
        folder.make(path)?;
        let folder = Self::at(path).locked()?;
        refuse()?;
        // First of all: it tells what was begun here from what somebody else keeps here.
        folder.make(&folder.path.join(CHECKPOINTS))?;
        folder.write(CONFIG, plan.config.to_toml().as_bytes())?;
        folder.write_json(MANIFEST, &Manifest::of(plan, data)?)?;
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
        folder.check_format()?;
        Ok(folder)
    }

    /// Whether there is a run in a folder, of whatever version.
    pub fn is_run(path: &Path) -> bool {
        path.join(MANIFEST).exists()
    }

    /// Folders of other versions are refused with a sentence.
    fn check_format(&self) -> Result<(), Error> {
        /// What tells which layout a folder has; the first had no number.
        #[derive(Deserialize)]
        struct Layout {
            #[serde(default = "first")]
            format: u32,
            #[serde(default)]
            version: String,
        }
        fn first() -> u32 {
            1
        }
        let Layout { format, version } = self.read_json(MANIFEST)?;
        if format == FORMAT {
            return Ok(());
        }
        Err(Error::Run(format!(
            "{} was made by version {version} of esper and has the layout {format} of a run's folder; version {} reads \
             layout {FORMAT}: train again, or use the version that made it",
            self.path.display(),
            env!("CARGO_PKG_VERSION")
        )))
    }

    /// Opens a run to go on with it, if it is the same: plan, data and version.
    pub fn resume(path: &Path, plan: &Plan, data: &DataId) -> Result<Self, Error> {
        let mut folder = Self::open(path)?.locked()?;
        let (theirs, ours) = (folder.manifest()?, Manifest::of(plan, data)?);
        let sections = plan.sections();
        let same_config = part(&folder.settings()?, &sections) == plan.config.part(&sections);
        let different = match () {
            () if theirs.version != ours.version => "version of the program",
            () if theirs.method != ours.method => "method",
            () if theirs.identity != ours.identity => "source of its labels",
            () if theirs.policy != ours.policy => "policy",
            () if theirs.seed != ours.seed => "seed",
            () if theirs.device != ours.device => "device",
            () if theirs.memory != ours.memory => "limit of memory",
            () if theirs.data != ours.data => "data",
            () if !same_config => "configuration",
            () => {
                match folder.is_complete() {
                    true => folder.check_complete()?,
                    false => {
                        folder.make(&folder.path.join(CHECKPOINTS))?;
                        folder.go_back_to_checkpoint()?;
                    }
                }
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

    /// The settings, as a TOML document.
    pub fn config_text(&self) -> Result<String, Error> {
        Ok(read_text(&self.path.join(CONFIG))?)
    }

    /// The settings; whoever they are for.
    fn settings(&self) -> Result<Table, Error> {
        let text = self.config_text()?;
        text.parse().map_err(|error: toml::de::Error| self.damaged(CONFIG, error))
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
        let summary: Summary = self.read_json(SUMMARY)?;
        summary.check().map_err(|problem| self.damaged(SUMMARY, problem))?;
        Ok(summary)
    }

    /// Whether a complete run has all of its files; checkpoints that were not cleared away go.
    fn check_complete(&self) -> Result<(), Error> {
        self.clear_checkpoints()?;
        let Summary { mut files, .. } = self.summary()?;
        files.push(POLICY.to_owned());
        let missing = files.into_iter().find(|name| !self.path.join(name).is_file());
        missing.map_or(Ok(()), |name| {
            let (path, summary) = (self.path.display(), self.path.join(SUMMARY));
            Err(Error::Run(format!(
                "the training in {path} is complete, but {name} is missing; put it back, or remove {} and go on with --resume \
                 to train it again, to the same bytes",
                summary.display()
            )))
        })
    }

    fn clear_checkpoints(&self) -> Result<(), Error> {
        let checkpoints = self.path.join(CHECKPOINTS);
        match fs::remove_dir_all(&checkpoints) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(&checkpoints, error)),
            _ => Ok(()),
        }
    }

    /// Keeps everything that came of the training.
    pub fn complete(&self, data: &Dataset, outcome: &Outcome) -> Result<Summary, Error> {
        let mut files = vec![POLICY.to_owned()];
        files.extend(self.path.join(METRICS).exists().then(|| METRICS.to_owned()));
        let Outcome { learned, seconds } = outcome;
        let (support, card) = (learned.support(), learned.policy.card());
        let offline = card.offline_target().and_then(|target| card.promised(target));
        if let Some(labels) = &learned.labels {
            // Labels that nobody can ask for tell nothing.
            if support.is_some() {
                let clusters = labels.clusters.as_ref();
                let columns = LabelColumns {
                    labels: &labels.values,
                    clusters: clusters.map(|clusters| (clusters.width(), clusters.probabilities())),
                };
                columns.write(data, &self.path.join(LABELS), true)?;
                self.write_json(LABELLED, &Labelled::of(data, labels))?;
                files.extend([LABELS, LABELLED].map(str::to_owned));
            }
            for (name, weights) in &labels.models {
                let name = format!("{name}.safetensors");
                self.write(&name, weights)?;
                files.push(name);
            }
        }
        learned.policy.write(&self.policy_path())?;
        self.write_json(OVERVIEW, &Overview::of(data, card.discount))?;
        self.write_json(DIFFERENCES, &Differences::of(&learned.policy, data)?)?;
        files.extend([OVERVIEW, DIFFERENCES].map(str::to_owned));
        let summary = Summary {
            train_seconds: self.before + seconds,
            findings: learned.findings.clone(),
            curves: learned.curves.clone(),
            condition: learned.policy.card().condition,
            promises: learned.promises().into_iter().map(LevelPromise::from).collect(),
            offline_level: offline.and_then(|offline| offline.level),
            offline_target: offline.map(|offline| offline.target),
            outlook: card.outlook(data.episodes()),
            chosen: card
                .offline_target()
                .and_then(|target| card.outlook_of(target, data.episodes())),
            discount: learned.policy.card().discount,
            files,
        };
        self.write_json(SUMMARY, &summary)?;
        // Complete: nothing to go on with any more.
        self.clear_checkpoints()?;
        Ok(summary)
    }

    /// Where the policy is, when the training is complete.
    pub fn policy_path(&self) -> PathBuf {
        self.path.join(POLICY)
    }

    /// The labels of its data, by row; `None` for methods without.
    pub fn labels(&self, data: &Dataset) -> Result<Option<StepLabels>, Error> {
        let path = self.path.join(LABELS);
        if !path.exists() {
            return Ok(None);
        }
        Ok(Some(StepLabels::read(&path, data)?))
    }

    /// What its labels came out like; `None` for methods without, and while it is not complete.
    pub fn labelled(&self) -> Result<Option<Labelled>, Error> {
        let Some(labelled) = self.read_if_there::<Labelled>(LABELLED)? else { return Ok(None) };
        labelled.check().map_err(|problem| self.damaged(LABELLED, problem))?;
        Ok(Some(labelled))
    }

    /// What its data says by itself; `None` while it is not complete, and in folders of versions that did not keep it.
    pub fn overview(&self) -> Result<Option<Overview>, Error> {
        self.read_if_there(OVERVIEW)
    }

    /// What the policy would do differently from the past; `None` as for [`RunFolder::overview`].
    pub fn differences(&self) -> Result<Option<Differences>, Error> {
        self.read_if_there(DIFFERENCES)
    }

    /// What was measured while training, in order.
    pub fn metrics(&self) -> Result<Vec<Record>, Error> {
        if !self.path.join(METRICS).exists() {
            return Ok(Vec::new());
        }
        let text = read_text(&self.path.join(METRICS))?;
        let record =
            |line: &str| serde_json::from_str(line).map_err(|error| self.damaged(METRICS, error));
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

    /// The policy, on a device.
    pub fn policy(&self, registry: &Registry, device: &Device) -> Result<Policy, Error> {
        self.summary()?;
        Policy::load(&self.policy_path(), registry, device)
    }

    /// Metrics that came after the last checkpoint are forgotten: they will come again. The time it took counts.
    fn go_back_to_checkpoint(&mut self) -> Result<(), Error> {
        let (folder, path) = (self.path.join(CHECKPOINTS), self.path.join(METRICS));
        if !path.exists() {
            return Ok(());
        }
        let mut known = 0;
        for entry in fs::read_dir(&folder).map_err(|error| failed(&folder, error))? {
            let entry = entry.map_err(|error| failed(&folder, error))?.path();
            // What was being written when everything ended has a name of its own.
            if entry.file_name().is_some_and(PendingFile::is_temporary) {
                continue;
            }
            let (_, when) = checkpoint::from_bytes(&entry, &read_file(&entry)?)?;
            known = known.max(when.metrics);
            self.before = self.before.max(when.seconds);
        }
        self.forget_metrics(known)
    }

    /// Cuts the metrics to a length.
    fn forget_metrics(&self, known: u64) -> Result<(), Error> {
        let path = self.path.join(METRICS);
        let file = fs::OpenOptions::new().write(true).open(&path);
        let cut = file.and_then(|file| file.set_len(file.metadata()?.len().min(known)));
        cut.map_err(|error| failed(&path, error))
    }

    fn make(&self, path: &Path) -> Result<(), Error> {
        fs::create_dir_all(path).map_err(|error| failed(path, error))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        Ok(read_file(&self.path.join(name))?)
    }

    fn read_json<T: DeserializeOwned>(&self, name: &str) -> Result<T, Error> {
        let bytes = self.read(name)?;
        serde_json::from_slice(&bytes).map_err(|error| self.damaged(name, error))
    }

    fn read_if_there<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        self.path.join(name).exists().then(|| self.read_json(name)).transpose()
    }

    /// Writes a file in one step: it is there whole, or as it was.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        Ok(write_file(&self.path.join(name), bytes)?)
    }

    fn write_json(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        Ok(write_json(&self.path.join(name), value)?)
    }

    fn damaged(
        &self,
        name: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        Error::Damaged { path: self.path.join(name), source: source.into() }
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

    fn save_checkpoint(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        let metrics = fs::metadata(self.path.join(METRICS)).map_or(0, |file| file.len());
        let name = format!("{CHECKPOINTS}/{phase}");
        let seconds = self.before + self.opened.elapsed().as_secs_f64();
        self.write(&name, &checkpoint::to_bytes(checkpoint, When { metrics, seconds }))
    }

    fn load_checkpoint(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        let path = self.path.join(CHECKPOINTS).join(phase);
        match read_file(&path) {
            Ok(bytes) => Ok(Some(checkpoint::from_bytes(&path, &bytes)?.0)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn checkpoint_name(&self, phase: &str) -> String {
        self.path.join(CHECKPOINTS).join(phase).display().to_string()
    }
}

/// Whether a folder is new or empty, or holds only what a run leaves that was ended before it had begun: a folder for
/// checkpoints, perhaps settings beside it, and what was being written.
fn is_free(path: &Path) -> bool {
    let names = |path: &Path| -> Vec<OsString> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name());
        names.filter(|name| !PendingFile::is_temporary(name) && !Lock::is_lock(name)).collect()
    };
    let checkpoints = path.join(CHECKPOINTS);
    let begun = checkpoints.is_dir() && names(&checkpoints).is_empty();
    names(path).iter().all(|name| begun && (name == CONFIG || name == CHECKPOINTS))
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::Io { path: path.to_owned(), source }
}
