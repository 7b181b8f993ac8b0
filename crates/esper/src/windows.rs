//! Windows of long trajectories: what a training step takes of episodes that are too long to be taken as a whole.
//!
//! Truncated backpropagation through time bounds the memory of a step only if no more is computed than gradients flow
//! through. So an episode longer than `cluster.truncate` is cut into windows of that many steps, and a batch has one of them in its
//! place, each as likely as the others. The memory (an LSTM) starts from where it would be after the next window: that is
//! run through first, without gradients and from nothing, as a burn-in (Kapturowski et al., 2019). What lies beyond is
//! left out of a *training* step, and only there: clusters are given to steps by running through all of what is left.
//!
//! Data whose episodes are all short enough is taken as ever, whole episodes at a time.

use burn::tensor::{Tensor, TensorData};
use esper_data::{Dataset, Rng, Seed, Window};
use esper_nn::{Device, LstmState};
use rand::RngExt;

use crate::methods::Context;
use crate::policy::floats;
use crate::trajectories::Split;

/// Numbers of one layer that a step computes of windows at most: rows times hidden width. That makes 0.4 GB for all layers.
const MOST_NUMBERS: usize = 1 << 21;

/// How often the hidden width the layers of a clustering step keep of a row, about, for the way back.
const NUMBERS_KEPT: usize = 45;

/// Which part of the memory that is allowed a training step may take: a fourth.
const SHARE_OF_A_STEP: u64 = 4;

/// The most steps of a batch of windows, for networks of a hidden width.
pub(crate) fn most_steps(hidden: usize) -> usize {
    (MOST_NUMBERS / hidden).max(1)
}

/// The most steps of a batch that a limit of memory allows.
pub(crate) fn steps_within(bytes: u64, hidden: usize) -> usize {
    let row = (NUMBERS_KEPT * hidden * size_of::<f32>()) as u64;
    usize::try_from(bytes / SHARE_OF_A_STEP / row).unwrap_or(usize::MAX).max(1)
}

/// How episodes of a data set are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// The most steps of an episode that are taken at once.
    length: usize,
    /// The most steps of a batch, where an episode is longer than that or memory is limited.
    most: Option<usize>,
}

impl Windows {
    /// Windows of so many steps, for networks of a hidden width. Where memory is limited, so are batches of short episodes.
    pub(crate) fn of(context: &Context<'_>, length: usize, hidden: usize) -> Self {
        let long = (context.data.longest() > length).then(|| most_steps(hidden));
        let limited = context.memory.map(|bytes| steps_within(bytes, hidden));
        Windows { length, most: long.into_iter().chain(limited).min() }
    }

    /// Draws a batch of trajectories to learn from. Where an episode is too long, it holds fewer of them: as many as have
    /// about the most steps together, at least one. `seed` decides which windows are taken.
    pub(crate) fn draw(
        &self,
        data: &Dataset,
        split: &Split,
        batch: usize,
        rng: &mut Rng,
        seed: Seed,
    ) -> Vec<Window> {
        let episodes = split.draw(batch, rng);
        let Some(most) = self.most else {
            return episodes.iter().map(|&episode| Window::whole(data, episode)).collect();
        };
        let mut chance = seed.named("windows").rng();
        let (mut windows, mut steps) = (Vec::new(), 0);
        for episode in episodes {
            let count = data.length(episode).div_ceil(self.length);
            let window = self.at(data, episode, chance.random_range(0..count));
            steps += window.length;
            if steps > most && !windows.is_empty() {
                break;
            }
            windows.push(window);
        }
        windows
    }

    /// Draws steps of episodes to learn from, whatever came before or after them: all steps of a batch, or some of them where
    /// an episode is too long. Gives for each its episode and its time.
    pub(crate) fn draw_steps(
        &self,
        data: &Dataset,
        split: &Split,
        batch: usize,
        rng: &mut Rng,
        seed: Seed,
    ) -> Vec<Window> {
        let episodes = split.draw(batch, rng);
        let whole = |&episode: &usize| Window::whole(data, episode);
        let steps: usize = episodes.iter().map(|&episode| data.length(episode)).sum();
        match self.most {
            Some(most) if steps > most => {
                let mut chance = seed.named("windows").rng();
                let ends: Vec<usize> = episodes
                    .iter()
                    .scan(0, |end, &episode| {
                        *end += data.length(episode);
                        Some(*end)
                    })
                    .collect();
                // One step each, every step of the batch as likely as the others.
                let step = |_| {
                    let at = chance.random_range(0..steps);
                    let index = ends.partition_point(|&end| end <= at);
                    let episode = episodes[index];
                    let start = at - (ends[index] - data.length(episode));
                    Window { episode, start, length: 1 }
                };
                (0..most).map(step).collect()
            }
            _ => episodes.iter().map(whole).collect(),
        }
    }

    fn at(&self, data: &Dataset, episode: usize, number: usize) -> Window {
        let start = number * self.length;
        let length = self.length.min(data.length(episode) - start);
        Window { episode, start, length }
    }

    /// What comes after a window, as far as a burn-in runs through it; `None` at the end of an episode.
    pub(crate) fn after(&self, data: &Dataset, window: Window) -> Option<Window> {
        let left = data.length(window.episode) - window.end();
        let length = self.length.min(left);
        (left > 0).then_some(Window { episode: window.episode, start: window.end(), length })
    }

    /// What came before a window; `None` at the start of an episode.
    pub(crate) fn before(&self, window: Window) -> Option<Window> {
        let length = self.length.min(window.start);
        let start = window.start - length;
        (length > 0).then_some(Window { episode: window.episode, start, length })
    }
}

