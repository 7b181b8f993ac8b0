//! `esper run`: the whole of it on a task or on data, for several methods and seeds.

use std::path::{Path, PathBuf};
use std::time::Instant;

use esper_eval::text::{count, percent};
use esper_eval::{
    Experiment, LeftOut, MeanStd, NormalisedScores, PAPER_SEEDS, Results, Scaling, ScalingEntry,
};
use esper_report::{PAGE, Report};

use super::parse::{
    Methods, Source, methods_help, parse_episodes, parse_fraction, parse_methods, parse_source,
    parse_steps,
};
use super::promises::{promises_text, shares_text};
use super::settings::{Settings, replays};
use super::summary::open_data_within;
use crate::output::{Failure, Output, Paint, failure, report_failure, table};
use crate::progress::{Board, catch_interrupts, duration};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper run gambling --methods esper,rvs --seeds 3 --out runs/gambling\n          \
                  esper run twenty48 --fractions 5%,10%,25%,50%,100%\n          \
                  esper run my-log.parquet --methods esper,rvs"
)]
pub(crate) struct Arguments {
    /// A task (see `esper tasks`), or a file of data: policies are then tried in the world that it names, or in none, and the
    /// report says what the data alone promises
    #[arg(value_name = "TASK|DATA", value_parser = parse_source)]
    source: Source,

    #[arg(long, help = methods_help(), value_name = "A,B", value_parser = parse_methods)]
    methods: Option<Methods>,

    /// Also train on the labels in a Parquet file (columns episode, step, label, one row a step of the data)
    #[arg(long, value_name = "FILE", conflicts_with = "fractions")]
    labels: Option<PathBuf>,

    #[command(flatten)]
    settings: Settings,

    /// Train and evaluate with this many seeds: 0, 1, 2, …
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Take another of the task's data sets (see `esper tasks`)
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,

    /// Collect at least this many steps [default: the data set's number]
    #[arg(long, value_name = "N", value_parser = parse_steps)]
    steps: Option<u64>,

    /// See what less data gives: compare with each of these shares of the steps, as in 5%,50%,100%
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_fraction)]
    fractions: Option<Vec<f64>>,

    /// Episodes with each target [default: enough for the task's luck]
    #[arg(long, value_name = "N", value_parser = parse_episodes)]
    episodes: Option<usize>,

    /// Try policies in no world, even where there is one: say what the data alone promises
    #[arg(long, alias = "no-world", conflicts_with = "episodes")]
    offline: bool,

    /// The folder to keep everything in [default: runs/ and the name of task or data, with a number if there is one already]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Go on with a comparison that was stopped
    #[arg(long, requires = "out")]
    resume: bool,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let folder = folder(arguments);
    let go_on = match arguments.out {
        Some(_) => "go on with the same command and --resume".to_owned(),
        None => format!("go on with the same command and --out {} --resume", folder.display()),
    };
    let experiment = experiment(arguments, &folder, output)?;
    for LeftOut { method, why } in experiment.left_out().map_err(|error| failure(error, ""))? {
        output.note(&format!("{method} is left out: {why}"));
    }
    catch_interrupts();
    let board = Board::new(output);
    let scaling = experiment.run_shares(&folder, &board);
    drop(board);
    let mut scaling = scaling.map_err(|error| failure(error, &go_on))?;
    let page = folder.join(PAGE);
    Report::read(&folder)
        .and_then(|report| report.write(&page))
        .map_err(|error| report_failure(error, &go_on))?;
    let took =
        || format!("\n{} in {}\n", page.display(), duration(started.elapsed().as_secs_f64()));
    if arguments.fractions.is_some() {
        let in_world = scaling.fractions.iter().any(|entry| entry.results.in_world());
        let text = if in_world { scaling_text } else { shares_text };
        return output.result(&scaling, || text(&scaling, output) + &took());
    }
    let results = scaling.fractions.remove(0).results;
    output.result(&results, || {
        let of_logs = matches!(arguments.source, Source::Data(_)) || arguments.offline;
        let mut said = String::new();
        if of_logs {
            said += &promises_text(&results, output);
        }
        if results.in_world() {
            said += if of_logs { "\n" } else { "" };
            said += &text(&results, output);
        }
        said + &took()
    })
}

