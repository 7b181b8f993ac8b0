//! Policies, and acting.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use esper::Registry;
use esper::agent::{Agent, Choice};
use esper::condition::Target;
use esper::serving::ObservationReader;
use esper_data::{Cells, Seed, Space};
use esper_nn::alone;
use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use serde_json::{Value, json};

use crate::arrays::{Shaped, array, shape_of, shaped};
use crate::errors::{IntoPython, wrong_policy};
use crate::json::{document, object};
use crate::learning::{device, policy_file};
use crate::watch::pool;

/// A trained policy; shared, never changed.
#[pyclass(frozen, module = "esper._esper")]
pub(crate) struct Policy {
    pub(crate) policy: esper::policy::Policy,
}

#[pymethods]
impl Policy {
    /// The policy of a run's folder, or of a file.
    #[staticmethod]
    fn load(path: PathBuf, device_name: &str) -> PyResult<Self> {
        let device = device(device_name)?;
        let load =
            || esper::policy::Policy::load(&policy_file(&path)?, &Registry::default(), &device);
        Ok(Policy { policy: load().map_err(IntoPython::raise)? })
    }

    /// The policy in the bytes of its file.
    #[staticmethod]
    fn from_bytes(bytes: Vec<u8>, device_name: &str) -> PyResult<Self> {
        let (registry, device) = (Registry::default(), device(device_name)?);
        let path = "policy.safetensors".as_ref();
        let policy = esper::policy::Policy::from_bytes(path, bytes, &registry, &device);
        Ok(Policy { policy: policy.map_err(IntoPython::raise)? })
    }

    /// The bytes of its file.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.policy.to_safetensors())
    }

    /// Writes its file.
    fn write(&self, path: PathBuf) -> PyResult<()> {
        self.policy.write(&path).map_err(IntoPython::raise)
    }

    /// The bytes of an ONNX model.
    fn to_onnx<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let model = esper::onnx::export(&self.policy).map_err(IntoPython::raise)?;
        Ok(PyBytes::new(py, &model.bytes))
    }

    /// What there is to know about it, but for what its network is like.
    fn card<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let card = self.policy.card();
        let offline = card.offline_target().and_then(|target| card.promised(target));
        object(
            py,
            &json!({
                "kind": card.kind,
                "version": card.version,
                "method": card.origin.method,
                "seed": card.origin.seed,
                "task": card.origin.task,
                "task_version": card.origin.task_version,
                "settings": card.origin.settings,
                "condition": card.condition,
                "discount": card.discount,
                "observation_space": card.interface.observation.space(),
                "action_space": card.interface.action.encoding().space(),
                "fields": card.interface.fields,
                "has_targets": card.support.is_some(),
                "offline_level": offline.and_then(|offline| offline.level),
                "offline_target": offline.map(|offline| offline.target),
            }),
        )
    }

    /// What is promised for a level or a target; `None` if it cannot be asked.
    #[pyo3(signature = (level, target))]
    fn promised<'py>(
        &self,
        py: Python<'py>,
        level: Option<f64>,
        target: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let card = self.policy.card();
        let asked = asked(level, target)?.or_else(|| card.offline_target());
        let Some(promised) = asked.and_then(|asked| card.promised(asked)) else {
            return Ok(py.None().into_bound(py));
        };
        let interval = card.levels.is_some();
        let value = json!({
            "level": promised.level,
            "target": promised.target,
            "promise": promised.promise.promise,
            "low": interval.then_some(promised.promise.low),
            "high": interval.then_some(promised.promise.high),
            "supported": promised.supported,
        });
        object(py, &value)
    }

    /// What every level promises; empty if levels are not told.
    fn promises<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let levels = self.policy.card().levels.as_ref();
        let all = levels.map_or(Vec::new(), |levels| levels.promises.all().to_vec());
        document(py, &all)
    }

    /// What a sweep asks for: levels and targets.
    fn sweep(&self) -> Vec<(Option<f64>, Option<f64>)> {
        let pair = |target| match target {
            Target::Level(level) => (Some(level), None),
            Target::Return(target) => (None, Some(target)),
        };
        self.policy.card().sweep().into_iter().map(pair).collect()
    }
}

/// What is asked for, if anything is.
fn asked(level: Option<f64>, target: Option<f64>) -> PyResult<Option<Target>> {
    match (level, target) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(wrong_policy("a level and a target are given; a policy is asked for one of them"))
        }
        (Some(level), None) if (0.0..=1.0).contains(&level) => Ok(Some(Target::Level(level))),
        (Some(level), None) => {
            Err(wrong_policy(format!("levels are from 0 to 1; {level} is none")))
        }
        (None, Some(target)) if target.is_finite() => Ok(Some(Target::Return(target))),
        (None, Some(target)) => {
            Err(wrong_policy(format!("a target is a number; {target} is none")))
        }
    }
}

/// Episodes that a policy acts in, side by side.
#[pyclass(frozen, module = "esper._esper")]
pub(crate) struct Session {
    policy: esper::policy::Policy,
    observation: Space,
    /// The shape of one observation.
    shape: Vec<usize>,
    action: Space,
    reader: ObservationReader,
    state: Mutex<State>,
}

