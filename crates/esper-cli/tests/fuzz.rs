//! Every reader on many damaged inputs, seeded: what is damaged is refused, and nothing panics. The same readers can be given to
//! libFuzzer: see `fuzz/README.md`.
//!
//! `ESPER_FUZZ_SECONDS` says how long in all (where nothing is said, 20,000 inputs of each reader, for at most 40 seconds in all),
//! `ESPER_FUZZ_SEED` with which seed, `ESPER_FUZZ_ONLY` which readers, by their names. An input that makes a panic is kept as
//! `fuzz-READER-….bin` in the folder for temporary files.

#[path = "../../../fuzz/src/mutate.rs"]
mod mutate;
#[path = "../../../fuzz/src/readers.rs"]
mod readers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use esper_data::Seed;

/// What may take longest: a minute on a busy machine is no answer to a damaged file.
const LONGEST: Duration = Duration::from_secs(60);

/// How many inputs of a reader are tried where nothing is said: on every machine that is fast enough the same ones.
const INPUTS: usize = 20_000;

fn asked<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

#[test]
fn damaged_inputs_are_refused() {
    let seconds: u64 = asked("ESPER_FUZZ_SECONDS", 40);
    let inputs = std::env::var_os("ESPER_FUZZ_SECONDS").map_or(INPUTS, |_| usize::MAX);
    let seed: u64 = asked("ESPER_FUZZ_SEED", 0);
    let only: String = asked("ESPER_FUZZ_ONLY", String::new());
    let wanted: Vec<&readers::Reader> = match only.is_empty() {
        true => readers::READERS.iter().collect(),
        false => only.split(',').map(readers::reader).collect(),
    };
    readers::keep_quiet_about_caught_panics();
    let share = Duration::from_secs(seconds) / wanted.len().max(1) as u32;
    let mut failed = Vec::new();
    for reader in wanted {
        let seeds = (reader.seeds)();
        for (at, seed) in seeds.iter().enumerate() {
            assert!((reader.read)(seed), "{}: seed {at} is not damaged", reader.name);
        }
        let mut rng = Seed::new(seed).named("fuzz").named(reader.name).rng();
        let (begun, mut tried, mut slowest) = (Instant::now(), 0usize, Duration::ZERO);
        let mut accepted = 0usize;
        while tried < inputs && begun.elapsed() < share {
            let input = mutate::mutated(&seeds, &mut rng);
            let started = Instant::now();
            let read = catch_unwind(AssertUnwindSafe(|| (reader.read)(&input)));
            let took = started.elapsed();
            slowest = slowest.max(took);
            tried += 1;
            accepted += usize::from(matches!(read, Ok(true)));
            if read.is_err() || took > LONGEST {
                let path =
                    std::env::temp_dir().join(format!("fuzz-{}-{seed}-{tried}.bin", reader.name));
                let kept = std::fs::write(&path, &input).is_ok();
                failed.push(format!(
                    "{}, input {tried} (kept: {kept}) {}",
                    reader.name,
                    path.display()
                ));
                if failed.len() > 20 {
                    break;
                }
            }
        }
        eprintln!(
            "{}: {tried} inputs, {accepted} of which made sense; the slowest took {:.3} s",
            reader.name,
            slowest.as_secs_f64()
        );
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
