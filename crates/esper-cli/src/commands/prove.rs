//! `esper prove`: how well promises hold in worlds whose truth is known.

use std::path::PathBuf;
use std::time::Instant;

use clap::builder::PossibleValuesParser;
use esper::Registry;
use esper::condition::Condition;
use esper_eval::{Contender, Proof, Proven, Tried, Verdict};
use esper_report::{PAGE, proof_page};
use esper_tasks::proving::{self, Family};

use super::parse::{parse_episodes, parse_steps};
use crate::output::{Failure, Output, Paint, failure, report_failure, table};
use crate::progress::{Board, catch_interrupts, duration, interrupted};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper prove --worlds 20\n          \
                  esper prove --worlds 100 --method esper --method rvs:return --method cql --out proof\n          \
                  esper prove --world queue --world treatment --seeds 10\n\n\
    Worlds with seeds below 1000 were used while the program was made; those from 1000 on were not. It can be stopped at any \
    time: the same command goes on where it was.")]
pub(crate) struct Arguments {
    /// Random worlds, one of each seed [default: 20, or none with --world]
    #[arg(long, value_name = "N")]
    worlds: Option<u64>,

    /// The seed of the first random world
    #[arg(long, value_name = "S", default_value_t = 1000)]
    seed: u64,

    /// Random worlds of which family: of `mdp` states are numbers that come again; `points` are the same worlds seen as points of
    /// real numbers, which never come again; in `hidden` and `hidden-points` several states look alike; `long` are worlds of more than
    /// a hundred steps, seen as points
    #[arg(long, value_name = "FAMILY", default_value = "mdp", value_parser = PossibleValuesParser::new(Family::ALL.map(Family::name)))]
    family: String,

    /// A world by its name, as in mdp-17 or queue; `named` for all that a person recognises; repeat for more
    #[arg(long = "world", value_name = "NAME")]
    named: Vec<String>,

    /// A method, or a method and what its policy is told, as in esper:level; repeat for more
    #[arg(long = "method", value_name = "M[:CONDITION]", value_parser = parse_contender, default_value = "esper")]
    methods: Vec<Contender>,

    /// Train with this many seeds in every world: 0, 1, 2, …
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// Steps of every log [default: 50,000; 150,000 of long worlds]
    #[arg(long, value_name = "N", value_parser = parse_steps)]
    steps: Option<u64>,

    /// Episodes with each level
    #[arg(long, value_name = "N", default_value = "30000", value_parser = parse_episodes)]
    episodes: usize,

    /// Change one setting, as in promise.models=8; repeat for more
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// The folder to keep everything in
    #[arg(long, value_name = "DIR", default_value = "proof")]
    out: PathBuf,
}

fn parse_contender(text: &str) -> Result<Contender, String> {
    let (method, condition) = match text.split_once(':') {
        Some((method, condition)) => (method, Some(condition)),
        None => (text, None),
    };
    let condition = condition.map(|name| match name {
        "return" => Ok(Condition::Return),
        "level" => Ok(Condition::Level),
        "step-level" => Ok(Condition::StepLevel),
        _ => Err(format!("a policy is told `return`, `level` or `step-level`, not `{name}`")),
    });
    Registry::default().method(method).map_err(|error| error.to_string())?;
    Ok(Contender { method: method.to_owned(), condition: condition.transpose()? })
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let proof = Proof {
        worlds: worlds(arguments)?,
        contenders: arguments.methods.clone(),
        seeds: arguments.seeds,
        steps: arguments.steps,
        episodes: arguments.episodes,
        settings: arguments.set.clone(),
        device: output.device()?,
    };
    catch_interrupts();
    let board = Board::new(output);
    let watch = |tried: &Tried, done: usize, total: usize| {
        board.say(&format!("{done} of {total}  {}", line(tried)));
    };
    let proven = proof.run(&arguments.out, &watch, &interrupted);
    drop(board);
    let go_on = "go on with the same command";
    let proven = proven.map_err(|error| failure(error, go_on))?;
    let page = arguments.out.join(PAGE);
    proof_page(&proven, &again(arguments))
        .write(&page)
        .map_err(|error| report_failure(error, go_on))?;
    output.result(&proven, || {
        let took = duration(started.elapsed().as_secs_f64());
        format!("{}\n{} in {took}\n", text(&proven, output), page.display())
    })
}

