//! Connect Four as an environment: the agent moves first, the opponent is part of the world.

use std::sync::Arc;

use esper_data::{CellsRef, Rng, Seed, Space};
use rand::RngExt;

use super::oracle::Oracle;
use super::rules::{Board, CELLS, COLUMNS, ROWS};
use crate::env::Env;
use crate::world::Step;

/// The column the opponent sometimes fails to play when it is best.
pub const LAPSE_COLUMN: usize = 6;

/// How often it fails to.
pub const LAPSE_PROBABILITY: f64 = 0.2;

/// The game against an exact solver that now and then plays a random other column instead of the last one.
///
/// Pays 1 for a win, -1 for a loss, 0 for a draw and before the end. A full column stands for the first with room.
#[derive(Clone)]
pub struct ConnectFour {
    oracle: Arc<Oracle>,
    /// Seen by the agent, whose turn it is whenever the environment rests.
    board: Board,
    rng: Rng,
}

impl Default for ConnectFour {
    fn default() -> Self {
        Self::new(Oracle::shared())
    }
}

impl ConnectFour {
    /// The game with an opponent that asks this oracle.
    pub fn new(oracle: Arc<Oracle>) -> Self {
        ConnectFour { oracle, board: Board::default(), rng: Seed::new(0).rng() }
    }

    /// The position, seen by the agent.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The column the opponent asks for.
    fn reply(&mut self, board: &Board) -> usize {
        let best = self.oracle.best_column(board);
        if best == LAPSE_COLUMN && self.rng.random_bool(LAPSE_PROBABILITY) {
            self.rng.random_range(0..LAPSE_COLUMN)
        } else {
            best
        }
    }

    /// Two planes of 7 columns by 6 rows: the agent's discs, then the opponent's.
    fn observe(&self, observation: &mut [u8], agent_to_move: bool) {
        let (agents, opponents) = observation.split_at_mut(CELLS);
        for column in 0..COLUMNS {
            for row in 0..ROWS {
                let (mine, theirs) =
                    (self.board.is_mine(column, row), self.board.is_theirs(column, row));
                let (agent, opponent) = if agent_to_move { (mine, theirs) } else { (theirs, mine) };
                agents[column * ROWS + row] = u8::from(agent);
                opponents[column * ROWS + row] = u8::from(opponent);
            }
        }
    }
}

/// The position that an observation shows, seen by the agent, whose turn it is.
pub(super) fn board(observation: CellsRef<'_>) -> Board {
    let disc = |plane: usize, column: usize, row: usize| {
        observation.category(plane * CELLS + column * ROWS + row) == 1
    };
    Board::with_discs(|column, row| disc(0, column, row), |column, row| disc(1, column, row))
}

impl Env for ConnectFour {
    type Cell = u8;
    type Action = u8;

    fn observation_space(&self) -> Space {
        Space::MultiBinary { shape: vec![2, COLUMNS, ROWS] }
    }

    fn action_space(&self) -> Space {
        Space::Discrete { n: COLUMNS as u32 }
    }

    fn reset(&mut self, seed: u64, observation: &mut [u8]) {
        self.rng = Seed::new(seed).rng();
        self.board = Board::default();
        self.observe(observation, true);
    }

    fn step(&mut self, action: u8, observation: &mut [u8]) -> Step {
        let over = |reward| Step { reward, terminated: true, truncated: false };
        let asked = usize::from(action);
        assert!(asked < COLUMNS, "there is no column {asked}");
        let column = self.board.resolve(asked).expect("the episode is not over");
        self.board = self.board.drop(column);
        if self.board.is_lost() {
            self.observe(observation, false);
            return over(1.0);
        }
        // The agent has every odd disc, so the board is never full after its move.
        let asked = self.reply(&self.board.clone());
        let column = self.board.resolve(asked).expect("the board is not full");
        self.board = self.board.drop(column);
        self.observe(observation, true);
        if self.board.is_lost() {
            over(-1.0)
        } else if self.board.is_full() {
            over(0.0)
        } else {
            Step::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn play(env: &mut ConnectFour, actions: &[u8]) -> (Vec<Step>, [u8; 84]) {
        let mut observation = [9; 84];
        env.reset(0, &mut observation);
        let steps = actions.iter().map(|&action| env.step(action, &mut observation)).collect();
        (steps, observation)
    }

    /// At every step of random games.
    #[test]
    fn an_observation_shows_the_whole_position() {
        let mut env = ConnectFour::default();
        let mut observation = [0; 84];
        for seed in 0..50 {
            env.reset(seed, &mut observation);
            let mut rng = Seed::new(seed).named("columns").rng();
            while {
                assert_eq!(board((&observation).into()), *env.board());
                !env.step(rng.random_range(0..7), &mut observation).is_over()
            } {}
        }
    }

    #[test]
    fn planes_show_who_has_which_disc() {
        let (_, observation) = play(&mut ConnectFour::default(), &[3]);
        assert_eq!(observation[3 * 6], 1, "the agent's disc at the bottom of the middle");
        assert_eq!(observation[..42].iter().sum::<u8>(), 1);
        assert_eq!(observation[42..].iter().sum::<u8>(), 1);
        assert_eq!(observation[42 + 3 * 6 + 1], 1, "the opponent's best reply is on top of it");
    }

    /// Stacking the last column wins if and only if the opponent has a lapse on its third disc.
    #[test]
    fn the_exploiter_wins_one_time_in_five() {
        let mut env = ConnectFour::default();
        let mut observation = [0; 84];
        let (mut won, episodes) = (0, 20_000);
        for seed in 0..episodes {
            env.reset(seed, &mut observation);
            loop {
                let step = env.step(6, &mut observation);
                if step.is_over() {
                    won += u64::from(step.reward == 1.0);
                    break;
                }
            }
        }
        let share = won as f64 / episodes as f64; // standard deviation 0.0028
        assert!((share - 0.2).abs() < 0.012, "{share}");
    }
}
