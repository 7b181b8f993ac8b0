//! Sweeps: several comparisons at once, whose runs are done here or in other processes.

use std::path::PathBuf;

use esper_eval::EvalError;
use esper_report::{PAGE, Report};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::errors::{IntoPython, wrong_settings};
use crate::json::object;
use crate::learning::{Asked, failure};
use crate::relabel::Raised;
use crate::watch::{Board, watched};

/// One comparison: data or a task's name, where the data was, the folder, and what is asked.
type Cell<'py> = (Bound<'py, PyAny>, PathBuf, PathBuf, Asked<'py>);

/// A run: the number of its comparison, its name, method, seed and folder.
type Planned = (usize, String, String, u64, PathBuf);

/// Comparisons that were begun; their folders are locked while this is there.
#[pyclass(frozen, module = "esper._esper")]
pub(crate) struct Sweep {
    experiments: esper_eval::Experiments,
    folders: Vec<PathBuf>,
}

#[pymethods]
impl Sweep {
    #[new]
    #[pyo3(signature = (cells, listener))]
    fn begin(py: Python<'_>, cells: Vec<Cell<'_>>, listener: Option<Py<PyAny>>) -> PyResult<Self> {
        let raised = Raised::default();
        let mut begun_in = Vec::new();
        for (source, path, folder, asked) in cells {
            begun_in.push((asked.experiment(&source, &path, &raised)?, folder));
        }
        let folders = begun_in.iter().map(|(_, folder)| folder.clone()).collect();
        let board = Board::default();
        let begin = || esper_eval::Experiments::begin(begun_in, &board);
        let experiments =
            watched(py, &board, listener.as_ref(), begin)?.map_err(IntoPython::raise)?;
        Ok(Sweep { experiments, folders })
    }

    /// Every run.
    fn runs(&self) -> PyResult<Vec<Planned>> {
        let runs = self.experiments.runs().map_err(IntoPython::raise)?.into_iter();
        Ok(runs.map(|run| (run.experiment, run.name, run.method, run.seed, run.path)).collect())
    }

    /// Does all of them here; gives why some failed, in the order of the runs.
    fn run(&self, py: Python<'_>, listener: Option<Py<PyAny>>) -> PyResult<Vec<Option<String>>> {
        let board = Board::default();
        let failures = watched(py, &board, listener.as_ref(), || self.experiments.run(&board))?;
        failures.map_err(IntoPython::raise)
    }

    /// What came of every comparison: its results, which are left in its folder with a report, or nothing; and runs that failed.
    fn gather<'py>(
        &self,
        py: Python<'py>,
        failures: Vec<Option<String>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let gathered =
            py.detach(|| self.experiments.gather(&failures)).map_err(IntoPython::raise)?;
        let mut found = Vec::new();
        for (folder, results) in self.folders.iter().zip(gathered) {
            if results.is_ok() {
                py.detach(|| Report::read(folder)?.write(&folder.join(PAGE)))
                    .map_err(IntoPython::raise)?;
            }
            found.push(match results {
                Ok(results) => json!({ "failed": results.failed, "results": results }),
                Err(failed) => json!({ "results": Value::Null, "failed": failed }),
            });
        }
        object(py, &Value::from(found))
    }
}

/// Does one run of a comparison that was begun, perhaps on another machine. Gives nothing: all of it is in the folder.
#[pyfunction]
#[pyo3(signature = (cell, method, seed, listener))]
pub(crate) fn run_one(
    py: Python<'_>,
    cell: Cell<'_>,
    method: &str,
    seed: u64,
    listener: Option<Py<PyAny>>,
) -> PyResult<()> {
    let (source, path, folder, asked) = cell;
    let raised = Raised::default();
    let experiment = asked.experiment(&source, &path, &raised)?;
    let board = Board::default();
    let done = watched(py, &board, listener.as_ref(), || -> Result<(), EvalError> {
        experiment.run_one(&folder, method, seed, &board).map(|_| ())
    })?;
    done.map_err(|error| failure(&raised, error))
}

/// Whether something may be called this: it becomes the name of a folder.
#[pyfunction]
pub(crate) fn check_name(name: &str) -> PyResult<()> {
    esper_data::check_name(name).map_err(wrong_settings)
}

/// Takes away the lock of a folder whose holder is known to be gone.
#[pyfunction]
pub(crate) fn break_lock(folder: PathBuf) -> PyResult<()> {
    esper_data::Lock::break_folder(&folder).map_err(IntoPython::raise)
}
