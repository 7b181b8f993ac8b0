//! `esper export`: data sets and policies for other programs.

use std::io::Write;
use std::path::{Path, PathBuf};

use esper::onnx::{self, Port};
use esper_data::tables::write_csv;
use esper_data::{DataError, Dataset, PendingFile};
use esper_eval::text::count;
use serde::Serialize;

use super::policy::{is_comparison, load_policy};
use super::summary::open_data;
use crate::output::{Failure, Output, table};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper export visits.parquet --csv visits.csv\n          \
                  esper export games.parquet --minari games-v0\n          \
                  esper export my-run --onnx policy.onnx")]
#[command(group = clap::ArgGroup::new("format").required(true))]
pub(crate) struct Arguments {
    /// A data set, for --csv and --minari; the folder of a run or a policy.safetensors, for --onnx
    source: PathBuf,

    /// Write a data set as CSV, one row a step, and beside it FILE.map.toml, with which `esper import --map` makes the same
    /// data set of it again
    #[arg(long, value_name = "FILE", group = "format")]
    csv: Option<PathBuf>,

    /// Write a data set as one of Minari, into a folder that is not there yet; its name should end in a version, as in games-v0
    #[arg(long, value_name = "DIR", group = "format")]
    minari: Option<PathBuf>,

    /// Write a policy as an ONNX file: observations and a level or a target in, probabilities of actions out
    #[arg(long, value_name = "FILE", group = "format")]
    onnx: Option<PathBuf>,

    /// Replace files that exist
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let Arguments { csv, minari, onnx, .. } = arguments;
    match (csv, minari, onnx) {
        (Some(path), ..) => export_csv(arguments, path, output),
        (_, Some(path), _) => export_minari(arguments, path, output),
        (.., Some(path)) => export_onnx(arguments, path, output),
        _ => Err(Failure::misuse("say what to write: --csv, --minari or --onnx")),
    }
}

/// The data set to write; a run is none.
fn data_of(arguments: &Arguments, output: &Output) -> Result<Dataset, Failure> {
    let source = &arguments.source;
    if is_policy(source) {
        return Err(Failure::misuse(format!(
            "{} is a run: --csv and --minari write a data set, such as the one it was trained on; the policy of a run is written with \
             --onnx",
            source.display()
        )));
    }
    open_data(source, output)
}

/// Whether a path is the folder of a run or of several, or the file of a policy.
fn is_policy(path: &Path) -> bool {
    let is_file = path.extension().is_some_and(|extension| extension == "safetensors");
    is_file || path.join("policy.safetensors").is_file() || is_comparison(path)
}

/// What `--json` prints of a table.
#[derive(Serialize)]
struct ExportedTable {
    path: String,
    map: String,
    steps: usize,
    episodes: usize,
}

fn export_csv(arguments: &Arguments, path: &Path, output: &Output) -> Result<(), Failure> {
    let mut map = path.as_os_str().to_owned();
    map.push(".map.toml");
    let map = PathBuf::from(map);
    if !arguments.force && map.symlink_metadata().is_ok() {
        return Err(writing(DataError::Exists(map)));
    }
    let data = data_of(arguments, output)?;
    let mapping = write_csv(&data, path, arguments.force).map_err(writing)?;
    esper_data::write_file(&map, mapping.to_toml().as_bytes()).map_err(writing)?;
    let exported = ExportedTable {
        path: path.display().to_string(),
        map: map.display().to_string(),
        steps: data.steps(),
        episodes: data.episodes(),
    };
    output.result(&exported, || {
        let ExportedTable { path, map, steps, episodes } = &exported;
        let (steps, episodes) = (count(*steps), count(*episodes));
        format!("{path}: {steps} steps in {episodes} episodes\n{map}: for `esper import {path} --map {map}`")
    })
}

/// What `--json` prints of a data set of Minari.
#[derive(Serialize)]
struct ExportedMinari {
    path: String,
    dataset_id: String,
    steps: usize,
    episodes: usize,
}

fn export_minari(arguments: &Arguments, folder: &Path, output: &Output) -> Result<(), Failure> {
    let data = data_of(arguments, output)?;
    let dataset_id = esper_data::write_minari(&data, folder).map_err(|error| match error {
        DataError::Exists(path) => Failure::error(format!(
            "{} already exists; name a folder that is not there yet, or an empty one",
            path.display()
        )),
        other => Failure::error(other),
    })?;
    let exported = ExportedMinari {
        path: folder.display().to_string(),
        dataset_id,
        steps: data.steps(),
        episodes: data.episodes(),
    };
    output.result(&exported, || {
        let ExportedMinari { path, dataset_id, steps, episodes } = &exported;
        let (steps, episodes) = (count(*steps), count(*episodes));
        let data = folder.join("data");
        format!(
            "{path}: {steps} steps in {episodes} episodes, as Minari's {dataset_id}\n\nIn Python:  minari.MinariDataset(\"{}\")",
            data.display()
        )
    })
}

/// What `--json` prints of a policy.
#[derive(Serialize)]
struct ExportedPolicy {
    path: String,
    bytes: usize,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

fn export_onnx(arguments: &Arguments, path: &Path, output: &Output) -> Result<(), Failure> {
    let source = &arguments.source;
    let policy = load_policy(source, output).map_err(|failure| {
        // Whatever else is wrong with it: a file of another name is no policy.
        match source.is_file() && !is_policy(source) {
            true => Failure::misuse(format!(
                "{0} is no run: --onnx writes the policy of one, the folder that `esper train {0}` makes, or its \
                 policy.safetensors; a data set is written with --csv or --minari",
                source.display()
            )),
            false => failure,
        }
    })?;
    let model = onnx::export(&policy).map_err(Failure::error)?;
    let mut file = PendingFile::create(path, arguments.force).map_err(writing)?;
    file.write_all(&model.bytes)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
    file.finish().map_err(writing)?;
    let exported = ExportedPolicy {
        path: path.display().to_string(),
        bytes: model.bytes.len(),
        inputs: model.inputs,
        outputs: model.outputs,
    };
    output.result(&exported, || {
        let rows = |name: &str, ports: &[Port]| -> Vec<Vec<String>> {
            let row = |port: &Port| {
                vec![format!("{name}  {}", port.name), format!("float [batch, {}]", port.columns)]
            };
            ports.iter().map(row).collect()
        };
        let rows = [rows("in ", &exported.inputs), rows("out", &exported.outputs)].concat();
        format!("{}, {} bytes\n\n{}", exported.path, exported.bytes, table(&rows))
    })
}

fn writing(error: DataError) -> Failure {
    match error {
        DataError::Exists(path) => Failure::error(format!(
            "{} already exists; name another file, or replace it with --force",
            path.display()
        )),
        other => Failure::error(other),
    }
}
