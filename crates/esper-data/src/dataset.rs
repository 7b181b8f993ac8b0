//! The data set: logged episodes in columns.
//!
//! An episode of T steps has T actions and rewards and T+1 observations; the last observation, which no action
//! follows, is kept, because the world's answer to the last action is part of what there is to learn.
//!
//! ```text
//! episode        0           1
//! step           0  1  2     3  4        actions, rewards
//! observation    0  1  2  3  4  5  6     step t of episode e sees row t + e, and leads to row t + e + 1
//! ```

use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

use crate::cells::{CellType, Cells, CellsRef};
use crate::error::DataError;
use crate::fields::Fields;
use crate::scratch::{Scratch, Stored};
use crate::space::{CellError, Space};

/// What the columns of a data set mean, and where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The task the episodes were collected on, if it is a named one.
    pub task: Option<String>,
    /// The version of the task's rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_version: Option<u32>,
    /// The seed the data was made from, if it was made from one.
    pub seed: Option<u64>,
    /// What an observation looks like.
    pub observation_space: Space,
    /// What an action looks like.
    pub action_space: Space,
    /// What cells are called and hold in the log that the data came from, where that is known.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
}

impl Metadata {
    /// Metadata of data from anywhere: no task, no seed.
    pub fn new(observation_space: Space, action_space: Space) -> Self {
        Metadata {
            task: None,
            task_version: None,
            seed: None,
            observation_space,
            action_space,
            fields: Fields::default(),
        }
    }
}

/// How an episode ended. Both are false when the log simply stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The world came to an end state.
    pub terminated: bool,
    /// The episode was cut, at a time limit for example, while the world could have gone on.
    pub truncated: bool,
}

/// The columns of all episodes, which data sets share.
#[derive(Debug)]
pub(crate) struct Columns {
    pub(crate) metadata: Metadata,
    /// Episode `e` has the steps `starts[e]..starts[e + 1]`.
    pub(crate) starts: Vec<usize>,
    /// How every episode ended.
    pub(crate) ends: Vec<End>,
    /// Observations, `length + 1` rows for every episode.
    pub(crate) observations: Stored,
    /// Actions, one row a step.
    pub(crate) actions: Stored,
    /// Rewards, one a step.
    pub(crate) rewards: Vec<f32>,
    /// The names of the behaviours; none when nothing is known.
    pub(crate) behaviours: Vec<String>,
    /// For every episode an index into `behaviours`; empty when there are none.
    pub(crate) behaviour_of: Vec<u16>,
    /// Where columns are that are not in memory; none where they are.
    pub(crate) scratch: Option<Scratch>,
}

impl Columns {
    /// Checks the columns against the spaces. That they fit each other is the builder's work.
    fn check(&self) -> Result<(), String> {
        let Metadata { observation_space, action_space, fields, .. } = &self.metadata;
        observation_space.validate().map_err(|problem| format!("observation space {problem}"))?;
        action_space.validate().map_err(|problem| format!("action space {problem}"))?;
        if matches!(action_space, Space::Tuple { .. }) {
            return Err(format!(
                "action space {action_space}: actions are categories or numbers, not both"
            ));
        }
        fields.check(observation_space, action_space)?;
        if self.ends.is_empty() {
            return Err("there are no episodes".to_owned());
        }
        for (name, space, cells, extra) in [
            ("observation", observation_space, &self.observations, 1),
            ("action", action_space, &self.actions, 0),
        ] {
            space.check(cells.whole().view()).map_err(|CellError { row, cell, problem }| {
                let place = self.place(row, extra);
                format!("{name} outside {space}: {place}, cell {cell}: {problem}")
            })?;
        }
        if let Some(step) = self.rewards.iter().position(|reward| !reward.is_finite()) {
            let (place, reward) = (self.place(step, 0), self.rewards[step]);
            return Err(format!("the reward of {place} is {reward}"));
        }
        let twice = |(at, name): &(usize, &String)| self.behaviours[..*at].contains(name);
        match self.behaviours.iter().enumerate().find(twice) {
            None => Ok(()),
            Some((_, name)) => Err(format!("two behaviours are called `{name}`")),
        }
    }

    /// Names a row of a column as the data's owner knows it. Observations have one `extra` row an episode.
    fn place(&self, row: usize, extra: usize) -> String {
        let end = |episode: usize| self.starts[episode + 1] + extra * (episode + 1);
        let episode = (0..self.ends.len()).find(|&episode| row < end(episode)).unwrap_or(0);
        let step = row - self.starts[episode] - extra * episode;
        format!("episode {episode}, step {step}")
    }
}