/// What was asked for, as an experiment.
fn experiment(
    arguments: &Arguments,
    folder: &Path,
    output: &Output,
) -> Result<Experiment, Failure> {
    let settings = &arguments.settings;
    let document = settings.document()?;
    let experiment = match &arguments.source {
        Source::Task(task) => Experiment::new(task),
        Source::Data(path) => {
            Experiment::on(open_data_within(path, settings.memory, folder, output)?, path)
        }
    };
    let build = || {
        let mut experiment = experiment
            .with_offline(arguments.offline)
            .with_preset(settings.preset.into())
            .with_settings(document.as_deref(), settings.pairs())
            .with_policy(&settings.policy)?
            .with_seeds(arguments.seeds)
            .with_tensorboard(settings.tensorboard)
            .with_memory(settings.memory)
            .with_resume(arguments.resume);
        if let Some(Methods(names)) = &arguments.methods {
            experiment = experiment.with_methods(names)?;
        }
        if let Some(dataset) = &arguments.dataset {
            experiment = experiment.with_dataset(dataset);
        }
        if let Some(steps) = arguments.steps {
            experiment = experiment.with_steps(steps);
        }
        if let Some(fractions) = &arguments.fractions {
            experiment = experiment.with_fractions(fractions.clone());
        }
        if let Some(episodes) = arguments.episodes {
            experiment = experiment.with_episodes(episodes);
        }
        if let Some(labels) = &arguments.labels {
            experiment = experiment.with_labels(labels.clone());
        }
        Ok(experiment)
    };
    let experiment = build().map_err(|error: esper_eval::EvalError| failure(error, ""))?;
    Ok(experiment.with_device(output.device()?).with_replays(replays(output)?))
}

/// The folder to work in.
fn folder(arguments: &Arguments) -> PathBuf {
    arguments.out.clone().unwrap_or_else(|| {
        let stem = match &arguments.source {
            Source::Task(task) => task.name().to_owned(),
            Source::Data(path) => path.file_stem().unwrap_or_default().to_string_lossy().into(),
        };
        let name = |number: usize| match number {
            1 => PathBuf::from(format!("runs/{stem}")),
            _ => PathBuf::from(format!("runs/{stem}-{number}")),
        };
        (1..).map(name).find(|path| !path.exists()).expect("some number is free")
    })
}

fn text(results: &Results, output: &Output) -> String {
    let heading = ["method", "best return", "paper", "offline", "calibration", "seconds"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let Results { preset, seeds, .. } = results;
    let (task, seeds) = (results.name(), *seeds);
    rows.extend(results.methods.iter().map(|method| {
        let seconds = method.train_seconds.map_or("-".to_owned(), |s| format!("{:.0}", s.mean));
        vec![
            method.method.clone(),
            cell(&method.best_return, seeds),
            cell(&method.paper_best_return, PAPER_SEEDS),
            cell(&method.offline_return, seeds),
            cell(&method.calibration_error, seeds),
            seconds,
        ]
    }));
    let policy = results.methods.iter().find_map(|method| method.policy.as_deref());
    let policy = policy.map_or(String::new(), |policy| format!(", {policy} policy"));
    let heading = format!("{task}, {preset}{policy}; {}", over(seeds));
    let scores = scores(results);
    format!("{}\n\n{}{scores}", output.paint(Paint::Heading, &heading), table(&rows))
}

/// Normalised scores, where the task has returns to normalise by; else nothing.
fn scores(results: &Results) -> String {
    let mut rows = vec![["score", "best", "paper", "offline"].map(str::to_owned).to_vec()];
    rows.extend(results.methods.iter().filter_map(|method| {
        let NormalisedScores { best, offline, paper } = method.normalised?;
        let [best, offline] = [best, offline].map(|score| cell(&score, results.seeds));
        Some(vec![method.method.clone(), best, cell(&paper, PAPER_SEEDS), offline])
    }));
    match rows.len() {
        1 => String::new(),
        _ => format!("\nNormalised: 0 is random play, 100 is D4RL's expert.\n\n{}", table(&rows)),
    }
}

/// The returns of every method with every share of the data; of more than two methods only the best.
fn scaling_text(scaling: &Scaling, output: &Output) -> String {
    let methods = scaling.fractions.first().map_or(&[][..], |entry| &entry.results.methods[..]);
    let shown: &[&str] = if methods.len() > 2 { &["best"] } else { &["best", "offline"] };
    let names = methods.iter().flat_map(|m| shown.iter().map(|of| format!("{} {of}", m.method)));
    let heading = ["data", "steps"].map(str::to_owned).into_iter().chain(names).collect();
    let mut rows = vec![heading];
    for ScalingEntry { fraction, results } in &scaling.fractions {
        let mut row = vec![percent(*fraction), count(results.dataset.steps)];
        for method in &results.methods {
            let returns = [&method.best_return, &method.offline_return];
            row.extend(returns.iter().take(shown.len()).map(|value| cell(value, results.seeds)));
        }
        rows.push(row);
    }
    let Scaling { preset, fractions, .. } = scaling;
    let task = fractions.first().map_or_else(String::new, |entry| entry.results.name());
    let seeds = fractions.first().map_or(0, |entry| entry.results.seeds);
    let heading = format!("{task}, {preset}: returns, {}", over(seeds));
    format!("{}\n\n{}", output.paint(Paint::Heading, &heading), table(&rows))
}

/// What the numbers are of.
pub(super) fn over(seeds: usize) -> String {
    match seeds {
        1 => "of one seed".to_owned(),
        _ => format!("mean (standard deviation) over {seeds} seeds"),
    }
}

fn cell(value: &Option<MeanStd>, seeds: usize) -> String {
    value.map_or("-".to_owned(), |value| value.text(seeds))
}
