//! Tasks: a world with a name, who acts in it, its data, and the settings that differ for it. All of it is data.

use std::fmt;
use std::sync::{Arc, LazyLock};

use esper_data::check_name;

use crate::behaviour::{Behaviour, UniformRandom};
use crate::expert::Expert;
use crate::world::{Spaces, World, WorldError};
use crate::worlds::Worlds;
use crate::{connect_four, gambling, twenty48};

/// The tasks that are built in.
pub fn tasks() -> &'static [Task] {
    static TASKS: LazyLock<Vec<Task>> =
        LazyLock::new(|| vec![gambling::task(), connect_four::task(), twenty48::task()]);
    &TASKS
}

/// The built-in task of a name, or of one of its aliases.
pub fn task(name: &str) -> Option<&'static Task> {
    tasks()
        .iter()
        .find(|task| task.name() == name || task.aliases.iter().any(|alias| alias == name))
}

/// Makes a copy of a world.
type MakeWorld = dyn Fn() -> Result<Box<dyn World>, WorldError> + Send + Sync;

/// Makes a behaviour.
type MakeBehaviour =
    dyn Fn(&BehaviourOptions) -> Result<Box<dyn Behaviour>, WorldError> + Send + Sync;

/// A task: a world and everything there is to know about it. Cheap to clone.
///
/// ```
/// use esper_tasks::{DatasetSpec, Task, gambling::Gambling};
///
/// let task = Task::new("my-gamble", || Ok(Box::new(Gambling::default())))
///     .with_summary("The gamble under another name.")
///     .with_dataset(DatasetSpec::new("random", 10_000, ["random"]));
/// assert_eq!(task.spaces().unwrap().action.features(), 3);
/// assert_eq!(task.behaviours()[0].name, "random");
/// ```
#[derive(Clone)]
pub struct Task {
    name: String,
    aliases: Vec<String>,
    version: u32,
    summary: String,
    world: Arc<MakeWorld>,
    behaviours: Vec<BehaviourSpec>,
    /// At least one.
    datasets: Vec<DatasetSpec>,
    /// Whether they were given, or are what every task offers.
    own_datasets: bool,
    settings: Vec<(String, Vec<String>)>,
    episodes: usize,
    expert_return: Option<f64>,
    published: Vec<Published>,
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
    /// At least this many steps.
    pub steps: u64,
    /// The behaviours, each with the same share of the episodes.
    pub behaviours: Vec<String>,
}

/// A result that was published for a task, to stand beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// The method's name.
    pub method: String,
    /// The policy's name; `None` where the method has no choice of one, or the result holds for all.
    pub policy: Option<String>,
    /// The mean of the best return over seeds.
    pub mean: f64,
    /// Its standard deviation over seeds.
    pub std: f64,
}

/// The name of uniformly random play, which every task with a choice among actions offers.
pub(crate) const RANDOM: &str = "random";

/// The name that a trained player has.
pub(crate) const EXPERT: &str = "expert";

/// Episodes that an evaluation plays with each target, where a task does not say.
const EPISODES: usize = 1_000;

/// The steps of a data set where a task does not say.
const STEPS: u64 = 100_000;

impl Task {
    /// A task: its name, and how to make a copy of its world. It offers uniformly random play, where actions can be drawn at
    /// random, and a data set of it.
    ///
    /// # Panics
    ///
    /// When the name cannot be that of a folder ([`check_name`]).
    pub fn new(
        name: impl Into<String>,
        world: impl Fn() -> Result<Box<dyn World>, WorldError> + Send + Sync + 'static,
    ) -> Self {
        let name = name.into();
        check_name(&name).unwrap_or_else(|problem| panic!("{problem}"));
        let world: Arc<MakeWorld> = Arc::new(world);
        let spaces = world.clone();
        let random = BehaviourSpec::new(RANDOM, "every action equally likely", move |_| {
            Ok(Box::new(UniformRandom::over(&spaces()?.spaces().action)?))
        });
        Task {
            name,
            aliases: Vec::new(),
            version: 1,
            summary: String::new(),
            world,
            behaviours: vec![random],
            datasets: vec![DatasetSpec::new(RANDOM, STEPS, [RANDOM]).with_summary("random play")],
            own_datasets: false,
            settings: Vec::new(),
            episodes: EPISODES,
            expert_return: None,
            published: Vec::new(),
        }
    }