/// Logged episodes, checked and in columns, at least one; made by a [`DatasetBuilder`](crate::DatasetBuilder) or
/// [`read`](crate::read) from a file.
///
/// A data set can be a view, which looks at some episodes of another ([`select`](Dataset::select),
/// [`first_steps`](Dataset::first_steps), [`share`](Dataset::share)). Its episodes have numbers of their own, from 0
/// on; the columns are shared, so a clone or a view costs next to nothing, and the rows of an episode are what they are
/// in the whole. An array that has one entry a step is indexed by those rows and needs [`rows`](Dataset::rows) entries.
#[derive(Clone, Debug)]
pub struct Dataset {
    columns: Arc<Columns>,
    /// The episodes of the columns that are looked at; the first ones when there is no list.
    chosen: Option<Arc<[usize]>>,
    /// How many: those of `chosen` that come after are left out.
    episodes: usize,
    steps: usize,
    rows: usize,
}

impl Dataset {
    /// Checks the columns against the spaces.
    pub(crate) fn new(columns: Columns) -> Result<Self, DataError> {
        columns.check().map_err(DataError::Invalid)?;
        let episodes = columns.ends.len();
        Ok(Self::view(Arc::new(columns), None, episodes))
    }

    /// Columns whose parts have been checked.
    pub(crate) fn of_checked(columns: Columns) -> Self {
        let episodes = columns.ends.len();
        Self::view(Arc::new(columns), None, episodes)
    }

    /// A look at the first of the chosen episodes.
    fn view(columns: Arc<Columns>, chosen: Option<Arc<[usize]>>, episodes: usize) -> Self {
        let mut view = Dataset { columns, chosen, episodes, steps: 0, rows: 0 };
        for episode in 0..episodes {
            let steps = view.episode_steps(episode);
            view.steps += steps.len();
            view.rows = view.rows.max(steps.end);
        }
        view
    }

    /// The number of an episode in the columns.
    fn source(&self, episode: usize) -> usize {
        let episodes = self.episodes;
        assert!(episode < episodes, "episode {episode} of a data set of {episodes}");
        self.chosen.as_ref().map_or(episode, |chosen| chosen[episode])
    }

    /// A view of some episodes, in the order that is given, each at most once: an array with an entry for every step row is
    /// then one with an entry for every step.
    ///
    /// # Panics
    ///
    /// When an episode does not exist or is chosen twice, or none is chosen: a data set is never empty.
    pub fn select(&self, episodes: &[usize]) -> Dataset {
        assert!(!episodes.is_empty(), "a data set has at least one episode");
        let mut sorted = episodes.to_vec();
        sorted.sort_unstable();
        assert!(sorted.windows(2).all(|pair| pair[0] < pair[1]), "an episode is chosen once");
        let chosen = episodes.iter().map(|&episode| self.source(episode)).collect();
        Self::view(self.columns.clone(), Some(chosen), episodes.len())
    }

    /// A view of the first episodes, as many as have at least so many steps together: at least one, at most all.
    pub fn first_steps(&self, steps: usize) -> Dataset {
        let (mut episodes, mut found) = (1, self.length(0));
        while found < steps && episodes < self.episodes {
            found += self.length(episodes);
            episodes += 1;
        }
        Self::view(self.columns.clone(), self.chosen.clone(), episodes)
    }

    /// A view of the first episodes, as many as have this share of the steps; see [`Dataset::first_steps`].
    pub fn share(&self, fraction: f64) -> Dataset {
        self.first_steps((self.steps as f64 * fraction).round().max(1.0) as usize)
    }

    /// What the columns mean.
    pub fn metadata(&self) -> &Metadata {
        &self.columns.metadata
    }

    /// The number of steps in all episodes.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The number of episodes.
    pub fn episodes(&self) -> usize {
        self.episodes
    }

    /// How many entries an array needs that has one for every step row: one more than the highest row of any episode.
    /// [`steps`](Dataset::steps) for a whole data set, or the first episodes of one.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The steps of one episode, as rows of [`Dataset::actions`] and [`Dataset::rewards`].
    pub fn episode_steps(&self, episode: usize) -> Range<usize> {
        let source = self.source(episode);
        self.columns.starts[source]..self.columns.starts[source + 1]
    }

