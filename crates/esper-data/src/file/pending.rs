//! A file that takes its name only when it is complete.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use super::lock::{ATTEMPTS, Held, is_at, try_lock};
use crate::error::DataError;

/// A file being written beside its destination, under a temporary name.
///
/// Nothing appears under the final name before [`PendingFile::finish`]; one that is dropped leaves nothing. What a killed
/// process could not take away is locked by nobody any more, and is removed when the next file is written in its folder.
pub struct PendingFile {
    path: PathBuf,
    overwrite: bool,
    temporary: NamedTempFile,
}

impl PendingFile {
    /// Starts a file. Unless `overwrite` is set, there must be none of that name, now and when it is finished. Behind a
    /// link to a file, that file is replaced and the link stays; a device or a pipe is never replaced. Where nothing may be
    /// overwritten, one who is writing the same file already is a reason not to begin.
    pub fn create(path: &Path, overwrite: bool) -> Result<Self, DataError> {
        let refused = |kind: ErrorKind| DataError::io(path, kind.into());
        if path.is_dir() {
            return Err(refused(ErrorKind::IsADirectory));
        }
        if !overwrite && path.symlink_metadata().is_ok() {
            return Err(DataError::Exists(path.to_owned()));
        }
        if path.exists() && !path.is_file() {
            return Err(DataError::NotAFile(path.to_owned()));
        }
        let path = &match path.canonicalize() {
            Ok(linked) if path.is_symlink() => linked,
            _ => path.to_owned(),
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        if !folder.is_dir() {
            return Err(DataError::NoFolder(folder.to_owned()));
        }
        let writers = remove_leftovers(folder, path);
        if let (Some(process), false) = (writers.first(), overwrite) {
            let holder = format!("process {process}");
            return Err(DataError::Locked { path: path.to_owned(), holder });
        }
        // The kind only: the full error names the temporary file, which means nothing to the user.
        let temporary = temporary(folder, path).map_err(|error| refused(error.kind()))?;
        Ok(PendingFile { path: path.to_owned(), overwrite, temporary })
    }

    /// Whether this is the name of a file that was not complete when its process ended, or is not yet.
    pub fn is_temporary(name: &OsStr) -> bool {
        Temporary::parse(name).is_some()
    }

    /// Where it will be.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes sure that everything is on the disk, then gives the file its name in one step.
    pub fn finish(self) -> Result<(), DataError> {
        let PendingFile { path, overwrite, temporary } = self;
        let file: &File = temporary.as_file();
        file.sync_all().map_err(|source| DataError::io(&path, source))?;
        let named =
            if overwrite { temporary.persist(&path) } else { temporary.persist_noclobber(&path) };
        match named {
            Ok(_) => Ok(()),
            Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
                Err(DataError::Exists(path))
            }
            Err(error) => Err(DataError::io(&path, error.error)),
        }
    }
}

/// What the name of a temporary file says.
struct Temporary {
    /// Who writes it.
    process: u32,
    /// Stands for the name that it will have.
    destination: u32,
}

const PREFIX: &str = ".esper-";
const SUFFIX: &str = ".partial";

impl Temporary {
    fn prefix(self) -> String {
        let Temporary { process, destination } = self;
        format!("{PREFIX}{process}-{destination:08x}-")
    }

    fn parse(name: &OsStr) -> Option<Self> {
        let words = name.to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        let (process, words) = words.split_once('-')?;
        let (destination, _) = words.split_once('-')?;
        let destination = u32::from_str_radix(destination, 16).ok()?;
        Some(Temporary { process: process.parse().ok()?, destination })
    }

    fn destination(path: &Path) -> u32 {
        crc32fast::hash(path.file_name().unwrap_or_default().as_encoded_bytes())
    }
}

