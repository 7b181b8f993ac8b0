//! The report: one page about what was asked for, what was achieved, and why.
//!
//! [`Report`] is put together from the folders of comparisons and of single runs ([`Compared`], [`Scaled`]); [`Report::page`] is a page
//! that needs nothing beside itself, [`Report::figures`] are its figures for a paper.

mod charts;
mod figure;
mod gather;
mod logs;
mod logs_charts;
mod logs_shares;
mod page;
mod png;

pub use figure::{Axis, Colour, Dot, Figure, Mark, Panel, Series};
pub use gather::{Compared, Run, Scaled};
pub use png::to_png;

use std::path::{Path, PathBuf};

use esper::run::RunFolder;
use esper_data::write_file;
use esper_eval::{Comparison, Results, ResultsError, Scaling};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A run cannot be read.
    #[error(transparent)]
    Run(#[from] esper::Error),
    /// There is nothing to report on.
    #[error("there is nothing to report in {}: {}", path.display(), nothing_in(path))]
    Nothing {
        /// Where.
        path: PathBuf,
    },
    /// Runs were trained on different data.
    #[error(
        "{} and {} were trained on different data, so what they promise cannot be compared; make a report on each",
        one.display(),
        other.display()
    )]
    OtherData {
        /// The first.
        one: PathBuf,
        /// One that differs.
        other: PathBuf,
    },
    /// A figure cannot be drawn in pixels.
    #[error("{0}")]
    Pixels(String),
    /// A folder cannot be made, or files not be linked into it.
    #[error("{}: {source}", path.display())]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// An experiment failed.
    #[error(transparent)]
    Experiment(Box<esper_eval::EvalError>),
    /// The folder holds results with another preset.
    #[error("{} holds results with the preset {preset}", path.display())]
    OtherPreset {
        /// The folder.
        path: PathBuf,
        /// The preset.
        preset: String,
    },
    /// A page or a figure cannot be written.
    #[error(transparent)]
    Pending(#[from] esper_data::DataError),
}

impl From<esper_eval::EvalError> for ReportError {
    fn from(error: esper_eval::EvalError) -> Self {
        ReportError::Experiment(Box::new(error))
    }
}

/// Why there is nothing to report in a place.
fn nothing_in(path: &Path) -> String {
    if !path.exists() {
        return "there is no such folder".to_owned();
    }
    if !path.is_dir() {
        return "it is no folder; name one that `esper run`, `esper train` or `esper reproduce` made"
            .to_owned();
    }
    if path.join(Comparison::FILE).exists() {
        return "the comparison in it is not complete; go on with it with `esper run … --resume`"
            .to_owned();
    }
    let (results, scaling) = (Results::FILE, Scaling::FILE);
    format!(
        "it has no {results} and no {scaling}; `esper run` and `esper reproduce` make them, when they are complete, and it is no \
         run of `esper train`"
    )
}

/// What a paper says, and whether it came out so.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Claim {
    /// The claim.
    pub says: String,
    /// Whether it holds.
    pub holds: bool,
    /// The numbers that say so.
    pub numbers: String,
}

/// What became of everything that a paper says.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdicts {
    /// One for each thing that it says.
    pub claims: Vec<Claim>,
    /// When a claim holds.
    pub criteria: &'static str,
    /// What there are no results of yet.
    pub missing: Vec<String>,
    /// The command that made them, with the settings of all parts.
    pub command: String,
}

/// A figure with a heading and words.
pub struct Section {
    /// The heading.
    pub title: String,
    /// What it shows.
    pub words: String,
    /// The figure.
    pub figure: Figure,
    /// The command that makes it again.
    pub command: String,
}

/// Everything that goes into a page.
pub struct Report {
    /// What it is about.
    pub title: String,
    /// What became of what a paper says, if it is held against one.
    pub verdicts: Option<Verdicts>,
    /// Comparisons of methods.
    pub compared: Vec<Compared>,
    /// Comparisons with several shares of the data.
    pub scaled: Vec<Scaled>,
    /// Other figures.
    pub others: Vec<Section>,
}

