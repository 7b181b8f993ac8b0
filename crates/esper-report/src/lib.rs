//! Figures, pages and the reproduction of the paper, from the folders that experiments leave.
//!
//! A [`Report`] is put together from the folder of an [`esper_eval::Experiment`]; it is a page that needs nothing beside
//! itself, and figures for a paper. [`reproduction`] does what the paper did, and says what became of its claims.
//!
//! ```no_run
//! use esper_report::{Form, Report};
//!
//! let report = Report::read("runs/gambling".as_ref())?;
//! report.write("report.html".as_ref())?;
//! report.write_figures("figures".as_ref(), &Form::ALL)?;
//! # Ok::<(), esper_report::ReportError>(())
//! ```
//!
//! Nothing here knows how anything is trained.

mod proof;
mod report;
pub mod reproduction;

pub use proof::proof_page;
pub use report::{
    Axis, Claim, Colour, Compared, Dot, Figure, Form, Mark, PAGE, Panel, Report, ReportError, Run,
    Scaled, Section, Series, Verdicts, to_png,
};
