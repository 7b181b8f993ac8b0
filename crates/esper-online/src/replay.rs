//! Replay buffer: everything that was seen while learning, nothing forgotten.

use esper_data::{
    CellType, Cells, CellsRef, DataError, Dataset, DatasetBuilder, End, Metadata, Space,
};
use esper_tasks::Step;

use crate::OnlineError;
use crate::learner::{elsewhere, next_part};

/// Transitions of several copies of a world, one of each copy in turn.
#[derive(Clone, Debug)]
pub struct Replay {
    copies: usize,
    /// `[steps, cells]` each: what was seen, and what was seen next.
    seen: Cells,
    next: Cells,
    /// `[steps, cells]`
    actions: Vec<f32>,
    steps: Vec<Step>,
    seen_cells: usize,
    action_cells: usize,
}

impl Replay {
    pub(crate) fn new(observation: &Space, action: &Space, copies: usize) -> Self {
        let empty = || Cells::empty(observation.cell_type());
        Replay {
            copies,
            seen: empty(),
            next: empty(),
            actions: Vec::new(),
            steps: Vec::new(),
            seen_cells: observation.cells(),
            action_cells: action.cells(),
        }
    }

    /// Adds a step of every copy.
    pub(crate) fn push(
        &mut self,
        seen: &Cells,
        actions: &[f32],
        steps: &[Step],
        next: CellsRef<'_>,
    ) {
        self.seen.extend_from(seen.view(), 0..seen.len());
        self.next.extend_from(next, 0..next.len());
        self.actions.extend_from_slice(actions);
        self.steps.extend_from_slice(steps);
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn seen(&self) -> &Cells {
        &self.seen
    }

    pub(crate) fn next(&self) -> &Cells {
        &self.next
    }

    pub(crate) fn actions(&self) -> &[f32] {
        &self.actions
    }

    pub(crate) fn step(&self, row: usize) -> Step {
        self.steps[row]
    }

    /// Its numbers, to go on from later.
    pub(crate) fn to_parts(&self) -> Vec<Vec<u8>> {
        let cells = |cells: &Cells| bytes_of((0..cells.len()).map(|at| cells.view().number(at)));
        let ends = |step: &Step| u8::from(step.terminated) | u8::from(step.truncated) << 1;
        vec![
            cells(&self.seen),
            cells(&self.next),
            bytes_of(self.actions.iter().copied()),
            bytes_of(self.steps.iter().map(|step| step.reward)),
            self.steps.iter().map(ends).collect(),
        ]
    }

    /// Goes back to what [`Replay::to_parts`] gave.
    pub(crate) fn restore(
        &mut self,
        parts: &mut dyn Iterator<Item = &[u8]>,
    ) -> Result<(), OnlineError> {
        let cell_type = self.seen.cell_type();
        let seen = cells_of(cell_type, numbers_of(next_part(parts)?));
        let next = cells_of(cell_type, numbers_of(next_part(parts)?));
        let actions: Vec<f32> = numbers_of(next_part(parts)?).collect();
        let rewards: Vec<f32> = numbers_of(next_part(parts)?).collect();
        let ends = next_part(parts)?;
        let count = ends.len();
        let fits = seen.len() == count * self.seen_cells
            && next.len() == seen.len()
            && actions.len() == count * self.action_cells
            && rewards.len() == count;
        if !fits {
            return Err(elsewhere());
        }
        let step = |(reward, end): (f32, &u8)| Step {
            reward,
            terminated: end & 1 != 0,
            truncated: end & 2 != 0,
        };
        self.steps = rewards.into_iter().zip(ends).map(step).collect();
        (self.seen, self.next, self.actions) = (seen, next, actions);
        Ok(())
    }

    /// The episodes that are over as a data set, in the order in which they ended.
    pub fn to_dataset(&self, metadata: Metadata, behaviour: &str) -> Result<Dataset, DataError> {
        let mut builder = DatasetBuilder::new(metadata);
        let mut begun: Vec<usize> = (0..self.copies).collect();
        for (row, step) in self.steps.iter().enumerate().filter(|(_, step)| step.is_over()) {
            let start = std::mem::replace(&mut begun[row % self.copies], row + self.copies);
            let cells = |cells: &Cells, row: usize| {
                let mut one = Cells::empty(cells.cell_type());
                one.extend_from(cells.view(), row * self.seen_cells..(row + 1) * self.seen_cells);
                one
            };
            for at in (start..=row).step_by(self.copies) {
                let action = &self.actions[at * self.action_cells..(at + 1) * self.action_cells];
                builder.push(&cells(&self.seen, at), action, self.steps[at].reward)?;
            }
            builder.made_by(behaviour);
            let end = End { terminated: step.terminated, truncated: step.truncated };
            builder.end(&cells(&self.next, row), end)?;
        }
        builder.build()
    }
}

/// Numbers as bytes.
fn bytes_of(numbers: impl Iterator<Item = f32>) -> Vec<u8> {
    numbers.flat_map(f32::to_le_bytes).collect()
}

/// Numbers from bytes.
fn numbers_of(bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes))
}

/// Numbers as cells of a type.
pub(crate) fn cells_of(cell_type: CellType, numbers: impl Iterator<Item = f32>) -> Cells {
    let mut cells = Cells::empty(cell_type);
    numbers.for_each(|number| match &mut cells {
        Cells::Float(cells) => cells.push(number),
        categories => categories.push_category(number as usize),
    });
    cells
}
