//! Metrics as TensorBoard reads them: an event file.
//!
//! A file is records, each a length, the bytes, and a checksum of both. The bytes are protocol buffers: an event with a time,
//! a step, and scalars by tag.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::manifest::Record;

/// An event file that is written to.
#[derive(Debug)]
pub struct EventFile {
    file: File,
}

impl EventFile {
    /// The name of the file in a run's folder: TensorBoard looks for `tfevents`.
    pub const NAME: &str = "events.out.tfevents.esper";

    /// Starts a file, in place of one that is there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let mut events = EventFile { file: File::create(path)? };
        let mut first = Message::default();
        first.double(1, now()).bytes(3, b"brain.Event:2");
        events.write(&first.0)?;
        Ok(events)
    }

    /// Adds what was measured.
    pub fn add(&mut self, record: &Record) -> io::Result<()> {
        let mut summary = Message::default();
        for (name, &value) in &record.metrics {
            let mut scalar = Message::default();
            let tag = format!("{}/{name}", record.phase);
            scalar.bytes(1, tag.as_bytes()).float(2, value as f32);
            summary.bytes(1, &scalar.0);
        }
        let mut event = Message::default();
        event.double(1, now()).integer(2, record.step as u64).bytes(5, &summary.0);
        self.write(&event.0)
    }

    fn write(&mut self, event: &[u8]) -> io::Result<()> {
        let length = (event.len() as u64).to_le_bytes();
        let mut record = length.to_vec();
        record.extend(masked_checksum(&length).to_le_bytes());
        record.extend(event);
        record.extend(masked_checksum(event).to_le_bytes());
        // In one piece: a reader sees whole records.
        self.file.write_all(&record)
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// As the format has it: turned by 15 bits, and moved, so that checksums of checksums stay sound.
fn masked_checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A protocol buffer that is being written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn key(&mut self, field: u64, wire: u64) {
        self.varint(field << 3 | wire);
    }

    fn integer(&mut self, field: u64, value: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    fn double(&mut self, field: u64, value: f64) -> &mut Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
        self
    }

    fn float(&mut self, field: u64, value: f32) -> &mut Self {
        self.key(field, 5);
        self.0.extend(value.to_le_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The checksum of RFC 3720's 32 zeros is 0x8a9136aa.
    #[test]
    fn checksums_are_castagnolis() {
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        // Its lower 15 bits, 0x36aa, in front of the upper 17, 0x11522; and moved.
        let turned = (0x36aa << 17) | 0x1_1522;
        assert_eq!(masked_checksum(&[0; 32]), 0xa282_ead8u32.wrapping_add(turned));
    }

    /// Written out by hand after the protocol buffers' definition.
    #[test]
    fn an_event_has_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(EventFile::NAME);
        let mut events = EventFile::create(&path).unwrap();
        let metrics = [("loss".to_owned(), 0.5)].into_iter().collect();
        events.add(&Record { phase: "p".to_owned(), step: 300, metrics }).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let first = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert!(bytes[12..12 + first].ends_with(b"\x1a\x0dbrain.Event:2"));
        let second = &bytes[12 + first + 4..];
        let length = u64::from_le_bytes(second[..8].try_into().unwrap()) as usize;
        let event = &second[12..12 + length];
        assert_eq!(second.len(), 12 + length + 4);
        let summary = [&b"\x2a\x0f\x0a\x0d\x0a\x06p/loss\x15"[..], &0.5f32.to_le_bytes()].concat();
        assert_eq!(event[9..12], [0x10, 0xac, 0x02], "step 300");
        assert_eq!(event[12..], summary);
        let checksum = u32::from_le_bytes(second[12 + length..].try_into().unwrap());
        assert_eq!(checksum, masked_checksum(event));
    }
}
