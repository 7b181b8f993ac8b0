//! The exact solver: strong scores by alpha-beta search.
//!
//! A score says who wins and how soon, from the side of the player to move: with `n` discs on the board, winning with
//! the next disc scores `(43 - n) / 2`, each turn later one less, a draw 0, losses the negatives. So among winning
//! moves the quickest has the highest score, and among losing ones the slowest.
//!
//! What makes it quick: bit-parallel threats; never playing below an opponent's threat; moves that make most threats
//! first; null-window searches that halve the range of scores; and a table of bounds small enough for the second-level
//! cache, which measured 2.5 times faster than one of 64 MB although it forgets more.

use super::rules::{ALL_CELLS, BOTTOM, Board, CELLS, COLUMNS, column_mask, column_of, threats};

/// Entries of the table are 8 bytes; 2^17 of them make 1 MB.
const TABLE_BITS: u32 = 17;

/// Columns from the middle outwards: central discs are part of more fours.
const CENTRE_FIRST: [usize; COLUMNS] = [3, 2, 4, 1, 5, 0, 6];

/// Close to the end the search is quicker than the table.
const TABLE_MAX_DISCS: u32 = 36;

/// Solves positions, remembering bounds from one search to the next. Its answers do not depend on what it remembers.
pub struct Solver {
    table: Vec<u64>,
    shift: u32,
    nodes: u64,
}

impl Default for Solver {
    fn default() -> Self {
        Self::with_table_bits(TABLE_BITS)
    }
}

impl Solver {
    /// A solver with 2^`bits` table entries of 8 bytes. Long searches, from early positions, gain from more.
    pub fn with_table_bits(bits: u32) -> Self {
        Solver { table: vec![0; 1 << bits], shift: 64 - bits, nodes: 0 }
    }

    /// Positions visited so far.
    pub fn nodes(&self) -> u64 {
        self.nodes
    }

    /// The score of a position that is not over, for the player to move.
    pub fn score(&mut self, board: &Board) -> i32 {
        if board.winning_column().is_some() {
            return win_score(board);
        }
        let left = CELLS as i32 - board.discs() as i32;
        let (mut low, mut high) = (-left / 2, win_score(board));
        while low < high {
            // Near zero first: wins and losses far off are rare and costly to tell apart.
            let middle = low + (high - low) / 2;
            let middle = if middle <= 0 && low / 2 < middle {
                low / 2
            } else if middle >= 0 && high / 2 > middle {
                high / 2
            } else {
                middle
            };
            let bound = self.search(board, middle, middle + 1);
            if bound <= middle {
                high = bound;
            } else {
                low = bound;
            }
        }
        low
    }

    /// The column with the best score; the lowest of several. The game must not be over.
    pub fn best_column(&mut self, board: &Board) -> usize {
        match obvious_column(board) {
            Some(column) => column,
            None => {
                let score = self.score(board);
                self.best_column_given(board, score)
            }
        }
    }

    /// The column with the best score, when that score is known. The game must not be over.
    pub fn best_column_given(&mut self, board: &Board, score: i32) -> usize {
        if let Some(column) = obvious_column(board) {
            return column;
        }
        let moves = sensible_moves(board);
        let reaches = |solver: &mut Self, column: usize| {
            let cell = moves & column_mask(column);
            cell != 0 && solver.search(&board.place(cell), -score, 1 - score) <= -score
        };
        (0..COLUMNS)
            .find(|&column| reaches(self, column))
            .expect("some move reaches the score of the position")
    }

