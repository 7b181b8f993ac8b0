//! Tasks: a world with a name, who acts in it, its data, and the settings that differ for it. All of it is data.

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use esper_data::check_name;

use crate::behaviour::{Behaviour, UniformRandom};
use crate::expert::Expert;
use crate::world::{Spaces, World, WorldError};
use crate::worlds::Worlds;
use crate::{connect_four, gambling, mujoco, twenty48};

/// The tasks that are built in.
pub fn tasks() -> &'static [Task] {
    static TASKS: LazyLock<Vec<Task>> = LazyLock::new(|| {
        let mut tasks = vec![gambling::task(), connect_four::task(), twenty48::task()];
        tasks.extend(mujoco::tasks());
        tasks
    });
    &TASKS
}

/// The built-in task of a name: [`find_task`] without a reason why there is none.
pub fn task(name: &str) -> Option<&'static Task> {
    find_task(name).ok()
}

/// The built-in task of a name, or of one of its aliases. Options of its world follow the name: `hopper+noise=0.5`.
///
/// ```
/// assert_eq!(esper_tasks::find_task("2048")?.name(), "twenty48");
/// assert_eq!(esper_tasks::find_task("hopper+noise=.50")?.name(), "hopper+noise=0.5");
/// assert_eq!(esper_tasks::find_task("hopper+noise=1e-300")?.name(), "hopper+noise=1e-300");
/// assert!(esper_tasks::find_task("hopper+wind=3").is_err());
/// # Ok::<(), esper_tasks::TaskError>(())
/// ```
pub fn find_task(name: &str) -> Result<&'static Task, TaskError> {
    let mut parts = name.split('+');
    let stem = parts.next().unwrap_or_default();
    let named = |task: &&Task| task.name == stem || task.aliases.iter().any(|alias| alias == stem);
    let plain = tasks().iter().find(named).ok_or_else(|| TaskError::Unknown {
        asked: stem.to_owned(),
        known: listed(tasks().iter().map(Task::name)),
    })?;
    let mut task = plain.clone();
    for setting in parts {
        let (option, text) = setting.split_once('=').unwrap_or((setting, ""));
        let value = text.parse().map_err(|_| task.wrong_value(option, text));
        task = task.with_value(option, value?)?;
    }
    if task.name == plain.name {
        return Ok(plain);
    }
    // A process asks for few different ones, so each is kept for good.
    static WITH_VALUES: Mutex<Vec<&'static Task>> = Mutex::new(Vec::new());
    let mut kept = WITH_VALUES.lock().unwrap_or_else(PoisonError::into_inner);
    let known = kept.iter().find(|other| other.name == task.name).copied();
    Ok(known.unwrap_or_else(|| {
        let task = &*Box::leak(Box::new(task));
        kept.push(task);
        task
    }))
}

/// A number in few characters, since it becomes a part of file names.
fn short(value: f64) -> String {
    let plain = value.to_string();
    if plain.len() > 20 { format!("{value:e}") } else { plain }
}

/// Names with commas between them.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// Why there is no task of a name.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// No task has the name.
    #[error("there is no task `{asked}`; there are {known}")]
    Unknown {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The task's world does not have the option.
    #[error("{task} has no option `{asked}`; it has {known}")]
    UnknownOption {
        /// The task.
        task: String,
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// The option does not take the value.
    #[error(
        "`{option}` of {task} is a number from {low} to {high}, as in {task}+{option}={high}; not `{asked}`"
    )]
    Value {
        /// The task.
        task: String,
        /// The option.
        option: String,
        /// What was asked for.
        asked: String,
        /// The lowest value.
        low: f64,
        /// The highest value.
        high: f64,
    },
}

