//! `esper run`: the whole of it on a task, for several methods and seeds.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use esper::Error;
use esper::config::Config;
use esper::run::{DataId, Method, Plan};
use esper_data::{Dataset, DatasetWriter, PendingFile, Tally};
use esper_eval::{
    Comparison, DatasetSummary, MeanStd, MethodResults, Results, RunResults, Scaling, ScalingEntry,
    run_name,
};
use esper_tasks::{CollectOptions, Collection, Task};
use serde::Serialize;

use super::collect::{parse_fraction, parse_steps, parse_task, play, share};
use super::learning::{
    Ask, Job, Settings, default_episodes, evaluate, failure, leakage_text, parse_episodes,
    parse_method, user_stop,
};
use crate::output::{Failure, Output, count, number, table};
use crate::progress::{Board, catch_interrupts, duration};

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

/// The policy of a method, if there is a choice.
fn policy_of(method: Method, settings: &Settings) -> Option<&'static str> {
    method.has_policy().then(|| settings.policy().name())
}

/// Data to compare on: all of the task's, or a share of it.
struct Part {
    folder: PathBuf,
    fraction: f64,
    data: Dataset,
    id: DataId,
}

/// One method with one seed, on one part.
struct Entry<'a> {
    name: String,
    plan: Plan,
    path: PathBuf,
    part: &'a Part,
}

impl Entry<'_> {
    /// Says which of several went wrong.
    fn name_error(&self, error: Error) -> Error {
        match error {
            Error::Stopped => Error::Stopped,
            other => Error::Run(format!("{}: {other}", self.name)),
        }
    }
}

impl Arguments {
    fn methods(&self) -> Vec<Method> {
        let fewer = [Method::Esper, Method::Rvs];
        let all = [Method::Esper, Method::Rvs, Method::Cql];
        let default = || if self.fractions.is_some() { fewer.to_vec() } else { all.to_vec() };
        self.methods.as_ref().map_or_else(default, |methods| methods.0.clone())
    }

    /// The shares of the data to compare on, from the smallest to the largest.
    fn fractions(&self) -> Vec<f64> {
        let mut fractions = self.fractions.clone().unwrap_or_else(|| vec![1.0]);
        fractions.sort_by(f64::total_cmp);
        fractions.dedup();
        fractions
    }

    fn steps(&self) -> u64 {
        self.steps.unwrap_or(self.task.default_steps())
    }

    fn episodes(&self) -> usize {
        self.episodes.unwrap_or_else(|| default_episodes(self.task, self.settings.preset))
    }

    /// What is to be done on a part.
    fn entries<'a>(&self, config: &Config, part: &'a Part) -> Vec<Entry<'a>> {
        let share = match self.fractions {
            Some(_) => format!("{} of the data, ", percent(part.fraction)),
            None => String::new(),
        };
        let entry = |method: Method, seed: u64| Entry {
            name: format!("{share}{} seed {seed}", method.name()),
            path: part.folder.join(run_name(
                method.name(),
                policy_of(method, &self.settings),
                seed,
            )),
            plan: Plan { method, policy: self.settings.policy(), config: config.clone(), seed },
            part,
        };
        let methods = self.methods().into_iter();
        methods
            .flat_map(|method| (0..self.seeds).map(move |seed| (method, seed)))
            .map(|(method, seed)| entry(method, seed))
            .collect()
    }
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let Arguments { task, settings, .. } = arguments;
    let config = settings.resolve(Some(task.name()))?;
    let folder = folder(arguments)?;
    catch_interrupts();
    keep(&comparison(arguments), &folder, arguments.resume)?;
    let parts = arguments.fractions().into_iter().map(|fraction| {
        let folder = match arguments.fractions {
            Some(_) => folder.join(percent(fraction)),
            None => folder.clone(),
        };
        let data = data(arguments, &folder, share(arguments.steps(), fraction), output)?;
        Ok(Part { folder, fraction, id: DataId::of(&data), data })
    });
    let parts = parts.collect::<Result<Vec<Part>, Failure>>()?;
    let entries: Vec<Entry<'_>> =
        parts.iter().flat_map(|part| arguments.entries(&config, part)).collect();
    if let Err(error) = entries.iter().try_for_each(|entry| entry.plan.check(&entry.part.data)) {
        // Nothing can come of this folder.
        let _ = std::fs::remove_dir_all(&folder);
        return Err(failure(error, ""));
    }
    let runs = work(arguments, &entries, output);
    let go_on = format!("go on with the same command and --out {} --resume", folder.display());
    let mut runs = runs.map_err(|error| failure(error, &go_on))?.into_iter();

    let mut scaling = Scaling {
        task: task.name().to_owned(),
        preset: settings.preset.name().to_owned(),
        fractions: Vec::new(),
    };
    for part in &parts {
        let results = results(arguments, part, &mut runs);
        write_json(&part.folder.join(Results::FILE), &results)?;
        scaling.fractions.push(ScalingEntry { fraction: part.fraction, results });
    }
    let took = || duration(started.elapsed().as_secs_f64());
    if arguments.fractions.is_some() {
        let path = folder.join(Scaling::FILE);
        write_json(&path, &scaling)?;
        return output.result(&scaling, || {
            format!("{}\n{} in {}\n", scaling_text(&scaling), path.display(), took())
        });
    }
    let results = &scaling.fractions[0].results;
    output.result(results, || {
        format!("{}\n{} in {}\n", text(results), folder.join(Results::FILE).display(), took())
    })
}

