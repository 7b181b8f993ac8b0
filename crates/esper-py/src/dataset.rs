//! Data sets.

use std::ops::{ControlFlow, Range};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatchReader;
use arrow_array::ffi_stream::RecordBatchStreamReader;
use arrow_pyarrow::FromPyArrow;
use esper_data::tables::{Mapping, Table, open_with_notes, write_csv};
use esper_data::{Cells, DatasetBuilder, End, Ending, Info, Metadata, write_minari};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use crate::arrays::{Borrowed, array};
use crate::errors::{IntoPython, wrong_data, wrong_settings};
use crate::json::document;
use crate::watch::{Board, pool, watched};

/// Logged episodes; shared, never changed.
#[pyclass(frozen, eq, skip_from_py_object, module = "esper._esper")]
#[derive(Clone, PartialEq)]
pub(crate) struct Dataset {
    pub(crate) data: esper_data::Dataset,
}

/// A data set, and what there is to be said of how it was understood.
type Noted = (Dataset, Vec<String>);

#[pymethods]
impl Dataset {
    /// Puts columns together. Episodes end in the rows `last`; every one has a row of `finals`.
    #[staticmethod]
    #[pyo3(signature = (observations, actions, rewards, last, terminated, truncated, finals, metadata, behaviours, made_by))]
    #[expect(clippy::too_many_arguments, reason = "columns, one by one")]
    fn from_columns(
        py: Python<'_>,
        observations: &Bound<'_, PyAny>,
        actions: &Bound<'_, PyAny>,
        rewards: PyReadonlyArray1<'_, f32>,
        last: PyReadonlyArray1<'_, i64>,
        terminated: PyReadonlyArray1<'_, bool>,
        truncated: PyReadonlyArray1<'_, bool>,
        finals: &Bound<'_, PyAny>,
        metadata: Option<&str>,
        behaviours: Vec<String>,
        made_by: Option<PyReadonlyArray1<'_, i64>>,
    ) -> PyResult<Self> {
        let metadata: Option<Metadata> = metadata
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| wrong_data(format!("the spaces are not described: {error}")))?;
        let (observations, actions) = (Borrowed::of(observations)?, Borrowed::of(actions)?);
        let finals = Borrowed::of(finals)?;
        let (observations, actions) = (observations.cells()?, actions.cells()?);
        let (rewards, finals) = (rewards.as_slice()?, finals.cells()?);
        let (last, made_by) =
            (last.as_slice()?, made_by.as_ref().map(|by| by.as_slice()).transpose()?);
        let (terminated, truncated) = (terminated.as_slice()?, truncated.as_slice()?);
        if terminated.len() != last.len() || truncated.len() != last.len() {
            return Err(wrong_data("every episode ends in one way"));
        }
        let ending = |episode: usize| Ending {
            row: usize::try_from(last[episode]).unwrap_or(usize::MAX),
            end: End { terminated: terminated[episode], truncated: truncated[episode] },
            behaviour: made_by.and_then(|by| usize::try_from(*by.get(episode)?).ok()),
        };
        let endings: Vec<Ending> = (0..last.len()).map(ending).collect();
        let pool = pool()?;
        let build = || {
            let mut builder = match metadata {
                Some(metadata) => DatasetBuilder::new(metadata),
                None => DatasetBuilder::inferring(),
            };
            builder = builder.with_behaviours(behaviours);
            builder.reserve(rewards.len(), endings.len());
            builder.push_log(observations, actions, rewards, finals, &endings)?;
            builder.build()
        };
        let data = py.detach(|| pool.install(build)).map_err(IntoPython::raise)?;
        Ok(Dataset { data })
    }

    /// Reads a data set, whatever it is kept as.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf) -> PyResult<Noted> {
        let read = watched(py, &Board::default(), None, || open_with_notes(&path))?;
        let (data, notes) = read.map_err(IntoPython::raise)?;
        Ok((Dataset { data }, notes))
    }

    /// Reads a native file within so much memory; what does not fit stays on disk, in files without a name beside a folder.
    #[staticmethod]
    fn read_within(py: Python<'_>, path: PathBuf, memory: &str, beside: PathBuf) -> PyResult<Self> {
        let limit = esper::memory::parse(memory).map_err(wrong_settings)?;
        let read = watched(py, &Board::default(), None, || {
            esper::memory::read_within(&path, limit, &beside)
        })?;
        Ok(Dataset { data: read.map_err(IntoPython::raise)? })
    }

    /// Reads Arrow's stream of a table in memory.
    #[staticmethod]
    fn from_arrow(
        py: Python<'_>,
        stream: &Bound<'_, PyAny>,
        mapping: &str,
        name: &str,
    ) -> PyResult<Noted> {
        let mapping: Mapping = serde_json::from_str(mapping)
            .map_err(|error| wrong_data(format!("the mapping makes no sense: {error}")))?;
        let reader = RecordBatchStreamReader::from_pyarrow_bound(stream)?;
        let schema = reader.schema();
        let board = Board::default();
        let go_on = |_| match board.stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let batches = reader.collect::<Result<Vec<_>, _>>();
        let batches = batches.map_err(|error| wrong_data(format!("{name}: {error}")))?;
        let read = watched(py, &board, None, || {
            let survey = Table::in_memory(&schema, batches, name)?.survey(&mapping, go_on)?;
            Ok((survey.dataset(go_on)?, survey.notes().to_vec()))
        })?;
        let (data, notes) = read.map_err(|error: esper_data::DataError| error.raise())?;
        Ok((Dataset { data }, notes))
    }

    /// Writes the native file.
    fn write(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        py.detach(|| self.data.write(&path, overwrite)).map_err(IntoPython::raise)
    }

    /// Writes Minari's folder; gives the name that Minari knows it by.
    fn write_minari(&self, py: Python<'_>, folder: PathBuf) -> PyResult<String> {
        py.detach(|| write_minari(&self.data, &folder)).map_err(IntoPython::raise)
    }

    /// Writes a table.
    fn write_csv(&self, py: Python<'_>, path: PathBuf, overwrite: bool) -> PyResult<()> {
        let write = |path: &Path| write_csv(&self.data, path, overwrite);
        py.detach(|| write(&path)).map_err(IntoPython::raise)?;
        Ok(())
    }

    /// What `esper info --json` says.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let pool = pool()?;
        let info = py.detach(|| pool.install(|| Info::of(&self.data)));
        document(py, &info)
    }

    /// Spaces, task, fields.
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        document(py, self.data.metadata())
    }

    #[getter]
    fn episodes(&self) -> usize {
        self.data.episodes()
    }

    #[getter]
    fn steps(&self) -> usize {
        self.data.steps()
    }

    /// Names of behaviours.
    #[getter]
    fn behaviours(&self) -> Vec<String> {
        self.data.behaviours().to_vec()
    }

    /// For every episode who made it; -1 where nobody knows.
    fn made_by<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let made_by = |episode| self.data.behaviour(episode).map_or(-1, |by| by as i64);
        PyArray1::from_iter(py, (0..self.data.episodes()).map(made_by))
    }

    /// Steps of every episode.
    fn lengths<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        PyArray1::from_iter(py, (0..self.data.episodes()).map(|at| self.data.length(at) as i64))
    }

    /// Returns of every episode.
    fn returns<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        PyArray1::from_iter(py, (0..self.data.episodes()).map(|at| self.data.episode_return(at)))
    }

    /// For every episode whether it came to an end state.
    fn terminated<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_iter(py, (0..self.data.episodes()).map(|at| self.data.end(at).terminated))
    }

    /// For every episode whether it was cut.
    fn truncated<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        PyArray1::from_iter(py, (0..self.data.episodes()).map(|at| self.data.end(at).truncated))
    }

    /// Observations that steps acted on, `[steps, …]`; or, shifted by one, those that they led to.
    fn observations<'py>(&self, py: Python<'py>, shift: usize) -> PyResult<Bound<'py, PyAny>> {
        let rows = |episode| {
            let rows = self.data.episode_observations(episode);
            rows.start + shift.min(1)..rows.end - 1 + shift.min(1)
        };
        let space = &self.data.metadata().observation_space;
        let cells = self.gathered(self.data.observations(), space.cells(), rows);
        array(py, cells, Some(self.data.steps()), space)
    }

    /// What last actions led to, `[episodes, …]`.
    fn finals<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows = |episode| {
            let end = self.data.episode_observations(episode).end;
            end - 1..end
        };
        let space = &self.data.metadata().observation_space;
        let cells = self.gathered(self.data.observations(), space.cells(), rows);
        array(py, cells, Some(self.data.episodes()), space)
    }

    /// Actions, `[steps, …]`.
    fn actions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let space = &self.data.metadata().action_space;
        let cells =
            self.gathered(self.data.actions(), space.cells(), |at| self.data.episode_steps(at));
        array(py, cells, Some(self.data.steps()), space)
    }

    /// Rewards, `[steps]`.
    fn rewards<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f32>> {
        let rewards = self.data.rewards();
        PyArray1::from_vec(py, self.by_step(rewards))
    }

    /// Returns-to-go, `[steps]`.
    fn returns_to_go<'py>(&self, py: Python<'py>, discount: f64) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_vec(py, self.by_step(&self.data.returns_to_go(discount)))
    }

    /// A view of some episodes.
    fn select(&self, episodes: Vec<usize>) -> PyResult<Self> {
        let mut sorted = episodes.clone();
        sorted.sort_unstable();
        let found = self.data.episodes();
        if sorted.is_empty() || sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(wrong_data("at least one episode is chosen, and each at most once"));
        }
        if let Some(&most) = sorted.last().filter(|&&most| most >= found) {
            return Err(wrong_data(format!("there is no episode {most}; there are {found}")));
        }
        Ok(Dataset { data: self.data.select(&episodes) })
    }

    /// A view of the first episodes with so many steps.
    fn first_steps(&self, steps: usize) -> Self {
        Dataset { data: self.data.first_steps(steps) }
    }
}

impl Dataset {
    /// The cells of some rows of every episode, one after the other.
    fn gathered(
        &self,
        column: &Cells,
        width: usize,
        rows: impl Fn(usize) -> Range<usize>,
    ) -> Cells {
        let mut cells = Cells::empty(column.cell_type());
        cells.reserve((0..self.data.episodes()).map(|at| rows(at).len()).sum::<usize>() * width);
        for episode in 0..self.data.episodes() {
            let rows = rows(episode);
            cells.extend_from(column.view(), rows.start * width..rows.end * width);
        }
        cells
    }

    /// What there is one of for every row, for every step.
    pub(crate) fn by_step<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let steps = (0..self.data.episodes()).flat_map(|at| &values[self.data.episode_steps(at)]);
        steps.copied().collect()
    }
}
