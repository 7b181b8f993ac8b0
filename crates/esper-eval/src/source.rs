//! Where an experiment's data comes from: a task's players, or somebody who gives it.

use std::path::Path;
use std::sync::Arc;

use esper::run::DataId;
use esper_data::Dataset;
use esper_tasks::{CollectOptions, Collection, Replays, Task, task};

use crate::comparison::GivenData;
use crate::error::EvalError;
use crate::evaluate::world_of;

/// Where data comes from.
#[derive(Clone)]
pub(crate) enum Source {
    /// A task's players make it.
    Task(Box<Task>),
    /// It is given.
    Given {
        /// The data.
        data: Dataset,
        /// Which it is.
        given: GivenData,
    },
}

impl Source {
    /// Data that is given, and was at a path.
    pub(crate) fn given(data: Dataset, path: &Path) -> Self {
        let given = GivenData { path: path.to_owned(), id: DataId::of(&data) };
        Source::Given { data, given }
    }

    /// The task that it is of, whatever its version: what differs for the task in settings comes with it.
    pub(crate) fn task(&self) -> Option<&Task> {
        match self {
            Source::Task(task) => Some(task),
            Source::Given { given, .. } => given.id.task.as_deref().and_then(task),
        }
    }

    /// The world that policies can be tried in, if there is one.
    pub(crate) fn world(&self) -> Result<Option<&Task>, EvalError> {
        match self {
            Source::Task(task) => Ok(Some(task)),
            Source::Given { data, .. } => world_of(data.metadata()).map_err(|error| {
                let words = format!(
                    "the world that this data came from cannot be made: {error}; leave it out with --offline (`offline` of the \
                     library)"
                );
                EvalError::Asked(words)
            }),
        }
    }

    /// What was given, if it was.
    pub(crate) fn given_data(&self) -> Option<&GivenData> {
        match self {
            Source::Task(_) => None,
            Source::Given { given, .. } => Some(given),
        }
    }

    /// What is collected, and the steps of all of it; nothing is where data is given.
    pub(crate) fn collection(
        &self,
        options: &CollectOptions,
        share: f64,
        replays: Option<Arc<dyn Replays>>,
    ) -> Result<(Option<Collection>, u64), EvalError> {
        match self {
            Source::Task(task) => {
                let whole = Collection::new(task, options)?;
                let steps = whole.steps();
                Ok((Some(whole.with_share(share).with_replays(replays)), steps))
            }
            Source::Given { .. } if options.dataset.is_some() || options.steps.is_some() => {
                let words = "a data set and a number of steps are of a task's data; of data that is given, shares can be taken";
                Err(EvalError::Asked(words.to_owned()))
            }
            Source::Given { given, .. } => Ok((None, given.id.steps as u64)),
        }
    }
}
