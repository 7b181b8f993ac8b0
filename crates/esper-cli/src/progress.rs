//! A line of progress on a terminal, and Ctrl-C.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::output::{Output, count};

/// Shows how far something is, with rate and time left. Draws only on a terminal, and not when quiet; may be shared by
/// threads.
pub(crate) struct Progress {
    label: String,
    unit: &'static str,
    total: u64,
    started: Instant,
    state: Mutex<State>,
    shown: bool,
}

#[derive(Default)]
struct State {
    done: u64,
    /// What else there is to say.
    detail: String,
    drawn: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(
        output: &Output,
        label: impl Into<String>,
        unit: &'static str,
        total: u64,
    ) -> Self {
        Progress {
            label: label.into(),
            unit,
            total,
            started: Instant::now(),
            state: Mutex::default(),
            shown: output.talks() && std::io::stderr().is_terminal(),
        }
    }

    /// Counts more as done.
    pub(crate) fn add(&self, done: u64) {
        if !self.shown {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.done += done;
        self.draw(&mut state);
    }

    /// Says this beside the rate from now on.
    pub(crate) fn say(&self, detail: impl Into<String>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.detail = format!("  {}", detail.into());
    }

    fn draw(&self, state: &mut State) {
        if state.drawn.is_none_or(|drawn| drawn.elapsed() > Duration::from_millis(100)) {
            // Nothing to be done about a terminal that cannot be written to.
            let _ = write!(std::io::stderr(), "\r{}{}\x1b[K", self.line(state.done), state.detail);
            state.drawn = Some(Instant::now());
        }
    }

    fn line(&self, done: u64) -> String {
        let rate = done as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let left = time_left(self.total.saturating_sub(done) as f64, rate);
        let share = 100 * done.min(self.total) / self.total.max(1);
        let (label, unit) = (&self.label, self.unit);
        let (done, rate) = (count(done as usize), count(rate as usize));
        format!("{label}: {share:3}%  {done} {unit}  {rate}/s{left}")
    }
}

/// The line is wiped when the work is over, however it ends.
impl Drop for Progress {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if state.drawn.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// How far several jobs are that go on side by side: one line on a terminal, unless quiet.
pub(crate) struct Board {
    jobs: Mutex<BoardState>,
    shown: bool,
}

#[derive(Default)]
struct BoardState {
    /// What each is at.
    jobs: Vec<(String, Step)>,
    drawn: Option<Instant>,
}

struct Step {
    phase: String,
    started: Instant,
    /// How far the phase was when it was first heard of: it may have gone on from a checkpoint.
    first: usize,
    done: usize,
    total: usize,
}

impl Board {
    pub(crate) fn new(output: &Output) -> Self {
        let shown = output.talks() && std::io::stderr().is_terminal();
        Board { jobs: Mutex::default(), shown }
    }

    /// A job is so far with a phase.
    pub(crate) fn show(&self, job: &str, phase: &str, done: usize, total: usize) {
        if !self.shown {
            return;
        }
        let mut state = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let at = state.jobs.iter().position(|(name, _)| name == job).unwrap_or_else(|| {
            let phase = String::new();
            let step = Step { phase, started: Instant::now(), first: 0, done: 0, total };
            state.jobs.push((job.to_owned(), step));
            state.jobs.len() - 1
        });
        let step = &mut state.jobs[at].1;
        if step.phase != phase {
            let phase = phase.to_owned();
            *step = Step { phase, started: Instant::now(), first: done, done, total };
        }
        (step.done, step.total) = (done, total);
        if state.drawn.is_none_or(|drawn| drawn.elapsed() > Duration::from_millis(100)) {
            state.drawn = Some(Instant::now());
            let lines: Vec<String> =
                state.jobs.iter().map(|(name, step)| step.line(name)).collect();
            // One line of the terminal, cut if need be; nothing to be done if it cannot be written to.
            let width = terminal_size::terminal_size_of(std::io::stderr()).map_or(80, |(w, _)| w.0);
            let width = usize::from(width).saturating_sub(1);
            let line: String = lines.join("  |  ").chars().take(width).collect();
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
        }
    }

    /// A job is over.
    pub(crate) fn finish(&self, job: &str) {
        let mut state = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        state.jobs.retain(|(name, _)| name != job);
        if state.drawn.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Step {
    fn line(&self, job: &str) -> String {
        let Step { phase, started, first, done, total } = self;
        let rate = (done - first.min(done)) as f64 / started.elapsed().as_secs_f64().max(1e-9);
        let share = 100 * done / (*total).max(1);
        let left = time_left(total.saturating_sub(*done) as f64, rate);
        format!("{job}: {phase} {share:3}%  {}/s{left}", count(rate as usize))
    }
}

/// How long so much more takes; nothing before anything is done.
fn time_left(more: f64, rate: f64) -> String {
    if rate > 0.0 { format!("  {} left", duration(more / rate)) } else { String::new() }
}

/// Seconds as a person says them.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds.round() as u64 {
        s @ 0..60 => format!("{s} s"),
        s @ 60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C only sets a flag, so that what is half done can be cleared away. A second one ends at once.
pub(crate) fn catch_interrupts() {
    // Failing to install the handler leaves the system's, which ends the program: nothing is lost.
    let _ = ctrlc::set_handler(|| {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Whether Ctrl-C was pressed.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_well() {
        assert_eq!(
            [3.2, 75.0, 3723.0].map(duration),
            ["3 s", "1 min 15 s", "1 h 02 min"].map(str::to_owned)
        );
    }
}
