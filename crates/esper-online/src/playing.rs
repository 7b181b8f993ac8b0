//! Worlds that are played in, episode after episode, and the way back to where they are.
//!
//! A world cannot be written down. But only its seed and what was done decide an episode, so an episode under way is a number
//! and a list of actions: playing them again leads to the same place.

use esper_data::{Cells, CellsRef, Seed};
use esper_tasks::{Step, WorldError, Worlds};
use serde::{Deserialize, Serialize};

use crate::replay::cells_of;

/// Copies of a world, each with an episode under way.
pub(crate) struct Playing {
    worlds: Worlds,
    seed: Seed,
    /// Episodes that have begun.
    begun: u64,
    episodes: Vec<Episode>,
}

/// An episode under way.
struct Episode {
    number: u64,
    /// What was done in it so far.
    actions: Cells,
    /// What it paid so far.
    paid: f64,
}

/// An episode that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Finished {
    /// The copy it was played in.
    pub(crate) copy: usize,
    /// Its return.
    pub(crate) returned: f64,
}

/// What it takes to come back: the numbers of the episodes, and what was done in them.
#[derive(Serialize, Deserialize)]
struct Kept {
    begun: u64,
    episodes: Vec<(u64, Vec<f32>)>,
}

impl Playing {
    /// Begins an episode in every copy.
    pub(crate) fn new(worlds: Worlds, seed: Seed) -> Result<Self, WorldError> {
        let mut playing = Playing { worlds, seed, begun: 0, episodes: Vec::new() };
        for copy in 0..playing.worlds.copies() {
            let episode = playing.begin(copy)?;
            playing.episodes.push(episode);
        }
        Ok(playing)
    }

    /// The next episode, in a copy.
    fn begin(&mut self, copy: usize) -> Result<Episode, WorldError> {
        let number = self.begun;
        self.worlds.reset(copy, self.seed.indexed(number).value())?;
        self.begun += 1;
        Ok(Episode { number, actions: Cells::empty(self.action_cells()), paid: 0.0 })
    }

    fn action_cells(&self) -> esper_data::CellType {
        self.worlds.spaces().action.cell_type()
    }

    pub(crate) fn worlds(&self) -> &Worlds {
        &self.worlds
    }

    /// Takes a step in every copy. Episodes that are over stay so until [`Playing::begin_again`].
    pub(crate) fn step(&mut self, actions: CellsRef<'_>) -> Result<Vec<Step>, WorldError> {
        let width = self.worlds.spaces().action.cells();
        self.worlds.step(actions)?;
        for (copy, episode) in self.episodes.iter_mut().enumerate() {
            episode.actions.extend_from(actions, copy * width..(copy + 1) * width);
            episode.paid += f64::from(self.worlds.steps()[copy].reward);
        }
        Ok(self.worlds.steps().to_vec())
    }

    /// Begins a new episode wherever one is over, and tells which were.
    pub(crate) fn begin_again(&mut self) -> Result<Vec<Finished>, WorldError> {
        let mut finished = Vec::new();
        for copy in 0..self.episodes.len() {
            if !self.worlds.running()[copy] {
                finished.push(Finished { copy, returned: self.episodes[copy].paid });
                self.episodes[copy] = self.begin(copy)?;
            }
        }
        Ok(finished)
    }

    /// What it takes to come back to this place.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let numbers = |cells: CellsRef<'_>| (0..cells.len()).map(|at| cells.number(at)).collect();
        let episodes = self.episodes.iter();
        let episodes = episodes.map(|episode| (episode.number, numbers(episode.actions.view())));
        let kept = Kept { begun: self.begun, episodes: episodes.collect() };
        serde_json::to_vec(&kept).expect("numbers can always be written")
    }

    /// Comes back to where [`Playing::to_bytes`] was: every episode under way is played again.
    pub(crate) fn restore(&mut self, bytes: &[u8]) -> Result<(), WorldError> {
        let elsewhere = || WorldError::failed("a checkpoint is not of this training");
        let kept: Kept = serde_json::from_slice(bytes).map_err(|_| elsewhere())?;
        let (copies, width) = (self.worlds.copies(), self.worlds.spaces().action.cells());
        let whole = |(_, actions): &(u64, Vec<f32>)| actions.len().is_multiple_of(width);
        if kept.episodes.len() != copies || !kept.episodes.iter().all(whole) {
            return Err(elsewhere());
        }
        let longest = kept.episodes.iter().map(|(_, actions)| actions.len() / width).max();
        let longest = longest.unwrap_or(0);
        // All copies are stepped together. Whoever has done less begins later: its episode starts when there are as many
        // steps left as it has done.
        let mut episodes = Vec::new();
        for (number, numbers) in &kept.episodes {
            let actions = cells_of(self.action_cells(), numbers.iter().copied());
            episodes.push(Episode { number: *number, actions, paid: 0.0 });
        }
        let done = |episode: &Episode| episode.actions.len() / width;
        for time in 0..=longest {
            for (copy, episode) in episodes.iter().enumerate() {
                if longest - done(episode) == time {
                    self.worlds.reset(copy, self.seed.indexed(episode.number).value())?;
                }
            }
            if time == longest {
                break;
            }
            let mut actions = Cells::empty(self.action_cells());
            for episode in &episodes {
                // Before its start a copy may do anything; nobody looks.
                let at = (time + done(episode)).saturating_sub(longest);
                let nothing = cells_of(self.action_cells(), std::iter::repeat_n(0.0, width));
                match done(episode) {
                    0 => actions.extend_from(nothing.view(), 0..width),
                    _ => actions.extend_from(episode.actions.view(), at * width..(at + 1) * width),
                }
            }
            self.worlds.step(actions.view())?;
            for (copy, episode) in episodes.iter_mut().enumerate() {
                if time + done(episode) >= longest {
                    episode.paid += f64::from(self.worlds.steps()[copy].reward);
                }
            }
        }
        (self.begun, self.episodes) = (kept.begun, episodes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::CellType;
    use esper_tasks::twenty48::Twenty48;

    fn playing() -> Playing {
        Playing::new(Worlds::of(&Twenty48::default(), 5).unwrap(), Seed::new(3)).unwrap()
    }

    /// Moves that differ by time and copy.
    fn go_on(playing: &mut Playing, times: std::ops::Range<usize>) -> Vec<Finished> {
        let mut finished = Vec::new();
        for time in times {
            let mut actions = Cells::empty(CellType::Byte);
            (0..5).for_each(|copy| actions.push_category((time / (copy + 1) + copy) % 4));
            playing.step(actions.view()).unwrap();
            finished.extend(playing.begin_again().unwrap());
        }
        finished
    }

    #[test]
    fn whoever_comes_back_goes_on_as_if_never_away() {
        let mut stayed = playing();
        assert!(!go_on(&mut stayed, 0..333).is_empty());
        let mut returned = playing();
        returned.restore(&stayed.to_bytes()).unwrap();
        assert_eq!(returned.worlds().observations(), stayed.worlds().observations());
        assert_eq!(go_on(&mut returned, 333..700), go_on(&mut stayed, 333..700));
        assert!(returned.restore(b"{}").is_err());
    }
}
