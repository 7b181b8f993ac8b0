//! Data of the built-in tasks.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esper_data::DatasetBuilder;
use esper_nn::default_device;
use esper_online::LearnedReplays;
use esper_tasks::{CollectOptions, Collection, find_task};
use pyo3::prelude::*;

use crate::dataset::Dataset;
use crate::errors::IntoPython;
use crate::watch::{Board, watched};

/// Plays a task's players; the same episodes as those of `esper collect`.
#[pyfunction]
#[pyo3(signature = (task, dataset, behaviours, steps, seed, epsilon, listener))]
#[expect(clippy::too_many_arguments, reason = "options, one by one")]
pub(crate) fn collect(
    py: Python<'_>,
    task: &str,
    dataset: Option<String>,
    behaviours: Vec<String>,
    steps: Option<u64>,
    seed: u64,
    epsilon: Option<f64>,
    listener: Option<Py<PyAny>>,
) -> PyResult<Dataset> {
    let task = find_task(task).map_err(IntoPython::raise)?;
    let options = CollectOptions { dataset, steps, seed, behaviours, epsilon, expert: None };
    let collection = Collection::new(task, &options).map_err(IntoPython::raise)?;
    let replays = LearnedReplays { device: default_device() };
    let collection = collection.with_replays(Some(Arc::new(replays)));
    let board = Board::default();
    let played = AtomicU64::new(0);
    let collected = watched(py, &board, listener.as_ref(), || {
        let mut builder = DatasetBuilder::new(collection.metadata().clone())
            .with_behaviours(collection.behaviours());
        let watch = |steps: u64| {
            let done = played.fetch_add(steps, Ordering::Relaxed) + steps;
            let total = collection.steps();
            board.note(0, "collect", done.min(total) as usize, total as usize);
            match board.stopped() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        collection.run(|part| builder.extend(&part), watch)?;
        Ok(builder.build()?)
    })?;
    let data = collected.map_err(|error: esper_eval::EvalError| error.raise())?;
    Ok(Dataset { data })
}
