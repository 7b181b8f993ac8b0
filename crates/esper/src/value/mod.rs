//! Methods that learn what actions are worth, and take the best.

mod cql;

pub use cql::{Greedy, QPolicy};
