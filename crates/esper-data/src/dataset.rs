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

use crate::cells::Cells;
use crate::error::DataError;
use crate::space::{CellError, Space};

/// What the columns of a data set mean, and where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metadata {
    /// The task the episodes were collected on, if it is a named one.
    pub task: Option<String>,
    /// The seed the data was made from, if it was made from one.
    pub seed: Option<u64>,
    /// What an observation looks like.
    pub observation_space: Space,
    /// What an action looks like.
    pub action_space: Space,
}

/// How an episode ended. Both are false when the log simply stops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The world came to an end state.
    pub terminated: bool,
    /// The episode was cut, at a time limit for example, while the world could have gone on.
    pub truncated: bool,
}

/// The columns of a data set before they are checked; see [`Dataset::new`].
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// The number of steps of every episode.
    pub lengths: Vec<usize>,
    /// How every episode ended.
    pub ends: Vec<End>,
    /// Observations, `length + 1` rows for every episode.
    pub observations: Cells,
    /// Actions, one row a step.
    pub actions: Cells,
    /// Rewards, one a step.
    pub rewards: Vec<f32>,
    /// Which behaviour made every episode, where that is known.
    pub provenance: Provenance,
}

/// Which behaviour policy made which episode. For reports and statistics only: no learner is given it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    /// The names of the behaviours; none when nothing is known.
    pub names: Vec<String>,
    /// For every episode an index into `names`; empty when there are none.
    pub of_episode: Vec<u16>,
}

/// Logged episodes, checked and in columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    metadata: Metadata,
    /// Episode `e` has the steps `starts[e]..starts[e + 1]`.
    starts: Vec<usize>,
    ends: Vec<End>,
    observations: Cells,
    actions: Cells,
    rewards: Vec<f32>,
    provenance: Provenance,
}

impl Dataset {
    /// Checks the columns against each other and against the spaces.
    pub fn new(metadata: Metadata, columns: Columns) -> Result<Self, DataError> {
        let mut starts = Vec::with_capacity(columns.lengths.len() + 1);
        starts.push(0);
        starts.extend(columns.lengths.iter().scan(0, |steps, length| {
            *steps += length;
            Some(*steps)
        }));
        let data = Dataset {
            metadata,
            starts,
            ends: columns.ends,
            observations: columns.observations,
            actions: columns.actions,
            rewards: columns.rewards,
            provenance: columns.provenance,
        };
        data.check_sizes(&columns.lengths)
            .and_then(|()| data.check_values())
            .and_then(|()| data.check_provenance())
            .map_err(DataError::Invalid)?;
        Ok(data)
    }

    fn check_sizes(&self, lengths: &[usize]) -> Result<(), String> {
        let Metadata { observation_space, action_space, .. } = &self.metadata;
        observation_space.validate().map_err(|problem| format!("observation space {problem}"))?;
        action_space.validate().map_err(|problem| format!("action space {problem}"))?;
        if lengths.is_empty() {
            return Err("there are no episodes".to_owned());
        }
        if let Some(episode) = lengths.iter().position(|&length| length == 0) {
            return Err(format!("episode {episode} has no steps"));
        }
        let (episodes, steps) = (lengths.len(), lengths.iter().sum::<usize>());
        let observation_cells = (steps + episodes) * observation_space.cells();
        for (name, found, expected) in [
            ("ends", self.ends.len(), episodes),
            ("rewards", self.rewards.len(), steps),
            ("action cells", self.actions.len(), steps * action_space.cells()),
            ("observation cells", self.observations.len(), observation_cells),
        ] {
            if found != expected {
                return Err(format!(
                    "{found} {name} where {episodes} episodes of {steps} steps in all need {expected}"
                ));
            }
        }
        Ok(())
    }

    fn check_values(&self) -> Result<(), String> {
        for (name, space, cells, extra) in [
            ("observation", &self.metadata.observation_space, &self.observations, 1),
            ("action", &self.metadata.action_space, &self.actions, 0),
        ] {
            if cells.cell_type() != space.cell_type() {
                let found = cells.cell_type();
                return Err(format!("{name} cells are {found:?}, which does not fit {space}"));
            }
            space.check(cells.view()).map_err(|CellError { row, cell, problem }| {
                let place = self.place(row, extra);
                format!("{name} outside {space}: {place}, cell {cell}: {problem}")
            })?;
        }
        match self.rewards.iter().position(|reward| !reward.is_finite()) {
            None => Ok(()),
            Some(step) => {
                let (place, reward) = (self.place(step, 0), self.rewards[step]);
                Err(format!("the reward of {place} is {reward}"))
            }
        }
    }

