//! The rules of Connect Four on bits.
//!
//! Each column takes seven bits, its six cells from the bottom and one that is always empty, so that shifted patterns
//! never run from one column into the next:
//!
//! ```text
//!   6 13 20 27 34 41 48      always empty
//!   5 12 19 26 33 40 47
//!   …
//!   0  7 14 21 28 35 42      the bottom row
//! ```

/// Columns of the board.
pub const COLUMNS: usize = 7;

/// Rows of the board.
pub const ROWS: usize = 6;

/// Cells of the board.
pub const CELLS: usize = COLUMNS * ROWS;

/// Bits a column takes.
const STRIDE: usize = ROWS + 1;

/// The bottom cell of every column.
pub(super) const BOTTOM: u64 = column_bits(1);

/// Every cell.
pub(super) const ALL_CELLS: u64 = BOTTOM * ((1 << ROWS) - 1);

const fn column_bits(bits: u64) -> u64 {
    let mut all = 0;
    let mut column = 0;
    while column < COLUMNS {
        all |= bits << (STRIDE * column);
        column += 1;
    }
    all
}

/// A position, seen by the player whose turn it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Board {
    /// The discs of the player to move.
    mine: u64,
    /// All discs.
    occupied: u64,
}

impl Board {
    /// The position after these columns were played in turn, or the number of the move that was not possible (the
    /// column is full or does not exist, or the game is over).
    pub fn after(columns: &[usize]) -> Result<Self, usize> {
        let mut board = Board::default();
        for (number, &column) in columns.iter().enumerate() {
            if column >= COLUMNS || !board.is_playable(column) || board.is_lost() {
                return Err(number);
            }
            board = board.drop(column);
        }
        Ok(board)
    }

    /// The position with the discs of the player to move and of the other where these say so.
    pub fn with_discs(
        mine: impl Fn(usize, usize) -> bool,
        theirs: impl Fn(usize, usize) -> bool,
    ) -> Self {
        let mut board = Board::default();
        for column in 0..COLUMNS {
            for row in 0..ROWS {
                let bit = cell(column, row);
                board.mine |= if mine(column, row) { bit } else { 0 };
                board.occupied |= if mine(column, row) || theirs(column, row) { bit } else { 0 };
            }
        }
        board
    }

    /// The number of discs on the board.
    pub fn discs(&self) -> u32 {
        self.occupied.count_ones()
    }

    /// The discs of the player to move, one bit a cell.
    pub(super) fn mine(&self) -> u64 {
        self.mine
    }

    /// The discs of the other player.
    pub(super) fn theirs(&self) -> u64 {
        self.mine ^ self.occupied
    }

    /// All discs.
    pub(super) fn occupied(&self) -> u64 {
        self.occupied
    }

    /// Whether the player to move has a disc in a cell.
    pub fn is_mine(&self, column: usize, row: usize) -> bool {
        self.mine & cell(column, row) != 0
    }

    /// Whether the other player has a disc in a cell.
    pub fn is_theirs(&self, column: usize, row: usize) -> bool {
        self.theirs() & cell(column, row) != 0
    }

    /// Whether a column has room.
    pub fn is_playable(&self, column: usize) -> bool {
        self.occupied & cell(column, ROWS - 1) == 0
    }

    /// Whether the board is full.
    pub fn is_full(&self) -> bool {
        self.occupied == ALL_CELLS
    }

    /// The column that is played when this one is asked for: itself, or the first that has room. `None` on a full board.
    pub fn resolve(&self, column: usize) -> Option<usize> {
        if self.is_playable(column) {
            return Some(column);
        }
        (0..COLUMNS).find(|&column| self.is_playable(column))
    }

    /// The position after the player to move drops a disc into a column that has room.
    pub fn drop(&self, column: usize) -> Self {
        debug_assert!(self.is_playable(column));
        self.place(self.possible() & column_mask(column))
    }

    /// The position after the player to move places a disc on a cell.
    pub(super) fn place(&self, cell: u64) -> Self {
        Board { mine: self.theirs(), occupied: self.occupied | cell }
    }

    /// Whether the player who just moved has four in a row.
    pub fn is_lost(&self) -> bool {
        has_four(self.theirs())
    }

    /// The cells that a disc can be dropped to.
    pub(super) fn possible(&self) -> u64 {
        (self.occupied + BOTTOM) & ALL_CELLS
    }

    /// The free cells that would make four for the player to move, reachable or not.
    pub(super) fn my_threats(&self) -> u64 {
        threats(self.mine, self.occupied)
    }

    /// The free cells that would make four for the other player, reachable or not.
    pub(super) fn their_threats(&self) -> u64 {
        threats(self.theirs(), self.occupied)
    }

    /// The lowest column that wins at once for the player to move.
    pub fn winning_column(&self) -> Option<usize> {
        let wins = self.my_threats() & self.possible();
        (wins != 0).then(|| column_of(wins))
    }

    /// A number that no other position has: in every column the player's discs as binary digits above a bit that
    /// marks the height.
    pub fn key(&self) -> u64 {
        self.mine + self.occupied + BOTTOM
    }

