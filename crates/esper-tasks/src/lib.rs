//! Worlds, who acts in them, and the data that gives.
//!
//! [`World`] is the one interface to a world; [`Env`] is the typed way to write one, and [`Worlds`] are many copies stepped
//! together. A [`Behaviour`] is a way of acting; a [`Collection`] plays episodes into an [`esper_data::Dataset`]. A [`Task`]
//! describes a world with a name: its behaviours, its data sets, the settings that differ for it. [`tasks`] lists those
//! that are built in, each a folder: `rules` are pure (no chance, no I/O), the environment adds chance.
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! let task = esper_tasks::task("gambling").expect("it is built in");
//! let options = esper_tasks::CollectOptions { steps: Some(1_000), ..Default::default() };
//! let mut steps = 0;
//! esper_tasks::Collection::new(task, &options)?.run(
//!     |part| {
//!         steps += part.steps();
//!         Ok(())
//!     },
//!     |_| ControlFlow::Continue(()),
//! )?;
//! assert_eq!(steps, 1_000);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here knows of learning; an [`Expert`] is a player that was trained elsewhere.

mod behaviour;
mod collect;
mod collection;
pub mod conformance;
pub mod connect_four;
mod env;
mod expert;
pub mod gambling;
pub mod mujoco;
pub mod proving;
mod specs;
mod task;
mod tasks;
pub mod twenty48;
mod world;
mod worlds;

pub use behaviour::{Behaviour, Mixture, UniformRandom};
pub use collect::CollectError;
pub use collection::{CollectOptions, Collection, LEARNER, OptionsError, Replays, share};
pub use env::{Action, Env};
pub use expert::{Expert, ExpertError};
pub use specs::{
    BehaviourOptions, BehaviourSpec, DatasetSource, DatasetSpec, OptionSpec, Published,
    ReferenceReturns,
};
pub use task::Task;
pub use tasks::{TaskError, find_task, task, tasks};
pub use world::{Spaces, Step, World, WorldError};
pub use worlds::Worlds;
