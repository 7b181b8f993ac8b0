//! The world's interface, in the terms of Gymnasium: reset with a seed, step with an action.

use esper_data::{Cell, Space};

/// What a step gives back beside the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// What the action paid.
    pub reward: f32,
    /// The world came to an end state.
    pub terminated: bool,
    /// The episode was cut while the world could have gone on.
    pub truncated: bool,
}

impl Step {
    /// Whether the episode is over, for either reason.
    pub fn is_over(self) -> bool {
        self.terminated || self.truncated
    }
}

/// An action as an environment takes it: `u8` for one of up to 256 choices, `[f32; N]` for real numbers.
pub trait Action: Copy + Default + Send + Sync + std::fmt::Debug + PartialEq + 'static {
    /// What one cell of it is stored as.
    type Cell: Cell;
    /// Its cells, as a data set stores them.
    fn cells(&self) -> &[Self::Cell];
    /// The action with these cells; `None` when it has another number of them.
    fn from_cells(cells: &[Self::Cell]) -> Option<Self>;
}

impl Action for u8 {
    type Cell = u8;
    fn cells(&self) -> &[u8] {
        std::slice::from_ref(self)
    }
    fn from_cells(cells: &[u8]) -> Option<Self> {
        match cells {
            [action] => Some(*action),
            _ => None,
        }
    }
}

impl<const N: usize> Action for [f32; N]
where
    [f32; N]: Default,
{
    type Cell = f32;
    fn cells(&self) -> &[f32] {
        self
    }
    fn from_cells(cells: &[f32]) -> Option<Self> {
        cells.try_into().ok()
    }
}

/// A world an agent acts in.
///
/// Observations are written into the caller's memory, so that stepping allocates nothing. Everything random in an
/// episode is decided by the seed it was reset with. [`crate::conformance::check`] states what every environment keeps.
pub trait Env: Clone + Send {
    /// What one cell of an observation is stored as.
    type Cell: Cell;
    /// What it takes as an action.
    type Action: Action;

    /// What an observation looks like.
    fn observation_space(&self) -> Space;

    /// What an action looks like.
    fn action_space(&self) -> Space;

    /// Starts an episode and writes its first observation.
    fn reset(&mut self, seed: u64, observation: &mut [Self::Cell]);

    /// Takes an action and writes the observation it leads to.
    ///
    /// # Panics
    ///
    /// May panic when the action is outside the action space, or the episode is over.
    fn step(&mut self, action: Self::Action, observation: &mut [Self::Cell]) -> Step;
}
