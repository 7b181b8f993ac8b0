//! `bench/compare`: our training and acting steps beside those of PyTorch or JAX, taking turns, as a table of ratios.

mod shipped;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::time::Instant;

use burn::tensor::Tensor;
use clap::{Parser, ValueEnum};
use esper_data::Seed;
use esper_nn::{DeviceName, LinearConfig};
use serde::Serialize;

use shipped::{Acting, clustering, connect_four, mlp_step, transformer_step, twenty48};

/// A step to be timed.
pub(crate) trait Workload {
    /// Does it once.
    fn round(&mut self);
    /// Floating-point operations in its matrix products.
    fn flops(&self) -> f64;
}

/// A workload, how many rounds make a turn, and what each side computes.
struct Entry {
    name: &'static str,
    rounds: usize,
    make: fn() -> Box<dyn Workload>,
    ours: &'static str,
    pytorch: &'static str,
    jax: &'static str,
}

/// What JAX does beyond what PyTorch does.
const COMPILED: &str = "as PyTorch, one compiled function";

const ENTRIES: &[Entry] = &[
    Entry {
        name: "W1",
        rounds: 2,
        make: || Box::new(clustering(&connect_four(4..=22, 500))),
        ours: "packed rows, drawn and encoded; sparse first layers; one pass of the transition predictor for both updates",
        pytorch: "made-up tensors, padded to the longest; a pass of the transition predictor for each update",
        jax: "made-up tensors, padded to 22 steps; one compiled function, one pass of the transition predictor for both updates",
    },
    Entry {
        name: "W2",
        rounds: 1,
        make: || Box::new(clustering(&twenty48(40..=80, 500))),
        ours: "as W1",
        pytorch: "as W1",
        jax: "as W1, padded to 80 steps",
    },
    Entry {
        name: "W3",
        rounds: 3,
        make: || Box::new(transformer_step()),
        ours: "windows drawn and encoded; 59 tokens each; after the last attention only the state tokens",
        pytorch: "made-up tensors of 60 tokens a window",
        jax: COMPILED,
    },
    Entry {
        name: "W4",
        rounds: 40,
        make: || Box::new(mlp_step()),
        ours: "rows drawn and encoded; sparse first layer",
        pytorch: "made-up tensors, dense",
        jax: COMPILED,
    },
    Entry {
        name: "W5-mlp-1",
        rounds: 500,
        make: || Box::new(Acting::mlp(1)),
        ours: "one action, checked, encoded and sampled",
        pytorch: "one action, sampled",
        jax: COMPILED,
    },
    Entry {
        name: "W5-mlp-100",
        rounds: 100,
        make: || Box::new(Acting::mlp(100)),
        ours: "100 actions, checked, encoded and sampled",
        pytorch: "100 actions, sampled",
        jax: COMPILED,
    },
    Entry {
        name: "W5-transformer-1",
        rounds: 100,
        make: || Box::new(Acting::transformer(1)),
        ours: "3 new tokens, the others cached; every tenth time half of the window again",
        pytorch: "60 tokens, recomputed",
        jax: COMPILED,
    },
    Entry {
        name: "W5-transformer-100",
        rounds: 10,
        make: || Box::new(Acting::transformer(100)),
        ours: "as with one",
        pytorch: "60 tokens, recomputed",
        jax: COMPILED,
    },
];

/// Whom we are timed beside.
#[derive(Clone, Copy, ValueEnum)]
enum Beside {
    Torch,
    Jax,
}

impl Beside {
    fn title(self) -> &'static str {
        match self {
            Beside::Torch => "PyTorch",
            Beside::Jax => "JAX",
        }
    }

    /// The script of its side, and what it needs.
    fn script(self) -> (&'static str, &'static str) {
        match self {
            Beside::Torch => ("torch_peer.py", "pip install torch"),
            Beside::Jax => ("jax_peer.py", "pip install jax optax"),
        }
    }
}

/// Time our steps and PyTorch's or JAX's, taking turns, and print the ratios.
#[derive(Parser)]
struct Arguments {
    /// Workloads to time; all by default. `W5` stands for all that begin with it
    workloads: Vec<String>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Turns each side takes
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..))]
    turns: u16,

    /// Whom to be timed beside
    #[arg(long, value_enum, default_value = "torch")]
    peer: Beside,

    /// Time our side only, without Python
    #[arg(long, conflicts_with = "peer")]
    ours: bool,
}

