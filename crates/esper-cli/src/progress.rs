//! Progress on a terminal, and Ctrl-C.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use esper::Monitor;
use esper_data::Moments;
use esper_eval::text::count;
use esper_eval::{Observer, PlannedRun, RunResults};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::output::{Output, run_line};
use crate::plain::plain;

/// How far one piece of work is, with rate and time left. Draws only on a terminal, and not when quiet.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new(output: &Output, label: &str, unit: &'static str, total: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(total), target(output));
        bar.set_style(style(unit));
        bar.set_message(plain(label).into_owned());
        Progress { bar }
    }

    /// So much is done.
    pub(crate) fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// There is so much to be done.
    pub(crate) fn set_total(&self, total: u64) {
        self.bar.set_length(total);
    }

    /// Counts more as done.
    pub(crate) fn add(&self, done: u64) {
        self.bar.inc(done);
    }

    /// Says this beside the label from now on.
    pub(crate) fn say(&self, words: String) {
        self.bar.set_message(plain(&words).into_owned());
    }
}

/// The line is wiped when the work is over, however it ends.
impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn target(output: &Output) -> ProgressDrawTarget {
    if output.talks() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}

/// Label, share, count, rate and time left.
fn style(unit: &'static str) -> ProgressStyle {
    let done = move |state: &ProgressState, w: &mut dyn std::fmt::Write| {
        let _ = write!(w, "{} {unit}", count(state.pos() as usize));
    };
    let rate = |state: &ProgressState, w: &mut dyn std::fmt::Write| {
        let _ = write!(w, "{}/s", count(state.per_sec() as usize));
    };
    let left = |state: &ProgressState, w: &mut dyn std::fmt::Write| {
        if state.pos() > 0 {
            let _ = write!(w, "{} left", duration(state.eta().as_secs_f64()));
        }
    };
    ProgressStyle::with_template("{msg}: {percent:>3}%  {done}  {rate}  {left}")
        .expect("the template is right")
        .with_key("done", done)
        .with_key("rate", rate)
        .with_key("left", left)
}

/// Follows an experiment: a line for every run under way, and one for all of them with the time left for the whole.
pub(crate) struct Board<'a> {
    output: &'a Output,
    lines: MultiProgress,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    whole: Whole,
    names: Vec<String>,
    /// The line of every run under way.
    bars: BTreeMap<usize, (String, ProgressBar)>,
    /// The line of all of them.
    summary: Option<ProgressBar>,
    collecting: Option<ProgressBar>,
}

impl State {
    /// Another experiment begins: what was said of all runs was of the one before.
    fn clear_summary(&mut self) {
        if let Some(bar) = self.summary.take() {
            bar.finish_and_clear();
        }
    }
}

impl<'a> Board<'a> {
    pub(crate) fn new(output: &'a Output) -> Self {
        let lines = MultiProgress::with_draw_target(target(output));
        Board { output, lines, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says something above the lines.
    pub(crate) fn say(&self, line: &str) {
        if self.output.talks() {
            self.lines.suspend(|| eprintln!("{}", plain(line)));
        }
    }
}

impl Drop for Board<'_> {
    fn drop(&mut self) {
        // Nothing to be done about a terminal that cannot be written to.
        let _ = self.lines.clear();
    }
}

impl Observer for Board<'_> {
    fn collecting(&self, task: &str, done: u64, total: u64) {
        let mut state = self.state();
        state.clear_summary();
        let bar = state.collecting.get_or_insert_with(|| {
            let bar = self.lines.add(ProgressBar::new(total));
            bar.set_style(style("steps"));
            bar.set_message(plain(&format!("collecting {task}")).into_owned());
            bar
        });
        bar.set_position(done);
    }

