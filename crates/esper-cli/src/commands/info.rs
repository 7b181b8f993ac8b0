//! `esper info`: what a data set holds.

use std::path::{Path, PathBuf};
use std::time::Instant;

use esper_data::{Bar, Distribution, Field, FieldKind, Fields, Info, Tally, Word};
use esper_eval::text::{count, number};
use serde::Serialize;

use super::summary::{behaviour_table, open_data, warnings_text};
use crate::output::{Failure, Output, wrapped};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper info connect-four.parquet")]
pub(crate) struct Arguments {
    /// A data set: a file that `esper collect` or `esper import` wrote, what Minari, D4RL, d3rlpy, RLlib or RLDS wrote, or a table
    /// whose columns are not in doubt
    data: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct FileInfo {
    path: String,
    seconds: f64,
    bytes: u64,
    #[serde(flatten)]
    info: Info,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let data = open_data(&arguments.data, output)?;
    let info = FileInfo {
        path: arguments.data.display().to_string(),
        seconds: started.elapsed().as_secs_f64(),
        bytes: bytes_of(&arguments.data),
        info: Info::of(&data),
    };
    output.result(&info, || text(&info, &Tally::of(&data)))
}

/// The bytes of a file, or of all files in a folder.
fn bytes_of(path: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(path) else {
        return std::fs::metadata(path).map_or(0, |file| file.len());
    };
    // What links lead to is not counted: they may lead around.
    let is_own = |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|of| !of.is_symlink());
    entries.flatten().filter(is_own).map(|entry| bytes_of(&entry.path())).sum()
}

fn text(file: &FileInfo, tally: &Tally) -> String {
    let FileInfo { path, seconds, bytes, info } = file;
    let megabytes = *bytes as f64 / 1e6;
    let mut text = format!("{path}  ({megabytes:.1} MB, read in {seconds:.2} s)\n\n");
    let made = match (&info.task, info.seed) {
        (Some(task), Some(seed)) => format!("{task}, seed {seed}"),
        (Some(task), None) => task.clone(),
        (None, _) => "unknown".to_owned(),
    };
    text += &format!("  task         {made}\n");
    for (name, space) in [("observation", &info.observation_space), ("action", &info.action_space)]
    {
        text += &format!("  {name:<12} {}\n", wrapped(&space.to_string(), 80, 15));
    }
    text += &format!(
        "  episodes     {} in {} steps; {} terminated, {} truncated\n",
        count(info.episodes),
        count(info.steps),
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

    text += &fields_text(&info.fields);

    text += "\n";
    text += &behaviour_table(tally);
    text += "\n  episodes by return\n";
    text += &bars(&info.histogram);
    text + &warnings_text(&info.warnings)
}

/// What cells are called and hold, in lines; nothing where nothing is known.
fn fields_text(fields: &Fields) -> String {
    let lines = |name: &str, fields: &[Field]| match fields {
        [] => String::new(),
        fields => {
            let lines = fields.iter().filter_map(field_line);
            format!("\n  {name}\n{}", lines.collect::<String>())
        }
    };
    let observation = lines("columns of an observation", &fields.observation);
    observation + &lines("columns of an action", &fields.action)
}

/// One of them; an indicator of missing values is said beside the column that it belongs to.
fn field_line(field: &Field) -> Option<String> {
    const SHOWN: usize = 12;
    let filled = |fill: &Option<f32>| {
        fill.map_or(String::new(), |fill| format!(", {} where it is missing", number(fill.into())))
    };
    let holds = match &field.kind {
        FieldKind::Number { fill } => format!("number{}", filled(fill)),
        FieldKind::Boolean { fill } => format!("boolean{}", filled(fill)),
        FieldKind::Date { fill, .. } => format!("date, as days{}", filled(fill)),
        FieldKind::Category { values } => {
            let words: Vec<String> = values.iter().take(SHOWN).map(Word::to_string).collect();
            let more = if values.len() > SHOWN { ", …" } else { "" };
            format!("one of {}: {}{more}", count(values.len()), words.join(", "))
        }
        FieldKind::Missing => return None,
    };
    Some(format!("    {}\n", wrapped(&format!("{}: {holds}", field.name), 80, 6)))
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
