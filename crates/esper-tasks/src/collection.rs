//! A task's data: options, checked, and the playing of it.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use esper_data::{DataError, Dataset, Metadata, Seed};

use crate::behaviour::Mixture;
use crate::collect::{CollectError, collect};
use crate::expert::Expert;
use crate::specs::{BehaviourOptions, BehaviourSpec, DatasetSource, DatasetSpec, EXPERT};
use crate::task::Task;
use crate::tasks::listed;
use crate::world::WorldError;

/// What to collect, before it is checked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectOptions {
    /// The data set, if it is to be another than the task's first.
    pub dataset: Option<String>,
    /// At least this many steps, if it is to be others than the data set's; the last episode is played to its end.
    pub steps: Option<u64>,
    /// Decides everything.
    pub seed: u64,
    /// The behaviours to mix, each with the same share of the episodes; empty for those of the data set.
    pub behaviours: Vec<String>,
    /// Epsilon of a behaviour that has one, if it is to be another than its own.
    pub epsilon: Option<f64>,
    /// Who plays as `expert`, if it is to be another than the one that comes with the task.
    pub expert: Option<Expert>,
}

/// Why what was asked for cannot be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The task does not have the data set.
    #[error("{task} has no data set `{asked}`; it has {known}")]
    UnknownDataset {
        /// The task.
        task: String,
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The task does not have the behaviour.
    #[error("{task} has no behaviour `{asked}`; it has {known}")]
    UnknownBehaviour {
        /// The task.
        task: String,
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The data set has no behaviours.
    #[error(
        "nobody plays: the data set `{dataset}` of {task} names no behaviours, and none were asked for"
    )]
    Nobody {
        /// The task.
        task: String,
        /// The data set.
        dataset: String,
    },
    /// A behaviour is named twice.
    #[error("behaviour `{0}` is named twice")]
    Twice(String),
    /// There is nobody to take epsilon.
    #[error("epsilon is for behaviours that take random actions now and then; none of {0} does")]
    NoEpsilon(String),
    /// An expert was given, and does not play.
    #[error(
        "an expert is given, but the behaviour `expert` does not play here; name it among the behaviours"
    )]
    NoExpert,
    /// Epsilon is no probability.
    #[error("epsilon has to be from 0 to 1")]
    Epsilon,
    /// A replay has no behaviours to choose from.
    #[error(
        "the data set `{dataset}` of {task} is what somebody saw while learning; an expert and epsilon are for data that is \
         played"
    )]
    Learned {
        /// The task.
        task: String,
        /// The data set.
        dataset: String,
    },
    /// Nothing was asked for.
    #[error("at least one step has to be collected")]
    NoSteps,
    /// The world cannot be made.
    #[error(transparent)]
    World(#[from] WorldError),
}

/// Somebody who learns by acting, and remembers all of it: where replays come from. Nothing in this crate learns.
pub trait Replays: Send + Sync {
    /// Learns to play a task until fresh episodes return from one number of `until` to the other on average, or for so many
    /// steps, and hands on everything that was seen. `watch` is told how many steps have just been played, and may break off.
    fn replay(
        &self,
        task: &Task,
        until: [f64; 2],
        steps: u64,
        seed: u64,
        metadata: &Metadata,
        watch: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
    ) -> Result<Dataset, CollectError>;
}

/// The name that somebody who learns has among the behaviours of a replay.
pub const LEARNER: &str = "learner";

/// Data that can be collected: options that have been checked.
#[derive(Clone)]
pub struct Collection {
    task: Task,
    steps: u64,
    seed: u64,
    metadata: Metadata,
    episodes: EpisodeSource,
    replays: Option<Arc<dyn Replays>>,
}

impl fmt::Debug for Collection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let behaviours = self.behaviours().join(", ");
        write!(f, "Collection({:?}, {} steps by {behaviours})", self.task, self.steps)
    }
}

/// Where episodes come from.
#[derive(Clone)]
enum EpisodeSource {
    Played { chosen: Vec<(BehaviourSpec, f64)>, players: BehaviourOptions },
    Replay { until: [f64; 2] },
}

impl Collection {
    /// Checks what was asked for.
    pub fn new(task: &Task, options: &CollectOptions) -> Result<Self, OptionsError> {
        let dataset = match &options.dataset {
            None => &task.datasets()[0],
            Some(name) => task.dataset(name).ok_or_else(|| OptionsError::UnknownDataset {
                task: task.name().to_owned(),
                asked: name.clone(),
                known: listed(task.datasets().iter().map(|dataset| dataset.name.as_str())),
            })?,
        };
        let steps = options.steps.unwrap_or(dataset.steps);
        if steps == 0 {
            return Err(OptionsError::NoSteps);
        }
        let episodes = match &dataset.source {
            DatasetSource::Replay { until } if options.behaviours.is_empty() => {
                if options.epsilon.is_some() || options.expert.is_some() {
                    let (task, dataset) = (task.name().to_owned(), dataset.name.clone());
                    return Err(OptionsError::Learned { task, dataset });
                }
                EpisodeSource::Replay { until: *until }
            }
            DatasetSource::Replay { .. } => played(task, options, dataset, &[])?,
            DatasetSource::Played(usual) => played(task, options, dataset, usual)?,
        };
        let spaces = task.spaces()?;
        let metadata = Metadata {
            task: Some(task.name().to_owned()),
            task_version: Some(task.version()),
            seed: Some(options.seed),
            ..Metadata::new(spaces.observation, spaces.action)
        };
        let (task, seed) = (task.clone(), options.seed);
        Ok(Collection { task, steps, seed, metadata, episodes, replays: None })
    }

