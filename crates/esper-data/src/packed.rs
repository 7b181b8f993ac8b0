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

/// Steps of an episode that follow each other: all of them, or some of one that is too long to be taken as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The episode.
    pub episode: usize,
    /// Its first step: steps since the start of the episode.
    pub start: usize,
    /// How many steps.
    pub length: usize,
}

impl Window {
    /// A whole episode.
    pub fn whole(data: &Dataset, episode: usize) -> Self {
        Window { episode, start: 0, length: data.length(episode) }
    }

    /// The step after the last.
    pub fn end(self) -> usize {
        self.start + self.length
    }
}

/// Which steps of a data set a batch holds, and in what order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PackedBatch {
    windows: Vec<Window>,
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
        self.windows.clear();
        self.windows.extend(episodes.iter().map(|&episode| Window::whole(data, episode)));
        self.pack(data);
    }

    /// The same with parts of episodes, each as if it were an episode. Time counts from a window's first step.
    ///
    /// # Panics
    ///
    /// When an episode has no such steps.
    pub fn fill_windows(&mut self, data: &Dataset, windows: &[Window]) {
        let within = |window: &Window| window.end() <= data.length(window.episode);
        assert!(windows.iter().all(within), "windows are parts of episodes");
        self.windows.clear();
        self.windows.extend_from_slice(windows);
        self.pack(data);
    }

    fn pack(&mut self, data: &Dataset) {
        self.windows.sort_by_key(|window| std::cmp::Reverse(window.length));
        self.batch_sizes.clear();
        self.offsets.clear();
        self.offsets.push(0);
        self.step_rows.clear();
        self.observation_rows.clear();

        let longest = self.windows.first().map_or(0, |window| window.length);
        let mut alive = self.windows.len();
        for time in 0..longest {
            while self.windows[alive - 1].length <= time {
                alive -= 1;
            }
            self.batch_sizes.push(alive);
            for (index, window) in self.windows[..alive].iter().enumerate() {
                // Rows of an episode follow each other from its first one, which is the packed row `index`.
                let (step, observation) = match time {
                    0 => (
                        data.episode_steps(window.episode).start + window.start,
                        data.episode_observations(window.episode).start + window.start,
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

    /// What was packed, longest first.
    pub fn windows(&self) -> &[Window] {
        &self.windows
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
        assert_eq!(batch.windows().iter().map(|it| it.episode).collect::<Vec<_>>(), [1, 2, 0]);
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
            for (index, window) in batch.windows()[..size].iter().enumerate() {
                assert_eq!(row, batch.offsets()[time] + index);
                assert_eq!(data.rewards()[batch.step_rows()[row]], window.episode as f32);
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

    /// The last two steps of an episode of three and the middle of one of five: steps 1, 2 and 4, 5, 6 of all.
    #[test]
    fn a_window_is_packed_like_an_episode() {
        let data = numbered(&[3, 5]);
        let mut batch = PackedBatch::new();
        let windows = [(0, 1, 2), (1, 1, 3)];
        let windows = windows.map(|(episode, start, length)| Window { episode, start, length });
        batch.fill_windows(&data, &windows);
        assert_eq!(batch.windows(), [windows[1], windows[0]]);
        assert_eq!(batch.batch_sizes(), [2, 2, 1]);
        assert_eq!(batch.step_rows(), [4, 1, 5, 2, 6]);
        assert_eq!(batch.observation_rows(), [5, 1, 6, 2, 7]);
    }

    #[test]
    fn nothing_packs_to_nothing() {
        let mut batch = PackedBatch::new();
        batch.fill(&numbered(&[2]), &[]);
        assert_eq!((batch.rows(), batch.batch_sizes().len()), (0, 0));
        assert_eq!(batch.offsets(), [0]);
    }
}
