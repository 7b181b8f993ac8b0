//! `esper eval`: ask a trained policy for returns.

use std::path::PathBuf;

use esper::run::RunFolder;
use esper_eval::Evaluation;
use esper_tasks::Task;
use serde::Serialize;

use super::learning::{
    Ask, PresetName, default_episodes, evaluate, failure, parse_episodes, user_stop,
};
use crate::output::{Failure, Output, number, table};
use crate::progress::{Board, catch_interrupts};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper eval my-run --targets=-5,-2.5,1 --episodes 1000")]
pub(crate) struct Arguments {
    /// The folder of a run, as `esper train` makes it
    run: PathBuf,

    /// Ask for these returns [default: a sweep over the labels and a little beyond]
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', allow_hyphen_values = true, value_parser = parse_target)]
    targets: Option<Vec<f64>>,

    /// Episodes with each target [default: enough for the task's luck]
    #[arg(long, value_name = "N", value_parser = parse_episodes)]
    episodes: Option<usize>,

    /// Everything random in the episodes follows from this number
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

/// The JSON of the command.
#[derive(Serialize)]
struct Evaluated {
    path: String,
    task: &'static str,
    method: &'static str,
    policy: Option<&'static str>,
    #[serde(flatten)]
    evaluation: Evaluation,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let go_on = "nothing was written";
    let folder = RunFolder::open(&arguments.run).map_err(|error| failure(error, go_on))?;
    let manifest = folder.manifest().map_err(|error| failure(error, go_on))?;
    let named = manifest.data.task.as_deref();
    let task = named.and_then(Task::named).ok_or_else(|| {
        Failure::error(format!(
            "{} was trained on data of no built-in task, so there is no world to try it in; its labels are in labels.parquet",
            arguments.run.display()
        ))
    })?;
    let ask = Ask {
        targets: arguments.targets.clone(),
        episodes: arguments.episodes.unwrap_or_else(|| default_episodes(task, PresetName::Quick)),
        seed: arguments.seed,
    };
    if arguments.targets.is_some() && !manifest.method.has_targets() {
        let method = manifest.method.name();
        return Err(Failure::misuse(format!(
            "{method} cannot be asked for a return; leave out --targets"
        )));
    }
    catch_interrupts();
    let board = Board::new(output);
    let evaluation = evaluate(&folder, task, &ask, &board, manifest.method.name(), &user_stop);
    board.finish(manifest.method.name());
    let evaluation =
        evaluation.map_err(|error| failure(error, go_on))?.ok_or_else(|| Failure::paused(go_on))?;
    let outside: Vec<String> = evaluation
        .sweep
        .iter()
        .filter(|entry| !entry.supported && arguments.targets.is_some())
        .filter_map(|entry| entry.target.map(number))
        .collect();
    if !outside.is_empty() {
        let targets = outside.join(", ");
        output.note(&format!(
            "the data does not speak about {targets}: few episodes start with such a label"
        ));
    }
    let evaluated = Evaluated {
        path: arguments.run.display().to_string(),
        task: task.name(),
        method: manifest.method.name(),
        policy: manifest.method.has_policy().then(|| manifest.policy.name()),
        evaluation,
    };
    output.result(&evaluated, || text(&evaluated))
}

fn text(evaluated: &Evaluated) -> String {
    let Evaluated { evaluation, .. } = evaluated;
    let mut rows =
        vec![["target", "achieved", "± stderr", "supported"].map(str::to_owned).to_vec()];
    rows.extend(evaluation.sweep.iter().map(|entry| {
        let supported = if entry.supported { "yes" } else { "" };
        vec![
            entry.target.map_or("-".to_owned(), number),
            format!("{:.3}", entry.achieved),
            format!("{:.3}", entry.stderr),
            supported.to_owned(),
        ]
    }));
    let mut text = format!("{} on {}\n\n{}", evaluated.method, evaluated.task, table(&rows));
    let mut line = |name: &str, value: String| text += &format!("\n  {name:<18} {value}");
    line("best of these", number(evaluation.best_return));
    if let (Some(target), Some(achieved)) = (evaluation.offline_target, evaluation.offline_return) {
        line("chosen offline", format!("{} (asked for {})", number(achieved), number(target)));
    }
    if let Some(error) = evaluation.calibration_error {
        line("calibration error", format!("{} over supported targets", number(error)));
    }
    text
}

fn parse_target(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(target) if target.is_finite() => Ok(target),
        _ => Err("not a number".to_owned()),
    }
}