    fn planned(&self, runs: &[PlannedRun]) {
        let mut state = self.state();
        if let Some(bar) = state.collecting.take() {
            bar.finish_and_clear();
        }
        state.clear_summary();
        state.names = runs.iter().map(|run| run.name.clone()).collect();
        state.whole = Whole::of(runs);
        let summary = self.lines.add(ProgressBar::no_length());
        summary.set_style(ProgressStyle::with_template("{msg}").expect("the template is right"));
        state.summary = Some(summary);
    }

    fn progress(&self, run: usize, phase: &str, done: usize, total: usize) {
        let mut state = self.state();
        state.whole.at(run, phase, done as f64 / total.max(1) as f64, Instant::now());
        let name = state.names.get(run).cloned().unwrap_or_default();
        let State { bars, summary, whole, .. } = &mut *state;
        let (known, bar) = bars.entry(run).or_insert_with(|| {
            let bar = ProgressBar::new(total as u64);
            let bar = match &summary {
                Some(summary) => self.lines.insert_before(summary, bar),
                None => self.lines.add(bar),
            };
            bar.set_style(style("steps"));
            (String::new(), bar)
        });
        if known != phase {
            *known = phase.to_owned();
            bar.reset();
            bar.set_length(total as u64);
            bar.set_message(plain(&format!("{name}: {phase}")).into_owned());
        }
        bar.set_position(done as u64);
        if let Some(summary) = summary {
            summary.set_message(whole.line(Instant::now()));
        }
    }

    fn finished(&self, run: usize, results: &RunResults, before: bool) {
        let name = {
            let mut state = self.state();
            state.whole.done(run, before, Instant::now());
            if let Some((_, bar)) = state.bars.remove(&run) {
                bar.finish_and_clear();
            }
            state.names.get(run).cloned().unwrap_or_default()
        };
        self.say(&run_line(&name, results, before));
    }

    fn stop(&self) -> bool {
        interrupted()
    }
}

/// All runs of an experiment, and how long they take.
#[derive(Default)]
struct Whole {
    runs: Vec<Timed>,
}

struct Timed {
    method: String,
    phases: Vec<&'static str>,
    started: Option<Instant>,
    /// How much of it is done, from 0 to 1.
    share: f64,
    /// How long it took, when it is complete and was not so before.
    took: Option<Duration>,
    complete: bool,
}

impl Whole {
    fn of(runs: &[PlannedRun]) -> Self {
        let timed = |run: &PlannedRun| Timed {
            method: run.method.clone(),
            phases: run.phases.clone(),
            started: None,
            share: 0.0,
            took: None,
            complete: false,
        };
        Whole { runs: runs.iter().map(timed).collect() }
    }

    /// A run is so far with a phase. Phases count the same; those that are tried again stay where they are.
    fn at(&mut self, run: usize, phase: &str, share: f64, now: Instant) {
        let Some(run) = self.runs.get_mut(run) else { return };
        run.started.get_or_insert(now);
        if let Some(at) = run.phases.iter().position(|known| *known == phase) {
            run.share = run.share.max((at as f64 + share) / run.phases.len() as f64);
        }
    }

    fn done(&mut self, run: usize, before: bool, now: Instant) {
        let Some(run) = self.runs.get_mut(run) else { return };
        run.complete = true;
        run.took = run.started.filter(|_| !before).map(|started| now - started);
    }

    /// "run 3 of 9, about 2 min left".
    fn line(&self, now: Instant) -> String {
        let begun = self.runs.iter().filter(|run| run.complete || run.started.is_some()).count();
        let left = self
            .left(now)
            .map_or(String::new(), |seconds| format!(", about {} left for all", duration(seconds)));
        format!("run {begun} of {}{left}", self.runs.len())
    }

