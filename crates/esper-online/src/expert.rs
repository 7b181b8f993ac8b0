//! Training a player until it is good enough.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use esper::condition::Target;
use esper::settings::{Config, Preset, Section};
use esper::{Checkpoint, Monitor, unfit_checkpoint};
use esper_data::{Dataset, Metadata, Moments, Seed, Space};
use esper_eval::{EvalError, Sweep, rollouts};
use esper_nn::Device;
use esper_tasks::{CollectError, LEARNER, Replays, Task};
use serde::{Deserialize, Serialize};

use crate::OnlineError;
use crate::actor::Actor;
use crate::learner::{OnlineLearner, Update, elsewhere, next_part};
use crate::ppo::{Ppo, PpoConfig};
use crate::replay::Replay;
use crate::sac::{Sac, SacConfig};

/// What player to train.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertPlan {
    /// Stop when fresh episodes return this on average; `None` to go on for all steps.
    pub until: Option<f64>,
    /// But no more than this. While somebody learns, what it returns jumps up and down: one that is to be half as good as it
    /// could be has to be looked at more often.
    pub at_most: Option<f64>,
    /// Play at most this many steps; `None` for what is usual.
    pub steps: Option<u64>,
    /// Fresh episodes that a measurement takes; `None` for what is usual.
    pub episodes: Option<usize>,
    /// The numbers of the method: sections `ppo` and `sac`.
    pub config: Config,
    /// Decides everything random.
    pub seed: u64,
}

impl ExpertPlan {
    /// As the task says, with the usual numbers.
    pub fn new(task: &Task) -> Self {
        let sections = [Section::of::<PpoConfig>(), Section::of::<SacConfig>()];
        ExpertPlan {
            until: task.expert_return(),
            at_most: None,
            steps: None,
            episodes: None,
            config: Config::preset(Preset::Quick, &sections),
            seed: 0,
        }
    }
}

impl ExpertPlan {
    /// Whether the last episodes of training say that fresh ones are worth playing.
    fn is_promising(&self, recent: Option<f64>) -> bool {
        let Some((until, recent)) = self.until.zip(recent) else { return false };
        match self.at_most {
            None => recent >= until,
            // The last episodes lag behind what the policy does now: whoever waits for them may miss it.
            Some(at_most) => recent >= until - (at_most - until),
        }
    }

    /// Whether fresh episodes return what was asked for.
    fn is_within(&self, returns: &Moments) -> bool {
        self.until.is_none_or(|until| returns.mean >= until)
            && self.at_most.is_none_or(|at_most| returns.mean <= at_most)
    }
}

/// A trained player, and what is known about it.
pub struct TrainedExpert {
    /// The player.
    pub actor: Actor,
    /// Everything it saw while it learned, if it learned from that.
    pub replay: Option<Replay>,
    /// Steps that it played while it learned.
    pub steps: usize,
    /// How long it learned.
    pub learning: Duration,
    /// Fresh episodes that it was measured on.
    pub episodes: usize,
    /// What fresh episodes returned on average.
    pub mean_return: f64,
    /// The standard error of that.
    pub stderr: f64,
    /// Whether it is as good as was asked for.
    pub reached: bool,
    /// How it got there.
    pub curve: Vec<Point>,
}

/// A point of the learning curve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps played.
    pub steps: usize,
    /// Seconds of learning.
    pub seconds: f64,
    /// What the last episodes of training returned on average.
    pub mean_return: f64,
}

/// What the training is called when its monitor is told of it. Progress counts steps; `return` among what is recorded is that of
/// the last episodes.
pub const PHASE: &str = "expert";

/// Points that a learning curve has at most, if all steps are played.
const POINTS: u64 = 500;

/// The share of a measurement's episodes that a first look takes.
const GLANCE: usize = 10;

/// The least time between two checkpoints, and how many times as long as the last one took.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(10);
const CHECKPOINT_SHARE: u32 = 30;

/// A way of learning, and its usual numbers.
struct Way {
    learner: Learning,
    /// Steps at most.
    steps: u64,
    /// Fresh episodes of a measurement.
    episodes: usize,
}

enum Learning {
    Ppo(Box<Ppo>),
    Sac(Box<Sac>),
}

impl Learning {
    fn get(&mut self) -> &mut dyn OnlineLearner {
        match self {
            Learning::Ppo(ppo) => ppo.as_mut(),
            Learning::Sac(sac) => sac.as_mut(),
        }
    }
}

/// Copies of a world that proximal policy optimisation plays side by side.
const PPO_COPIES: usize = 256;

impl Way {
    /// The one that fits the actions of a task.
    fn of(
        task: &Task,
        plan: &ExpertPlan,
        seed: Seed,
        device: &Device,
    ) -> Result<Self, OnlineError> {
        Ok(match task.spaces()?.action {
            Space::Box { .. } => {
                let config: SacConfig = plan.config.get()?;
                let sac = Sac::new(task.worlds(config.copies)?, &config, seed, device)?;
                Way { learner: Learning::Sac(Box::new(sac)), steps: 5_000_000, episodes: 100 }
            }
            _ => {
                let config: PpoConfig = plan.config.get()?;
                let ppo = Ppo::new(task.worlds(PPO_COPIES)?, &config, seed, device)?;
                Way { learner: Learning::Ppo(Box::new(ppo)), steps: 30_000_000, episodes: 10_000 }
            }
        })
    }
}