/// A temporary file that is locked for as long as it is being written: by that others see that it is somebody's.
fn temporary(folder: &Path, path: &Path) -> io::Result<NamedTempFile> {
    let named =
        Temporary { process: std::process::id(), destination: Temporary::destination(path) };
    let prefix = named.prefix();
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(SUFFIX);
    // As readable as any file the user makes, which temporary files by default are not.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    for _ in 0..ATTEMPTS {
        let temporary = builder.tempfile_in(folder)?;
        let held = try_lock(temporary.as_file())?;
        // Before it was locked, somebody who cleans up may have taken it for a leftover.
        if held == Held::Here && is_at(temporary.as_file(), temporary.path()) {
            return Ok(temporary);
        }
    }
    Err(ErrorKind::ResourceBusy.into())
}

/// Removes what killed processes left in a folder; gives the living who are writing a certain file there. What cannot be
/// removed stays.
fn remove_leftovers(folder: &Path, path: &Path) -> Vec<u32> {
    let mut writers = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Some(Temporary { process, destination }) = Temporary::parse(&entry.file_name()) else {
            continue;
        };
        let at = entry.path();
        // Nothing that was made by us is anything else.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let Ok(file) = File::options().write(true).open(&at) else { continue };
        match file.try_lock() {
            Ok(()) => {
                if is_at(&file, &at) {
                    let _ = fs::remove_file(&at);
                }
            }
            Err(fs::TryLockError::WouldBlock) => {
                if destination == Temporary::destination(path) {
                    writers.push(process);
                }
            }
            // Where there are no locks, nobody knows whose it is.
            Err(fs::TryLockError::Error(_)) => {}
        }
    }
    writers
}

/// Removes what killed processes left in a folder of files that were not complete. What others are writing stays.
pub fn clean_folder(folder: &Path) {
    remove_leftovers(folder, Path::new(""));
}

/// Writes a whole file in one step: it is there whole, or as it was. One that is there is replaced.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), DataError> {
    let mut file = PendingFile::create(path, true)?;
    file.write_all(bytes).map_err(|source| DataError::io(path, source))?;
    file.finish()
}

/// Writes a JSON document as [`write_file`] does, for people to read.
///
/// # Panics
///
/// When the value cannot be JSON: a map whose keys are no texts.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<(), DataError> {
    let mut bytes = serde_json::to_vec_pretty(value).expect("the value can be JSON");
    bytes.push(b'\n');
    write_file(path, &bytes)
}

impl Write for PendingFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.temporary.as_file_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.as_file_mut().flush()
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// Whoever writes whatever: the name says so again, and nothing else is taken for such a name.
    #[test]
    fn names_of_temporary_files_are_told_from_others() {
        let mut rng = crate::seed::Seed::new(0).rng();
        for _ in 0..1000 {
            let (process, destination) = (rng.random(), rng.random());
            let name = Temporary { process, destination }.prefix() + "AbC123" + SUFFIX;
            let read = Temporary::parse(OsStr::new(&name)).unwrap();
            assert_eq!((read.process, read.destination), (process, destination));
            let cut = rng.random_range(0..name.len());
            assert!(!PendingFile::is_temporary(OsStr::new(&name[..cut])), "{}", &name[..cut]);
        }
    }

    #[test]
    fn leftovers_of_the_dead_are_removed_and_files_of_the_living_stay() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        let dead = Temporary { process: 1, destination: 7 }.prefix() + "abc" + SUFFIX;
        fs::write(at(&dead), "half").unwrap();
        // What is not ours stays, whatever it is called.
        let others = ["notes.partial", ".esper-x.partial", ".esper-1-xyz-abc.partial"];
        others.iter().for_each(|name| fs::write(at(name), "").unwrap());
        let living = PendingFile::create(&at("living"), false).unwrap();
        write_file(&at("done"), b"whole").unwrap();
        let left = names(home.path());
        assert!(!left.contains(&dead), "{left:?}");
        assert_eq!(left.len(), others.len() + 2, "{left:?}");
        // The same file twice at once: whoever comes second is told, unless it may be replaced.
        let error = PendingFile::create(&at("living"), false).err().unwrap();
        assert!(matches!(error, DataError::Locked { .. }), "{error}");
        write_file(&at("living"), b"another").unwrap();
        assert!(matches!(living.finish(), Err(DataError::Exists(_))));
        assert_eq!(names(home.path()).len(), others.len() + 2);
    }
}
