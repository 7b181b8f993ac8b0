//! The oracle: the best column of any position, from the book, from memory, or by solving.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use super::book::Book;
use super::rules::Board;
use super::solver::{Solver, obvious_column};

/// Slots of the memory: 8 bytes each, 2 MB in all.
const MEMORY_BITS: u32 = 18;

/// Answers which column is best (the strong score; the lowest index among equals), from many threads at once.
///
/// The answers are exact wherever they come from, so neither threads nor memory can change them.
pub struct Oracle {
    book: Book,
    /// Solved positions, each in the slot its key falls on: the key above, the column in the lowest 3 bits.
    memory: Vec<AtomicU64>,
    /// Solvers at rest; a thread that has to search takes one and brings it back.
    solvers: Mutex<Vec<Solver>>,
}

impl Oracle {
    /// An oracle with this book.
    pub fn new(book: Book) -> Self {
        Oracle {
            book,
            memory: (0..1 << MEMORY_BITS).map(|_| AtomicU64::new(0)).collect(),
            solvers: Mutex::new(Vec::new()),
        }
    }

    /// The oracle with the book inside the program, one for the whole process.
    pub fn shared() -> Arc<Oracle> {
        static SHARED: LazyLock<Arc<Oracle>> =
            LazyLock::new(|| Arc::new(Oracle::new(Book::included())));
        SHARED.clone()
    }

    /// The best column of a position whose game is not over.
    pub fn best_column(&self, board: &Board) -> usize {
        if let Some(column) = obvious_column(board).or_else(|| self.book.column(board)) {
            return column;
        }
        let key = board.key();
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MEMORY_BITS)) as usize;
        let known = self.memory[slot].load(Ordering::Relaxed);
        if known >> 3 == key {
            return (known & 7) as usize;
        }
        let column = self.solve(board);
        self.memory[slot].store(key << 3 | column as u64, Ordering::Relaxed);
        column
    }

    fn solve(&self, board: &Board) -> usize {
        // A solver is never left half-changed, so a lock poisoned by another thread's panic is still good.
        let at_rest = || self.solvers.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = at_rest().pop();
        let mut solver = taken.unwrap_or_default();
        let column = solver.best_column(board);
        at_rest().push(solver);
        column
    }
}
