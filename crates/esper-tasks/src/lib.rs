//! Stochastic worlds, who acts in them, and the data that gives.
//!
//! [`Env`] is a world in Gymnasium's terms, [`VecEnv`] many copies of one, [`Behaviour`] a way of acting, and
//! [`collect`] plays episodes into an [`esper_data::Dataset`]. [`Task`] lists what is built in, [`Collection`] is its
//! data. Each task is a folder:
//! `rules` are pure (no chance, no I/O), the environment adds chance.
//!
//! Nothing here knows of learning; an [`Expert`] is a player that was trained elsewhere.

mod behaviour;
mod collect;
pub mod conformance;
pub mod connect_four;
mod env;
mod expert;
pub mod gambling;
mod task;
pub mod twenty48;
mod vec_env;

pub use behaviour::{Behaviour, Mixture, UniformRandom};
pub use collect::{CollectError, collect};
pub use env::{Action, Env, Step};
pub use expert::{Expert, ExpertError};
pub use task::{
    BehaviourInfo, BuiltIn, CollectOptions, Collection, EnvVisitor, OptionsError, Task,
};
pub use vec_env::VecEnv;
