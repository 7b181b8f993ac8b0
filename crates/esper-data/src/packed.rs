//! Packed batches: episodes of different lengths as dense rows, without padding.
//!
//! Episodes are sorted longest first and laid out time-major: the first steps of all of them, then the second steps
//! of those that have one, and so on. What is still alive at time `t` is then always a prefix of the batch, which is
//! what a recurrent network steps over, and a network without memory sees plain rows.
//!
//! ```text
//! lengths 3, 2, 1      time  0 0 0  1 1  2       batch_sizes 3, 2, 1
//!                   episode  a b c  a b  a
//! ```

use crate::dataset::Dataset;

/// Which steps of a data set a batch holds, and in what order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedBatch {
    episodes: Vec<usize>,
    batch_sizes: Vec<usize>,
    offsets: Vec<usize>,
    step_rows: Vec<usize>,
    observation_rows: Vec<usize>,
}

impl PackedBatch {
    /// An empty batch, to be filled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fills the batch with whole episodes, reusing its memory.
    ///
    /// Episodes of equal length keep the order they were given in; an episode may be given twice.
    pub fn fill(&mut self, data: &Dataset, episodes: &[usize]) {
        self.episodes.clear();
        self.episodes.extend_from_slice(episodes);
        self.episodes.sort_by_key(|&episode| std::cmp::Reverse(data.length(episode)));
        self.batch_sizes.clear();
        self.offsets.clear();
        self.offsets.push(0);
        self.step_rows.clear();
        self.observation_rows.clear();

        let longest = self.episodes.first().map_or(0, |&episode| data.length(episode));
        let mut alive = self.episodes.len();
        for time in 0..longest {
            while data.length(self.episodes[alive - 1]) <= time {
                alive -= 1;
            }
            self.batch_sizes.push(alive);
            for (index, &episode) in self.episodes[..alive].iter().enumerate() {
                // Rows of an episode follow each other from its first one, which is the packed row `index`.
                let (step, observation) = match time {
                    0 => (
                        data.episode_steps(episode).start,
                        data.episode_observations(episode).start,
                    ),
                    _ => (self.step_rows[index] + time, self.observation_rows[index] + time),
                };
                self.step_rows.push(step);
                self.observation_rows.push(observation);
            }
            self.offsets.push(self.step_rows.len());
        }
    }

    /// The number of packed rows: the steps of all episodes together.
    pub fn rows(&self) -> usize {
        self.step_rows.len()
    }

    /// The episodes, longest first.
    pub fn episodes(&self) -> &[usize] {
        &self.episodes
    }

    /// How many episodes have a step at each time. Never grows.
    pub fn batch_sizes(&self) -> &[usize] {
        &self.batch_sizes
    }

    /// Where the rows of each time start, and after the last time the number of rows: `times + 1` entries. The step at
    /// time `t` of the `i`-th episode is row `offsets[t] + i`.
    pub fn offsets(&self) -> &[usize] {
        &self.offsets
    }

    /// For every packed row its step: the row of [`Dataset::actions`] and [`Dataset::rewards`].
    pub fn step_rows(&self) -> &[usize] {
        &self.step_rows
    }

    /// For every packed row the observation it acts on: the row of [`Dataset::observations`]. The one it leads to is the
    /// next row there.
    pub fn observation_rows(&self) -> &[usize] {
        &self.observation_rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;
    use crate::{DatasetBuilder, End};
    use rand::RngExt;

    /// A world whose observation numbers the steps of an episode and whose reward numbers the episode.
    fn numbered(lengths: &[usize]) -> Dataset {
        let mut builder = DatasetBuilder::inferring();
        for (episode, &length) in lengths.iter().enumerate() {
            for step in 0..length {
                builder.push(&[step as u16], &[0u8], episode as f32).unwrap();
            }
            builder.end(&[length as u16], End::default()).unwrap();
        }
        builder.build().unwrap()
    }

    #[test]
    fn rows_are_time_major_and_longest_first() {
        let data = numbered(&[1, 3, 2]);
        let mut batch = PackedBatch::new();
        batch.fill(&data, &[0, 1, 2]);
        assert_eq!(batch.episodes(), [1, 2, 0]);
        assert_eq!(batch.batch_sizes(), [3, 2, 1]);
        assert_eq!(batch.offsets(), [0, 3, 5, 6]);
        assert_eq!(batch.step_rows(), [1, 4, 0, 2, 5, 3]);
        assert_eq!(batch.observation_rows(), [2, 6, 0, 3, 7, 4]);
    }

    #[test]
    fn every_step_of_every_episode_is_there_once_at_its_time() {
        let mut rng = Seed::new(1).rng();
        let lengths: Vec<usize> = (0..40).map(|_| rng.random_range(1..30)).collect();
        let data = numbered(&lengths);
        let episodes: Vec<usize> = (0..40).rev().collect();
        let mut batch = PackedBatch::new();
        batch.fill(&data, &[3]); // what was there before must not show
        batch.fill(&data, &episodes);

        assert_eq!(batch.rows(), data.steps());
        let mut row = 0;
        for (time, &size) in batch.batch_sizes().iter().enumerate() {
            for (index, &episode) in batch.episodes()[..size].iter().enumerate() {
                assert_eq!(row, batch.offsets()[time] + index);
                assert_eq!(data.rewards()[batch.step_rows()[row]], episode as f32);
                assert_eq!(data.observations().category(batch.observation_rows()[row]), time);
                assert_eq!(
                    data.observations().category(batch.observation_rows()[row] + 1),
                    time + 1
                );
                row += 1;
            }
        }
        let mut steps = batch.step_rows().to_vec();
        steps.sort_unstable();
        assert_eq!(steps, (0..data.steps()).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_packs_to_nothing() {
        let mut batch = PackedBatch::new();
        batch.fill(&numbered(&[2]), &[]);
        assert_eq!((batch.rows(), batch.batch_sizes().len()), (0, 0));
        assert_eq!(batch.offsets(), [0]);
    }
}
