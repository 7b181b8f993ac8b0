//! `esper expert`: train a player by playing.

use std::io::Write;
use std::path::{Path, PathBuf};

use esper::{Checkpoint, Monitor};
use esper_data::{Lock, Metadata, PendingFile, Space, read_file, write_file};
use esper_eval::text::{count, number};
use esper_online::{ExpertPlan, OnlineError, Point, train_expert};
use esper_tasks::{LEARNER, Task};
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

    /// Stop when fresh episodes return this on average, or something from LOW..HIGH [default: what the task says is good
    /// enough; where it says nothing, go on for all steps]
    #[arg(long, value_name = "RETURN", allow_hyphen_values = true, value_parser = parse_until)]
    until: Option<Until>,

    /// Play at most this many steps [default: 30,000,000 with a choice among actions, 5,000,000 with real numbers]
    #[arg(long, value_name = "N", value_parser = parse_steps)]
    steps: Option<u64>,

    /// Fresh episodes that a measurement takes [default: 10,000 with a choice among actions, 100 with real numbers]
    #[arg(long, value_name = "N", value_parser = parse_episodes)]
    episodes: Option<usize>,

    /// Change one setting of proximal policy optimisation (ppo) or soft actor-critic (sac), as in sac.batch=128; repeat for
    /// more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Everything random follows from this number
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// The file to write [default: TASK-expert.safetensors]; its learning curve is written beside it, as .csv
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Also keep everything that was seen while learning, as a data set; for real-valued actions
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// Go on where a training of the same file was stopped
    #[arg(long)]
    resume: bool,

    /// Replace the file if it exists, and begin anew where a training was stopped
    #[arg(long)]
    force: bool,
}

/// The return at which a player is good enough.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Until {
    least: f64,
    most: Option<f64>,
}

/// Parses `0.8` or `900..1200`.
fn parse_until(text: &str) -> Result<Until, String> {
    let number = |text: &str| match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(format!("`{text}` is no number; a return is one, as 0.8, or two, as 900..1200")),
    };
    let until = match text.split_once("..") {
        None => Until { least: number(text)?, most: None },
        Some((least, most)) => Until { least: number(least)?, most: Some(number(most)?) },
    };
    match until.most {
        Some(most) if most < until.least => Err(format!("{most} is less than {}", until.least)),
        _ => Ok(until),
    }
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
    replay: Option<String>,
    curve: Vec<Point>,
}

/// Shows how far a training is, and keeps its checkpoints in a file.
struct Watch<'a> {
    progress: Progress,
    label: &'a str,
    checkpoint: &'a Path,
    resume: bool,
}

