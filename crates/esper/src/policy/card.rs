//! A policy as one file: weights as safetensors, and in their metadata a card that says everything that acting needs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esper_data::{CellsRef, Dataset, Seed, read_file, write_file};
use esper_nn::{Device, StoreError, metadata, stored_numbers};
use rand::RngExt;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{LabelInput, Network, Support};
use crate::Registry;
use crate::agent::{Agent, Remaining};
use crate::condition::{Condition, Levels, Promise, Target, Told};
use crate::error::{BoxedError, Error};
use crate::onnx::FeedForward;
use crate::settings::Settings;
use crate::trajectories::Interface;

/// The version of the card's layout. A reader refuses what it does not know.
const FORMAT: u32 = 1;

/// The key of the card in the file's metadata.
const KEY: &str = "esper";

/// A trained policy. Cheap to clone.
#[derive(Clone)]
pub struct Policy {
    card: Arc<PolicyCard>,
    network: Arc<dyn Network>,
}

/// Everything about a policy but its weights.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyCard {
    /// The version of this layout.
    pub format: u32,
    /// The version of the program that wrote it.
    pub version: String,
    /// The kind of network, which says how it is loaded.
    pub kind: String,
    /// How it came about.
    pub origin: PolicyOrigin,
    /// How observations and actions enter it: spaces and encodings.
    pub interface: Interface,
    /// What it is told.
    #[serde(default)]
    pub condition: Condition,
    /// How what it is told enters it, if it is told anything.
    pub labels: Option<LabelInput>,
    /// What levels are worth, for a policy that is told levels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levels: Option<Levels>,
    /// Which targets it can be asked for, if it can be asked.
    pub support: Option<Support>,
    /// Discount factor γ that targets stand for.
    pub discount: f64,
    /// The sizes of the network, and whatever else its kind needs.
    pub network: serde_json::Value,
}

/// How a policy came about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyOrigin {
    /// The method's name.
    pub method: String,
    /// What decided everything random.
    pub seed: u64,
    /// The task whose data it was trained on, if it is a named one.
    pub task: Option<String>,
    /// The version of that task's rules.
    #[serde(default)]
    pub task_version: Option<u32>,
    /// The settings it was trained with.
    #[serde(default)]
    pub settings: serde_json::Value,
}

/// Makes the network of a file on a device.
pub type LoadNetwork = fn(&PolicyFile, &Device) -> Result<Arc<dyn Network>, Error>;

/// How a kind of policy is loaded.
#[derive(Clone, Copy)]
pub struct Loader {
    /// The kind.
    pub kind: &'static str,
    /// Makes the network.
    pub load: LoadNetwork,
}

impl PolicyCard {
    /// The card of a policy without labels.
    pub fn new(
        kind: &str,
        network: &impl Serialize,
        interface: &Interface,
        discount: f64,
        origin: &PolicyOrigin,
    ) -> Self {
        PolicyCard {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kind: kind.to_owned(),
            origin: origin.clone(),
            interface: interface.clone(),
            condition: Condition::Return,
            labels: None,
            levels: None,
            support: None,
            discount,
            network: serde_json::to_value(network).expect("sizes can always be written"),
        }
    }

    /// Whether it makes sense; one that was read from a file may not.
    fn check(&self) -> Result<(), String> {
        self.interface.check()?;
        if !(0.0..=1.0).contains(&self.discount) {
            return Err(format!("the discount factor is {}", self.discount));
        }
        self.labels.as_ref().map_or(Ok(()), LabelInput::check)?;
        self.levels.as_ref().map_or(Ok(()), Levels::check)?;
        let told_levels = match self.condition {
            Condition::Return => false,
            Condition::Level | Condition::StepLevel => true,
            Condition::Auto => return Err("it does not say what it is told".to_owned()),
        };
        if told_levels != self.levels.is_some() {
            return Err(
                "it is told levels and knows none, or knows some and is not told".to_owned()
            );
        }
        self.support.as_ref().map_or(Ok(()), Support::check)
    }
}

