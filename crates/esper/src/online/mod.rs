//! Learning by acting: how experts come about, whose play is then logged and learned from.
//!
//! Nothing that learns from logs uses this.

mod ppo;

pub use ppo::{Actor, ActorAgent, Ppo, PpoConfig, Update};

use esper_data::{CellsRef, Space};

/// Copies of a world that are stepped together.
///
/// A copy whose episode is over keeps its last observation until it is reset.
pub trait Worlds {
    /// What an observation and an action look like.
    fn spaces(&self) -> (Space, Space);

    /// The number of copies.
    fn copies(&self) -> usize;

    /// Starts a new episode in one copy.
    fn reset(&mut self, copy: usize, seed: u64);

    /// Takes one action, given by its number, in every copy.
    fn step(&mut self, actions: &[usize]);

    /// The observations: `[copies, cells]`.
    fn observations(&self) -> CellsRef<'_>;

    /// What the last step in a copy gave.
    fn outcome(&self, copy: usize) -> Outcome;
}

/// What a step gave beside the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// What the action paid.
    pub reward: f32,
    /// The world came to an end state: nothing follows.
    pub terminated: bool,
    /// The episode was cut while the world could have gone on.
    pub truncated: bool,
}

impl Outcome {
    /// Whether something would have followed.
    fn is_cut(self) -> bool {
        self.truncated && !self.terminated
    }
}
