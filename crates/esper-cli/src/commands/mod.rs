//! One file a command: its arguments, what it does, what it prints.

pub(crate) mod book;
pub(crate) mod collect;
mod compare;
pub(crate) mod eval;
pub(crate) mod expert;
pub(crate) mod info;
mod learning;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
mod summary;
pub(crate) mod tasks;
pub(crate) mod train;