/// Trains a player of a task by playing. The monitor follows, may stop it, and keeps checkpoints to go on from.
pub fn train_expert(
    task: &Task,
    plan: &ExpertPlan,
    device: &Device,
    monitor: &dyn Monitor,
) -> Result<TrainedExpert, OnlineError> {
    let seed = Seed::new(plan.seed).named("expert").named(task.name());
    let Way { mut learner, steps, episodes } = Way::of(task, plan, seed, device)?;
    let steps = plan.steps.unwrap_or(steps);
    let episodes = plan.episodes.unwrap_or(episodes);
    if episodes == 0 {
        let problem = "at least one fresh episode is needed to measure a player";
        return Err(OnlineError::Learning(esper::Error::Config(problem.to_owned())));
    }
    let mut course = Course::new(task, plan);
    // A checkpoint is kept after an update, before what follows from it: whether to measure, and to end.
    let mut restored = None;
    if let Some(checkpoint) = monitor.load_checkpoint(PHASE)? {
        course.restore(learner.get(), &checkpoint).map_err(|error| match error {
            OnlineError::Learning(error) => unfit_checkpoint(monitor, PHASE, error).into(),
            other => other,
        })?;
        restored = Some(checkpoint.step);
    }
    let mut kept = Instant::now();
    let mut keeping = Duration::ZERO;
    loop {
        let played = match restored.take() {
            Some(played) => played,
            None => course.update(learner.get(), steps, monitor)?,
        };
        let last = played as u64 >= steps;
        let wait = CHECKPOINT_EVERY.max(keeping * CHECKPOINT_SHARE);
        if monitor.stop() || last || kept.elapsed() > wait {
            kept = Instant::now();
            monitor.save_checkpoint(PHASE, &course.to_checkpoint(learner.get()))?;
            keeping = kept.elapsed();
        }
        if monitor.stop() {
            return Err(OnlineError::Stopped);
        }
        let recent = course.recent_return(learner.get().recent_episodes());
        let due = plan.is_promising(recent) && played >= course.measure_from;
        if !(last || due) {
            continue;
        }
        // Training's own episodes were played by a policy that changed; fresh ones are played by this one. What is not good
        // enough is not asked at once again.
        course.measure_from = played + played / if plan.at_most.is_some() { 100 } else { 50 };
        let actor = learner.get().actor();
        let mut fresh = |episodes: usize| {
            course.measurements += 1;
            let seed = seed.named("measure").indexed(course.measurements);
            measure(task, &actor, episodes, seed, monitor)
        };
        let few = episodes.div_ceil(GLANCE);
        if plan.at_most.is_some() && !last && !plan.is_within(&fresh(few)?) {
            continue;
        }
        let moments = fresh(episodes)?;
        let reached = plan.is_within(&moments);
        if reached || last {
            let replay = match learner {
                Learning::Sac(sac) => Some(sac.into_replay()),
                Learning::Ppo(_) => None,
            };
            return Ok(TrainedExpert {
                actor,
                replay,
                steps: played,
                learning: Duration::from_secs_f64(course.seconds),
                episodes,
                mean_return: moments.mean,
                stderr: moments.standard_error(),
                reached,
                curve: course.curve,
            });
        }
    }
}

/// What fresh episodes of a player return.
fn measure(
    task: &Task,
    actor: &Actor,
    episodes: usize,
    seed: Seed,
    monitor: &dyn Monitor,
) -> Result<Moments, OnlineError> {
    let fresh = Sweep { targets: vec![Target::Return(0.0)], episodes, discount: 1.0, seed };
    let mut worlds = task.worlds(fresh.places())?;
    let watch = |_| match monitor.stop() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    match rollouts(&mut worlds, &mut actor.agent(), &fresh, watch) {
        Err(EvalError::Stopped) => Err(OnlineError::Stopped),
        played => Ok(Moments::of(played?.remove(0).returns.iter().copied())),
    }
}

/// How a training went so far, beside what its learner knows.
#[derive(Default, Serialize, Deserialize)]
struct Course {
    /// What is trained, and with what numbers: a checkpoint is of this training only.
    of: Identity,
    seconds: f64,
    /// The last updates: episodes that ended, and the sum of their returns.
    recent: VecDeque<(usize, f64)>,
    curve: Vec<Point>,
    measurements: u64,
    /// The next measurement is made after this many steps at the earliest.
    measure_from: usize,
}

/// What tells trainings apart. How long they last does not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Identity {
    task: String,
    version: u32,
    seed: u64,
    config: String,
}

impl Course {
    fn new(task: &Task, plan: &ExpertPlan) -> Self {
        let (task, version) = (task.name().to_owned(), task.version());
        let of = Identity { task, version, seed: plan.seed, config: plan.config.to_toml() };
        Course { of, ..Course::default() }
    }

