//! Tasks: a world with a name, who acts in it, its data, and the settings that differ for it. All of it is data.

use std::fmt;
use std::sync::Arc;

use esper_data::check_name;

use crate::behaviour::UniformRandom;
use crate::specs::{BehaviourSpec, DatasetSpec, OptionSpec, Published, RANDOM, ReferenceReturns};
use crate::tasks::{TaskError, listed};
use crate::world::{Spaces, World, WorldError};
use crate::worlds::Worlds;

/// Makes a copy of a world, with a value for each of its options.
type MakeWorld = dyn Fn(&[f64]) -> Result<Box<dyn World>, WorldError> + Send + Sync;

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
    pub(crate) fn wrong_value(&self, option: &str, asked: &str) -> TaskError {
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

    /// Adds a published best return on its first data set: of a method, with a policy or with any.
    pub fn with_published(
        mut self,
        method: &str,
        policy: Option<&str>,
        mean: f64,
        std: f64,
    ) -> Self {
        let (method, policy) = (method.to_owned(), policy.map(str::to_owned));
        self.published.push(Published { method, policy, dataset: None, mean, std });
        self
    }

    /// Adds a published normalised score on one of its data sets; the reference returns have to be there.
    pub fn with_published_score(
        mut self,
        dataset: &str,
        method: &str,
        policy: Option<&str>,
        score: f64,
        std: f64,
    ) -> Self {
        let references = self.reference_returns.expect("scores are relative to reference returns");
        self.published.push(Published {
            method: method.to_owned(),
            policy: policy.map(str::to_owned),
            dataset: Some(dataset.to_owned()),
            mean: references.achieved(score),
            std: references.achieved(std) - references.achieved(0.0),
        });
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

    /// The published best return of a method with a policy on a data set (`None` for the first), if there is one.
    pub fn published(
        &self,
        method: &str,
        policy: Option<&str>,
        dataset: Option<&str>,
    ) -> Option<&Published> {
        let dataset = dataset.unwrap_or(&self.datasets[0].name);
        self.published.iter().find(|result| {
            let on = result.dataset.as_deref().unwrap_or(&self.datasets[0].name);
            result.method == method
                && on == dataset
                && result.policy.as_deref().is_none_or(|wanted| Some(wanted) == policy)
        })
    }
}

/// A number in few characters, since it becomes a part of file names.
fn short(value: f64) -> String {
    let plain = value.to_string();
    if plain.len() > 20 { format!("{value:e}") } else { plain }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({} v{})", self.name, self.version)
    }
}
