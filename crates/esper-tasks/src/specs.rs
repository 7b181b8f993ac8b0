//! What a task is described by: options of its world, behaviours, data sets, reference returns, published results.

use std::fmt;
use std::sync::Arc;

use crate::behaviour::Behaviour;
use crate::expert::Expert;
use crate::world::WorldError;

/// Makes a behaviour.
type MakeBehaviour =
    dyn Fn(&BehaviourOptions) -> Result<Box<dyn Behaviour>, WorldError> + Send + Sync;

/// An option of a task's world: a number that it is made with. A value other than the usual one is part of the task's name,
/// `task+option=value`: whatever remembers the name, as data and policies do, remembers the world.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// The value if nothing is said.
    pub usual: f64,
    /// The lowest and the highest value.
    pub range: [f64; 2],
}

/// Returns that scores of a task are normalised by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceReturns {
    /// The mean return of random play: a score of 0.
    pub random: f64,
    /// The mean return of an expert: a score of 100.
    pub expert: f64,
}

impl ReferenceReturns {
    /// Normalised score of a return, as in D4RL: 0 is random play, 100 is an expert.
    ///
    /// ```
    /// let returns = esper_tasks::ReferenceReturns { random: -20.0, expert: 3_180.0 };
    /// assert_eq!(returns.normalised_score(1_580.0), 50.0);
    /// ```
    pub fn normalised_score(&self, achieved: f64) -> f64 {
        100.0 * (achieved - self.random) / (self.expert - self.random)
    }

    /// The return that has a score.
    pub fn achieved(&self, normalised_score: f64) -> f64 {
        self.random + normalised_score / 100.0 * (self.expert - self.random)
    }
}

/// A behaviour that a task offers.
#[derive(Clone)]
pub struct BehaviourSpec {
    /// Its name.
    pub name: String,
    /// What it does.
    pub summary: String,
    /// Epsilon: the share of its actions that are random, unless another is asked for; `None` if it has none to change.
    pub epsilon: Option<f64>,
    make: Arc<MakeBehaviour>,
}

/// Options that behaviours are made with.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct BehaviourOptions {
    /// Epsilon, if it is to be another than the behaviour's own.
    pub epsilon: Option<f64>,
}

/// A data set that a task offers: who plays, and how much.
#[derive(Clone, Debug, PartialEq)]
pub struct DatasetSpec {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub summary: String,
    /// At least this many steps; of a replay, at most.
    pub steps: u64,
    /// Where its episodes come from.
    pub source: DatasetSource,
}

/// Where the episodes of a data set come from.
#[derive(Clone, Debug, PartialEq)]
pub enum DatasetSource {
    /// Behaviours play, each with a share of the episodes in proportion to its weight.
    Played(Vec<(String, f64)>),
    /// Replay: everything that somebody saw who learned by acting, until it returned so much on average.
    Replay {
        /// The mean return at which learning stops: from this to that.
        until: [f64; 2],
    },
}

impl DatasetSource {
    /// The behaviours that play.
    pub fn behaviours(&self) -> impl Iterator<Item = &str> {
        let played = match self {
            DatasetSource::Played(played) => played.as_slice(),
            DatasetSource::Replay { .. } => &[],
        };
        played.iter().map(|(name, _)| name.as_str())
    }
}

/// A result that was published for a task, to stand beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The method's name.
    pub method: String,
    /// The policy's name; `None` where the method has no choice of one, or the result holds for all.
    pub policy: Option<String>,
    /// The data set; `None` for the task's first.
    pub dataset: Option<String>,
    /// The mean of the best return over seeds.
    pub mean: f64,
    /// Its standard deviation over seeds.
    pub std: f64,
}

/// The name of uniformly random play, which every task with a choice among actions offers.
pub(crate) const RANDOM: &str = "random";

/// The name that a trained player has.
pub(crate) const EXPERT: &str = "expert";

impl OptionSpec {
    /// An option: its name, the value if nothing is said, and the lowest and the highest.
    pub fn new(name: impl Into<String>, usual: f64, range: [f64; 2]) -> Self {
        OptionSpec { name: name.into(), summary: String::new(), usual, range }
    }

    /// What it does.
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }
}

impl BehaviourSpec {
    /// A behaviour: its name, what it does, and how to make it.
    pub fn new(
        name: impl Into<String>,
        summary: impl Into<String>,
        make: impl Fn(&BehaviourOptions) -> Result<Box<dyn Behaviour>, WorldError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        BehaviourSpec {
            name: name.into(),
            summary: summary.into(),
            epsilon: None,
            make: Arc::new(make),
        }
    }

    /// It takes a share of random actions, this one if nothing is said.
    pub fn with_epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = Some(epsilon);
        self
    }

    /// A trained player.
    pub(crate) fn expert(summary: impl Into<String>, expert: Expert) -> Self {
        Self::new(EXPERT, summary, move |_| Ok(Box::new(expert.clone())))
    }

    /// Makes the behaviour.
    pub fn make(&self, options: &BehaviourOptions) -> Result<Box<dyn Behaviour>, WorldError> {
        (self.make)(options)
    }

    /// Its name in the data: with its epsilon, unless that is its own.
    pub(crate) fn recorded_name(&self, options: &BehaviourOptions) -> String {
        match (self.epsilon, options.epsilon) {
            (Some(usual), Some(epsilon)) if epsilon != usual => format!("{}({epsilon})", self.name),
            _ => self.name.clone(),
        }
    }
}

impl fmt::Debug for BehaviourSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BehaviourSpec({})", self.name)
    }
}

impl DatasetSpec {
    /// A data set of so many steps by these behaviours, each with the same share of the episodes.
    pub fn new<S: Into<String>>(
        name: impl Into<String>,
        steps: u64,
        behaviours: impl IntoIterator<Item = S>,
    ) -> Self {
        Self::weighted(name, steps, behaviours.into_iter().map(|behaviour| (behaviour, 1.0)))
    }

    /// The same with shares in proportion to weights.
    pub fn weighted<S: Into<String>>(
        name: impl Into<String>,
        steps: u64,
        behaviours: impl IntoIterator<Item = (S, f64)>,
    ) -> Self {
        let played = behaviours.into_iter().map(|(name, weight)| (name.into(), weight));
        let source = DatasetSource::Played(played.collect());
        DatasetSpec { name: name.into(), summary: String::new(), steps, source }
    }

    /// A replay: everything that somebody saw who learned by acting, until it returned from this to that on average, or for
    /// so many steps.
    pub fn replay(name: impl Into<String>, steps: u64, until: [f64; 2]) -> Self {
        let source = DatasetSource::Replay { until };
        DatasetSpec { name: name.into(), summary: String::new(), steps, source }
    }

    /// What it holds.
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }
}
