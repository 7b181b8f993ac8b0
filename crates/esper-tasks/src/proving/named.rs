//! Finite worlds that a person recognises.

use super::finite::{FiniteWorld, Outcome, Policy, STEPS, Seen};
use super::random::{careless, softmax};
use crate::task::Task;

/// The worlds, by name.
pub(super) fn worlds() -> Vec<(&'static str, FiniteWorld)> {
    vec![("windy-grid", windy_grid()), ("queue", queue()), ("treatment", treatment())]
}

/// The tasks.
pub(super) fn tasks() -> Vec<Task> {
    let summary = |name: &str| match name {
        "windy-grid" => {
            "A grid to be crossed, with a wind in its middle that blows towards a cliff. Starts are drawn, steps cost, the \
             other side pays."
        }
        "queue" => {
            "Customers who come at random, and a counter that is served slowly for nothing or fast for a price. Who waits \
             costs. Starts are drawn, and it is cut after a while."
        }
        _ => {
            "Patients who are more or less ill, and get better by chance, by a mild drug, or by a strong one that does harm now \
             and then. Pays at the end by how they are."
        }
    };
    worlds().into_iter().map(|(name, world)| world.task(name, summary(name).to_owned())).collect()
}

/// Behaviours that every one of them has: who is good, who is careless, and who does anything.
fn usual(world: &FiniteWorld, temperature: f64) -> Vec<(String, Policy)> {
    let (_, best) = world.optimum();
    let good = softmax(&best, world.actions, temperature);
    let careless = careless(&good, world.actions, 0.4);
    vec![("good".to_owned(), good), ("careless".to_owned(), careless)]
}

/// Five columns and four rows; the lowest row is next to the cliff. Up, down and on.
fn windy_grid() -> FiniteWorld {
    const ROWS: usize = 4;
    const COLUMNS: usize = 6;
    let (fallen, arrived) = (ROWS * COLUMNS, ROWS * COLUMNS + 1);
    let states = ROWS * COLUMNS + 2;
    let mut outcomes = Vec::new();
    for state in 0..states {
        let (column, row) = (state / ROWS, state % ROWS);
        for action in 0..3 {
            // From 0, the row next to the cliff, upwards.
            let (to_column, to_row) = match action {
                0 => (column, (row + 1).min(ROWS - 1) as i64),
                1 => (column, row as i64 - 1),
                _ => (column + 1, row as i64),
            };
            let to = |row: i64, probability: f64| match (to_column >= COLUMNS, row < 0) {
                (true, _) => Outcome { probability, next: arrived, reward: 10.0, ends: true },
                (_, true) => Outcome { probability, next: fallen, reward: -10.0, ends: true },
                _ => Outcome {
                    probability,
                    next: to_column * ROWS + row as usize,
                    reward: -1.0,
                    ends: false,
                },
            };
            let windy = (1..COLUMNS - 1).contains(&column);
            outcomes.push(match windy {
                true => vec![to(to_row, 0.7), to(to_row - 1, 0.3)],
                false => vec![to(to_row, 1.0)],
            });
        }
    }
    let mut starts = vec![0.0; states];
    starts[..ROWS].fill(1.0 / ROWS as f64);
    let mut world = FiniteWorld {
        kind: "windy-grid".to_owned(),
        states,
        actions: 3,
        horizon: 20,
        starts,
        outcomes,
        noise: 0.0,
        behaviours: Vec::new(),
        seen: Seen::default(),
        steps: STEPS,
    };
    world.behaviours = usual(&world, 0.3);
    // Straight on, whatever the wind.
    let bold: Policy = (0..states).flat_map(|_| [0.05, 0.05, 0.9]).collect();
    world.behaviours.push(("bold".to_owned(), bold));
    world
}