impl PolicyCard {
    /// What is told in an episode that is asked for a target, given its seed. Levels that are asked of a policy that is told returns are
    /// quantiles of first labels; returns that are asked of one that is told levels are the levels that promise them, and levels between
    /// known ones are drawn from those two ([`Promises::told`](crate::condition::Promises::told)).
    pub fn told(&self, target: Target, seed: Seed) -> Told {
        let remaining = |target: f64| Told::Remaining(Remaining::new(target, self.discount));
        let drawn = |Levels { promises, .. }: &Levels, level: f64| {
            Told::Level(promises.told(level, seed.named("level").rng().random()))
        };
        match (&self.levels, target) {
            (Some(levels), Target::Level(level)) => drawn(levels, level),
            (Some(levels), Target::Return(target)) => match target.is_finite() {
                true => drawn(levels, levels.promises.level_of(target)),
                false => Told::Level(target),
            },
            (None, Target::Return(target)) => remaining(target),
            (None, Target::Level(level)) => {
                remaining(self.support.as_ref().map_or(0.0, |support| support.quantile(level)))
            }
        }
    }
}

/// What asking for a level gets, as far as the data says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// The level; `None` where an average return is asked for.
    pub level: Option<f64>,
    /// The average return that it promises. Of a policy that is told returns it is the target itself, taken at its word.
    pub promise: f64,
    /// From where it is, with nine chances of ten; `None` where nothing is known of that.
    pub low: Option<f64>,
    /// To where.
    pub high: Option<f64>,
    /// Support: episodes that start with about this label. None of them where a policy stitches behaviours together and promises
    /// more than any.
    pub episodes: usize,
}

/// Levels of a policy that is told returns: quantiles of first labels.
const QUANTILES: [f64; 7] = [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95];

/// What the data says about a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promised {
    /// The level, where levels are told or asked for.
    pub level: Option<f64>,
    /// The average return that is asked for.
    pub target: f64,
    /// What is promised, from where to where with nine chances of ten; without levels, the target itself.
    pub promise: Promise,
    /// Whether the data speaks about it.
    pub supported: bool,
}

impl PolicyCard {
    /// What is promised for a target; `None` if the policy cannot be asked.
    pub fn promised(&self, target: Target) -> Option<Promised> {
        let support = self.support.as_ref()?;
        let Some(Levels { promises, .. }) = &self.levels else {
            let (level, target) = match target {
                Target::Return(target) => (None, target),
                Target::Level(level) => (Some(level), support.quantile(level)),
            };
            let promise = Promise::exactly(f64::NAN, target);
            return Some(Promised { level, target, promise, supported: support.supports(target) });
        };
        let (level, target, within) = match target {
            Target::Level(level) => {
                (level, promises.of_level(level).promise, (0.0..=1.0).contains(&level))
            }
            Target::Return(target) => {
                let level = promises.level_of(target);
                let nearest = promises.of_level(level).promise;
                (level, target, (nearest - target).abs() <= 1e-6 * (1.0 + target.abs()))
            }
        };
        let promise = promises.of_level(level);
        Some(Promised { level: Some(level), target, promise, supported: within })
    }

    /// What is asked for where nobody says: chosen from the data alone. `None` if the policy cannot be asked.
    pub fn offline_target(&self) -> Option<Target> {
        let support = self.support.as_ref()?;
        Some(match &self.levels {
            Some(levels) => Target::Level(levels.promises.offline_level()),
            None => Target::Return(support.offline_target()),
        })
    }

    /// What every level gets, as far as the data says, given how many episodes there were; empty if the policy cannot be asked.
    pub fn outlook(&self, episodes: usize) -> Vec<Outlook> {
        let levels: Vec<f64> = match &self.levels {
            Some(levels) => levels.promises.all().iter().map(|promise| promise.level).collect(),
            None => QUANTILES.to_vec(),
        };
        let of_level = |level: f64| self.outlook_of(Target::Level(level), episodes);
        levels.into_iter().filter_map(of_level).collect()
    }

