//! `esper reproduce`: everything in the paper that can run here, and what became of its claims.

use std::path::PathBuf;
use std::time::Instant;

use clap::builder::PossibleValue;
use clap::builder::PossibleValuesParser;
use esper::settings::Preset;
use esper_report::PAGE;
use esper_report::reproduction::{PARTS, Part, Reproducer, Reproduction};

use super::settings::replays;
use crate::output::{Failure, Output, Paint, report_failure, wrapped};
use crate::progress::{Board, catch_interrupts, duration};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper reproduce --only gambling,figure1,beta\n\n\
    Expect two hours for all of it on two cores. It can be stopped at any time: the same command goes on \
    where it was, and what is done is not done again.")]
pub(crate) struct Arguments {
    /// Do only these parts
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = part_names())]
    only: Vec<String>,

    /// Settings sized for two CPU cores (the default)
    #[arg(long, conflicts_with = "paper")]
    quick: bool,

    /// The paper's settings: many hours
    #[arg(long)]
    paper: bool,

    /// Seeds of every comparison; shares of the data take one
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,

    /// The folder to keep everything in
    #[arg(long, value_name = "DIR", default_value = "reproduction")]
    out: PathBuf,

    /// Also write results and figures, without models and data, to this folder
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// The names of the parts, each with what it is.
fn part_names() -> PossibleValuesParser {
    PossibleValuesParser::new(PARTS.map(|part| PossibleValue::new(part.name).help(part.summary)))
}

/// How to go on after a stop.
const GO_ON: &str = "go on with the same command";

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let failed = |error| report_failure(error, GO_ON);
    catch_interrupts();
    let wanted = |part: &&Part| {
        arguments.only.is_empty() || arguments.only.iter().any(|name| name == part.name)
    };
    let mut parts: Vec<&Part> = PARTS.iter().filter(wanted).collect();
    let board = Board::new(output);
    if arguments.only.is_empty() {
        // What was not asked for by its name does not stop the rest.
        parts.retain(|part| match part.check() {
            Ok(()) => true,
            Err(error) => {
                board.say(&format!("{}: left out. {error}", part.name));
                false
            }
        });
    }
    let reproducer = Reproducer {
        folder: arguments.out.clone(),
        preset: if arguments.paper { Preset::Paper } else { Preset::Quick },
        seeds: arguments.seeds,
        device: output.device()?,
        replays: replays(output)?,
        observer: &board,
    };
    let concluded = reproducer.run(&parts, |part, number| {
        board.say(&format!("{}: part {number} of {}", part.name, parts.len()));
    });
    drop(board);
    let Some(report) = concluded.map_err(failed)? else { return Ok(()) };
    if let Some(folder) = &arguments.results {
        Reproduction::keep_results(&arguments.out, &report, folder).map_err(failed)?;
    }
    let claims = report.verdicts.map_or(Vec::new(), |verdicts| verdicts.claims);
    output.result(&claims, || {
        let mut text = String::new();
        for claim in &claims {
            let (paint, verdict) = match claim.holds {
                true => (Paint::Good, "holds        "),
                false => (Paint::Bad, "does not hold"),
            };
            let verdict = output.paint(paint, verdict);
            let [says, numbers] =
                [&claim.says, &claim.numbers].map(|text| wrapped(text, 80, INDENT));
            text += &format!("{verdict}  {says}\n{:INDENT$}{numbers}\n", "");
        }
        let took = duration(started.elapsed().as_secs_f64());
        format!("{text}\n{} in {took}", arguments.out.join(PAGE).display())
    })
}

/// Where a claim begins, behind its verdict.
const INDENT: usize = 15;
