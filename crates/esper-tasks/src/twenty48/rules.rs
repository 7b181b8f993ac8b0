//! The rules of 2048, without chance of their own.
//!
//! A board is a `u64` of sixteen 4-bit cells, row by row from the top left, each the exponent of its tile (0 is
//! empty, 1 is a 2, …, 7 is a 128). A move slides four rows, each a look-up in a table of all rows.

use std::sync::LazyLock;

/// The exponent of the tile that wins: 2^7 = 128.
pub const GOAL: u8 = 7;

/// Cells of a board.
pub const CELLS: usize = 16;

/// Where tiles slide to, numbered as actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// Towards the first column.
    Left = 0,
    /// Towards the first row.
    Up = 1,
    /// Towards the last column.
    Right = 2,
    /// Towards the last row.
    Down = 3,
}

impl Direction {
    /// All four, in the order of their numbers.
    pub const ALL: [Direction; 4] =
        [Direction::Left, Direction::Up, Direction::Right, Direction::Down];
}

/// A position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Board(u64);

/// The lowest bit of every cell.
const LOW_BITS: u64 = 0x1111_1111_1111_1111;

impl Board {
    /// The board with these exponents, row by row.
    pub fn from_cells(cells: [u8; CELLS]) -> Self {
        Board(cells.iter().enumerate().fold(0, |bits, (cell, &exponent)| {
            debug_assert!(exponent < 16);
            bits | u64::from(exponent) << (4 * cell)
        }))
    }

    /// The exponents of all cells, row by row.
    pub fn cells(self) -> [u8; CELLS] {
        std::array::from_fn(|cell| (self.0 >> (4 * cell)) as u8 & 15)
    }

    /// The number of empty cells.
    pub fn empty_cells(self) -> u32 {
        self.empty_mask().count_ones()
    }

    /// The board with a new tile on its `nth` empty cell, counting from 0.
    pub fn with_tile(self, nth: u32, exponent: u8) -> Self {
        let mut empty = self.empty_mask();
        for _ in 0..nth {
            empty &= empty - 1;
        }
        Board(self.0 | u64::from(exponent) << empty.trailing_zeros())
    }

    /// The board after sliding and merging, before a new tile appears. Equal to the board itself when nothing moves.
    pub fn slide(self, direction: Direction) -> Self {
        let rows: &Rows = &ROWS;
        match direction {
            Direction::Left => self.map_rows(&rows.left),
            Direction::Right => self.map_rows(&rows.right),
            Direction::Up => self.transposed().map_rows(&rows.left).transposed(),
            Direction::Down => self.transposed().map_rows(&rows.right).transposed(),
        }
    }

    /// Whether a 128 has been made.
    pub fn has_goal(self) -> bool {
        // 7 is the only exponent in play whose three low bits are all set.
        self.0 & (self.0 >> 1) & (self.0 >> 2) & LOW_BITS != 0
    }

    /// Whether the board is full and no two neighbours are equal: no move would change anything.
    pub fn is_stuck(self) -> bool {
        const NOT_LAST_COLUMN: u64 = 0x0111_0111_0111_0111;
        const NOT_LAST_ROW: u64 = 0x0000_1111_1111_1111;
        self.empty_mask() == 0
            && zero_cells(self.0 ^ (self.0 >> 4)) & NOT_LAST_COLUMN == 0
            && zero_cells(self.0 ^ (self.0 >> 16)) & NOT_LAST_ROW == 0
    }

    fn empty_mask(self) -> u64 {
        zero_cells(self.0)
    }

    fn map_rows(self, table: &[u16; 1 << 16]) -> Self {
        let row =
            |at: u32| u64::from(table[usize::from((self.0 >> (16 * at)) as u16)]) << (16 * at);
        Board(row(0) | row(1) | row(2) | row(3))
    }

    fn transposed(self) -> Self {
        // Swap 1x1 cells within 2x2 blocks, then the 2x2 blocks themselves.
        let x = self.0;
        let x = (x & 0xf0f0_0f0f_f0f0_0f0f)
            | (x & 0x0000_f0f0_0000_f0f0) << 12
            | (x & 0x0f0f_0000_0f0f_0000) >> 12;
        Board(
            (x & 0xff00_ff00_00ff_00ff)
                | (x & 0x0000_0000_ff00_ff00) << 24
                | (x & 0x00ff_00ff_0000_0000) >> 24,
        )
    }
}

/// The lowest bit of every cell that is zero.
fn zero_cells(x: u64) -> u64 {
    !(x | (x >> 1) | (x >> 2) | (x >> 3)) & LOW_BITS
}

/// What every row of four cells becomes.
struct Rows {
    left: Box<[u16; 1 << 16]>,
    right: Box<[u16; 1 << 16]>,
}

static ROWS: LazyLock<Rows> = LazyLock::new(|| {
    let table = |slide: fn([u8; 4]) -> [u8; 4]| -> Box<[u16; 1 << 16]> {
        let rows: Vec<u16> = (0..=u16::MAX).map(|row| pack(slide(unpack(row)))).collect();
        rows.try_into().expect("there are 2^16 rows")
    };
    Rows {
        left: table(slide_left),
        right: table(|mut row| {
            row.reverse();
            row = slide_left(row);
            row.reverse();
            row
        }),
    }
});

