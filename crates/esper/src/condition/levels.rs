//! What a level is worth from a start: the distribution of first labels given the first state.

use esper_data::{Dataset, Moments, Seed, Space};
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use super::evaluation::Evaluated;
use super::promises::{LEVELS, Promises};
use super::stream;
use crate::features::Encoding;
use crate::methods::Context;

/// Quantile function `Q(u | s_0)` of first labels given the first state. Starts are counted where they are few; where they are
/// many, each goes to the nearest of some, so that enough episodes are ranked together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartLevels {
    starts: Vec<Start>,
    /// How far the starts of the data are at most from the one that stands for them; files of before do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reach: Option<f64>,
}

/// A start, or some that are like it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Start {
    /// What it looks like.
    features: Vec<f32>,
    /// The share of all episodes.
    share: f64,
    /// What levels from 0 to 1, evenly spaced, are worth: quantiles of its first labels, or values of the policy.
    quantiles: Vec<f64>,
}

/// Quantiles that are kept of every start.
const QUANTILES: usize = 41;

/// Episodes that are ranked together at least, about.
const TOGETHER: usize = 100;

/// The most actions that a first one is told apart by.
const FEW_ACTIONS: usize = 32;

/// The most starts that are told apart.
const MOST_STARTS: usize = 128;

/// Labels that differ by less than this share of their deviation count as the same: a network's labels of one cluster differ
/// by a hair.
const SAME: f64 = 0.02;

/// A start is unlike any when it is this many times further from its like than any was.
const UNLIKE: f64 = 1.5;

/// Starts that are nearer than this, in deviations of their numbers, are alike in any case.
const ALIKE: f64 = 0.1;

impl StartLevels {
    /// Fits the first labels of episodes with these starts; gives for every episode its rank, from this to that: equal labels
    /// share the ranks that they take up.
    pub(super) fn of(starts: &Starts<'_>, labels: &[f64], seed: Seed) -> (Self, Vec<[f64; 2]>) {
        let found = prototypes(starts, seed);
        let of: Vec<usize> = starts.all().map(|start| nearest(&found, &start)).collect();
        let deviation = Moments::of(labels.iter().copied()).population_std();
        let same = SAME * deviation;
        let mut ranks = vec![[0.0, 1.0]; labels.len()];
        let mut all = Vec::new();
        for (prototype, features) in found.into_iter().enumerate() {
            let members: Vec<usize> = (0..of.len()).filter(|&at| of[at] == prototype).collect();
            if members.is_empty() {
                continue;
            }
            let mut sorted: Vec<f64> = members.iter().map(|&at| labels[at]).collect();
            sorted.sort_by(f64::total_cmp);
            let count = sorted.len() as f64;
            for &at in &members {
                let below = sorted.partition_point(|&label| label < labels[at] - same) as f64;
                let upto = sorted.partition_point(|&label| label <= labels[at] + same) as f64;
                ranks[at] = [below / count, upto / count];
            }
            let quantile = |at: usize| {
                let position = at as f64 / (QUANTILES - 1) as f64 * (count - 1.0);
                sorted[position.round() as usize]
            };
            all.push(Start {
                features,
                share: count / labels.len() as f64,
                quantiles: (0..QUANTILES).map(quantile).collect(),
            });
        }
        let far = |features: Vec<f32>| {
            all.iter().map(|start| distance(&start.features, &features)).fold(f64::MAX, f64::min)
        };
        let reach = starts.all().map(far).fold(0.0, f64::max).sqrt();
        (StartLevels { starts: all, reach: Some(reach) }, ranks)
    }

    /// For every episode of a data set a number that those share who start alike and first do the same.
    pub(crate) fn groups(context: &Context<'_>, seed: Seed) -> Vec<usize> {
        let Context { data, interface, .. } = *context;
        let all: Vec<usize> = (0..data.episodes()).collect();
        let starts = Starts::of_episodes(data, &interface.observation, &all);
        let found = prototypes(&starts, seed);
        // What is not a choice among a few counts as the same.
        let actions = match interface.action.encoding().space() {
            Space::Discrete { n } if *n as usize <= FEW_ACTIONS => *n as usize,
            _ => 1,
        };
        let first = |episode: usize| match actions {
            1 => 0,
            _ => data.with_actions(&[data.episode_steps(episode).start], |cells, rows| {
                cells.category(rows[0])
            }),
        };
        let group = |(episode, start): (usize, Vec<f32>)| {
            nearest(&found, &start) * actions + first(episode)
        };
        starts.all().enumerate().map(group).collect()
    }

