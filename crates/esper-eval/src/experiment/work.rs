//! Runs side by side, of one experiment or of several.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::resolved::{Entry, Resolved};
use crate::error::EvalError;
use crate::observer::{Observer, PlannedRun, Watched};
use crate::results::RunResults;

/// One run of an experiment.
pub(super) struct Job<'a> {
    pub(super) of: &'a Resolved<'a>,
    pub(super) entry: &'a Entry<'a>,
}

impl Job<'_> {
    /// What an observer is told of it beforehand.
    pub(super) fn planned(&self) -> PlannedRun {
        self.entry.planned(self.of.world.is_some())
    }
}

/// Trains and evaluates, as many side by side as there are threads and memory allows: small networks gain little from several.
/// A run that fails stops the others and is what is returned, unless they are to go on: then it is among the results.
pub(super) fn work(
    jobs: &[Job<'_>],
    beside: usize,
    keep_going: bool,
    observer: &dyn Observer,
) -> Result<Vec<Result<RunResults, EvalError>>, EvalError> {
    let planned: Vec<PlannedRun> = jobs.iter().map(Job::planned).collect();
    observer.planned(&planned);
    let threads = rayon::current_num_threads();
    let workers = threads.min(beside).min(jobs.len()).max(1);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let stop = || observer.stop() || failed.load(Ordering::Relaxed);
    let done: Mutex<Vec<Option<Result<RunResults, EvalError>>>> =
        Mutex::new(jobs.iter().map(|_| None).collect());
    // The most data first: what takes longest should not be begun last.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(jobs[at].entry.part.data.steps()));
    let take = || -> Option<usize> {
        let at = next.fetch_add(1, Ordering::Relaxed);
        order.get(at).copied().filter(|_| !stop())
    };
    let worker = || {
        while let Some(at) = take() {
            let Job { of, entry } = &jobs[at];
            let watched = Watched { run: at, observer, stop: &stop };
            let result = of.one(entry, &watched).map_err(|error| error.of_run(&entry.name));
            match &result {
                Ok((run, before)) => observer.finished(at, run, *before),
                Err(EvalError::Stopped) => {}
                Err(error) if keep_going => observer.failed(at, error),
                Err(_) => failed.store(true, Ordering::Relaxed),
            }
            let result = result.map(|(run, _)| run);
            done.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let threads = threads.div_ceil(workers).max(1);
                match rayon::ThreadPoolBuilder::new().num_threads(threads).build() {
                    Ok(pool) => pool.install(worker),
                    Err(_) => worker(),
                }
            });
        }
    });
    // What went wrong in one says more than that the others were stopped.
    let mut stopped = false;
    let mut runs = Vec::new();
    for result in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
        match result {
            Some(Err(EvalError::Stopped)) | None => stopped = true,
            Some(Err(error)) if !keep_going => return Err(error),
            Some(result) => runs.push(result),
        }
    }
    if stopped { Err(EvalError::Stopped) } else { Ok(runs) }
}
