//! Stepping many copies of a world allocates nothing.

use std::alloc::System;

use esper_data::Seed;
use esper_tasks::task;
use rand::RngExt;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations(name: &str, actions: u8) -> usize {
    let mut rng = Seed::new(0).rng();
    let mut worlds = task(name).unwrap().worlds(16).unwrap();
    let mut chosen = [0u8; 16];
    let mut seed = 0;
    let mut play = |steps: usize| {
        for _ in 0..steps {
            for (copy, action) in chosen.iter_mut().enumerate() {
                if !worlds.running()[copy] {
                    seed += 1;
                    worlds.reset(copy, seed).unwrap();
                }
                *action = rng.random_range(0..actions);
            }
            worlds.step((&chosen).into()).unwrap();
        }
    };
    play(10); // what is set up once
    let region = Region::new(ALLOCATOR);
    play(500);
    region.change().allocations
}

/// One test, because the counter is the whole process's. Of three tries the best, because the thread that runs the tests may
/// allocate at the same time.
#[test]
fn stepping_allocates_nothing() {
    for (name, actions) in [("gambling", 3), ("twenty48", 4), ("connect-four", 7)] {
        let least = (0..3).map(|_| allocations(name, actions)).min();
        assert_eq!(least, Some(0), "{name}");
    }
}