/// Up to eight customers; slow service lets one go with chance 0.3, fast service with 0.8 for a price of 0.5. One comes with
/// chance 0.5.
fn queue() -> FiniteWorld {
    const MOST: usize = 8;
    let states = MOST + 1;
    let mut outcomes = Vec::new();
    for waiting in 0..states {
        for (served, price) in [(0.3, 0.0), (0.8, 0.5)] {
            let mut follow: Vec<Outcome> = Vec::new();
            for (leaves, comes, probability) in [
                (1, 1, served * 0.5),
                (1, 0, served * 0.5),
                (0, 1, (1.0 - served) * 0.5),
                (0, 0, (1.0 - served) * 0.5),
            ] {
                let next = (waiting.saturating_sub(leaves) + comes).min(MOST);
                let reward = -price - 0.2 * next as f64;
                follow.push(Outcome { probability, next, reward, ends: false });
            }
            outcomes.push(follow);
        }
    }
    let mut starts = vec![0.0; states];
    starts[..5].fill(0.2);
    let mut world = FiniteWorld {
        kind: "queue".to_owned(),
        states,
        actions: 2,
        horizon: 20,
        starts,
        outcomes,
        noise: 0.0,
        behaviours: Vec::new(),
        seen: Seen::default(),
        steps: STEPS,
    };
    world.behaviours = usual(&world, 0.1);
    // Never in a hurry.
    let lazy: Policy = (0..states).flat_map(|_| [0.95, 0.05]).collect();
    world.behaviours.push(("lazy".to_owned(), lazy));
    world
}

/// Severity from 0 (well) to 5; waiting, a mild drug and a strong one. Remission comes by chance, whatever is done. Six visits,
/// of which the last pays 5 less the severity; what is seen is severity and visit.
fn treatment() -> FiniteWorld {
    const SEVERITIES: usize = 6;
    const VISITS: usize = 6;
    let states = SEVERITIES * (VISITS + 1);
    let mut outcomes = Vec::new();
    for state in 0..states {
        let (visit, severity) = (state / SEVERITIES, state % SEVERITIES);
        let last = visit + 1 >= VISITS;
        for action in 0..3 {
            // By how much it changes, with which chance; remission is a change by everything.
            let changes: &[(i64, f64)] = match action {
                0 => &[(-5, 0.06), (0, 0.64), (1, 0.3)],
                1 => &[(-5, 0.06), (-1, 0.4), (0, 0.54)],
                _ => &[(-5, 0.06), (-2, 0.5), (0, 0.3), (3, 0.14)],
            };
            let to = |&(change, probability): &(i64, f64)| {
                let severity = (severity as i64 + change).clamp(0, SEVERITIES as i64 - 1) as usize;
                let next = (visit + 1).min(VISITS) * SEVERITIES + severity;
                let reward = if last { 5.0 - severity as f64 } else { 0.0 };
                Outcome { probability, next, reward, ends: last }
            };
            outcomes.push(changes.iter().map(to).collect());
        }
    }
    let mut starts = vec![0.0; states];
    starts[1..SEVERITIES].fill(0.2);
    let mut world = FiniteWorld {
        kind: "treatment".to_owned(),
        states,
        actions: 3,
        horizon: VISITS,
        starts,
        outcomes,
        noise: 0.0,
        behaviours: Vec::new(),
        seen: Seen::default(),
        steps: STEPS,
    };
    world.behaviours = usual(&world, 0.05);
    // Whoever got well quickly got the strong drug; so everybody does.
    let strong: Policy = (0..states).flat_map(|_| [0.05, 0.05, 0.9]).collect();
    world.behaviours.push(("strong".to_owned(), strong));
    let waiting: Policy = (0..states).flat_map(|_| [0.9, 0.05, 0.05]).collect();
    world.behaviours.push(("waiting".to_owned(), waiting));
    world
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_make_sense_and_behaviours_differ() {
        for (name, world) in worlds() {
            for outcomes in &world.outcomes {
                let total: f64 = outcomes.iter().map(|outcome| outcome.probability).sum();
                assert!((total - 1.0).abs() < 1e-9, "{name}");
                assert!(outcomes.iter().all(|outcome| outcome.next < world.states), "{name}");
            }
            let truth = world.truth();
            assert!(truth.range() > 0.1 * truth.optimum.abs(), "{name}: {truth:?}");
            assert!(truth.best_by_start <= truth.optimum + 1e-9, "{name}: {truth:?}");
        }
    }

    /// Nobody in the queue and nothing done: one comes with chance 0.5, so a step costs 0.1 on average at first.
    #[test]
    fn the_queue_costs_what_it_should() {
        let mut world = queue();
        world.horizon = 1;
        let lazy: Policy = (0..world.states).flat_map(|_| [1.0, 0.0]).collect();
        assert!((world.values(&lazy)[0] + 0.1).abs() < 1e-12);
        // Two wait: 0.15 that one leaves and none comes, 0.15 + 0.35 that it stays, 0.35 that one more waits.
        assert!((world.values(&lazy)[2] + 0.2 * (0.15 + 2.0 * 0.5 + 3.0 * 0.35)).abs() < 1e-12);
    }
}
