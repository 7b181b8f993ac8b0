//! Known truths about Connect Four, and the book against the solver.

use std::collections::HashSet;

use esper_data::Seed;
use esper_tasks::connect_four::book::{Book, Scope};
use esper_tasks::connect_four::rules::{Board, CELLS, COLUMNS};
use esper_tasks::connect_four::{LAPSE_COLUMN, Oracle, Solver, obvious_column};
use rand::RngExt;
use rand::seq::SliceRandom;

/// Plays on with best columns for both sides. Returns the discs on the final board, and whether it was won.
fn play_out(oracle: &Oracle, mut board: Board) -> (u32, bool) {
    while !board.is_lost() && !board.is_full() {
        board = board.drop(oracle.best_column(&board));
    }
    (board.discs(), board.is_lost())
}

/// The first moves score -2 -1 0 1 0 -1 -2. A score is who wins and with which disc when both play their best.
#[test]
fn first_moves_have_their_known_scores() {
    let oracle = Oracle::shared();
    let scores: Vec<i32> = (0..COLUMNS)
        .map(|column| {
            let (discs, won) = play_out(&oracle, Board::default().drop(column));
            let score = (CELLS as i32 + 2 - discs as i32) / 2;
            match (won, discs % 2) {
                (false, _) => 0,
                (true, 1) => score,
                (true, _) => -score,
            }
        })
        .collect();
    assert_eq!(scores, [-2, -1, 0, 1, 0, -1, -2]);
}

#[test]
fn two_optimal_players_end_on_disc_41() {
    assert_eq!(play_out(&Oracle::shared(), Board::default()), (41, true));
}

/// Not a sample: every game that the opponent's lapses can lead to.
#[test]
fn an_optimal_agent_wins_every_game() {
    let oracle = Oracle::shared();
    let mut seen = HashSet::new();
    let mut open = vec![Board::default()];
    let mut wins = 0;
    while let Some(board) = open.pop() {
        let board = board.drop(oracle.best_column(&board));
        if board.is_lost() {
            wins += 1;
            continue;
        }
        let best = oracle.best_column(&board);
        let replies = if best == LAPSE_COLUMN { 0..COLUMNS } else { best..best + 1 };
        for asked in replies {
            let board = board.drop(board.resolve(asked).unwrap());
            assert!(!board.is_lost() && !board.is_full(), "not won: {board:?}");
            if seen.insert(board) {
                open.push(board);
            }
        }
    }
    assert!(wins > 1, "lapses lead to different games");
}

/// Scores by plain minimax.
fn minimax(board: &Board) -> i32 {
    if board.is_lost() {
        return -((CELLS as i32 + 2 - board.discs() as i32) / 2);
    }
    if board.is_full() {
        return 0;
    }
    let playable = (0..COLUMNS).filter(|&column| board.is_playable(column));
    playable.map(|column| -minimax(&board.drop(column))).max().unwrap()
}

#[test]
fn the_solver_agrees_with_minimax() {
    let mut rng = Seed::new(0).rng();
    let mut solver = Solver::default();
    let (mut solved, mut undecided) = (0, 0);
    while solved < 2_000 {
        let mut board = Board::default();
        let discs = rng.random_range(31..CELLS as u32);
        while board.discs() < discs && !board.is_lost() {
            board = board.drop(board.resolve(rng.random_range(0..COLUMNS)).unwrap());
        }
        if board.is_lost() {
            continue;
        }
        let score = minimax(&board);
        assert_eq!(solver.score(&board), score, "{board:?}");
        let best = (0..COLUMNS)
            .filter(|&column| board.is_playable(column))
            .find(|&column| -minimax(&board.drop(column)) == score);
        assert_eq!(Some(solver.best_column(&board)), best, "{board:?}");
        solved += 1;
        undecided += usize::from(board.winning_column().is_none());
    }
    assert!(undecided > 500, "most positions should need a search");
}

#[test]
fn the_solver_is_blind_to_mirrors() {
    let mut rng = Seed::new(1).rng();
    let (mut one, mut other) = (Solver::default(), Solver::default());
    for _ in 0..300 {
        let mut board = Board::default();
        while board.discs() < 20 && !board.is_lost() {
            board = board.drop(board.resolve(rng.random_range(0..COLUMNS)).unwrap());
        }
        if !board.is_lost() {
            assert_eq!(one.score(&board), other.score(&board.mirrored()));
        }
    }
}

/// A random sample of the book, solved again without it: late positions, and some early ones that take longer.
#[test]
fn the_book_is_right() {
    let book = Book::included();
    let mut entries: Vec<(Board, usize)> = book.entries().collect();
    entries.shuffle(&mut Seed::new(0).named("the_book_is_right").rng());
    let mut solver = Solver::with_table_bits(20);
    for (discs, sample) in [(9, 2), (10, 4), (11, 10), (12, 40), (13, 100), (16, 50), (20, 50)] {
        let mut layer = entries.iter().filter(|(board, _)| board.discs() == discs);
        for _ in 0..sample {
            let (board, column) = layer.next().expect("the book has that many positions");
            assert_eq!(solver.best_column(board), *column, "{board:?}");
        }
    }
}

/// Whatever the agent plays, and whether or not the opponent has lapses, the opening needs no search; nor does more of the
/// game while the agent plays well.
#[test]
fn the_book_covers_its_scope() {
    let oracle = Oracle::shared();
    let book = Book::included();
    let Scope { plies, late_plies, late_deviations } = Scope::INCLUDED;
    let mut rng = Seed::new(2).rng();
    for game in 0..6_000 {
        let epsilon = [1.0, 0.3, 0.1][game % 3];
        let mut board = Board::default();
        let mut deviations = 0;
        while !board.is_lost() && !board.is_full() {
            let in_scope = board.discs() <= plies
                || (board.discs() <= late_plies && deviations <= late_deviations);
            if !in_scope {
                break;
            }
            let searched = obvious_column(&board).is_none();
            assert_eq!(book.column(&board).is_some(), searched, "{board:?}");
            let best = oracle.best_column(&board);
            let agent_to_move = board.discs() % 2 == 0;
            let free = match agent_to_move {
                true => rng.random_bool(epsilon),
                false => best == LAPSE_COLUMN && rng.random_bool(0.5),
            };
            let column = match free {
                true => board.resolve(rng.random_range(0..COLUMNS)).unwrap(),
                false => best,
            };
            deviations += u32::from(agent_to_move && column != best);
            board = board.drop(column);
        }
    }
}

#[test]
fn a_book_survives_writing_and_reading() {
    let book = Book::included();
    assert_eq!(Book::from_bytes(&book.to_bytes()), Ok(book));
}

#[test]
fn a_damaged_book_is_refused() {
    let bytes = Book::included().to_bytes();
    assert!(Book::from_bytes(b"something else").is_err());
    assert!(Book::from_bytes(&bytes[..bytes.len() - 1]).is_err());
    assert!(Book::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
    let mut changed = bytes.clone();
    changed[20] ^= 0xff;
    assert!(Book::from_bytes(&changed).is_err());
}
