//! Where words go: results to standard output, everything else to standard error; and how failures end.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use esper_data::DataError;
use esper_eval::text::{leaked, number};
use esper_eval::{EvalError, RunResults};
use esper_nn::{Device, DeviceName};
use esper_report::ReportError;
use serde::Serialize;

use crate::plain::{plain, plain_json};
use crate::progress::duration;

/// How the user wants to be spoken to, and where tensors are to be.
pub(crate) struct Output {
    json: bool,
    quiet: bool,
    colours: bool,
    device: DeviceName,
}

/// Stands around the code of a colour until a result is printed: a character that no text has.
const COLOUR: char = '\u{fdd0}';

/// How a piece of text stands out.
#[derive(Clone, Copy)]
pub(crate) enum Paint {
    /// What is read first.
    Heading,
    /// As hoped for.
    Good,
    /// Not as hoped for.
    Bad,
}

impl Output {
    pub(crate) fn new(json: bool, quiet: bool, device: DeviceName) -> Self {
        // As https://no-color.org has it.
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let colours = wanted && !json && std::io::stdout().is_terminal();
        Output { json, quiet, colours, device }
    }

    /// The device that was asked for.
    pub(crate) fn device(&self) -> Result<Device, Failure> {
        self.device.open().map_err(Failure::misuse)
    }

    /// A piece of a result, in colour where there is a terminal to show it.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Heading => "1",
            Paint::Good => "32",
            Paint::Bad => "31",
        };
        match self.colours {
            true => format!("{COLOUR}{code}{COLOUR}{text}{COLOUR}0{COLOUR}"),
            false => text.to_owned(),
        }
    }

    /// Whether notes and progress are wanted.
    pub(crate) fn talks(&self) -> bool {
        !self.quiet
    }

    /// Prints a result: as JSON if that was asked for, else as text.
    pub(crate) fn result(
        &self,
        json: &impl Serialize,
        text: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        let printed = if self.json {
            let document = serde_json::to_string_pretty(json)
                .map_err(|error| Failure::error(format!("cannot write JSON: {error}")))?;
            plain_json(&document).into_owned()
        } else {
            self.coloured(&plain(&text()))
        };
        match writeln!(std::io::stdout(), "{}", printed.trim_end()) {
            // Whoever read the output has seen enough (`esper info … | head`).
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| Failure::error(format!("standard output: {error}"))),
        }
    }

    /// The codes of colours in place of their marks. What a name may have of those stays uncoloured: it is no number.
    fn coloured(&self, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let mut printed = String::new();
        for (at, piece) in text.split(COLOUR).enumerate() {
            match at % 2 == 1 && ["0", "1", "31", "32"].contains(&piece) {
                true => printed += &format!("\x1b[{piece}m"),
                false => printed += piece,
            }
        }
        printed
    }

    /// Something the user should know beside the result.
    pub(crate) fn note(&self, note: &str) {
        if self.talks() {
            eprintln!("note: {}", plain(note));
        }
    }

    /// Says why the program failed.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        eprintln!("error: {}", plain(&failure.message));
        ExitCode::from(failure.status)
    }
}

/// Why the program ends without success.
pub(crate) struct Failure {
    message: String,
    status: u8,
}

impl Failure {
    /// Something went wrong: status 1.
    pub(crate) fn error(message: impl ToString) -> Self {
        Failure { message: message.to_string(), status: 1 }
    }

    /// A file could not be written.
    pub(crate) fn writing(error: DataError) -> Self {
        match error {
            DataError::Exists(path) => Failure::error(format!(
                "{} already exists; name another file with --out, or replace it with --force",
                path.display()
            )),
            other => Failure::error(other),
        }
    }

    /// The command was used wrongly: status 2.
    pub(crate) fn misuse(message: impl ToString) -> Self {
        Failure { message: message.to_string(), status: 2 }
    }

    /// The user pressed Ctrl-C: status 130, as shells have it, and how to go on.
    pub(crate) fn paused(how: &str) -> Self {
        Failure { message: format!("interrupted; {how}"), status: 130 }
    }
}

/// What went wrong with learning or an experiment, as the program says it. `go_on` is how to go on after a stop.
pub(crate) fn failure(error: impl Into<EvalError>, go_on: &str) -> Failure {
    use esper::Error;
    match error.into() {
        EvalError::Stopped | EvalError::Learning(Error::Stopped) => Failure::paused(go_on),
        EvalError::Learning(
            error @ (Error::Config(_) | Error::Settings { .. } | Error::Unknown { .. }),
        ) => Failure::misuse(error),
        EvalError::Learning(error @ Error::Device(_)) => Failure::misuse(error),
        EvalError::Options(error) => Failure::misuse(error),
        error @ EvalError::Asked(_) => Failure::misuse(error),
        error @ (EvalError::Exists(_) | EvalError::Learning(Error::RunExists(_))) => {
            Failure::error(format!(
                "{error}; name another folder with --out, or go on with it with --resume"
            ))
        }
        error @ EvalError::OtherGivenData { .. } => Failure::error(error),
        error @ EvalError::OtherComparison { .. } => {
            Failure::error(format!("{error}\nname another folder with --out"))
        }
        EvalError::Data(error) => Failure::writing(error),
        other => Failure::error(other),
    }
}

/// What went wrong with a report or a reproduction.
pub(crate) fn report_failure(error: ReportError, go_on: &str) -> Failure {
    match error {
        ReportError::Experiment(error) => failure(*error, go_on),
        ReportError::Run(error) => failure(error, go_on),
        error @ ReportError::OtherPreset { .. } => {
            Failure::error(format!("{error}; name another folder with --out"))
        }
        other => Failure::error(other),
    }
}

/// A line about a run that is over.
pub(crate) fn run_line(name: &str, run: &RunResults, before: bool) -> String {
    let mut line = match before {
        true => format!("{name}: done before"),
        false => format!("{name}: trained in {}", duration(run.train_seconds)),
    };
    if let Some(clustering) = &run.findings.clustering {
        line += &format!(", leakage {}", leaked(&clustering.leakage));
    }
    if let Some(best) = run.evaluation.best_return {
        line += &format!(", best return {}", number(best));
    } else if let Some(chosen) = run.offline_promise {
        line += &format!(", promises {}", number(chosen.promise));
    }
    if let Some(achieved) = run.evaluation.offline_return {
        line += &format!(", offline {}", number(achieved));
    }
    for warning in &run.findings.warnings {
        line += &format!("\n  {}", wrapped(&format!("warning: {warning}"), 80, 2));
    }
    line
}

/// A table with aligned columns: the first to the left, the others to the right.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = " ".repeat(widths[column] - cell.chars().count());
            match column {
                0 => line.extend(["  ", cell, &padding]),
                _ => line.extend(["  ", &padding, cell]),
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Text in lines of at most so many columns, all but the first set in by some.
pub(crate) fn wrapped(text: &str, columns: usize, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is a line");
        let width = if line.is_empty() { 0 } else { line.chars().count() + 1 };
        match width > 0 && indent + width + word.chars().count() > columns {
            true => lines.push(word.to_owned()),
            false => line.extend([if width > 0 { " " } else { "" }, word]),
        }
    }
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped() {
        assert_eq!(wrapped("one two three", 10, 2), "one two\n  three");
        assert_eq!(wrapped("much_too_long a", 5, 0), "much_too_long\na");
    }

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(table(&[row(["name", "n"]), row(["a", "100"])]), "  name    n\n  a     100\n");
    }
}
