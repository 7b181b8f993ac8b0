//! The loop that every training goes through: steps, metrics, checkpoints, and being stopped.
//!
//! A method implements [`Learner`] and calls [`train`]; [`Trained`] is a module with its optimiser.
//!
//! What a step draws at random follows from its number, never from the steps before it. So a checkpoint is the weights
//! and what the optimisers remember, and going on from one gives the same bytes as never having stopped.

use std::time::{Duration, Instant};

use burn::module::Module;
use burn::tensor::Gradients;
use esper_nn::{AdamW, AdamWConfig, alone, from_safetensors, to_safetensors};

use crate::error::Error;

/// Steps between two records of metrics, which are means over them; checkpoints are only made at those.
pub const RECORD_EVERY: usize = 50;

/// The least time between two checkpoints.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(10);

/// Monitor: who follows a training. All of it is optional.
pub trait Monitor: Sync {
    /// So many steps of a phase are done.
    fn progress(&self, _phase: &str, _done: usize, _total: usize) {}

    /// Means of what was measured over the last steps.
    fn record(
        &self,
        _phase: &str,
        _step: usize,
        _metrics: &[(&'static str, f64)],
    ) -> Result<(), Error> {
        Ok(())
    }

    /// Whether to stop as soon as possible.
    fn stop(&self) -> bool {
        false
    }

    /// Keeps a checkpoint in place of the one before it.
    fn save_checkpoint(&self, _phase: &str, _checkpoint: &Checkpoint) -> Result<(), Error> {
        Ok(())
    }

    /// The checkpoint that was kept of a phase, if any.
    fn load_checkpoint(&self, _phase: &str) -> Result<Option<Checkpoint>, Error> {
        Ok(None)
    }

    /// What errors call the checkpoint of a phase: where it is kept.
    fn checkpoint_name(&self, phase: &str) -> String {
        format!("the checkpoint of {phase}")
    }
}

/// Why a checkpoint cannot be gone on from, said of the file that it was read from.
pub fn unfit_checkpoint(monitor: &dyn Monitor, phase: &str, error: Error) -> Error {
    let name = monitor.checkpoint_name(phase);
    Error::Run(format!(
        "{name} cannot be gone on with: {error}; remove it to train that part from its start"
    ))
}

/// No-op monitor: nobody follows.
pub struct Unwatched;

impl Monitor for Unwatched {}

/// One of several trainings that count as one phase: its progress is that of all of them.
pub(crate) struct PartOf<'a> {
    pub(crate) monitor: &'a dyn Monitor,
    pub(crate) phase: &'static str,
    pub(crate) part: usize,
    pub(crate) parts: usize,
}

impl PartOf<'_> {
    /// The name of the part: that of the phase, with a number from the second on.
    pub(crate) fn name(&self) -> String {
        match self.part {
            0 => self.phase.to_owned(),
            part => format!("{}-{}", self.phase, part + 1),
        }
    }
}

impl Monitor for PartOf<'_> {
    fn progress(&self, _: &str, done: usize, total: usize) {
        self.monitor.progress(self.phase, self.part * total + done, self.parts * total);
    }

    fn record(
        &self,
        phase: &str,
        step: usize,
        metrics: &[(&'static str, f64)],
    ) -> Result<(), Error> {
        self.monitor.record(phase, step, metrics)
    }

    fn stop(&self) -> bool {
        self.monitor.stop()
    }

    fn save_checkpoint(&self, phase: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
        self.monitor.save_checkpoint(phase, checkpoint)
    }

    fn load_checkpoint(&self, phase: &str) -> Result<Option<Checkpoint>, Error> {
        self.monitor.load_checkpoint(phase)
    }

    fn checkpoint_name(&self, phase: &str) -> String {
        self.monitor.checkpoint_name(phase)
    }
}

/// A training that can go on from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The number of steps taken.
    pub step: usize,
    /// Weights and optimisers, in an order that the trained thing knows.
    pub parts: Vec<Vec<u8>>,
}

/// How long to train, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    /// Steps of training.
    pub steps: usize,
    /// Learning rate decay: whether the learning rate falls to zero, in a straight line, over the second half.
    pub decay: bool,
}

impl Schedule {
    /// The share of the learning rate that counts at a step.
    fn pace(self, step: usize) -> f64 {
        let left = (self.steps - step) as f64 / self.steps as f64;
        if self.decay { (2.0 * left).min(1.0) } else { 1.0 }
    }
}

