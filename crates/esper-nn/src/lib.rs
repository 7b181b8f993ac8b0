//! x
#![allow(dead_code)]
#[macro_use]
mod kernels;
mod ops;
mod sparse;