    /// What levels are worth from every start when the policy acts.
    pub(super) fn evaluated(&self, values: &Evaluated<'_>, promises: &Promises) -> Self {
        let mut sums = vec![(vec![0.0; LEVELS.len()], 0.0); self.starts.len()];
        for (start, (features, &often)) in values.starts.all().zip(&values.counts).enumerate() {
            let (sum, count) = &mut sums[self.nearest(&features)];
            *count += often;
            (0..LEVELS.len()).for_each(|level| sum[level] += often * values.value(level, start));
        }
        let worth = |(start, (sum, count)): (&Start, (Vec<f64>, f64))| {
            if count == 0.0 {
                return start.clone();
            }
            let worth = |rank: f64| {
                let at = LEVELS.partition_point(|&level| level < rank).min(LEVELS.len() - 1);
                sum[at] / count
            };
            let quantile = |step: usize| {
                promises.mixed(step as f64 / (QUANTILES - 1) as f64, |promise| worth(promise.rank))
            };
            let quantiles = (0..QUANTILES).map(quantile).collect();
            Start { quantiles, ..start.clone() }
        };
        let starts = self.starts.iter().zip(sums).map(worth).collect();
        StartLevels { starts, reach: self.reach }
    }

    /// Whether it makes sense; one that was read from a file may not.
    pub(super) fn check(&self) -> Result<(), String> {
        let sound = |start: &Start| {
            start.quantiles.len() == QUANTILES
                && start.quantiles.iter().all(|label| label.is_finite())
                && start.share.is_finite()
                && start.features.len() == self.starts[0].features.len()
        };
        let reaches = self.reach.is_none_or(|reach| reach.is_finite() && reach >= 0.0);
        match !self.starts.is_empty() && self.starts.iter().all(sound) && reaches {
            true => Ok(()),
            false => Err("its levels of starts make no sense".to_owned()),
        }
    }

    /// What a level is worth from a start, by labels.
    pub fn worth(&self, features: &[f32], level: f64) -> f64 {
        self.starts.get(self.nearest(features)).map_or(0.0, |of| at_level(&of.quantiles, level))
    }

    /// Novelty: whether a start is unlike any in the data, so that what a level is worth from there is anybody's guess. It is
    /// when it is much further from all that stand for others than any start of the data was.
    pub fn is_unlike_any(&self, features: &[f32]) -> bool {
        let nearest = self.starts.get(self.nearest(features));
        match (nearest, self.reach) {
            (Some(start), Some(reach)) => {
                distance(&start.features, features).sqrt() > UNLIKE * reach + ALIKE
            }
            _ => false,
        }
    }

    /// The start that is most like this.
    fn nearest(&self, features: &[f32]) -> usize {
        let far = |at: &usize| distance(&self.starts[*at].features, features);
        (0..self.starts.len()).min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)
    }

    /// What a level is worth on average over starts, by labels.
    pub fn mean_worth(&self, level: f64) -> f64 {
        let total: f64 = self.starts.iter().map(|start| start.share).sum();
        let worth = |start: &Start| start.share * at_level(&start.quantiles, level);
        self.starts.iter().map(worth).sum::<f64>() / total
    }
}

/// The label at a level, between quantiles in a straight line.
fn at_level(quantiles: &[f64], level: f64) -> f64 {
    let at = level.clamp(0.0, 1.0) * (quantiles.len() - 1) as f64;
    let (below, share) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(quantiles.len() - 1);
    quantiles[below] * (1.0 - share) + quantiles[above] * share
}

/// Features of the first states of some episodes, made when they are asked for: all at once they may be far more than the
/// data itself.
pub(super) struct Starts<'a> {
    count: usize,
    features: Box<dyn Fn(usize) -> Vec<f32> + 'a>,
}

impl<'a> Starts<'a> {
    /// The starts of some episodes.
    pub(super) fn of_episodes(
        data: &'a Dataset,
        encoding: &'a Encoding,
        episodes: &[usize],
    ) -> Self {
        let first = |&episode: &usize| data.episode_observations(episode).start;
        Self::of_rows(data, encoding, episodes.iter().map(first).collect())
    }

    /// Some observations.
    pub(super) fn of_rows(data: &'a Dataset, encoding: &'a Encoding, rows: Vec<usize>) -> Self {
        let count = rows.len();
        Starts { count, features: Box::new(move |at| encoding.features(data, rows[at])) }
    }

