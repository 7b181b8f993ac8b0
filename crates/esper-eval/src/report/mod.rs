//! The report: one page about what was asked for, what was achieved, and why.
//!
//! [`Report`] is put together from the folders of comparisons ([`Compared`], [`Scaled`]); [`Report::page`] is a page
//! that needs nothing beside itself, [`Report::figures`] are its figures for a paper.

mod charts;
mod figure;
mod gather;
mod page;
mod png;

pub use figure::{Axis, Colour, Dot, Figure, Mark, Panel, Series};
pub use gather::{Compared, Run, Scaled};
pub use png::to_png;

use std::path::Path;

use crate::results::{Comparison, Results, ResultsError, Scaling};
use crate::text::percent;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// A run cannot be read.
    #[error(transparent)]
    Run(#[from] esper::Error),
    /// There is nothing to report on.
    #[error(
        "there is nothing to report in {0}: it has no {results} and no {scaling}; `esper run` makes them, when it is complete",
        results = Results::FILE,
        scaling = Scaling::FILE
    )]
    Nothing(String),
    /// A figure cannot be drawn in pixels.
    #[error("{0}")]
    Pixels(String),
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

/// Everything that goes into a page.
pub struct Report {
    /// What it is about.
    pub title: String,
    /// What a paper says, and whether it came out so.
    pub claims: Vec<Claim>,
    /// Comparisons of methods.
    pub compared: Vec<Compared>,
    /// Comparisons with several shares of the data.
    pub scaled: Vec<Scaled>,
    /// Other figures, each with a heading and words.
    pub others: Vec<(String, String, Figure)>,
}

impl Report {
    /// The report on one folder that `esper run` left.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let mut report = Report {
            title: String::new(),
            claims: Vec::new(),
            compared: Vec::new(),
            scaled: Vec::new(),
            others: Vec::new(),
        };
        if folder.join(Scaling::FILE).exists() {
            let scaled = Scaled::read(folder)?;
            report.title = format!("esper on {}, with shares of the data", scaled.scaling.task);
            report.scaled.push(scaled);
        } else if folder.join(Results::FILE).exists() {
            let compared = Compared::read(folder)?;
            report.title = format!("esper on {}", compared.results.task);
            report.compared.push(compared);
        } else {
            return Err(ReportError::Nothing(folder.display().to_string()));
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
            figures.push(charts::targets(compared));
            figures.extend(charts::labels_by_behaviour(compared));
            let methods = compared.results.methods.iter();
            figures.extend(methods.filter_map(|method| charts::curves(compared, method)));
        }
        for scaled in &self.scaled {
            figures.extend([charts::scaling(scaled), charts::scaling_targets(scaled)]);
        }
        figures.extend(self.others.iter().map(|(_, _, figure)| figure.clone()));
        figures
    }
}

impl Comparison {
    /// The command that makes it again.
    pub fn command(&self) -> String {
        let Comparison { task, steps, preset, methods, policy, seeds, episodes, .. } = self;
        let mut command = format!("esper run {task}");
        if let Some(fractions) = &self.fractions {
            let shares: Vec<String> = fractions.iter().copied().map(percent).collect();
            command += &format!(" --fractions {}", shares.join(","));
        }
        command += &format!(
            " --methods {} --policy {policy} --seeds {seeds} --preset {preset} --steps {steps} --episodes {episodes}",
            methods.join(",")
        );
        self.changes.iter().for_each(|change| command += &format!(" --set {change}"));
        command
    }
}
