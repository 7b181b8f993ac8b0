//! A world of your own: written as an `Env`, described as a `Task`, compared like any other.
//!
//! ```sh
//! cargo run --release -p esper-examples --bin world
//! ```

use esper_data::{Rng, Seed, Space};
use esper_eval::{Experiment, Unobserved};
use esper_tasks::{DatasetSpec, Env, Step, Task, conformance};
use rand::RngExt;

/// A day's work: fishing pays 1; sailing out pays 3 in good weather, one day in four, and costs 1 in bad. Which weather it
/// was shows in the evening.
#[derive(Clone)]
struct Harbour {
    rng: Rng,
}

/// What is seen.
const MORNING: u8 = 0;
const GOOD_WEATHER: u8 = 1;
const BAD_WEATHER: u8 = 2;

/// What can be done.
const FISH: u8 = 0;

impl Env for Harbour {
    type Cell = u8;
    type Action = u8;

    fn observation_space(&self) -> Space {
        Space::Discrete { n: 3 }
    }

    fn action_space(&self) -> Space {
        Space::Discrete { n: 2 }
    }

    fn reset(&mut self, seed: u64, observation: &mut [u8]) {
        self.rng = Seed::new(seed).rng();
        observation[0] = MORNING;
    }

    fn step(&mut self, action: u8, observation: &mut [u8]) -> Step {
        let good = self.rng.random_bool(0.25);
        observation[0] = if good { GOOD_WEATHER } else { BAD_WEATHER };
        Step::end(match (action, good) {
            (FISH, _) => 1.0,
            (_, true) => 3.0,
            (_, false) => -1.0,
        })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let harbour = Harbour { rng: Seed::new(0).rng() };
    // Panics with what is wrong, if the world does not keep what every world keeps.
    conformance::check(&mut harbour.clone(), 20, 1);

    let task = Task::new("harbour", move || Ok(Box::new(harbour.clone())))
        .with_summary("Fish for a living, or sail out and hope for the weather.")
        .with_dataset(DatasetSpec::new("random", 20_000, ["random"]))
        .with_settings("quick", ["cluster.hidden=32", "cluster.steps=600", "returns.steps=600"]);
    let results = Experiment::new(&task)
        .with_methods(["esper", "rvs"])?
        .with_seeds(1)
        .with_resume(true)
        .run("runs/harbour".as_ref(), &Unobserved)?;
    for method in &results.methods {
        let run = &method.runs[0].evaluation;
        let (target, achieved) = (run.offline_target, run.offline_return);
        println!(
            "{} is promised {:.2} and gets {:.2}",
            method.title,
            target.unwrap_or_default(),
            achieved.unwrap_or_default()
        );
    }
    Ok(())
}
