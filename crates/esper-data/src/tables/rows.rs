//! The second pass: rows as cells, and their places in the episodes they belong to.

use super::chunks::Chunk;
use super::plan::{Plan, TimeKind};
use super::survey::{Slots, Survey, reward};
use super::value::{Look, Value};
use crate::cells::Cells;
use crate::error::DataError;
use crate::space::Space;

/// Converted rows, in the order they were read.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) episode: Vec<u32>,
    /// Sorts the rows of an episode; empty where the order of the file does.
    pub(super) time: Vec<i64>,
    pub(super) observation: Cells,
    pub(super) action: Cells,
    /// NaN where there is none.
    pub(super) reward: Vec<f32>,
    /// Whether the row says that the episode ended, and whether it says that it was cut.
    pub(super) flags: Vec<u8>,
    /// Empty where there are no behaviours.
    pub(super) behaviour: Vec<u16>,
    /// For every row whether it has a final observation; empty where no row may have one.
    pub(super) has_final: Vec<bool>,
    /// Those, one after the other.
    pub(super) finals: Cells,
}

pub(super) const ENDED: u8 = 1;
pub(super) const CUT: u8 = 2;

/// What is said when a file is not what it was in the first pass.
pub(super) fn changed() -> String {
    "is not what it was a moment ago: the file was changed while it was read".to_owned()
}

impl Rows {
    pub(super) fn empty(plan: &Plan) -> Self {
        let cells = |space: &Space| Cells::empty(space.cell_type());
        Rows {
            episode: Vec::new(),
            time: Vec::new(),
            observation: cells(&plan.metadata.observation_space),
            action: cells(&plan.metadata.action_space),
            reward: Vec::new(),
            flags: Vec::new(),
            behaviour: Vec::new(),
            has_final: Vec::new(),
            finals: cells(&plan.metadata.observation_space),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.episode.len()
    }
}

impl Survey {
    /// Converts the rows of a chunk.
    pub(super) fn convert(&self, chunk: &Chunk<'_>) -> Result<Rows, DataError> {
        let Survey { slots, plan, episodes, .. } = self;
        let mut rows = Rows::empty(plan);
        let mut buffer = String::new();
        chunk.rows(|_, values| {
            let id = values[slots.episode].text(&mut buffer);
            let number = episodes.ids.find(id).ok_or_else(changed)?;
            rows.episode.push(number as u32);
            for cell in &plan.observation {
                push(&mut rows.observation, cell.cell(&values[cell.slot], &mut buffer)?);
            }
            for cell in &plan.action {
                push(&mut rows.action, cell.cell(&values[cell.slot], &mut buffer)?);
            }
            rows.reward.push(reward(&values[slots.reward])?.unwrap_or(f32::NAN));
            let says = |slot: Option<usize>, flag: u8| {
                let truth = slot.and_then(|slot| values[slot].truth());
                if truth == Some(true) { flag } else { 0 }
            };
            rows.flags.push(says(slots.end, ENDED) | says(slots.cut, CUT));
            if let Some(slot) = slots.time {
                rows.time.push(time_key(&values[slot], plan.time).ok_or_else(changed)?);
            }
            if let Some(slot) = slots.behaviour {
                let name = plan.behaviours.find(values[slot].text(&mut buffer));
                rows.behaviour.push(name.ok_or_else(changed)? as u16);
            }
            if !slots.finals.is_empty() {
                let has_final = slots.finals.iter().any(|&slot| values[slot] != Value::Missing);
                rows.has_final.push(has_final);
                if has_final {
                    for cell in &plan.observation {
                        let value = cell.final_slot.map_or(&Value::Missing, |slot| &values[slot]);
                        push(&mut rows.finals, cell.cell(value, &mut buffer)?);
                    }
                }
            }
            Ok(())
        })?;
        Ok(rows)
    }
}

fn push(cells: &mut Cells, cell: f32) {
    match cells {
        Cells::Float(cells) => cells.push(cell),
        _ => cells.push_category(cell as usize),
    }
}

/// A whole number that is in the order of the times.
pub(super) fn time_key(value: &Value<'_>, kind: TimeKind) -> Option<i64> {
    // The bits of a float are in its order if those behind the sign are turned where it is negative.
    let ordered = |number: f64| {
        let bits = (number + 0.0).to_bits() as i64;
        bits ^ (((bits >> 63) as u64) >> 1) as i64
    };
    match (kind, value.look()) {
        (TimeKind::FileOrder, _) => Some(0),
        (TimeKind::Whole, Look::Whole(number) | Look::Padded(number)) => Some(number),
        (TimeKind::Number, Look::Whole(number) | Look::Padded(number)) => {
            Some(ordered(number as f64))
        }
        (TimeKind::Number, Look::Number(number)) => Some(ordered(number)),
        (TimeKind::Scaled { decimals, base }, _) => {
            i64::try_from(value.scaled(decimals)?.checked_sub(base)?).ok()
        }
        (TimeKind::Date { unit }, Look::Date(_)) => {
            i64::try_from(value.nanoseconds()?.div_euclid(i128::from(unit))).ok()
        }
        _ => None,
    }
}

/// The rows of some episodes that follow each other, each at its place.
pub(super) struct Group {
    /// The first episode.
    pub(super) first: usize,
    /// Where every episode starts, and where the last ends.
    pub(super) starts: Vec<usize>,
    /// Rows that every episode has so far.
    filled: Vec<usize>,
    pub(super) time: Vec<i64>,
    pub(super) observation: Cells,
    pub(super) action: Cells,
    pub(super) reward: Vec<f32>,
    pub(super) flags: Vec<u8>,
    /// For every row the number of its final observation plus one, 0 if it has none; empty where no row may have one.
    pub(super) final_of: Vec<u32>,
    pub(super) finals: Cells,
}

impl Group {
    /// A place for all rows of the episodes in a range.
    pub(super) fn new(survey: &Survey, episodes: std::ops::Range<usize>) -> Self {
        let mut starts = vec![0];
        let mut rows = 0;
        for episode in &survey.episodes.facts[episodes.clone()] {
            rows += episode.rows as usize;
            starts.push(rows);
        }
        let Survey { plan, slots, .. } = survey;
        let cells = |space: &Space| Cells::filled(space.cell_type(), rows * space.cells());
        let observation_space = &plan.metadata.observation_space;
        Group {
            first: episodes.start,
            starts,
            filled: vec![0; episodes.len()],
            time: vec![0; if slots.time.is_some() { rows } else { 0 }],
            observation: cells(observation_space),
            action: cells(&plan.metadata.action_space),
            reward: vec![0.0; rows],
            flags: vec![0; rows],
            final_of: vec![0; if slots.finals.is_empty() { 0 } else { rows }],
            finals: Cells::empty(observation_space.cell_type()),
        }
    }

