//! `esper run`: the whole of it on a task, for several methods and seeds.

use std::path::PathBuf;
use std::time::Instant;

use esper::run::Method;
use esper_eval::{MeanStd, MethodResults, PAPER_SEEDS, Results, Scaling, ScalingEntry};
use esper_tasks::Task;

use super::collect::{parse_fraction, parse_steps, parse_task};
use super::compare::Compare;
use super::learning::{Settings, default_episodes, parse_episodes, parse_method};
use super::report;
use crate::output::{Failure, Output, Paint, count, percent, table};
use crate::progress::{catch_interrupts, duration};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper run gambling --methods esper,rvs --seeds 3 --out runs/gambling\n          \
                  esper run twenty48 --fractions 5%,10%,25%,50%,100%"
)]
pub(crate) struct Arguments {
    /// The task (see `esper tasks`)
    #[arg(value_parser = parse_task)]
    task: Task,

    /// The methods to compare (esper, rvs, cql, bc), or `all` [default: esper,rvs,cql; esper,rvs with --fractions]
    #[arg(long, value_name = "A,B", value_parser = parse_methods)]
    methods: Option<Methods>,

    #[command(flatten)]
    settings: Settings,

    /// Train and evaluate with this many seeds: 0, 1, 2, …
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Collect at least this many steps [default: the paper's number]
    #[arg(long, value_name = "N", value_parser = parse_steps)]
    steps: Option<u64>,

    /// See what less data gives: compare with each of these shares of the steps, as in 5%,50%,100%
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = parse_fraction)]
    fractions: Option<Vec<f64>>,

    /// Episodes with each target [default: enough for the task's luck]
    #[arg(long, value_name = "N", value_parser = parse_episodes)]
    episodes: Option<usize>,

    /// The folder to keep everything in [default: runs/TASK, with a number if there is one already]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Go on with a comparison that was stopped
    #[arg(long, requires = "out")]
    resume: bool,
}

/// Methods, each once.
#[derive(Clone)]
struct Methods(Vec<Method>);

fn parse_methods(text: &str) -> Result<Methods, String> {
    if text == "all" {
        return Ok(Methods(Method::ALL.to_vec()));
    }
    let mut methods = Vec::new();
    for name in text.split(',') {
        let method = parse_method(name.trim())?;
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
    Ok(Methods(methods))
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let Arguments { task, settings, .. } = arguments;
    let folder = folder(arguments);
    let fractions = arguments.fractions.clone().map(|mut fractions| {
        fractions.sort_by(f64::total_cmp);
        // Two that are called the same would share a folder.
        fractions.dedup_by_key(|fraction| percent(*fraction));
        fractions
    });
    let default = || match fractions {
        Some(_) => vec![Method::Esper, Method::Rvs],
        None => vec![Method::Esper, Method::Rvs, Method::Cql],
    };
    let compare = Compare {
        task: *task,
        methods: arguments.methods.as_ref().map_or_else(default, |methods| methods.0.clone()),
        policy: settings.policy(),
        preset: settings.preset,
        config: settings.resolve(Some(task.name()))?,
        seeds: arguments.seeds,
        steps: arguments.steps.unwrap_or(task.default_steps()),
        fractions,
        episodes: arguments.episodes.unwrap_or_else(|| default_episodes(*task, settings.preset)),
        folder: &folder,
        called: String::new(),
        resume: arguments.resume,
        tensorboard: settings.tensorboard,
        go_on: match arguments.out {
            Some(_) => "go on with the same command and --resume".to_owned(),
            None => format!("go on with the same command and --out {} --resume", folder.display()),
        },
    };
    catch_interrupts();
    let scaling = compare.run(output)?;
    let took = || {
        let took = duration(started.elapsed().as_secs_f64());
        format!("\n{} in {took}\n", folder.join(report::PAGE).display())
    };
    if compare.fractions.is_some() {
        return output.result(&scaling, || scaling_text(&scaling, output) + &took());
    }
    let results = &scaling.fractions[0].results;
    output.result(results, || text(results, output) + &took())
}

/// The folder to work in.
fn folder(arguments: &Arguments) -> PathBuf {
    arguments.out.clone().unwrap_or_else(|| {
        let name = |number: usize| match number {
            1 => PathBuf::from(format!("runs/{}", arguments.task.name())),
            _ => PathBuf::from(format!("runs/{}-{number}", arguments.task.name())),
        };
        (1..).map(name).find(|path| !path.exists()).expect("some number is free")
    })
}

fn text(results: &Results, output: &Output) -> String {
    let heading =
        ["method", "best return", "paper", "offline return", "calibration error", "seconds"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let Results { task, preset, seeds, .. } = results;
    let seeds = *seeds;
    rows.extend(results.methods.iter().map(|method| {
        let seconds = method.train_seconds.map_or("-".to_owned(), |s| format!("{:.0}", s.mean));
        vec![
            method_name(method),
            cell(&method.best_return, seeds),
            cell(&method.paper_best_return, PAPER_SEEDS),
            cell(&method.offline_return, seeds),
            cell(&method.calibration_error, seeds),
            seconds,
        ]
    }));
    let heading = format!("{task}, {preset}, {}", over(seeds));
    format!("{}\n\n{}", output.paint(Paint::Heading, &heading), table(&rows))
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
    let Scaling { task, preset, fractions } = scaling;
    let seeds = fractions.first().map_or(0, |entry| entry.results.seeds);
    let heading = format!("{task}, {preset}: returns, {}", over(seeds));
    format!("{}\n\n{}", output.paint(Paint::Heading, &heading), table(&rows))
}

/// What the numbers are of.
fn over(seeds: usize) -> String {
    match seeds {
        1 => "of one seed".to_owned(),
        _ => format!("mean (standard deviation) over {seeds} seeds"),
    }
}

fn method_name(method: &MethodResults) -> String {
    match &method.policy {
        Some(policy) => format!("{} ({policy})", method.method),
        None => method.method.clone(),
    }
}

fn cell(value: &Option<MeanStd>, seeds: usize) -> String {
    value.map_or("-".to_owned(), |value| value.text(seeds))
}
