//! Building a data set: step by step, episode by episode, or from others.

mod column;

use crate::cells::{CellType, Cells, CellsRef};
use crate::dataset::{Columns, Dataset, End, Metadata};
use crate::error::DataError;

use self::column::Column;

/// The most behaviours a data set can have: what two bytes hold.
pub(crate) const MAX_BEHAVIOURS: usize = 1 << 16;

/// What is said about more.
pub(crate) const TOO_MANY_BEHAVIOURS: &str = "more than 65,536 behaviours";

/// Collects steps and episodes, and makes a [`Dataset`] of them.
///
/// ```
/// use esper_data::{DatasetBuilder, End, Space};
///
/// // A corridor with the doors 0 to 3: the first episode walks through it, the second is cut on the way.
/// let mut log = DatasetBuilder::inferring();
/// log.push(&[0u8], &[1u8], 0.0)?; // saw door 0, did 1, was paid nothing
/// log.push(&[1u8], &[1u8], 0.0)?;
/// log.push(&[2u8], &[1u8], 1.0)?;
/// log.end(&[3u8], End { terminated: true, truncated: false })?;
/// log.push(&[0u8], &[0u8], 0.0)?;
/// log.end(&[0u8], End { terminated: false, truncated: true })?;
///
/// let data = log.build()?;
/// assert_eq!((data.episodes(), data.steps()), (2, 4));
/// assert_eq!(data.episode_return(0), 1.0);
/// assert_eq!(data.metadata().observation_space, Space::Discrete { n: 4 });
/// # Ok::<(), esper_data::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DatasetBuilder {
    /// What was given; the spaces are inferred when there is none.
    metadata: Option<Metadata>,
    observations: Column,
    actions: Column,
    rewards: Vec<f32>,
    /// Where every complete episode starts, and where the one under way does.
    starts: Vec<usize>,
    ends: Vec<End>,
    behaviours: Vec<String>,
    /// For every complete episode an index into `behaviours`.
    behaviour_of: Vec<Option<usize>>,
    /// The same of the episode under way.
    behaviour: Option<usize>,
}

/// Where an episode ends in a log, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The row of its last step.
    pub row: usize,
    /// How it ended.
    pub end: End,
    /// Who made it, as an index into the behaviours ([`DatasetBuilder::with_behaviours`]).
    pub behaviour: Option<usize>,
}

impl DatasetBuilder {
    /// A builder for episodes of given spaces.
    pub fn new(metadata: Metadata) -> Self {
        DatasetBuilder { metadata: Some(metadata), ..Self::inferring() }
    }

    /// A builder that finds the spaces by what is pushed, for data without a task or seed.
    ///
    /// Categories (`u8` or `u16`) are `Discrete` if there is one cell and `MultiDiscrete` if there are several, with as
    /// many categories as the highest needs. Real numbers are a `Box` without bounds.
    pub fn inferring() -> Self {
        let column = |name| Column { name, width: 0, cells: Cells::empty(CellType::Byte) };
        DatasetBuilder {
            metadata: None,
            observations: column("observation"),
            actions: column("action"),
            rewards: Vec::new(),
            starts: vec![0],
            ends: Vec::new(),
            behaviours: Vec::new(),
            behaviour_of: Vec::new(),
            behaviour: None,
        }
    }

    /// Declares behaviours and their order beforehand, also ones that will have no episodes.
    pub fn with_behaviours(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.behaviours.extend(names.into_iter().map(Into::into));
        self
    }

    /// Names the behaviour policy that makes the episode under way, or the next one if there is none. Every episode has
    /// to be told anew, or none; a new name is added after those before it.
    pub fn made_by(&mut self, name: &str) {
        self.behaviour = Some(self.behaviour_index(name));
    }

