//! Who plays Connect Four in the data.

use std::sync::Arc;

use esper_data::{Cells, CellsRef, Rng};
use rand::RngExt;

use super::env::{LAPSE_COLUMN, board};
use super::oracle::Oracle;
use super::rules::COLUMNS;
use crate::behaviour::Behaviour;
use crate::world::WorldError;

/// ε-optimal: the solver's best column, but with probability `epsilon` any of the seven.
#[derive(Clone)]
pub struct EpsilonOptimal {
    /// Epsilon: the share of random moves.
    pub epsilon: f64,
    /// Who knows the best column.
    pub oracle: Arc<Oracle>,
}

impl Behaviour for EpsilonOptimal {
    fn act(
        &self,
        observation: CellsRef<'_>,
        rng: &mut Rng,
        action: &mut Cells,
    ) -> Result<(), WorldError> {
        action.push_category(if rng.random::<f64>() < self.epsilon {
            rng.random_range(0..COLUMNS)
        } else {
            self.oracle.best_column(&board(observation))
        });
        Ok(())
    }
}

/// Always the last column, hoping that the opponent forgets it.
#[derive(Clone, Copy, Debug)]
pub struct Exploiter;

impl Behaviour for Exploiter {
    fn act(&self, _: CellsRef<'_>, _: &mut Rng, action: &mut Cells) -> Result<(), WorldError> {
        action.push_category(LAPSE_COLUMN);
        Ok(())
    }
}
