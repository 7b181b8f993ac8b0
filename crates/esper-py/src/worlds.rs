//! The built-in tasks and their worlds.

use std::sync::{Mutex, PoisonError};

use esper_data::{Cells, CellsRef, Space};
use esper_tasks::{Task, find_task, tasks};
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use serde_json::json;

use crate::arrays::{Shaped, array, shaped};
use crate::errors::{IntoPython, wrong_policy};
use crate::json::object;

/// The names of the built-in tasks.
#[pyfunction]
pub(crate) fn task_names() -> Vec<String> {
    tasks().iter().map(|task| task.name().to_owned()).collect()
}

/// What there is to know about a task.
#[pyfunction]
pub(crate) fn task_info<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let task = find_task(name).map_err(IntoPython::raise)?;
    let spaces = task.spaces().map_err(IntoPython::raise)?;
    let named = |task: &Task| {
        json!({
            "name": task.name(),
            "version": task.version(),
            "summary": task.summary(),
            "episodes": task.episodes(),
            "observation_space": spaces.observation,
            "action_space": spaces.action,
            "behaviours": task.behaviours().iter().map(|of| json!({"name": of.name, "summary": of.summary})).collect::<Vec<_>>(),
            "datasets": task.datasets().iter().map(|of| json!({"name": of.name, "steps": of.steps, "summary": of.summary})).collect::<Vec<_>>(),
        })
    };
    object(py, &named(task))
}

/// Copies of a task's world, stepped together.
#[pyclass(frozen, module = "esper._esper")]
pub(crate) struct Worlds {
    worlds: Mutex<esper_tasks::Worlds>,
    observation: Space,
    action: Space,
    copies: usize,
}

#[pymethods]
impl Worlds {
    #[new]
    fn new(task: &str, copies: usize) -> PyResult<Self> {
        let task = find_task(task).map_err(IntoPython::raise)?;
        let worlds = task.worlds(copies).map_err(IntoPython::raise)?;
        let spaces = worlds.spaces().clone();
        let copies = worlds.copies();
        let (observation, action) = (spaces.observation, spaces.action);
        Ok(Worlds { worlds: Mutex::new(worlds), observation, action, copies })
    }

    /// Starts episodes in some copies.
    fn reset(&self, copies: Vec<usize>, seeds: Vec<u64>) -> PyResult<()> {
        let mut worlds = self.lock();
        for (&copy, seed) in copies.iter().zip(seeds) {
            if copy >= self.copies {
                return Err(wrong_policy(format!("there is no copy {copy}")));
            }
            worlds.reset(copy, seed).map_err(IntoPython::raise)?;
        }
        Ok(())
    }

    /// Takes an action in every copy that is running; gives rewards, terminations and truncations of the last steps.
    #[expect(clippy::type_complexity, reason = "three arrays")]
    fn step<'py>(
        &self,
        py: Python<'py>,
        actions: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<bool>>, Bound<'py, PyArray1<bool>>)>
    {
        let Shaped { cells, .. } = shaped(actions, self.action.cell_type())?;
        let mut worlds = self.lock();
        worlds.step(cells.view()).map_err(IntoPython::raise)?;
        let steps = worlds.steps();
        Ok((
            PyArray1::from_iter(py, steps.iter().map(|step| f64::from(step.reward))),
            PyArray1::from_iter(py, steps.iter().map(|step| step.terminated)),
            PyArray1::from_iter(py, steps.iter().map(|step| step.truncated)),
        ))
    }

    /// The same where there is one copy.
    fn step_one(&self, action: &Bound<'_, PyAny>) -> PyResult<(f64, bool, bool)> {
        let Shaped { cells, .. } = shaped(action, self.action.cell_type())?;
        let mut worlds = self.lock();
        worlds.step(cells.view()).map_err(IntoPython::raise)?;
        let step = worlds.steps()[0];
        Ok((f64::from(step.reward), step.terminated, step.truncated))
    }

    /// What all copies show, `[copies, …]`.
    fn observations<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let worlds = self.lock();
        self.shown(py, worlds.observations(), Some(self.copies))
    }

    /// What the only copy shows.
    fn observation<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let worlds = self.lock();
        let width = self.observation.cells();
        self.shown(py, worlds.observations().slice(0..width), None)
    }
}

impl Worlds {
    fn lock(&self) -> std::sync::MutexGuard<'_, esper_tasks::Worlds> {
        self.worlds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Observations in the types of Gymnasium's spaces.
    fn shown<'py>(
        &self,
        py: Python<'py>,
        cells: CellsRef<'_>,
        copies: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let (Space::Discrete { .. }, None) = (&self.observation, copies) {
            return Ok((cells.category(0) as i64).into_pyobject(py)?.into_any());
        }
        if let Space::Discrete { .. } | Space::MultiDiscrete { .. } = &self.observation {
            let whole =
                PyArray1::from_iter(py, (0..cells.len()).map(|at| cells.category(at) as i64));
            let width = matches!(self.observation, Space::MultiDiscrete { .. });
            let shape: Vec<usize> =
                copies.into_iter().chain(width.then(|| self.observation.cells())).collect();
            return Ok(whole.reshape(shape)?.into_any());
        }
        if let Space::MultiBinary { shape } = &self.observation {
            let bits = PyArray1::from_iter(py, (0..cells.len()).map(|at| cells.category(at) as i8));
            let shape: Vec<usize> = copies.into_iter().chain(shape.iter().copied()).collect();
            return Ok(bits.reshape(shape)?.into_any());
        }
        let mut owned = Cells::empty(cells.cell_type());
        owned.extend_from(cells, 0..cells.len());
        array(py, owned, copies, &self.observation)
    }
}