/// The results on a part, from runs in the order of its entries.
fn results(
    arguments: &Arguments,
    part: &Part,
    runs: &mut impl Iterator<Item = RunResults>,
) -> Results {
    let Arguments { task, settings, seeds, .. } = arguments;
    let total = Tally::of(&part.data).total();
    let methods = arguments.methods().into_iter().map(|method| {
        let runs = runs.by_ref().take(*seeds as usize).collect();
        MethodResults::of(task.name(), method.name(), policy_of(method, settings), runs)
    });
    Results {
        task: task.name().to_owned(),
        preset: settings.preset.name().to_owned(),
        seeds: *seeds as usize,
        dataset: DatasetSummary {
            steps: total.steps,
            episodes: total.episodes,
            mean_return: total.mean_return,
        },
        methods: methods.collect(),
    }
}

/// A share as people write it: 5%.
fn percent(share: f64) -> String {
    format!("{}%", number(100.0 * share))
}

/// What is to be compared.
fn comparison(arguments: &Arguments) -> Comparison {
    let Arguments { task, settings, seeds, .. } = arguments;
    let methods = arguments.methods();
    Comparison {
        task: task.name().to_owned(),
        steps: arguments.steps(),
        preset: settings.preset.name().to_owned(),
        methods: methods.iter().map(|method| method.name().to_owned()).collect(),
        policy: settings.policy().name().to_owned(),
        seeds: *seeds,
        episodes: arguments.episodes(),
        fractions: arguments.fractions.is_some().then(|| arguments.fractions()),
    }
}

/// Keeps in the folder what is compared in it, so that only the same is gone on with.
fn keep(comparison: &Comparison, folder: &Path, resume: bool) -> Result<(), Failure> {
    let path = folder.join(Comparison::FILE);
    if !path.exists() {
        return write_json(&path, comparison);
    }
    let kept = Comparison::read(folder).map_err(Failure::error)?;
    let folder = folder.display();
    match (resume, kept == *comparison) {
        (true, true) => Ok(()),
        (true, false) => Err(Failure::error(format!(
            "{folder} holds another comparison; {} says which",
            path.display()
        ))),
        (false, _) => Err(Failure::error(format!(
            "there is a comparison in {folder} already; name another folder with --out, or go on with it with --resume"
        ))),
    }
}

/// The folder to work in.
fn folder(arguments: &Arguments) -> Result<PathBuf, Failure> {
    let folder = arguments.out.clone().unwrap_or_else(|| {
        let name = |number: usize| match number {
            1 => PathBuf::from(format!("runs/{}", arguments.task.name())),
            _ => PathBuf::from(format!("runs/{}-{number}", arguments.task.name())),
        };
        (1..).map(name).find(|path| !path.exists()).expect("some number is free")
    });
    make_folder(&folder)?;
    Ok(folder)
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::error(format!("{}: {error}", folder.display())))
}

/// The task's data: collected, or there from before. Fewer steps are the beginning of more.
fn data(
    arguments: &Arguments,
    folder: &Path,
    steps: u64,
    output: &Output,
) -> Result<Dataset, Failure> {
    make_folder(folder)?;
    let path = folder.join("data.parquet");
    if !path.exists() {
        let task = arguments.task;
        let options =
            CollectOptions { steps, seed: 0, behaviours: Vec::new(), epsilon: None, expert: None };
        let collection = Collection::new(task, &options).map_err(Failure::misuse)?;
        let (metadata, behaviours) = (collection.metadata(), collection.behaviours());
        let mut writer =
            DatasetWriter::create(&path, metadata, &behaviours, false).map_err(Failure::writing)?;
        play(&collection, task, &mut writer, output)?;
        writer.finish().map_err(Failure::writing)?;
    }
    esper_data::read(&path).map_err(Failure::error)
}