/// Something that learns step by step.
pub trait Learner {
    /// Takes a step, at a share of its learning rates; gives what it measured.
    fn learn(&mut self, step: usize, pace: f64) -> Vec<(&'static str, f64)>;
    /// Everything that a checkpoint has to hold, always in the same order.
    fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed>;
}

/// Something that a checkpoint holds.
pub trait Checkpointed {
    /// Its parts.
    fn parts(&self) -> Vec<Vec<u8>>;
    /// Goes back to its parts, which come next.
    fn restore(&mut self, parts: &mut dyn Iterator<Item = &[u8]>) -> Result<(), Error>;
}

/// The next part of a checkpoint.
fn next<'a>(parts: &mut dyn Iterator<Item = &'a [u8]>) -> Result<&'a [u8], Error> {
    parts.next().ok_or_else(|| Error::Run("a checkpoint is not of this kind of model".to_owned()))
}

/// Weights that no optimiser moves.
impl<M: Module> Checkpointed for M {
    fn parts(&self) -> Vec<Vec<u8>> {
        vec![to_safetensors(self)]
    }

    fn restore(&mut self, parts: &mut dyn Iterator<Item = &[u8]>) -> Result<(), Error> {
        *self = from_safetensors(self.clone(), next(parts)?)?;
        Ok(())
    }
}

/// Trains to the end of the schedule, from the checkpoint if there is one.
pub fn train(
    learner: &mut impl Learner,
    phase: &str,
    schedule: Schedule,
    monitor: &dyn Monitor,
) -> Result<(), Error> {
    let mut start = 0;
    if let Some(checkpoint) = monitor.load_checkpoint(phase)? {
        let mut parts = checkpoint.parts.iter().map(Vec::as_slice);
        let mut kept = learner.checkpointed().into_iter();
        kept.try_for_each(|kept| kept.restore(&mut parts))
            .map_err(|error| unfit_checkpoint(monitor, phase, error))?;
        start = checkpoint.step;
    }
    let mut kept = Instant::now();
    let mut sums: Vec<(&'static str, f64)> = Vec::new();
    let mut summed = 0;
    let mut sharing = Sharing::default();
    for step in start..schedule.steps {
        let measured = sharing.run(|| learner.learn(step, schedule.pace(step)));
        for (at, (name, value)) in measured.into_iter().enumerate() {
            if !value.is_finite() {
                return Err(Error::Diverged { phase: phase.to_owned(), step, what: name });
            }
            if summed == 0 {
                sums.push((name, 0.0));
            }
            sums[at].1 += value;
        }
        summed += 1;
        let done = step + 1;
        monitor.progress(phase, done, schedule.steps);
        let last = done == schedule.steps;
        if done.is_multiple_of(RECORD_EVERY) || last {
            sums.iter_mut().for_each(|(_, sum)| *sum /= summed as f64);
            monitor.record(phase, done, &sums)?;
            (sums, summed) = (Vec::new(), 0);
            if last || monitor.stop() || kept.elapsed() > CHECKPOINT_EVERY {
                let parts = learner.checkpointed().iter().flat_map(|kept| kept.parts()).collect();
                monitor.save_checkpoint(phase, &Checkpoint { step: done, parts })?;
                kept = Instant::now();
            }
        }
        if monitor.stop() {
            return Err(Error::Stopped);
        }
    }
    Ok(())
}

/// Whether steps are done sooner by one thread or by all of them, found out by timing both now and then.
///
/// Where somebody else takes a core, threads that wait for each other also wait for that core, and one of them alone is
/// faster. What a step computes does not depend on it.
#[derive(Default)]
struct Sharing {
    /// Steps since timing began.
    step: usize,
    seconds_alone: f64,
    seconds_shared: f64,
}

/// Steps that are not timed at first, while memory is taken and caches are cold.
const COLD: usize = 2;
/// Steps in which each way is timed, in turn, and steps until that is done again.
const TIMED: usize = 8;
const TIMED_EVERY: usize = 250;

impl Sharing {
    fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        if rayon::current_num_threads() == 1 {
            return work();
        }
        let step = self.step;
        self.step += 1;
        match step {
            ..COLD => return work(),
            TIMED_EVERY.. => *self = Self { step: COLD + 1, ..Self::default() },
            _ => {}
        }
        let in_turn = self.step - COLD;
        if in_turn > 2 * TIMED {
            return if self.seconds_alone < self.seconds_shared { alone(work) } else { work() };
        }
        let started = Instant::now();
        let (done, seconds) = match in_turn % 2 {
            0 => (alone(work), &mut self.seconds_alone),
            _ => (work(), &mut self.seconds_shared),
        };
        *seconds += started.elapsed().as_secs_f64();
        done
    }
}

/// A module and the optimiser that moves it.
pub struct Trained<M> {
    module: Option<M>,
    optimizer: AdamW,
    learning_rate: f64,
}

impl<M: Module> Trained<M> {
    /// A module that nothing has moved yet.
    pub fn new(module: M, optimizer: &AdamWConfig, learning_rate: f64) -> Self {
        Trained { module: Some(module), optimizer: optimizer.init(), learning_rate }
    }

