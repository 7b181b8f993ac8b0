//! `esper import`: from a table of decisions, or another tool's data set, to a data set.

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use esper_data::tables::{
    ColumnReport, Mapping, RewardPer, Survey, Table, available_memory, is_native_file,
};
use esper_data::{
    DataError, Fields, Known, Space, Suspicions, Tally, read_known_together, suspicions,
};
use esper_eval::text::count;
use serde::Serialize;

use super::summary::{Summary, behaviour_table, warnings_text};
use crate::output::{Failure, Output, wrapped};
use crate::progress::{Progress, catch_interrupts, go_on};

#[derive(clap::Args)]
#[command(
    after_help = "Example:  esper import visits.csv --episode patient --action treatment --out visits.parquet\n          esper import visits.csv --dry-run > map.toml     (edit it, then)\n          esper import visits.csv --map map.toml --out visits.parquet\n          esper import hopper-medium-v2.hdf5 --out hopper.parquet"
)]
pub(crate) struct Arguments {
    /// CSV, JSON lines or Parquet files, or folders of part files; or what Minari, D4RL, d3rlpy, RLlib or RLDS wrote, which needs
    /// no options. Several are one data set
    #[arg(required = true, value_name = "SOURCE")]
    sources: Vec<PathBuf>,

    /// The data set to write
    #[arg(long, value_name = "DATA", required_unless_present = "dry_run")]
    out: Option<PathBuf>,

    /// Replace the data set if it exists
    #[arg(long)]
    force: bool,

    /// Write nothing: print the mapping, ready to edit, and what would be made of every column
    #[arg(long)]
    dry_run: bool,

    /// Which columns are what, as a file that --dry-run printed; options come before it
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,

    /// Episode id: rows with the same one are one episode [default: by usual names]
    #[arg(long, value_name = "COLUMN")]
    episode: Option<String>,

    /// What orders the rows of an episode; \"\" for the order of the file [default: by usual names]
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,

    /// What was known when the decision was made [default: observation_*, obs_* or state_*, else everything that is left]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    observation: Vec<String>,

    /// What was decided: one column, or several that are all numbers or all categories [default: by usual names]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    action: Vec<String>,

    /// What it paid [default: by usual names]
    #[arg(long, value_name = "COLUMN")]
    reward: Option<String>,

    /// Whether every step has a reward of its own, or every episode one outcome [default: as the column looks]
    #[arg(long, value_name = "WHAT")]
    reward_per: Option<Per>,

    /// True, 1 or yes in an episode's last row says that it ended there, anything else that it was cut [default: by usual
    /// names, else last rows are ends]
    #[arg(long, value_name = "COLUMN")]
    end: Option<String>,

    /// True in an episode's last row says that it was cut there (truncated), beside --end [default: by usual names]
    #[arg(long, value_name = "COLUMN")]
    cut: Option<String>,

    /// Who decided, for statistics; never shown to a learner [default: by usual names]
    #[arg(long, value_name = "COLUMN")]
    behaviour: Option<String>,

    /// Columns to leave out
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    ignore: Vec<String>,

    /// Hold at most about this much in memory, as in 2GB; rows beyond go through temporary files beside DATA [default: half of
    /// what is free]
    #[arg(long, value_name = "SIZE", value_parser = esper::memory::parse)]
    memory: Option<u64>,
}

/// What a reward belongs to.
#[derive(Clone, Copy, ValueEnum)]
enum Per {
    Step,
    Episode,
}

/// What `--json` prints of a data set that was written.
#[derive(Serialize)]
struct Imported<'a> {
    #[serde(flatten)]
    summary: Summary,
    observation_space: &'a Space,
    action_space: &'a Space,
    fields: &'a Fields,
    #[serde(flatten)]
    reading: Reading<'a>,
}

/// What `--json` prints of another tool's data set.
#[derive(Serialize)]
struct Taken<'a> {
    #[serde(flatten)]
    summary: Summary,
    observation_space: &'a Space,
    action_space: &'a Space,
    fields: &'a Fields,
    format: &'static str,
    notes: &'a [String],
}

/// How a table was understood.
#[derive(Serialize)]
struct Reading<'a> {
    mapping: &'a Mapping,
    columns: &'a [ColumnReport],
    notes: &'a [String],
}

/// What `--json` prints of a data set that was not.
#[derive(Serialize)]
struct DryRun<'a> {
    steps: u64,
    episodes: usize,
    observation_space: &'a Space,
    action_space: &'a Space,
    fields: &'a Fields,
    #[serde(flatten)]
    reading: Reading<'a>,
}

