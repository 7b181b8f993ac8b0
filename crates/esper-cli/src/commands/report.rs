//! `esper report`: a page about a comparison or about single runs, and its figures.

use std::path::{Path, PathBuf};

use esper_report::reproduction::Reproduction;
use esper_report::{Form, PAGE, Report, ReportError};
use serde::Serialize;

use crate::output::{Failure, Output, report_failure};

#[derive(clap::Args)]
#[command(after_help = "Example:  esper report runs/gambling --figures figures\n          \
                  esper report my-run\n          \
                  esper report my-run another-run --out both.html")]
pub(crate) struct Arguments {
    /// The folder that `esper run`, `esper train` or `esper reproduce` made; several of `esper train` on the same data are
    /// compared
    #[arg(value_name = "DIR", required = true)]
    folders: Vec<PathBuf>,

    /// The page to write [default: report.html in the folder, and of a reproduction its verdicts, claims.json; of several
    /// folders, report.html]; one that is there is replaced
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

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let failed = |error| report_failure(error, "");
    let (report, path) = match &arguments.folders[..] {
        [folder] => (read(folder).map_err(failed)?, folder.join(PAGE)),
        several => (Report::of_runs(several).map_err(failed)?, PathBuf::from(PAGE)),
    };
    let path = arguments.out.clone().unwrap_or(path);
    if let (None, [folder]) = (&arguments.out, &arguments.folders[..]) {
        report.write_claims(folder).map_err(failed)?;
    }
    report.write(&path).map_err(failed)?;
    let mut written = Written { report: path.display().to_string(), figures: Vec::new() };
    if let Some(folder) = &arguments.figures {
        let figures = report.write_figures(folder, &Form::ALL).map_err(failed)?;
        written.figures = figures.iter().map(|path| path.display().to_string()).collect();
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