    /// Features that are there already.
    #[cfg(test)]
    pub(super) fn given(features: &'a [Vec<f32>]) -> Self {
        Starts { count: features.len(), features: Box::new(|at| features[at].clone()) }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn all(&self) -> impl Iterator<Item = Vec<f32>> {
        (0..self.count).map(&self.features)
    }
}

/// Starts that stand for all: every different one where they are few, else some that are far apart.
fn prototypes(starts: &Starts<'_>, seed: Seed) -> Vec<Vec<f32>> {
    let most = (starts.len() / TOGETHER).clamp(1, MOST_STARTS);
    let mut different: Vec<Vec<f32>> = Vec::new();
    for start in starts.all() {
        if !different.contains(&start) {
            different.push(start);
            if different.len() > most {
                break;
            }
        }
    }
    if different.len() <= most {
        return different;
    }
    // The furthest of some hundreds from those that are chosen already, again and again.
    let mut some: Vec<usize> = (0..starts.len()).collect();
    some.shuffle(&mut stream(seed, "starts"));
    some.truncate(20 * most);
    let features = |at: usize| (starts.features)(some[at]);
    let mut chosen: Vec<Vec<f32>> = vec![features(0)];
    let mut distances: Vec<f64> =
        (0..some.len()).map(|at| distance(&chosen[0], &features(at))).collect();
    while chosen.len() < most {
        let furthest = (0..some.len()).max_by(|&a, &b| distances[a].total_cmp(&distances[b]));
        let new = features(furthest.unwrap_or(0));
        for (at, known) in distances.iter_mut().enumerate() {
            *known = known.min(distance(&new, &features(at)));
        }
        chosen.push(new);
    }
    chosen
}

fn nearest(prototypes: &[Vec<f32>], start: &[f32]) -> usize {
    let far = |at: &usize| distance(&prototypes[*at], start);
    (0..prototypes.len()).min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)
}

fn distance(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two starts: from one labels are 0 and 1 alike, from the other 10 always.
    #[test]
    fn ranks_are_given_the_start() {
        let (mut starts, mut labels) = (Vec::new(), Vec::new());
        for episode in 0..400 {
            let lucky = episode % 4 == 3;
            starts.push(if lucky { vec![0.0, 1.0] } else { vec![1.0, 0.0] });
            labels.push(if lucky { 10.0 } else { f64::from(episode % 2) });
        }
        let (levels, ranks) = StartLevels::of(&Starts::given(&starts), &labels, Seed::new(0));
        levels.check().unwrap();
        // Of the 300 ordinary ones, 200 are 0 and 100 are 1.
        let third = |rank: [f64; 2]| rank.map(|number| (number * 300.0).round() as i64);
        assert_eq!((third(ranks[0]), third(ranks[1])), ([0, 200], [200, 300]));
        assert_eq!(ranks[3], [0.0, 1.0], "equal labels share all ranks");
        assert_eq!((levels.worth(&[1.0, 0.0], 0.9), levels.worth(&[0.0, 1.0], 0.1)), (1.0, 10.0));
        assert_eq!(levels.mean_worth(0.95), 0.75 * 1.0 + 0.25 * 10.0);
        assert_eq!(levels.mean_worth(0.05), 2.5);
    }

    /// Starts are numbers from 0 to 10 and labels are the start, or one more: within a part of the line, half of them are high.
    #[test]
    fn starts_that_are_many_are_ranked_with_their_like() {
        let start = |episode: usize| (episode * 7919 % 5_000) as f32 / 500.0;
        let starts: Vec<Vec<f32>> = (0..5_000).map(|episode| vec![start(episode)]).collect();
        let label = |episode: usize| f64::from(start(episode)) + (episode % 2) as f64;
        let labels: Vec<f64> = (0..5_000).map(label).collect();
        let (levels, ranks) = StartLevels::of(&Starts::given(&starts), &labels, Seed::new(0));
        assert!((30..=50).contains(&levels.starts.len()), "{}", levels.starts.len());
        let right = |episode: &usize| (ranks[*episode][0] >= 0.5) == (episode % 2 == 1);
        let share = (0..5_000).filter(right).count() as f64 / 5_000.0;
        assert!(share > 0.95, "{share}");
        assert!((levels.worth(&[5.0], 0.9) - 6.0).abs() < 0.2);
        let reach = levels.reach.unwrap();
        assert!((0.1..0.5).contains(&reach), "{reach}");
        let unlike = |start: f32| levels.is_unlike_any(&[start]);
        assert!(!unlike(5.03) && !unlike(10.1) && unlike(11.0) && unlike(-1.0));
        // A file of before says nothing of it.
        let before =
            serde_json::json!({ "starts": serde_json::to_value(&levels).unwrap()["starts"] });
        let before: StartLevels = serde_json::from_value(before).unwrap();
        before.check().unwrap();
        assert!(!before.is_unlike_any(&[99.0]));
    }
}