    /// Other names that it goes by.
    pub fn with_aliases<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.aliases.extend(names.into_iter().map(Into::into));
        self
    }

    /// The version of its rules, 1 if nothing is said. Data and policies remember it: what changed is another world.
    pub fn with_version(mut self, version: u32) -> Self {
        self.version = version;
        self
    }

    /// What it is and what it shows, in a sentence or two.
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Adds a behaviour after those that are there, random play aside, which stays the last; one of the same name is replaced.
    pub fn with_behaviour(mut self, behaviour: BehaviourSpec) -> Self {
        self.behaviours.retain(|other| other.name != behaviour.name);
        let random = self.behaviours.iter().position(|other| other.name == RANDOM);
        self.behaviours.insert(random.unwrap_or(self.behaviours.len()), behaviour);
        self
    }

    /// Adds a data set. The first is the one that is collected when nothing else is asked for.
    pub fn with_dataset(mut self, dataset: DatasetSpec) -> Self {
        if !std::mem::replace(&mut self.own_datasets, true) {
            self.datasets.clear();
        }
        self.datasets.push(dataset);
        self
    }

    /// Settings (`key=value`) that differ for this task from what a preset has for all.
    pub fn with_settings<S: Into<String>>(
        mut self,
        preset: impl Into<String>,
        settings: impl IntoIterator<Item = S>,
    ) -> Self {
        self.settings.push((preset.into(), settings.into_iter().map(Into::into).collect()));
        self
    }

    /// Episodes with each target that are enough for the luck of this world.
    pub fn with_episodes(mut self, episodes: usize) -> Self {
        self.episodes = episodes;
        self
    }

    /// The mean return at which a player that learns by playing is good enough.
    pub fn with_expert_return(mut self, mean_return: f64) -> Self {
        self.expert_return = Some(mean_return);
        self
    }

    /// Adds a published best return: of a method, with a policy or with any.
    pub fn with_published(
        mut self,
        method: &str,
        policy: Option<&str>,
        mean: f64,
        std: f64,
    ) -> Self {
        let policy = policy.map(str::to_owned);
        self.published.push(Published { method: method.to_owned(), policy, mean, std });
        self
    }

    /// Its name, as the command line takes it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Other names that it goes by.
    pub fn aliases(&self) -> &[String] {
        &self.aliases
    }

    /// The version of its rules.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// What it is and what it shows.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// A copy of its world.
    pub fn world(&self) -> Result<Box<dyn World>, WorldError> {
        (self.world)()
    }

    /// Copies of its world, to be stepped together.
    pub fn worlds(&self, copies: usize) -> Result<Worlds, WorldError> {
        Worlds::new(copies, || self.world())
    }

    /// What its observations and its actions look like, checked.
    pub fn spaces(&self) -> Result<Spaces, WorldError> {
        let spaces = self.world()?.spaces();
        spaces.validate()?;
        Ok(spaces)
    }

    /// The behaviours it offers.
    pub fn behaviours(&self) -> &[BehaviourSpec] {
        &self.behaviours
    }

    /// The data sets it offers, at least one. The first is the one that is collected when nothing else is asked for.
    pub fn datasets(&self) -> &[DatasetSpec] {
        &self.datasets
    }

    /// The data set of a name.
    pub fn dataset(&self, name: &str) -> Option<&DatasetSpec> {
        self.datasets.iter().find(|dataset| dataset.name == name)
    }

    /// Settings (`key=value`) that differ for this task from what a preset has for all.
    pub fn settings(&self, preset: &str) -> Vec<String> {
        let of_preset = self.settings.iter().filter(|(name, _)| name == preset);
        of_preset.flat_map(|(_, settings)| settings.clone()).collect()
    }

    /// Episodes with each target that are enough for the luck of this world.
    pub fn episodes(&self) -> usize {
        self.episodes
    }

    /// The mean return at which a player that learns by playing is good enough.
    pub fn expert_return(&self) -> Option<f64> {
        self.expert_return
    }

    /// The published best return of a method with a policy, if there is one.
    pub fn published(&self, method: &str, policy: Option<&str>) -> Option<&Published> {
        self.published.iter().find(|result| {
            result.method == method
                && result.policy.as_deref().is_none_or(|wanted| Some(wanted) == policy)
        })
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({} v{})", self.name, self.version)
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
        DatasetSpec {
            name: name.into(),
            summary: String::new(),
            steps,
            behaviours: behaviours.into_iter().map(Into::into).collect(),
        }
    }

    /// What it holds.
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }
}
