//! The half of the Python package that is in Rust: `esper._esper`. What people import is `python/esper`, which has the
//! documentation, the types, and everything that is easier to say in Python.
//!
//! Long work is done by threads that never hold Python's lock (`watch.rs`); errors keep their words (`errors.rs`).

mod arrays;
mod collecting;
mod dataset;
mod errors;
mod json;
mod learning;
mod policy;
mod relabel;
mod sweep;
mod watch;
mod worlds;

/// `esper._esper`.
#[pyo3::pymodule]
mod _esper {
    #[pymodule_export]
    use crate::collecting::collect;
    #[pymodule_export]
    use crate::dataset::Dataset;
    #[pymodule_export]
    use crate::learning::{
        evaluate, labels, methods, report, report_of, run, run_info, sum_up, train,
    };
    #[pymodule_export]
    use crate::policy::{Policy, Session};
    #[pymodule_export]
    use crate::sweep::{Sweep, break_lock, check_name, run_one};
    #[pymodule_export]
    use crate::watch::{set_threads, threads};
    #[pymodule_export]
    use crate::worlds::{Worlds, task_info, task_names};
    use pyo3::prelude::*;
    use pyo3::types::PyModule;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
