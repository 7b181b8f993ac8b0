//! The book: best columns of the opening, where solving is slow.
//!
//! It holds the positions that can come up against the opponent, with all its lapses, and for both sides: what the
//! opponent replies, and what an optimal agent plays. Up to 13 discs whatever the agent plays; after that, while it plays
//! its best column most of the time ([`Scope`]). Positions whose best column needs no search are left out.
//!
//! `esper book build` makes the file again.

mod build;
mod database;

use super::rules::{Board, COLUMNS};

pub use database::Database;

/// Which positions a book holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scope {
    /// With up to this many discs, whatever the agent has played.
    pub plies: u32,
    /// With up to this many discs, if the agent has mostly played its best column.
    pub late_plies: u32,
    /// How often it may have played another.
    pub late_deviations: u32,
}

impl Scope {
    /// What the book inside the program holds.
    pub const INCLUDED: Scope = Scope { plies: 13, late_plies: 20, late_deviations: 3 };
}

/// The file inside the program.
static INCLUDED: &[u8] = include_bytes!("book.bin");

const MAGIC: &[u8; 8] = b"C4BOOK\0\x01";

/// Positions and their best columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Book {
    /// Sorted: the position's key above, the column in the lowest 3 bits.
    entries: Vec<u64>,
}

/// Why there is no book.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BookError {
    /// They start otherwise.
    #[error("not a Connect Four book")]
    NotABook,
    /// They end too early, or go on too long, or hold what is no position.
    #[error("the book is damaged")]
    Damaged,
    /// The database a book was to be built with lacks a position.
    #[error("the database is damaged: it lacks a position with twelve discs")]
    IncompleteDatabase,
}

impl Book {
    /// The book inside the program.
    pub fn included() -> Self {
        Self::from_bytes(INCLUDED).expect("the book inside the program is whole: a test reads it")
    }

    /// Reads a book: after the magic bytes the number of entries, then for each the distance of its key from the one
    /// before, with the column in the lowest 3 bits, all as variable-length integers.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BookError> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(BookError::NotABook)?;
        let mut next = || read_varint(&mut rest).ok_or(BookError::Damaged);
        let count = next()?;
        // An entry takes a byte at least, whatever a damaged file says of their number.
        let mut entries = Vec::with_capacity(count.min(bytes.len() as u64) as usize);
        let mut key: u64 = 0;
        for _ in 0..count {
            let code = next()?;
            key = key.checked_add(code >> 3).ok_or(BookError::Damaged)?;
            let column = code & 7;
            let board = Board::from_key(key).ok_or(BookError::Damaged)?;
            if column as usize >= COLUMNS || !board.is_playable(column as usize) {
                return Err(BookError::Damaged);
            }
            entries.push(key << 3 | column);
        }
        if rest.is_empty() && entries.is_sorted() {
            Ok(Book { entries })
        } else {
            Err(BookError::Damaged)
        }
    }

    /// Writes a book; the inverse of [`Book::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        write_varint(&mut bytes, self.entries.len() as u64);
        let mut previous = 0;
        for &entry in &self.entries {
            let (key, column) = (entry >> 3, entry & 7);
            write_varint(&mut bytes, (key - previous) << 3 | column);
            previous = key;
        }
        bytes
    }

    /// The best column of a position, if it is in the book.
    pub fn column(&self, board: &Board) -> Option<usize> {
        let key = board.key();
        let at = self.entries.partition_point(|&entry| entry >> 3 < key);
        let entry = *self.entries.get(at)?;
        (entry >> 3 == key).then_some((entry & 7) as usize)
    }

    /// The number of positions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The positions and their columns.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (Board, usize)> + '_ {
        let entry = |&entry: &u64| {
            let board = Board::from_key(entry >> 3).expect("a book holds positions");
            (board, (entry & 7) as usize)
        };
        self.entries.iter().map(entry)
    }
}

fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Some(value);
        }
    }
    None
}
