//! Learning by acting: how experts come about, whose play is then logged and learned from.
//!
//! [`Ppo`] is proximal policy optimisation in any worlds with a choice among actions, [`Sac`] is soft actor-critic in any with
//! real-valued actions; [`train_expert`] goes on with the one that fits until fresh episodes say that the player is good
//! enough.
//!
//! Nothing that learns from logs uses this.

mod actor;
mod expert;
mod learner;
mod playing;
mod ppo;
mod replay;
mod sac;

pub use actor::{Actor, ActorAgent};
pub use expert::{ExpertPlan, LearnedReplays, PHASE, Point, TrainedExpert, train_expert};
pub use learner::{OnlineLearner, Update};
pub use ppo::{Ppo, PpoConfig};
pub use replay::Replay;
pub use sac::{Sac, SacConfig};

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