    /// The same of one target.
    pub fn outlook_of(&self, target: Target, episodes: usize) -> Option<Outlook> {
        let Promised { level, promise, .. } = self.promised(target)?;
        let has_interval = self.levels.is_some();
        let near = self.support.as_ref()?.near(promise.promise);
        Some(Outlook {
            level,
            promise: promise.promise,
            low: has_interval.then_some(promise.low),
            high: has_interval.then_some(promise.high),
            episodes: (near * episodes as f64).round() as usize,
        })
    }

    /// What a sweep asks for.
    pub fn sweep(&self) -> Vec<Target> {
        match (&self.support, &self.levels) {
            (None, _) => Vec::new(),
            (_, Some(levels)) => levels.promises.sweep().into_iter().map(Target::Level).collect(),
            (Some(support), None) => support.sweep().into_iter().map(Target::Return).collect(),
        }
    }
}

impl Policy {
    /// A policy of a network and what there is to know about it.
    pub fn new(card: PolicyCard, network: impl Network + 'static) -> Self {
        Policy { card: Arc::new(card), network: Arc::new(network) }
    }

    /// Everything about it but its weights.
    pub fn card(&self) -> &PolicyCard {
        &self.card
    }

    /// The policy as something that acts.
    pub fn agent(&self) -> Box<dyn Agent> {
        self.network.agent(&self.card)
    }

    /// The same policy with other promises.
    pub(crate) fn with_levels(self, levels: Levels) -> Self {
        let card = PolicyCard { levels: Some(levels), ..(*self.card).clone() };
        Policy { card: Arc::new(card), network: self.network }
    }

    /// Parameters of the distributions over actions at every step of some logged episodes, when told this all along:
    /// `[steps, outputs]`; `None` for policies that are told nothing.
    pub(crate) fn distributions(
        &self,
        data: &Dataset,
        episodes: &[usize],
        told: f64,
    ) -> Option<Vec<f32>> {
        self.network.distributions(&self.card, data, episodes, told)
    }

    /// The network as plain layers; `None` for policies whose network is no feed-forward one.
    pub(crate) fn feed_forward(&self) -> Option<FeedForward> {
        self.network.feed_forward()
    }

    /// Action values Q(s, ·) of some rows of observations, `[rows, actions]`; `None` for policies that do not know any.
    ///
    /// # Panics
    ///
    /// May panic when an observation is outside its space.
    pub fn action_values(&self, observations: CellsRef<'_>, rows: &[usize]) -> Option<Vec<f32>> {
        self.network.action_values(&self.card, observations, rows)
    }

    /// The bytes of its file.
    pub fn to_safetensors(&self) -> Vec<u8> {
        let card = serde_json::to_string(self.card()).expect("a card can always be written");
        self.network.to_safetensors(KEY, &card)
    }

    /// Writes its file; one that is there is replaced.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        Ok(write_file(path, &self.to_safetensors())?)
    }

    /// Loads a policy from its file, onto a device. The registry knows how its kind is loaded.
    ///
    /// What does not make sense is an error that names the file: weights that are not finite, sizes and ranges that are
    /// impossible, a kind that nobody knows.
    ///
    /// ```no_run
    /// use esper::{Registry, condition::Target, policy::Policy};
    /// use esper_data::{Cells, Seed};
    ///
    /// let device = esper_nn::DeviceName::Cpu.open()?;
    /// let policy = Policy::load("policy.safetensors".as_ref(), &Registry::default(), &device)?;
    /// let mut agent = policy.agent();
    /// agent.begin(0, Target::Return(1.0), Seed::new(0)); // in place 0, asked for a return of 1
    /// let mut actions = Cells::Byte(Vec::new());
    /// agent.act((&[0u8]).into(), &[0], &mut actions)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load(path: &Path, registry: &Registry, device: &Device) -> Result<Self, Error> {
        Self::from_bytes(path, read_file(path)?, registry, device)
    }

    /// The policy in the bytes of a file; `path` is what errors call it.
    pub fn from_bytes(
        path: &Path,
        bytes: Vec<u8>,
        registry: &Registry,
        device: &Device,
    ) -> Result<Self, Error> {
        let file = PolicyFile::parse(path, bytes)?;
        let loader = registry.loader(&file.card.kind).ok_or_else(|| {
            file.problem(format!(
                "it is a policy of kind `{}`, which is not known here",
                file.card.kind
            ))
        })?;
        let network = (loader.load)(&file, device)?;
        Ok(Policy { card: Arc::new(file.card), network })
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Policy({} by {})", self.card.kind, self.card.origin.method)
    }
}