    /// The index of a behaviour's name, which is added if it is new.
    pub(crate) fn behaviour_index(&mut self, name: &str) -> usize {
        let known = self.behaviours.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            self.behaviours.push(name.to_owned());
            self.behaviours.len() - 1
        })
    }

    /// The behaviour of the episode under way, as an index.
    pub(crate) fn behaviour(&self) -> Option<usize> {
        self.behaviour
    }

    /// [`made_by`](Self::made_by), with an index that [`behaviour_index`](Self::behaviour_index) gave.
    pub(crate) fn set_behaviour(&mut self, behaviour: Option<usize>) {
        self.behaviour = behaviour;
    }

    /// Makes room for more steps and episodes; for cells if the spaces are given.
    pub fn reserve(&mut self, steps: usize, episodes: usize) {
        if let Some(Metadata { observation_space, action_space, .. }) = &self.metadata {
            self.observations.reserve(steps + episodes, observation_space);
            self.actions.reserve(steps, action_space);
        }
        self.rewards.reserve_exact(steps);
        self.starts.reserve_exact(episodes);
        self.ends.reserve_exact(episodes);
        self.behaviour_of.reserve_exact(episodes);
    }

    /// Appends a step: what was seen, what was done, what it paid.
    ///
    /// Cells have to be of one type and one number, that of the space if it is given.
    pub fn push<'a, 'b>(
        &mut self,
        observation: impl Into<CellsRef<'a>>,
        action: impl Into<CellsRef<'b>>,
        reward: f32,
    ) -> Result<(), DataError> {
        self.push_rows(observation.into(), action.into(), &[reward])
    }

    /// Appends many steps of one episode at once, one row of cells each: `[steps, cells]`.
    pub fn push_steps<'a, 'b>(
        &mut self,
        observations: impl Into<CellsRef<'a>>,
        actions: impl Into<CellsRef<'b>>,
        rewards: &[f32],
    ) -> Result<(), DataError> {
        self.push_rows(observations.into(), actions.into(), rewards)
    }

    fn push_rows(
        &mut self,
        observations: CellsRef<'_>,
        actions: CellsRef<'_>,
        rewards: &[f32],
    ) -> Result<(), DataError> {
        let pushed = self.extend_columns(observations, actions, rewards, 0);
        pushed.map_err(|problem| self.invalid(&problem))
    }

    /// Appends rows to all columns, or to none. Of the observations, so many are final ones.
    fn extend_columns(
        &mut self,
        observations: CellsRef<'_>,
        actions: CellsRef<'_>,
        rewards: &[f32],
        finals: usize,
    ) -> Result<(), String> {
        let spaces = self.metadata.as_ref();
        let space = spaces.map(|spaces| &spaces.observation_space);
        let observation_width =
            self.observations.fit(observations, rewards.len() + finals, space)?;
        let space = spaces.map(|spaces| &spaces.action_space);
        let action_width = self.actions.fit(actions, rewards.len(), space)?;
        if !rewards.is_empty() {
            self.observations.extend(observations, observation_width);
            self.actions.extend(actions, action_width);
            self.rewards.extend_from_slice(rewards);
        }
        Ok(())
    }

    /// Ends the episode under way: what its last action led to, and how it ended.
    pub fn end<'a>(
        &mut self,
        final_observation: impl Into<CellsRef<'a>>,
        end: End,
    ) -> Result<(), DataError> {
        if self.steps_under_way() == 0 {
            let problem = format!("episode {} has no steps", self.episodes());
            return Err(DataError::Invalid(problem));
        }
        let cells = final_observation.into();
        let space = self.metadata.as_ref().map(|spaces| &spaces.observation_space);
        let width =
            self.observations.fit(cells, 1, space).map_err(|problem| self.invalid(&problem))?;
        self.observations.extend(cells, width);
        self.starts.push(self.rewards.len());
        self.ends.push(end);
        self.behaviour_of.push(self.behaviour.take());
        Ok(())
    }

    /// Appends steps of several episodes, which end where `endings` say, with a row of `final_observations` each: what
    /// [`push_steps`](Self::push_steps) and [`end`](Self::end) do, but quick when episodes are short and many. Endings are in
    /// order; behaviours have been declared.
    ///
    /// ```
    /// use esper_data::{DatasetBuilder, End, Ending};
    ///
    /// let mut log = DatasetBuilder::inferring();
    /// let end = End { terminated: true, truncated: false };
    /// let endings = [0, 2].map(|row| Ending { row, end, behaviour: None });
    /// let (seen, done, paid) = ([0u8, 0, 1], [1u8, 0, 1], [1.0, 0.0, 0.5]);
    /// log.push_log((&seen).into(), (&done).into(), &paid, (&[2u8, 3]).into(), &endings)?;
    /// let data = log.build()?;
    /// assert_eq!((data.episodes(), data.episode_return(1)), (2, 0.5));
    /// # Ok::<(), esper_data::DataError>(())
    /// ```
    pub fn push_log(
        &mut self,
        observations: CellsRef<'_>,
        actions: CellsRef<'_>,
        rewards: &[f32],
        final_observations: CellsRef<'_>,
        endings: &[Ending],
    ) -> Result<(), DataError> {
        let mut next = 0;
        for ending in endings {
            let known = ending.behaviour.is_none_or(|behaviour| behaviour < self.behaviours.len());
            if !(next..rewards.len()).contains(&ending.row) || !known {
                let row = ending.row;
                return Err(DataError::Invalid(format!("no episode can end in row {row}")));
            }
            next = ending.row + 1;
        }
        let before = self.steps();
        let spaces = self.metadata.as_ref();
        let space = spaces.map(|spaces| &spaces.observation_space);
        let fit = |cells, rows| self.observations.fit(cells, rows, space);
        fit(final_observations, endings.len()).map_err(DataError::Invalid)?;
        let width = fit(observations, rewards.len()).map_err(DataError::Invalid)?;
        let space = spaces.map(|spaces| &spaces.action_space);
        let action_width =
            self.actions.fit(actions, rewards.len(), space).map_err(DataError::Invalid)?;
        self.actions.extend(actions, action_width);
        self.rewards.extend_from_slice(rewards);
        let mut copied = 0;
        for (at, ending) in endings.iter().enumerate() {
            let steps = copied * width..(ending.row + 1) * width;
            self.observations.extend(observations.slice(steps), width);
            let last = final_observations.slice(at * width..(at + 1) * width);
            self.observations.extend(last, width);
            copied = ending.row + 1;
            self.starts.push(before + copied);
            self.ends.push(ending.end);
            self.behaviour_of.push(ending.behaviour);
        }
        let rest = observations.slice(copied * width..rewards.len() * width);
        self.observations.extend(rest, width);
        Ok(())
    }

    /// Appends the first complete episodes of another builder, whose spaces have to be the same. Behaviours are matched
    /// by name.
    pub fn append(&mut self, other: &DatasetBuilder, episodes: usize) -> Result<(), DataError> {
        if episodes > other.episodes() {
            let found = other.episodes();
            let problem =
                format!("{episodes} episodes of a builder that has {found} complete ones");
            return Err(DataError::Invalid(problem));
        }
        let steps = other.starts[episodes];
        self.check_others(other.metadata.as_ref())?;
        let rows = steps + episodes;
        let observations =
            other.observations.cells.view().slice(0..rows * other.observations.width);
        let actions = other.actions.cells.view().slice(0..steps * other.actions.width);
        self.extend_columns(observations, actions, &other.rewards[..steps], episodes)
            .map_err(DataError::Invalid)?;
        let before = self.rewards.len() - steps;
        self.starts.extend(other.starts[1..=episodes].iter().map(|start| before + start));
        self.ends.extend_from_slice(&other.ends[..episodes]);
        let indices: Vec<usize> =
            other.behaviours.iter().map(|name| self.behaviour_index(name)).collect();
        let behaviours = other.behaviour_of[..episodes].iter();
        self.behaviour_of.extend(behaviours.map(|behaviour| behaviour.map(|index| indices[index])));
        Ok(())
    }

    /// Appends all episodes of a data set, whose spaces have to be the same. Behaviours are matched by name; task and
    /// seed stay what they are here.
    pub fn extend(&mut self, data: &Dataset) -> Result<(), DataError> {
        self.check_others(Some(data.metadata()))?;
        let Metadata { observation_space, action_space, .. } = data.metadata();
        let (seen, done) = (observation_space.cells(), action_space.cells());
        let mut episode = 0;
        for (steps, observations) in data.pieces() {
            let episodes = observations.len() - steps.len();
            self.extend_columns(
                data.observations()
                    .view()
                    .slice(observations.start * seen..observations.end * seen),
                data.actions().view().slice(steps.start * done..steps.end * done),
                &data.rewards()[steps],
                episodes,
            )
            .map_err(DataError::Invalid)?;
            for episode in episode..episode + episodes {
                self.starts.push(self.starts[self.starts.len() - 1] + data.length(episode));
            }
            episode += episodes;
        }
        self.ends.extend((0..episode).map(|episode| data.end(episode)));
        let indices: Vec<usize> =
            data.behaviours().iter().map(|name| self.behaviour_index(name)).collect();
        let behaviours = (0..episode).map(|episode| data.behaviour(episode));
        self.behaviour_of.extend(behaviours.map(|behaviour| behaviour.map(|index| indices[index])));
        Ok(())
    }

    /// Checks that whole episodes of these spaces can be appended. Without spaces, their cells will tell.
    fn check_others(&self, theirs: Option<&Metadata>) -> Result<(), DataError> {
        if self.steps_under_way() > 0 {
            return Err(self.invalid("others cannot follow before the episode is ended"));
        }
        let (Some(ours), Some(theirs)) = (&self.metadata, theirs) else { return Ok(()) };
        for (name, ours, theirs) in [
            ("observations", &ours.observation_space, &theirs.observation_space),
            ("actions", &ours.action_space, &theirs.action_space),
        ] {
            if ours != theirs {
                let problem = format!("{name} of {theirs} cannot follow those of {ours}");
                return Err(DataError::Invalid(problem));
            }
        }
        Ok(())
    }

    /// The number of complete episodes.
    pub fn episodes(&self) -> usize {
        self.ends.len()
    }

    /// The number of steps: of complete episodes and of the one under way.
    pub fn steps(&self) -> usize {
        self.rewards.len()
    }

    /// The number of steps of a complete episode.
    ///
    /// # Panics
    ///
    /// When there is no such episode.
    pub fn length(&self, episode: usize) -> usize {
        self.starts[episode + 1] - self.starts[episode]
    }

    /// Whether nothing has been pushed.
    pub fn is_empty(&self) -> bool {
        self.rewards.is_empty()
    }

    /// The names of the behaviours, in the order they were declared or first named.
    pub fn behaviours(&self) -> &[String] {
        &self.behaviours
    }

    /// The number of steps after the last end.
    pub(crate) fn steps_under_way(&self) -> usize {
        self.rewards.len() - self.starts[self.episodes()]
    }

    /// A problem with what comes next.
    fn invalid(&self, problem: &str) -> DataError {
        let (episode, step) = (self.episodes(), self.steps_under_way());
        DataError::Invalid(format!("episode {episode}, step {step}: {problem}"))
    }

    /// Checks everything and makes the data set.
    pub fn build(self) -> Result<Dataset, DataError> {
        if self.steps_under_way() > 0 {
            return Err(DataError::Invalid("the last episode was not ended".to_owned()));
        }
        if self.is_empty() {
            return Err(DataError::Invalid("there are no episodes".to_owned()));
        }
        let behaviour_of = self.behaviour_indices().map_err(DataError::Invalid)?;
        let (metadata, observations, actions) = match self.metadata {
            Some(metadata) => (metadata, self.observations.cells, self.actions.cells),
            None => {
                let (observation_space, observations) = self.observations.infer();
                let (action_space, actions) = self.actions.infer();
                (Metadata::new(observation_space, action_space), observations, actions)
            }
        };
        Dataset::new(Columns {
            metadata,
            starts: self.starts,
            ends: self.ends,
            observations: observations.into(),
            actions: actions.into(),
            rewards: self.rewards,
            behaviours: self.behaviours,
            behaviour_of,
            scratch: None,
        })
    }

    /// Takes out all complete episodes, and goes on with the one under way as the first of what is left. The spaces have to be
    /// given.
    pub(crate) fn take_complete(&mut self) -> DatasetBuilder {
        let (episodes, steps) = (self.episodes(), self.starts[self.episodes()]);
        let rest = DatasetBuilder {
            metadata: self.metadata.clone(),
            observations: self.observations.split_off(steps + episodes),
            actions: self.actions.split_off(steps),
            rewards: self.rewards.split_off(steps),
            starts: vec![0],
            ends: Vec::new(),
            behaviours: self.behaviours.clone(),
            behaviour_of: Vec::new(),
            behaviour: self.behaviour.take(),
        };
        std::mem::replace(self, rest)
    }

    /// For every episode an index into the behaviours, which all episodes have, or none.
    fn behaviour_indices(&self) -> Result<Vec<u16>, String> {
        if self.behaviours.is_empty() {
            return Ok(Vec::new());
        }
        let index = |(episode, &behaviour): (usize, &Option<usize>)| {
            let behaviour = behaviour.ok_or_else(|| {
                format!(
                    "episode {episode} has no behaviour; name one for every episode, or for none"
                )
            })?;
            u16::try_from(behaviour).map_err(|_| TOO_MANY_BEHAVIOURS.to_owned())
        };
        self.behaviour_of.iter().enumerate().map(index).collect()
    }
}

#[cfg(test)]
mod tests;
