//! `esper train`: from a data file to a policy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use esper::Registry;
use esper::condition::Promise;
use esper::methods::labels::FromFile;
use esper::methods::{Findings, Method};
use esper::run::{DataId, Plan, RunOptions, Summary};
use esper_data::suspicions;
use esper_eval::default_config;
use esper_eval::text::{leaked, number};
use esper_tasks::task;
use serde::Serialize;

use super::parse::{method_help, parse_method};
use super::settings::Settings;
use super::summary::{open_data_within, warnings_text};
use crate::output::{Failure, Output, failure, table, wrapped};
use crate::progress::{TrainingLine, catch_interrupts};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper train gambling.parquet --method esper --seed 1 --out my-run\n          esper eval my-run --targets=-5,-2.5,1"
)]
pub(crate) struct Arguments {
    /// The data set, as `esper collect` and `esper import` write it; or what Minari, D4RL, d3rlpy, RLlib or RLDS wrote; or a table whose
    /// columns are not in doubt
    data: PathBuf,

    #[arg(long, help = method_help(), value_parser = parse_method, default_value = "esper", value_name = "M")]
    method: String,

    /// Take the labels from a Parquet file instead: columns episode, step, label, one row a step, as a run's labels.parquet
    #[arg(long, value_name = "FILE", conflicts_with = "method")]
    labels: Option<PathBuf>,

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
    method: String,
    policy: Option<&'static str>,
    seed: u64,
    leakage: Option<f64>,
    warnings: Vec<String>,
    #[serde(flatten)]
    summary: Summary,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let Arguments { settings, seed, .. } = arguments;
    let beside = arguments.out.as_deref().unwrap_or(Path::new("."));
    let data = open_data_within(&arguments.data, settings.memory, beside, output)?;
    let id = DataId::of(&data);
    let registry = Registry::default();
    let method: Arc<dyn Method> = match &arguments.labels {
        Some(path) => Arc::new(FromFile { path: path.clone() }),
        None => registry.method(&arguments.method).map_err(Failure::misuse)?,
    };
    let task = id.task.as_deref().and_then(task);
    let document = settings.document()?;
    let config = default_config(&registry, settings.preset.into(), task)
        .and_then(|config| Ok(config.changed(document.as_deref(), &settings.pairs())?))
        .map_err(Failure::misuse)?;
    let policy = registry.policy(&settings.policy).map_err(Failure::misuse)?;
    let plan = Plan::of(method, policy, config)
        .with_seed(*seed)
        .with_device(output.device()?)
        .with_memory(settings.memory);
    let name = plan.about().name;
    let path = arguments.out.clone().unwrap_or_else(|| {
        let stem = arguments.data.file_stem().unwrap_or_default().to_string_lossy();
        PathBuf::from(format!("{stem}-{name}-{seed}"))
    });
    if arguments.resume && !path.exists() {
        return Err(Failure::error(format!("there is no run in {} to go on with", path.display())));
    }
    catch_interrupts();
    let options = RunOptions { resume: arguments.resume, tensorboard: settings.tensorboard };
    let line = TrainingLine::new(output, &name, plan.method.phases());
    let trained = plan.train_in(&path, &data, &id, options, &line);
    drop(line);
    let go_on = format!("go on with the same command and --out {} --resume", path.display());
    let (_, summary) = trained.map_err(|error| failure(error, &go_on))?;
    let trained = Trained {
        path: path.display().to_string(),
        method: name,
        policy: plan.policy_name(),
        seed: *seed,
        leakage: summary.findings.clustering.as_ref().map(|clustering| clustering.leakage.mean),
        warnings: suspicions(&data).into_iter().chain(summary.findings.warnings.clone()).collect(),
        summary,
    };
    output.result(&trained, || {
        let seconds = number((trained.summary.train_seconds * 10.0).round() / 10.0);
        let mut text = format!("{} in {seconds} s\n\n", trained.path);
        text += &findings_text(&trained.summary.findings);
        text += &promises_text(&trained.summary);
        let findings = &trained.summary.findings;
        text +=
            &warnings_text(&trained.warnings[..trained.warnings.len() - findings.warnings.len()]);
        if task.is_some() {
            text += &format!("\nSee what it achieves:  esper eval {}", trained.path);
        }
        text += &format!("\nSee what is known of it:  esper report {}\n", trained.path);
        text
    })
}

/// What levels promise, in lines; nothing where no levels are told.
fn promises_text(summary: &Summary) -> String {
    if summary.promises.is_empty() {
        return String::new();
    }
    let mut rows = vec![["level", "promise", "from", "to"].map(str::to_owned).to_vec()];
    let promises = summary.promises.iter().map(|listed| &listed.promise);
    let shown = promises.filter(|promise| {
        let twentieths = (promise.level * 20.0).round() as u32;
        twentieths.is_multiple_of(4) || [1, 19].contains(&twentieths)
    });
    rows.extend(shown.map(|Promise { level, promise, low, high, .. }| {
        vec![number(*level), format!("{promise:.3}"), format!("{low:.3}"), format!("{high:.3}")]
    }));
    let chosen = summary.offline_level.map_or(String::new(), |level| {
        format!("\n  chosen from the data alone: level {}\n", number(level))
    });
    format!("\n{}{chosen}", table(&rows))
}

/// Where a value begins, behind its name.
const INDENT: usize = 23;

/// What is known without the world, in lines.
fn findings_text(findings: &Findings) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        let (width, value) = (INDENT - 3, wrapped(&value, 80, INDENT));
        text += &format!("  {name:<width$} {value}\n");
    };
    if let Some(clustering) = &findings.clustering {
        line("leakage", format!("{} of what there is to tell", leaked(&clustering.leakage)));
        line("action loss", number(clustering.action_loss));
        line(
            "clusters",
            format!(
                "{} used, as many as {:.1} equally common ones",
                clustering.clusters_used, clustering.clusters_effective
            ),
        );
        if !findings.rejected.is_empty() {
            let tried = findings.rejected.len() + 1;
            line("clusterings tried", format!("{tried}, the others leaked more"));
        }
    }
    if let Some(calibration) = &findings.calibration {
        let held_out = "off from held-out returns, on average";
        line("labels", format!("{} {held_out}", number(calibration.error)));
    }
    findings.measures.iter().for_each(|measure| line(&measure.name, number(measure.value)));
    findings.warnings.iter().for_each(|warning| line("warning", warning.clone()));
    text
}
