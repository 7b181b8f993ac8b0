//! A line of progress on a terminal, and Ctrl-C.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::output::{Output, count};

/// Shows how far something is, with rate and time left. Draws only on a terminal, and not when quiet.
pub(crate) struct Progress {
    label: String,
    unit: &'static str,
    total: u64,
    done: u64,
    started: Instant,
    drawn: Option<Instant>,
    shown: bool,
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
            done: 0,
            started: Instant::now(),
            drawn: None,
            shown: output.talks() && std::io::stderr().is_terminal(),
        }
    }

    /// Counts more as done.
    pub(crate) fn add(&mut self, done: u64) {
        self.done += done;
        let due = self
            .drawn
            .is_none_or(|drawn| drawn.elapsed() > Duration::from_millis(100));
        if self.shown && due {
            let seconds = self.started.elapsed().as_secs_f64();
            let rate = self.done as f64 / seconds.max(1e-9);
            let left = self.total.saturating_sub(self.done) as f64 / rate.max(1e-9);
            let share = 100.0 * self.done as f64 / self.total.max(1) as f64;
            let line = format!(
                "{}: {:3.0}%  {} {}  {}/s  {} left",
                self.label,
                share.min(100.0),
                count(self.done as usize),
                self.unit,
                count(rate as usize),
                duration(left),
            );
            let _ = write!(std::io::stderr(), "\r{line}\x1b[K");
            self.drawn = Some(Instant::now());
        }
    }
}

/// The line is wiped when the work is over, however it ends.
impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn.is_some() {
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

/// From now on Ctrl-C only sets a flag, so that what is half done can be cleared away. A second Ctrl-C ends at once.
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
