//! One file a command: its arguments, what it does, what it prints.

pub(crate) mod book;
pub(crate) mod collect;
pub(crate) mod eval;
pub(crate) mod expert;
pub(crate) mod info;
mod learning;
pub(crate) mod run;
mod summary;
pub(crate) mod tasks;
pub(crate) mod train;