/// Makes a copy of a world, with a value for each of its options.
type MakeWorld = dyn Fn(&[f64]) -> Result<Box<dyn World>, WorldError> + Send + Sync;

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
    /// The stem, and options whose value is not the usual one.
    name: String,
    stem: String,
    aliases: Vec<String>,
    version: u32,
    summary: String,
    world: Arc<MakeWorld>,
    options: Vec<OptionSpec>,
    /// One an option.
    values: Vec<f64>,
    /// If they are known without making a world.
    spaces: Option<Spaces>,
    behaviours: Vec<BehaviourSpec>,
    /// At least one.
    datasets: Vec<DatasetSpec>,
    /// Whether they were given, or are what every task offers.
    own_datasets: bool,
    settings: Vec<(String, Vec<String>)>,
    episodes: usize,
    expert_return: Option<f64>,
    reference_returns: Option<ReferenceReturns>,
    published: Vec<Published>,
}

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
        Self::with_options(name, [], move |_| world())
    }

    /// A task whose world has options: `world` is given one value for each, within its range. Spaces do not depend on them.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_options(
        name: impl Into<String>,
        options: impl IntoIterator<Item = OptionSpec>,
        world: impl Fn(&[f64]) -> Result<Box<dyn World>, WorldError> + Send + Sync + 'static,
    ) -> Self {
        let stem = name.into();
        check_name(&stem).unwrap_or_else(|problem| panic!("{problem}"));
        let options: Vec<OptionSpec> = options.into_iter().collect();
        let values: Vec<f64> = options.iter().map(|option| option.usual).collect();
        let world: Arc<MakeWorld> = Arc::new(world);
        let (usual, spaces) = (values.clone(), world.clone());
        let random = BehaviourSpec::new(RANDOM, "every action equally likely", move |_| {
            Ok(Box::new(UniformRandom::over(&spaces(&usual)?.spaces().action)?))
        });
        Task {
            name: stem.clone(),
            stem,
            aliases: Vec::new(),
            version: 1,
            summary: String::new(),
            world,
            options,
            values,
            spaces: None,
            behaviours: vec![random],
            datasets: vec![DatasetSpec::new(RANDOM, STEPS, [RANDOM]).with_summary("random play")],
            own_datasets: false,
            settings: Vec::new(),
            episodes: EPISODES,
            expert_return: None,
            reference_returns: None,
            published: Vec::new(),
        }
    }

    /// The same with another value of one of its options: another world, with a name of its own. Results that were published
    /// for the usual one are not its own.
    pub fn with_value(mut self, option: &str, value: f64) -> Result<Self, TaskError> {
        let at = self.options.iter().position(|spec| spec.name == option);
        let at = at.ok_or_else(|| self.unknown_option(option))?;
        let [low, high] = self.options[at].range;
        if !(low..=high).contains(&value) {
            return Err(self.wrong_value(option, &value.to_string()));
        }
        self.values[at] = value;
        self.name = self.stem.clone();
        for (option, value) in self.options.iter().zip(&self.values) {
            if *value != option.usual {
                self.name += &format!("+{}={}", option.name, short(*value));
            }
        }
        if self.name != self.stem {
            self.aliases.clear();
            self.published.clear();
        }
        Ok(self)
    }

    /// The error for an option that it does not have.
    fn unknown_option(&self, asked: &str) -> TaskError {
        let known = match self.options.is_empty() {
            true => "none".to_owned(),
            false => listed(self.options.iter().map(|option| option.name.as_str())),
        };
        TaskError::UnknownOption { task: self.stem.clone(), asked: asked.to_owned(), known }
    }

    /// The error for a value that an option does not take.
    fn wrong_value(&self, option: &str, asked: &str) -> TaskError {
        match self.options.iter().find(|spec| spec.name == option) {
            None => self.unknown_option(option),
            Some(spec) => TaskError::Value {
                task: self.stem.clone(),
                option: option.to_owned(),
                asked: asked.to_owned(),
                low: spec.range[0],
                high: spec.range[1],
            },
        }
    }

    /// What its observations and its actions look like, where a world cannot be made everywhere to ask it.
    pub fn with_spaces(mut self, spaces: Spaces) -> Self {
        self.spaces = Some(spaces);
        self
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

    /// Returns that its scores are normalised by.
    pub fn with_reference_returns(mut self, returns: ReferenceReturns) -> Self {
        self.reference_returns = Some(returns);
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

    /// Its name, as the command line takes it, with the values of options that are not the usual ones.
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
        (self.world)(&self.values)
    }

    /// Copies of its world, to be stepped together.
    pub fn worlds(&self, copies: usize) -> Result<Worlds, WorldError> {
        Worlds::new(copies, || self.world())
    }

    /// What its observations and its actions look like, checked.
    pub fn spaces(&self) -> Result<Spaces, WorldError> {
        let spaces = match &self.spaces {
            Some(spaces) => spaces.clone(),
            None => self.world()?.spaces(),
        };
        spaces.validate()?;
        Ok(spaces)
    }

    /// The options of its world, each with its value.
    pub fn options(&self) -> impl Iterator<Item = (&OptionSpec, f64)> {
        self.options.iter().zip(self.values.iter().copied())
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

    /// Returns that its scores are normalised by.
    pub fn reference_returns(&self) -> Option<ReferenceReturns> {
        self.reference_returns
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_part_of_the_name() {
        let name = |asked: &str| find_task(asked).map(|task| task.name().to_owned());
        assert_eq!(name("hopper+noise=0.50").unwrap(), "hopper+noise=0.5");
        assert_eq!(name("Hopper-v5+noise=1").unwrap(), "hopper+noise=1");
        // The usual value is no other world.
        assert_eq!(name("hopper+noise=0").unwrap(), "hopper");
        let noisy = find_task("hopper+noise=0.25").unwrap();
        assert!(std::ptr::eq(noisy, find_task("hopper+noise=0.250").unwrap()));
        assert_eq!(noisy.options().map(|(_, value)| value).collect::<Vec<_>>(), [0.25]);
        assert_eq!(noisy.reference_returns(), find_task("hopper").unwrap().reference_returns());
        assert!(noisy.aliases().is_empty());
    }

    #[test]
    fn what_no_task_has_is_refused_in_words() {
        let problem = |asked: &str| find_task(asked).unwrap_err().to_string();
        assert!(problem("chess").starts_with("there is no task `chess`; there are gambling, "));
        assert_eq!(problem("hopper+wind=3"), "hopper has no option `wind`; it has noise");
        assert_eq!(problem("gambling+noise=1"), "gambling has no option `noise`; it has none");
        for value in ["hopper+noise=-1", "hopper+noise=NaN", "hopper+noise=loud", "hopper+noise"] {
            assert!(problem(value).starts_with("`noise` of hopper is a number from 0 to 10, "));
        }
        assert!(task("hopper+").is_none());
    }

    /// What is published for a world is not said of the same world with more chance.
    #[test]
    fn published_results_are_of_the_usual_world() {
        let wind = OptionSpec::new("wind", 1.0, [0.0, 2.0]);
        let make = |_: &[f64]| Ok(Box::new(gambling::Gambling::default()) as Box<dyn World>);
        let mine = Task::with_options("mine", [wind], make).with_published("esper", None, 1.0, 0.0);
        assert!(mine.published("esper", None).is_some());
        let calm = mine.with_value("wind", 0.0).unwrap();
        assert_eq!((calm.name(), calm.published("esper", None)), ("mine+wind=0", None));
        assert_eq!(calm.with_value("wind", 1.0).unwrap().name(), "mine");
    }

    #[test]
    fn scores_are_normalised_as_in_d4rl() {
        let returns = task("halfcheetah").unwrap().reference_returns().unwrap();
        assert_eq!(returns.normalised_score(-280.18), 0.0);
        assert_eq!(returns.normalised_score(12_135.0), 100.0);
    }
}
