//! A whole training, and the folder that keeps it.
//!
//! | file | what |
//! |---|---|
//! | `manifest.json` | what was trained on what: version, method, policy, seed, device, data with its checksums |
//! | `config.toml` | every setting, resolved; `--config` takes it again |
//! | `metrics.jsonl` | losses and other measures while training, one JSON document a line |
//! | `labels.parquet` | the label of every step, and the probabilities of its clusters; for methods with targets |
//! | `labelled.json` | what the labels came out like, by behaviour, time and cluster |
//! | `data.json` | what the data says by itself: who acted how well, what looks wrong |
//! | `differences.json` | what the policy would do differently from the past, and where |
//! | `policy.safetensors` | the policy: weights, and in their metadata everything else that acting needs |
//! | `clusters.safetensors`, `returns.safetensors`, … | other weights that were learned on the way |
//! | `training.json` | what is known about the labels without the world; written last, so that a folder with it is complete |
//! | `events.out.tfevents.esper` | the same as `metrics.jsonl` for TensorBoard, if it was asked for |
//! | `checkpoints/` | where to go on, while it is not |

mod checkpoint;
mod events;
mod folder;
mod labelled;
mod manifest;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use esper_data::{Dataset, Seed};
use esper_nn::{Device, default_device};

pub use events::EventFile;
pub use folder::RunFolder;
pub use labelled::{BehaviourLabels, ClusterUse, Histogram, Labelled, TimeLabel};
pub use manifest::{DataId, LevelPromise, Manifest, Record, Summary};

use crate::Registry;
use crate::error::Error;
use crate::memory::{self, Widths};
use crate::methods::{About, Context, Learned, Method};
use crate::policy::{PolicyKind, PolicyOrigin};
use crate::settings::{Config, General, Section};
use crate::training::{Checkpoint, Monitor};
use crate::trajectories::{Interface, Split};

/// What to train, and how.
#[derive(Clone)]
pub struct Plan {
    /// How a policy comes about.
    pub method: Arc<dyn Method>,
    /// What is trained on labels, if there are any.
    pub policy: Arc<dyn PolicyKind>,
    /// Every setting.
    pub config: Config,
    /// Decides everything random.
    pub seed: u64,
    /// Where tensors are.
    pub device: Device,
    /// Memory: the most bytes that it may take; all that the machine has if nothing is said.
    pub memory: Option<u64>,
}

/// How a training is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Whether what is there already is gone on with.
    pub resume: bool,
    /// Whether TensorBoard is to see it.
    pub tensorboard: bool,
}

/// What came of a training.
pub struct Outcome {
    /// Labels and policy.
    pub learned: Learned,
    /// How long it took.
    pub seconds: f64,
}

impl Plan {
    /// A method and a policy by name, on the CPU, with seed 0.
    pub fn new(
        registry: &Registry,
        method: &str,
        policy: &str,
        config: Config,
    ) -> Result<Self, Error> {
        Ok(Self::of(registry.method(method)?, registry.policy(policy)?, config))
    }

    /// A method and a policy, on the CPU, with seed 0.
    pub fn of(method: Arc<dyn Method>, policy: Arc<dyn PolicyKind>, config: Config) -> Self {
        Plan { method, policy, config, seed: 0, device: default_device(), memory: None }
    }

    /// The same with another seed.
    pub fn with_seed(self, seed: u64) -> Self {
        Plan { seed, ..self }
    }

    /// The same on another device.
    pub fn with_device(self, device: Device) -> Self {
        Plan { device, ..self }
    }

    /// The same with another limit of memory.
    pub fn with_memory(self, memory: Option<u64>) -> Self {
        Plan { memory, ..self }
    }

    /// What its method is called.
    pub fn about(&self) -> About {
        self.method.about()
    }