    /// Bounds the score within `alpha..=beta` (fail-soft): exact inside, else on the right side of the window.
    ///
    /// The player to move must not be able to win at once.
    fn search(&mut self, board: &Board, mut alpha: i32, mut beta: i32) -> i32 {
        self.nodes += 1;
        let discs = board.discs();
        let left = CELLS as i32 - discs as i32;

        let moves = sensible_moves(board);
        if moves == 0 {
            return -(left / 2); // they win with their next disc, unless there is no next disc
        }
        if left <= 2 {
            return 0;
        }
        // They cannot win with their next disc, and I cannot with this one.
        let (lowest, highest) = (-((left - 2) / 2), (left - 1) / 2);
        alpha = alpha.max(lowest);
        beta = beta.min(highest);
        if alpha >= beta {
            return if alpha > lowest { beta } else { alpha };
        }

        let key = board.key();
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize;
        match Bound::unpack(self.table[slot], key) {
            Some(Bound::AtLeast(bound)) => {
                alpha = alpha.max(bound);
                if alpha >= beta {
                    return alpha;
                }
            }
            Some(Bound::AtMost(bound)) => {
                beta = beta.min(bound);
                if alpha >= beta {
                    return beta;
                }
            }
            None => {}
        }

        let Some(ordered) = OrderedMoves::of(board, moves) else {
            return highest; // some move makes two threats at once
        };
        let mut bound = None;
        for &cell in ordered.cells() {
            let score = -self.search(&board.place(cell), -beta, -alpha);
            if score >= beta {
                bound = Some(Bound::AtLeast(score));
                break;
            }
            alpha = alpha.max(score);
        }
        let bound = bound.unwrap_or(Bound::AtMost(alpha));
        if discs < TABLE_MAX_DISCS {
            self.table[slot] = bound.pack(key);
        }
        bound.value()
    }
}

/// The score of winning with the next disc.
pub(super) fn win_score(board: &Board) -> i32 {
    (CELLS as i32 + 1 - board.discs() as i32) / 2
}

/// The best column where no search is needed: a win, the only move, or any when all lose at once.
pub fn obvious_column(board: &Board) -> Option<usize> {
    if let Some(column) = board.winning_column() {
        return Some(column);
    }
    let moves = sensible_moves(board);
    match moves.count_ones() {
        0 => Some(column_of(board.possible())),
        1 => Some(column_of(moves)),
        _ => None,
    }
}

/// The moves that do not let the other player win at once. Empty when every move does.
fn sensible_moves(board: &Board) -> u64 {
    let threats = board.their_threats();
    let mut moves = board.possible();
    let forced = moves & threats;
    if forced != 0 {
        if !forced.is_power_of_two() {
            return 0;
        }
        moves = forced;
    }
    moves & !(threats >> 1)
}

/// Moves in the order they should be tried.
struct OrderedMoves {
    cells: [u64; COLUMNS],
    count: usize,
}

impl OrderedMoves {
    /// Most threats first, then from the centre outwards. `None` when a move wins with the disc after next.
    fn of(board: &Board, moves: u64) -> Option<Self> {
        let mut ordered = OrderedMoves { cells: [0; COLUMNS], count: 0 };
        let mut counts = [0; COLUMNS];
        for column in CENTRE_FIRST {
            let cell = moves & column_mask(column);
            if cell == 0 {
                continue;
            }
            let occupied = board.occupied() | cell;
            let made = threats(board.mine() | cell, occupied);
            let count = made.count_ones();
            if count >= 2 {
                // Two at once, or one above another: they can stop only one.
                let at_once = made & (occupied + BOTTOM) & ALL_CELLS;
                if at_once & at_once.wrapping_sub(1) != 0 || (at_once << 1) & made != 0 {
                    return None;
                }
            }
            let mut place = ordered.count;
            while place > 0 && counts[place - 1] < count {
                counts[place] = counts[place - 1];
                ordered.cells[place] = ordered.cells[place - 1];
                place -= 1;
            }
            counts[place] = count;
            ordered.cells[place] = cell;
            ordered.count += 1;
        }
        Some(ordered)
    }

    fn cells(&self) -> &[u64] {
        &self.cells[..self.count]
    }
}

/// What a search found out about a score.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(i32),
    AtMost(i32),
}

impl Bound {
    fn value(self) -> i32 {
        match self {
            Bound::AtLeast(value) | Bound::AtMost(value) => value,
        }
    }

    /// A table entry: the key above, the bound in the lowest byte. Keys have 49 bits and are never 0.
    fn pack(self, key: u64) -> u64 {
        let code = match self {
            Bound::AtLeast(value) => 128 + 64 + value,
            Bound::AtMost(value) => 64 + value,
        };
        key << 8 | code as u64
    }

    fn unpack(entry: u64, key: u64) -> Option<Self> {
        if entry >> 8 != key {
            return None;
        }
        let code = (entry & 255) as i32;
        Some(if code >= 128 { Bound::AtLeast(code - 192) } else { Bound::AtMost(code - 64) })
    }
}
