//! Soft actor-critic beside Stable-Baselines3's: steps a second in the same world, with the same networks and as many updates.
//!
//! ```sh
//! PYTHON=python cargo run --release -p esper-bench --bin sac -- halfcheetah HalfCheetah-v5
//! ```
//!
//! Both sides take turns. The Python in `$PYTHON` needs stable-baselines3, gymnasium and mujoco; MuJoCo's library is that
//! of `$MUJOCO_PATH`, or of the Python on the path.

use std::error::Error;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Parser;
use esper_data::Seed;
use esper_online::{OnlineLearner, Sac, SacConfig};
use serde::Deserialize;

/// Times learning by acting, here and there, turn by turn.
#[derive(Parser)]
struct Arguments {
    /// The task
    task: String,
    /// What Gymnasium calls it
    environment: String,
    /// Steps that are timed, in all copies together
    #[arg(long, default_value_t = 6144)]
    steps: usize,
    /// Copies of the world
    #[arg(long, default_value_t = 1)]
    copies: usize,
    /// Steps to an update
    #[arg(long, default_value_t = 1)]
    steps_per_update: usize,
    /// Hidden width, of actor and critics
    #[arg(long, default_value_t = 256)]
    hidden: usize,
    /// How often each side is timed
    #[arg(long, default_value_t = 3)]
    turns: usize,
}

/// Steps at random before learning begins.
const RANDOM_STEPS: usize = 1024;
const BATCH: usize = 256;

#[derive(Deserialize)]
struct Timed {
    steps_per_second: f64,
    updates: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..arguments.turns {
        ours.push(time_ours(&arguments)?);
        let peer = time_theirs(&arguments)?;
        theirs.push(peer.steps_per_second);
        println!(
            "turn {}: ours {:.0}, Stable-Baselines3 {:.0} steps a second ({} updates of {} steps)",
            turn + 1,
            ours[turn],
            theirs[turn],
            peer.updates,
            arguments.steps + RANDOM_STEPS
        );
    }
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("ratio of medians: {:.2}", median(&mut ours) / median(&mut theirs));
    Ok(())
}

fn time_ours(arguments: &Arguments) -> Result<f64, Box<dyn Error>> {
    let config = SacConfig {
        copies: arguments.copies,
        steps_per_update: arguments.steps_per_update,
        random_steps: RANDOM_STEPS,
        batch: BATCH,
        hidden: arguments.hidden,
        actor_hidden: arguments.hidden,
        learning_rate: 3e-4,
        // As often as the critics.
        delay: 1,
        ..SacConfig::default()
    };
    let worlds = esper_tasks::find_task(&arguments.task)?.worlds(config.copies)?;
    let device = esper_nn::DeviceName::Cpu.open()?;
    let mut sac = Sac::new(worlds, &config, Seed::new(0), &device)?;
    while sac.replay().steps() < RANDOM_STEPS {
        sac.update()?;
    }
    let (started, before) = (Instant::now(), sac.replay().steps());
    while sac.replay().steps() < before + arguments.steps {
        sac.update()?;
    }
    Ok((sac.replay().steps() - before) as f64 / started.elapsed().as_secs_f64())
}

fn time_theirs(arguments: &Arguments) -> Result<Timed, Box<dyn Error>> {
    let Arguments { environment, copies, steps, hidden, steps_per_update, .. } = arguments;
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let numbers = [*copies, *steps, RANDOM_STEPS, *hidden, BATCH, *steps_per_update];
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/sac_peer.py"))
        .arg(environment)
        .args(numbers.map(|number| number.to_string()))
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(serde_json::from_str(text.lines().last().unwrap_or_default())?)
}