fn unpack(row: u16) -> [u8; 4] {
    std::array::from_fn(|cell| (row >> (4 * cell)) as u8 & 15)
}

fn pack(row: [u8; 4]) -> u16 {
    row.iter().rev().fold(0, |bits, &exponent| bits << 4 | u16::from(exponent))
}

/// Slides one row to the left; equal neighbours merge, each tile at most once a move.
fn slide_left(row: [u8; 4]) -> [u8; 4] {
    let mut slid = [0; 4];
    let mut filled = 0;
    let mut may_merge = false;
    for exponent in row.into_iter().filter(|&exponent| exponent > 0) {
        if may_merge && slid[filled - 1] == exponent {
            slid[filled - 1] = (exponent + 1).min(15);
            may_merge = false;
        } else {
            slid[filled] = exponent;
            filled += 1;
            may_merge = true;
        }
    }
    slid
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::Seed;
    use rand::RngExt;

    #[rustfmt::skip]
    const BOARD: [u8; 16] = [
        1, 1, 1, 0,
        0, 2, 0, 2,
        3, 0, 0, 3,
        1, 1, 2, 2,
    ];

    #[test]
    fn tiles_slide_and_merge_once() {
        #[rustfmt::skip]
        let expected = [
            (Direction::Left,  [2, 1, 0, 0,  3, 0, 0, 0,  4, 0, 0, 0,  2, 3, 0, 0]),
            (Direction::Right, [0, 0, 1, 2,  0, 0, 0, 3,  0, 0, 0, 4,  0, 0, 2, 3]),
            (Direction::Up,    [1, 1, 1, 2,  3, 2, 2, 3,  1, 1, 0, 2,  0, 0, 0, 0]),
            (Direction::Down,  [0, 0, 0, 0,  1, 1, 0, 2,  3, 2, 1, 3,  1, 1, 2, 2]),
        ];
        for (direction, cells) in expected {
            let slid = Board::from_cells(BOARD).slide(direction);
            assert_eq!(slid.cells(), cells, "{direction:?}");
        }
    }

    #[test]
    fn four_equal_tiles_become_two() {
        assert_eq!(slide_left([2, 2, 2, 2]), [3, 3, 0, 0]);
        assert_eq!(slide_left([1, 1, 2, 0]), [2, 2, 0, 0]);
    }

    #[test]
    fn a_full_board_is_stuck_only_without_equal_neighbours() {
        #[rustfmt::skip]
        let stuck = [
            1, 2, 1, 2,
            2, 1, 2, 1,
            1, 2, 1, 2,
            2, 1, 2, 1,
        ];
        assert!(Board::from_cells(stuck).is_stuck());
        // An equal pair anywhere, or one gap, frees it. The end of a row is no neighbour of the next one's start.
        for cell in 0..16 {
            let mut gap = stuck;
            gap[cell] = 0;
            assert!(!Board::from_cells(gap).is_stuck());
            let mut pair = stuck;
            pair[cell] = 3 - pair[cell];
            assert!(!Board::from_cells(pair).is_stuck());
        }
    }

    #[test]
    fn the_goal_is_exactly_a_128() {
        for exponent in 0..GOAL {
            assert!(!Board::from_cells([exponent; 16]).has_goal());
        }
        let mut cells = [3; 16];
        cells[15] = GOAL;
        assert!(Board::from_cells(cells).has_goal());
    }

    /// Sliding keeps the sum of the tiles, mirrors as the board does, and a stuck board is one that no move changes.
    #[test]
    fn sliding_has_its_symmetries() {
        let mut rng = Seed::new(0).rng();
        for _ in 0..10_000 {
            let cells: [u8; 16] = std::array::from_fn(|_| rng.random_range(0..7));
            let board = Board::from_cells(cells);
            assert_eq!(board.transposed().transposed(), board);
            let sum = |board: Board| -> u32 {
                board
                    .cells()
                    .iter()
                    .map(|&exponent| if exponent > 0 { 1 << exponent } else { 0 })
                    .sum()
            };
            for direction in Direction::ALL {
                assert_eq!(sum(board.slide(direction)), sum(board));
            }
            let mirrored = |board: Board| {
                let cells = board.cells();
                Board::from_cells(std::array::from_fn(|cell| cells[cell / 4 * 4 + 3 - cell % 4]))
            };
            assert_eq!(
                mirrored(mirrored(board).slide(Direction::Right)),
                board.slide(Direction::Left)
            );
            let moves = Direction::ALL.iter().any(|&direction| board.slide(direction) != board);
            assert_eq!(board.is_stuck(), !moves && board.empty_cells() == 0);
        }
    }

    #[test]
    fn new_tiles_go_to_the_chosen_gap() {
        let board = Board::from_cells(BOARD);
        assert_eq!(board.empty_cells(), 5);
        let gaps: Vec<usize> = (0..16).filter(|&cell| BOARD[cell] == 0).collect();
        for (nth, &cell) in gaps.iter().enumerate() {
            let mut expected = BOARD;
            expected[cell] = 2;
            assert_eq!(board.with_tile(nth as u32, 2).cells(), expected);
        }
    }
}
