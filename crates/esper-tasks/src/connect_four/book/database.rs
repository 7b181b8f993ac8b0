//! The database of twelve-disc scores that saves building the book many hours.

use std::collections::HashMap;

use super::build::children;
use crate::connect_four::rules::{Board, COLUMNS, ROWS};
use crate::connect_four::solver::win_score;

/// A database of the scores of all positions with twelve discs, as `bitbully-databases` ships it
/// (`book_12ply_distances.dat`). Only for building the book.
pub struct Database {
    scores: HashMap<u32, i8>,
}

impl Database {
    /// The discs of its positions.
    pub const DISCS: u32 = 12;

    /// How many positions it has: all with twelve discs but those won at once, mirrors counted once.
    const POSITIONS: usize = 4_200_899;

    /// Reads the file: five bytes an entry, a position's code and its distance. `None` if it is not that file.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (entries, rest) = bytes.as_chunks::<5>();
        if !rest.is_empty() || entries.len() != Self::POSITIONS {
            return None;
        }
        let scores = entries
            .iter()
            .map(|&[a, b, c, d, distance]| (u32::from_be_bytes([a, b, c, d]), distance as i8))
            .collect();
        Some(Database { scores })
    }

    /// The score of a position with at most twelve discs, by looking ahead to the twelfth. `None` if the file lacks
    /// what that needs.
    pub(super) fn score(&self, board: &Board, known: &mut HashMap<u64, i32>) -> Option<i32> {
        if board.winning_column().is_some() {
            return Some(win_score(board));
        }
        if board.discs() == Self::DISCS {
            return self.look_up(board);
        }
        let key = board.key().min(board.mirrored().key());
        if let Some(&score) = known.get(&key) {
            return Some(score);
        }
        let mut best = i32::MIN;
        for child in children(board) {
            best = best.max(-self.score(&child, known)?);
        }
        known.insert(key, best);
        Some(best)
    }

    /// A distance v stands for the score sign(v) * ((|v| - 70) / 2 + 1).
    fn look_up(&self, board: &Board) -> Option<i32> {
        let entry = self.scores.get(&code(board));
        let entry = entry.or_else(|| self.scores.get(&code(&board.mirrored())))?;
        let distance = i32::from(*entry);
        Some(distance.signum() * ((distance.abs() - 70) / 2 + 1))
    }
}

/// The database's code: column by column from the bottom, `10` the first player, `11` the second, `0` the column's end,
/// and one bit of padding.
fn code(board: &Board) -> u32 {
    let first_to_move = board.discs().is_multiple_of(2);
    let mut code: u32 = 0;
    for column in 0..COLUMNS {
        for row in 0..ROWS {
            let (mine, theirs) = (board.is_mine(column, row), board.is_theirs(column, row));
            if !mine && !theirs {
                break;
            }
            code = code << 2 | if mine == first_to_move { 0b10 } else { 0b11 };
        }
        code <<= 1;
    }
    code << 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::unusual_byte_groupings)] // a group is a column
    fn codes_are_columns_from_the_bottom() {
        assert_eq!(code(&Board::default()), 0);
        // Columns 0 to 2 end at once, then the first player's disc and an end, three more ends, padding.
        assert_eq!(code(&Board::after(&[3]).unwrap()), 0b0_0_0_100_0_0_0_0);
        assert_eq!(code(&Board::after(&[3, 3]).unwrap()), 0b0_0_0_10110_0_0_0_0);
        assert_eq!(code(&Board::after(&[0, 6]).unwrap()), 0b100_0_0_0_0_0_110_0);
    }

    /// The two examples of the database's own documentation: a win with 29 more discs, and a loss with 12.
    #[test]
    fn distances_become_scores() {
        let board = Board::default();
        let with = |distance: i8| Database { scores: HashMap::from([(code(&board), distance)]) };
        // The first player's 41st disc scores 1; the second's 24th scores 10 for the second.
        assert_eq!(with(71).look_up(&board), Some(1));
        assert_eq!(with(-88).look_up(&board), Some(-10));
        assert_eq!(with(0).look_up(&board), Some(0));
    }
}
