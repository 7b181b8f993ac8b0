//! Trains ESPER and return conditioning on a built-in task, and shows what each gets for what it is asked for.
//!
//! ```sh
//! cargo run --release -p esper-examples --bin train
//! ```

use esper_eval::{Experiment, Unobserved};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let task = esper_tasks::task("gambling").expect("it is built in");
    let results = Experiment::new(task)
        .with_methods(["esper", "rvs"])?
        .with_seeds(1)
        .with_resume(true)
        .run("runs/train".as_ref(), &Unobserved)?;
    for method in &results.methods {
        let run = &method.runs[0].evaluation;
        println!("{}: {:?} offline", method.title, run.offline_return);
        for entry in run.sweep.iter().filter(|entry| entry.supported) {
            println!("  asked for {:?}, got {:.2}", entry.target, entry.achieved);
        }
    }
    Ok(())
}
