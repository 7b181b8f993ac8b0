//! What `train`, `eval` and `run` share: the options of learning, who watches it, and how it is told.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::ValueEnum;
use esper::agent::Agent;
use esper::config::{Config, Preset};
use esper::policy::Support;
use esper::relabel::Findings;
use esper::run::{DataId, EventFile, Method, Plan, PolicyKind, Record, RunFolder, Summary};
use esper::{Checkpoint, Error, Monitor};
use esper_data::{Dataset, Seed};
use esper_eval::{Evaluation, Sweep, sweep};
use esper_tasks::{BuiltIn, EnvVisitor, Task};

use crate::output::{Failure, leaked, number};
use crate::progress::{Board, interrupted};

/// Options of learning.
#[derive(clap::Args)]
pub(super) struct Settings {
    /// Where the numbers come from: `quick` is sized for two CPU cores, `paper` is the paper's
    #[arg(long, value_enum, default_value_t = PresetName::Quick)]
    pub(super) preset: PresetName,

    /// Change settings by a TOML file, as a run folder's config.toml
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Change one setting, as in cluster.beta_act=0.02; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// What is trained on the labels
    #[arg(long, value_enum, default_value_t = PolicyName::Mlp)]
    policy: PolicyName,

    /// Also write what is measured while training as event files for TensorBoard, into the folder of every run
    #[arg(long)]
    pub(super) tensorboard: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum PresetName {
    Quick,
    Paper,
}

impl PresetName {
    pub(super) fn name(self) -> &'static str {
        match self {
            PresetName::Quick => "quick",
            PresetName::Paper => "paper",
        }
    }

