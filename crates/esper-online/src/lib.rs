//! Learning by acting: how experts come about, whose play is then logged and learned from.
//!
//! [`Ppo`] is proximal policy optimisation in any worlds with a choice among actions; [`train_expert`] goes on with it until
//! fresh episodes say that the player is good enough.
//!
//! Nothing that learns from logs uses this.

mod expert;
mod ppo;

pub use expert::{ExpertPlan, Stage, TrainedExpert, train_expert};
pub use ppo::{Actor, ActorAgent, Ppo, PpoConfig, Update};

use esper_eval::EvalError;
use esper_tasks::WorldError;

/// Why nothing was learned by acting.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnlineError {
    /// Learning failed, or makes no sense here.
    #[error(transparent)]
    Learning(#[from] esper::Error),
    /// The world failed.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Trying the player out failed.
    #[error(transparent)]
    Evaluation(#[from] EvalError),
    /// Somebody asked for it to stop.
    #[error("stopped")]
    Stopped,
}
