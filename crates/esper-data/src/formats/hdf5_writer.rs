//! The few parts of HDF5 that an export needs, written from the front to the back: groups, attributes, arrays in one piece.
//!
//! Follows the HDF5 File Format Specification 3.0 (superblock version 2, object headers version 2). The crate `hdf5-writer`
//! holds the whole file in memory, and takes time with the square of the number of groups: 160 s for 50,000 episodes of two
//! steps, where this takes 0.5 s.

use std::io::{self, Seek, SeekFrom, Write};

use hdf5_reader::checksum::jenkins_lookup3;

use super::hdf5::MAGIC;

/// An address that leads nowhere.
const NOWHERE: u64 = u64::MAX;
const SUPERBLOCK_BYTES: u64 = 48;

/// What an array or attribute holds; all numbers are little-endian.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// Booleans as h5py writes them, a byte each.
    Truth,
    Int8,
    Int64,
    Float32,
    /// A text of so many bytes in UTF-8.
    Text(u32),
}

/// An attribute of a group: one value.
pub(super) struct Attribute<'a> {
    pub(super) name: &'a str,
    pub(super) kind: Kind,
    pub(super) bytes: Vec<u8>,
}

impl<'a> Attribute<'a> {
    pub(super) fn count(name: &'a str, value: usize) -> Self {
        Attribute { name, kind: Kind::Int64, bytes: (value as i64).to_le_bytes().to_vec() }
    }

    /// A text; nothing is written of an empty one, which HDF5 has no place for.
    pub(super) fn text(name: &'a str, value: &str) -> Self {
        let bytes = if value.is_empty() { vec![0] } else { value.as_bytes().to_vec() };
        Attribute { name, kind: Kind::Text(bytes.len() as u32), bytes }
    }
}

/// A name in a group, and where what it names is.
pub(super) type Link = (String, u64);

/// A file being written.
pub(super) struct Hdf5Writer<W> {
    to: W,
    /// The end of what was written.
    end: u64,
}

impl<W: Write + Seek> Hdf5Writer<W> {
    pub(super) fn new(mut to: W) -> io::Result<Self> {
        to.write_all(&[0; SUPERBLOCK_BYTES as usize])?;
        Ok(Hdf5Writer { to, end: SUPERBLOCK_BYTES })
    }

    /// Writes an array and returns its address.
    pub(super) fn array(&mut self, kind: Kind, shape: &[usize], bytes: &[u8]) -> io::Result<u64> {
        let address = self.append(bytes)?;
        let mut layout = vec![3, 1];
        layout.extend(address.to_le_bytes());
        layout.extend((bytes.len() as u64).to_le_bytes());
        self.object(&[
            (0x01, dataspace(shape)),
            (0x03, datatype(kind)),
            // Space is there when it is written, values that are not written are zero.
            (0x05, vec![3, 0x0a]),
            (0x08, layout),
        ])
    }

    /// Writes a group and returns its address.
    pub(super) fn group(
        &mut self,
        links: &[Link],
        attributes: &[Attribute<'_>],
    ) -> io::Result<u64> {
        let mut no_heap = vec![0, 0];
        no_heap.extend([NOWHERE.to_le_bytes(), NOWHERE.to_le_bytes()].concat());
        let mut messages = vec![(0x02, no_heap), (0x0a, vec![0, 0])];
        for (name, address) in links {
            // Flags: the name's length is in two bytes, its characters are UTF-8.
            let mut link = vec![1, 0x11, 1];
            link.extend((name.len() as u16).to_le_bytes());
            link.extend(name.as_bytes());
            link.extend(address.to_le_bytes());
            messages.push((0x06, link));
        }
        for Attribute { name, kind, bytes } in attributes {
            let (datatype, dataspace) = (datatype(*kind), vec![2, 0, 0, 0]);
            let mut attribute = vec![3, 0];
            for size in [name.len() + 1, datatype.len(), dataspace.len()] {
                attribute.extend((size as u16).to_le_bytes());
            }
            attribute.push(1);
            attribute.extend(name.as_bytes());
            attribute.push(0);
            attribute.extend([&datatype[..], &dataspace, bytes].concat());
            messages.push((0x0c, attribute));
        }
        self.object(&messages)
    }

    /// Writes what every file begins with, once the root is known.
    pub(super) fn finish(mut self, root: u64) -> io::Result<W> {
        let mut block = MAGIC.to_vec();
        block.extend([2, 8, 8, 0]);
        for address in [0, NOWHERE, self.end, root] {
            block.extend(address.to_le_bytes());
        }
        block.extend(jenkins_lookup3(&block).to_le_bytes());
        self.to.seek(SeekFrom::Start(0))?;
        self.to.write_all(&block)?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// Appends an object header with its messages.
    fn object(&mut self, messages: &[(u8, Vec<u8>)]) -> io::Result<u64> {
        let size: usize = messages.iter().map(|(_, message)| message.len() + 4).sum();
        let too_large = || io::Error::new(io::ErrorKind::FileTooLarge, "too many names for HDF5");
        let mut header = b"OHDR\x02\x02".to_vec();
        header.extend(u32::try_from(size).map_err(|_| too_large())?.to_le_bytes());
        for (kind, message) in messages {
            let size = u16::try_from(message.len()).map_err(|_| too_large())?;
            header.push(*kind);
            header.extend(size.to_le_bytes());
            header.push(0);
            header.extend(message);
        }
        header.extend(jenkins_lookup3(&header).to_le_bytes());
        self.append(&header)
    }

    /// Appends bytes where the next multiple of eight is.
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let address = self.end.next_multiple_of(8);
        self.to.write_all(&[0; 8][..(address - self.end) as usize])?;
        self.to.write_all(bytes)?;
        self.end = address + bytes.len() as u64;
        Ok(address)
    }
}

fn dataspace(shape: &[usize]) -> Vec<u8> {
    let mut message = vec![2, shape.len() as u8, 0, 1];
    message.extend(shape.iter().flat_map(|&n| (n as u64).to_le_bytes()));
    message
}

fn datatype(kind: Kind) -> Vec<u8> {
    // Class and version, three bytes of flags, the size, then what the class has of its own.
    let whole = |bytes: u8| vec![0x30, 0x08, 0, 0, bytes, 0, 0, 0, 0, 0, 8 * bytes, 0];
    match kind {
        Kind::Int8 => whole(1),
        Kind::Int64 => whole(8),
        Kind::Float32 => {
            vec![0x31, 0x20, 31, 0, 4, 0, 0, 0, 0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0]
        }
        Kind::Truth => {
            let mut message = vec![0x38, 2, 0, 0, 1, 0, 0, 0];
            message.extend(whole(1));
            message.extend(b"FALSE\0TRUE\0\x00\x01");
            message
        }
        Kind::Text(bytes) => {
            // Filled up with zeros, in UTF-8.
            let mut message = vec![0x33, 0x11, 0, 0];
            message.extend(bytes.to_le_bytes());
            message
        }
    }
}
