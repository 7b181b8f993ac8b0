//! `esper collect`: play a task and keep the episodes.

use std::num::IntErrorKind;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use esper_data::{Dataset, DatasetWriter, Tally};
use esper_tasks::{CollectError, CollectOptions, Collection, Task};

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

    /// The share of random moves of the behaviour epsilon-optimal [default: 0.01]
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let task = arguments.task;
    let options = CollectOptions {
        steps: arguments.steps.unwrap_or(task.default_steps()),
        seed: arguments.seed,
        behaviours: arguments.behaviours.clone(),
        epsilon: arguments.epsilon,
    };
    let collection = Collection::new(task, &options).map_err(Failure::misuse)?;
    let default_path = || PathBuf::from(format!("{}.parquet", task.name()));
    let path = arguments.out.clone().unwrap_or_else(default_path);
    let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
    let mut writer = DatasetWriter::create(&path, metadata, &behaviours, arguments.force)
        .map_err(Failure::writing)?;
    if let Some(note) = task.note() {
        output.note(note);
    }

    catch_interrupts();
    let started = Instant::now();
    let tally = play(&collection, task, &mut writer, output)?;
    writer.finish().map_err(Failure::writing)?;

    let collected = Summary::new(&path, collection.metadata(), &tally, started.elapsed());
    output.result(&collected, || {
        let table = behaviour_table(&tally);
        format!("{} in {:.1} s\n\n{table}", collected.path, collected.seconds)
    })
}

/// Plays the episodes of a collection into a file, with progress.
pub(super) fn play(
    collection: &Collection,
    task: Task,
    writer: &mut DatasetWriter,
    output: &Output,
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
        CollectError::Stopped => Failure::interrupted(),
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
