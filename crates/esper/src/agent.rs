//! What acts: many episodes at once, each with a target of its own.

use esper_data::{Cells, CellsRef, Seed};

/// Acts in several episodes side by side.
///
/// Whoever runs the episodes says when one begins, asks for actions, and tells the rewards. What an agent draws at
/// random in an episode follows from the seed that the episode began with, not from the other episodes.
pub trait Agent {
    /// An episode begins in a place; what was there before is over. Agents without targets ignore theirs.
    fn begin(&mut self, place: usize, target: f64, seed: Seed);

    /// Chooses an action for some places. `observations` are those of all places; the actions of the chosen ones are
    /// appended in their order.
    fn act(&mut self, observations: CellsRef<'_>, places: &[usize], actions: &mut Cells);

    /// What the last action in a place paid.
    fn reward(&mut self, place: usize, reward: f32);
}

/// What is left to be reached in an episode: rewards that were received are taken off the target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Remaining {
    target: f64,
    discount: f64,
}

impl Remaining {
    pub(crate) fn new(target: f64, discount: f64) -> Self {
        Remaining { target, discount }
    }

    pub(crate) fn target(self) -> f64 {
        self.target
    }

    /// `R_{t+1} = (R_t - r_t) / γ`.
    pub(crate) fn receive(&mut self, reward: f32) {
        let left = self.target - f64::from(reward);
        // Without a future there is nothing left to be reached.
        self.target = if self.discount > 0.0 { left / self.discount } else { 0.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewards_are_taken_off_the_target() {
        let mut remaining = Remaining::new(5.0, 1.0);
        remaining.receive(2.0);
        remaining.receive(-1.0);
        assert_eq!(remaining.target(), 4.0);
        // 1 + 0.5 · 4 = 3
        let mut discounted = Remaining::new(3.0, 0.5);
        discounted.receive(1.0);
        assert_eq!(discounted.target(), 4.0);
    }
}
