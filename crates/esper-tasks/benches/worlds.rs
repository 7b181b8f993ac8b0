//! How fast the worlds are, on one core: `cargo bench -p esper-tasks`.
//!
//! Steps a second under random play, the time an episode of Connect Four takes against an opponent that starts cold
//! (nothing but the book), and the solver beside its peer, the crate `connect-four-ai`, interleaved.

use std::sync::Arc;
use std::time::{Duration, Instant};

use esper_data::Seed;
use esper_tasks::connect_four::behaviours::EpsilonOptimal;
use esper_tasks::connect_four::book::Book;
use esper_tasks::connect_four::rules::{Board, COLUMNS};
use esper_tasks::connect_four::{ConnectFour, Oracle, Solver, obvious_column};
use esper_tasks::gambling::Gambling;
use esper_tasks::twenty48::Twenty48;
use esper_tasks::{Behaviour, Env, UniformRandom, VecEnv};
use rand::RngExt;

fn main() {
    println!("random steps a second, 256 copies");
    println!(
        "  gambling      {:>12.0}",
        steps_a_second(&Gambling::default(), 3, 10_000_000)
    );
    println!(
        "  twenty48      {:>12.0}",
        steps_a_second(&Twenty48::default(), 4, 20_000_000)
    );

    println!("connect-four, cold opponent, milliseconds an episode");
    let env = cold_connect_four();
    let random = UniformRandom::over(&env.action_space()).expect("seven actions");
    println!(
        "  random        {:>12.2}",
        milliseconds_an_episode(env, &random, 2_000)
    );
    for epsilon in [0.5, 0.1, 0.01] {
        let agent = EpsilonOptimal { epsilon };
        let milliseconds = milliseconds_an_episode(cold_connect_four(), &agent, 200);
        println!("  epsilon {epsilon:<4}  {milliseconds:>12.2}");
    }

    println!("finding the best column without a book, milliseconds a position");
    println!("  discs          ours  connect-four-ai  ratio");
    for discs in [12, 14, 16] {
        let (ours, peer) = best_columns(discs, 100);
        println!(
            "  {discs:<8} {ours:>10.2} {peer:>16.2} {:>6.2}",
            ours / peer
        );
    }
}

fn cold_connect_four() -> ConnectFour {
    ConnectFour::new(Arc::new(Oracle::new(Book::included())))
}

/// Every copy plays at random; one that is over starts again.
fn steps_a_second<E: Env<Action = u8>>(env: &E, actions: u8, steps: usize) -> f64 {
    const COPIES: usize = 256;
    let mut rng = Seed::new(0).rng();
    let mut worlds = VecEnv::new(env, COPIES);
    let mut seed = 0;
    let mut chosen = [0; COPIES];
    let started = Instant::now();
    for _ in 0..steps / COPIES {
        for (copy, action) in chosen.iter_mut().enumerate() {
            if !worlds.running()[copy] {
                seed += 1;
                worlds.reset(copy, seed);
            }
            *action = rng.random_range(0..actions);
        }
        worlds.step(&chosen);
    }
    steps as f64 / started.elapsed().as_secs_f64()
}

fn milliseconds_an_episode(
    mut env: ConnectFour,
    agent: &impl Behaviour<ConnectFour>,
    episodes: u64,
) -> f64 {
    let mut rng = Seed::new(0).named("agent").rng();
    let mut observation = [0; 84];
    let started = Instant::now();
    for seed in 0..episodes {
        env.reset(seed, &mut observation);
        while !env
            .step(agent.act(&env, &mut rng), &mut observation)
            .is_over()
        {}
    }
    started.elapsed().as_secs_f64() * 1e3 / episodes as f64
}

/// The time to find the best column of positions from random play that need a search: ours and the peer's, in turns.
fn best_columns(discs: usize, positions: usize) -> (f64, f64) {
    let mut rng = Seed::new(discs as u64).rng();
    let (mut ours, mut peer) = (Duration::ZERO, Duration::ZERO);
    let mut solver = Solver::default();
    let mut peer_solver = connect_four_ai::Solver::default();
    let mut done = 0;
    while done < positions {
        let mut columns = Vec::new();
        let mut board = Board::default();
        while columns.len() < discs && !board.is_lost() {
            let column = board
                .resolve(rng.random_range(0..COLUMNS))
                .expect("not full");
            board = board.drop(column);
            columns.push(column);
        }
        if board.is_lost() || obvious_column(&board).is_some() {
            continue;
        }
        let mut position = connect_four_ai::Position::new();
        columns.iter().for_each(|&column| position.play(column));

        let started = Instant::now();
        let best = solver.best_column(&board);
        ours += started.elapsed();
        let started = Instant::now();
        let scores = peer_solver.get_all_move_scores(&position);
        peer += started.elapsed();
        let highest = scores.iter().flatten().max();
        let peer_best = scores.iter().position(|score| score.as_ref() == highest);
        assert_eq!(Some(best), peer_best, "{columns:?}");
        done += 1;
    }
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3 / positions as f64;
    (milliseconds(ours), milliseconds(peer))
}