    /// Who learns, where a data set is a replay.
    pub fn with_replays(self, replays: Option<Arc<dyn Replays>>) -> Self {
        Collection { replays, ..self }
    }

    /// Only a share of the steps: the beginning of what the whole would be.
    pub fn with_share(self, fraction: f64) -> Self {
        Collection { steps: share(self.steps, fraction), ..self }
    }

    /// What the data will mean.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether a data set is what this collects.
    pub fn is_of(&self, data: &Dataset) -> bool {
        // Whole episodes: fewer steps than those of the last one alone would have been enough.
        let least = data.steps() - data.length(data.episodes() - 1);
        let enough = match self.episodes {
            EpisodeSource::Played { .. } => {
                (least as u64 + 1..=data.steps() as u64).contains(&self.steps)
            }
            EpisodeSource::Replay { .. } => data.steps() as u64 <= self.steps,
        };
        enough && data.metadata() == &self.metadata && data.behaviours() == self.behaviours()
    }

    /// The steps that were asked for.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The behaviours' names as the data will have them.
    pub fn behaviours(&self) -> Vec<String> {
        match &self.episodes {
            EpisodeSource::Replay { .. } => vec![LEARNER.to_owned()],
            EpisodeSource::Played { chosen, players } => {
                chosen.iter().map(|(behaviour, _)| behaviour.recorded_name(players)).collect()
            }
        }
    }

    /// Plays whole episodes until there are at least as many steps as were asked for, and hands them on in parts.
    ///
    /// `sink` takes a part at a time, in order, while the next is being played; its error ends the collection. `watch` is told,
    /// from any thread, how many steps have just been played, and may break off.
    pub fn run(
        &self,
        mut sink: impl FnMut(Dataset) -> Result<(), DataError> + Send,
        watch: impl Fn(u64) -> ControlFlow<()> + Sync,
    ) -> Result<(), CollectError> {
        let Collection { task, metadata, steps, seed, .. } = self;
        match &self.episodes {
            EpisodeSource::Played { chosen, players } => {
                let mixture = mixture(chosen, players)?;
                let seed = Seed::new(*seed).named("collect").named(task.name());
                collect(&|| task.worlds(1), &mixture, metadata, seed, *steps, sink, watch)
            }
            EpisodeSource::Replay { until } => {
                let learner = self.replays.as_ref().ok_or(CollectError::NobodyLearns)?;
                Ok(sink(learner.replay(task, *until, *steps, *seed, metadata, &watch)?)?)
            }
        }
    }
}

/// The chosen behaviours in their shares.
fn mixture(
    chosen: &[(BehaviourSpec, f64)],
    players: &BehaviourOptions,
) -> Result<Mixture, WorldError> {
    chosen.iter().try_fold(Mixture::new(), |mixture, (behaviour, weight)| {
        Ok(mixture.with(behaviour.recorded_name(players), *weight, behaviour.make(players)?))
    })
}

/// A share of some steps, at least one.
pub fn share(steps: u64, fraction: f64) -> u64 {
    ((steps as f64 * fraction).round() as u64).max(1)
}

/// Episodes by the behaviours asked for, in equal shares, or by those of the data set when none are.
fn played(
    task: &Task,
    options: &CollectOptions,
    dataset: &DatasetSpec,
    usual: &[(String, f64)],
) -> Result<EpisodeSource, OptionsError> {
    let mut known = task.behaviours().to_vec();
    if let Some(expert) = &options.expert {
        // Every task can be played by an expert that was trained for it.
        let given = BehaviourSpec::expert("the one that was given", expert.clone());
        match known.iter_mut().find(|behaviour| behaviour.name == EXPERT) {
            Some(included) => *included = given,
            None => known.push(given),
        }
    }
    let own: Vec<(String, f64)> =
        options.behaviours.iter().map(|name| (name.clone(), 1.0)).collect();
    let asked = if own.is_empty() { usual } else { &own };
    let mut chosen: Vec<(BehaviourSpec, f64)> = Vec::new();
    for (name, weight) in asked {
        let behaviour = known.iter().find(|behaviour| behaviour.name == *name);
        let behaviour = behaviour.ok_or_else(|| OptionsError::UnknownBehaviour {
            task: task.name().to_owned(),
            asked: name.clone(),
            known: listed(known.iter().map(|behaviour| behaviour.name.as_str())),
        })?;
        if chosen.iter().any(|(other, _)| other.name == *name) {
            return Err(OptionsError::Twice(name.clone()));
        }
        chosen.push((behaviour.clone(), *weight));
    }
    if chosen.is_empty() {
        let (task, dataset) = (task.name().to_owned(), dataset.name.clone());
        return Err(OptionsError::Nobody { task, dataset });
    }
    if options.epsilon.is_some_and(|epsilon| !(0.0..=1.0).contains(&epsilon)) {
        return Err(OptionsError::Epsilon);
    }
    if options.epsilon.is_some() && chosen.iter().all(|(behaviour, _)| behaviour.epsilon.is_none())
    {
        return Err(OptionsError::NoEpsilon(listed(chosen.iter().map(|(b, _)| b.name.as_str()))));
    }
    if options.expert.is_some() && chosen.iter().all(|(behaviour, _)| behaviour.name != EXPERT) {
        return Err(OptionsError::NoExpert);
    }
    Ok(EpisodeSource::Played { chosen, players: BehaviourOptions { epsilon: options.epsilon } })
}
