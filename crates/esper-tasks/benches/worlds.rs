//! How fast the worlds are, on one core: `cargo bench -p esper-tasks`.
//!
//! Steps a second under random play, the time an episode of Connect Four takes against an opponent that starts cold
//! (nothing but the book), and the solver beside its peer, the crate `connect-four-ai`, interleaved.

use std::sync::Arc;
use std::time::Instant;

use esper_data::{Cells, Rng, Seed};
use esper_tasks::connect_four::behaviours::EpsilonOptimal;
use esper_tasks::connect_four::book::Book;
use esper_tasks::connect_four::rules::{Board, COLUMNS};
use esper_tasks::connect_four::{ConnectFour, Oracle, Solver, obvious_column};
use esper_tasks::{Behaviour, Env, UniformRandom, WorldError, task};
use rand::RngExt;

fn main() {
    println!("random steps a second, 256 copies");
    println!("  gambling      {:>12.0}", steps_a_second("gambling", 3, 10_000_000));
    println!("  twenty48      {:>12.0}", steps_a_second("twenty48", 4, 20_000_000));

    println!("random steps a second, MuJoCo, 16 copies");
    for name in ["hopper", "hopper-v4", "walker2d", "walker2d-v4", "halfcheetah"] {
        match real_valued_steps_a_second(name, 40_000) {
            Ok(speed) => println!("  {name:<13} {speed:>12.0}"),
            Err(error) => println!("  {name:<13} {error}"),
        }
    }

    println!("connect-four, cold opponent, milliseconds an episode");
    let env = ConnectFour::new(cold_oracle());
    let random = UniformRandom::over(&env.action_space()).expect("seven actions");
    println!("  random        {:>12.2}", milliseconds_an_episode(env, &random, 2_000));
    for epsilon in [0.5, 0.1, 0.01] {
        let agent = EpsilonOptimal { epsilon, oracle: cold_oracle() };
        let env = ConnectFour::new(agent.oracle.clone());
        let milliseconds = milliseconds_an_episode(env, &agent, 200);
        println!("  epsilon {epsilon:<4}  {milliseconds:>12.2}");
    }

    println!("Connect Four without a book, milliseconds a position (ratio = ours / peer)");
    println!("  discs    best column  peer   ratio    score   64 MB table   peer  ratio");
    for discs in [12, 14, 16] {
        let Times { best, peer_best, score, large, peer_score } = solving(discs, 100);
        println!(
            "  {discs:<8} {best:>11.2} {peer_best:>6.1} {:>6.2} {score:>9.2} {large:>12.2} {peer_score:>7.1} {:>6.2}",
            best / peer_best,
            score / peer_score
        );
    }
}

fn cold_oracle() -> Arc<Oracle> {
    Arc::new(Oracle::new(Book::included()))
}

/// Every copy plays at random; one that is over starts again.
fn steps_a_second(name: &str, actions: u8, steps: usize) -> f64 {
    const COPIES: usize = 256;
    let mut rng = Seed::new(0).rng();
    let mut worlds = task(name).and_then(|task| task.worlds(COPIES).ok()).expect("it is built in");
    let mut seed = 0;
    let mut chosen = [0u8; COPIES];
    let started = Instant::now();
    for _ in 0..steps / COPIES {
        for (copy, action) in chosen.iter_mut().enumerate() {
            if !worlds.running()[copy] {
                seed += 1;
                worlds.reset(copy, seed).expect("it can be reset");
            }
            *action = rng.random_range(0..actions);
        }
        worlds.step((&chosen).into()).expect("actions are right");
    }
    steps as f64 / started.elapsed().as_secs_f64()
}

