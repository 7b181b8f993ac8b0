//! Conservative Q-learning beside d3rlpy's: the same data, the same settings, what each learns, and the time.
//!
//! ```sh
//! PYTHON=python cargo run --release -p esper-bench --bin cql -- gambling.parquet 10000
//! PYTHON=python cargo run --release -p esper-bench --bin cql -- real 3000
//! ```
//!
//! For a choice among actions it compares the values of all of them, for real-valued actions the action taken. d3rlpy
//! is trained with two seeds: how far those are apart is how far apart two right answers may be. The Python in
//! `$PYTHON` needs d3rlpy and pyarrow.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Parser;
use esper::condition::Target;
use esper::methods::cql::{CqlConfig, CqlContinuousConfig};
use esper::run::Plan;
use esper::settings::Preset;
use esper::{Registry, Unwatched};
use esper_data::{Cells, Dataset, DatasetBuilder, End, Metadata, Moments, Seed, Space};
use rand::RngExt;
use serde::Deserialize;

/// Trains CQL with d3rlpy's defaults, here and there, and compares.
#[derive(Parser)]
struct Arguments {
    /// What `esper collect` wrote, or `real` for a made-up world of real numbers
    data: PathBuf,
    /// Steps of training
    steps: usize,
    /// Observations that are compared: the first ones of the data
    #[arg(long, default_value_t = 2000)]
    rows: usize,
}

/// What one side learned.
#[derive(Deserialize)]
struct Learned {
    seconds: f64,
    /// Values of actions, or the action, for every observation.
    learned: Vec<Vec<f64>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { data: mut path, steps, rows } = Arguments::parse();
    let made_up = std::env::temp_dir().join(format!("esper-cql-{}.parquet", std::process::id()));
    if path == Path::new("real") {
        point_on_a_line().write(&made_up, true)?;
        path = made_up.clone();
    }
    let data = esper_data::read(&path)?;
    let (ours, is_choice) = ours(&data, steps, rows)?;
    let theirs = [theirs(&path, steps, rows, 0)?, theirs(&path, steps, rows, 1)?];
    if made_up.exists() {
        std::fs::remove_file(&made_up)?;
    }
    println!("steps                          {steps}");
    println!("deviation of what d3rlpy learns {:.3}", deviation(&theirs[0]));
    for (name, one, other) in
        [("ours and d3rlpy's", &ours, &theirs[0]), ("d3rlpy's, two seeds", &theirs[0], &theirs[1])]
    {
        print!("{name:<22} mean |difference| {:.3}", difference(one, other));
        if is_choice {
            print!(", same best action {:.1}%", 100.0 * agreement(one, other));
        }
        println!();
    }
    let seconds = (theirs[0].seconds + theirs[1].seconds) / 2.0;
    println!("seconds, ours / d3rlpy's       {:.1} / {seconds:.1}", ours.seconds);
    println!("ratio                          {:.2}", ours.seconds / seconds);
    Ok(())
}

/// A point that is pushed along a line, with noise, and should stay near zero without much pushing. It is pushed at
/// random.
fn point_on_a_line() -> Dataset {
    let mut rng = Seed::new(0).rng();
    let (episodes, length) = (1_000, 20);
    let mut builder = DatasetBuilder::new(Metadata::new(
        Space::Box { shape: vec![1], bounds: None },
        Space::Box { shape: vec![1], bounds: Some(vec![[-1.0, 1.0]]) },
    ));
    for _ in 0..episodes {
        let mut state: f32 = rng.random_range(-2.0..2.0);
        for _ in 0..length {
            let action: f32 = rng.random_range(-1.0..1.0);
            let reward = -state * state - 0.1 * action * action;
            builder.push(&[state], &[action], reward).expect("the made-up data is valid");
            state += 0.5 * action + rng.random_range(-0.1..0.1);
        }
        let end = End { terminated: true, truncated: false };
        builder.end(&[state], end).expect("the made-up data is valid");
    }
    builder.build().expect("the made-up data is valid")
}

/// What ours learns, and whether actions are a choice among some.
fn ours(data: &Dataset, steps: usize, rows: usize) -> Result<(Learned, bool), Box<dyn Error>> {
    let registry = Registry::default();
    let config = registry
        .config(Preset::Paper)
        .with(|cql: &mut CqlConfig| cql.steps = steps)?
        .with(|cql: &mut CqlContinuousConfig| cql.steps = steps)?;
    let outcome = Plan::new(&registry, "cql", "mlp", config)?.train(data, &Unwatched)?;
    // Rows of the file have no final observations between them; ours do.
    let mut observations: Vec<usize> = (0..data.episodes())
        .flat_map(|e| data.episode_observations(e).rev().skip(1).rev())
        .collect();
    observations.truncate(rows);
    let policy = &outcome.learned.policy;
    let seen = data.observations().view();
    let (numbers, is_choice): (Vec<f32>, bool) = match policy.action_values(seen, &observations) {
        Some(values) => (values, true),
        None => {
            let mut actions = Cells::Float(Vec::new());
            let mut agent = policy.agent();
            observations
                .iter()
                .for_each(|&place| agent.begin(place, Target::Return(0.0), Seed::new(0)));
            agent.act(seen, &observations, &mut actions)?;
            let numbers = (0..actions.len()).map(|at| actions.view().number(at));
            (numbers.collect(), false)
        }
    };
    let width = numbers.len() / observations.len();
    let row = |row: &[f32]| row.iter().map(|&number| f64::from(number)).collect();
    let learned = numbers.chunks_exact(width).map(row).collect();
    Ok((Learned { seconds: outcome.seconds, learned }, is_choice))
}

/// What d3rlpy learns.
fn theirs(path: &Path, steps: usize, rows: usize, seed: u64) -> Result<Learned, Box<dyn Error>> {
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/cql_peer.py"))
        .arg(path)
        .args([steps.to_string(), rows.to_string(), seed.to_string()])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}

fn difference(one: &Learned, other: &Learned) -> f64 {
    let pairs = one.learned.iter().flatten().zip(other.learned.iter().flatten());
    let count = one.learned.iter().flatten().count() as f64;
    pairs.map(|(a, b)| (a - b).abs()).sum::<f64>() / count
}

fn deviation(learned: &Learned) -> f64 {
    Moments::of(learned.learned.iter().flatten().copied()).population_std()
}

/// The share of observations in which the same action is worth most.
fn agreement(one: &Learned, other: &Learned) -> f64 {
    let best = |values: &[f64]| {
        (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
    };
    let pairs = one.learned.iter().zip(&other.learned);
    let same = pairs.filter(|(one, other)| best(one) == best(other)).count();
    same as f64 / one.learned.len() as f64
}
