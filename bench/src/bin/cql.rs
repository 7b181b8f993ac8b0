//! Conservative Q-learning beside d3rlpy's: the same data, the same settings, the values that each learns, and the time.
//!
//! ```sh
//! PYTHON=python cargo run --release -p esper-bench --bin cql -- gambling.parquet 20000
//! ```
//!
//! The Python in `$PYTHON` needs d3rlpy and pyarrow. Takes data of categories with one choice among actions.

use std::error::Error;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use clap::Parser;
use esper::Unwatched;
use esper::config::{Config, Preset};
use esper::run::{Method, Plan, Policy, PolicyKind};
use serde::Deserialize;

/// Trains CQL with d3rlpy's defaults, here and there, and compares.
#[derive(Parser)]
struct Arguments {
    /// What `esper collect` wrote
    data: PathBuf,
    /// Steps of training
    steps: usize,
    /// Observations whose values are compared: the first ones of the data
    #[arg(long, default_value_t = 2000)]
    rows: usize,
}

/// What the other side prints.
#[derive(Deserialize)]
struct Theirs {
    seconds: f64,
    values: Vec<Vec<f64>>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { data: path, steps, rows } = Arguments::parse();
    let data = esper_data::read(&path)?;
    let mut config = Config::preset(Preset::Paper, None);
    config.cql.steps = steps;
    let plan = Plan { method: Method::Cql, policy: PolicyKind::Mlp, config, seed: 0 };
    let outcome = plan.train(&data, &Unwatched)?;
    let Policy::Values(policy) = &outcome.policy else {
        return Err("the actions are no choice among some".into());
    };
    // Rows of the file have no final observations between them; ours do.
    let observations: Vec<usize> = (0..data.episodes())
        .flat_map(|e| data.episode_observations(e).rev().skip(1).rev())
        .collect();
    let rows = rows.min(observations.len());
    let ours = policy.values(data.observations().view(), &observations[..rows]);
    let width = ours.len() / rows;

    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let peer = concat!(env!("CARGO_MANIFEST_DIR"), "/cql_peer.py");
    let output = Command::new(python)
        .args([
            peer.as_ref(),
            path.as_os_str(),
            steps.to_string().as_ref(),
            rows.to_string().as_ref(),
        ])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    let theirs: Theirs = serde_json::from_str(text.lines().last().unwrap_or_default())?;

    let pairs = ours.chunks_exact(width).zip(&theirs.values);
    let best = |values: &[f64]| {
        (0..values.len()).max_by(|&a, &b| values[a].total_cmp(&values[b])).unwrap_or(0)
    };
    let (mut difference, mut spread, mut agree) = (0.0, 0.0, 0);
    let mean = theirs.values.iter().flatten().sum::<f64>() / (rows * width) as f64;
    for (ours, theirs) in pairs {
        let ours: Vec<f64> = ours.iter().map(|&value| f64::from(value)).collect();
        difference += ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).sum::<f64>();
        spread += theirs.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        agree += usize::from(best(&ours) == best(theirs));
    }
    let count = (rows * width) as f64;
    println!("steps                         {steps}");
    println!("mean |difference| of values   {:.4}", difference / count);
    println!("deviation of their values     {:.4}", (spread / count).sqrt());
    println!("same best action              {:.1}%", 100.0 * agree as f64 / rows as f64);
    println!("seconds, ours / d3rlpy        {:.1} / {:.1}", outcome.seconds, theirs.seconds);
    println!("ratio                         {:.2}", outcome.seconds / theirs.seconds);
    Ok(())
}
