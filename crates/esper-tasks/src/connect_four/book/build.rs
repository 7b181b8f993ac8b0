//! Working the book out.

use std::collections::{BTreeMap, HashMap, HashSet};

use rayon::prelude::*;

use super::{Book, BookError, Database, Scope};
use crate::connect_four::env::LAPSE_COLUMN;
use crate::connect_four::rules::{Board, COLUMNS};
use crate::connect_four::solver::{Solver, obvious_column};

impl Book {
    /// Works the book out, layer by layer of discs. `progress` is told of every layer: discs, positions, those searched.
    ///
    /// With a [`Database`] it takes about half an hour on two cores; without, many hours.
    pub fn build(
        database: Option<&Database>,
        scope: Scope,
        progress: impl FnMut(u32, usize, usize),
    ) -> Result<Self, BookError> {
        Self::build_from(Board::default(), database, scope, progress)
    }

    /// The book of what can follow on one position.
    fn build_from(
        start: Board,
        database: Option<&Database>,
        scope: Scope,
        mut progress: impl FnMut(u32, usize, usize),
    ) -> Result<Self, BookError> {
        let mut entries = Vec::new();
        let mut layer = BTreeMap::from([(start, 0)]);
        let mut scores: HashMap<u64, i32> = HashMap::new();
        for discs in start.discs()..=scope.late_plies.max(scope.plies) {
            // In order, so that neighbours, which share much of their search, are solved one after the other.
            let searched: Vec<Board> =
                layer.keys().copied().filter(|board| obvious_column(board).is_none()).collect();
            progress(discs, layer.len(), searched.len());

            let columns: HashMap<Board, usize> = if discs < scope.plies {
                let children: HashSet<Board> = searched.iter().flat_map(children).collect();
                scores = score_all(database, &children).ok_or(BookError::IncompleteDatabase)?;
                searched.iter().map(|&board| (board, best_of_children(&board, &scores))).collect()
            } else {
                // Some scores are known from choosing in the layer before.
                let best = |solver: &mut Solver, board: &Board| match scores.get(&board.key()) {
                    Some(&score) => (*board, solver.best_column_given(board, score)),
                    None => (*board, solver.best_column(board)),
                };
                searched.par_iter().map_init(Solver::default, best).collect()
            };
            entries.extend(columns.iter().map(|(board, &column)| board.key() << 3 | column as u64));
            let best = |board: &Board| obvious_column(board).unwrap_or_else(|| columns[board]);
            layer = next_layer(&layer, best, scope);
        }
        entries.sort_unstable();
        Ok(Book { entries })
    }
}

/// The positions that can follow on a layer within the scope, each with the fewest deviations it takes.
fn next_layer(
    layer: &BTreeMap<Board, u32>,
    best: impl Fn(&Board) -> usize,
    scope: Scope,
) -> BTreeMap<Board, u32> {
    let mut next = BTreeMap::new();
    for (board, &deviations) in layer {
        let best = best(board);
        let agent_to_move = board.discs().is_multiple_of(2);
        for column in (0..COLUMNS).filter(|&column| board.is_playable(column)) {
            if column != best && !agent_to_move && best != LAPSE_COLUMN {
                continue;
            }
            let child = board.drop(column);
            let deviations = deviations + u32::from(agent_to_move && column != best);
            let in_scope = child.discs() <= scope.plies || deviations <= scope.late_deviations;
            if in_scope && !child.is_lost() && !child.is_full() {
                let fewest = next.entry(child).or_insert(deviations);
                *fewest = deviations.min(*fewest);
            }
        }
    }
    next
}

/// The positions one disc on.
pub(super) fn children(board: &Board) -> impl Iterator<Item = Board> + use<> {
    let board = *board;
    (0..COLUMNS)
        .filter(move |&column| board.is_playable(column))
        .map(move |column| board.drop(column))
}

/// The lowest column whose child is worst for the other player. No child is won at once.
fn best_of_children(board: &Board, scores: &HashMap<u64, i32>) -> usize {
    let playable = (0..COLUMNS).filter(|&column| board.is_playable(column));
    let scored = playable.map(|column| (-scores[&board.drop(column).key()], column));
    let best = scored.max_by_key(|&(score, column)| (score, std::cmp::Reverse(column)));
    best.expect("the board is not full").1
}

/// The scores of positions with equally many discs. `None` if the database lacks one.
fn score_all(database: Option<&Database>, boards: &HashSet<Board>) -> Option<HashMap<u64, i32>> {
    match (database, boards.iter().next()) {
        (Some(database), Some(board)) if board.discs() <= Database::DISCS => {
            let mut known = HashMap::new();
            boards
                .iter()
                .map(|board| Some((board.key(), database.score(board, &mut known)?)))
                .collect()
        }
        _ => {
            let mut boards: Vec<&Board> = boards.iter().collect();
            boards.sort_unstable();
            // Early positions take long searches, which a larger table shortens.
            let early = boards.first().is_some_and(|board| board.discs() < 12);
            let solver = || {
                if early { Solver::with_table_bits(24) } else { Solver::default() }
            };
            let score = |solver: &mut Solver, board: &Board| (board.key(), solver.score(board));
            Some(boards.into_par_iter().map_init(solver, score).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the middle of a game, where solving is quick: every entry is what the solver says, and there are both sides'.
    #[test]
    fn a_book_holds_what_solving_gives() {
        let start = [0, 1, 0, 1, 1, 0, 1, 0, 2, 3, 2, 3, 3, 2, 3, 2, 4, 5, 4, 5];
        let start = Board::after(&start).unwrap();
        let scope = Scope { plies: 22, late_plies: 25, late_deviations: 1 };
        let book = Book::build_from(start, None, scope, |_, _, _| ()).unwrap();
        let mut solver = Solver::default();
        let mut layers = HashSet::new();
        for (board, column) in book.entries() {
            assert_eq!(solver.best_column(&board), column, "{board:?}");
            layers.insert(board.discs());
        }
        assert_eq!(layers, (20..=25).collect());
    }
}