    /// Seconds left, if there is something to go by. Methods that nothing is known of yet are taken to need as long for a
    /// phase as the others.
    fn left(&self, now: Instant) -> Option<f64> {
        let under_way = |run: &&Timed| !run.complete && run.started.is_some();
        let side_by_side = self.runs.iter().filter(under_way).count().max(1);
        let known: Vec<f64> = self
            .runs
            .iter()
            .filter_map(|run| Some(self.seconds_of(&run.method, now)? / run.phases.len() as f64))
            .collect();
        let a_phase = mean(known);
        let mut seconds = 0.0;
        for run in self.runs.iter().filter(|run| !run.complete) {
            let expected = a_phase.map(|seconds| seconds * run.phases.len() as f64);
            let whole = self.seconds_of(&run.method, now).or(expected)?;
            let gone = run.started.map_or(0.0, |started| (now - started).as_secs_f64());
            seconds += (whole - gone).max(0.0);
        }
        Some(seconds / side_by_side as f64)
    }

    /// How long a run of a method takes: the mean of those that are complete, or what those under way let expect.
    fn seconds_of(&self, method: &str, now: Instant) -> Option<f64> {
        let runs = || self.runs.iter().filter(|run| run.method == method);
        let complete = runs().filter_map(|run| run.took).map(|took| took.as_secs_f64()).collect();
        let expected = |run: &Timed| {
            let gone = (now - run.started?).as_secs_f64();
            (run.share > 0.01).then(|| gone / run.share)
        };
        mean(complete).or_else(|| mean(runs().filter_map(expected).collect()))
    }
}

/// The mean of some seconds, if there are any.
fn mean(seconds: Vec<f64>) -> Option<f64> {
    let moments = Moments::of(seconds.into_iter());
    (moments.count > 0).then_some(moments.mean)
}

/// Follows a single training, on one line.
pub(crate) struct TrainingLine<'a> {
    board: Board<'a>,
}

impl<'a> TrainingLine<'a> {
    pub(crate) fn new(output: &'a Output, name: &str, phases: Vec<&'static str>) -> Self {
        let board = Board::new(output);
        let run = PlannedRun { name: name.to_owned(), method: name.to_owned(), phases };
        board.planned(&[run]);
        TrainingLine { board }
    }

    /// So many episodes of how many are played.
    pub(crate) fn evaluating(&self, done: usize, total: usize) -> ControlFlow<()> {
        self.board.progress(0, "evaluate", done, total);
        go_on()
    }
}

impl Monitor for TrainingLine<'_> {
    fn progress(&self, phase: &str, done: usize, total: usize) {
        self.board.progress(0, phase, done, total);
    }

    fn stop(&self) -> bool {
        interrupted()
    }
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

/// Whether to go on: until Ctrl-C is pressed.
pub(crate) fn go_on() -> ControlFlow<()> {
    if interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
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

    fn planned(method: &str) -> PlannedRun {
        let (name, method) = (method.to_owned(), method.to_owned());
        PlannedRun { name, method, phases: vec!["learn", "evaluate"] }
    }

    /// Two runs of `a`, one of `b`. The first of `a` took ten seconds; until `b` is under way it is taken to be like `a`.
    #[test]
    fn time_left_is_by_method() {
        let start = Instant::now();
        let after = |seconds: u64| start + Duration::from_secs(seconds);
        let mut whole = Whole::of(&[planned("a"), planned("a"), planned("b")]);
        assert_eq!(whole.line(start), "run 0 of 3");
        whole.at(0, "learn", 0.0, start);
        whole.at(0, "learn", 0.5, after(5));
        // A quarter took 5 s: 15 more, and twice 20.
        assert_eq!(whole.line(after(5)), "run 1 of 3, about 55 s left for all");
        whole.done(0, false, after(10));
        whole.at(1, "learn", 0.0, after(10));
        whole.at(2, "learn", 0.0, after(10));
        // Halfway through its first phase of two, `b` is a quarter done after 4 s: 12 more. `a` has 6 more.
        whole.at(2, "learn", 0.5, after(14));
        assert_eq!(whole.line(after(14)), "run 3 of 3, about 9 s left for all");
        whole.done(1, true, after(14));
        whole.done(2, true, after(14));
        assert_eq!(whole.line(after(14)), "run 3 of 3, about 0 s left for all");
    }
}
