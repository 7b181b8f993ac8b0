//! An experiment: methods and seeds on a task's data or on data that is given, or on shares of it, trained side by side, and
//! evaluated where there is a world.
//!
//! Everything it does is kept in a folder; what is done is not done again.

mod resolved;
mod several;
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esper::Registry;
use esper::methods::Method;
use esper::methods::labels::FromFile;
use esper::policy::PolicyKind;
use esper::settings::{Config, Preset};
use esper_data::Dataset;
use esper_nn::{Device, default_device};
use esper_tasks::{CollectOptions, Replays, Task};

use self::resolved::Resolved;
pub use self::several::{ExperimentRun, Experiments};
use crate::comparison::Comparison;
use crate::error::EvalError;
use crate::observer::Observer;
use crate::results::{LeftOut, Results, RunResults, Scaling, read_json};
use crate::source::Source;
use crate::text::percent;

/// What to compare: a task or data, methods, seeds. [`Experiment::new`] and [`Experiment::on`] make one, what begins with
/// `with_` changes it, in any order.
///
/// ```
/// use esper_eval::Experiment;
///
/// let task = esper_tasks::task("gambling").expect("it is built in");
/// let experiment = Experiment::new(task).with_methods(["esper", "rvs"])?.with_seeds(1);
/// // `experiment.run(folder, &Unobserved)` would do what this command does.
/// assert_eq!(
///     experiment.comparison()?.again().to_string(),
///     "esper run gambling --methods esper,rvs --policy mlp --seeds 1 --preset quick --steps 100000 --episodes 4000"
/// );
/// # Ok::<(), esper_eval::EvalError>(())
/// ```
#[derive(Clone)]
pub struct Experiment {
    source: Source,
    registry: Registry,
    policy: Arc<dyn PolicyKind>,
    preset: Preset,
    first_seed: u64,
    seeds: u64,
    device: Device,
    resume: bool,
    tensorboard: bool,
    memory: Option<u64>,
    offline: bool,
    /// What tells its runs from those of other experiments, in front of their names; may be empty.
    prefix: String,
    // What was asked for, if anything was.
    methods: Option<Vec<Arc<dyn Method>>>,
    labels: Option<PathBuf>,
    document: Option<String>,
    pairs: Vec<String>,
    dataset: Option<String>,
    steps: Option<u64>,
    fractions: Option<Vec<f64>>,
    episodes: Option<usize>,
    /// Who learns by acting, where data is a replay.
    replays: Option<Arc<dyn Replays>>,
}

/// Methods, in the order that they are compared in.
type Methods = Vec<Arc<dyn Method>>;

/// What is compared where nothing is said; with shares of the data the first two.
const METHODS: usize = 3;

/// All settings with a preset's defaults, and what differs for a task, where there is one.
pub fn default_config(
    registry: &Registry,
    preset: Preset,
    task: Option<&Task>,
) -> Result<Config, EvalError> {
    let of_task = task.map_or(Vec::new(), |task| task.settings(preset.name()));
    Ok(registry.config(preset).changed(None, &of_task)?)
}

/// Episodes with each target in the paper.
const PAPER_EPISODES: usize = 100;

/// The data, in an experiment's folder.
pub const DATA: &str = "data.parquet";

/// What a run achieved, in its folder: what is evaluated is not evaluated again.
const EVALUATED: &str = "evaluated.json";

/// What the run of an experiment achieved, if it is one and complete.
pub fn evaluated(run: &Path) -> Option<RunResults> {
    // Damaged, or of another version: it is as if it were not there.
    read_json(run.join(EVALUATED)).ok().filter(|kept: &RunResults| kept.check().is_ok())
}

impl Experiment {
    /// The built-in methods on a task, with the settings of `quick` and three seeds.
    pub fn new(task: &Task) -> Self {
        Self::in_registry(task, Registry::default())
    }

    /// The same with methods of your own: those of a registry, the first three where nothing else is said.
    pub fn in_registry(task: &Task, registry: Registry) -> Self {
        Self::of(Source::Task(Box::new(task.clone())), registry)
    }