#[derive(Serialize)]
struct Comparison {
    ours_ms: f64,
    pytorch_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    jax_ms: Option<f64>,
    /// Ours over the peer's.
    ratio: Option<f64>,
    /// Our matrix products a second, as a share of what the machine does in one large product.
    ceiling_share: f64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = rayon::ThreadPoolBuilder::new().num_threads(2).build_global() {
        eprintln!("error: cannot start two threads: {error}");
        return ExitCode::FAILURE;
    }
    // In a thread of the pool, as the program does its work.
    match rayon::scope(|_| run(&arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let wanted = |entry: &&Entry| {
        let names = &arguments.workloads;
        names.is_empty() || names.iter().any(|name| entry.name.starts_with(name.as_str()))
    };
    let entries: Vec<&Entry> = ENTRIES.iter().filter(wanted).collect();
    if entries.is_empty() {
        return Err("there is no such workload; there are W1 to W5".to_owned());
    }
    let mut peer = if arguments.ours { None } else { Some(Peer::start(arguments.peer)?) };
    let ceiling = ceiling();
    let mut results = BTreeMap::new();
    if !arguments.json {
        println!(
            "ceiling {ceiling:.0} GFLOP/s; milliseconds a step, median of turns' means, 2 threads each\n"
        );
        let peer = arguments.peer.title();
        println!("{:<20} {:>9} {peer:>9} {:>7} {:>8}", "", "ours", "ratio", "ceiling");
    }
    for entry in entries {
        let result = compare(entry, arguments, peer.as_mut(), ceiling)?;
        if !arguments.json {
            let peer_ms = result.pytorch_ms.or(result.jax_ms);
            let peer = peer_ms.map_or("-".to_owned(), |ms| format!("{ms:.3}"));
            let ratio = result.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            let share = 100.0 * result.ceiling_share;
            println!(
                "{:<20} {:>9.3} {peer:>9} {ratio:>7} {share:>7.0}%",
                entry.name, result.ours_ms
            );
            let theirs = match arguments.peer {
                Beside::Torch => entry.pytorch,
                Beside::Jax => entry.jax,
            };
            let title = arguments.peer.title();
            println!("{:20}   ours: {}\n{:20}   {title}: {theirs}", "", entry.ours, "");
        }
        results.insert(entry.name, result);
    }
    if arguments.json {
        let json = serde_json::to_string_pretty(&results).map_err(|error| error.to_string())?;
        println!("{json}");
    }
    Ok(())
}

/// Both sides in turn, after a turn each to warm up.
fn compare(
    entry: &Entry,
    Arguments { turns, peer: beside, .. }: &Arguments,
    mut peer: Option<&mut Peer>,
    ceiling: f64,
) -> Result<Comparison, String> {
    let mut workload = (entry.make)();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..=*turns {
        let our_turn: Vec<f64> = (0..entry.rounds)
            .map(|_| {
                let started = Instant::now();
                workload.round();
                started.elapsed().as_secs_f64()
            })
            .collect();
        let their_turn = match &mut peer {
            Some(peer) => peer.rounds(entry.name, entry.rounds)?,
            None => Vec::new(),
        };
        // What happens only now and then counts as often as it happens.
        let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
        if turn > 0 {
            ours.push(mean(&our_turn));
            theirs.extend((!their_turn.is_empty()).then(|| mean(&their_turn)));
        }
    }
    let ours_ms = 1e3 * median(ours);
    let peer_ms = (!theirs.is_empty()).then(|| 1e3 * median(theirs));
    Ok(Comparison {
        ours_ms,
        pytorch_ms: peer_ms.filter(|_| matches!(beside, Beside::Torch)),
        jax_ms: peer_ms.filter(|_| matches!(beside, Beside::Jax)),
        ratio: peer_ms.map(|theirs| ours_ms / theirs),
        ceiling_share: workload.flops() / (ours_ms * 1e6) / ceiling,
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// GFLOP/s of one large matrix product, the best of several.
fn ceiling() -> f64 {
    let device = DeviceName::Cpu.open().expect("there is a CPU");
    let size = 1024;
    let mut rng = Seed::new(0).rng();
    let layer = LinearConfig::new(size, size).with_bias(false).init(&device, &mut rng);
    let rows = Tensor::<2>::ones([2 * size, size], &device);
    let best = (0..10)
        .map(|_| {
            let started = Instant::now();
            std::hint::black_box(layer.forward(rows.clone()));
            started.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    4.0 * (size * size * size) as f64 / best / 1e9
}

/// The other side, in a process of its own.
struct Peer {
    process: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start(beside: Beside) -> Result<Self, String> {
        let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let (script, install) = beside.script();
        let mut process = Command::new(&python)
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {python}: {error}; set PYTHON"))?;
        let requests = process.stdin.take().ok_or("no standard input")?;
        let answers = BufReader::new(process.stdout.take().ok_or("no standard output")?);
        let mut peer = Peer { process, requests, answers };
        let greeting = peer.answer()?;
        if !greeting.starts_with("ready") {
            return Err(format!("{python} did not start; it needs packages: {install}"));
        }
        eprintln!("{} {}", beside.title(), greeting.trim_start_matches("ready "));
        Ok(peer)
    }

    fn rounds(&mut self, name: &str, rounds: usize) -> Result<Vec<f64>, String> {
        writeln!(self.requests, "{name} {rounds}").map_err(|error| error.to_string())?;
        let answer = self.answer()?;
        let seconds: Result<Vec<f64>, _> = answer.split_whitespace().map(str::parse).collect();
        match seconds {
            Ok(seconds) if seconds.len() == rounds => Ok(seconds),
            _ => Err(format!("the other side answered: {answer}")),
        }
    }

    fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It ends by itself when its input does; this only makes sure.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
