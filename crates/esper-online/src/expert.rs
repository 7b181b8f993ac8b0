//! Training a player until it is good enough.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use esper_data::{Moments, Seed};
use esper_eval::{EvalError, Sweep, rollouts};
use esper_nn::Device;
use esper_tasks::Task;

use crate::OnlineError;
use crate::ppo::{Actor, Ppo, PpoConfig, Update};

/// What player to train.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpertPlan {
    /// Stop when fresh episodes return this on average; `None` to go on for all steps.
    pub until: Option<f64>,
    /// Play at most this many steps.
    pub steps: u64,
    /// Fresh episodes that a measurement takes.
    pub episodes: usize,
    /// The numbers of the method.
    pub ppo: PpoConfig,
    /// Decides everything random.
    pub seed: u64,
}

/// A trained player, and what is known about it.
pub struct TrainedExpert {
    /// The player.
    pub actor: Actor,
    /// Steps that it played while it learned.
    pub steps: usize,
    /// How long it learned.
    pub learning: Duration,
    /// What fresh episodes returned on average.
    pub mean_return: f64,
    /// The standard error of that.
    pub stderr: f64,
    /// Whether it is as good as was asked for.
    pub reached: bool,
}

/// How far the training is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// Steps played so far.
    pub steps: usize,
    /// What the last episodes of training returned, once there are enough.
    pub recent_return: Option<f64>,
}

/// Worlds that are played side by side.
const WORLDS: usize = 256;

/// Episodes of training that say how good the policy is, before fresh ones are played.
const RECENT: usize = 2_000;

/// Trains a player of a task by playing. `watch` is told how far it is, and may break off.
pub fn train_expert(
    task: &Task,
    plan: &ExpertPlan,
    device: &Device,
    watch: &dyn Fn(Stage) -> ControlFlow<()>,
) -> Result<TrainedExpert, OnlineError> {
    if plan.episodes == 0 {
        let problem = "at least one fresh episode is needed to measure a player";
        return Err(OnlineError::Learning(esper::Error::Config(problem.to_owned())));
    }
    let seed = Seed::new(plan.seed).named("expert").named(task.name());
    let mut ppo = Ppo::new(task.worlds(WORLDS)?, &plan.ppo, seed, device)?;
    let mut learning = Duration::ZERO;
    let mut recent = Recent::default();
    let mut measurements = 0;
    loop {
        let started = Instant::now();
        let update = ppo.update()?;
        learning += started.elapsed();
        recent.add(&update);
        let stage = Stage { steps: update.steps, recent_return: recent.mean() };
        if watch(stage).is_break() {
            return Err(OnlineError::Stopped);
        }
        let last = update.steps as u64 >= plan.steps;
        let promising = plan.until.is_some_and(|until| recent.mean().is_some_and(|r| r >= until));
        if !(last || promising) {
            continue;
        }
        // Training's own episodes were played by a policy that changed; fresh ones are played by this one.
        measurements += 1;
        let fresh = Sweep {
            targets: vec![0.0],
            episodes: plan.episodes,
            discount: 1.0,
            seed: seed.named("measure").indexed(measurements),
        };
        let actor = ppo.actor();
        let mut worlds = task.worlds(fresh.places())?;
        let played = rollouts(&mut worlds, &mut actor.agent(), &fresh, |_| watch(stage));
        let returns = match played {
            Err(EvalError::Stopped) => return Err(OnlineError::Stopped),
            played => played?.remove(0).returns,
        };
        let moments = Moments::of(returns.iter().copied());
        let reached = plan.until.is_none_or(|until| moments.mean >= until);
        if reached || last {
            return Ok(TrainedExpert {
                actor,
                steps: update.steps,
                learning,
                mean_return: moments.mean,
                stderr: moments.standard_error(),
                reached,
            });
        }
    }
}

/// What the last episodes of training returned.
#[derive(Default)]
struct Recent {
    updates: VecDeque<(usize, f64)>,
    episodes: usize,
    returns: f64,
}

impl Recent {
    fn add(&mut self, update: &Update) {
        self.updates.push_back((update.episodes, update.returns));
        self.episodes += update.episodes;
        self.returns += update.returns;
        while let Some(&(episodes, returns)) = self.updates.front()
            && self.episodes - episodes >= RECENT
        {
            self.updates.pop_front();
            self.episodes -= episodes;
            self.returns -= returns;
        }
    }

    /// Their mean, once there are enough.
    fn mean(&self) -> Option<f64> {
        (self.episodes >= RECENT).then(|| self.returns / self.episodes as f64)
    }
}
