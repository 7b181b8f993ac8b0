//! Times `esper import`'s work on a made-up log: rows of 20 columns as CSV, written to a temporary folder first.
//!
//!     cargo run --release -p esper-bench --bin import -- --rows 1000000
//!     cargo run --release -p esper-bench --bin import -- --rows 10000000 --memory 80000000 --shuffled

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Parser;
use esper_data::Seed;
use esper_data::tables::{Mapping, Table, available_memory};
use rand::RngExt;

/// Times the import of a table.
#[derive(Parser)]
struct Arguments {
    /// Rows of the table.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,

    /// Bytes that may be held in memory [default: half of what is free].
    #[arg(long)]
    memory: Option<u64>,

    /// Spread the rows of every episode over the whole table.
    #[arg(long)]
    shuffled: bool,

    /// Where the table and the data set are written [default: the system's temporary folder].
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// Steps of an episode.
const LENGTH: u64 = 50;

/// Columns of an observation.
const OBSERVATION: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let folder = arguments.folder.unwrap_or_else(std::env::temp_dir);
    let (table, out) = (folder.join("esper-bench.csv"), folder.join("esper-bench.parquet"));
    write(&table, arguments.rows, arguments.shuffled)?;
    let bytes = std::fs::metadata(&table)?.len();

    let go_on = |_| ControlFlow::Continue(());
    let started = Instant::now();
    let survey = Table::open(std::slice::from_ref(&table))?.survey(&Mapping::default(), go_on)?;
    let surveyed = started.elapsed().as_secs_f64();
    let memory = arguments.memory.unwrap_or_else(|| available_memory() / 2);
    survey.write(&out, true, memory, |_| Ok(()), go_on)?;
    let seconds = started.elapsed().as_secs_f64();
    // What the data takes in memory: observations with the final ones, actions, rewards.
    let native = survey.steps() * (4 * OBSERVATION as u64 + 5)
        + survey.episodes() as u64 * 4 * OBSERVATION as u64;
    let result = serde_json::json!({
        "rows": survey.steps(),
        "table_bytes": bytes,
        "first_pass_seconds": surveyed,
        "seconds": seconds,
        "native_bytes_in_memory": native,
        "peak_bytes": peak(),
    });
    println!("{}", serde_json::to_string_pretty(&result)?);
    std::fs::remove_file(&table)?;
    std::fs::remove_file(&out)?;
    Ok(())
}

fn write(path: &Path, rows: u64, shuffled: bool) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let names: Vec<String> = (0..OBSERVATION).map(|at| format!("x{at}")).collect();
    writeln!(file, "episode,step,{},action,reward", names.join(","))?;
    let mut rng = Seed::new(0).rng();
    let episodes = rows.div_ceil(LENGTH);
    let mut line = String::new();
    for row in 0..rows {
        let (episode, step) = match shuffled {
            false => (row / LENGTH, row % LENGTH),
            true => (row % episodes, row / episodes),
        };
        line.clear();
        let _ = write!(line, "{episode},{step}");
        for _ in 0..OBSERVATION {
            let _ = write!(line, ",{:.5}", rng.random_range(-3.0f32..3.0));
        }
        let (action, reward) = (rng.random_range(0..4), rng.random_range(-1.0f32..1.0));
        writeln!(file, "{line},{action},{reward:.4}")?;
    }
    file.flush()
}

/// The most memory that this process has had, where Linux says so.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}
