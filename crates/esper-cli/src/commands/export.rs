//! `esper export`: what is here, for other programs.

use std::path::{Path, PathBuf};

use esper_data::tables::write_csv;
use esper_eval::text::count;
use serde::Serialize;

use crate::output::{Failure, Output};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper export visits.parquet --csv visits.csv")]
#[command(group = clap::ArgGroup::new("format").required(true))]
pub(crate) struct Arguments {
    /// A data set
    #[arg(value_name = "SOURCE")]
    source: PathBuf,

    /// Write a data set as CSV, one row a step, and beside it FILE.map.toml, with which `esper import --map` makes the same
    /// data set of it again
    #[arg(long, value_name = "FILE", group = "format")]
    csv: Option<PathBuf>,

    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

/// What `--json` prints of a table.
#[derive(Serialize)]
struct Exported {
    path: String,
    map: String,
    steps: usize,
    episodes: usize,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    match &arguments.csv {
        Some(path) => csv(arguments, path, output),
        None => Err(Failure::misuse("say what to write: --csv FILE")),
    }
}

fn csv(arguments: &Arguments, path: &Path, output: &Output) -> Result<(), Failure> {
    let mut map = path.as_os_str().to_owned();
    map.push(".map.toml");
    let map = PathBuf::from(map);
    if !arguments.force && map.symlink_metadata().is_ok() {
        return Err(exists(&map));
    }
    let data = esper_data::open(&arguments.source).map_err(Failure::error)?;
    let mapping = write_csv(&data, path, arguments.force).map_err(|error| match error {
        esper_data::DataError::Exists(path) => exists(&path),
        other => Failure::error(other),
    })?;
    esper_data::write_file(&map, mapping.to_toml().as_bytes()).map_err(Failure::error)?;
    let exported = Exported {
        path: path.display().to_string(),
        map: map.display().to_string(),
        steps: data.steps(),
        episodes: data.episodes(),
    };
    output.result(&exported, || {
        let Exported { path, map, steps, episodes } = &exported;
        let (steps, episodes) = (count(*steps), count(*episodes));
        format!("{path}: {steps} steps in {episodes} episodes\n{map}: for `esper import {path} --map {map}`")
    })
}

fn exists(path: &Path) -> Failure {
    Failure::error(format!(
        "{} already exists; name another file, or replace it with --force",
        path.display()
    ))
}
