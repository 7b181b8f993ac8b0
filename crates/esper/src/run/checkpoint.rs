//! Checkpoints as files: a length, a JSON header with step and sizes, the parts one after the other, a checksum.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::training::Checkpoint;

#[derive(Serialize, Deserialize)]
struct Header {
    step: usize,
    /// The length of the metrics file when the checkpoint was made.
    metrics: u64,
    sizes: Vec<usize>,
}

/// The bytes of a checkpoint's file.
pub(super) fn to_bytes(checkpoint: &Checkpoint, metrics: u64) -> Vec<u8> {
    let Checkpoint { step, parts } = checkpoint;
    let header = Header { step: *step, metrics, sizes: parts.iter().map(Vec::len).collect() };
    let header = serde_json::to_vec(&header).expect("a header can always be written");
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header);
    parts.iter().for_each(|part| bytes.extend(part));
    let checksum = crc32fast::hash(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// The checkpoint in a file's bytes, and the length that the metrics file had.
pub(super) fn from_bytes(path: &Path, bytes: &[u8]) -> Result<(Checkpoint, u64), Error> {
    parse(bytes).ok_or_else(|| {
        Error::Run(format!("{} is damaged; remove it to train from the start", path.display()))
    })
}

fn parse(bytes: &[u8]) -> Option<(Checkpoint, u64)> {
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
    Some((Checkpoint { step: header.step, parts }, header.metrics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let checkpoint = Checkpoint { step: 7, parts: vec![vec![1, 2, 3], vec![], vec![4]] };
        let bytes = to_bytes(&checkpoint, 99);
        let path = Path::new("checkpoint");
        assert_eq!(from_bytes(path, &bytes).unwrap(), (checkpoint, 99));
        for cut in [0, 3, bytes.len() - 1] {
            assert!(from_bytes(path, &bytes[..cut]).is_err());
        }
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        assert!(from_bytes(path, &damaged).is_err());
    }
}
