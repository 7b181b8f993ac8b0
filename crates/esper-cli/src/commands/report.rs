//! `esper report`: a page about a comparison, and its figures.

use std::io::Write;
use std::path::{Path, PathBuf};

use esper_data::PendingFile;
use esper_eval::report::{Figure, Report, ReportError, to_png};
use esper_eval::reproduction::Reproduction;
use serde::Serialize;

use super::compare::{make_folder, write_json};
use crate::output::{Failure, Output};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper report runs/gambling --figures figures")]
pub(crate) struct Arguments {
    /// The folder that `esper run` or `esper reproduce` made
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The page to write [default: report.html in the folder, and of a reproduction its verdicts, claims.json]; one that is
    /// there is replaced
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
    match arguments.out {
        Some(_) => write(&path, report.page().as_bytes())?,
        None => write_report(&report, &arguments.folder, &path)?,
    }
    let mut written = Written { report: path.display().to_string(), figures: Vec::new() };
    if let Some(folder) = &arguments.figures {
        written.figures = write_figures(&report, folder, &[Form::Svg, Form::Png, Form::Csv])?;
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
        Err(nothing @ ReportError::Nothing { .. }) => {
            let reproduction = Reproduction::read(folder)?;
            if reproduction.is_empty() { Err(nothing) } else { Ok(reproduction.report()) }
        }
        other => other,
    }
}

/// Writes a page, and in the folder of a reproduction what became of the claims: they are not to say different things.
pub(super) fn write_report(report: &Report, folder: &Path, page: &Path) -> Result<(), Failure> {
    if let Some(verdicts) = &report.verdicts {
        write_json(&folder.join(Reproduction::CLAIMS), &verdicts.claims)?;
    }
    write(page, report.page().as_bytes())
}

/// What a figure can be written as.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// Lines and text.
    Svg,
    /// Pixels.
    Png,
    /// The numbers behind it.
    Csv,
}

impl Form {
    fn ending(self) -> &'static str {
        match self {
            Form::Svg => "svg",
            Form::Png => "png",
            Form::Csv => "csv",
        }
    }

    fn bytes(self, figure: &Figure) -> Result<Vec<u8>, ReportError> {
        match self {
            Form::Svg => Ok(figure.standalone().into_bytes()),
            Form::Png => to_png(figure),
            Form::Csv => Ok(figure.csv().into_bytes()),
        }
    }
}

/// Writes every figure in some forms; gives their paths.
pub(super) fn write_figures(
    report: &Report,
    folder: &Path,
    forms: &[Form],
) -> Result<Vec<String>, Failure> {
    make_folder(folder)?;
    let mut written = Vec::new();
    for figure in report.figures() {
        for form in forms {
            let path = folder.join(format!("{}.{}", figure.name, form.ending()));
            write(&path, &form.bytes(&figure).map_err(failed)?)?;
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
