//! The `esper` program: arguments, progress and printing. Everything else is in the libraries.

mod commands;
mod output;
mod plain;
mod progress;

use std::borrow::Cow;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use esper_nn::DeviceName;

use commands::{
    act, book, collect, completions, eval, expert, export, import, info, prove, report, reproduce,
    run, tasks, train,
};
use output::{Failure, Output};
use plain::plain;

/// Decisions from logged data in an uncertain world: ask for an average return, and get it.
///
/// Methods that imitate trajectories with a high return also imitate luck. esper tells the two apart.
#[derive(Parser)]
#[command(name = "esper", version = VERSION, propagate_version = true, arg_required_else_help = true)]
#[command(
    after_help = "Start with:  esper run gambling\n             esper tasks\n             esper collect connect-four"
)]
struct Arguments {
    /// Train and act on the CPU, or on a GPU where the program was built for one (cargo feature `gpu`)
    #[arg(long, global = true, value_enum, value_name = "DEVICE", default_value_t = DeviceArgument::Cpu)]
    device: DeviceArgument,

    /// Where the library of MuJoCo is, for tasks that need it: a file or a folder [default: $MUJOCO_PATH, or the Python on the path]
    #[arg(long, global = true, value_name = "PATH")]
    mujoco: Option<PathBuf>,

    /// Print one JSON document to standard output, and nothing else there; `esper act` prints JSON lines, with this or without
    #[arg(long, global = true)]
    json: bool,

    /// Show no progress and no notes
    #[arg(long, short, global = true)]
    quiet: bool,

    /// Use this many threads [default: one a core]; results do not depend on it
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum DeviceArgument {
    Cpu,
    Gpu,
}

/// The version, with the commit where it is known; the build script says.
const VERSION: &str = env!("ESPER_VERSION");

#[derive(Subcommand)]
enum Command {
    /// List the tasks that are built in, and what each shows
    #[command(after_help = "Example:  esper tasks --json")]
    Tasks,
    /// Play a task and write the episodes to a Parquet file
    Collect(collect::Arguments),
    /// Make a data set of your own logs: CSV, JSON lines, Parquet, Minari, D4RL, d3rlpy, RLlib, RLDS
    Import(import::Arguments),
    /// Describe a data set: sizes, returns, a histogram, and what looks wrong
    Info(info::Arguments),
    /// Train a policy on a data set
    Train(train::Arguments),
    /// Ask a trained policy for returns, and see what it achieves
    Eval(eval::Arguments),
    /// Let a trained policy act: observations in, actions out, JSON lines
    Act(act::Arguments),
    /// Write a data set or a policy for other programs: CSV, Minari, ONNX
    Export(export::Arguments),
    /// Train, evaluate and compare: the whole of it, on a task or on your own data
    Run(run::Arguments),
    /// Make a page, and figures for a paper, from what `esper run` or `esper train` gave
    Report(report::Arguments),
    /// Everything in the paper that can run here, with a verdict per claim
    Reproduce(reproduce::Arguments),
    /// See how well promises hold in worlds whose truth is known
    Prove(prove::Arguments),
    /// Train a player of a task by playing, to collect data with
    Expert(expert::Arguments),
    /// Print a script that completes commands and options in a shell
    Completions(completions::Arguments),
    /// Make or check the Connect Four opening book (for maintainers)
    #[command(subcommand)]
    Book(book::Command),
}

fn main() -> ExitCode {
    let print_panic = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !esper_data::panics_are_caught() {
            print_panic(panic);
        }
    }));
    let arguments = Arguments::try_parse().unwrap_or_else(|error| misused(&error));
    let device = match arguments.device {
        DeviceArgument::Cpu => DeviceName::Cpu,
        DeviceArgument::Gpu => DeviceName::Gpu,
    };
    let output = Output::new(arguments.json, arguments.quiet, device);
    if let Some(threads) = arguments.threads {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(usize::from(threads));
        if let Err(error) = pool.build_global() {
            return output
                .fail(&Failure::error(format!("cannot start {threads} threads: {error}")));
        }
    }
    // In a thread of the pool: work that is divided up from outside of it waits for a hand-over every time.
    match rayon::scope(|_| dispatch(arguments, &output)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => output.fail(&failure),
    }
}

/// Says what is wrong with the arguments, or what was asked about them, and ends.
fn misused(error: &clap::Error) -> ! {
    let words = error.render().to_string();
    match plain(&words) {
        // In colour where that helps.
        Cow::Borrowed(_) => error.exit(),
        Cow::Owned(words) => {
            eprint!("{words}");
            std::process::exit(error.exit_code());
        }
    }
}

fn dispatch(arguments: Arguments, output: &Output) -> Result<(), Failure> {
    if let Some(path) = &arguments.mujoco {
        esper_tasks::mujoco::use_library(path).map_err(Failure::misuse)?;
    }
    match arguments.command {
        Command::Tasks => tasks::run(output),
        Command::Collect(arguments) => collect::run(&arguments, output),
        Command::Import(arguments) => import::run(&arguments, output),
        Command::Info(arguments) => info::run(&arguments, output),
        Command::Train(arguments) => train::run(&arguments, output),
        Command::Eval(arguments) => eval::run(&arguments, output),
        Command::Act(arguments) => act::run(&arguments, output),
        Command::Export(arguments) => export::run(&arguments, output),
        Command::Run(arguments) => run::run(&arguments, output),
        Command::Report(arguments) => report::run(&arguments, output),
        Command::Reproduce(arguments) => reproduce::run(&arguments, output),
        Command::Prove(arguments) => prove::run(&arguments, output),
        Command::Expert(arguments) => expert::run(&arguments, output),
        Command::Completions(arguments) => {
            completions::run(&arguments, Arguments::command(), output)
        }
        Command::Book(command) => book::run(&command, output),
    }
}
