//! `esper collect`: play a task and keep the episodes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use esper_data::{Dataset, DatasetWriter, Suspicions, Tally};
use esper_tasks::{CollectError, CollectOptions, Collection, Expert, Task};

use super::parse::{parse_fraction, parse_steps, parse_task};
use super::settings::replays;
use super::summary::{Summary, behaviour_table, warnings_text};
use crate::output::{Failure, Output};
use crate::progress::{Progress, catch_interrupts, go_on};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper collect connect-four --steps 100000 --seed 1 --out games.parquet"
)]
pub(crate) struct Arguments {
    /// The task to play (see `esper tasks`)
    #[arg(value_parser = parse_task)]
    task: &'static Task,

    /// Collect this one of the task's data sets (see `esper tasks`) [default: its first]
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,

    /// Collect at least this many steps; the last episode is played to its end [default: the data set's number]
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

    /// Who plays as the behaviour `expert`: a file that `esper expert` made [default: the one that comes with the task]
    #[arg(long, value_name = "FILE")]
    expert: Option<PathBuf>,

    /// The share of random actions of behaviours that have one [default: their own]
    #[arg(long, value_name = "E")]
    epsilon: Option<f64>,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let task = arguments.task;
    let options = CollectOptions {
        dataset: arguments.dataset.clone(),
        steps: arguments.steps,
        seed: arguments.seed,
        behaviours: arguments.behaviours.clone(),
        epsilon: arguments.epsilon,
        expert: arguments.expert.as_deref().map(|path| read_expert(path, task)).transpose()?,
    };
    let mut collection = Collection::new(task, &options).map_err(Failure::misuse)?;
    if let Some(fraction) = arguments.fraction {
        collection = collection.with_share(fraction);
    }
    collection = collection.with_replays(Some(replays(output)?));
    let default_path = || PathBuf::from(format!("{}.parquet", task.name()));
    let path = arguments.out.clone().unwrap_or_else(default_path);
    let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
    // Before there is a file that Ctrl-C would leave behind.
    catch_interrupts();
    let mut writer = DatasetWriter::create(&path, metadata, &behaviours, arguments.force)
        .map_err(Failure::writing)?;

    let started = Instant::now();
    let (mut tally, mut suspicions) = (Tally::default(), Suspicions::default());
    let progress =
        Progress::new(output, &format!("collecting {}", task.name()), "steps", collection.steps());
    let keep = |part: Dataset| {
        writer.write(&part)?;
        suspicions.add(&part);
        tally.add(&part)
    };
    let watch = |steps| {
        progress.add(steps);
        go_on()
    };
    collection.run(keep, watch).map_err(|error| match error {
        CollectError::Stopped => Failure::paused("nothing was written"),
        other => Failure::error(other),
    })?;
    writer.finish().map_err(Failure::writing)?;
    drop(progress);

    let warnings = suspicions.found();
    let collected = Summary::new(&path, collection.metadata(), &tally, warnings, started.elapsed());
    output.result(&collected, || {
        let (table, warnings) = (behaviour_table(&tally), warnings_text(&collected.warnings));
        format!("{} in {:.1} s\n\n{table}{warnings}", collected.path, collected.seconds)
    })
}

/// The expert in a file.
fn read_expert(path: &Path, task: &Task) -> Result<Expert, Failure> {
    let bytes = esper_data::read_file(path).map_err(Failure::misuse)?;
    let spaces = task.spaces().map_err(Failure::error)?;
    Expert::from_safetensors(&bytes, &spaces)
        .map_err(|error| Failure::misuse(format!("{}: {error}", path.display())))
}
