//! Checksums of the contents, so that damage that still decodes is noticed.

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};

use crate::cells::CellsRef;
use crate::dataset::{Dataset, Metadata};

/// CRC-32 of every column that is learned from, in the file's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksums {
    /// Of the lengths of the episodes and how they ended.
    pub episodes: u32,
    /// Of all observations, final ones included.
    pub observations: u32,
    /// Of all actions.
    pub actions: u32,
    /// Of all rewards.
    pub rewards: u32,
}

impl Checksums {
    /// The checksums of a data set; of a view, those of its own episodes.
    pub fn of(data: &Dataset) -> Self {
        let mut running = RunningChecksums::default();
        running.add(data);
        running.finish()
    }
}

/// Checksums of a data set that arrives in parts.
#[derive(Clone, Default)]
pub(super) struct RunningChecksums {
    episodes: Hasher,
    observations: Hasher,
    actions: Hasher,
    rewards: Hasher,
}

impl RunningChecksums {
    pub(super) fn add(&mut self, part: &Dataset) {
        for episode in 0..part.episodes() {
            let end = part.end(episode);
            self.episodes.update(&(part.length(episode) as u64).to_le_bytes());
            self.episodes.update(&[u8::from(end.terminated), u8::from(end.truncated)]);
        }
        let Metadata { observation_space, action_space, .. } = part.metadata();
        let (seen, done) = (observation_space.cells(), action_space.cells());
        for (steps, observations) in part.pieces() {
            part.scan_observations(observations, |cells, rows| {
                let range = rows[0] * seen..(rows[0] + rows.len()) * seen;
                add_cells(&mut self.observations, cells.slice(range));
            });
            part.scan_actions(steps.clone(), |cells, rows| {
                let range = rows[0] * done..(rows[0] + rows.len()) * done;
                add_cells(&mut self.actions, cells.slice(range));
            });
            add_cells(&mut self.rewards, CellsRef::Float(&part.rewards()[steps]));
        }
    }

    pub(super) fn finish(self) -> Checksums {
        Checksums {
            episodes: self.episodes.finalize(),
            observations: self.observations.finalize(),
            actions: self.actions.finalize(),
            rewards: self.rewards.finalize(),
        }
    }
}

fn add_cells(hasher: &mut Hasher, cells: CellsRef<'_>) {
    fn add<T: Copy, const N: usize>(hasher: &mut Hasher, values: &[T], bytes: fn(T) -> [u8; N]) {
        let mut buffer = Vec::with_capacity(N * values.len().min(4096));
        for chunk in values.chunks(4096) {
            buffer.clear();
            chunk.iter().for_each(|&value| buffer.extend_from_slice(&bytes(value)));
            hasher.update(&buffer);
        }
    }
    match cells {
        CellsRef::Byte(values) => hasher.update(values),
        CellsRef::Short(values) => add(hasher, values, u16::to_le_bytes),
        CellsRef::Float(values) => add(hasher, values, f32::to_le_bytes),
    }
}
