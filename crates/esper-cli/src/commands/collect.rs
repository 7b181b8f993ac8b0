//! `esper collect`: play a task and keep the episodes.

use std::path::PathBuf;
use std::time::Instant;

use esper_data::{BehaviourSummary, DataError, DatasetWriter, Metadata, Statistics};
use esper_tasks::{CollectOptions, DEFAULT_EPSILON, Task};
use serde::Serialize;

use crate::output::{Failure, Output, count, table};
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

    /// The share of random moves of the behaviour epsilon-optimal
    #[arg(long, value_name = "E", default_value_t = DEFAULT_EPSILON, value_parser = parse_epsilon)]
    epsilon: f64,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Collected {
    path: String,
    task: &'static str,
    steps: usize,
    episodes: usize,
    mean_return: f64,
    mean_length: f64,
    seconds: f64,
    behaviours: Vec<BehaviourSummary>,
}

/// Why the collection stopped early.
enum Stopped {
    ByUser,
    ByError(DataError),
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let task = arguments.task;
    let path = arguments
        .out
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{}.parquet", task.name())));
    let options = CollectOptions {
        steps: arguments.steps.unwrap_or(task.default_steps()),
        seed: arguments.seed,
        behaviours: arguments.behaviours.clone(),
        epsilon: arguments.epsilon,
    };
    let metadata = Metadata {
        task: Some(task.name().to_owned()),
        seed: Some(options.seed),
        observation_space: task.observation_space(),
        action_space: task.action_space(),
    };
    let behaviours = task
        .behaviour_names(&options.behaviours)
        .map_err(Failure::misuse)?;
    let behaviours: Vec<String> = behaviours.into_iter().map(str::to_owned).collect();
    let started = Instant::now();
    let mut writer = DatasetWriter::create(&path, &metadata, &behaviours, arguments.force)
        .map_err(|error| match error {
            DataError::Exists(path) => Failure::error(format!(
                "{} already exists; name another file with --out, or replace it with --force",
                path.display()
            )),
            other => Failure::error(format!("cannot write {other}")),
        })?;
    if let Some(note) = task.note() {
        output.note(note);
    }

    catch_interrupts();
    let mut statistics = Statistics::default();
    let mut progress = Progress::new(
        output,
        format!("collecting {}", task.name()),
        "steps",
        options.steps,
    );
    let collected = task.collect(&options, |part| {
        if interrupted() {
            return Err(Stopped::ByUser);
        }
        writer.write(&part).map_err(Stopped::ByError)?;
        statistics.add(&part);
        progress.add(part.steps() as u64);
        Ok(())
    });
    drop(progress);
    match collected {
        Err(unknown) => return Err(Failure::misuse(unknown)),
        Ok(Err(Stopped::ByUser)) => return Err(Failure::interrupted()),
        Ok(Err(Stopped::ByError(error))) => return Err(Failure::error(error)),
        Ok(Ok(())) => {}
    }
    writer.finish().map_err(Failure::error)?;

    let collected = Collected {
        path: path.display().to_string(),
        task: task.name(),
        steps: statistics.steps(),
        episodes: statistics.episodes(),
        mean_return: statistics.returns().mean,
        mean_length: statistics.lengths().mean,
        seconds: started.elapsed().as_secs_f64(),
        behaviours: statistics.behaviours(),
    };
    output.result(&collected, || text(&collected))
}

fn text(collected: &Collected) -> String {
    let all = BehaviourSummary {
        name: "all".to_owned(),
        episodes: collected.episodes,
        steps: collected.steps,
        mean_return: collected.mean_return,
        mean_length: collected.mean_length,
    };
    format!(
        "{} in {:.1} s\n\n{}",
        collected.path,
        collected.seconds,
        behaviour_table(&collected.behaviours, &all)
    )
}

/// Behaviours and their sum, a row each; shared with `esper info`.
pub(crate) fn behaviour_table(behaviours: &[BehaviourSummary], all: &BehaviourSummary) -> String {
    let heading = [
        "behaviour",
        "episodes",
        "steps",
        "mean return",
        "mean length",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(behaviours.iter().chain([all]).map(|behaviour| {
        vec![
            behaviour.name.clone(),
            count(behaviour.episodes),
            count(behaviour.steps),
            format!("{:.3}", behaviour.mean_return),
            format!("{:.2}", behaviour.mean_length),
        ]
    }));
    table(&rows)
}

fn parse_task(name: &str) -> Result<Task, String> {
    Task::named(name).ok_or_else(|| {
        let known = Task::ALL.map(Task::name).join(", ");
        format!("there is no task of that name; there are {known}")
    })
}

fn parse_steps(text: &str) -> Result<u64, String> {
    match text.replace([',', '_'], "").parse() {
        Ok(0) => Err("at least one step is needed".to_owned()),
        Ok(steps @ 1..=MOST_STEPS) => Ok(steps),
        Ok(_) => Err(format!(
            "at most {} steps can be collected",
            count(MOST_STEPS as usize)
        )),
        Err(_) => Err("not a whole number".to_owned()),
    }
}

fn parse_epsilon(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(epsilon) if (0.0..=1.0).contains(&epsilon) => Ok(epsilon),
        _ => Err("not a number from 0 to 1".to_owned()),
    }
}