    fn check_provenance(&self) -> Result<(), String> {
        let Provenance { names, of_episode } = &self.provenance;
        let expected = if names.is_empty() { 0 } else { self.episodes() };
        if of_episode.len() != expected {
            let found = of_episode.len();
            return Err(format!("behaviours of {found} episodes where {expected} are expected"));
        }
        if let Some(index) = of_episode.iter().find(|&&index| usize::from(index) >= names.len()) {
            return Err(format!("behaviour {index} has no name; there are {}", names.len()));
        }
        let twice = |(at, name): (usize, &String)| names[..at].contains(name);
        match names.iter().enumerate().find(|&named| twice(named)) {
            None => Ok(()),
            Some((_, name)) => Err(format!("two behaviours are called `{name}`")),
        }
    }

    /// Names a row of a column as the data's owner knows it. Observations have one `extra` row an episode.
    fn place(&self, row: usize, extra: usize) -> String {
        let end = |episode: usize| self.starts[episode + 1] + extra * (episode + 1);
        let episode = (0..self.episodes()).find(|&episode| row < end(episode)).unwrap_or(0);
        let step = row - self.starts[episode] - extra * episode;
        format!("episode {episode}, step {step}")
    }

    /// What the columns mean.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The number of steps in all episodes.
    pub fn steps(&self) -> usize {
        self.rewards.len()
    }

    /// The number of episodes.
    pub fn episodes(&self) -> usize {
        self.ends.len()
    }

    /// The steps of one episode, as rows of [`Dataset::actions`] and [`Dataset::rewards`].
    pub fn episode_steps(&self, episode: usize) -> Range<usize> {
        self.starts[episode]..self.starts[episode + 1]
    }

    /// The T+1 observations of one episode, as rows of [`Dataset::observations`].
    pub fn episode_observations(&self, episode: usize) -> Range<usize> {
        let Range { start, end } = self.episode_steps(episode);
        start + episode..end + episode + 1
    }

    /// The number of steps of one episode.
    pub fn length(&self, episode: usize) -> usize {
        self.episode_steps(episode).len()
    }

    /// How one episode ended.
    pub fn end(&self, episode: usize) -> End {
        self.ends[episode]
    }

    /// Observations of every episode, the final ones included: `[steps + episodes, cells]`.
    pub fn observations(&self) -> &Cells {
        &self.observations
    }

    /// Actions: `[steps, cells]`.
    pub fn actions(&self) -> &Cells {
        &self.actions
    }

    /// Rewards: `[steps]`.
    pub fn rewards(&self) -> &[f32] {
        &self.rewards
    }

    /// Which behaviour made which episode.
    pub fn provenance(&self) -> &Provenance {
        &self.provenance
    }

    /// The undiscounted return of one episode.
    pub fn episode_return(&self, episode: usize) -> f64 {
        self.rewards[self.episode_steps(episode)].iter().map(|&reward| f64::from(reward)).sum()
    }

    /// The observed return from every step to the end of its episode: `R_t = r_t + discount · R_{t+1}`.
    pub fn returns_to_go(&self, discount: f64) -> Vec<f32> {
        let mut returns = vec![0.0; self.steps()];
        for episode in 0..self.episodes() {
            let mut to_go = 0.0;
            for step in self.episode_steps(episode).rev() {
                to_go = f64::from(self.rewards[step]) + discount * to_go;
                returns[step] = to_go as f32;
            }
        }
        returns
    }

