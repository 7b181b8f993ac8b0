//! Who acted how well: what a data set says before anything is learned from it.

use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::numbers::Moments;
use crate::statistics::{Bar, Distribution, histogram};
use crate::suspicions::suspicions;

/// What a data set says by itself: for reports, never for learning.
///
/// ```
/// use esper_data::{DatasetBuilder, End, Overview};
///
/// let mut builder = DatasetBuilder::inferring();
/// for episode in 0..40u8 {
///     builder.made_by(if episode % 2 == 0 { "ann" } else { "ben" });
///     builder.push(&[0u8], &[episode % 2], f32::from(episode % 2))?;
///     builder.end(&[1u8], End { terminated: true, truncated: false })?;
/// }
/// let overview = Overview::of(&builder.build()?, 1.0);
/// assert_eq!(overview.all.mean_return, 0.5);
/// assert_eq!(overview.best_behaviour().map(|best| best.name.as_str()), Some("ben"));
/// # Ok::<(), esper_data::DataError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Overview {
    /// Discount factor γ that returns are taken with.
    pub discount: f64,
    /// Everybody together.
    pub all: BehaviourReturns,
    /// Whoever has a name and acted; the one that acted most often first.
    pub behaviours: Vec<BehaviourReturns>,
    /// How returns are distributed over episodes.
    pub returns: Distribution,
    /// How lengths are.
    pub lengths: Distribution,
    /// Episodes by their return.
    pub histogram: Vec<Bar>,
    /// Episodes that came to an end.
    pub terminated: usize,
    /// Episodes that were cut.
    pub truncated: usize,
    /// What looks wrong ([`suspicions`]).
    pub warnings: Vec<String>,
}

/// What one behaviour's episodes returned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BehaviourReturns {
    /// Its name.
    pub name: String,
    /// Its episodes.
    pub episodes: usize,
    /// Their steps.
    pub steps: usize,
    /// Their mean return.
    pub mean_return: f64,
    /// From where the mean is, with nine chances of ten; unknown of a single episode.
    pub low: Option<f64>,
    /// To where.
    pub high: Option<f64>,
    /// Standard deviation of returns.
    pub std: f64,
    /// Their mean length.
    pub mean_length: f64,
}

/// Bars of the histogram.
const BARS: usize = 24;

/// Standard errors to either side of a mean that the truth is within, with nine chances of ten.
const NINE_OF_TEN: f64 = 1.645;

/// With fewer episodes nobody is called the best.
const FEW_EPISODES: usize = 10;

impl Overview {
    /// Of a data set, with returns that are discounted by this.
    pub fn of(data: &Dataset, discount: f64) -> Self {
        let to_go = data.returns_to_go(discount);
        let returned = |episode: usize| f64::from(to_go[data.episode_steps(episode).start]);
        let of_some = |name: &str, episodes: &[usize]| {
            let moments = Moments::of(episodes.iter().map(|&episode| returned(episode)));
            let steps = episodes.iter().map(|&episode| data.length(episode)).sum::<usize>();
            let margin = NINE_OF_TEN * moments.standard_error();
            let is_known = episodes.len() > 1;
            BehaviourReturns {
                name: name.to_owned(),
                episodes: episodes.len(),
                steps,
                mean_return: moments.mean,
                low: is_known.then_some(moments.mean - margin),
                high: is_known.then_some(moments.mean + margin),
                std: moments.sample_std(),
                mean_length: steps as f64 / episodes.len().max(1) as f64,
            }
        };
        let everything: Vec<usize> = (0..data.episodes()).collect();
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); data.behaviours().len()];
        for &episode in &everything {
            if let Some(behaviour) = data.behaviour(episode) {
                members[behaviour].push(episode);
            }
        }
        let mut behaviours: Vec<BehaviourReturns> = data
            .behaviours()
            .iter()
            .zip(&members)
            .filter(|(_, episodes)| !episodes.is_empty())
            .map(|(name, episodes)| of_some(name, episodes))
            .collect();
        behaviours.sort_by_key(|of| std::cmp::Reverse(of.episodes));
        let ends = || everything.iter().map(|&episode| data.end(episode));
        let returns: Vec<f64> = everything.iter().map(|&episode| returned(episode)).collect();
        Overview {
            discount,
            all: of_some("all", &everything),
            behaviours,
            histogram: histogram(returns.clone(), BARS),
            returns: Distribution::of(returns),
            lengths: Distribution::of_lengths(data),
            terminated: ends().filter(|end| end.terminated).count(),
            truncated: ends().filter(|end| end.truncated).count(),
            warnings: suspicions(data),
        }
    }

    /// Who is best, as far as can be known: the highest lower bound of a mean. Of many with few episodes each, the highest mean
    /// is the luckiest.
    pub fn best_behaviour(&self) -> Option<&BehaviourReturns> {
        let enough = self.behaviours.iter().filter(|of| of.episodes >= FEW_EPISODES);
        let bound = |of: &BehaviourReturns| of.low.unwrap_or(f64::NEG_INFINITY);
        enough.max_by(|a, b| bound(a).total_cmp(&bound(b)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatasetBuilder, End};

    /// Ann returns 1 and 3 in turn, 50 times each; Ben 5 once; Cleo 2 always. With discount factor 1/2 a second step counts half.
    #[test]
    fn behaviours_have_intervals() {
        let mut builder = DatasetBuilder::inferring();
        let end = End { terminated: true, truncated: false };
        let mut episode = |who: &str, rewards: &[f32]| {
            builder.made_by(who);
            let cells = vec![0u8; rewards.len()];
            builder.push_steps(&cells, &cells, rewards).unwrap();
            builder.end(&[1u8], end).unwrap();
        };
        for number in 0..100 {
            episode("ann", if number % 2 == 0 { &[1.0, 0.0] } else { &[1.0, 2.0] });
        }
        episode("ben", &[5.0]);
        (0..20).for_each(|_| episode("cleo", &[2.0]));
        let data = builder.build().unwrap();
        let overview = Overview::of(&data, 1.0);
        let [ann, cleo, ben] = &overview.behaviours[..] else { panic!("three behaviours") };
        assert_eq!((ann.name.as_str(), ann.mean_return, ann.mean_length), ("ann", 2.0, 2.0));
        // A deviation of 1 over 100 episodes, of a sample: 1.645 · 1 / √99.
        let margin = 1.645 / 99f64.sqrt();
        assert!((ann.high.unwrap() - (2.0 + margin)).abs() < 1e-9);
        assert_eq!((cleo.low, cleo.high), (Some(2.0), Some(2.0)));
        assert_eq!((ben.low, ben.mean_return), (None, 5.0));
        // Ann is as good on average and less sure; Ben acted once.
        assert_eq!(overview.best_behaviour().unwrap().name, "cleo");
        assert_eq!((overview.all.episodes, overview.terminated, overview.truncated), (121, 121, 0));
        assert_eq!(Overview::of(&data, 0.5).behaviours[0].mean_return, 1.5);
        let json = serde_json::to_string(&overview).unwrap();
        assert_eq!(serde_json::from_str::<Overview>(&json).unwrap(), overview);
    }
}
