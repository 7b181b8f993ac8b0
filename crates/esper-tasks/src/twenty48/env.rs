//! 2048 as an environment.

use esper_data::{Rng, Seed, Space};
use rand::RngExt;

use super::rules::{Board, CELLS, Direction, GOAL};
use crate::env::Env;
use crate::world::Step;

/// Steps after which an episode is cut.
pub const TIME_LIMIT: u16 = 500;

/// The game up to the first 128, which pays 1. Anything else pays nothing.
///
/// After every move, also one that changed nothing, a new tile (a 2 with probability 0.9, else a 4) appears on
/// a random empty cell. The game is lost when the board is full and nothing merges.
#[derive(Clone, Debug)]
pub struct Twenty48 {
    board: Board,
    time: u16,
    rng: Rng,
}

impl Default for Twenty48 {
    fn default() -> Self {
        Twenty48 { board: Board::default(), time: 0, rng: Seed::new(0).rng() }
    }
}

impl Twenty48 {
    /// The position.
    pub fn board(&self) -> Board {
        self.board
    }

    fn add_tile(&mut self) {
        let empty = self.board.empty_cells();
        if empty > 0 {
            let nth = self.rng.random_range(0..empty);
            let exponent = if self.rng.random::<f32>() < 0.9 { 1 } else { 2 };
            self.board = self.board.with_tile(nth, exponent);
        }
    }
}

impl Env for Twenty48 {
    type Cell = u8;
    type Action = u8;

    fn observation_space(&self) -> Space {
        Space::MultiDiscrete { nvec: vec![u32::from(GOAL) + 1; CELLS] }
    }

    fn action_space(&self) -> Space {
        Space::Discrete { n: 4 }
    }

    fn reset(&mut self, seed: u64, observation: &mut [u8]) {
        self.rng = Seed::new(seed).rng();
        self.board = Board::default();
        self.time = 0;
        self.add_tile();
        self.add_tile();
        observation.copy_from_slice(&self.board.cells());
    }

    fn step(&mut self, action: u8, observation: &mut [u8]) -> Step {
        self.time += 1;
        self.board = self.board.slide(Direction::ALL[usize::from(action)]);
        let won = self.board.has_goal();
        if !won {
            self.add_tile();
        }
        observation.copy_from_slice(&self.board.cells());
        let terminated = won || self.board.is_stuck();
        Step {
            reward: if won { 1.0 } else { 0.0 },
            terminated,
            truncated: !terminated && self.time >= TIME_LIMIT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiles(observation: &[u8]) -> usize {
        observation.iter().filter(|&&exponent| exponent > 0).count()
    }

    #[test]
    fn a_game_starts_with_two_tiles() {
        let mut env = Twenty48::default();
        let mut observation = [0; 16];
        for seed in 0..100 {
            env.reset(seed, &mut observation);
            assert_eq!(tiles(&observation), 2);
        }
    }

    /// Only ever moving left fills the board: a tile appears even when nothing moved.
    #[test]
    fn a_tile_appears_after_a_move_that_changed_nothing() {
        let mut env = Twenty48::default();
        let mut observation = [0; 16];
        let mut unchanged = 0;
        for seed in 0..100 {
            env.reset(seed, &mut observation);
            loop {
                let before = env.board();
                let slid = before.slide(Direction::Left);
                let step = env.step(0, &mut observation);
                if slid == before && before.empty_cells() > 0 {
                    unchanged += 1;
                    assert_eq!(env.board().empty_cells(), before.empty_cells() - 1);
                }
                if step.is_over() {
                    break;
                }
            }
        }
        assert!(unchanged > 100);
    }

    /// A full board on which something merges goes on, even when the move was another one.
    #[test]
    fn a_full_board_that_can_merge_is_not_the_end() {
        #[rustfmt::skip]
        let board = Board::from_cells([
            1, 2, 1, 2,
            2, 1, 2, 1,
            1, 2, 1, 2,
            2, 1, 3, 3,
        ]);
        let mut env = Twenty48 { board, ..Twenty48::default() };
        let mut observation = [0; 16];
        assert_eq!(env.step(Direction::Up as u8, &mut observation), Step::default());
        assert_eq!(env.board(), board);
        env.step(Direction::Left as u8, &mut observation);
        assert_ne!(env.board(), board);
    }

    #[test]
    fn making_a_128_pays_one_and_ends() {
        let mut cells = [0; 16];
        (cells[0], cells[1]) = (6, 6);
        let mut env = Twenty48 { board: Board::from_cells(cells), ..Twenty48::default() };
        let mut observation = [0; 16];
        let step = env.step(Direction::Left as u8, &mut observation);
        assert_eq!(step, Step { reward: 1.0, terminated: true, truncated: false });
        assert_eq!((observation[0], tiles(&observation)), (GOAL, 1));
    }

    #[test]
    fn an_episode_is_cut_at_the_time_limit() {
        let mut env = Twenty48 { time: TIME_LIMIT - 1, ..Twenty48::default() };
        let mut observation = [0; 16];
        let step = env.step(0, &mut observation);
        assert_eq!((step.terminated, step.truncated), (false, true));
    }
}
