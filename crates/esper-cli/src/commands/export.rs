//! `esper export`: a data set for other tools.

use std::path::PathBuf;
use std::time::Instant;

use esper_data::DataError;
use esper_eval::text::{count, number};
use serde::Serialize;

use crate::output::{Failure, Output};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper export games.parquet --minari connect-four-v0")]
pub(crate) struct Arguments {
    /// A data set: a Parquet file written by `esper collect`
    data: PathBuf,

    /// Write it as a data set of Minari, into a folder that is not there yet. Its name should end in a version, as in `games-v0`
    #[arg(long, value_name = "DIR")]
    minari: PathBuf,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Exported {
    path: String,
    format: &'static str,
    dataset_id: String,
    episodes: usize,
    steps: usize,
    seconds: f64,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let data = esper_data::read(&arguments.data).map_err(Failure::error)?;
    let folder = &arguments.minari;
    let dataset_id = esper_data::write_minari(&data, folder).map_err(|error| match error {
        DataError::Exists(path) => Failure::error(format!(
            "{} already exists; name a folder that is not there yet, or an empty one",
            path.display()
        )),
        other => Failure::error(other),
    })?;
    let exported = Exported {
        path: folder.display().to_string(),
        format: "minari",
        dataset_id,
        episodes: data.episodes(),
        steps: data.steps(),
        seconds: started.elapsed().as_secs_f64(),
    };
    output.result(&exported, || {
        format!(
            "{}: {} episodes, {} steps as Minari's {} in {} s\n\nIn Python:  minari.MinariDataset(\"{}\")\n",
            exported.path,
            count(exported.episodes),
            count(exported.steps),
            exported.dataset_id,
            number((exported.seconds * 100.0).round() / 100.0),
            folder.join("data").display()
        )
    })
}
