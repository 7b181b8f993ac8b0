//! Episodes out of arrays: where every reader of another tool's format ends.

use std::ops::Range;

use super::numbers::Array;
use super::spaces::Side;
use crate::builder::DatasetBuilder;
use crate::dataset::{Dataset, End, Metadata};
use crate::error::DataError;
use crate::fields::Fields;

/// A data set that is being made of arrays.
pub(super) struct Log {
    observation: Side,
    action: Side,
    builder: DatasetBuilder,
}

/// One episode in arrays, one for each part of a space.
pub(super) struct Episode<'a> {
    pub(super) observations: &'a [Array],
    pub(super) actions: &'a [Array],
    pub(super) rewards: &'a [f32],
    /// The rows of its steps, in all of them.
    pub(super) rows: Range<usize>,
    /// What its last action led to: a row of arrays like the observations.
    pub(super) last: (&'a [Array], usize),
    pub(super) end: End,
}

impl Log {
    pub(super) fn new(observation: Side, action: Side) -> Self {
        let fields = Fields { observation: observation.fields(), action: action.fields() };
        let spaces = Metadata::new(observation.space.clone(), action.space.clone());
        Self::with_metadata(observation, action, Metadata { fields, ..spaces })
    }

    /// The same where more is known than the parts say. The spaces have to have the same cells.
    pub(super) fn with_metadata(observation: Side, action: Side, metadata: Metadata) -> Self {
        Log { observation, action, builder: DatasetBuilder::new(metadata) }
    }

    /// Appends an episode. Its arrays may hold others as well.
    pub(super) fn push(&mut self, episode: &Episode<'_>) -> Result<(), DataError> {
        let Episode { observations, actions, rewards, rows, last, end } = episode;
        let cells = || {
            self.observation.check(observations)?;
            self.observation.check(last.0)?;
            self.action.check(actions)?;
            Ok((
                self.observation.cells(observations, rows.clone())?,
                self.action.cells(actions, rows.clone())?,
                self.observation.cells(last.0, last.1..last.1 + 1)?,
            ))
        };
        let (observations, actions, last) = cells().map_err(DataError::Invalid)?;
        self.builder.push_steps(&observations, &actions, &rewards[rows.clone()])?;
        self.builder.end(&last, *end)
    }

    /// Names who made the next episode.
    pub(super) fn made_by(&mut self, name: &str) {
        self.builder.made_by(name);
    }

    pub(super) fn build(self) -> Result<Dataset, DataError> {
        self.builder.build()
    }
}
