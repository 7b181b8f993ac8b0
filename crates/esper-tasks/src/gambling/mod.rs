//! Gambling: the paper's Figure 1, where imitating luck loses.
//!
//! One choice among three: two gambles that look good when they go well, and a safe bet that is better on average.

mod env;
pub mod rules;

pub use env::Gambling;