    /// The module as it is now.
    pub fn module(&self) -> &M {
        self.module.as_ref().expect("there is a module between steps")
    }

    /// The module, trained.
    pub fn into_module(self) -> M {
        self.module.expect("there is a module between steps")
    }

    /// Moves the module against its gradients, at a share of the learning rate.
    pub fn step(&mut self, pace: f64, gradients: &mut Gradients) {
        // Taken, not cloned: weights that nobody else holds are moved in place.
        let module = self.module.take().expect("there is a module between steps");
        self.module = Some(self.optimizer.step_part(self.learning_rate * pace, module, gradients));
    }
}

impl<M: Module> Checkpointed for Trained<M> {
    fn parts(&self) -> Vec<Vec<u8>> {
        let module = self.module();
        vec![to_safetensors(module), self.optimizer.to_safetensors(module)]
    }

    fn restore(&mut self, parts: &mut dyn Iterator<Item = &[u8]>) -> Result<(), Error> {
        let restored = from_safetensors(self.module().clone(), next(parts)?)?;
        self.optimizer.restore(&restored, next(parts)?)?;
        self.module = Some(restored);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Learns how many steps it took.
    struct Counter(Steps, usize);

    struct Steps(u8);

    impl Learner for Counter {
        fn learn(&mut self, step: usize, _: f64) -> Vec<(&'static str, f64)> {
            assert_eq!(step, usize::from(self.0.0));
            self.0.0 += 1;
            let value = if step == self.1 { f64::NAN } else { step as f64 };
            vec![("value", value)]
        }
        fn checkpointed(&mut self) -> Vec<&mut dyn Checkpointed> {
            vec![&mut self.0]
        }
    }

    impl Checkpointed for Steps {
        fn parts(&self) -> Vec<Vec<u8>> {
            vec![vec![self.0]]
        }
        fn restore(&mut self, parts: &mut dyn Iterator<Item = &[u8]>) -> Result<(), Error> {
            self.0 = next(parts)?[0];
            Ok(())
        }
    }

    #[derive(Default)]
    struct Log {
        records: Mutex<Vec<(usize, f64)>>,
        checkpoint: Mutex<Option<Checkpoint>>,
        stop_at: Option<usize>,
        done: Mutex<usize>,
    }

    impl Monitor for Log {
        fn progress(&self, _: &str, done: usize, _: usize) {
            *self.done.lock().unwrap() = done;
        }
        fn record(
            &self,
            _: &str,
            step: usize,
            metrics: &[(&'static str, f64)],
        ) -> Result<(), Error> {
            self.records.lock().unwrap().push((step, metrics[0].1));
            Ok(())
        }
        fn stop(&self) -> bool {
            self.stop_at.is_some_and(|at| *self.done.lock().unwrap() >= at)
        }
        fn save_checkpoint(&self, _: &str, checkpoint: &Checkpoint) -> Result<(), Error> {
            *self.checkpoint.lock().unwrap() = Some(checkpoint.clone());
            Ok(())
        }
        fn load_checkpoint(&self, _: &str) -> Result<Option<Checkpoint>, Error> {
            Ok(self.checkpoint.lock().unwrap().clone())
        }
    }

    const SCHEDULE: Schedule = Schedule { steps: 120, decay: true };

    #[test]
    fn going_on_gives_the_same_records_as_never_stopping() {
        let whole = Log::default();
        train(&mut Counter(Steps(0), 999), "count", SCHEDULE, &whole).unwrap();
        assert_eq!(*whole.records.lock().unwrap(), [(50, 24.5), (100, 74.5), (120, 109.5)]);

        let stopped = Log { stop_at: Some(100), ..Log::default() };
        let result = train(&mut Counter(Steps(0), 999), "count", SCHEDULE, &stopped);
        assert!(matches!(result, Err(Error::Stopped)));
        let resumed = Log { stop_at: None, ..stopped };
        train(&mut Counter(Steps(0), 999), "count", SCHEDULE, &resumed).unwrap();
        assert_eq!(*resumed.records.lock().unwrap(), *whole.records.lock().unwrap());
    }

    #[test]
    fn a_number_that_runs_away_ends_the_training() {
        let error = train(&mut Counter(Steps(0), 7), "count", SCHEDULE, &Unwatched).unwrap_err();
        assert!(matches!(error, Error::Diverged { step: 7, .. }), "{error}");
    }

    #[test]
    fn the_learning_rate_falls_over_the_second_half() {
        let schedule = Schedule { steps: 100, decay: true };
        assert_eq!([0, 50, 75, 99].map(|step| schedule.pace(step)), [1.0, 1.0, 0.5, 0.02]);
    }
}