/// Trains and evaluates every entry, as many side by side as there are threads: small networks gain little from several.
fn work(
    arguments: &Arguments,
    entries: &[Entry<'_>],
    output: &Output,
) -> Result<Vec<RunResults>, Error> {
    let threads = rayon::current_num_threads();
    let workers = threads.min(entries.len());
    let board = Board::new(output);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let stop = || user_stop() || failed.load(Ordering::Relaxed);
    let done: Mutex<Vec<Option<Result<RunResults, Error>>>> =
        Mutex::new(entries.iter().map(|_| None).collect());
    let take = || -> Option<usize> {
        let at = next.fetch_add(1, Ordering::Relaxed);
        (at < entries.len() && !stop()).then_some(at)
    };
    let worker = || {
        while let Some(at) = take() {
            let entry = &entries[at];
            let result =
                one(arguments, entry, &board, &stop).map_err(|error| entry.name_error(error));
            board.finish(&entry.name);
            match &result {
                Ok(run) if output.talks() => eprintln!("{}", told(entry, run)),
                Ok(_) => {}
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[at] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let pool =
                    rayon::ThreadPoolBuilder::new().num_threads(threads.div_ceil(workers).max(1));
                match pool.build() {
                    Ok(pool) => pool.install(worker),
                    Err(_) => worker(),
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    // What went wrong in one says more than that the others were stopped.
    let mut stopped = false;
    let mut runs = Vec::new();
    for result in done {
        match result {
            Some(Ok(run)) => runs.push(run),
            Some(Err(Error::Stopped)) | None => stopped = true,
            Some(Err(error)) => return Err(error),
        }
    }
    if stopped { Err(Error::Stopped) } else { Ok(runs) }
}

fn one(
    arguments: &Arguments,
    entry: &Entry<'_>,
    board: &Board,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<RunResults, Error> {
    let Entry { name, plan, path, part } = entry;
    let job = Job { name, plan, path, resume: arguments.resume };
    let (folder, summary) = job.train(&part.data, &part.id, board, stop)?;
    let ask = Ask { targets: None, episodes: arguments.episodes(), seed: plan.seed };
    let evaluation =
        evaluate(&folder, arguments.task, &ask, board, name, stop)?.ok_or(Error::Stopped)?;
    Ok(RunResults {
        seed: plan.seed,
        evaluation,
        leakage: summary.findings.clustering.as_ref().map(|clustering| clustering.leakage.mean),
        train_seconds: summary.train_seconds,
        findings: summary.findings,
    })
}

/// A line about a run that is over.
fn told(entry: &Entry<'_>, run: &RunResults) -> String {
    let mut line = format!("{}: trained in {}", entry.name, duration(run.train_seconds));
    if let Some(clustering) = &run.findings.clustering {
        line += &format!(", leakage {}", leakage_text(&clustering.leakage));
    }
    line += &format!(", best return {}", number(run.evaluation.best_return));
    if let (Some(target), Some(achieved)) =
        (run.evaluation.offline_target, run.evaluation.offline_return)
    {
        line += &format!(", asked for {} offline it gets {}", number(target), number(achieved));
    }
    line
}

fn text(results: &Results) -> String {
    let heading =
        ["method", "best return", "paper", "offline return", "calibration error", "seconds"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(results.methods.iter().map(|method| {
        let seconds = method.train_seconds.map_or("-".to_owned(), |s| format!("{:.0}", s.mean));
        vec![
            method_name(method),
            cell(&method.best_return),
            cell(&method.paper_best_return),
            cell(&method.offline_return),
            cell(&method.calibration_error),
            seconds,
        ]
    }));
    let Results { task, preset, seeds, .. } = results;
    format!("{task}, {preset}, mean (standard deviation) over {seeds} seeds\n\n{}", table(&rows))
}

/// The best returns of every method with every share of the data.
fn scaling_text(scaling: &Scaling) -> String {
    let mut rows = Vec::new();
    for ScalingEntry { fraction, results } in &scaling.fractions {
        if rows.is_empty() {
            let names = results.methods.iter().flat_map(|method| {
                [format!("{}: best return", method_name(method)), "offline return".to_owned()]
            });
            rows.push(["data".to_owned(), "steps".to_owned()].into_iter().chain(names).collect());
        }
        let mut row = vec![percent(*fraction), count(results.dataset.steps)];
        for method in &results.methods {
            row.extend([cell(&method.best_return), cell(&method.offline_return)]);
        }
        rows.push(row);
    }
    let Scaling { task, preset, .. } = scaling;
    format!("{task}, {preset}, mean (standard deviation) over seeds\n\n{}", table(&rows))
}

fn method_name(method: &MethodResults) -> String {
    match &method.policy {
        Some(policy) => format!("{} ({policy})", method.method),
        None => method.method.clone(),
    }
}

fn cell(value: &Option<MeanStd>) -> String {
    match value {
        Some(MeanStd { mean, std }) => format!("{mean:.2} ({std:.2})"),
        None => "-".to_owned(),
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let mut file = PendingFile::create(path, true).map_err(Failure::writing)?;
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
    file.finish().map_err(Failure::writing)
}
