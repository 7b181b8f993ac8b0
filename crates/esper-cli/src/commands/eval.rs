//! `esper eval`: ask a trained policy for returns.

use std::path::PathBuf;

use esper::Registry;
use esper::run::RunFolder;
use esper_eval::text::number;
use esper_eval::{Ask, Evaluation, evaluate};
use esper_tasks::task;
use serde::Serialize;

use super::parse::{parse_episodes, parse_target};
use crate::output::{Failure, Output, failure, table};
use crate::progress::{TrainingLine, catch_interrupts};

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
    task: String,
    method: String,
    policy: Option<String>,
    #[serde(flatten)]
    evaluation: Evaluation,
}

/// Said after Ctrl-C.
const STOPPED: &str = "nothing was written";

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let failed = |error: esper::Error| failure(error, STOPPED);
    let folder = RunFolder::open(&arguments.run).map_err(failed)?;
    let manifest = folder.manifest().map_err(failed)?;
    let task = manifest.data.task.as_deref().and_then(task).ok_or_else(|| {
        Failure::error(format!(
            "{} was trained on data of no built-in task, so there is no world to try it in; its labels are in labels.parquet",
            arguments.run.display()
        ))
    })?;
    let policy = folder.policy(&Registry::default(), &output.device()?).map_err(failed)?;
    if arguments.targets.is_some() && policy.card().support.is_none() {
        return Err(Failure::misuse(format!(
            "{} cannot be asked for a return; leave out --targets",
            manifest.method
        )));
    }
    let ask = Ask {
        targets: arguments.targets.clone(),
        episodes: arguments.episodes.unwrap_or_else(|| task.episodes()),
        seed: arguments.seed,
    };
    catch_interrupts();
    let line = TrainingLine::new(output, &manifest.method, vec!["evaluate"]);
    let evaluation = evaluate(&policy, task, &ask, &mut |done, total| line.evaluating(done, total));
    drop(line);
    let evaluation = evaluation.map_err(|error| failure(error, STOPPED))?;
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
        task: task.name().to_owned(),
        method: manifest.method,
        policy: manifest.policy,
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
