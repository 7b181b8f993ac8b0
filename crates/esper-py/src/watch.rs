//! Long work that Python waits for: it is done by other threads, without Python's lock. The thread that waits looks now and then
//! whether somebody pressed Ctrl-C, and tells a listener how far the work is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use esper::Monitor;
use esper_eval::{EvalError, Observer, PlannedRun, RunResults};
use pyo3::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::errors::wrong_settings;

/// How often Python hears of the work, and the work of Ctrl-C.
const TICK: Duration = Duration::from_millis(50);

/// The stack of the thread that does the work.
const STACK: usize = 16 << 20;

/// What is known of work under way.
#[derive(Default)]
pub(crate) struct Board {
    stop: AtomicBool,
    /// By run: the phase, and how much of how much is done. What comes before all runs has the number `BEFORE`.
    latest: Mutex<BTreeMap<i64, (String, usize, usize)>>,
    planned: Mutex<Option<Vec<String>>>,
    finished: Mutex<Vec<i64>>,
    failed: Mutex<Vec<(i64, String)>>,
}

/// The number of what comes before all runs: collecting.
const BEFORE: i64 = -1;

impl Board {
    /// Whether the work has to stop.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Notes how far something is.
    pub(crate) fn note(&self, run: i64, phase: &str, done: usize, total: usize) {
        let mut latest = lock(&self.latest);
        match latest.get_mut(&run) {
            Some((known, at, of)) if known == phase => (*at, *of) = (done, total),
            _ => {
                latest.insert(run, (phase.to_owned(), done, total));
            }
        }
    }

    /// Tells a listener what is new.
    fn tell(&self, py: Python<'_>, listener: &Py<PyAny>) -> PyResult<()> {
        if let Some(names) = lock(&self.planned).take() {
            listener.call_method1(py, "planned", (names,))?;
        }
        let latest = std::mem::take(&mut *lock(&self.latest));
        for (run, (phase, done, total)) in latest {
            listener.call_method1(py, "progress", (run, phase, done, total))?;
        }
        for run in std::mem::take(&mut *lock(&self.finished)) {
            listener.call_method1(py, "finished", (run,))?;
        }
        for (run, error) in std::mem::take(&mut *lock(&self.failed)) {
            listener.call_method1(py, "failed", (run, error))?;
        }
        Ok(())
    }
}

impl Monitor for Board {
    fn progress(&self, phase: &str, done: usize, total: usize) {
        self.note(0, phase, done, total);
    }

    fn stop(&self) -> bool {
        self.stopped()
    }
}

impl Observer for Board {
    fn collecting(&self, _task: &str, done: u64, total: u64) {
        self.note(BEFORE, "collect", done.min(total) as usize, total as usize);
    }

    fn planned(&self, runs: &[PlannedRun]) {
        *lock(&self.planned) = Some(runs.iter().map(|run| run.name.clone()).collect());
    }

    fn progress(&self, run: usize, phase: &str, done: usize, total: usize) {
        self.note(run as i64, phase, done, total);
    }

    fn finished(&self, run: usize, _results: &RunResults, _before: bool) {
        lock(&self.finished).push(run as i64);
    }

    fn failed(&self, run: usize, error: &EvalError) {
        lock(&self.failed).push((run as i64, error.of_one().to_string()));
    }

    fn stop(&self) -> bool {
        self.stopped()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does work in another thread. Ctrl-C, or a listener that fails, stops it as soon as it looks at the board; then that is what is
/// raised.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    board: &Board,
    listener: Option<&Py<PyAny>>,
    work: impl FnOnce() -> T + Send,
) -> PyResult<T> {
    let pool = pool()?;
    let look = |py: Python<'_>| {
        py.check_signals()?;
        listener.map_or(Ok(()), |listener| board.tell(py, listener))
    };
    let outcome = py.detach(|| {
        std::thread::scope(|scope| {
            let (done, over) = channel::<()>();
            let worker = std::thread::Builder::new().name("esper".to_owned()).stack_size(STACK);
            let worker = worker.spawn_scoped(scope, move || {
                // Dropped at the end, however that comes about.
                let _done = done;
                pool.install(work)
            });
            let worker = worker.map_err(|error| wrong_settings(error.to_string()))?;
            let mut failed: PyResult<()> = Ok(());
            while let Err(RecvTimeoutError::Timeout) = over.recv_timeout(TICK) {
                if failed.is_ok() {
                    failed = Python::attach(look);
                    board.stop.store(failed.is_err(), Ordering::Relaxed);
                }
            }
            match worker.join() {
                Ok(outcome) => failed.map(|()| outcome),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    })?;
    if let Some(listener) = listener {
        board.tell(py, listener)?;
    }
    Ok(outcome)
}

/// The threads of this process, and which process that is: a child that was forked does not have them.
struct Threads {
    process: u32,
    pool: Arc<ThreadPool>,
}

static THREADS: Mutex<Option<Threads>> = Mutex::new(None);

/// How many there are to be; 0 for as many as there are cores.
static WANTED: AtomicUsize = AtomicUsize::new(0);

/// The threads that work is divided among.
pub(crate) fn pool() -> PyResult<Arc<ThreadPool>> {
    let mut kept = lock(&THREADS);
    let process = std::process::id();
    if let Some(threads) = kept.as_ref().filter(|threads| threads.process == process) {
        return Ok(threads.pool.clone());
    }
    let wanted = WANTED.load(Ordering::Relaxed);
    let made = ThreadPoolBuilder::new().num_threads(wanted).build();
    let pool = Arc::new(made.map_err(|error| wrong_settings(error.to_string()))?);
    // Threads of a parent do not exist here, and cannot be told to end.
    std::mem::forget(kept.replace(Threads { process, pool: pool.clone() }));
    Ok(pool)
}

/// Lets work be divided among so many threads from now on; 0 for as many as there are cores.
#[pyfunction]
pub(crate) fn set_threads(threads: usize) -> PyResult<()> {
    WANTED.store(threads, Ordering::Relaxed);
    // Work under way keeps its own.
    *lock(&THREADS) = None;
    pool().map(|_| ())
}

/// How many threads work is divided among.
#[pyfunction]
pub(crate) fn threads() -> PyResult<usize> {
    Ok(pool()?.current_num_threads())
}
