//! `esper info`: what a data set holds.

use std::path::PathBuf;
use std::time::Instant;

use esper_data::{Bar, Distribution, Space, Tally};
use esper_eval::text::{count, number};
use serde::Serialize;

use super::summary::{Summary, behaviour_table, warnings_text};
use crate::output::{Failure, Output};

/// Bars of the histogram of returns.
const BARS: usize = 10;

#[derive(clap::Args)]
#[command(after_help = "Example:  esper info connect-four.parquet")]
pub(crate) struct Arguments {
    /// A data set: a Parquet file written by `esper collect`
    data: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Info {
    #[serde(flatten)]
    summary: Summary,
    seed: Option<u64>,
    bytes: u64,
    observation_space: Space,
    action_space: Space,
    returns: Distribution,
    lengths: Distribution,
    terminated: usize,
    truncated: usize,
    histogram: Vec<Bar>,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let data = esper_data::read(&arguments.data).map_err(Failure::error)?;
    let took = started.elapsed();

    let tally = Tally::of(&data);
    let ends = || (0..data.episodes()).map(|episode| data.end(episode));
    let metadata = data.metadata().clone();
    let info = Info {
        summary: Summary::new(
            &arguments.data,
            &metadata,
            &tally,
            esper_data::suspicions(&data),
            took,
        ),
        seed: metadata.seed,
        bytes: std::fs::metadata(&arguments.data).map_or(0, |file| file.len()),
        observation_space: metadata.observation_space,
        action_space: metadata.action_space,
        returns: Distribution::of_returns(&data),
        lengths: Distribution::of_lengths(&data),
        terminated: ends().filter(|end| end.terminated).count(),
        truncated: ends().filter(|end| end.truncated).count(),
        histogram: esper_data::return_histogram(&data, BARS),
    };
    output.result(&info, || text(&info, &tally))
}

fn text(info: &Info, tally: &Tally) -> String {
    let summary = &info.summary;
    let mut text = format!(
        "{}  ({:.1} MB, read in {:.2} s)\n\n",
        summary.path,
        info.bytes as f64 / 1e6,
        summary.seconds
    );
    let made = match (&summary.task, info.seed) {
        (Some(task), Some(seed)) => format!("{task}, seed {seed}"),
        (Some(task), None) => task.clone(),
        (None, _) => "unknown".to_owned(),
    };
    text += &format!("  task         {made}\n");
    text += &format!("  observation  {}\n", info.observation_space);
    text += &format!("  action       {}\n", info.action_space);
    text += &format!(
        "  episodes     {} in {} steps; {} terminated, {} truncated\n",
        count(summary.episodes),
        count(summary.steps),
        count(info.terminated),
        count(info.truncated)
    );
    let distribution = |name: &str, d: &Distribution| {
        format!(
            "  {name:<12} mean {:.3}, std {:.3}, min {}, median {}, max {}\n",
            d.mean,
            d.std,
            number(d.min),
            number(d.median),
            number(d.max)
        )
    };
    text += &distribution("return", &info.returns);
    text += &distribution("length", &info.lengths);

    text += "\n";
    text += &behaviour_table(tally);
    text += "\n  episodes by return\n";
    text += &bars(&info.histogram);
    text + &warnings_text(&summary.warnings)
}

/// A histogram in characters, the fullest bar 40 wide.
fn bars(histogram: &[Bar]) -> String {
    let most = histogram.iter().map(|bar| bar.episodes).max().unwrap_or(0).max(1);
    let label = |bar: &Bar| {
        if bar.low == bar.high {
            number(bar.low)
        } else {
            format!("{} to {}", number(bar.low), number(bar.high))
        }
    };
    let width = histogram.iter().map(|bar| label(bar).len()).max().unwrap_or(0);
    let line = |bar: &Bar| {
        let length = (40 * bar.episodes).div_ceil(most);
        format!("  {:>width$}  {:<40}  {}\n", label(bar), "#".repeat(length), count(bar.episodes))
    };
    histogram.iter().map(line).collect()
}