impl Arguments {
    fn mapping(&self) -> Result<Mapping, Failure> {
        let file = match &self.map {
            Some(path) => Mapping::read(path).map_err(Failure::misuse)?,
            None => Mapping::default(),
        };
        let said = Mapping {
            episode: self.episode.clone(),
            time: self.time.clone(),
            observation: self.observation.clone(),
            action: self.action.clone(),
            reward: self.reward.clone(),
            reward_per: self.reward_per.map(|per| match per {
                Per::Step => RewardPer::Step,
                Per::Episode => RewardPer::Episode,
            }),
            end: self.end.clone(),
            cut: self.cut.clone(),
            behaviour: self.behaviour.clone(),
            ignore: self.ignore.clone(),
            ..Mapping::default()
        };
        Ok(said.or(file))
    }
}

impl Arguments {
    /// An option that only means something of a table, if there is one.
    fn of_tables(&self) -> Option<&'static str> {
        let said = [
            ("--map", self.map.is_some()),
            ("--episode", self.episode.is_some()),
            ("--time", self.time.is_some()),
            ("--observation", !self.observation.is_empty()),
            ("--action", !self.action.is_empty()),
            ("--reward", self.reward.is_some()),
            ("--reward-per", self.reward_per.is_some()),
            ("--end", self.end.is_some()),
            ("--cut", self.cut.is_some()),
            ("--behaviour", self.behaviour.is_some()),
            ("--ignore", !self.ignore.is_empty()),
            ("--memory", self.memory.is_some()),
        ];
        said.iter().find(|(_, is_said)| *is_said).map(|(name, _)| *name)
    }
}

/// What went wrong, as the program says it.
fn failure(error: DataError) -> Failure {
    match error {
        DataError::Stopped => Failure::paused("nothing was written"),
        error @ DataError::Mapping { .. } => Failure::misuse(error),
        other => Failure::writing(other),
    }
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let mapping = arguments.mapping()?;
    if let Some(out) = arguments.out.as_ref().filter(|_| !arguments.dry_run) {
        refuse_sources(out, &arguments.sources)?;
    }
    for source in &arguments.sources {
        if is_native_file(source).map_err(failure)? {
            let path = source.display();
            return Err(Failure::misuse(format!(
                "{path} is a data set already and needs no import: esper info {path}"
            )));
        }
    }
    if let Some(known) = read_known_together(&arguments.sources).map_err(failure)? {
        return take(arguments, &known, started, output);
    }
    catch_interrupts();
    let table = Table::open(&arguments.sources).map_err(failure)?;
    let progress = Progress::new(output, "reading", "bytes", 2 * table.bytes());
    let watch = |bytes| {
        progress.add(bytes);
        go_on()
    };
    let survey = table.survey(&mapping, watch).map_err(failure)?;
    let path = match &arguments.out {
        Some(path) if !arguments.dry_run => path,
        _ => {
            survey.check_order(watch).map_err(failure)?;
            drop(progress);
            return output.result(&dry_run(&survey), || dry_run_text(&survey));
        }
    };
    let memory = arguments.memory.unwrap_or_else(|| available_memory() / 2);
    let (mut tally, mut suspicions) = (Tally::default(), Suspicions::default());
    let keep = |part: &esper_data::Dataset| {
        suspicions.add(part);
        tally.add(part)
    };
    survey.write(path, arguments.force, memory, keep, watch).map_err(failure)?;
    drop(progress);
    print(&survey, path, &tally, suspicions.found(), started, output)
}

/// What is imported is never written over, not even with --force: it may be the only copy there is.
fn refuse_sources(out: &Path, sources: &[PathBuf]) -> Result<(), Failure> {
    let folder = match out.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A file that is not there yet is where its folder is; one that is may be a link.
    let places = [
        out.canonicalize().ok(),
        folder.canonicalize().ok().zip(out.file_name()).map(|(folder, name)| folder.join(name)),
    ];
    for source in sources {
        let Ok(real) = source.canonicalize() else { continue };
        if places.iter().flatten().any(|place| place.starts_with(&real)) {
            let (out, source) = (out.display(), source.display());
            return Err(Failure::misuse(format!(
                "--out {out} is {source} or in it, which is to be imported and would be lost; give another name"
            )));
        }
    }
    Ok(())
}

