//! What agents achieve when they are asked for a return.
//!
//! [`rollouts`] plays episodes, [`evaluate`] asks a policy for many targets and says how well the answers fit. An
//! [`Experiment`] does all of it: it collects a task's data, trains methods with seeds, evaluates them, and leaves [`Results`]
//! in a folder; stopped, it goes on where it was.
//!
//! ```
//! use esper_eval::{Experiment, Unobserved};
//!
//! # let folder = tempfile::tempdir()?;
//! # let folder = folder.path().join("gambling");
//! let task = esper_tasks::task("gambling").expect("it is built in");
//! let results = Experiment::new(task)
//!     .with_methods(["rvs", "bc"])?
//!     .with_steps(2_000) // the task's own data has 100,000
//!     .with_settings(None, ["mlp.steps=200"])
//!     .with_seeds(1)
//!     .run(&folder, &Unobserved)?;
//! for method in &results.methods {
//!     println!("{}: {:?}", method.title, method.offline_return);
//! }
//! # assert_eq!(results.methods[0].title, "return conditioning");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! An experiment can also be on data that is given ([`Experiment::on`]). Where that names no built-in task there is no world to
//! try policies in, and results say what can be known without: what levels promise, with intervals.
//!
//! [`Experiments`] are several at once, whose runs may be done on many machines.
//!
//! Nothing here draws or knows of the command line.

mod comparison;
mod error;
mod evaluate;
mod experiment;
mod observer;
mod prove;
mod results;
mod rollouts;
mod source;
pub mod text;

pub use comparison::{Again, Comparison, GivenData};
pub use error::EvalError;
pub use evaluate::{Ask, Evaluation, SweepEntry, evaluate};
pub use experiment::{DATA, Experiment, ExperimentRun, Experiments, default_config, evaluated};
pub use observer::{Observer, PlannedRun, Unobserved};
pub use prove::{Contender, Proof, Proven, Tried, Verdict};
pub use results::{
    DatasetSummary, FailedRun, LeftOut, MeanStd, MethodResults, NormalisedScores, PAPER_SEEDS,
    Results, ResultsError, RunResults, Scaling, ScalingEntry, read_json, run_name,
};
pub use rollouts::{Achieved, Sweep, rollouts};