fn worlds(arguments: &Arguments) -> Result<Vec<String>, Failure> {
    let mut worlds = Vec::new();
    for name in &arguments.named {
        match name.as_str() {
            "named" => worlds.extend(proving::names().into_iter().map(str::to_owned)),
            name if proving::truth(name).is_some() => worlds.push(name.to_owned()),
            name => {
                let known = proving::names().join(", ");
                return Err(Failure::misuse(format!(
                    "`{name}` is no world whose truth is known; there are {known}, and mdp-0, points-0, hidden-0, long-0, mdp-1, … for every seed"
                )));
            }
        }
    }
    let random = arguments.worlds.unwrap_or(if worlds.is_empty() { 20 } else { 0 });
    worlds.extend((0..random).map(|at| format!("{}-{}", arguments.family, arguments.seed + at)));
    match worlds.is_empty() {
        true => Err(Failure::misuse("at least one world is needed".to_owned())),
        false => Ok(worlds),
    }
}

/// The command that does the same.
fn again(arguments: &Arguments) -> String {
    let mut command = "esper prove".to_owned();
    for (option, values) in [("--world", &arguments.named), ("--set", &arguments.set)] {
        values.iter().for_each(|value| command += &format!(" {option} {value}"));
    }
    if let Some(worlds) = arguments.worlds {
        let family = match arguments.family.as_str() {
            "mdp" => String::new(),
            family => format!(" --family {family}"),
        };
        command += &format!(" --worlds {worlds} --seed {}{family}", arguments.seed);
    }
    for Contender { method, condition } in &arguments.methods {
        let condition = condition.map_or(String::new(), |condition| format!(":{condition}"));
        command += &format!(" --method {method}{condition}");
    }
    if let Some(steps) = arguments.steps {
        command += &format!(" --steps {steps}");
    }
    format!("{command} --seeds {} --episodes {}", arguments.seeds, arguments.episodes)
}

/// What came of one.
fn line(tried: &Tried) -> String {
    let Tried { world, kind, method, condition, achieved, best_behaviour, optimum, .. } = tried;
    let promised = match (tried.promise, tried.error()) {
        (Some(promise), Some(error)) => {
            format!("promised {promise:.2}, off by {:.1}% of the range, ", 100.0 * error)
        }
        _ => String::new(),
    };
    format!(
        "{world} ({kind}) {method} {condition}: {promised}achieved {achieved:.2}; best behaviour {best_behaviour:.2}, optimum {optimum:.2}"
    )
}

fn text(proven: &Proven, output: &Output) -> String {
    let heading = [
        "method",
        "told",
        "tried",
        "kept 5%",
        "kept 10%",
        "error",
        "regret",
        "good",
        "above best",
        "luck",
        "seconds",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    for verdict in proven.summary.iter().filter(|verdict| verdict.kind.is_none()) {
        let Verdict { method, condition, tried, .. } = verdict;
        let percent =
            |share: Option<f64>| share.map_or("-".to_owned(), |it| format!("{:.1}%", 100.0 * it));
        rows.push(vec![
            method.clone(),
            condition.to_string(),
            tried.to_string(),
            percent(verdict.kept_5),
            percent(verdict.kept_10),
            percent(verdict.calibration_error),
            percent(Some(verdict.regret)),
            percent(Some(verdict.good)),
            percent(verdict.above_best),
            verdict.label_luck_correlation.map_or("-".to_owned(), |it| format!("{it:.2}")),
            format!("{:.0}", verdict.train_seconds),
        ]);
    }
    let words = "\nKept: promises within 5% or 10% of the range of behaviours' mean returns. Error: mean |achieved - promised| over \
                 levels.\nRegret: how far below the best behaviour; good: within 3% of it; above best: where there is room. Luck: mean \
                 |correlation|\nof first labels with the luck of episodes.\n";
    format!(
        "{}\n\n{}{words}",
        output.paint(Paint::Heading, "Promises against the truth"),
        table(&rows)
    )
}