struct State {
    agent: Box<dyn Agent>,
    /// Episodes under way are in the places from 0 up to here.
    open: usize,
    target: Target,
    seed: Seed,
    /// Episodes that began so far.
    begun: u64,
}

impl State {
    fn begin(&mut self, place: usize) {
        let seed = self.seed.named("session").indexed(self.begun);
        self.agent.begin(place, self.target, seed);
        self.begun += 1;
    }

    /// Ends all episodes.
    fn close(&mut self) {
        (0..self.open).for_each(|place| self.agent.end(place));
        self.open = 0;
    }
}

/// What came of asking for actions.
struct Decided {
    actions: Cells,
    probabilities: Vec<f32>,
}

/// More rows than these are worth letting go of Python's lock, and other threads.
const FEW: usize = 32;

#[pymethods]
impl Session {
    #[new]
    fn new(
        policy: &Bound<'_, Policy>,
        level: Option<f64>,
        target: Option<f64>,
        seed: u64,
    ) -> PyResult<Self> {
        let policy = policy.get().policy.clone();
        let card = policy.card();
        let (observation, action) = (
            card.interface.observation.space().clone(),
            card.interface.action.encoding().space().clone(),
        );
        let state = State {
            agent: policy.agent(),
            open: 0,
            target: card.offline_target().unwrap_or(Target::Return(0.0)),
            seed: Seed::new(seed),
            begun: 0,
        };
        let session = Session {
            shape: shape_of(&observation),
            reader: ObservationReader::new(&card.interface),
            state: Mutex::new(state),
            observation,
            action,
            policy,
        };
        session.ask(level, target)?;
        Ok(session)
    }

    /// Ends episodes: all of them, or those in some places, where others begin. What is asked for stays, unless it is given anew.
    #[pyo3(signature = (places, level, target, seed))]
    fn reset(
        &self,
        places: Option<Vec<usize>>,
        level: Option<f64>,
        target: Option<f64>,
        seed: Option<u64>,
    ) -> PyResult<()> {
        if places.is_none() {
            self.lock().close();
        }
        self.ask(level, target)?;
        let mut state = self.lock();
        if let Some(seed) = seed {
            (state.seed, state.begun) = (Seed::new(seed), 0);
        }
        for place in places.into_iter().flatten() {
            if place < state.open {
                state.begin(place);
            }
        }
        Ok(())
    }

    /// What previous actions paid: a number, or one for every episode under way.
    fn reward(&self, rewards: Vec<f32>) -> PyResult<()> {
        let mut state = self.lock();
        if rewards.len() != state.open {
            let (found, open) = (rewards.len(), state.open);
            return Err(wrong_policy(format!("{found} rewards for {open} episodes under way")));
        }
        for (place, reward) in rewards.into_iter().enumerate() {
            state.agent.reward(place, reward).map_err(IntoPython::raise)?;
        }
        Ok(())
    }

    /// Actions for an observation, or for several side by side.
    #[pyo3(signature = (observations, level, target, greedy, words, probabilities))]
    #[expect(clippy::too_many_arguments, reason = "options, one by one")]
    fn act<'py>(
        &self,
        py: Python<'py>,
        observations: &Bound<'py, PyAny>,
        level: Option<f64>,
        target: Option<f64>,
        greedy: bool,
        words: bool,
        probabilities: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
        let Shaped { cells, shape } = shaped(observations, self.observation.cell_type())?;
        let rows = self.rows(&shape)?;
        self.answer(py, cells, rows, (level, target), greedy, words, probabilities)
    }

    /// The same for observations as JSON: by the names of columns, or in the log's own words. Also gives what is to be said of
    /// them.
    #[pyo3(signature = (observations, batch, level, target, greedy, words, probabilities))]
    #[expect(clippy::too_many_arguments, reason = "options, one by one")]
    #[expect(clippy::type_complexity, reason = "actions, probabilities, warnings")]
    fn act_on_json<'py>(
        &self,
        py: Python<'py>,
        observations: &str,
        batch: bool,
        level: Option<f64>,
        target: Option<f64>,
        greedy: bool,
        words: bool,
        probabilities: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Vec<String>)> {
        let given: Vec<Value> = serde_json::from_str(observations)
            .map_err(|error| wrong_policy(format!("the observation cannot be read: {error}")))?;
        let mut cells = Cells::empty(self.observation.cell_type());
        let (mut row, mut warnings) = (Cells::empty(cells.cell_type()), Vec::new());
        for (at, value) in given.iter().enumerate() {
            row.clear();
            self.reader.read(value, &mut row, &mut warnings).map_err(|words| match batch {
                true => wrong_policy(format!("observation {at}: {words}")),
                false => wrong_policy(words),
            })?;
            cells.extend_from(row.view(), 0..row.len());
        }
        let rows = batch.then_some(given.len());
        let (actions, likely) =
            self.answer(py, cells, rows, (level, target), greedy, words, probabilities)?;
        Ok((actions, likely, warnings))
    }
}

