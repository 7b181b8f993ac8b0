//! What agents achieve when they are asked for a return.
//!
//! [`rollouts`] plays episodes, [`sweep`] asks for many targets and says how well the answers fit, [`Results`] puts
//! several methods and seeds beside each other and beside the paper. [`LiveWorlds`] lends environments to
//! [`esper::online`].
//!
//! Nothing here knows of training.

mod paper;
pub mod report;
pub mod reproduction;
mod results;
mod rollouts;
mod sweep;
pub mod text;
mod worlds;

pub use paper::{PAPER_SEEDS, paper_best_return};
pub use results::{
    Comparison, DatasetSummary, MeanStd, MethodResults, Results, ResultsError, RunResults, Scaling,
    ScalingEntry, run_name,
};
pub use rollouts::{Achieved, Sweep, rollouts};
pub use sweep::{Evaluation, SweepEntry, sweep};
pub use worlds::LiveWorlds;
