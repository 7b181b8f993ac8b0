//! The episodes of a table, in the order of their first appearance.

use super::words::Words;

/// What is known of every episode after the first pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Episodes {
    pub(super) ids: Words,
    pub(super) facts: Vec<Episode>,
}

/// What is known of one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Episode {
    pub(super) rows: u64,
    /// Rows that have a reward.
    pub(super) rewards: u64,
    /// The first reward.
    reward: f32,
    /// Whether there is another.
    pub(super) rewards_differ: bool,
    /// The first of the files that it is in.
    file: u32,
    /// Whether it is in several.
    pub(super) in_several: bool,
    /// The latest time, rounded, and whether the row that has it says that the episode ended.
    latest: f64,
    pub(super) ended: bool,
}

/// What a row says of its episode.
pub(super) struct Row {
    pub(super) reward: Option<f32>,
    pub(super) file: u32,
    /// Its time, rounded; the same for all rows where the order of the file counts.
    pub(super) time: f64,
    pub(super) ended: bool,
}

impl Episodes {
    /// Adds a row of an episode.
    pub(super) fn add(&mut self, id: &str, row: Row) {
        let Row { reward, file, time, ended } = row;
        let rewards = u64::from(reward.is_some());
        let reward = reward.unwrap_or(0.0);
        let row =
            Episode { rows: 1, rewards, reward, file, latest: time, ended, ..Episode::default() };
        self.join_one(id, row);
    }

    fn join_one(&mut self, id: &str, other: Episode) {
        let number = self.ids.add(id);
        match self.facts.get_mut(number) {
            None => self.facts.push(other),
            Some(known) => {
                known.rewards_differ |= other.rewards_differ
                    || known.rewards > 0 && other.rewards > 0 && known.reward != other.reward;
                if known.rewards == 0 {
                    known.reward = other.reward;
                }
                known.rows += other.rows;
                known.rewards += other.rewards;
                known.in_several |= other.in_several || known.file != other.file;
                if other.latest >= known.latest {
                    (known.latest, known.ended) = (other.latest, other.ended);
                }
            }
        }
    }

    /// Joins those of rows further on.
    pub(super) fn join(&mut self, other: Episodes) {
        for (id, facts) in other.ids.iter().zip(other.facts) {
            self.join_one(id, facts);
        }
    }
}