impl Session {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is asked for, if it is given; episodes under way are then over.
    fn ask(&self, level: Option<f64>, target: Option<f64>) -> PyResult<()> {
        let Some(asked) = asked(level, target)? else { return Ok(()) };
        let mut state = self.lock();
        if state.target != asked && self.policy.card().support.is_some() {
            state.close();
            state.target = asked;
        }
        Ok(())
    }

    /// How many observations there are; `None` for a single one.
    fn rows(&self, shape: &[usize]) -> PyResult<Option<usize>> {
        let width = self.observation.cells();
        match shape {
            shape if shape == self.shape => Ok(None),
            [rows, rest @ ..]
                if rest == self.shape || (rest == [width] && !self.shape.is_empty()) =>
            {
                Ok(Some(*rows))
            }
            [only] if *only == width && !self.shape.is_empty() => Ok(None),
            [rows, 1] if width == 1 => Ok(Some(*rows)),
            found => Err(wrong_policy(format!(
                "an observation of shape {found:?}; one of {} has shape {:?}, and several have their number in front of it",
                self.observation, self.shape
            ))),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "options, one by one")]
    fn answer<'py>(
        &self,
        py: Python<'py>,
        cells: Cells,
        rows: Option<usize>,
        (level, target): (Option<f64>, Option<f64>),
        greedy: bool,
        words: bool,
        probabilities: bool,
    ) -> PyResult<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)> {
        self.ask(level, target)?;
        let choice = if greedy { Choice::Greedy } else { Choice::Drawn };
        let count = rows.unwrap_or(1);
        let decide = || self.decide(&cells, count, choice, probabilities);
        let decided = match count <= FEW {
            true => alone(decide),
            false => {
                let pool = pool()?;
                py.detach(|| pool.install(decide))
            }
        };
        let Decided { actions, probabilities: likely } = decided.map_err(IntoPython::raise)?;
        let likely = match likely.len().checked_div(count).filter(|&width| width > 0) {
            None => None,
            Some(width) => {
                let array = PyArray1::from_vec(py, likely);
                Some(match rows {
                    Some(rows) => array.reshape([rows, width])?.into_any(),
                    None => array.into_any(),
                })
            }
        };
        Ok((self.actions(py, actions, rows, words)?, likely))
    }

    fn decide(
        &self,
        cells: &Cells,
        rows: usize,
        choice: Choice,
        probabilities: bool,
    ) -> Result<Decided, esper::Error> {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.open != rows {
            state.close();
            (0..rows).for_each(|place| state.begin(place));
            state.open = rows;
        }
        let places: Vec<usize> = (0..rows).collect();
        let mut actions = Cells::empty(self.action.cell_type());
        let mut likely = Vec::new();
        match (choice, probabilities) {
            (Choice::Drawn, false) => state.agent.act(cells.view(), &places, &mut actions)?,
            _ => state.agent.decide(cells.view(), &places, choice, &mut actions, &mut likely)?,
        }
        if !probabilities {
            likely.clear();
        }
        Ok(Decided { actions, probabilities: likely })
    }

    /// Actions as Python has them: in the log's own words, or as Gymnasium does.
    fn actions<'py>(
        &self,
        py: Python<'py>,
        actions: Cells,
        rows: Option<usize>,
        words: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let fields = &self.policy.card().interface.fields;
        let width = self.action.cells();
        if words && !fields.action.is_empty() {
            let word = |row: usize| {
                let cells: Vec<f32> =
                    (row * width..(row + 1) * width).map(|at| actions.view().number(at)).collect();
                object(py, &fields.action_value(&cells).unwrap_or(Value::Null))
            };
            return match rows {
                None => word(0),
                Some(rows) => {
                    let all = (0..rows).map(word).collect::<PyResult<Vec<_>>>()?;
                    Ok(PyList::new(py, all)?.into_any())
                }
            };
        }
        let whole = |actions: &Cells| {
            (0..actions.len()).map(|at| actions.category(at) as i64).collect::<Vec<_>>()
        };
        match (&self.action, rows) {
            (Space::Discrete { .. }, None) => {
                Ok((actions.category(0) as i64).into_pyobject(py)?.into_any())
            }
            (Space::Discrete { .. }, Some(_)) => {
                Ok(PyArray1::from_vec(py, whole(&actions)).into_any())
            }
            (Space::MultiDiscrete { .. }, rows) => {
                let shape: Vec<usize> = rows.into_iter().chain([width]).collect();
                Ok(PyArray1::from_vec(py, whole(&actions)).reshape(shape)?.into_any())
            }
            (Space::MultiBinary { .. }, rows) => {
                let bits: Vec<i8> =
                    (0..actions.len()).map(|at| actions.category(at) as i8).collect();
                let shape: Vec<usize> = rows.into_iter().chain(shape_of(&self.action)).collect();
                Ok(PyArray1::from_vec(py, bits).reshape(shape)?.into_any())
            }
            (space, rows) => array(py, actions, rows, space),
        }
    }
}
