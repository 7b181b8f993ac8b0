//! A task's data: options, checked, and the playing of it.

use std::ops::ControlFlow;

use esper_data::{DataError, Dataset, Metadata, Seed};

use crate::behaviour::Mixture;
use crate::collect::{CollectError, collect};
use crate::expert::Expert;
use crate::task::{BehaviourOptions, BehaviourSpec, EXPERT, Task, listed};
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
    /// Nothing was asked for.
    #[error("at least one step has to be collected")]
    NoSteps,
    /// The world cannot be made.
    #[error(transparent)]
    World(#[from] WorldError),
}

/// Data that can be collected: options that have been checked.
#[derive(Clone, Debug)]
pub struct Collection {
    task: Task,
    steps: u64,
    players: BehaviourOptions,
    seed: Seed,
    metadata: Metadata,
    chosen: Vec<BehaviourSpec>,
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
        let chosen = choose(task, options, &dataset.behaviours)?;
        if chosen.is_empty() {
            let (task, dataset) = (task.name().to_owned(), dataset.name.clone());
            return Err(OptionsError::Nobody { task, dataset });
        }
        if options.epsilon.is_some_and(|epsilon| !(0.0..=1.0).contains(&epsilon)) {
            return Err(OptionsError::Epsilon);
        }
        if options.epsilon.is_some() && chosen.iter().all(|behaviour| behaviour.epsilon.is_none()) {
            return Err(OptionsError::NoEpsilon(listed(chosen.iter().map(|b| b.name.as_str()))));
        }
        if options.expert.is_some() && chosen.iter().all(|behaviour| behaviour.name != EXPERT) {
            return Err(OptionsError::NoExpert);
        }
        let spaces = task.spaces()?;
        let metadata = Metadata {
            task: Some(task.name().to_owned()),
            task_version: Some(task.version()),
            seed: Some(options.seed),
            ..Metadata::new(spaces.observation, spaces.action)
        };
        let seed = Seed::new(options.seed).named("collect").named(task.name());
        let players = BehaviourOptions { epsilon: options.epsilon };
        Ok(Collection { task: task.clone(), steps, players, seed, metadata, chosen })
    }

    /// Only a share of the steps: the beginning of what the whole would be.
    pub fn with_share(self, fraction: f64) -> Self {
        Collection { steps: share(self.steps, fraction), ..self }
    }

    /// What the data will mean.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The steps that were asked for.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The behaviours' names as the data will have them.
    pub fn behaviours(&self) -> Vec<String> {
        self.chosen.iter().map(|behaviour| behaviour.recorded_name(&self.players)).collect()
    }

    /// Plays whole episodes until there are at least as many steps as were asked for, and hands them on in parts.
    ///
    /// `sink` takes a part at a time, in order, while the next is being played; its error ends the collection. `watch` is told,
    /// from any thread, how many steps have just been played, and may break off.
    pub fn run(
        &self,
        sink: impl FnMut(Dataset) -> Result<(), DataError> + Send,
        watch: impl Fn(u64) -> ControlFlow<()> + Sync,
    ) -> Result<(), CollectError> {
        let Collection { task, metadata, seed, steps, .. } = self;
        collect(&|| task.worlds(1), &self.mixture()?, metadata, *seed, *steps, sink, watch)
    }

    /// The chosen behaviours in equal shares.
    fn mixture(&self) -> Result<Mixture, WorldError> {
        self.chosen.iter().try_fold(Mixture::new(), |mixture, behaviour| {
            let name = behaviour.recorded_name(&self.players);
            Ok(mixture.with(name, 1.0, behaviour.make(&self.players)?))
        })
    }
}

/// A share of some steps, at least one.
pub fn share(steps: u64, fraction: f64) -> u64 {
    ((steps as f64 * fraction).round() as u64).max(1)
}

/// The behaviours asked for, or those of the data set when none are.
fn choose(
    task: &Task,
    options: &CollectOptions,
    usual: &[String],
) -> Result<Vec<BehaviourSpec>, OptionsError> {
    let mut known = task.behaviours().to_vec();
    if let Some(expert) = &options.expert {
        // Every task can be played by an expert that was trained for it.
        let given = BehaviourSpec::expert("the one that was given", expert.clone());
        match known.iter_mut().find(|behaviour| behaviour.name == EXPERT) {
            Some(included) => *included = given,
            None => known.push(given),
        }
    }
    let asked = if options.behaviours.is_empty() { usual } else { &options.behaviours };
    let mut chosen: Vec<BehaviourSpec> = Vec::new();
    for name in asked {
        let behaviour = known.iter().find(|behaviour| behaviour.name == *name);
        let behaviour = behaviour.ok_or_else(|| OptionsError::UnknownBehaviour {
            task: task.name().to_owned(),
            asked: name.clone(),
            known: listed(known.iter().map(|behaviour| behaviour.name.as_str())),
        })?;
        if chosen.iter().any(|other| other.name == *name) {
            return Err(OptionsError::Twice(name.clone()));
        }
        chosen.push(behaviour.clone());
    }
    Ok(chosen)
}
