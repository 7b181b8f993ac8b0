//! The one interface to a world: erased, fallible, `Send`, with its spaces as data.
//!
//! Collecting, evaluating and online learning know worlds by this alone. [`Env`] is the typed way to write one.

use std::error::Error;

use esper_data::{Cell, CellsMut, CellsRef, Space};

use crate::env::{Action, Env};
use crate::mujoco::MujocoError;

/// What the observations and the actions of a world look like.
#[derive(Clone, Debug, PartialEq)]
pub struct Spaces {
    /// Observation space.
    pub observation: Space,
    /// Action space.
    pub action: Space,
}

impl Spaces {
    /// Whether both make sense; those of a world that somebody else wrote may not.
    pub fn validate(&self) -> Result<(), WorldError> {
        for (name, space) in [("observation", &self.observation), ("action", &self.action)] {
            space
                .validate()
                .map_err(|problem| WorldError::Broken(format!("{name} space {problem}")))?;
        }
        Ok(())
    }
}

/// What a step gives back beside the observation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// What the action paid.
    pub reward: f32,
    /// The world came to an end state: nothing follows.
    pub terminated: bool,
    /// The episode was cut while the world could have gone on.
    pub truncated: bool,
}

impl Step {
    /// A step after which the episode goes on.
    pub fn paying(reward: f32) -> Self {
        Step { reward, ..Step::default() }
    }

    /// A step into an end state.
    pub fn end(reward: f32) -> Self {
        Step { reward, terminated: true, truncated: false }
    }

    /// Whether the episode is over, for either reason.
    pub fn is_over(self) -> bool {
        self.terminated || self.truncated
    }

    /// Whether the episode is over although something would have followed.
    pub fn is_cut(self) -> bool {
        self.truncated && !self.terminated
    }
}

/// A world that an agent acts in, whatever it is made of.
///
/// Everything random in an episode is decided by the seed it was reset with; [`crate::conformance::check`] states what
/// every world keeps. Implement [`Env`] instead where types are known and nothing can fail: every `Env` is a world.
pub trait World: Send {
    /// Its observation and action space. They never change.
    fn spaces(&self) -> Spaces;

    /// Starts an episode and writes its first observation.
    fn reset(&mut self, seed: u64, observation: CellsMut<'_>) -> Result<(), WorldError>;

    /// Takes an action and writes the observation it leads to.
    fn step(&mut self, action: CellsRef<'_>, observation: CellsMut<'_>)
    -> Result<Step, WorldError>;
}

/// Why a world did not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// An action that is not of the action space.
    #[error("an action is outside {space}: {problem}")]
    Action {
        /// The action space.
        space: Space,
        /// What is wrong with the action.
        problem: String,
    },
    /// The world does not keep what its spaces say.
    #[error("the world breaks its word: {0}")]
    Broken(String),
    /// MuJoCo is not there, or failed.
    #[error(transparent)]
    Mujoco(#[from] MujocoError),
    /// What the world is made of failed.
    #[error("{message}")]
    Failed {
        /// What happened, and what to do about it.
        message: String,
        /// What it came from.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
}

impl WorldError {
    /// Something failed, in words.
    pub fn failed(message: impl Into<String>) -> Self {
        WorldError::Failed { message: message.into(), source: None }
    }
}

impl<E: Env> World for E {
    fn spaces(&self) -> Spaces {
        Spaces { observation: self.observation_space(), action: self.action_space() }
    }

    fn reset(&mut self, seed: u64, observation: CellsMut<'_>) -> Result<(), WorldError> {
        Env::reset(self, seed, memory_of::<E>(observation)?);
        Ok(())
    }

    fn step(
        &mut self,
        action: CellsRef<'_>,
        observation: CellsMut<'_>,
    ) -> Result<Step, WorldError> {
        let cells = <E::Action as Action>::Cell::slice(action);
        let Some(action) = cells.and_then(E::Action::from_cells) else {
            let problem = format!("{} cells of type {:?}", action.len(), action.cell_type());
            return Err(WorldError::Action { space: self.action_space(), problem });
        };
        Ok(Env::step(self, action, memory_of::<E>(observation)?))
    }
}

/// The memory for an observation, if it is of the type that an environment writes.
fn memory_of<E: Env>(observation: CellsMut<'_>) -> Result<&mut [E::Cell], WorldError> {
    let found = observation.cell_type();
    E::Cell::slice_mut(observation).ok_or_else(|| {
        WorldError::Broken(format!(
            "it writes observations as {:?}, its observation space asks for {found:?}",
            E::Cell::TYPE
        ))
    })
}
