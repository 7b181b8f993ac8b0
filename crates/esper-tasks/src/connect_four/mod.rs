//! Connect Four against an opponent that is perfect but for one weakness: it sometimes forgets the last column.
//!
//! Playing well wins for certain; stacking discs in the last column wins by luck, one time in five.

pub mod behaviours;
pub mod book;
mod env;
mod oracle;
pub mod rules;
mod solver;

pub use env::{ConnectFour, LAPSE_COLUMN, LAPSE_PROBABILITY};
pub use oracle::Oracle;
pub use solver::{Solver, obvious_column};