    /// Appends the episodes of another data set with the same spaces and the same behaviours.
    pub fn append(&mut self, other: &Dataset) -> Result<(), DataError> {
        let (ours, theirs) = (&mut self.metadata, &other.metadata);
        let same_spaces = ours.observation_space == theirs.observation_space
            && ours.action_space == theirs.action_space;
        if !same_spaces || self.provenance.names != other.provenance.names {
            let problem = "the data sets have different spaces or behaviours";
            return Err(DataError::Invalid(problem.to_owned()));
        }
        // What the two do not share, the whole does not have.
        ours.task.take_if(|task| Some(&*task) != theirs.task.as_ref());
        ours.seed.take_if(|seed| Some(*seed) != theirs.seed);

        let steps = self.steps();
        self.starts.extend(other.starts[1..].iter().map(|start| steps + start));
        self.ends.extend_from_slice(&other.ends);
        self.observations.extend_from(other.observations.view(), 0..other.observations.len());
        self.actions.extend_from(other.actions.view(), 0..other.actions.len());
        self.rewards.extend_from_slice(&other.rewards);
        self.provenance.of_episode.extend_from_slice(&other.provenance.of_episode);
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two episodes, of two steps and of one, in a world of four states and three actions.
    pub(crate) fn small() -> (Metadata, Columns) {
        let metadata = Metadata {
            task: Some("small".to_owned()),
            seed: Some(3),
            observation_space: Space::Discrete { n: 4 },
            action_space: Space::Discrete { n: 3 },
        };
        let columns = Columns {
            lengths: vec![2, 1],
            ends: vec![
                End { terminated: true, truncated: false },
                End { terminated: false, truncated: true },
            ],
            observations: Cells::Byte(vec![0, 1, 2, 0, 3]),
            actions: Cells::Byte(vec![2, 0, 1]),
            rewards: vec![1.0, -0.5, 4.0],
            provenance: Provenance {
                names: vec!["one".to_owned(), "two".to_owned()],
                of_episode: vec![1, 0],
            },
        };
        (metadata, columns)
    }

    fn problem(change: impl FnOnce(&mut Metadata, &mut Columns)) -> String {
        let (mut metadata, mut columns) = small();
        change(&mut metadata, &mut columns);
        Dataset::new(metadata, columns).unwrap_err().to_string()
    }

    #[test]
    fn an_episode_has_one_observation_more_than_steps() {
        let (metadata, columns) = small();
        let data = Dataset::new(metadata, columns).unwrap();
        assert_eq!((data.steps(), data.episodes()), (3, 2));
        assert_eq!(data.episode_steps(1), 2..3);
        assert_eq!(data.episode_observations(0), 0..3);
        assert_eq!(data.episode_observations(1), 3..5);
        assert_eq!(data.episode_return(0), 0.5);
    }

    #[test]
    fn returns_to_go_sum_the_rest_of_the_episode() {
        let (metadata, columns) = small();
        let data = Dataset::new(metadata, columns).unwrap();
        assert_eq!(data.returns_to_go(1.0), [0.5, -0.5, 4.0]);
        assert_eq!(data.returns_to_go(0.5), [0.75, -0.5, 4.0]);
    }

    #[test]
    fn contradictions_are_refused_with_their_place() {
        assert_eq!(problem(|_, c| c.lengths = vec![3, 0]), "episode 1 has no steps");
        assert_eq!(
            problem(|_, c| c.rewards.truncate(2)),
            "2 rewards where 2 episodes of 3 steps in all need 3"
        );
        assert_eq!(
            problem(|_, c| c.rewards[2] = f32::NAN),
            "the reward of episode 1, step 0 is NaN"
        );
        assert_eq!(
            problem(|_, c| c.actions = Cells::Byte(vec![0, 3, 0])),
            "action outside Discrete(3): episode 0, step 1, cell 0: 3 is not below 3"
        );
        assert_eq!(
            problem(|m, _| m.observation_space = Space::Discrete { n: 300 }),
            "observation cells are Byte, which does not fit Discrete(300)"
        );
        assert_eq!(
            problem(|_, c| c.provenance.of_episode[1] = 2),
            "behaviour 2 has no name; there are 2"
        );
        assert!(
            problem(|m, _| m.action_space = Space::Discrete { n: 0 }).contains("no categories")
        );
    }

    #[test]
    fn appending_continues_the_numbering() {
        let (metadata, columns) = small();
        let one = Dataset::new(metadata, columns).unwrap();
        let mut both = one.clone();
        both.append(&one).unwrap();
        assert_eq!(both.metadata(), one.metadata());
        assert_eq!(both.episodes(), 4);
        assert_eq!(both.episode_steps(3), 5..6);
        assert_eq!(both.episode_observations(3), 8..10);
        assert_eq!(both.returns_to_go(1.0), [0.5, -0.5, 4.0, 0.5, -0.5, 4.0]);
    }
}
