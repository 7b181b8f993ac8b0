//! Actions that were never taken in some states, though they were elsewhere.

use super::{listed, value_name};
use crate::cells::CellsRef;
use crate::dataset::{Dataset, Metadata, in_parts, rows_at_once};
use crate::fields::{Field, FieldKind};
use crate::space::Space;

/// An action that would have been taken so often in a state, if states made no difference, and never was.
const EXPECTED: f64 = 10.0;

/// The most numbers that are counted to find actions that are never taken in some states.
const MOST_COUNTS: usize = 1 << 20;

/// How often each action was taken where a cell of the observation had each of its values.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    /// Cells with few values, and how many each has.
    cells: Vec<(usize, usize)>,
    actions: usize,
    /// By cell, value and action.
    counts: Vec<u64>,
}

impl Choices {
    /// What there is to count: choices among some, where cells with names or single states have few values.
    pub(super) fn of(metadata: &Metadata) -> Self {
        let Space::Discrete { n: actions } = metadata.action_space else {
            return Choices::default();
        };
        let fields = &metadata.fields.observation;
        let limits = metadata.observation_space.categories();
        let is_state = matches!(metadata.observation_space, Space::Discrete { .. });
        let values = |cell: usize| match (fields.get(cell).map(|field| &field.kind), limits[cell]) {
            (Some(FieldKind::Category { .. }), Some(n)) => Some(n as usize),
            (Some(FieldKind::Boolean { .. } | FieldKind::Missing), _) => Some(2),
            (None, Some(n)) if is_state => Some(n as usize),
            _ => None,
        };
        let cells: Vec<(usize, usize)> =
            (0..limits.len()).filter_map(|cell| Some((cell, values(cell)?))).collect();
        let total: usize = cells.iter().map(|(_, values)| values).sum();
        let actions = actions as usize;
        match total.saturating_mul(actions) {
            counts @ 1..=MOST_COUNTS => Choices { cells, actions, counts: vec![0; counts] },
            _ => Choices::default(),
        }
    }

    pub(super) fn add(&mut self, data: &Dataset) {
        if self.cells.is_empty() {
            return;
        }
        let width = data.metadata().observation_space.cells();
        // Of every episode as many observations as steps: what follows the last one is not acted on.
        let rows = (0..data.episodes()).flat_map(|episode| {
            data.episode_steps(episode).zip(data.episode_observations(episode))
        });
        in_parts(rows, rows_at_once(width), |rows| {
            let (steps, rows): (Vec<usize>, Vec<usize>) = rows.iter().copied().unzip();
            data.with_actions(&steps, |taken, steps| {
                data.with_observations(&rows, |seen, rows| {
                    let pairs = steps.iter().zip(rows);
                    pairs.for_each(|(&step, &row)| {
                        self.add_step(seen, row * width, taken.category(step));
                    });
                });
            });
        });
    }

    /// Counts an action where the cells of an observation begin.
    fn add_step(&mut self, seen: CellsRef<'_>, at: usize, action: usize) {
        let mut first = 0;
        for &(cell, values) in &self.cells {
            let value = seen.number(at + cell) as usize;
            self.counts[(first + value.min(values - 1)) * self.actions + action] += 1;
            first += values;
        }
    }

    /// Actions that were never taken in some states, though they were elsewhere.
    pub(super) fn found(&self, metadata: &Metadata) -> Option<String> {
        let (mut missing, mut first) = (Vec::new(), 0);
        for &(cell, values) in &self.cells {
            let counts = &self.counts[first * self.actions..(first + values) * self.actions];
            first += values;
            let steps = counts.iter().sum::<u64>().max(1) as f64;
            for action in 0..self.actions {
                let taken: u64 = counts.iter().skip(action).step_by(self.actions).sum();
                for (value, of_value) in counts.chunks_exact(self.actions).enumerate() {
                    let there = of_value.iter().sum::<u64>();
                    if of_value[action] == 0 && there as f64 * taken as f64 / steps >= EXPECTED {
                        missing.push((there, cell, value, action));
                    }
                }
            }
        }
        if missing.is_empty() {
            return None;
        }
        // Where it matters most first.
        missing.sort_by(|a, b| b.0.cmp(&a.0).then(a.cmp(b)));
        let is_state = metadata.fields.observation.is_empty();
        let name = |&(steps, cell, value, action): &(u64, usize, usize, usize)| {
            let action = value_name(&metadata.fields.action, 0, action);
            let place = match is_state {
                true => format!("the state is {value}"),
                false => said(&metadata.fields.observation[cell], value),
            };
            format!("action {action} where {place} ({steps} steps)")
        };
        Some(format!(
            "never taken in some states: {}; nothing is known of them there: check that they are not possible, or distrust a \
             policy that takes them",
            listed(missing.iter().map(name), ", ")
        ))
    }
}

/// A field with one of its few values, in words.
fn said(field: &Field, value: usize) -> String {
    match (&field.kind, value) {
        (FieldKind::Missing, 0) => format!("{} is known", field.name),
        (FieldKind::Missing, _) => format!("{} is missing", field.name),
        (FieldKind::Category { values }, value) => match values.get(value) {
            Some(word) => format!("{} is {word}", field.name),
            None => format!("{} is {value}", field.name),
        },
        (_, value) => format!("{} is {}", field.name, value == 1),
    }
}