    /// The position that a key stands for, or `None` when it stands for none.
    pub fn from_key(key: u64) -> Option<Self> {
        let (mut mine, mut occupied) = (0, 0);
        for column in 0..COLUMNS {
            let digits = key >> (STRIDE * column) & ((1 << STRIDE) - 1);
            let height = digits.checked_ilog2()?;
            let marker = 1 << height;
            mine |= (digits ^ marker) << (STRIDE * column);
            occupied |= (marker - 1) << (STRIDE * column);
        }
        let board = Board { mine, occupied };
        let turns_agree = mine.count_ones() == board.discs() / 2;
        (key >> (STRIDE * COLUMNS) == 0 && turns_agree).then_some(board)
    }

    /// The position in a mirror.
    pub fn mirrored(&self) -> Self {
        let mirror = |bits: u64| {
            (0..COLUMNS).fold(0, |mirrored, column| {
                let digits = bits >> (STRIDE * column) & ((1 << STRIDE) - 1);
                mirrored | digits << (STRIDE * (COLUMNS - 1 - column))
            })
        };
        Board { mine: mirror(self.mine), occupied: mirror(self.occupied) }
    }
}

/// The bit of a cell.
const fn cell(column: usize, row: usize) -> u64 {
    1 << (STRIDE * column + row)
}

/// The cells of a column.
pub(super) const fn column_mask(column: usize) -> u64 {
    ((1 << ROWS) - 1) << (STRIDE * column)
}

/// The column of the lowest of some cells.
pub(super) fn column_of(cells: u64) -> usize {
    cells.trailing_zeros() as usize / STRIDE
}

/// The free cells that would complete four of these discs.
pub(super) fn threats(discs: u64, occupied: u64) -> u64 {
    let mut cells = (discs << 1) & (discs << 2) & (discs << 3);
    for shift in [STRIDE, STRIDE - 1, STRIDE + 1] {
        let two_before = (discs << shift) & (discs << (2 * shift));
        let two_after = (discs >> shift) & (discs >> (2 * shift));
        cells |= two_before & (discs << (3 * shift));
        cells |= two_before & (discs >> shift);
        cells |= two_after & (discs << shift);
        cells |= two_after & (discs >> (3 * shift));
    }
    cells & (ALL_CELLS ^ occupied)
}

fn has_four(discs: u64) -> bool {
    [1, STRIDE, STRIDE - 1, STRIDE + 1].into_iter().any(|shift| {
        let pairs = discs & (discs >> shift);
        pairs & (pairs >> (2 * shift)) != 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::Seed;
    use rand::RngExt;

    /// Four in a row, written the slow way.
    fn has_four_by_cells(is_disc: impl Fn(usize, usize) -> bool) -> bool {
        let at = |column: i32, row: i32| {
            (0..COLUMNS as i32).contains(&column)
                && (0..ROWS as i32).contains(&row)
                && is_disc(column as usize, row as usize)
        };
        (0..COLUMNS as i32).any(|column| {
            (0..ROWS as i32).any(|row| {
                [(0, 1), (1, 0), (1, 1), (1, -1)]
                    .iter()
                    .any(|(dc, dr)| (0..4).all(|i| at(column + i * dc, row + i * dr)))
            })
        })
    }

    #[test]
    fn fours_threats_keys_and_mirrors_agree_with_the_plain_rules() {
        let mut rng = Seed::new(0).rng();
        for _ in 0..3_000 {
            let mut board = Board::default();
            while !board.is_full() {
                assert_eq!(Board::from_key(board.key()), Some(board));
                assert_eq!(board.mirrored().mirrored(), board);
                for column in (0..COLUMNS).filter(|&column| board.is_playable(column)) {
                    let next = board.drop(column);
                    let wins = board.my_threats() & board.possible() & column_mask(column) != 0;
                    assert_eq!(wins, next.is_lost());
                    assert_eq!(wins, has_four_by_cells(|c, r| next.is_theirs(c, r)));
                    assert_eq!(board.mirrored().drop(COLUMNS - 1 - column), next.mirrored());
                }
                board = board.drop(board.resolve(rng.random_range(0..COLUMNS)).unwrap());
                if board.is_lost() {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_full_column_falls_back_to_the_first_with_room() {
        let board = Board::after(&[0, 0, 0, 0, 0, 0, 3, 3, 3, 3, 3, 3]).unwrap();
        assert_eq!(board.resolve(3), Some(1));
        assert_eq!(board.resolve(6), Some(6));
    }

    #[test]
    fn impossible_moves_are_named() {
        assert_eq!(Board::after(&[0, 0, 0, 0, 0, 0, 0]), Err(6));
        assert_eq!(Board::after(&[0, 7]), Err(1));
        assert_eq!(Board::after(&[0, 1, 0, 1, 0, 1, 0, 1]), Err(7), "the game was over");
    }

    #[test]
    fn numbers_that_are_no_keys_are_refused() {
        assert_eq!(Board::from_key(0), None);
        assert_eq!(Board::from_key(u64::MAX), None);
        assert_eq!(Board::from_key(BOTTOM), Some(Board::default()));
    }
}
