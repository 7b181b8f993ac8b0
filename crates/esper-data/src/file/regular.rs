//! Files that are read: regular ones. A pipe would be waited for without end, and a device may have none.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use crate::error::DataError;

/// Opens a file to read it, if it is a regular one or a link to one.
pub(crate) fn open_file(path: &Path) -> Result<File, DataError> {
    let failed = |source: io::Error| DataError::io(path, source);
    // Before it is opened: opening a pipe already waits for somebody to write into it.
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    if !metadata.is_file() {
        return Err(DataError::NotRegular(path.to_owned()));
    }
    File::open(path).map_err(failed)
}

/// The bytes of a regular file; pipes, sockets and devices are refused.
pub fn read_file(path: &Path) -> Result<Vec<u8>, DataError> {
    let mut bytes = Vec::new();
    let read = open_file(path)?.read_to_end(&mut bytes);
    read.map_err(|source| DataError::io(path, source))?;
    Ok(bytes)
}

/// The text in a regular file; pipes, sockets and devices are refused.
pub fn read_text(path: &Path) -> Result<String, DataError> {
    String::from_utf8(read_file(path)?).map_err(|_| DataError::InvalidFile {
        path: path.to_owned(),
        problem: "it is no text (UTF-8)".to_owned(),
    })
}

impl DataError {
    /// Whether a file that was to be read is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, DataError::Io { source, .. } if source.kind() == ErrorKind::NotFound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        fs::write(at("text"), "words").unwrap();
        fs::write(at("bytes"), [0xff, 0xfe]).unwrap();
        assert_eq!(read_text(&at("text")).unwrap(), "words");
        assert!(read_text(&at("bytes")).unwrap_err().to_string().contains("no text"));
        assert!(read_file(&at("nothing")).unwrap_err().is_missing());
        assert!(read_file(home.path()).unwrap_err().to_string().contains("directory"));
        #[cfg(unix)]
        {
            let socket = std::os::unix::net::UnixListener::bind(at("socket"));
            if let Err(error) = &socket {
                eprintln!("sockets are not tested, whose paths have to be short: {error}");
            }
            let socket_path = socket.is_ok().then(|| at("socket"));
            for path in socket_path.into_iter().chain(["/dev/zero".into()]) {
                let error = read_file(&path).unwrap_err();
                assert!(matches!(error, DataError::NotRegular(_)), "{error}");
            }
            std::os::unix::fs::symlink(at("text"), at("link")).unwrap();
            assert_eq!(read_file(&at("link")).unwrap(), b"words");
        }
    }
}
