//! `esper expert`: train a player by playing.

use std::io::Write;
use std::path::PathBuf;

use esper_data::PendingFile;
use esper_eval::text::{count, number};
use esper_online::{ExpertPlan, OnlineError, PpoConfig, Stage, train_expert};
use esper_tasks::Task;
use serde::Serialize;

use super::parse::{parse_episodes, parse_steps, parse_task};
use crate::output::{Failure, Output, failure};
use crate::progress::{Progress, catch_interrupts, go_on};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper expert twenty48 --until 0.9 --out strong.safetensors\n          \
                  esper collect twenty48 --expert strong.safetensors"
)]
pub(crate) struct Arguments {
    /// The task to learn to play (see `esper tasks`)
    #[arg(value_parser = parse_task)]
    task: &'static Task,

    /// Stop when fresh episodes return this on average [default: what the task says is good enough; where it says nothing,
    /// go on for all steps]
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

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let task = arguments.task;
    let default_path = || PathBuf::from(format!("{}-expert.safetensors", task.name()));
    let path = arguments.out.clone().unwrap_or_else(default_path);
    let mut file = PendingFile::create(&path, arguments.force).map_err(Failure::writing)?;
    let plan = ExpertPlan {
        until: arguments.until.or(task.expert_return()),
        steps: arguments.steps,
        episodes: arguments.episodes,
        ppo: PpoConfig { hidden: usize::from(arguments.hidden), ..PpoConfig::default() },
        seed: arguments.seed,
    };
    catch_interrupts();
    let label = format!("expert of {}", task.name());
    let progress = Progress::new(output, &label, "steps", arguments.steps);
    let watch = |Stage { steps, recent_return }: Stage| {
        progress.set(steps as u64);
        recent_return.iter().for_each(|mean| progress.say(format!("{label}, returns {mean:.3}")));
        go_on()
    };
    let expert = train_expert(task, &plan, &output.device()?, &watch);
    drop(progress);
    let expert = expert.map_err(|error| match error {
        OnlineError::Stopped => Failure::paused("nothing was written"),
        OnlineError::Learning(error) => failure(error, ""),
        other => Failure::error(other),
    })?;
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
