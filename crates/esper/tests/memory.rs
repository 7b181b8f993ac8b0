//! How much memory a step takes: a process of its own, because the system counts what all of it takes.
#![cfg(target_os = "linux")]

mod common;

use common::{TINY, plan, with_a_long_one};
use esper::Unwatched;

/// The most memory that this process has taken, in bytes, if the system tells.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? << 10)
}

/// An episode of 40,000 steps is in a batch of 100 about four times. As a whole that took 3 kB a step, half a gigabyte
/// together, with networks as small as these; windows of 64 steps take a few megabytes, and going
/// through all of the data once about 200 MB. What any training takes is taken before.
#[test]
fn truncation_bounds_the_memory_of_a_step() {
    let (short, data) = (with_a_long_one(100), with_a_long_one(40_000));
    for transition in ["cluster.transition=markov", "cluster.transition=history"] {
        let settings: Vec<&str> = TINY.into_iter().chain([transition]).collect();
        plan(&settings).train(&short, &Unwatched).unwrap();
        // The most is counted from here on, where the system allows it.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let Some(before) = most_memory() else {
            eprintln!("the system does not tell how much memory was taken: it is not tested");
            return;
        };
        let labels = plan(&settings).train(&data, &Unwatched).unwrap().learned.labels.unwrap();
        let taken = most_memory().unwrap() - before;
        assert!(taken < 350 << 20, "{transition}: {} MB", taken >> 20);
        assert_eq!(labels.values.len(), data.rows());
        assert!(labels.values.iter().all(|label| (-0.01..=1.01).contains(label)));
    }
}