    /// The T+1 observations of one episode, as rows of [`Dataset::observations`].
    pub fn episode_observations(&self, episode: usize) -> Range<usize> {
        let source = self.source(episode);
        self.columns.starts[source] + source..self.columns.starts[source + 1] + source + 1
    }

    /// The steps of all episodes, one after the other, as rows of [`Dataset::actions`] and [`Dataset::rewards`].
    pub fn step_rows(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.episodes).flat_map(|episode| self.episode_steps(episode))
    }

    /// The observations of all episodes, final ones included, as rows of [`Dataset::observations`].
    pub fn observation_rows(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        (0..self.episodes).flat_map(|episode| self.episode_observations(episode))
    }

    /// The rows of steps and of observations, in as few pieces as there are: episodes that follow each other in the
    /// columns are one, so that a whole data set is copied or summed up at once.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            if next == self.episodes {
                return None;
            }
            let (mut steps, mut observations) =
                (self.episode_steps(next), self.episode_observations(next));
            next += 1;
            while next < self.episodes && self.source(next) == self.source(next - 1) + 1 {
                steps.end = self.episode_steps(next).end;
                observations.end = self.episode_observations(next).end;
                next += 1;
            }
            Some((steps, observations))
        })
    }

    /// The number of steps of one episode.
    pub fn length(&self, episode: usize) -> usize {
        self.episode_steps(episode).len()
    }

    /// The number of steps of the longest episode.
    pub fn longest(&self) -> usize {
        (0..self.episodes).map(|episode| self.length(episode)).max().unwrap_or(0)
    }

    /// How one episode ended.
    pub fn end(&self, episode: usize) -> End {
        self.columns.ends[self.source(episode)]
    }

    /// Observations, final ones included: `[rows, cells]`. Of a view: those of the whole. Where they are on disk, all of them
    /// are read and kept; [`with_observations`](Dataset::with_observations) reads what is needed.
    pub fn observations(&self) -> &Cells {
        self.columns.observations.whole()
    }

    /// Actions: `[rows, cells]`. Of a view: those of the whole. As with [`observations`](Dataset::observations), all of them.
    pub fn actions(&self) -> &Cells {
        self.columns.actions.whole()
    }

    /// Shows some rows of the observations: cells, and which of their rows stand for those that were asked for.
    ///
    /// # Panics
    ///
    /// When there is no such row, or the disk that it is on cannot be read any more.
    pub fn with_observations<R>(
        &self,
        rows: &[usize],
        see: impl FnOnce(CellsRef<'_>, &[usize]) -> R,
    ) -> R {
        let width = self.metadata().observation_space.cells();
        self.columns.observations.with_rows(rows, width, see)
    }

    /// Shows some rows of the actions, as [`with_observations`](Dataset::with_observations) does.
    ///
    /// # Panics
    ///
    /// When there is no such row, or the disk that it is on cannot be read any more.
    pub fn with_actions<R>(
        &self,
        rows: &[usize],
        see: impl FnOnce(CellsRef<'_>, &[usize]) -> R,
    ) -> R {
        let width = self.metadata().action_space.cells();
        self.columns.actions.with_rows(rows, width, see)
    }

    /// Goes through rows of the observations, some at a time and in the order that is given, as
    /// [`with_observations`](Dataset::with_observations) shows them: what is on disk is never in memory as a whole.
    ///
    /// # Panics
    ///
    /// When there is no such row, or the disk that it is on cannot be read any more.
    pub fn scan_observations(
        &self,
        rows: impl Iterator<Item = usize>,
        mut see: impl FnMut(CellsRef<'_>, &[usize]),
    ) {
        let width = self.metadata().observation_space.cells();
        in_parts(rows, rows_at_once(width), |rows| self.with_observations(rows, &mut see));
    }

    /// Goes through rows of the actions, as [`scan_observations`](Dataset::scan_observations) does.
    ///
    /// # Panics
    ///
    /// When there is no such row, or the disk that it is on cannot be read any more.
    pub fn scan_actions(
        &self,
        rows: impl Iterator<Item = usize>,
        mut see: impl FnMut(CellsRef<'_>, &[usize]),
    ) {
        let width = self.metadata().action_space.cells();
        in_parts(rows, rows_at_once(width), |rows| self.with_actions(rows, &mut see));
    }

    /// What the cells of observations are stored as.
    pub fn observation_type(&self) -> CellType {
        self.columns.observations.cell_type()
    }

    /// What the cells of actions are stored as.
    pub fn action_type(&self) -> CellType {
        self.columns.actions.cell_type()
    }

    /// Bytes of memory that observations and actions take: none where they are on disk. Of a view: those of the whole.
    pub fn bytes_in_memory(&self) -> u64 {
        let Columns { observations, actions, .. } = self.columns.as_ref();
        observations.bytes_in_memory() + actions.bytes_in_memory()
    }

    /// Where columns are that are not in memory, and others of the same size belong; `None` where all are in memory.
    pub fn scratch(&self) -> Option<&Scratch> {
        self.columns.scratch.as_ref()
    }

    /// Rewards: `[rows]`. Of a view: those of the whole.
    pub fn rewards(&self) -> &[f32] {
        &self.columns.rewards
    }

    /// The names of the behaviour policies; none when nothing is known. For reports and statistics only: no learner is
    /// given them.
    pub fn behaviours(&self) -> &[String] {
        &self.columns.behaviours
    }

    /// Which behaviour made an episode, as an index into [`Dataset::behaviours`]; `None` when nothing is known.
    pub fn behaviour(&self, episode: usize) -> Option<usize> {
        self.columns.behaviour_of.get(self.source(episode)).copied().map(usize::from)
    }

    /// Episode return: the sum of its rewards, not discounted.
    pub fn episode_return(&self, episode: usize) -> f64 {
        self.rewards()[self.episode_steps(episode)].iter().map(|&reward| f64::from(reward)).sum()
    }

    /// Return-to-go: the observed return from every step to the end of its episode, `R_t = r_t + discount · R_{t+1}`.
    /// One a row, `[rows]`; rows that belong to no episode of a view are 0.
    pub fn returns_to_go(&self, discount: f64) -> Vec<f32> {
        let rewards = self.rewards();
        let mut returns = vec![0.0; self.rows];
        for episode in 0..self.episodes {
            let mut to_go = 0.0;
            for row in self.episode_steps(episode).rev() {
                to_go = f64::from(rewards[row]) + discount * to_go;
                returns[row] = to_go as f32;
            }
        }
        returns
    }
}

/// The most cells that are shown at once where all are gone through.
const CELLS_AT_ONCE: usize = 1 << 20;

/// The most rows.
const ROWS_AT_ONCE: usize = 1 << 14;

/// How many rows of so many cells are shown at once.
pub(crate) fn rows_at_once(width: usize) -> usize {
    (CELLS_AT_ONCE / width.max(1)).clamp(1, ROWS_AT_ONCE)
}

/// Hands on so many at a time.
pub(crate) fn in_parts<T>(all: impl Iterator<Item = T>, most: usize, mut see: impl FnMut(&[T])) {
    let mut all = all.peekable();
    let mut some = Vec::new();
    while all.peek().is_some() {
        some.clear();
        some.extend(all.by_ref().take(most));
        see(&some);
    }
}

/// Equal are the same metadata and the same episodes in the same order, wherever their rows are.
impl PartialEq for Dataset {
    fn eq(&self, other: &Self) -> bool {
        fn behaviour(data: &Dataset, episode: usize) -> Option<&str> {
            data.behaviour(episode).map(|behaviour| data.behaviours()[behaviour].as_str())
        }
        let (actions, observations) =
            (self.metadata().action_space.cells(), self.metadata().observation_space.cells());
        let (ours, theirs) = (&self.columns, &other.columns);
        let same_episode = |episode: usize| {
            let steps = [self, other].map(|data| data.episode_steps(episode));
            let seen = [self, other].map(|data| data.episode_observations(episode));
            self.end(episode) == other.end(episode)
                && behaviour(self, episode) == behaviour(other, episode)
                && self.rewards()[steps[0].clone()] == other.rewards()[steps[1].clone()]
                && ours.actions.is_same(&theirs.actions, steps, actions)
                && ours.observations.is_same(&theirs.observations, seen, observations)
        };
        self.metadata() == other.metadata()
            && self.episodes == other.episodes
            && (0..self.episodes).all(same_episode)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::DatasetBuilder;

    pub(crate) const TERMINATED: End = End { terminated: true, truncated: false };
    pub(crate) const TRUNCATED: End = End { terminated: false, truncated: true };

    pub(crate) fn small_metadata() -> Metadata {
        let spaces = Metadata::new(Space::Discrete { n: 4 }, Space::Discrete { n: 3 });
        Metadata { task: Some("small".to_owned()), seed: Some(3), ..spaces }
    }

    /// Two episodes, of two steps and of one, in a world of four states and three actions.
    pub(crate) fn small() -> Dataset {
        let mut builder = DatasetBuilder::new(small_metadata())
            .with_behaviours(["one", "two"].map(str::to_owned));
        builder.made_by("two");
        builder.push_steps(&[0u8, 1], &[2u8, 0], &[1.0, -0.5]).unwrap();
        builder.end(&[2u8], TERMINATED).unwrap();
        builder.made_by("one");
        builder.push(&[0u8], &[1u8], 4.0).unwrap();
        builder.end(&[3u8], TRUNCATED).unwrap();
        builder.build().unwrap()
    }

    #[test]
    fn an_episode_has_one_observation_more_than_steps() {
        let data = small();
        assert_eq!((data.steps(), data.rows(), data.episodes()), (3, 3, 2));
        assert_eq!(data.episode_steps(1), 2..3);
        assert_eq!(data.episode_observations(0), 0..3);
        assert_eq!(data.episode_observations(1), 3..5);
        assert_eq!(data.episode_return(0), 0.5);
        assert_eq!((data.behaviour(0), data.behaviour(1)), (Some(1), Some(0)));
    }

    #[test]
    fn returns_to_go_sum_the_rest_of_the_episode() {
        assert_eq!(small().returns_to_go(1.0), [0.5, -0.5, 4.0]);
        assert_eq!(small().returns_to_go(0.5), [0.75, -0.5, 4.0]);
    }

    #[test]
    fn a_view_keeps_the_rows_of_the_whole() {
        let data = small();
        let last = data.select(&[1]);
        assert_eq!((last.episodes(), last.steps(), last.rows()), (1, 1, 3));
        assert_eq!(last.episode_steps(0), 2..3);
        assert_eq!(last.episode_observations(0), 3..5);
        assert_eq!((last.end(0), last.behaviour(0)), (TRUNCATED, Some(0)));
        assert_eq!(last.returns_to_go(1.0), [0.0, 0.0, 4.0]);
        assert_eq!(last.step_rows().collect::<Vec<_>>(), [2]);
        assert_eq!(last.observation_rows().collect::<Vec<_>>(), [3, 4]);

        let turned = data.select(&[1, 0]);
        assert_eq!((turned.steps(), turned.rows()), (3, 3));
        assert_eq!(turned.step_rows().collect::<Vec<_>>(), [2, 0, 1]);
        assert_eq!(turned.select(&[0]), last);
        assert_ne!(turned.select(&[1]), last);
    }

    #[test]
    #[should_panic(expected = "chosen once")]
    fn an_episode_is_in_a_view_once() {
        small().select(&[1, 0, 1]);
    }

    #[test]
    fn the_first_steps_are_whole_episodes() {
        let data = small();
        for (steps, episodes) in [(0, 1), (1, 1), (2, 1), (3, 2), (9, 2)] {
            assert_eq!(data.first_steps(steps).episodes(), episodes, "{steps} steps");
        }
        assert_eq!((data.share(0.0).steps(), data.share(0.6).steps()), (2, 2));
        assert_eq!(data.share(1.0), data);
        let turned = data.select(&[1, 0]).first_steps(1);
        assert_eq!((turned.steps(), turned.rows()), (1, 3));
        assert_eq!(turned, data.select(&[1]));
    }

    #[test]
    #[should_panic(expected = "episode 1 of a data set of 1")]
    fn a_view_has_no_other_episodes() {
        small().first_steps(1).select(&[1]);
    }

    #[test]
    fn equal_data_may_name_its_behaviours_in_another_order() {
        let mut builder = DatasetBuilder::new(small_metadata());
        builder.extend(&small().select(&[1])).unwrap();
        let one = builder.build().unwrap();
        assert_eq!(one, small().select(&[1]));

        let mut builder = DatasetBuilder::new(small_metadata());
        builder.push(&[0u8], &[1u8], 4.0).unwrap();
        builder.end(&[3u8], TRUNCATED).unwrap();
        assert_ne!(builder.build().unwrap(), one, "made by nobody");
    }
}
