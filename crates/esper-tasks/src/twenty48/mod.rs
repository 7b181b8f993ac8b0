//! 2048, stopped at the first 128: planning under the randomness of new tiles.

mod env;
pub mod rules;

pub use env::{TIME_LIMIT, Twenty48};
