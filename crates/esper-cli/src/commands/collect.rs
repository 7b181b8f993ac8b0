//! `esper collect`: play a task and keep the episodes.

use std::num::IntErrorKind;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use esper_data::{Dataset, DatasetWriter, Tally};
use esper_tasks::{CollectError, CollectOptions, Collection, Expert, Task};

use super::summary::{Summary, behaviour_table};
use crate::output::{Failure, Output, count};
use crate::progress::{Progress, catch_interrupts, interrupted};

/// The most steps that can be asked for: some tens of gigabytes of file.
const MOST_STEPS: u64 = 1_000_000_000;

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper collect connect-four --steps 100000 --seed 1 --out games.parquet"
)]
pub(crate) struct Arguments {
    /// The task to play (see `esper tasks`)
    #[arg(value_parser = parse_task)]
    task: Task,

    /// Collect at least this many steps; the last episode is played to its end [default: the paper's number]
    #[arg(long, value_name = "N", value_parser = parse_steps, allow_negative_numbers = true)]
    steps: Option<u64>,

    /// Everything random follows from this number; the same seed gives the same file
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// The file to write [default: TASK.parquet]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Let this behaviour play, instead of the task's own mixture; repeat for equal shares of several
    #[arg(long = "behaviour", value_name = "NAME")]
    behaviours: Vec<String>,

    /// Collect only this share of the steps, as in 0.05 or 5%: the beginning of what the whole would be
    #[arg(long, value_name = "SHARE", value_parser = parse_fraction)]
    fraction: Option<f64>,

    /// Who plays as the behaviour `expert`: a file that `esper expert` made [default: the one included for twenty48]
    #[arg(long, value_name = "FILE")]
    expert: Option<PathBuf>,

    /// The share of random moves of the behaviour epsilon-optimal [default: 0.01]
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let task = arguments.task;
    let options = CollectOptions {
        steps: share(
            arguments.steps.unwrap_or(task.default_steps()),
            arguments.fraction.unwrap_or(1.0),
        ),
        seed: arguments.seed,
        behaviours: arguments.behaviours.clone(),
        epsilon: arguments.epsilon,
        expert: arguments.expert.as_deref().map(|path| read_expert(path, task)).transpose()?,
    };
    let collection = Collection::new(task, &options).map_err(Failure::misuse)?;
    let default_path = || PathBuf::from(format!("{}.parquet", task.name()));
    let path = arguments.out.clone().unwrap_or_else(default_path);
    let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
    let mut writer = DatasetWriter::create(&path, metadata, &behaviours, arguments.force)
        .map_err(Failure::writing)?;

    catch_interrupts();
    let started = Instant::now();
    let tally = play(&collection, task, &mut writer, output, "nothing was written")?;
    writer.finish().map_err(Failure::writing)?;

    let collected = Summary::new(&path, collection.metadata(), &tally, started.elapsed());
    output.result(&collected, || {
        let table = behaviour_table(&tally);
        format!("{} in {:.1} s\n\n{table}", collected.path, collected.seconds)
    })
}

/// The expert in a file.
fn read_expert(path: &Path, task: Task) -> Result<Expert, Failure> {
    let bytes = std::fs::read(path)
        .map_err(|error| Failure::misuse(format!("cannot read {}: {error}", path.display())))?;
    let (observation, action) = task.spaces();
    Expert::from_safetensors(&bytes, &observation, &action)
        .map_err(|error| Failure::misuse(format!("{}: {error}", path.display())))
}

/// A share of some steps, at least one.
pub(super) fn share(steps: u64, fraction: f64) -> u64 {
    ((steps as f64 * fraction).round() as u64).max(1)
}

/// A share: 0.05 or 5%. Nothing but percent can be meant by a bare number above one.
pub(super) fn parse_fraction(text: &str) -> Result<f64, String> {
    let (digits, percent) = match text.trim().strip_suffix('%') {
        Some(digits) => (digits.trim_end(), true),
        None => (text.trim(), false),
    };
    let share = digits.parse::<f64>().map(|number| match percent || number > 1.0 {
        true => number / 100.0,
        false => number,
    });
    match share {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err("not a share above 0% and up to 100%, as in 0.05 or 5%".to_owned()),
    }
}

/// Plays the episodes of a collection into a file, with progress. `stopped` is what is said after Ctrl-C.
pub(super) fn play(
    collection: &Collection,
    task: Task,
    writer: &mut DatasetWriter,
    output: &Output,
    stopped: &str,
) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    let label = format!("collecting {}", task.name());
    let progress = Progress::new(output, label, "steps", collection.steps());
    let keep = |part: Dataset| {
        writer.write(&part)?;
        tally.add(&part)
    };
    let watch = |steps| {
        progress.add(steps);
        if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    collection.run(keep, watch).map_err(|error| match error {
        CollectError::Stopped => Failure::paused(stopped),
        CollectError::Sink(error) => Failure::error(error),
    })?;
    Ok(tally)
}

pub(super) fn parse_task(name: &str) -> Result<Task, String> {
    Task::named(name).ok_or_else(|| {
        let known = Task::ALL.map(Task::name).join(", ");
        format!("there is no task of that name; there are {known}")
    })
}

pub(super) fn parse_steps(text: &str) -> Result<u64, String> {
    let too_many = || format!("at most {} steps can be collected", count(MOST_STEPS as usize));
    match text.parse::<u64>() {
        Ok(0) => Err("at least one step is needed".to_owned()),
        Ok(steps @ 1..=MOST_STEPS) => Ok(steps),
        Ok(_) => Err(too_many()),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_many()),
        Err(_) => Err("not a whole number above 0".to_owned()),
    }
}
