//! Where MuJoCo's library is.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::MujocoError;

/// The environment variable that names the library's file or its folder.
const VARIABLE: &str = "MUJOCO_PATH";

/// Where a folder may have it: itself, as the Python package does; or below, as a release of MuJoCo does.
const FOLDERS: [&str; 3] = ["", "lib", "bin"];

/// Prints the folder of the Python package, which is found but not imported. What lies in the current folder is not Python's.
const ASK_PYTHON: &str = "
import sys
sys.path = [folder for folder in sys.path if folder]
from importlib.util import find_spec
package = find_spec('mujoco')
for folder in (package and package.submodule_search_locations) or []:
    print(folder)
";

/// The library's file: what `$MUJOCO_PATH` names, else that of the Python on the path.
pub(super) fn find() -> Result<PathBuf, MujocoError> {
    match std::env::var_os(VARIABLE) {
        Some(named) if !named.is_empty() => named_by(named.as_ref()),
        _ => ["python3", "python"].iter().find_map(in_python).ok_or(MujocoError::NotFound),
    }
}

/// The library's file, where somebody said that it is this file or in this folder.
pub(super) fn named_by(path: &Path) -> Result<PathBuf, MujocoError> {
    let file = if path.is_file() { Some(path.to_owned()) } else { in_folder(path) };
    file.ok_or_else(|| MujocoError::NotThere(path.to_owned()))
}

/// The library in a folder; the newest if it has several.
fn in_folder(folder: &Path) -> Option<PathBuf> {
    FOLDERS.iter().find_map(|below| {
        let entries = fs::read_dir(folder.join(below)).ok()?;
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        files
            .filter(|path| path.file_name().is_some_and(is_library) && path.is_file())
            .max_by_key(|path| (numbers(path), path.clone()))
    })
}

/// Whether a file is called as the library is: `libmujoco.so.4.0.0`, `libmujoco.4.0.0.dylib`, `mujoco.dll`.
fn is_library(name: &OsStr) -> bool {
    let rest = name.to_str().and_then(|name| name.strip_prefix(DLL_PREFIX)?.strip_prefix("mujoco"));
    rest.is_some_and(|rest| rest.starts_with('.') && rest.contains(DLL_SUFFIX))
}

/// The numbers in a file's name, in their order: its version.
fn numbers(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
}

/// The library in a Python's package `mujoco`.
fn in_python(python: impl AsRef<OsStr>) -> Option<PathBuf> {
    let said = Command::new(python)
        .args(["-c", ASK_PYTHON])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let folders = String::from_utf8(said.stdout).ok()?;
    folders.lines().find_map(|folder| in_folder(Path::new(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(version: &str) -> String {
        format!("{DLL_PREFIX}mujoco.{version}{DLL_SUFFIX}")
    }

    #[test]
    fn a_library_is_found_in_a_package_and_in_a_release() {
        let folder = tempfile::tempdir().unwrap();
        let problem = named_by(folder.path()).unwrap_err();
        assert!(matches!(problem, MujocoError::NotThere(ref path) if path == folder.path()));
        assert!(problem.to_string().contains("pip install mujoco"));

        let lib = folder.path().join("lib");
        fs::create_dir(&lib).unwrap();
        for name in
            [library("3.9.0"), library("3.10.0"), format!("{DLL_PREFIX}mujoco_x{DLL_SUFFIX}")]
        {
            fs::write(lib.join(name), "").unwrap();
        }
        assert_eq!(named_by(folder.path()).unwrap(), lib.join(library("3.10.0")));

        // The folder's own before what is below it; a file is what it is.
        let own = folder.path().join(library("1"));
        fs::write(&own, "").unwrap();
        assert_eq!(named_by(folder.path()).unwrap(), own);
        assert_eq!(named_by(&lib.join(library("3.9.0"))).unwrap(), lib.join(library("3.9.0")));
    }

    #[test]
    fn no_python_has_no_library() {
        assert_eq!(in_python("a-python-that-nobody-has"), None);
    }
}
