//! Checkpoints as files: a length, a JSON header with step and sizes, the parts one after the other, a checksum.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::training::Checkpoint;

/// How far a run was when a checkpoint was made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct When {
    /// The length of the metrics file.
    pub(super) metrics: u64,
    /// How long it had been trained.
    #[serde(default)]
    pub(super) seconds: f64,
}

#[derive(Serialize, Deserialize)]
struct Header {
    step: usize,
    #[serde(flatten)]
    when: When,
    sizes: Vec<usize>,
}

/// The bytes of a checkpoint's file.
pub(super) fn to_bytes(checkpoint: &Checkpoint, when: When) -> Vec<u8> {
    let Checkpoint { step, parts } = checkpoint;
    let header = Header { step: *step, when, sizes: parts.iter().map(Vec::len).collect() };
    let header = serde_json::to_vec(&header).expect("a header can always be written");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    parts.iter().for_each(|part| bytes.extend(part));
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// The checkpoint in a file's bytes, and how far the run was.
pub(super) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<(Checkpoint, When), Error> {
    parse(bytes).ok_or_else(|| {
        Error::Run(format!("{} is damaged; remove it to train from the start", path.display()))
    })
}

impl Checkpoint {
    /// The bytes of a file of its own.
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(self, When { metrics: 0, seconds: 0.0 })
    }

    /// The checkpoint in the bytes of a file, which errors name.
    pub fn from_bytes(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        Ok(from_bytes(path, bytes)?.0)
    }
}

fn parse(bytes: &[u8]) -> Option<(Checkpoint, When)> {
    let (bytes, checksum) = bytes.split_last_chunk::<4>()?;
    if crc32fast::hash(bytes) != u32::from_le_bytes(*checksum) {
        return None;
    }
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (header, mut rest) =
        rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let header: Header = serde_json::from_slice(header).ok()?;
    let mut parts = Vec::new();
    for size in header.sizes {
        let (part, after) = rest.split_at_checked(size)?;
        parts.push(part.to_vec());
        rest = after;
    }
    Some((Checkpoint { step: header.step, parts }, header.when))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let checkpoint = Checkpoint { step: 7, parts: vec![vec![1, 2, 3], vec![], vec![4]] };
        let when = When { metrics: 99, seconds: 0.5 };
        let bytes = to_bytes(&checkpoint, when);
        let path = Path::new("checkpoint");
        assert_eq!(from_bytes(path, &bytes).unwrap(), (checkpoint, when));
        for cut in [0, 3, bytes.len() - 1] {
            assert!(from_bytes(path, &bytes[..cut]).is_err());
        }
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        assert!(from_bytes(path, &damaged).is_err());
    }
}
