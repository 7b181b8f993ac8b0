//! `esper export`: a policy for whoever acts without this program.

use std::io::Write;
use std::path::PathBuf;

use esper::onnx::{self, Port};
use esper_data::{DataError, PendingFile};
use serde::Serialize;

use super::policy::load_policy;
use crate::output::{Failure, Output, table};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper export my-run --onnx policy.onnx")]
pub(crate) struct Arguments {
    /// The folder of a run, as `esper train` makes it, or a policy.safetensors
    run: PathBuf,

    /// Write the policy as an ONNX file: observations and a level or a target in, probabilities of actions out
    #[arg(long, value_name = "FILE")]
    onnx: PathBuf,

    /// Replace the file if there is one
    #[arg(long)]
    force: bool,
}

/// The JSON of the command.
#[derive(Serialize)]
struct Exported {
    path: String,
    bytes: usize,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
}

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let policy = load_policy(&arguments.run, output)?;
    let model = onnx::export(&policy).map_err(Failure::error)?;
    let path = &arguments.onnx;
    let mut file = PendingFile::create(path, arguments.force).map_err(writing)?;
    file.write_all(&model.bytes)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
    file.finish().map_err(writing)?;
    let exported = Exported {
        path: arguments.onnx.display().to_string(),
        bytes: model.bytes.len(),
        inputs: model.inputs,
        outputs: model.outputs,
    };
    output.result(&exported, || text(&exported))
}

fn writing(error: DataError) -> Failure {
    match error {
        DataError::Exists(path) => Failure::error(format!(
            "{} already exists; name another file, or replace it with --force",
            path.display()
        )),
        other => Failure::writing(other),
    }
}

fn text(exported: &Exported) -> String {
    let rows = |name: &str, ports: &[Port]| -> Vec<Vec<String>> {
        let row = |port: &Port| {
            vec![format!("{name}  {}", port.name), format!("float [batch, {}]", port.columns)]
        };
        ports.iter().map(row).collect()
    };
    let rows = [rows("in ", &exported.inputs), rows("out", &exported.outputs)].concat();
    format!("{}, {} bytes\n\n{}", exported.path, exported.bytes, table(&rows))
}
