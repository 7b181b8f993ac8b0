//! One file a command: its arguments, what it does, what it prints.

pub(crate) mod book;
pub(crate) mod collect;
pub(crate) mod info;
mod summary;
pub(crate) mod tasks;