    /// The name of the policy, if there is a choice of one.
    pub fn policy_name(&self) -> Option<&'static str> {
        self.method.takes_policy().then(|| self.policy.name())
    }

    /// Whether there is any sense in training on this data.
    pub fn check(&self, data: &Dataset) -> Result<(), Error> {
        let General { discount, .. } = self.config.get()?;
        if !data.returns_to_go(discount).iter().all(|value| value.is_finite()) {
            let problem = "rewards add up to more than a number can hold; make their unit larger";
            return Err(Error::Unsuitable(problem.to_owned()));
        }
        self.check_memory(data)?;
        self.method.check(data, &self.config)?;
        self.split(data).map(|_| ())
    }

    /// Refuses spaces with more features than there is memory for.
    fn check_memory(&self, data: &Dataset) -> Result<(), Error> {
        let widths = Widths::of(data);
        let limit = self.memory.unwrap_or_else(memory::of_machine);
        memory::check_steps(data, limit)?;
        memory::check(&widths, self.of_features(&widths)?, limit)
    }

    /// Bytes that are taken because of how many features there are.
    fn of_features(&self, widths: &Widths) -> Result<u64, Error> {
        let of_method = self.method.memory(widths, &self.config)?;
        match self.method.takes_policy() {
            true => Ok(of_method.max(self.policy.memory(widths, &self.config)?)),
            false => Ok(of_method),
        }
    }

    /// The fewest bytes of memory that it can be trained in, about, beside the data.
    pub fn least_memory(&self, data: &Dataset) -> Result<u64, Error> {
        let of_features = memory::with_anything(self.of_features(&Widths::of(data))?);
        Ok(of_features.max(memory::of_steps(data)))
    }

    /// The limit of memory, where it changes what is learned.
    fn telling_memory(&self, data: &Dataset) -> Result<Option<u64>, Error> {
        let Some(memory) = self.memory else { return Ok(None) };
        let is_limited = self.method.is_limited(&Widths::of(data), &self.config, memory)?;
        Ok(is_limited.then_some(memory))
    }

    /// The sections of settings that it makes use of.
    fn sections(&self) -> Vec<Section> {
        let mut sections = self.method.sections();
        if self.method.takes_policy() {
            sections.extend(self.policy.sections());
        }
        sections
    }

    fn split(&self, data: &Dataset) -> Result<Split, Error> {
        let General { held_out, .. } = self.config.get()?;
        Split::new(data, held_out, self.stream().named("split"))
    }

    /// Where everything random in a training comes from.
    fn stream(&self) -> Seed {
        Seed::new(self.seed).named("train")
    }

    /// What a policy remembers of how it came about.
    fn origin(&self, data: &Dataset) -> PolicyOrigin {
        let settings = serde_json::to_value(self.config.part(&self.sections()));
        PolicyOrigin {
            method: self.about().name,
            seed: self.seed,
            task: data.metadata().task.clone(),
            task_version: data.metadata().task_version,
            settings: settings.expect("settings can always be written"),
        }
    }

    /// Trains.
    pub fn train(&self, data: &Dataset, monitor: &dyn Monitor) -> Result<Outcome, Error> {
        // In a thread of the pool: work that is divided up from outside of it waits for a hand-over every time.
        rayon::scope(|_| self.train_here(data, monitor))
    }

    fn train_here(&self, data: &Dataset, monitor: &dyn Monitor) -> Result<Outcome, Error> {
        let started = Instant::now();
        self.check(data)?;
        let General { discount, .. } = self.config.get()?;
        let (interface, split) = (Interface::of(data), self.split(data)?);
        let context = Context {
            data,
            interface: &interface,
            split: &split,
            config: &self.config,
            discount,
            seed: self.stream(),
            device: &self.device,
            monitor,
            policy: self.policy.as_ref(),
            origin: &self.origin(data),
            memory: self.memory,
        };
        let learned = self.method.learn(&context)?;
        Ok(Outcome { learned, seconds: started.elapsed().as_secs_f64() })
    }

    /// Trains in a folder that keeps everything, or finds that it was trained there already. Of the monitor only progress and
    /// whether to stop are asked.
    pub fn train_in(
        &self,
        path: &Path,
        data: &Dataset,
        id: &DataId,
        options: RunOptions,
        monitor: &dyn Monitor,
    ) -> Result<(RunFolder, Summary), Error> {
        // Before there is a folder: what cannot be trained leaves nothing behind.
        self.check(data)?;
        let kept = self.clone().with_memory(self.telling_memory(data)?);
        let folder = match options.resume && RunFolder::is_run(path) {
            true => RunFolder::resume(path, &kept, id)?,
            false => RunFolder::create(path, &kept, id)?,
        };
        let events = options.tensorboard.then(|| folder.events()).transpose()?.map(Mutex::new);
        if folder.is_complete() {
            let summary = folder.summary()?;
            return Ok((folder, summary));
        }
        let outcome = self.train(data, &InFolder { folder: &folder, events, monitor })?;
        let summary = folder.complete(data, &outcome)?;
        Ok((folder, summary))
    }
}

/// Keeps a training in its folder, and lets somebody else follow it.
struct InFolder<'a> {
    folder: &'a RunFolder,
    events: Option<Mutex<EventFile>>,
    monitor: &'a dyn Monitor,
}

impl Monitor for InFolder<'_> {
    fn progress(&self, phase: &str, done: usize, total: usize) {
        self.monitor.progress(phase, done, total);
    }

    fn record(
        &self,
        phase: &str,
        step: usize,
        metrics: &[(&'static str, f64)],
    ) -> Result<(), Error> {
        if let Some(events) = &self.events {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            events.add(&Record::new(phase, step, metrics)).map_err(|source| Error::Io {
                path: self.folder.path().join(EventFile::NAME),
                source,
            })?;
        }
        self.folder.record(phase, step, metrics)
    }

    fn stop(&self) -> bool {
        self.monitor.stop()
    }

    fn save_checkpoint(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.folder.save_checkpoint(phase, checkpoint)
    }

    fn load_checkpoint(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        self.folder.load_checkpoint(phase)
    }

    fn checkpoint_name(&self, phase: &str) -> String {
        self.folder.checkpoint_name(phase)
    }
}
