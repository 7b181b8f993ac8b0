//! What the phases of a whole training cost, with one thread and with several, on an idle machine and on a busy one.
//!
//! ```sh
//! esper collect connect-four
//! cargo run --release -p esper-bench --bin phases -- connect-four.parquet --threads 1
//! cargo run --release -p esper-bench --bin phases -- connect-four.parquet --busy --set cluster.steps=300
//! ```
//!
//! `--busy` keeps one core from us by a process that does nothing but count.

use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::Parser;
use esper::run::Plan;
use esper::settings::Preset;
use esper::{Monitor, Registry};
use esper_data::Dataset;

/// Trains ESPER and tells the seconds of every phase.
#[derive(Parser)]
struct Arguments {
    /// What `esper collect` wrote
    #[arg(required_unless_present = "count")]
    data: Option<PathBuf>,
    /// Threads to train with; may be given several times, to compare them in one run
    #[arg(long, default_values_t = [1, 2])]
    threads: Vec<usize>,
    /// Turns that each number of threads takes
    #[arg(long, default_value_t = 1)]
    turns: usize,
    /// Keep one core busy with something else
    #[arg(long)]
    busy: bool,
    /// Change a setting of the preset `quick`
    #[arg(long)]
    set: Vec<String>,
    /// Do nothing but keep a core busy
    #[arg(long, hide = true)]
    count: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let Some(path) = &arguments.data else {
        loop {
            std::hint::spin_loop();
        }
    };
    let data = esper_data::read(path)?;
    let _neighbour = if arguments.busy { Some(Neighbour::start()?) } else { None };
    let mut measured: Vec<(usize, Phases)> =
        arguments.threads.iter().map(|&threads| (threads, Phases::default())).collect();
    for _ in 0..arguments.turns {
        for (threads, phases) in &mut measured {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(*threads).build()?;
            pool.install(|| train(&data, &arguments.set, phases))?;
        }
    }
    print(&measured);
    Ok(())
}

fn train(data: &Dataset, settings: &[String], phases: &mut Phases) -> Result<(), esper::Error> {
    let registry = Registry::default();
    let config = registry.config(Preset::Quick).changed(None, settings)?;
    let clock = Clock(Mutex::new((Instant::now(), cpu_seconds(), std::mem::take(phases))));
    Plan::new(&registry, "esper", "mlp", config)?.train(data, &clock)?;
    // What comes after the last that was told of, and the rest of what was begun.
    clock.progress("other", 0, 0);
    let (.., measured) = clock.0.into_inner().unwrap_or_else(PoisonError::into_inner);
    *phases = measured;
    Ok(())
}

/// Seconds on the clock and of all cores, by phase, and the phases in the order in which they came.
#[derive(Default)]
struct Phases {
    order: Vec<String>,
    seconds: HashMap<String, [f64; 2]>,
}

/// Gives the time since it was last told of progress to the phase that made it.
struct Clock(Mutex<(Instant, f64, Phases)>);

impl Monitor for Clock {
    fn progress(&self, phase: &str, _done: usize, _total: usize) {
        let mut clock = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, cpu, phases) = &mut *clock;
        let (now, cpu_now) = (Instant::now(), cpu_seconds());
        let spent = [now.duration_since(*last).as_secs_f64(), cpu_now - *cpu];
        (*last, *cpu) = (now, cpu_now);
        if !phases.seconds.contains_key(phase) {
            phases.order.push(phase.to_owned());
        }
        let sums = phases.seconds.entry(phase.to_owned()).or_default();
        sums.iter_mut().zip(spent).for_each(|(sum, spent)| *sum += spent);
    }
}

/// What this process has used of all cores, in seconds; nothing where the system does not tell as Linux does.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program comes first and may hold spaces; a hundredth of a second is a tick.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn print(measured: &[(usize, Phases)]) {
    let Some((_, first)) = measured.first() else { return };
    print!("{:<24}", "seconds (of all cores)");
    measured.iter().for_each(|(threads, _)| print!("{:>18}", format!("{threads} threads")));
    println!();
    let line = |name: &str, numbers: &dyn Fn(&Phases) -> [f64; 2]| {
        print!("{name:<24}");
        for (_, phases) in measured {
            let [clock, cpu] = numbers(phases);
            print!("{:>18}", format!("{clock:.2} ({cpu:.2})"));
        }
        println!();
    };
    for phase in &first.order {
        line(phase, &|phases| phases.seconds.get(phase).copied().unwrap_or_default());
    }
    line("all", &|phases| {
        phases.seconds.values().fold([0.0, 0.0], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    });
}

/// A process that keeps one core busy for as long as this lives.
struct Neighbour(Child);

impl Neighbour {
    fn start() -> std::io::Result<Self> {
        Command::new(std::env::current_exe()?).arg("--count").spawn().map(Neighbour)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // It may have ended by itself, which is as well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
