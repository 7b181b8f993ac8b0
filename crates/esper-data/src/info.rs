//! What there is to say about a data set at a glance.

use serde::Serialize;

use crate::dataset::{Dataset, Metadata};
use crate::fields::Fields;
use crate::space::Space;
use crate::statistics::{Bar, BehaviourSummary, Distribution, Tally, return_histogram};
use crate::suspicions::suspicions;

/// Bars of the histogram of returns.
const BARS: usize = 10;

/// What a data set holds: what `esper info --json` prints, but for its file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// The task, if it is a named one.
    pub task: Option<String>,
    /// Its steps.
    pub steps: usize,
    /// Its episodes.
    pub episodes: usize,
    /// Their mean return.
    pub mean_return: f64,
    /// Their mean number of steps.
    pub mean_length: f64,
    /// Who made them.
    pub behaviours: Vec<BehaviourSummary>,
    /// What looks suspicious.
    pub warnings: Vec<String>,
    /// The seed it was made from, if it was made from one.
    pub seed: Option<u64>,
    /// What an observation looks like.
    pub observation_space: Space,
    /// What an action looks like.
    pub action_space: Space,
    /// What cells are called and hold, where that is known.
    #[serde(skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
    /// Returns of episodes.
    pub returns: Distribution,
    /// Their lengths.
    pub lengths: Distribution,
    /// Episodes that came to an end state.
    pub terminated: usize,
    /// Episodes that were cut.
    pub truncated: usize,
    /// Episodes by return.
    pub histogram: Vec<Bar>,
}

impl Info {
    /// Of a data set.
    ///
    /// ```
    /// use esper_data::{DatasetBuilder, End, Info};
    ///
    /// let mut log = DatasetBuilder::inferring();
    /// log.push(&[0u8], &[1u8], 0.5)?;
    /// log.end(&[1u8], End { terminated: true, truncated: false })?;
    /// let info = Info::of(&log.build()?);
    /// assert_eq!((info.steps, info.mean_return, info.terminated), (1, 0.5, 1));
    /// # Ok::<(), esper_data::DataError>(())
    /// ```
    pub fn of(data: &Dataset) -> Self {
        let tally = Tally::of(data);
        let total = tally.total();
        let ends = || (0..data.episodes()).map(|episode| data.end(episode));
        let Metadata { task, seed, observation_space, action_space, fields, .. } =
            data.metadata().clone();
        Info {
            task,
            steps: total.steps,
            episodes: total.episodes,
            mean_return: total.mean_return,
            mean_length: total.mean_length,
            behaviours: tally.behaviours(),
            warnings: suspicions(data),
            seed,
            observation_space,
            action_space,
            fields,
            returns: Distribution::of_returns(data),
            lengths: Distribution::of_lengths(data),
            terminated: ends().filter(|end| end.terminated).count(),
            truncated: ends().filter(|end| end.truncated).count(),
            histogram: return_histogram(data, BARS),
        }
    }
}
