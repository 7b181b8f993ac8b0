//! `esper eval`: ask a trained policy for returns.

use std::path::PathBuf;

use esper::Registry;
use esper::condition::{Condition, Target};
use esper::run::RunFolder;
use esper_eval::text::number;
use esper_eval::{Ask, Evaluation, evaluate};
use esper_tasks::task;
use serde::Serialize;

use super::parse::{parse_episodes, parse_level, parse_target};
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

    /// Ask for these levels, from 0 to 1: 0.9 is what is better than nine tenths of all that was seen from the same start
    #[arg(long, value_name = "A,B,C", value_delimiter = ',', value_parser = parse_level, conflicts_with = "targets")]
    levels: Option<Vec<f64>>,

    /// Episodes with each target [default: enough for the task's luck]
    #[arg(long, value_name = "N", value_parser = parse_episodes)]
    episodes: Option<usize>,

    /// Everything random in the episodes follows from this number
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

impl Arguments {
    /// What is asked for, if anything is.
    fn asked(&self) -> Option<Vec<Target>> {
        let returns = self.targets.iter().flatten().map(|&target| Target::Return(target));
        let levels = self.levels.iter().flatten().map(|&level| Target::Level(level));
        let asked: Vec<Target> = returns.chain(levels).collect();
        (!asked.is_empty()).then_some(asked)
    }
}

/// The JSON of the command.
#[derive(Serialize)]
struct Evaluated {
    path: String,
    task: String,
    method: String,
    policy: Option<String>,
    condition: Condition,
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
            "{} was trained on data of no built-in task, so there is no world to try it in; `esper report {}` says what is known of it without one",
            arguments.run.display(),
            arguments.run.display()
        ))
    })?;
    let policy = folder.policy(&Registry::default(), &output.device()?).map_err(failed)?;
    let asked = arguments.asked();
    if asked.is_some() && policy.card().support.is_none() {
        return Err(Failure::misuse(format!(
            "{} cannot be asked for a return; leave out --targets and --levels",
            manifest.method
        )));
    }
    let ask = Ask {
        targets: asked.clone(),
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
        .filter(|entry| !entry.supported && asked.is_some())
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
        condition: policy.card().condition,
        evaluation,
    };
    output.result(&evaluated, || text(&evaluated))
}

fn text(evaluated: &Evaluated) -> String {
    let Evaluated { evaluation, .. } = evaluated;
    let by_level = evaluated.condition != Condition::Return;
    let asked = if by_level { ["level", "promise"] } else { ["", "target"] };
    let heading = [asked[0], asked[1], "achieved", "± stderr", "supported"];
    let shown = usize::from(!by_level);
    let mut rows = vec![heading[shown..].iter().map(|&word| word.to_owned()).collect()];
    rows.extend(evaluation.sweep.iter().map(|entry| {
        let supported = if entry.supported { "yes" } else { "" };
        let level = by_level.then(|| entry.level.map_or("-".to_owned(), number));
        let promised = entry.promise.filter(|_| by_level).or(entry.target);
        let mut row: Vec<String> = level.into_iter().collect();
        row.extend([
            promised.map_or("-".to_owned(), number),
            format!("{:.3}", entry.achieved),
            format!("{:.3}", entry.stderr),
            supported.to_owned(),
        ]);
        row
    }));
    let mut text = format!("{} on {}\n\n{}", evaluated.method, evaluated.task, table(&rows));
    let mut line = |name: &str, value: String| text += &format!("\n  {name:<18} {value}");
    line("best of these", evaluation.best_return.map_or("-".to_owned(), number));
    if let (Some(target), Some(achieved)) = (evaluation.offline_target, evaluation.offline_return) {
        let asked = match evaluation.offline_level {
            Some(level) => format!("level {}, which promises {}", number(level), number(target)),
            None => format!("asked for {}", number(target)),
        };
        line("chosen offline", format!("{} ({asked})", number(achieved)));
    }
    if let Some(error) = evaluation.calibration_error {
        line("calibration error", format!("{} over supported targets", number(error)));
    }
    text
}
