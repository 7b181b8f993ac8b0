//! A world as it is pleasant to write: typed, without allocation, in the terms of Gymnasium.

use esper_data::{Cell, Space};

use crate::world::Step;

/// An action as an environment takes it: `u8` or `u16` for one of some choices, `[u8; N]` for several of them, `[f32; N]`
/// for real numbers.
pub trait Action: Copy + Send + Sync + std::fmt::Debug + PartialEq + 'static {
    /// What one cell of it is stored as.
    type Cell: Cell;
    /// The action with these cells; `None` when it has another number of them.
    fn from_cells(cells: &[Self::Cell]) -> Option<Self>;
}

/// Implements [`Action`] for a number that is a choice by itself.
macro_rules! choice {
    ($number:ty) => {
        impl Action for $number {
            type Cell = $number;
            fn from_cells(cells: &[$number]) -> Option<Self> {
                match cells {
                    [action] => Some(*action),
                    _ => None,
                }
            }
        }
    };
}

choice!(u8);
choice!(u16);

impl<C: Cell, const N: usize> Action for [C; N] {
    type Cell = C;
    fn from_cells(cells: &[C]) -> Option<Self> {
        cells.try_into().ok()
    }
}

/// An environment: a world an agent acts in, written for one type of observation and of action.
///
/// Observations are written into the caller's memory, so that stepping allocates nothing. Everything random in an
/// episode is decided by the seed it was reset with. Every environment is a [`World`](crate::World);
/// [`crate::conformance::check`] states what every world keeps.
///
/// ```
/// use esper_data::{Seed, Space};
/// use esper_tasks::{Env, Step, conformance};
/// use rand::RngExt;
///
/// /// Guess a coin before it is tossed; the observation is how the last toss fell.
/// #[derive(Clone)]
/// struct Coin {
///     rng: esper_data::Rng,
/// }
///
/// impl Env for Coin {
///     type Cell = u8;
///     type Action = u8;
///
///     fn observation_space(&self) -> Space {
///         Space::Discrete { n: 2 }
///     }
///     fn action_space(&self) -> Space {
///         Space::Discrete { n: 2 }
///     }
///     fn reset(&mut self, seed: u64, observation: &mut [u8]) {
///         self.rng = Seed::new(seed).rng();
///         observation[0] = 0;
///     }
///     fn step(&mut self, guess: u8, observation: &mut [u8]) -> Step {
///         observation[0] = self.rng.random_range(0..2);
///         Step::end(if observation[0] == guess { 1.0 } else { 0.0 })
///     }
/// }
///
/// conformance::check(&mut Coin { rng: Seed::new(0).rng() }, 20, 1);
/// ```
pub trait Env: Send {
    /// What one cell of an observation is stored as.
    type Cell: Cell;
    /// What it takes as an action.
    type Action: Action;

    /// Observation space.
    fn observation_space(&self) -> Space;

    /// Action space.
    fn action_space(&self) -> Space;

    /// Starts an episode and writes its first observation.
    fn reset(&mut self, seed: u64, observation: &mut [Self::Cell]);

    /// Takes an action and writes the observation it leads to.
    ///
    /// # Panics
    ///
    /// May panic when the action has other cells than the action space, or the episode is over; [`Worlds`](crate::Worlds)
    /// sees to both. Categories are then such as the space has, and real numbers are finite. Their bounds are not enforced, as
    /// in Gymnasium: a world that cares clips.
    fn step(&mut self, action: Self::Action, observation: &mut [Self::Cell]) -> Step;
}
