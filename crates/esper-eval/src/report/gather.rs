//! What a report is made from: the folders that `esper run` leaves.

use std::path::Path;

use esper::run::{Labelled, Record, RunFolder};

use super::ReportError;
use crate::results::{Comparison, Results, Scaling, run_name};

/// One comparison: its results, and what its runs left.
pub struct Compared {
    /// What was compared.
    pub comparison: Comparison,
    /// What came of it.
    pub results: Results,
    /// Every run that left something, in the order of the results.
    pub runs: Vec<Run>,
}

/// What one training left.
pub struct Run {
    /// The method.
    pub method: String,
    /// The seed.
    pub seed: u64,
    /// What its labels came out like, if it has labels.
    pub labelled: Option<Labelled>,
    /// What was measured while training.
    pub metrics: Vec<Record>,
    /// Its settings, as TOML.
    pub config: String,
    /// The share that its clusters may leak.
    pub tolerance: f64,
    /// What a reward is worth a step later.
    pub discount: f64,
}

impl Compared {
    /// Reads the folder of a comparison. Runs whose folder is gone are left out.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let comparison = Comparison::read(folder)?;
        let results = Results::read(folder)?;
        let mut runs = Vec::new();
        for method in &results.methods {
            for run in &method.runs {
                let name = run_name(&method.method, method.policy.as_deref(), run.seed);
                let path = folder.join(name);
                if path.is_dir() {
                    runs.push(Run::read(&path, &method.method, run.seed)?);
                }
            }
        }
        Ok(Compared { comparison, results, runs })
    }

    /// The runs of a method.
    pub(super) fn runs_of<'a>(&'a self, method: &'a str) -> impl Iterator<Item = &'a Run> {
        self.runs.iter().filter(move |run| run.method == method)
    }

    /// The name of the policy, as a heading has it.
    pub(super) fn policy(&self) -> &str {
        &self.comparison.policy
    }
}

impl Run {
    fn read(path: &Path, method: &str, seed: u64) -> Result<Self, ReportError> {
        let folder = RunFolder::open(path)?;
        let config = folder.config()?;
        Ok(Run {
            method: method.to_owned(),
            seed,
            labelled: folder.labelled()?,
            metrics: folder.metrics()?,
            tolerance: config.leakage.tolerance,
            discount: config.discount,
            config: config.to_toml(),
        })
    }

    /// A measure over the steps of a phase.
    pub fn curve(&self, phase: &str, metric: &str) -> Vec<[f64; 2]> {
        let records = self.metrics.iter().filter(|record| record.phase == phase);
        let points =
            records.filter_map(|record| Some([record.step as f64, *record.metrics.get(metric)?]));
        points.collect()
    }
}

/// Comparisons with several shares of the data.
pub struct Scaled {
    /// What was compared.
    pub comparison: Comparison,
    /// What came of it.
    pub scaling: Scaling,
}

impl Scaled {
    /// Reads the folder of such comparisons.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        Ok(Scaled { comparison: Comparison::read(folder)?, scaling: Scaling::read(folder)? })
    }
}
