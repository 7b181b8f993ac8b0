//! `esper book`: make and check the Connect Four opening book that the program carries.

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use esper_data::{PendingFile, Seed, read_file};
use esper_eval::text::count;
use esper_tasks::connect_four::Solver;
use esper_tasks::connect_four::book::{Book, Database, Scope};
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::Serialize;

use crate::output::{Failure, Output};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Work the book out and write it to a file
    #[command(
        after_help = "Example:  esper book build --database book_12ply_distances.dat --out book.bin\n\n\
        The database is in the package bitbully-databases 0.0.2 on PyPI. With it the book takes about half an hour \
        on two cores, without it many hours. The program is built with \
        crates/esper-tasks/src/connect_four/book/book.bin."
    )]
    Build(Build),
    /// Solve positions of the book again, without it, and compare
    #[command(after_help = "Example:  esper book check --sample 1000 --least-discs 12")]
    Check(Check),
}

#[derive(clap::Args)]
pub(crate) struct Build {
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,

    /// Scores of all positions with twelve discs, to save most of the work
    #[arg(long, value_name = "FILE")]
    database: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct Check {
    /// How many positions to solve again
    #[arg(long, value_name = "N", default_value_t = 200)]
    sample: usize,

    /// Take only positions with at least this many discs; each disc fewer takes about twice the time
    #[arg(long, value_name = "N", default_value_t = 12)]
    least_discs: u32,

    /// Take only positions with at most this many discs
    #[arg(long, value_name = "N", default_value_t = 42)]
    most_discs: u32,

    /// Which positions are drawn
    #[arg(long, value_name = "S", default_value_t = 0)]
    seed: u64,
}

#[derive(Serialize)]
struct Built {
    path: String,
    positions: usize,
    bytes: usize,
    seconds: f64,
}

#[derive(Serialize)]
struct Checked {
    positions: usize,
    checked: usize,
    wrong: usize,
    seconds: f64,
}

pub(crate) fn run(command: &Command, output: &Output) -> Result<(), Failure> {
    match command {
        Command::Build(arguments) => build(arguments, output),
        Command::Check(arguments) => check(arguments, output),
    }
}

fn build(arguments: &Build, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    // Before the long work, so that a path that cannot be written is noticed at once.
    let mut file =
        PendingFile::create(&arguments.out, arguments.force).map_err(Failure::writing)?;
    let database = match &arguments.database {
        None => None,
        Some(path) => {
            let failed = |problem: &dyn std::fmt::Display| {
                Failure::error(format!("{}: {problem}", path.display()))
            };
            let bytes = read_file(path).map_err(Failure::error)?;
            Some(
                Database::from_bytes(&bytes)
                    .ok_or_else(|| failed(&"not the database of positions with twelve discs"))?,
            )
        }
    };
    let book = Book::build(database.as_ref(), Scope::INCLUDED, |discs, positions, searched| {
        output.note(&format!(
            "{discs} discs: {} positions, {} to be searched ({:.0} s)",
            count(positions),
            count(searched),
            started.elapsed().as_secs_f64()
        ));
    })
    .map_err(Failure::error)?;
    let bytes = book.to_bytes();
    file.write_all(&bytes)
        .map_err(|error| Failure::error(format!("{}: {error}", arguments.out.display())))?;
    file.finish().map_err(Failure::writing)?;
    let built = Built {
        path: arguments.out.display().to_string(),
        positions: book.len(),
        bytes: bytes.len(),
        seconds: started.elapsed().as_secs_f64(),
    };
    output.result(&built, || {
        format!(
            "{}: {} positions in {} bytes",
            built.path,
            count(built.positions),
            count(built.bytes)
        )
    })
}

fn check(arguments: &Check, output: &Output) -> Result<(), Failure> {
    let started = Instant::now();
    let book = Book::included();
    let discs = arguments.least_discs..=arguments.most_discs;
    let mut sample: Vec<_> =
        book.entries().filter(|(board, _)| discs.contains(&board.discs())).collect();
    sample.shuffle(&mut Seed::new(arguments.seed).named("book check").rng());
    sample.truncate(arguments.sample);
    if sample.is_empty() {
        return Err(Failure::misuse("the book has no such position, or none was asked for"));
    }
    // Early positions take long searches, which a larger table shortens.
    let table_bits = if arguments.least_discs < 10 { 24 } else { 20 };
    let wrong = sample
        .par_iter()
        .map_init(
            || Solver::with_table_bits(table_bits),
            |solver, (board, column)| solver.best_column(board) != *column,
        )
        .filter(|&wrong| wrong)
        .count();
    let checked = Checked {
        positions: book.len(),
        checked: sample.len(),
        wrong,
        seconds: started.elapsed().as_secs_f64(),
    };
    output.result(&checked, || {
        format!(
            "{} of {} positions solved again, {} wrong",
            count(checked.checked),
            count(checked.positions),
            count(checked.wrong)
        )
    })?;
    if wrong > 0 {
        return Err(Failure::error("the book is wrong; make it again with `esper book build`"));
    }
    Ok(())
}
