//! How long a policy takes for one action in Rust, without JSON and without Python: what `bench/python.py` compares with.
//!
//! ```sh
//! cargo run --release -p esper-bench --bin acting -- my-run connect-four.parquet
//! ```
//!
//! Prints the median in microseconds. Observations are those of the data, one after the other in one episode; on one thread.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use esper::Registry;
use esper::condition::Target;
use esper::policy::Policy;
use esper_data::{Cells, Seed};
use esper_nn::{DeviceName, alone};

/// Times single actions of a policy.
#[derive(Parser)]
struct Arguments {
    /// The folder of a run
    run: PathBuf,
    /// Data with observations for it
    data: PathBuf,
    /// Actions
    #[arg(long, default_value_t = 20_000)]
    actions: usize,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    rayon::ThreadPoolBuilder::new().num_threads(1).build_global()?;
    let data = esper_data::read(&arguments.data)?;
    let file = arguments.run.join("policy.safetensors");
    let policy = Policy::load(&file, &Registry::default(), &DeviceName::Cpu.open()?)?;
    let (seen, done) = (&data.metadata().observation_space, &data.metadata().action_space);
    let target = policy.card().offline_target().unwrap_or(Target::Return(0.0));
    let mut agent = policy.agent();
    agent.begin(0, target, Seed::new(0).named("acting"));
    let mut actions = Cells::empty(done.cell_type());
    let rows: Vec<usize> = data.step_rows().collect();
    let mut seconds = Vec::with_capacity(arguments.actions);
    for at in 0..arguments.actions {
        let row = rows[at % rows.len()] * seen.cells();
        let mut observation = Cells::empty(seen.cell_type());
        observation.extend_from(data.observations().view(), row..row + seen.cells());
        actions.clear();
        let start = Instant::now();
        alone(|| agent.act(observation.view(), &[0], &mut actions))?;
        seconds.push(start.elapsed().as_secs_f64());
    }
    // The first tenth warms up.
    let mut seconds = seconds.split_off(arguments.actions / 10);
    seconds.sort_by(f64::total_cmp);
    println!("{:.3}", seconds[seconds.len() / 2] * 1e6);
    Ok(())
}