/// All steps of an episode in windows of at most so many, the first one first.
pub(crate) fn cut(data: &Dataset, episode: usize, length: usize) -> Vec<Window> {
    let windows = Windows { length, most: None };
    let count = data.length(episode).div_ceil(length);
    (0..count).map(|number| windows.at(data, episode, number)).collect()
}

/// Episodes that go through a network together, as batches of about so many steps at most: all of them in one, or one that is
/// too long for that window after window.
pub(crate) fn batches(data: &Dataset, episodes: &[usize], steps: usize) -> Vec<Vec<Window>> {
    match *episodes {
        [episode] => cut(data, episode, steps).into_iter().map(|window| vec![window]).collect(),
        _ => vec![episodes.iter().map(|&episode| Window::whole(data, episode)).collect()],
    }
}

/// The states that windows of a batch begin with: those that a burn-in ends with, and nothing for those without. `beside` is
/// the burn-in of each of them, in the batch's order; `run` runs through some windows, whose states it gives in their order.
pub(crate) fn burn_in(
    beside: &[Option<Window>],
    device: &Device,
    run: impl FnOnce(&[Window]) -> LstmState,
) -> Option<LstmState> {
    let mut order: Vec<(usize, Window)> =
        beside.iter().enumerate().filter_map(|(at, window)| Some((at, (*window)?))).collect();
    if order.is_empty() {
        return None;
    }
    // In the order that a batch packs them in: what it ends with is then in this order, too.
    order.sort_by_key(|(_, window)| std::cmp::Reverse(window.length));
    let windows: Vec<Window> = order.iter().map(|(_, window)| *window).collect();
    let LstmState { hidden, cells } = run(&windows);
    let width = hidden.dims()[1];
    let placed = |rows: Tensor<2>| {
        let rows = floats(rows);
        let mut placed = vec![0.0; beside.len() * width];
        for ((at, _), row) in order.iter().zip(rows.chunks_exact(width)) {
            placed[at * width..(at + 1) * width].copy_from_slice(row);
        }
        Tensor::from_data(TensorData::new(placed, [beside.len(), width]), device)
    };
    Some(LstmState { hidden: placed(hidden), cells: placed(cells) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{Given, discrete};

    fn of_lengths(lengths: &[usize]) -> Dataset {
        let steps: usize = lengths.iter().sum();
        let seen = vec![0; steps + lengths.len()];
        discrete([2, 2], lengths, &seen, &vec![0; steps], &vec![0.0; steps], &[])
    }

    fn all(data: &Dataset) -> Split {
        Split { train: (0..data.episodes()).collect(), held_out: Vec::new() }
    }

    #[test]
    fn short_episodes_are_taken_whole() {
        let data = of_lengths(&[3, 5, 4]);
        let given = Given::of(of_lengths(&[1; 20]), 0);
        let windows = Windows::of(&Context { data: &data, ..given.context() }, 5, 64);
        let seed = Seed::new(1);
        let drawn = windows.draw(&data, &all(&data), 50, &mut seed.rng(), seed);
        let expected = all(&data).draw(50, &mut seed.rng());
        let whole: Vec<Window> = expected.iter().map(|&e| Window::whole(&data, e)).collect();
        assert_eq!(drawn, whole);
        let steps = windows.draw_steps(&data, &all(&data), 50, &mut seed.rng(), seed);
        assert_eq!(steps, whole);
    }

    /// A fourth of 23,040 bytes holds two rows of 16 hidden numbers, 2,880 bytes each.
    #[test]
    fn limited_memory_holds_fewer_trajectories() {
        let given = Given::of(of_lengths(&[1; 20]), 0);
        let context = Context { memory: Some(23_040), ..given.context() };
        let windows = Windows::of(&context, 5, 16);
        let seed = Seed::new(1);
        let drawn = windows.draw(context.data, context.split, 50, &mut seed.rng(), seed);
        assert_eq!(drawn.len(), 2);
        let ample = Context { memory: Some(1 << 30), ..context };
        let drawn =
            Windows::of(&ample, 5, 16).draw(ample.data, ample.split, 50, &mut seed.rng(), seed);
        assert_eq!(drawn.len(), 50);
    }

    /// Every step of a long episode is as likely as the others, and a batch is bounded.
    #[test]
    fn windows_cover_an_episode_evenly() {
        let data = of_lengths(&[25]);
        let windows = Windows { length: 10, most: Some(40) };
        let mut counts = [0usize; 25];
        for step in 0..3_000 {
            let seed = Seed::new(step);
            let drawn = windows.draw(&data, &all(&data), 100, &mut seed.rng(), seed);
            let steps: usize = drawn.iter().map(|window| window.length).sum();
            assert!(steps <= 40 && drawn.iter().all(|window| window.length <= 10));
            // Only the first: which ones come after it depends on how long it is.
            (drawn[0].start..drawn[0].end()).for_each(|time| counts[time] += 1);
        }
        for count in counts {
            assert!((880..1_120).contains(&count), "{counts:?}");
        }
        let drawn =
            windows.draw_steps(&data, &all(&data), 3, &mut Seed::new(0).rng(), Seed::new(0));
        assert_eq!(drawn.len(), 40);
    }

    #[test]
    fn what_is_beside_a_window() {
        let data = of_lengths(&[25]);
        let windows = Windows { length: 10, most: None };
        let window = |start, length| Window { episode: 0, start, length };
        assert_eq!(cut(&data, 0, 10), [window(0, 10), window(10, 10), window(20, 5)]);
        assert_eq!(windows.after(&data, window(10, 10)), Some(window(20, 5)));
        assert_eq!(windows.after(&data, window(20, 5)), None);
        assert_eq!(windows.before(window(20, 5)), Some(window(10, 10)));
        assert_eq!(windows.before(window(0, 10)), None);
    }
}
