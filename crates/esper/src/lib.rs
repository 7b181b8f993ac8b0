//! Policies from logged data that keep their word.
//!
//! A *method* ([`methods::Method`]) gets a policy out of a data set. Most are *relabellers* ([`methods::Relabel`]): they say
//! for every step what the behaviour that took it was worth, and a *policy* ([`policy`]) is trained on that, and asked for it
//! when it acts. Return conditioning ([`methods::rvs`]) takes the return that was observed. ESPER ([`methods::esper`]) takes
//! the average return of a step's cluster, where clusters tell nothing about the world's own randomness.
//!
//! The [`Registry`] lists methods and policies; a [`run::Plan`] trains one of them, [`run::RunFolder`] keeps it.
//!
//! ```
//! use esper::run::Plan;
//! use esper::settings::Preset;
//! use esper::{Registry, Unwatched};
//! use esper_data::{DatasetBuilder, End, Seed};
//!
//! // Forty episodes of one step: action 1 pays, action 0 does not.
//! let mut builder = DatasetBuilder::inferring();
//! for episode in 0..40u8 {
//!     builder.push(&[0u8], &[episode % 2], f32::from(episode % 2))?;
//!     builder.end(&[1u8], End { terminated: true, truncated: false })?;
//! }
//! let data = builder.build()?;
//!
//! let registry = Registry::default();
//! let settings = ["mlp.steps=300", "mlp.hidden=16"].map(str::to_owned);
//! let config = registry.config(Preset::Quick).changed(None, &settings)?;
//! let plan = Plan::new(&registry, "rvs", "mlp", config)?;
//! let policy = plan.train(&data, &Unwatched)?.learned.policy;
//!
//! // Ask for a return of 1, and see what it does.
//! let mut agent = policy.agent();
//! let mut actions = esper_data::Cells::Byte(Vec::new());
//! agent.begin(0, esper::condition::Target::Return(1.0), Seed::new(0));
//! agent.act((&[0u8]).into(), &[0], &mut actions)?;
//! assert_eq!(actions.category(0), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here knows of tasks or of the command line.

// What `settings!` expands to names this crate as its users do.
extern crate self as esper;
#[doc(hidden)]
pub use serde as __serde;

pub mod actions;
pub mod actor_critic;
pub mod agent;
pub mod condition;
pub mod differences;
mod error;
pub mod features;
#[cfg(test)]
mod fixtures;
pub mod memory;
pub mod methods;
pub mod onnx;
pub mod policy;
mod registry;
pub mod run;
pub mod serving;
pub mod settings;
mod surprises;
pub mod training;
mod trajectories;
mod transitions;
mod windows;

pub use error::Error;
pub use registry::Registry;
pub use training::{Checkpoint, Monitor, RECORD_EVERY, Unwatched, unfit_checkpoint};
pub use trajectories::{FEWEST_EPISODES, Interface, Split, StepRows};
