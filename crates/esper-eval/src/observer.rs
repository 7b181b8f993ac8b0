//! Who follows an experiment.

use esper::Monitor;

use crate::error::EvalError;
use crate::results::RunResults;

/// A training that an experiment is going to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRun {
    /// What it is called: method and seed, and the share of the data where there are several.
    pub name: String,
    /// The method.
    pub method: String,
    /// The phases that it goes through, as far as they are known beforehand.
    pub phases: Vec<&'static str>,
}

/// Who follows an experiment, from several threads at once. All of it is optional.
pub trait Observer: Sync {
    /// So many steps of data are collected.
    fn collecting(&self, _task: &str, _done: u64, _total: u64) {}

    /// Everything that is going to be trained and evaluated, in the order of the results.
    fn planned(&self, _runs: &[PlannedRun]) {}

    /// One of the planned runs is so far with a phase.
    fn progress(&self, _run: usize, _phase: &str, _done: usize, _total: usize) {}

    /// One of the planned runs is complete; it may have been so before.
    fn finished(&self, _run: usize, _results: &RunResults, _before: bool) {}

    /// One of the planned runs failed, and the others go on.
    fn failed(&self, _run: usize, _error: &EvalError) {}

    /// Whether to stop as soon as possible.
    fn stop(&self) -> bool {
        false
    }
}

/// No-op observer: nobody follows.
pub struct Unobserved;

impl Observer for Unobserved {}

/// One of the runs, as its observer sees it.
pub(crate) struct Watched<'a> {
    pub(crate) run: usize,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

impl Monitor for Watched<'_> {
    fn progress(&self, phase: &str, done: usize, total: usize) {
        self.observer.progress(self.run, phase, done, total);
    }

    fn stop(&self) -> bool {
        (self.stop)()
    }
}
