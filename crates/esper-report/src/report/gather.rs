//! What a report is made from: the folders that `esper run` leaves.

use std::path::Path;

use esper::methods::Curve;
use esper::run::{Labelled, Record, RunFolder};
use esper_eval::{Comparison, MethodResults, Results, Scaling, run_name};

use super::ReportError;

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
    /// Discount factor γ that labels and targets stand for.
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
    pub(super) fn runs_of(&self, method: &MethodResults) -> impl Iterator<Item = &Run> {
        let name = method.method.clone();
        self.runs.iter().filter(move |run| run.method == name)
    }

    /// The methods whose labels were learned: those that know more about them than the returns that were observed.
    pub(super) fn relabelled(&self) -> impl Iterator<Item = &MethodResults> {
        self.results.methods.iter().filter(|method| {
            method.runs.iter().any(|run| run.findings.calibration.is_some())
                && self.runs_of(method).any(|run| run.labelled.is_some())
        })
    }

    /// The task, and the data set if it is not the task's first; as a file may be called.
    pub(crate) fn name(&self) -> String {
        match &self.comparison.dataset {
            Some(dataset) => format!("{}-{dataset}", self.results.task),
            None => self.results.task.clone(),
        }
    }

    /// The name of the policy, as a heading has it.
    pub(super) fn policy(&self) -> &str {
        &self.comparison.policy
    }
}

impl Run {
    fn read(path: &Path, method: &str, seed: u64) -> Result<Self, ReportError> {
        let folder = RunFolder::open(path)?;
        Ok(Run {
            method: method.to_owned(),
            seed,
            labelled: folder.labelled()?,
            metrics: folder.metrics()?,
            discount: folder.summary()?.discount,
            config: folder.config_text()?,
        })
    }

    /// A measure over the steps of a phase.
    pub fn curve(&self, curve: &Curve) -> Vec<[f64; 2]> {
        let records = self.metrics.iter().filter(|record| record.phase == curve.phase);
        let value = |record: &Record| {
            let less = match &curve.less {
                Some(less) => *record.metrics.get(less)?,
                None => 0.0,
            };
            Some(record.metrics.get(&curve.metric)? - less)
        };
        records.filter_map(|record| Some([record.step as f64, value(record)?])).collect()
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
