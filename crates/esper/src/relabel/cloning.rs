//! Behaviour cloning: no labels, and if asked for only the best episodes.

use super::{Context, Labels, Relabel};
use crate::error::Error;

/// Imitates what was done, whatever came of it.
#[derive(Clone, Copy, Debug)]
pub struct Cloning {
    /// The share of the episodes, in percent and those with the highest returns, that is imitated.
    pub percentile: f64,
}

impl Relabel for Cloning {
    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let data = context.data;
        let mut episodes: Vec<usize> = (0..data.episodes()).collect();
        let returns: Vec<f64> = episodes.iter().map(|&e| data.episode_return(e)).collect();
        // Highest first; among equals those that come first.
        episodes.sort_by(|&a, &b| returns[b].total_cmp(&returns[a]));
        let kept = (data.episodes() as f64 * self.percentile / 100.0).round() as usize;
        episodes.truncate(kept.max(1));
        episodes.sort_unstable();
        Ok(Labels {
            values: vec![0.0; data.steps()],
            episodes: Some(episodes),
            ..Labels::default()
        })
    }
}