/// A policy's file before its network is made.
pub struct PolicyFile {
    path: PathBuf,
    /// Everything about it but its weights, checked.
    pub card: PolicyCard,
    /// The whole file.
    pub bytes: Vec<u8>,
}

impl PolicyFile {
    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, Error> {
        let problem =
            |problem: String| Error::PolicyFile { path: path.to_owned(), problem, source: None };
        let text = metadata(&bytes, KEY).map_err(|error| in_file(path, error))?;
        let text = text.ok_or_else(|| {
            problem(
                "it is no policy: its metadata has no entry `esper`; train again to make one"
                    .to_owned(),
            )
        })?;
        /// What tells which layout a card has.
        #[derive(Deserialize)]
        struct Layout {
            format: u32,
            version: String,
        }
        let damaged = |error: serde_json::Error| {
            caused(path, format!("its card cannot be read: {error}"), error)
        };
        let Layout { format, version } = serde_json::from_str(&text).map_err(damaged)?;
        if format != FORMAT {
            return Err(problem(format!(
                "it was written by version {version} of esper, with a card of format {format}; this version reads {FORMAT}"
            )));
        }
        let card: PolicyCard = serde_json::from_str(&text).map_err(damaged)?;
        card.check().map_err(|words| problem(format!("its card makes no sense: {words}")))?;
        Ok(PolicyFile { path: path.to_owned(), card, bytes })
    }

    /// Something is wrong with this file.
    pub fn problem(&self, problem: impl Into<String>) -> Error {
        Error::PolicyFile { path: self.path.clone(), problem: problem.into(), source: None }
    }

    /// Something is wrong with this file, because of something else.
    fn caused(&self, problem: String, source: impl Into<BoxedError>) -> Error {
        caused(&self.path, problem, source)
    }

    /// What its kind keeps beside the weights.
    pub fn network<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_value(self.card.network.clone())
            .map_err(|error| self.caused(format!("its network is not described: {error}"), error))
    }

    /// Whether sizes are such as settings allow.
    pub fn check(&self, settings: &impl Settings) -> Result<(), Error> {
        settings.check().map_err(|error| self.caused(error.to_string(), error))
    }

    /// Whether the file has as many numbers as a network of its sizes. To be asked before one is made: sizes that make no
    /// sense would take all memory.
    pub fn expect_parameters(&self, parameters: usize) -> Result<(), Error> {
        let found = stored_numbers(&self.bytes).map_err(|error| in_file(&self.path, error))?;
        if found == parameters {
            return Ok(());
        }
        Err(self.problem(format!(
            "its card describes a network of {parameters} numbers, but it holds {found}"
        )))
    }

    /// The network of a blank one, or why not.
    pub fn fill<M: burn::module::Module>(&self, blank: M) -> Result<M, Error> {
        esper_nn::from_safetensors(blank, &self.bytes).map_err(|error| in_file(&self.path, error))
    }
}

fn in_file(path: &Path, error: StoreError) -> Error {
    caused(path, error.to_string(), error)
}

fn caused(path: &Path, problem: String, source: impl Into<BoxedError>) -> Error {
    Error::PolicyFile { path: path.to_owned(), problem, source: Some(source.into()) }
}