    /// Puts rows of its episodes to their places.
    pub(super) fn add(&mut self, rows: &Rows) -> Result<(), DataError> {
        let (mut finals, width) = (0, self.width(&self.observation));
        let action_width = self.width(&self.action);
        for row in 0..rows.len() {
            let episode = (rows.episode[row] as usize).wrapping_sub(self.first);
            let lost = || DataError::Invalid(format!("a row {}", changed()));
            let place = match self.filled.get_mut(episode) {
                Some(filled) => {
                    let place = self.starts[episode] + *filled;
                    *filled += 1;
                    place
                }
                None => return Err(lost()),
            };
            if place >= self.starts[episode + 1] {
                return Err(lost());
            }
            copy(&rows.observation, row, &mut self.observation, place, width);
            copy(&rows.action, row, &mut self.action, place, action_width);
            self.reward[place] = rows.reward[row];
            self.flags[place] = rows.flags[row];
            if let Some(time) = rows.time.get(row) {
                self.time[place] = *time;
            }
            if rows.has_final.get(row) == Some(&true) {
                let range = finals * width..(finals + 1) * width;
                self.finals.extend_from(rows.finals.view(), range);
                finals += 1;
                self.final_of[place] = (self.finals.len() / width.max(1)) as u32;
            }
        }
        Ok(())
    }

    /// Cells of a row.
    fn width(&self, cells: &Cells) -> usize {
        cells.len() / self.reward.len().max(1)
    }

    /// Whether all rows are there that were counted.
    pub(super) fn is_full(&self) -> bool {
        let lengths = self.starts.windows(2).map(|pair| pair[1] - pair[0]);
        lengths.zip(&self.filled).all(|(length, filled)| length == *filled)
    }
}

/// Copies a row of cells of the same type.
fn copy(from: &Cells, from_row: usize, to: &mut Cells, to_row: usize, width: usize) {
    let (source, place) =
        (from_row * width..(from_row + 1) * width, to_row * width..(to_row + 1) * width);
    match (from, to) {
        (Cells::Byte(from), Cells::Byte(to)) => to[place].copy_from_slice(&from[source]),
        (Cells::Short(from), Cells::Short(to)) => to[place].copy_from_slice(&from[source]),
        (Cells::Float(from), Cells::Float(to)) => to[place].copy_from_slice(&from[source]),
        // Both are made for the same space.
        _ => {}
    }
}

/// The slots of a survey whose rows are looked for again.
pub(super) fn wanted(slots: &Slots) -> Vec<usize> {
    let mut wanted = vec![slots.columns[slots.episode]];
    wanted.extend(slots.time.map(|slot| slots.columns[slot]));
    wanted
}
