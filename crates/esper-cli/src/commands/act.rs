//! `esper act`: observations in, actions out, a line of JSON each.

use std::io::{BufRead, BufReader, BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::path::PathBuf;

use esper::agent::Choice;
use esper::serving::{Desk, DeskOptions, MOST_OPEN};

use super::policy::load_policy;
use crate::output::{Failure, Output};

#[derive(clap::Args)]
#[command(
    after_help = "Examples:  echo '{\"episode\": 1, \"observation\": 0, \"level\": 0.9}' | esper act my-run\n           \
                  esper act my-run/policy.safetensors --greedy < requests.jsonl > answers.jsonl\n\n\
                  A request: {\"episode\", \"observation\", \"level\" | \"target\", \"reward\"?, \"end\"?}. The observation is an object by the names of \
                  columns, or an array. Its answer: {\"episode\", \"action\", \"probabilities\"?, \"promise\", \"warning\"?}, or {\"episode\", \"error\"}. \
                  A line may be an array of requests; they are evaluated together, and answered in one line."
)]
pub(crate) struct Arguments {
    /// The folder of a run, as `esper train` makes it, or a policy.safetensors
    run: PathBuf,

    /// Take the most probable action (of real numbers, the mean) instead of drawing one
    #[arg(long)]
    greedy: bool,

    /// Everything random follows from this number: the same requests get the same answers
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,

    /// Episodes that may be open at once; beyond, the one that was not heard of for longest is forgotten
    #[arg(long, value_name = "N", default_value_t = MOST_OPEN as u64, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    open: u64,
}

/// The most bytes of a line: what is longer is answered with an error, and not kept in memory.
const LONGEST_LINE: u64 = 1 << 28;

pub(crate) fn run(arguments: &Arguments, output: &Output) -> Result<(), Failure> {
    let policy = load_policy(&arguments.run, output)?;
    let choice = if arguments.greedy { Choice::Greedy } else { Choice::Drawn };
    let most_open = arguments.open as usize;
    let mut desk = Desk::new(&policy, DeskOptions { seed: arguments.seed, choice, most_open });
    if std::io::stdin().is_terminal() {
        output.note("requests are read from standard input, one JSON object a line; Ctrl-D ends");
    }
    // Not the locked handle of the standard library: its buffer is small, and batches are large.
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin());
    let mut answers = BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
    let reading = |error: std::io::Error| Failure::error(format!("standard input: {error}"));
    let (mut line, mut answer) = (Vec::new(), Vec::new());
    loop {
        line.clear();
        answer.clear();
        let read =
            input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line).map_err(reading)?;
        if read == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && read as u64 == LONGEST_LINE {
            input.skip_until(b'\n').map_err(reading)?;
            answer.extend_from_slice(
                b"{\"episode\":null,\"error\":\"the line is longer than 256 MiB\"}\n",
            );
        } else {
            desk.answer_line(&line, &mut answer);
        }
        // At once, unless more requests are there already.
        let more = input.buffer().contains(&b'\n');
        let written =
            answers.write_all(&answer).and_then(|()| if more { Ok(()) } else { answers.flush() });
        match written {
            Ok(()) => {}
            // Whoever read the answers has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(Failure::error(format!("standard output: {error}"))),
        }
    }
}
