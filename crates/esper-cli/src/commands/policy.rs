//! A policy that is named on the command line.

use std::path::{Path, PathBuf};

use esper::Registry;
use esper::policy::Policy;
use esper::run::RunFolder;
use esper_eval::Comparison;

use crate::output::{Failure, Output};

/// Whether a path is a folder that `esper run` compares runs in.
pub(super) fn is_comparison(path: &Path) -> bool {
    path.join(Comparison::FILE).is_file()
}

/// Whether a run is one of ESPER, which is the one to take where nothing is said.
fn is_first(run: &Path) -> bool {
    run.file_name().is_some_and(|name| name.to_string_lossy().starts_with("esper-"))
}

/// The policy of a run's folder, or of a file.
pub(super) fn load_policy(path: &Path, output: &Output) -> Result<Policy, Failure> {
    if is_comparison(path) {
        let mut runs: Vec<PathBuf> = std::fs::read_dir(path)
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        runs.retain(|run| run.join("policy.safetensors").is_file());
        runs.sort();
        let such_as = runs.iter().find(|run| is_first(run)).or(runs.first());
        let such_as = such_as.map_or(String::new(), |run| format!(", such as {}", run.display()));
        return Err(Failure::misuse(format!(
            "{} holds several runs, and each has a policy: name one of them{such_as}",
            path.display()
        )));
    }
    let (registry, device) = (Registry::default(), output.device()?);
    let loaded = match path.is_file() {
        true => Policy::load(path, &registry, &device),
        false => RunFolder::open(path).and_then(|folder| folder.policy(&registry, &device)),
    };
    loaded.map_err(Failure::error)
}
