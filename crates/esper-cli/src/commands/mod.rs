//! One file a command: its arguments, what it asks of the libraries, what it prints.

pub(crate) mod book;
pub(crate) mod collect;
pub(crate) mod completions;
pub(crate) mod eval;
pub(crate) mod expert;
pub(crate) mod export;
pub(crate) mod info;
mod parse;
pub(crate) mod prove;
pub(crate) mod report;
pub(crate) mod reproduce;
pub(crate) mod run;
mod settings;
mod summary;
pub(crate) mod tasks;
pub(crate) mod train;