    /// The built-in methods on data that is given, and was at a path. The data is not copied; its checksums are kept, so that an
    /// experiment only goes on with the same. Where the data names a built-in task, policies are tried in that world.
    ///
    /// ```
    /// use esper_data::{DatasetBuilder, End};
    /// use esper_eval::{Experiment, Unobserved};
    ///
    /// let mut log = DatasetBuilder::inferring();
    /// for episode in 0..200u8 {
    ///     log.push(&[0u8], &[episode % 2], f32::from(episode % 2))?;
    ///     log.end(&[1u8], End { terminated: true, truncated: false })?;
    /// }
    /// # let folder = tempfile::tempdir()?;
    /// # let folder = folder.path().join("mine");
    /// let results = Experiment::on(log.build()?, "mine.parquet".as_ref())
    ///     .with_methods(["rvs"])?
    ///     .with_settings(None, ["mlp.steps=200"])
    ///     .with_seeds(1)
    ///     .run(&folder, &Unobserved)?;
    /// let method = &results.methods[0];
    /// assert!(method.best_return.is_none(), "nobody can try it");
    /// assert_eq!(method.offline_promise.map(|chosen| chosen.promise), Some(1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on(data: Dataset, path: &Path) -> Self {
        Self::on_in_registry(data, path, Registry::default())
    }

    /// The same with methods of your own.
    pub fn on_in_registry(data: Dataset, path: &Path, registry: Registry) -> Self {
        Self::of(Source::given(data, path), registry)
    }

    fn of(source: Source, registry: Registry) -> Self {
        Experiment {
            source,
            policy: registry.policies()[0].clone(),
            registry,
            preset: Preset::Quick,
            first_seed: 0,
            seeds: 3,
            device: default_device(),
            resume: false,
            tensorboard: false,
            memory: None,
            offline: false,
            prefix: String::new(),
            methods: None,
            labels: None,
            document: None,
            pairs: Vec::new(),
            dataset: None,
            steps: None,
            fractions: None,
            episodes: None,
            replays: None,
        }
    }

    /// The methods that are compared where nothing is said, with shares of the data or without.
    pub fn usual_methods(registry: &Registry, shares: bool) -> &[Arc<dyn Method>] {
        let usual = if shares { METHODS - 1 } else { METHODS };
        &registry.methods()[..usual.min(registry.methods().len())]
    }

    /// Where settings come from. What differs for the task, and as many episodes as go with it, come with that.
    pub fn with_preset(self, preset: Preset) -> Self {
        Experiment { preset, ..self }
    }

    /// Settings that are changed: by a TOML document, then by `key=value` pairs.
    pub fn with_settings<S: Into<String>>(
        mut self,
        document: Option<&str>,
        pairs: impl IntoIterator<Item = S>,
    ) -> Self {
        self.document = document.map(str::to_owned).or(self.document);
        self.pairs.extend(pairs.into_iter().map(Into::into));
        self
    }

    /// These methods, each once.
    pub fn with_methods<S: AsRef<str>>(
        mut self,
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, EvalError> {
        let mut methods: Vec<Arc<dyn Method>> = Vec::new();
        for name in names {
            let method = self.registry.method(name.as_ref())?;
            if methods.iter().all(|other| other.about().name != method.about().name) {
                methods.push(method);
            }
        }
        self.methods = Some(methods);
        Ok(self)
    }

    /// Beside the methods, labels from a file for the very data that is collected.
    pub fn with_labels(self, path: PathBuf) -> Self {
        Experiment { labels: Some(path), ..self }
    }

    /// What is trained on labels.
    pub fn with_policy(mut self, name: &str) -> Result<Self, EvalError> {
        self.policy = self.registry.policy(name)?;
        Ok(self)
    }

    /// Seeds 0, 1, 2, …
    pub fn with_seeds(self, seeds: u64) -> Self {
        Experiment { seeds, ..self }
    }

    /// Seeds from this one on, in place of 0.
    pub(crate) fn with_first_seed(self, first_seed: u64) -> Self {
        Experiment { first_seed, ..self }
    }

    /// Another data set of the task.
    pub fn with_dataset(self, name: impl Into<String>) -> Self {
        Experiment { dataset: Some(name.into()), ..self }
    }

    /// At least so many steps of data.
    pub fn with_steps(self, steps: u64) -> Self {
        Experiment { steps: Some(steps), ..self }
    }

    /// The same with each of these shares of the data. Unless methods were asked for, the first two are compared.
    pub fn with_fractions(self, fractions: Vec<f64>) -> Self {
        Experiment { fractions: Some(fractions), ..self }
    }

    /// Episodes with each target.
    pub fn with_episodes(self, episodes: usize) -> Self {
        Experiment { episodes: Some(episodes), ..self }
    }

    /// Who learns by acting, where the data is a replay: nothing here does.
    pub fn with_replays(self, replays: Arc<dyn Replays>) -> Self {
        Experiment { replays: Some(replays), ..self }
    }

    /// Where tensors are.
    pub fn with_device(self, device: Device) -> Self {
        Experiment { device, ..self }
    }

    /// Whether what is in the folder already is gone on with.
    pub fn with_resume(self, resume: bool) -> Self {
        Experiment { resume, ..self }
    }

    /// Whether runs also write event files for TensorBoard.
    pub fn with_tensorboard(self, tensorboard: bool) -> Self {
        Experiment { tensorboard, ..self }
    }

    /// The most bytes of memory that all of it may take; data that is larger stays on disk.
    pub fn with_memory(self, memory: Option<u64>) -> Self {
        Experiment { memory, ..self }
    }

    /// Whether policies are tried in no world, even where there is one.
    pub fn with_offline(self, offline: bool) -> Self {
        Experiment { offline, ..self }
    }

    /// What tells its runs from those of other experiments, in front of their names.
    pub fn with_prefix(self, prefix: impl Into<String>) -> Self {
        Experiment { prefix: prefix.into(), ..self }
    }

    /// Methods that would usually be compared, but cannot learn from the data that is given, and why: nobody asked for them.
    pub fn left_out(&self) -> Result<Vec<LeftOut>, EvalError> {
        Ok(self.resolve()?.left_out)
    }

    /// The methods that were asked for, or else the usual ones that can choose among the actions of the data, and those that cannot.
    fn fitting_methods(&self, shares: bool) -> Result<(Methods, Vec<LeftOut>), EvalError> {
        let usual = Self::usual_methods(&self.registry, shares).to_vec();
        let Source::Given { data, .. } = &self.source else {
            return Ok((self.methods.clone().unwrap_or(usual), Vec::new()));
        };
        let actions = &data.metadata().action_space;
        let (mut fitting, mut left_out) = (Vec::new(), Vec::new());
        for method in self.methods.as_ref().unwrap_or(&usual) {
            match method.check_actions(actions) {
                Ok(()) => fitting.push(method.clone()),
                Err(error) => {
                    left_out.push(LeftOut { method: method.about().name, why: error.to_string() });
                }
            }
        }
        match (left_out.first(), &self.methods) {
            (Some(LeftOut { why, .. }), Some(_)) => {
                let fits = |method: &&Arc<dyn Method>| method.check_actions(actions).is_ok();
                let others = if fitting.is_empty() { &usual } else { &fitting };
                let others: Vec<String> =
                    others.iter().filter(fits).map(|method| method.about().name).collect();
                Err(EvalError::Asked(format!(
                    "{why}; leave it out: --methods {}",
                    others.join(",")
                )))
            }
            _ => Ok((fitting, left_out)),
        }
    }

    /// What is compared, as it is kept.
    pub fn comparison(&self) -> Result<Comparison, EvalError> {
        Ok(self.resolve()?.comparison())
    }

    /// Does what is not done yet, and leaves results in the folder.
    pub fn run(&self, folder: &Path, observer: &dyn Observer) -> Result<Results, EvalError> {
        let mut scaling = self.run_shares(folder, observer)?;
        let last = scaling.fractions.pop().expect("there is at least one share");
        Ok(last.results)
    }

    /// The same, with every share of the data; without shares there is one entry.
    pub fn run_shares(&self, folder: &Path, observer: &dyn Observer) -> Result<Scaling, EvalError> {
        self.resolve()?.run(folder, observer)
    }

    /// What was asked for, checked and made whole.
    fn resolve(&self) -> Result<Resolved<'_>, EvalError> {
        let refused = |words: &str| Err(EvalError::Asked(words.to_owned()));
        if self.seeds == 0 {
            return refused("at least one seed is needed");
        }
        if self.episodes == Some(0) {
            return refused("at least one episode with each target is needed");
        }
        let mut fractions = self.fractions.clone();
        if let Some(fractions) = &mut fractions {
            let is_share = |share: &f64| *share > 0.0 && *share <= 1.0;
            if fractions.is_empty() || !fractions.iter().all(is_share) {
                return refused("shares of the data have to be above 0 and at most 1");
            }
            if self.labels.is_some() {
                return refused("labels are of all of the data; they cannot go with shares of it");
            }
            fractions.sort_by(f64::total_cmp);
            // Two that are called the same would share a folder.
            fractions.dedup_by_key(|fraction| percent(*fraction));
        }
        let (mut methods, left_out) = self.fitting_methods(fractions.is_some())?;
        if let Some(path) = &self.labels {
            methods.push(Arc::new(FromFile { path: path.clone() }));
        }
        if methods.is_empty() {
            return refused("at least one method is needed");
        }
        let defaults = default_config(&self.registry, self.preset, self.source.task())?;
        let config = defaults.changed(self.document.as_deref(), &self.pairs)?;
        let options = CollectOptions {
            dataset: self.dataset.clone(),
            steps: self.steps,
            ..CollectOptions::default()
        };
        let largest = fractions.as_ref().and_then(|all| all.last()).copied().unwrap_or(1.0);
        let (collection, steps) =
            self.source.collection(&options, largest, self.replays.clone())?;
        let world = if self.offline { None } else { self.source.world()? };
        let usual = |world: &Task| match self.preset {
            Preset::Paper => PAPER_EPISODES,
            _ => world.episodes(),
        };
        Ok(Resolved {
            asked: self,
            episodes: world.map_or(0, |world| self.episodes.unwrap_or_else(|| usual(world))),
            world,
            changes: config.changes_from(&defaults),
            steps,
            collection,
            config,
            methods,
            left_out,
            fractions,
        })
    }
}