    /// Its numbers for a task, or for data of none.
    pub(super) fn config(self, task: Option<&str>) -> Config {
        match self {
            PresetName::Quick => Config::preset(Preset::Quick, task),
            PresetName::Paper => Config::preset(Preset::Paper, task),
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum PolicyName {
    Mlp,
    Transformer,
}

impl Settings {
    /// The configuration for a task, or for data of none.
    pub(super) fn resolve(&self, task: Option<&str>) -> Result<Config, Failure> {
        let document = match &self.config {
            None => None,
            Some(path) => Some(std::fs::read_to_string(path).map_err(|error| {
                Failure::misuse(format!("cannot read {}: {error}", path.display()))
            })?),
        };
        let config = self.preset.config(task);
        config.changed(document.as_deref(), &self.set).map_err(Failure::misuse)
    }

    pub(super) fn policy(&self) -> PolicyKind {
        match self.policy {
            PolicyName::Mlp => PolicyKind::Mlp,
            PolicyName::Transformer => PolicyKind::Transformer,
        }
    }
}

/// The method of a name.
pub(super) fn parse_method(name: &str) -> Result<Method, String> {
    Method::ALL.into_iter().find(|method| method.name() == name).ok_or_else(|| {
        let known = Method::ALL.map(Method::name).join(", ");
        format!("there is no method of that name; there are {known}")
    })
}

/// Shows a training on a board, keeps it in its folder, and stops when the user or another job says so.
struct Watcher<'a> {
    folder: &'a RunFolder,
    board: &'a Board,
    job: &'a str,
    stop: &'a (dyn Fn() -> bool + Sync),
    events: Option<Mutex<EventFile>>,
}

impl Monitor for Watcher<'_> {
    fn progress(&self, phase: &str, done: usize, total: usize) {
        self.board.show(self.job, phase, done, total);
    }

    fn record(
        &self,
        phase: &str,
        step: usize,
        metrics: &[(&'static str, f64)],
    ) -> Result<(), Error> {
        if let Some(events) = &self.events {
            let mut events = events.lock().unwrap_or_else(PoisonError::into_inner);
            events.add(&Record::new(phase, step, metrics)).map_err(|error| {
                Error::Run(format!(
                    "{}: {error}",
                    self.folder.path().join(EventFile::NAME).display()
                ))
            })?;
        }
        self.folder.record(phase, step, metrics)
    }

    fn stop(&self) -> bool {
        (self.stop)()
    }

    fn keep(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.folder.keep(phase, checkpoint)
    }

    fn kept(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        self.folder.kept(phase)
    }
}

/// Something to be trained, and where.
pub(super) struct Job<'a> {
    pub(super) name: &'a str,
    pub(super) plan: &'a Plan,
    pub(super) path: &'a Path,
    /// Whether what is there already is gone on with.
    pub(super) resume: bool,
    /// Whether TensorBoard is to see it.
    pub(super) tensorboard: bool,
}

impl Job<'_> {
    /// Trains, or finds that it was trained already.
    pub(super) fn train(
        &self,
        data: &Dataset,
        id: &DataId,
        board: &Board,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(RunFolder, Summary), Error> {
        // Before there is a folder: what cannot be trained leaves nothing behind.
        self.plan.check(data)?;
        let started = self.path.join("manifest.json").exists();
        let folder = if self.resume && started {
            RunFolder::resume(self.path, self.plan, id)?
        } else {
            RunFolder::create(self.path, self.plan, id)?
        };
        let events = self.tensorboard.then(|| folder.events()).transpose()?.map(Mutex::new);
        if folder.is_complete() {
            let summary = folder.summary()?;
            return Ok((folder, summary));
        }
        let watcher = Watcher { folder: &folder, board, job: self.name, stop, events };
        let outcome = self.plan.train(data, &watcher)?;
        let summary = folder.complete(data, &outcome)?;
        Ok((folder, summary))
    }
}

/// Whether to go on after so many more episodes.
pub(super) fn go_on(stop: &(dyn Fn() -> bool + Sync)) -> ControlFlow<()> {
    if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Asks the policy in a folder for targets; `None` when it was stopped.
pub(super) fn evaluate(
    folder: &RunFolder,
    task: Task,
    ask: &Ask,
    board: &Board,
    job: &str,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Evaluation>, Error> {
    struct Visitor<'a, W> {
        agent: Box<dyn Agent>,
        support: Option<Support>,
        sweep: Sweep,
        watch: &'a mut W,
    }
    impl<W: FnMut(usize) -> ControlFlow<()>> EnvVisitor for Visitor<'_, W> {
        type Output = Option<Evaluation>;
        fn visit<E: BuiltIn>(self, env: E) -> Self::Output {
            let Visitor { mut agent, support, sweep: asked, watch } = self;
            sweep(&env, agent.as_mut(), support.as_ref(), &asked, watch)
        }
    }
    let (policy, support) = folder.policy()?;
    let (observation_space, action_space) = task.spaces();
    let interface = policy.interface();
    if *interface.observation.space() != observation_space
        || *interface.action.encoding().space() != action_space
    {
        return Err(Error::Run(format!(
            "the policy in {} was trained on other observations or actions than those of {}",
            folder.path().display(),
            task.name()
        )));
    }
    let targets = match (&support, &ask.targets) {
        (None, _) => vec![0.0],
        (Some(_), Some(targets)) => targets.clone(),
        (Some(support), None) => support.sweep(),
    };
    let total = targets.len() * ask.episodes;
    let mut done = 0;
    let mut watch = |episodes: usize| {
        done += episodes;
        board.show(job, "evaluate", done, total);
        go_on(stop)
    };
    let seed = Seed::new(ask.seed).named("evaluate").named(task.name());
    let discount = folder.config()?.discount;
    let sweep = Sweep { targets, episodes: ask.episodes, discount, seed };
    Ok(task.with_env(Visitor { agent: policy.agent(), support, sweep, watch: &mut watch }))
}

/// What a policy is asked for.
pub(super) struct Ask {
    /// These; a sweep over its labels if none are given.
    pub(super) targets: Option<Vec<f64>>,
    pub(super) episodes: usize,
    pub(super) seed: u64,
}

/// Episodes with each target: the paper's number, and more where episodes are short and luck is large.
pub(super) fn default_episodes(task: Task, preset: PresetName) -> usize {
    match (preset, task) {
        (PresetName::Paper, _) => 100,
        (_, Task::Gambling) => 4_000,
        (_, Task::ConnectFour) => 400,
        (_, Task::Twenty48) => 1_000,
    }
}

/// The episodes that a user may ask for.
pub(super) fn parse_episodes(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(episodes @ 1..=1_000_000) => Ok(episodes),
        _ => Err("not a whole number from 1 to 1,000,000".to_owned()),
    }
}

/// Ctrl-C was pressed.
pub(super) fn user_stop() -> bool {
    interrupted()
}

/// What went wrong, as the program says it.
pub(super) fn failure(error: Error, go_on: &str) -> Failure {
    match error {
        Error::Stopped => Failure::paused(go_on),
        Error::Config(problem) => Failure::misuse(problem),
        Error::Data(esper_data::DataError::Exists(path)) => Failure::error(format!(
            "there is a run in {} already; name another folder with --out, or go on with it with --resume",
            path.display()
        )),
        other => Failure::error(other),
    }
}

/// Said of clusters that tell more than is tolerated.
const LEAKS: &str = "more than is tolerated: labels may promise what only luck brings";

/// What is known about labels, in lines.
pub(super) fn findings_text(findings: &Findings, tolerance: f64) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("  {name:<20} {value}\n");
    if let Some(clustering) = &findings.clustering {
        line("leakage", format!("{} of what there is to tell", leaked(&clustering.leakage)));
        if !clustering.leakage.is_clean(tolerance) {
            line("", LEAKS.to_owned());
        }
        line("action loss", number(clustering.action_loss));
        line(
            "clusters",
            format!(
                "{} used, as many as {:.1} equally common ones",
                clustering.clusters_used, clustering.clusters_effective
            ),
        );
        if !findings.rejected.is_empty() {
            let tried = findings.rejected.len() + 1;
            line("clusterings tried", format!("{tried}, the others leaked more"));
        }
    }
    if let Some(calibration) = &findings.calibration {
        let held_out = "off from held-out returns, on average";
        line("labels", format!("{} {held_out}", number(calibration.error)));
    }
    text
}
