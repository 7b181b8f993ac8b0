//! A policy that is named on the command line.

use std::path::Path;

use esper::Registry;
use esper::policy::Policy;
use esper::run::RunFolder;

use crate::output::{Failure, Output};

/// The policy of a run's folder, or of a file.
pub(super) fn load_policy(path: &Path, output: &Output) -> Result<Policy, Failure> {
    let (registry, device) = (Registry::default(), output.device()?);
    let loaded = match path.is_file() {
        true => Policy::load(path, &registry, &device),
        false => RunFolder::open(path).and_then(|folder| folder.policy(&registry, &device)),
    };
    loaded.map_err(Failure::error)
}