/// The same with actions that are real numbers, in worlds that are not everywhere.
fn real_valued_steps_a_second(name: &str, steps: usize) -> Result<f64, WorldError> {
    const COPIES: usize = 16;
    let mut worlds = task(name).expect("it is built in").worlds(COPIES)?;
    let random = UniformRandom::over(&worlds.spaces().action)?;
    let mut rng = Seed::new(0).rng();
    let mut seed = 0;
    let mut chosen = Cells::Float(Vec::new());
    let started = Instant::now();
    for _ in 0..steps / COPIES {
        chosen.clear();
        for copy in 0..COPIES {
            if !worlds.running()[copy] {
                seed += 1;
                worlds.reset(copy, seed)?;
            }
            random.act(worlds.observations(), &mut rng, &mut chosen)?;
        }
        worlds.step(chosen.view())?;
    }
    Ok(steps as f64 / started.elapsed().as_secs_f64())
}

fn milliseconds_an_episode(mut env: ConnectFour, agent: &dyn Behaviour, episodes: u64) -> f64 {
    let mut rng = Seed::new(0).named("agent").rng();
    let mut observation = [0; 84];
    let started = Instant::now();
    for seed in 0..episodes {
        env.reset(seed, &mut observation);
        loop {
            let mut action = Cells::Byte(Vec::new());
            agent.act((&observation).into(), &mut rng, &mut action).expect("it can act");
            if env.step(action.category(0) as u8, &mut observation).is_over() {
                break;
            }
        }
    }
    started.elapsed().as_secs_f64() * 1e3 / episodes as f64
}

/// Mean milliseconds a position.
#[derive(Default)]
struct Times {
    /// Our best column.
    best: f64,
    /// The peer's scores of all columns, which is how it finds the best.
    peer_best: f64,
    /// Our score of the position.
    score: f64,
    /// The same with a table of the peer's size, which does not fit the cache.
    large: f64,
    /// The peer's score.
    peer_score: f64,
}

/// Solves positions from random play that need a search, all contenders taking turns at each.
fn solving(discs: usize, positions: usize) -> Times {
    let mut rng = Seed::new(discs as u64).rng();
    let mut times = Times::default();
    // A solver for each task, so that none profits from what another has just found out.
    let (mut best_solver, mut score_solver) = (Solver::default(), Solver::default());
    let mut large_solver = Solver::with_table_bits(23);
    let mut peer_best_solver = connect_four_ai::Solver::default();
    let mut peer_score_solver = connect_four_ai::Solver::default();
    for _ in 0..positions {
        let (board, position) = random_position(discs, &mut rng);
        let best = timed(&mut times.best, || best_solver.best_column(&board));
        let scores =
            timed(&mut times.peer_best, || peer_best_solver.get_all_move_scores(&position));
        let highest = scores.iter().flatten().max();
        assert_eq!(Some(best), scores.iter().position(|score| score.as_ref() == highest));

        let score = timed(&mut times.score, || score_solver.score(&board));
        let large = timed(&mut times.large, || large_solver.score(&board));
        let peer = timed(&mut times.peer_score, || peer_score_solver.solve(&position));
        assert_eq!([score, large], [i32::from(peer); 2]);
    }
    let mean = |seconds: f64| seconds * 1e3 / positions as f64;
    Times {
        best: mean(times.best),
        peer_best: mean(times.peer_best),
        score: mean(times.score),
        large: mean(times.large),
        peer_score: mean(times.peer_score),
    }
}

fn timed<T>(seconds: &mut f64, work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let result = work();
    *seconds += started.elapsed().as_secs_f64();
    result
}

fn random_position(discs: usize, rng: &mut Rng) -> (Board, connect_four_ai::Position) {
    loop {
        let mut columns = Vec::new();
        let mut board = Board::default();
        while columns.len() < discs && !board.is_lost() {
            let column = board.resolve(rng.random_range(0..COLUMNS)).expect("not full");
            board = board.drop(column);
            columns.push(column);
        }
        if !board.is_lost() && obvious_column(&board).is_none() {
            let mut position = connect_four_ai::Position::new();
            columns.iter().for_each(|&column| position.play(column));
            return (board, position);
        }
    }
}
