//! Modules in files, as safetensors.

use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::store::{ModuleSnapshot, SafetensorsStore};

/// Why a module could not be saved or loaded.
#[derive(Debug)]
pub struct StoreError {
    path: PathBuf,
    problem: String,
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.problem)
    }
}

impl std::error::Error for StoreError {}

/// Writes all parameters and running values of a module; a file of that name is replaced in one step.
pub fn save<M: Module>(module: &M, path: &Path) -> Result<(), StoreError> {
    let mut store = SafetensorsStore::from_file(path).overwrite(true);
    module
        .save_into(&mut store)
        .map_err(|error| StoreError { path: path.to_owned(), problem: error.to_string() })
}

/// Reads the parameters of a module of the same configuration. All of them have to be there, in the same shapes.
pub fn load<M: Module>(mut module: M, path: &Path) -> Result<M, StoreError> {
    let error = |problem: String| StoreError { path: path.to_owned(), problem };
    let mut store = SafetensorsStore::from_file(path);
    let result = module.load_from(&mut store).map_err(|problem| error(problem.to_string()))?;
    if !result.missing.is_empty() || !result.errors.is_empty() {
        return Err(error(format!("does not fit the model: {result:?}")));
    }
    Ok(module)
}
