//! Behaviour cloning: no labels, and if asked for only the best episodes (percentile cloning).

use super::{About, Context, Labels, Relabel};
use crate::error::Error;
use crate::settings::Section;

crate::settings! {
    /// Behaviour cloning: what was done, whatever came of it.
    pub struct BcConfig in "bc" {
        /// Percentile: the share of the episodes, in percent and those with the highest returns, that is imitated.
        percentile: f64 = 100.0, within: 0.01..=100.0;
    }
}

/// Imitates what was done, whatever came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bc;

impl Relabel for Bc {
    fn about(&self) -> About {
        About::new("bc")
            .titled("behaviour cloning")
            .summed_up("imitates everybody, or the best (bc.percentile)")
    }

    fn sections(&self) -> Vec<Section> {
        vec![Section::of::<BcConfig>()]
    }

    fn has_targets(&self) -> bool {
        false
    }

    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let percentile = context.config.get::<BcConfig>()?.percentile;
        let data = context.data;
        let mut episodes: Vec<usize> = (0..data.episodes()).collect();
        let returns: Vec<f64> = episodes.iter().map(|&e| data.episode_return(e)).collect();
        // Highest first; among equals those that come first.
        episodes.sort_by(|&a, &b| returns[b].total_cmp(&returns[a]));
        let kept = (data.episodes() as f64 * percentile / 100.0).round() as usize;
        episodes.truncate(kept.max(1));
        episodes.sort_unstable();
        Ok(Labels { episodes: Some(episodes), ..Labels::new(vec![0.0; data.rows()]) })
    }
}