/// Another tool's data set: it says itself what is what.
fn take(
    arguments: &Arguments,
    known: &Known,
    started: Instant,
    output: &Output,
) -> Result<(), Failure> {
    let Known { data, format, notes, .. } = known;
    if let Some(option) = arguments.of_tables() {
        let path = arguments.sources[0].display();
        return Err(Failure::misuse(format!(
            "{option} is for tables, and {path} is {format}: leave it out"
        )));
    }
    let path = match &arguments.out {
        Some(path) if !arguments.dry_run => {
            data.write(path, arguments.force).map_err(failure)?;
            path
        }
        _ => &arguments.sources[0],
    };
    let (metadata, tally) = (data.metadata(), Tally::of(data));
    let taken = Taken {
        summary: Summary::new(path, metadata, &tally, suspicions(data), started.elapsed()),
        observation_space: &metadata.observation_space,
        action_space: &metadata.action_space,
        fields: &metadata.fields,
        format,
        notes,
    };
    output.result(&taken, || {
        let summary = &taken.summary;
        let mut text = match arguments.dry_run {
            true => format!("{}, not written: a dry run\n\n", summary.path),
            false => format!("{} in {:.1} s\n\n", summary.path, summary.seconds),
        };
        text += &format!("  {format}\n");
        text +=
            &format!("  observation  {}\n", wrapped(&taken.observation_space.to_string(), 80, 15));
        text += &format!("  action       {}\n", wrapped(&taken.action_space.to_string(), 80, 15));
        text += &format!("\n{}", behaviour_table(&tally));
        text + &notes_text(notes) + &warnings_text(&summary.warnings)
    })
}

/// How something was read, in lines; nothing if nothing is to be said of it.
fn notes_text(notes: &[String]) -> String {
    let lines = notes.iter().map(|note| format!("  - {}\n", wrapped(note, 80, 4)));
    match notes {
        [] => String::new(),
        _ => format!("\n  how it was read\n{}", lines.collect::<String>()),
    }
}

fn print(
    survey: &Survey,
    path: &Path,
    tally: &Tally,
    warnings: Vec<String>,
    started: Instant,
    output: &Output,
) -> Result<(), Failure> {
    let metadata = survey.metadata();
    let imported = Imported {
        summary: Summary::new(path, metadata, tally, warnings, started.elapsed()),
        observation_space: &metadata.observation_space,
        action_space: &metadata.action_space,
        fields: &metadata.fields,
        reading: reading(survey),
    };
    output.result(&imported, || {
        let summary = &imported.summary;
        let mut text = format!("{} in {:.1} s\n\n", summary.path, summary.seconds);
        text += &columns_text(survey.columns(), "  ");
        text += &format!("\n{}", behaviour_table(tally));
        text += &notes_text(survey.notes());
        text + &warnings_text(&summary.warnings)
    })
}

fn reading(survey: &Survey) -> Reading<'_> {
    Reading { mapping: survey.mapping(), columns: survey.columns(), notes: survey.notes() }
}

fn dry_run(survey: &Survey) -> DryRun<'_> {
    let metadata = survey.metadata();
    DryRun {
        steps: survey.steps(),
        episodes: survey.episodes(),
        observation_space: &metadata.observation_space,
        action_space: &metadata.action_space,
        fields: &metadata.fields,
        reading: reading(survey),
    }
}

/// A line for every column, but for those of the same role that nothing is said of.
fn columns_text(columns: &[ColumnReport], indent: &str) -> String {
    let line = |column: &ColumnReport| {
        let ColumnReport { name, role, says } = column;
        let says = if says.is_empty() { String::new() } else { format!(": {says}") };
        let line = format!("{role} `{name}`{says}");
        let rest = format!("\n{indent}  ");
        format!("{indent}{}\n", wrapped(&line, 78 - indent.len(), 0).replace('\n', &rest))
    };
    columns.iter().map(line).collect()
}

/// The mapping as a file, with what is made of the columns beside it.
fn dry_run_text(survey: &Survey) -> String {
    let (steps, episodes) = (count(survey.steps() as usize), count(survey.episodes()));
    let mut text = format!("# {steps} steps in {episodes} episodes.\n#\n");
    text += &columns_text(survey.columns(), "# ");
    for note in survey.notes() {
        text += &format!("#\n# {}\n", wrapped(note, 78, 0).replace('\n', "\n# "));
    }
    format!("{text}\n{}", survey.mapping().to_toml())
}
