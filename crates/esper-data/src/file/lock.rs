//! Locks that die with their process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// The right to write somewhere, for one at a time: a folder, or a file and what is kept beside it.
///
/// It is a file that the system locks for as long as it is open, so whoever ends, however, gives it up. One that is dropped
/// leaves nothing; what a killed process left is taken over. Who only reads does not ask.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

/// The name of a folder's lock.
const FOLDER_LOCK: &str = ".esper.lock";

/// A holder who gives its file up at the wrong moment is tried again; more often than this it is somebody else's doing.
pub(super) const ATTEMPTS: usize = 100;

impl Lock {
    /// Locks a folder, which has to be there.
    pub fn folder(folder: &Path) -> Result<Self, DataError> {
        Self::take(&folder.join(FOLDER_LOCK), folder)
    }

    /// Takes away the lock of a folder whose holder is known to be gone, where the file system does not know it: a file system
    /// of a network may keep the locks of a machine that was switched off. A holder that lives on after all does not know that
    /// it lost it.
    pub fn break_folder(folder: &Path) -> Result<(), DataError> {
        let path = folder.join(FOLDER_LOCK);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(DataError::io(&path, error)),
            _ => Ok(()),
        }
    }

    /// Locks a file that is going to be written, and what is kept beside it.
    pub fn beside(file: &Path) -> Result<Self, DataError> {
        let mut name = std::ffi::OsString::from(".");
        name.push(file.file_name().unwrap_or_default());
        name.push(".lock");
        Self::take(&file.with_file_name(name), file)
    }

    /// Whether a file of a folder is its lock.
    pub fn is_lock(name: &std::ffi::OsStr) -> bool {
        name == FOLDER_LOCK
    }

    fn take(path: &Path, what: &Path) -> Result<Self, DataError> {
        // The path of what is to be written: that of the lock means nothing to its owner.
        let failed = |source: io::Error| DataError::io(what, source);
        if path.exists() && !path.is_file() {
            return Err(DataError::NotAFile(path.to_owned()));
        }
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            let opened = options.read(true).write(true).create(true).truncate(false).open(path);
            let mut file = opened.map_err(failed)?;
            match try_lock(&file).map_err(failed)? {
                Held::Elsewhere => {
                    let holder = fs::read_to_string(path).unwrap_or_default();
                    let holder = holder.lines().next().unwrap_or_default().to_owned();
                    let holder =
                        if holder.is_empty() { "another process".to_owned() } else { holder };
                    return Err(DataError::Locked { path: what.to_owned(), holder });
                }
                // Whoever had it before may have taken its file away since it was opened.
                Held::Here if is_at(&file, path) => {
                    let said = file.set_len(0).and_then(|()| writeln!(file, "{}", ourselves()));
                    said.map_err(failed)?;
                    return Ok(Lock { path: path.to_owned(), file });
                }
                Held::Here => {}
            }
        }
        Err(failed(ErrorKind::ResourceBusy.into()))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is given up: afterwards it may be somebody else's. One that cannot be removed does no harm.
        if is_at(&self.file, &self.path) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Who has the lock of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Whoever asked, until the file is closed.
    Here,
    /// Somebody who is alive.
    Elsewhere,
}

/// Locks a file if nobody else has. Where the file system knows no locks everybody has them.
pub(super) fn try_lock(file: &File) -> io::Result<Held> {
    match file.try_lock() {
        Ok(()) => Ok(Held::Here),
        Err(TryLockError::WouldBlock) => Ok(Held::Elsewhere),
        Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => Ok(Held::Here),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether an open file is the one that a path leads to now.
#[cfg(unix)]
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(open), Ok(there)) => id(open) == id(there),
        _ => false,
    }
}

/// Whether an open file is the one that a path leads to now: elsewhere an open file keeps its name.
#[cfg(not(unix))]
pub(super) fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// This process, for whoever finds the lock taken.
fn ourselves() -> String {
    let program = std::env::args_os().next().unwrap_or_default();
    let program =
        Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    format!("process {} ({program})", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let lock = Lock::folder(home.path()).unwrap();
        let error = Lock::folder(home.path()).unwrap_err();
        let said = error.to_string();
        assert!(matches!(error, DataError::Locked { .. }), "{said}");
        assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
        drop(lock);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "nothing is left behind");
        Lock::folder(home.path()).unwrap();
    }

    /// What a killed process leaves is a file that nobody has locked.
    #[test]
    fn a_lock_of_nobody_is_taken_over() {
        let home = tempfile::tempdir().unwrap();
        fs::write(home.path().join(FOLDER_LOCK), "process 1 (gone), with a long name\n").unwrap();
        let lock = Lock::folder(home.path()).unwrap();
        let said = fs::read_to_string(home.path().join(FOLDER_LOCK)).unwrap();
        assert_eq!(said, format!("{}\n", ourselves()));
        drop(lock);
        assert!(!home.path().join(FOLDER_LOCK).exists());
    }

    /// The lock of a machine that is gone is taken away; whoever had it does not take away that of the next.
    #[test]
    fn a_lock_is_broken() {
        let home = tempfile::tempdir().unwrap();
        Lock::break_folder(home.path()).unwrap();
        let gone = Lock::folder(home.path()).unwrap();
        Lock::break_folder(home.path()).unwrap();
        let _next = Lock::folder(home.path()).unwrap();
        drop(gone);
        assert!(matches!(Lock::folder(home.path()), Err(DataError::Locked { .. })));
    }

    /// Many threads, one lock: never two at once, also while its file comes and goes.
    #[test]
    fn it_is_never_held_twice() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("some.file");
        let (inside, taken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let Ok(_lock) = Lock::beside(&file) else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        taken.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(taken.into_inner() > 0);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