    /// One update of a learner, told to the monitor; gives the steps played so far.
    fn update(
        &mut self,
        learner: &mut dyn OnlineLearner,
        steps: u64,
        monitor: &dyn Monitor,
    ) -> Result<usize, OnlineError> {
        let started = Instant::now();
        let update = learner.update()?;
        update.check()?;
        self.seconds += started.elapsed().as_secs_f64();
        let enough = learner.recent_episodes();
        self.add(&update, enough, steps);
        monitor.progress(PHASE, update.steps, steps as usize);
        let mut measured = update.measured;
        measured.extend(self.recent_return(enough).map(|mean| ("return", mean)));
        monitor.record(PHASE, update.steps, &measured)?;
        Ok(update.steps)
    }

    fn add(&mut self, update: &Update, enough: usize, steps: u64) {
        self.recent.push_back((update.episodes, update.returns));
        let mut episodes: usize = self.recent.iter().map(|(episodes, _)| episodes).sum();
        while let Some(&(first, _)) = self.recent.front()
            && episodes - first >= enough
        {
            self.recent.pop_front();
            episodes -= first;
        }
        let drawn = self.curve.last().map_or(0, |point| point.steps);
        if let Some(mean_return) = self.recent_return(enough)
            && (update.steps - drawn) as u64 >= steps / POINTS
        {
            let (steps, seconds) = (update.steps, self.seconds);
            self.curve.push(Point { steps, seconds, mean_return });
        }
    }

    /// What the last episodes of training returned, once there are enough.
    fn recent_return(&self, enough: usize) -> Option<f64> {
        let episodes: usize = self.recent.iter().map(|(episodes, _)| episodes).sum();
        let returns: f64 = self.recent.iter().map(|(_, returns)| returns).sum();
        (episodes >= enough).then(|| returns / episodes as f64)
    }

    fn to_checkpoint(&self, learner: &dyn OnlineLearner) -> Checkpoint {
        let mut checkpoint = learner.to_checkpoint();
        let course = serde_json::to_vec(self).expect("numbers can always be written");
        checkpoint.parts.insert(0, course);
        checkpoint
    }

    fn restore(
        &mut self,
        learner: &mut dyn OnlineLearner,
        checkpoint: &Checkpoint,
    ) -> Result<(), OnlineError> {
        let mut parts = checkpoint.parts.iter().map(Vec::as_slice);
        let kept: Course =
            serde_json::from_slice(next_part(&mut parts)?).map_err(|_| elsewhere())?;
        if kept.of != self.of {
            return Err(OnlineError::Learning(esper::Error::Run(
                "it is of another training, with another task, seed or settings".to_owned(),
            )));
        }
        *self = kept;
        let parts = checkpoint.parts[1..].to_vec();
        learner.restore(&Checkpoint { step: checkpoint.step, parts })
    }
}

/// Learns by soft actor-critic, with the usual numbers, and remembers all of it: where replays come from.
pub struct LearnedReplays {
    /// Where tensors are.
    pub device: Device,
}

impl Replays for LearnedReplays {
    fn replay(
        &self,
        task: &Task,
        [until, at_most]: [f64; 2],
        steps: u64,
        seed: u64,
        metadata: &Metadata,
        watch: &(dyn Fn(u64) -> ControlFlow<()> + Sync),
    ) -> Result<Dataset, CollectError> {
        let plan = ExpertPlan {
            until: Some(until),
            at_most: Some(at_most),
            steps: Some(steps),
            seed,
            ..ExpertPlan::new(task)
        };
        let monitor = Watching { watch, done: AtomicU64::new(0), stopped: AtomicBool::new(false) };
        let failed = |problem: String| CollectError::Learning(problem.into());
        let expert = match train_expert(task, &plan, &self.device, &monitor) {
            Err(OnlineError::Stopped) => return Err(CollectError::Stopped),
            Err(OnlineError::World(error)) => return Err(error.into()),
            Err(error) => return Err(CollectError::Learning(Box::new(error))),
            Ok(expert) if !expert.reached => {
                return Err(failed(format!(
                    "after {} steps fresh episodes return {:.2}, not {until} to {at_most}",
                    expert.steps, expert.mean_return
                )));
            }
            Ok(expert) => expert,
        };
        let replay = expert.replay.ok_or_else(|| {
            failed(format!(
                "{} has no real-valued actions, and what it saw is forgotten",
                task.name()
            ))
        })?;
        Ok(replay.to_dataset(metadata.clone(), LEARNER)?)
    }
}

/// Tells how many steps have just been played.
struct Watching<'a> {
    watch: &'a (dyn Fn(u64) -> ControlFlow<()> + Sync),
    done: AtomicU64,
    stopped: AtomicBool,
}

impl Monitor for Watching<'_> {
    fn progress(&self, _: &str, done: usize, _: usize) {
        let before = self.done.swap(done as u64, Ordering::Relaxed);
        if (self.watch)((done as u64).saturating_sub(before)).is_break() {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    fn stop(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}