impl Monitor for Watch<'_> {
    fn progress(&self, _: &str, done: usize, total: usize) {
        self.progress.set_total(total as u64);
        self.progress.set(done as u64);
    }

    fn record(
        &self,
        _: &str,
        _: usize,
        metrics: &[(&'static str, f64)],
    ) -> Result<(), esper::Error> {
        if let Some((_, mean)) = metrics.iter().find(|(name, _)| *name == "return") {
            self.progress.say(format!("{}, returns {}", self.label, number(*mean)));
        }
        Ok(())
    }

    fn stop(&self) -> bool {
        go_on().is_break()
    }

    fn save_checkpoint(&self, _: &str, checkpoint: &Checkpoint) -> Result<(), esper::Error> {
        Ok(write_file(self.checkpoint, &checkpoint.to_bytes())?)
    }

    fn load_checkpoint(&self, _: &str) -> Result<Option<Checkpoint>, esper::Error> {
        if !self.resume {
            return Ok(None);
        }
        match read_file(self.checkpoint) {
            Ok(bytes) => Checkpoint::from_bytes(self.checkpoint, &bytes).map(Some),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn checkpoint_name(&self, _: &str) -> String {
        self.checkpoint.display().to_string()
    }
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let task = arguments.task;
    let default_path = || PathBuf::from(format!("{}-expert.safetensors", task.name()));
    let path = arguments.out.clone().unwrap_or_else(default_path);
    let checkpoint = path.with_extension("checkpoint");
    if checkpoint.exists() && !arguments.resume && !arguments.force {
        return Err(Failure::misuse(format!(
            "{} is of a training that was stopped; go on with --resume, or begin anew with --force",
            checkpoint.display()
        )));
    }
    // Of the file, and of what is kept beside it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let _lock = match folder.is_none_or(Path::is_dir) {
        true => Some(Lock::beside(&path).map_err(Failure::error)?),
        // That there is no such folder is said below.
        false => None,
    };
    let mut file = PendingFile::create(&path, arguments.force).map_err(Failure::writing)?;
    let usual = ExpertPlan::new(task);
    let plan = ExpertPlan {
        until: arguments.until.map(|until| until.least).or(usual.until),
        at_most: arguments.until.and_then(|until| until.most),
        steps: arguments.steps,
        episodes: arguments.episodes,
        config: usual.config.changed(None, &arguments.set).map_err(Failure::misuse)?,
        seed: arguments.seed,
    };
    let replay_metadata = replay_metadata(arguments)?;
    catch_interrupts();
    let label = format!("expert of {}", task.name());
    let watch = Watch {
        progress: Progress::new(output, &label, "steps", 0),
        label: &label,
        checkpoint: &checkpoint,
        resume: arguments.resume,
    };
    let expert = train_expert(task, &plan, &output.device()?, &watch);
    drop(watch);
    let expert = expert.map_err(|error| match error {
        OnlineError::Stopped => Failure::paused("go on with the same command and --resume"),
        OnlineError::Learning(error) => failure(error, ""),
        other => Failure::error(other),
    })?;
    write_file(&path.with_extension("csv"), curve_csv(&expert.curve).as_bytes())
        .map_err(Failure::writing)?;
    if let (Some(path), Some(metadata), Some(replay)) =
        (&arguments.replay, replay_metadata, &expert.replay)
    {
        let data = replay.to_dataset(metadata, LEARNER).map_err(Failure::error)?;
        data.write(path, arguments.force).map_err(Failure::writing)?;
    }
    // Last: with it the training is complete, and until then it can be gone on with.
    let written = |error| Failure::error(format!("{}: {error}", path.display()));
    file.write_all(&expert.actor.to_safetensors()).map_err(written)?;
    file.finish().map_err(Failure::writing)?;
    if expert.reached {
        // Nothing to be done about one that cannot be removed, and no harm in it.
        let _ = std::fs::remove_file(&checkpoint);
    }

    let seconds = expert.learning.as_secs_f64();
    let trained = Trained {
        path: path.display().to_string(),
        task: task.name(),
        steps: expert.steps,
        seconds,
        steps_per_second: expert.steps as f64 / seconds.max(1e-9),
        episodes: expert.episodes,
        mean_return: expert.mean_return,
        stderr: expert.stderr,
        replay: arguments.replay.as_ref().map(|path| path.display().to_string()),
        curve: expert.curve,
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
            "the player is not as good as was asked for; let it play more with --resume, --force and --steps",
        ));
    }
    Ok(())
}

/// What the data of a replay will mean, if it is to be kept; told before hours are spent.
fn replay_metadata(arguments: &Arguments) -> Result<Option<Metadata>, Failure> {
    let Some(path) = &arguments.replay else { return Ok(None) };
    let spaces = arguments.task.spaces().map_err(Failure::error)?;
    if !matches!(spaces.action, Space::Box { .. }) {
        return Err(Failure::misuse(
            "--replay is for real-valued actions: learning to choose among actions forgets what it saw",
        ));
    }
    if path.exists() && !arguments.force {
        return Err(Failure::misuse(format!(
            "{} exists; choose another name, or replace it with --force",
            path.display()
        )));
    }
    Ok(Some(Metadata {
        task: Some(arguments.task.name().to_owned()),
        task_version: Some(arguments.task.version()),
        seed: Some(arguments.seed),
        ..Metadata::new(spaces.observation, spaces.action)
    }))
}

fn curve_csv(curve: &[Point]) -> String {
    let mut text = String::from("steps,seconds,mean_return\n");
    for Point { steps, seconds, mean_return } in curve {
        text += &format!("{steps},{seconds:.1},{mean_return:.2}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_return_is_a_number_or_two() {
        assert_eq!(parse_until("-0.5"), Ok(Until { least: -0.5, most: None }));
        assert_eq!(parse_until("-3..4.5"), Ok(Until { least: -3.0, most: Some(4.5) }));
        for wrong in ["", "much", "1..", "..1", "2..1", "NaN", "1..inf"] {
            assert!(parse_until(wrong).is_err(), "{wrong}");
        }
    }
}
