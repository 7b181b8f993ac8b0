//! `esper report`: a page about a comparison, and its figures.

use std::io::Write;
use std::path::{Path, PathBuf};

use esper_data::PendingFile;
use esper_eval::report::{Report, ReportError, to_png};
use esper_eval::reproduction::Reproduction;
use serde::Serialize;

use crate::output::{Failure, Output};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper report runs/gambling --figures figures")]
pub(crate) struct Arguments {
    /// The folder that `esper run` or `esper reproduce` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The page to write [default: report.html in the folder]; one that is there is replaced
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Also write every figure to this folder, as SVG, as PNG and as the numbers behind it
    #[arg(long, value_name = "DIR")]
    figures: Option<PathBuf>,
}

#[derive(Serialize)]
struct Written {
    report: String,
    figures: Vec<String>,
}

/// The page in a folder.
pub(super) const PAGE: &str = "report.html";

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let report = read(&arguments.folder).map_err(failed)?;
    let path = arguments.out.clone().unwrap_or_else(|| arguments.folder.join(PAGE));
    write(&path, report.page().as_bytes())?;
    let mut written = Written { report: path.display().to_string(), figures: Vec::new() };
    if let Some(folder) = &arguments.figures {
        written.figures = write_figures(&report, folder)?;
    }
    output.result(&written, || {
        let figures = match &arguments.figures {
            Some(folder) => {
                format!("\n{} files of figures in {}", written.figures.len(), folder.display())
            }
            None => String::new(),
        };
        format!("{}{figures}", written.report)
    })
}

/// The report on a comparison, or on a whole reproduction.
fn read(folder: &Path) -> Result<Report, ReportError> {
    match Report::read(folder) {
        Err(nothing @ ReportError::Nothing(_)) => {
            let reproduction = Reproduction::read(folder)?;
            if reproduction.is_empty() { Err(nothing) } else { Ok(reproduction.report()) }
        }
        other => other,
    }
}

/// Writes every figure in three forms; gives their paths.
pub(super) fn write_figures(report: &Report, folder: &Path) -> Result<Vec<String>, Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::error(format!("{}: {error}", folder.display())))?;
    let mut written = Vec::new();
    for figure in report.figures() {
        let rows: Vec<String> = figure.data.iter().map(|row| row.join(",") + "\n").collect();
        let forms = [
            ("svg", figure.standalone().into_bytes()),
            ("png", to_png(&figure).map_err(failed)?),
            ("csv", rows.concat().into_bytes()),
        ];
        for (ending, bytes) in forms {
            let path = folder.join(format!("{}.{ending}", figure.name));
            write(&path, &bytes)?;
            written.push(path.display().to_string());
        }
    }
    Ok(written)
}

/// Writes a page or a figure, in place of an older one.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = PendingFile::create(path, true).map_err(Failure::writing)?;
    file.write_all(bytes)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))?;
    file.finish().map_err(Failure::writing)
}

pub(super) fn failed(error: ReportError) -> Failure {
    Failure::error(error)
}