impl Report {
    /// The report on runs that were trained one by one on the same data: a single one, or several for comparison.
    pub fn of_runs(folders: &[PathBuf]) -> Result<Self, ReportError> {
        let compared = Compared::of_runs(folders)?;
        let title = match folders {
            [_] => format!("esper: {}", compared.name()),
            _ => format!("esper: {} runs", folders.len()),
        };
        Ok(Report { title, compared: vec![compared], ..Report::empty() })
    }

    fn empty() -> Self {
        Report {
            title: String::new(),
            verdicts: None,
            compared: Vec::new(),
            scaled: Vec::new(),
            others: Vec::new(),
        }
    }

    /// The report on one folder that `esper run` or `esper train` left.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        if RunFolder::is_run(folder) {
            return Self::of_runs(&[folder.to_owned()]);
        }
        let mut report = Report::empty();
        if folder.join(Scaling::FILE).exists() {
            let scaled = Scaled::read(folder)?;
            report.title = format!("esper on {}, with shares of the data", scaled.name());
            report.scaled.push(scaled);
        } else if folder.join(Results::FILE).exists() {
            let compared = Compared::read(folder)?;
            report.title = format!("esper on {}", compared.name());
            report.compared.push(compared);
        } else {
            return Err(ReportError::Nothing { path: folder.to_owned() });
        }
        Ok(report)
    }

    /// The page.
    pub fn page(&self) -> String {
        page::page(self)
    }

    /// All figures of the page.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for compared in &self.compared {
            if compared.is_of_logs() {
                figures.extend(logs_charts::figures(compared));
            }
            figures.extend(charts::targets(compared));
            figures.extend(
                compared.relabelled().filter_map(|of| charts::labels_by_behaviour(compared, of)),
            );
            let methods = compared.results.methods.iter();
            figures.extend(methods.filter_map(|method| charts::curves(compared, method)));
        }
        for scaled in &self.scaled {
            if !scaled.in_world() {
                figures.extend(logs_shares::figure(scaled));
                continue;
            }
            figures.push(charts::scaling(scaled));
            figures.extend(charts::scaling_targets(scaled));
        }
        figures.extend(self.others.iter().map(|section| section.figure.clone()));
        figures
    }
}

/// The page in a folder.
pub const PAGE: &str = "report.html";

/// What a figure can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines and text.
    Svg,
    /// Pixels.
    Png,
    /// The numbers behind it.
    Csv,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 3] = [Form::Svg, Form::Png, Form::Csv];

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

impl Report {
    /// Writes the page, in place of an older one.
    pub fn write(&self, path: &Path) -> Result<(), ReportError> {
        write(path, self.page().as_bytes())
    }

    /// Writes every figure in some forms to a folder; gives their paths.
    pub fn write_figures(
        &self,
        folder: &Path,
        forms: &[Form],
    ) -> Result<Vec<PathBuf>, ReportError> {
        make_folder(folder)?;
        let mut written = Vec::new();
        for figure in self.figures() {
            for form in forms {
                let path = folder.join(format!("{}.{}", file_stem(&figure.name), form.ending()));
                write(&path, &form.bytes(&figure)?)?;
                written.push(path);
            }
        }
        Ok(written)
    }
}

/// A figure's name as the name of a file in one folder: it holds names from files, which may hold anything.
fn file_stem(name: &str) -> String {
    name.replace(|c: char| c.is_control() || "/\\:".contains(c), "_")
}

pub(crate) fn make_folder(folder: &Path) -> Result<(), ReportError> {
    std::fs::create_dir_all(folder)
        .map_err(|source| ReportError::Unwritable { path: folder.to_owned(), source })
}

/// Writes a page or a figure, in place of an older one.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    Ok(write_file(path, bytes)?)
}
