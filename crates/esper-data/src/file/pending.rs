//! A file that takes its name only when it is complete.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use tempfile::NamedTempFile;

use crate::error::DataError;

/// A file being written beside its destination, under a temporary name.
///
/// Nothing appears under the final name before [`PendingFile::finish`]; one that is dropped leaves nothing.
pub struct PendingFile {
    path: PathBuf,
    overwrite: bool,
    temporary: NamedTempFile,
}

impl PendingFile {
    /// Starts a file. Unless `overwrite` is set, there must be none of that name, now and when it is finished. Behind a
    /// link to a file, that file is replaced and the link stays; a device or a pipe is never replaced.
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
        let mut builder = tempfile::Builder::new();
        builder.prefix(".esper-").suffix(".partial");
        // As readable as any file the user makes, which temporary files by default are not.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        // The kind only: the full error names the temporary file, which means nothing to the user.
        let temporary = builder.tempfile_in(folder).map_err(|error| refused(error.kind()))?;
        Ok(PendingFile { path: path.to_owned(), overwrite, temporary })
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
