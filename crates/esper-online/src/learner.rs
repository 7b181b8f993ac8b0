//! What every way of learning by acting has in common.

use esper::{Checkpoint, Error};

use crate::OnlineError;
use crate::actor::Actor;
use crate::playing::Finished;

/// Somebody who learns by acting.
pub trait OnlineLearner {
    /// Acts for a while, and learns from it.
    fn update(&mut self) -> Result<Update, OnlineError>;

    /// The policy as it is now.
    fn actor(&self) -> Actor;

    /// Episodes of training that say how good the policy is.
    fn recent_episodes(&self) -> usize;

    /// Everything it takes to go on from here.
    fn to_checkpoint(&self) -> Checkpoint;

    /// Goes on from a checkpoint, to the same bytes as if there had been no break.
    fn restore(&mut self, checkpoint: &Checkpoint) -> Result<(), OnlineError>;
}

/// What an update gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update {
    /// Steps taken in the worlds so far.
    pub steps: usize,
    /// Episodes that ended since the last update.
    pub episodes: usize,
    /// The sum of the returns of those episodes.
    pub returns: f64,
    /// Losses and the like, means over the update.
    pub measured: Vec<(&'static str, f64)>,
}

impl Update {
    /// Counts episodes that are over.
    pub(crate) fn finish(&mut self, finished: &[Finished]) {
        self.episodes += finished.len();
        self.returns += finished.iter().map(|episode| episode.returned).sum::<f64>();
    }

    /// Whether everything is a number.
    pub(crate) fn check(&self) -> Result<(), OnlineError> {
        match self.measured.iter().find(|(_, value)| !value.is_finite()) {
            None => Ok(()),
            Some(&(what, _)) => {
                let (phase, step) = ("the expert".to_owned(), self.steps);
                Err(OnlineError::Learning(Error::Diverged { phase, step, what }))
            }
        }
    }
}

/// The next part of a checkpoint.
pub(crate) fn next_part<'a>(
    parts: &mut dyn Iterator<Item = &'a [u8]>,
) -> Result<&'a [u8], OnlineError> {
    parts.next().ok_or_else(elsewhere)
}

/// A number that a part of a checkpoint is.
pub(crate) fn count(part: &[u8]) -> Result<u64, OnlineError> {
    Ok(u64::from_le_bytes(part.try_into().map_err(|_| elsewhere())?))
}

pub(crate) fn elsewhere() -> OnlineError {
    OnlineError::Learning(Error::Run("a checkpoint is not of this kind of training".to_owned()))
}
