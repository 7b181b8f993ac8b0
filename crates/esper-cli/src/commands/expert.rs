//! `esper expert`: train a player by playing.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use esper::online::{Actor, Ppo, PpoConfig, Update};
use esper::statistics::mean_and_error;
use esper_data::{PendingFile, Seed};
use esper_eval::{LiveWorlds, Sweep, rollouts};
use esper_tasks::{BuiltIn, EnvVisitor, Task};
use serde::Serialize;

use super::collect::{parse_steps, parse_task};
use super::learning::{failure, go_on, parse_episodes, user_stop};
use crate::output::{Failure, Output, count, number};
use crate::progress::{Progress, catch_interrupts};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper expert twenty48 --until 0.9 --out strong.safetensors\n          \
                  esper collect twenty48 --expert strong.safetensors"
)]
pub(crate) struct Arguments {
    /// The task to learn to play (see `esper tasks`)
    #[arg(value_parser = parse_task)]
    task: Task,

    /// Stop when fresh episodes return this on average, which in twenty48 is the success rate
    /// [default: 0.8 in twenty48; elsewhere go on for all steps]
    #[arg(long, value_name = "RETURN", allow_negative_numbers = true)]
    until: Option<f64>,

    /// Play at most this many steps
    #[arg(long, value_name = "N", value_parser = parse_steps, default_value = "30000000")]
    steps: u64,

    /// Fresh episodes that a measurement takes
    #[arg(long, value_name = "N", value_parser = parse_episodes, default_value = "10000")]
    episodes: usize,

    /// The width of the two hidden layers
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u16).range(1..=4096))]
    hidden: u16,

    /// Everything random follows from this number
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// The file to write [default: TASK-expert.safetensors]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Serialize)]
struct Trained {
    path: String,
    task: &'static str,
    steps: usize,
    seconds: f64,
    steps_per_second: f64,
    episodes: usize,
    mean_return: f64,
    stderr: f64,
}

/// Worlds that are played side by side.
const WORLDS: usize = 256;

/// Episodes of training that say how good the policy is, before fresh ones are played.
const RECENT: usize = 2_000;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let task = arguments.task;
    let default_path = || PathBuf::from(format!("{}-expert.safetensors", task.name()));
    let path = arguments.out.clone().unwrap_or_else(default_path);
    let mut file = PendingFile::create(&path, arguments.force).map_err(Failure::writing)?;
    catch_interrupts();
    let expert = task.with_env(Training { arguments, output })?;
    file.write_all(&expert.actor.to_safetensors())
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
    file.finish().map_err(Failure::writing)?;

    let seconds = expert.learning.as_secs_f64();
    let trained = Trained {
        path: path.display().to_string(),
        task: task.name(),
        steps: expert.steps,
        seconds,
        steps_per_second: expert.steps as f64 / seconds.max(1e-9),
        episodes: arguments.episodes,
        mean_return: expert.mean_return,
        stderr: expert.stderr,
    };
    output.result(&trained, || {
        format!(
            "{}: returns {} ± {} on {} fresh episodes, after {} steps ({} a second)",
            trained.path,
            number(trained.mean_return),
            number(trained.stderr),
            count(trained.episodes),
            count(trained.steps),
            count(trained.steps_per_second as usize)
        )
    })?;
    if !expert.reached {
        return Err(Failure::error(
            "the player is not as good as was asked for; let it play more with --steps",
        ));
    }
    Ok(())
}

/// A trained player, and what is known about it.
struct Expert {
    actor: Actor,
    steps: usize,
    learning: Duration,
    mean_return: f64,
    stderr: f64,
    /// Whether it is as good as was asked for.
    reached: bool,
}

struct Training<'a> {
    arguments: &'a Arguments,
    output: &'a Output,
}

impl EnvVisitor for Training<'_> {
    type Output = Result<Expert, Failure>;

    fn visit<E: BuiltIn>(self, env: E) -> Self::Output {
        let Training { arguments, output } = self;
        let Arguments { task, steps, seed, .. } = *arguments;
        let until = arguments.until.or((task == Task::Twenty48).then_some(0.8));
        let config = PpoConfig { hidden: usize::from(arguments.hidden), ..PpoConfig::default() };
        let seed = Seed::new(seed).named("expert").named(task.name());
        let failed = |error| failure(error, "nothing was written");
        let mut ppo = Ppo::new(LiveWorlds::new(&env, WORLDS), &config, seed).map_err(failed)?;
        let progress = Progress::new(output, format!("expert of {}", task.name()), "steps", steps);
        let mut learning = Duration::ZERO;
        let mut recent = Recent::default();
        let mut measurements = 0;
        loop {
            let started = Instant::now();
            let update = ppo.update().map_err(failed)?;
            learning += started.elapsed();
            recent.add(&update);
            if let Some(mean) = recent.mean() {
                progress.say(format!("returns {mean:.3}"));
            }
            progress.add((WORLDS * config.horizon) as u64);
            if user_stop() {
                return Err(Failure::interrupted());
            }
            let last = update.steps as u64 >= steps;
            let promising = until.is_some_and(|until| recent.mean().is_some_and(|r| r >= until));
            if !(last || promising) {
                continue;
            }
            // Training's own episodes were played by a policy that changed; fresh ones are played by this one.
            measurements += 1;
            let fresh = Sweep {
                targets: vec![0.0],
                episodes: arguments.episodes,
                discount: 1.0,
                seed: seed.named("measure").indexed(measurements),
            };
            let actor = ppo.actor();
            let played = rollouts(&env, &mut actor.agent(), &fresh, |_| go_on(&user_stop));
            let (mean_return, stderr) =
                mean_and_error(&played.ok_or_else(Failure::interrupted)?[0].returns);
            let reached = until.is_none_or(|until| mean_return >= until);
            if reached || last {
                let steps = update.steps;
                return Ok(Expert { actor, steps, learning, mean_return, stderr, reached });
            }
        }
    }
}

/// What the last episodes of training returned.
#[derive(Default)]
struct Recent {
    updates: std::collections::VecDeque<(usize, f64)>,
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
