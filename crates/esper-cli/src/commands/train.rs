//! `esper train`: from a data file to a policy.

use std::path::PathBuf;

use esper::run::{DataId, Method, Plan, Summary};
use esper_tasks::Task;
use serde::Serialize;

use super::learning::{Job, Settings, failure, findings_text, parse_method, user_stop};
use crate::output::{Failure, Output, number};
use crate::progress::{Board, catch_interrupts};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper train gambling.parquet --method esper --seed 1 --out my-run\n          esper eval my-run --targets=-5,-2.5,1"
)]
pub(crate) struct Arguments {
    /// The data set, as `esper collect` writes it
    data: PathBuf,

    /// `esper` labels steps by the average return of their cluster, `rvs` by the return that followed; `cql` learns what
    /// actions are worth, `bc` imitates (the best tenth of the episodes with --set bc.percentile=10)
    #[arg(long, value_parser = parse_method, default_value = "esper", value_name = "M")]
    method: Method,

    #[command(flatten)]
    settings: Settings,

    /// Everything random follows from this number
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// The folder to keep the run in [default: DATA's name, method and seed]
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,

    /// Go on with a run that was stopped; it ends with the same bytes as one that was not
    #[arg(long)]
    resume: bool,
}

/// The JSON of the command.
#[derive(Serialize)]
struct Trained {
    path: String,
    method: &'static str,
    policy: Option<&'static str>,
    seed: u64,
    #[serde(flatten)]
    summary: Summary,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let data = esper_data::read(&arguments.data).map_err(Failure::error)?;
    let id = DataId::of(&data);
    let Arguments { method, settings, seed, .. } = arguments;
    let plan = Plan {
        method: *method,
        policy: settings.policy(),
        config: settings.resolve(id.task.as_deref())?,
        seed: *seed,
    };
    let path = arguments.out.clone().unwrap_or_else(|| {
        let stem = arguments.data.file_stem().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("{stem}-{}-{seed}", method.name()))
    });
    if arguments.resume && !path.exists() {
        return Err(Failure::error(format!("there is no run in {} to go on with", path.display())));
    }
    catch_interrupts();
    let board = Board::new(output);
    let (resume, tensorboard) = (arguments.resume, settings.tensorboard);
    let job = Job { name: method.name(), plan: &plan, path: &path, resume, tensorboard };
    let trained = job.train(&data, &id, &board, &user_stop);
    board.finish(job.name);
    let go_on = format!("go on with the same command and --out {} --resume", path.display());
    let (_, summary) = trained.map_err(|error| failure(error, &go_on))?;
    let trained = Trained {
        path: path.display().to_string(),
        method: method.name(),
        policy: method.has_policy().then(|| plan.policy.name()),
        seed: *seed,
        summary,
    };
    output.result(&trained, || {
        let seconds = number((trained.summary.train_seconds * 10.0).round() / 10.0);
        let mut text = format!("{} in {seconds} s\n\n", trained.path);
        text += &findings_text(&trained.summary.findings, plan.config.leakage.tolerance);
        if id.task.as_deref().and_then(Task::named).is_some() {
            text += &format!("\nSee what it achieves:  esper eval {}\n", trained.path);
        }
        text
    })
}
