//! Who plays Connect Four in the data.

use esper_data::Rng;
use rand::RngExt;

use super::env::{ConnectFour, LAPSE_COLUMN};
use super::rules::COLUMNS;
use crate::behaviour::Behaviour;

/// The solver's best column, but with probability `epsilon` any of the seven.
#[derive(Clone, Copy, Debug)]
pub struct EpsilonOptimal {
    /// The share of random moves.
    pub epsilon: f64,
}

impl Behaviour<ConnectFour> for EpsilonOptimal {
    fn act(&self, env: &ConnectFour, _: &[u8], rng: &mut Rng) -> u8 {
        if rng.random::<f64>() < self.epsilon {
            rng.random_range(0..COLUMNS) as u8
        } else {
            env.oracle().best_column(env.board()) as u8
        }
    }
}

/// Always the last column, hoping that the opponent forgets it.
#[derive(Clone, Copy, Debug)]
pub struct Exploiter;

impl Behaviour<ConnectFour> for Exploiter {
    fn act(&self, _: &ConnectFour, _: &[u8], _: &mut Rng) -> u8 {
        LAPSE_COLUMN as u8
    }
}
