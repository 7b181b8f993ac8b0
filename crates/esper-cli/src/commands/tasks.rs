//! `esper tasks`: what is built in.

use esper_data::Space;
use esper_eval::text::count;
use esper_tasks::{DatasetSpec, ReferenceReturns, Spaces, Task, WorldError, tasks};
use serde::Serialize;

use crate::output::{Failure, Output, wrapped};

#[derive(Serialize)]
struct TaskDescription {
    name: String,
    aliases: Vec<String>,
    version: u32,
    summary: String,
    observation_space: Space,
    action_space: Space,
    /// Of the first data set.
    steps: u64,
    behaviours: Vec<BehaviourDescription>,
    datasets: Vec<DatasetDescription>,
    /// Options of its world, as in TASK+OPTION=VALUE.
    options: Vec<OptionDescription>,
    /// Returns of a random player and of an expert, by which scores are normalised.
    reference_returns: Option<[f64; 2]>,
}

#[derive(Serialize)]
struct OptionDescription {
    name: String,
    summary: String,
    default: f64,
    range: [f64; 2],
}

#[derive(Serialize)]
struct BehaviourDescription {
    name: String,
    summary: String,
    /// Whether it has a part in the first data set.
    by_default: bool,
}

#[derive(Serialize)]
struct DatasetDescription {
    name: String,
    summary: String,
    steps: u64,
    behaviours: Vec<String>,
}

pub(crate) fn run(output: &Output) -> Result<(), Failure> {
    let tasks: Vec<TaskDescription> =
        tasks().iter().map(describe).collect::<Result<_, _>>().map_err(Failure::error)?;
    output.result(&tasks, || tasks.iter().map(text).collect::<Vec<_>>().join("\n"))
}

fn describe(task: &Task) -> Result<TaskDescription, WorldError> {
    let datasets = task.datasets();
    let usual = &datasets[0];
    let behaviours = task.behaviours().iter().map(|behaviour| BehaviourDescription {
        name: behaviour.name.clone(),
        summary: behaviour.summary.clone(),
        by_default: usual.source.behaviours().any(|name| name == behaviour.name),
    });
    let Spaces { observation, action } = task.spaces()?;
    Ok(TaskDescription {
        name: task.name().to_owned(),
        aliases: task.aliases().to_vec(),
        version: task.version(),
        summary: task.summary().to_owned(),
        observation_space: observation,
        action_space: action,
        steps: usual.steps,
        behaviours: behaviours.collect(),
        datasets: datasets
            .iter()
            .map(|DatasetSpec { name, summary, steps, source }| DatasetDescription {
                name: name.clone(),
                summary: summary.clone(),
                steps: *steps,
                behaviours: source.behaviours().map(str::to_owned).collect(),
            })
            .collect(),
        options: task
            .options()
            .map(|(option, _)| OptionDescription {
                name: option.name.clone(),
                summary: option.summary.clone(),
                default: option.usual,
                range: option.range,
            })
            .collect(),
        reference_returns: task
            .reference_returns()
            .map(|ReferenceReturns { random, expert }| [random, expert]),
    })
}

/// Where the second column begins.
const INDENT: usize = 15;

fn text(task: &TaskDescription) -> String {
    let aliases = match task.aliases.is_empty() {
        true => String::new(),
        false => format!(" (or {})", task.aliases.join(", ")),
    };
    let mut text = format!("{}{aliases}\n  {}\n", task.name, wrapped(&task.summary, 80, 2));
    let mut line = |heading: &str, words: String| {
        text += &format!("  {heading:<12} {}\n", wrapped(&words, 80, INDENT));
    };
    line("observation", task.observation_space.to_string());
    line("action", task.action_space.to_string());
    for (index, dataset) in task.datasets.iter().enumerate() {
        let heading = if index == 0 { "data" } else { "" };
        let DatasetDescription { name, summary, steps, .. } = dataset;
        line(heading, format!("{name}: {} steps, {summary}", count(*steps as usize)));
    }
    for (index, behaviour) in task.behaviours.iter().enumerate() {
        let heading = if index == 0 { "behaviours" } else { "" };
        let extra = if behaviour.by_default { "" } else { " (only when asked for)" };
        line(heading, format!("{}: {}{extra}", behaviour.name, behaviour.summary));
    }
    for (index, option) in task.options.iter().enumerate() {
        let heading = if index == 0 { "options" } else { "" };
        line(heading, format!("{}+{}=VALUE: {}", task.name, option.name, option.summary));
    }
    text
}
