//! How fast `esper act` decides: in batches and one by one, through the program's pipe and within this process.
//!
//! ```sh
//! esper collect connect-four && esper train connect-four.parquet --out my-run
//! cargo run --release -p esper-bench --bin serving -- my-run connect-four.parquet --program target/release/esper
//! ```
//!
//! Observations are those of the data, in order; every place of a batch is an episode of its own. All on one thread.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Parser;
use esper::Registry;
use esper::policy::Policy;
use esper::serving::{Desk, DeskOptions};
use esper_data::Dataset;
use esper_nn::DeviceName;
use serde_json::{Value, json};

/// Times decisions of a policy.
#[derive(Parser)]
struct Arguments {
    /// The folder of a run
    run: PathBuf,
    /// The data it was trained on
    data: PathBuf,
    /// The program
    #[arg(long, default_value = "target/release/esper")]
    program: PathBuf,
    /// Requests in a batch
    #[arg(long, default_value_t = 1_000)]
    batch: usize,
    /// Batches
    #[arg(long, default_value_t = 50)]
    batches: usize,
    /// Single requests
    #[arg(long, default_value_t = 5_000)]
    singles: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    let data = esper_data::read(&arguments.data)?;
    let batches: Vec<String> = (0..arguments.batches)
        .map(|at| {
            let requests =
                (0..arguments.batch).map(|of| request(&data, at * arguments.batch + of, of));
            Value::Array(requests.collect()).to_string()
        })
        .collect();
    let singles: Vec<String> =
        (0..arguments.singles).map(|at| request(&data, at, at % 100).to_string()).collect();

    let device = DeviceName::Cpu.open()?;
    let file = arguments.run.join("policy.safetensors");
    let policy = Policy::load(&file, &Registry::default(), &device)?;
    let within = |lines: &[String]| -> Result<Vec<f64>, Box<dyn Error>> {
        let mut desk = Desk::new(&policy, DeskOptions::default());
        let mut answer = Vec::new();
        timed(lines, |line| {
            answer.clear();
            desk.answer_line(line.as_bytes(), &mut answer);
            Ok(())
        })
    };
    report("in this process", &arguments, &within(&batches)?, &within(&singles)?);
    let piped = |lines: &[String]| through_pipe(&arguments.program, &arguments.run, lines);
    report("through the pipe", &arguments, &piped(&batches)?, &piped(&singles)?);
    Ok(())
}

/// The request for the observation of a step.
fn request(data: &Dataset, step: usize, episode: usize) -> Value {
    let width = data.metadata().observation_space.cells();
    let row = step % (data.observations().len() / width);
    let cells = (0..width).map(|cell| data.observations().view().number(row * width + cell));
    let observation: Vec<Value> = cells
        .map(|cell| if cell.fract() == 0.0 { json!(cell as i64) } else { json!(cell) })
        .collect();
    json!({ "episode": episode, "observation": observation, "level": 0.9 })
}

/// The seconds that each line takes, but for the first tenth.
fn timed(
    lines: &[String],
    mut answer: impl FnMut(&str) -> Result<(), Box<dyn Error>>,
) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut seconds = Vec::with_capacity(lines.len());
    for line in lines {
        let start = Instant::now();
        answer(line)?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    Ok(seconds.split_off(lines.len() / 10))
}

/// The same through the program: a line is sent when the last was answered.
fn through_pipe(program: &Path, run: &Path, lines: &[String]) -> Result<Vec<f64>, Box<dyn Error>> {
    let mut child = Command::new(program)
        .args(["act", "--threads", "1", "--quiet"])
        .arg(run)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut requests = child.stdin.take().ok_or("no pipe to write to")?;
    let mut answers =
        BufReader::with_capacity(1 << 16, child.stdout.take().ok_or("no pipe to read from")?);
    let mut answer = String::new();
    let seconds = timed(lines, |line| {
        requests.write_all(line.as_bytes())?;
        requests.write_all(b"\n")?;
        answer.clear();
        answers.read_line(&mut answer)?;
        match answer.contains("\"error\"") || answer.is_empty() {
            true => Err(format!("no answer but {answer}").into()),
            false => Ok(()),
        }
    })?;
    drop(requests);
    child.wait()?;
    Ok(seconds)
}

fn report(name: &str, arguments: &Arguments, batches: &[f64], singles: &[f64]) {
    let median = |seconds: &[f64], share: f64| {
        let mut sorted = seconds.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[((sorted.len() - 1) as f64 * share) as usize]
    };
    let rate = arguments.batch as f64 * batches.len() as f64 / batches.iter().sum::<f64>();
    println!("{name}");
    println!("  batches of {:<6}   {rate:>10.0} decisions a second", arguments.batch);
    let (middle, slow) = (median(singles, 0.5) * 1e3, median(singles, 0.99) * 1e3);
    println!("  one                {middle:>10.4} ms (median), {slow:.4} ms (99th percentile)");
}
