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
        if state.drawn.is_none_or(|drawn| drawn.elapsed() > Duration::from_millis(100)) {
            // Nothing to be done about a terminal that cannot be written to.
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", self.line(state.done));
            state.drawn = Some(Instant::now());
        }
    }

    fn line(&self, done: u64) -> String {
        let rate = done as f64 / self.started.elapsed().as_secs_f64().max(1e-9);
        let left = self.total.saturating_sub(done) as f64 / rate.max(1e-9);
        let share = 100 * done.min(self.total) / self.total.max(1);
        let (label, unit) = (&self.label, self.unit);
        let (done, rate, left) = (count(done as usize), count(rate as usize), duration(left));
        format!("{label}: {share:3}%  {done} {unit}  {rate}/s  {left} left")
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

/// Seconds as a person says them.
fn duration(seconds: f64) -> String {
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
