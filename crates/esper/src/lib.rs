//! Policies from logged data that keep their word.
//!
//! A *relabeller* ([`relabel::Relabel`]) turns observed returns into labels; a *policy* ([`policy`]) is trained on
//! labels and asked for one when it acts. Return conditioning is the relabeller that changes nothing. ESPER
//! ([`relabel::esper`]) labels every step with the average return of its cluster, where clusters tell nothing about the
//! world's own randomness.
//!
//! [`value`] holds what learns the worth of actions instead: conservative Q-learning. [`run`] is a whole training and the
//! folder that keeps it. [`online`] trains the experts whose play is logged.
//!
//! Nothing here knows of tasks or of the command line.

pub mod actions;
pub mod agent;
pub mod config;
mod error;
pub mod features;
#[cfg(test)]
mod fixtures;
pub mod online;
pub mod policy;
pub mod relabel;
pub mod run;
pub mod statistics;
mod training;
mod trajectories;
pub mod value;

pub use error::Error;
pub use training::{Checkpoint, Monitor, RECORD_EVERY, Unwatched};
pub use trajectories::{FEWEST_EPISODES, Interface, Split, StepRows};
