//! What levels promise: average returns from the data alone, calibrated on held-out episodes, with an interval.

use esper_data::{Moments, Seed};
use rand::RngExt;
use serde::{Deserialize, Serialize};

use super::evaluation::Evaluated;
use super::levels::StartLevels;
use super::stream;

/// What a level promises.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The level.
    pub level: f64,
    /// The average return that asking for it gets.
    pub promise: f64,
    /// From where it is, with nine chances of ten.
    pub low: f64,
    /// To where.
    pub high: f64,
    /// What the policy is told: the level itself, or a lower one that is worth more; of a level that is not known, as the nearest.
    pub rank: f64,
}

impl Promise {
    /// A promise that is taken at its word.
    pub(crate) fn exactly(level: f64, promise: f64) -> Self {
        Promise { level, promise, low: promise, high: promise, rank: level }
    }
}

/// A stretch of levels, and what a policy is told where one of them is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankPiece {
    /// The highest level of the stretch.
    pub upto: f64,
    /// What is told.
    pub rank: f64,
}

/// What levels promise, from the lowest to the highest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promises(Vec<Promise>);

/// The steps that levels are told apart by: 0.05, 0.1, …, 0.95.
const STEPS: usize = 20;

/// Bootstrap samples of the episodes.
const SAMPLES: usize = 200;

/// The share of bootstrap samples that is left out at either end.
const TAIL: f64 = 0.05;

/// With fewer episodes promises are guesses.
const FEW_EPISODES: usize = 200;

/// An interval is wide from this share of what promises differ by.
const WIDE: f64 = 0.15;

/// Levels that a policy is evaluated at. The highest is for what few did well.
pub(super) const LEVELS: [f64; 14] =
    [0.05, 0.125, 0.2, 0.275, 0.35, 0.425, 0.5, 0.575, 0.65, 0.725, 0.8, 0.875, 0.95, 0.98];

/// Levels that a sweep asks for: some of those.
const SWEEP: [f64; 7] = [0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95];

impl Promises {
    /// Promises of levels, given first labels and returns of episodes, some of which no label was learned from.
    pub(super) fn of(
        starts: &StartLevels,
        labels: &[f64],
        returns: &[f64],
        held_out: &[bool],
        seed: Seed,
    ) -> Self {
        let tested: Vec<(f64, f64)> = (0..labels.len())
            .filter(|&at| held_out[at])
            .map(|at| (labels[at], returns[at]))
            .collect();
        // Averages of all episodes are the same whoever is held out: they say where the middle is.
        let middle = [labels, returns].map(|values| Moments::of(values.iter().copied()).mean);
        let calibration = Calibration::of(&tested, middle).monotone();
        let mut rng = stream(seed, "bootstrap");
        let errors = Moments::of(returns.iter().zip(labels).map(|(r, l)| r - l));
        let samples: Vec<Calibration> = (0..SAMPLES)
            .map(|_| {
                let again: Vec<(f64, f64)> =
                    tested.iter().map(|_| tested[rng.random_range(0..tested.len())]).collect();
                // The middle is known to within the error of a mean.
                let normal: f64 = rng.sample(rand_distr::StandardNormal);
                let shift = errors.standard_error() * normal;
                Calibration::of(&again, [middle[0], middle[1] + shift])
            })
            .collect();
        let promise = |step: usize| {
            let level = step as f64 / STEPS as f64;
            let worth = starts.mean_worth(level);
            let mut spread: Vec<f64> = samples.iter().map(|of| of.apply(worth)).collect();
            spread.sort_by(f64::total_cmp);
            let at = |share: f64| spread[(share * (SAMPLES - 1) as f64).round() as usize];
            Promise {
                level,
                promise: calibration.apply(worth),
                low: at(TAIL),
                high: at(1.0 - TAIL),
                rank: level,
            }
        };
        Promises((1..STEPS).map(promise).collect())
    }

    /// Promises of a policy that was evaluated as it acts. Where a level is worth less than a lower one, or could be because little
    /// is known of what it does, the lower one is what asking for it gets: a higher level never promises less.
    pub(super) fn evaluated(values: &Evaluated<'_>) -> Self {
        let mut best: Option<Promise> = None;
        let promise = |(at, &level): (usize, &f64)| {
            let margin = values.margins[at];
            let promise = values.mean(at);
            let own = Promise {
                level,
                promise,
                low: promise - margin,
                high: promise + margin,
                rank: level,
            };
            let better = best.is_none_or(|best| own.promise >= best.promise && own.low >= best.low);
            let kept = if better { own } else { best.unwrap_or(own) };
            best = Some(kept);
            Promise { level, ..kept }
        };
        Promises(LEVELS.iter().enumerate().map(promise).collect())
    }

    /// Whether they make sense; those that were read from a file may not.
    pub(super) fn check(&self) -> Result<(), String> {
        let sound = |promise: &Promise| {
            let Promise { level, promise, low, high, rank } = *promise;
            [level, promise, low, high, rank].iter().all(|number| number.is_finite())
        };
        let in_order = self.0.is_sorted_by(|a, b| a.level < b.level && a.promise <= b.promise);
        match !self.0.is_empty() && self.0.iter().all(sound) && in_order {
            true => Ok(()),
            false => Err("its promises are not in order".to_owned()),
        }
    }

    /// What has to be said beforehand, given the number of episodes: a sentence each without a stop.
    pub(crate) fn warnings(&self, episodes: usize) -> Vec<String> {
        let mut warnings = Vec::new();
        if episodes < FEW_EPISODES {
            warnings.push(format!(
                "there are {episodes} episodes, so few speak about any level: promises are guesses; collect more before you act on them"
            ));
        }
        let promised = || self.0.iter().map(|promise| promise.promise);
        let spread = promised().fold(f64::MIN, f64::max) - promised().fold(f64::MAX, f64::min);
        let chosen = self.of_level(self.offline_level());
        let margin = (chosen.high - chosen.low) / 2.0;
        if margin > WIDE * spread {
            warnings.push(format!(
                "the promise of the level that is chosen may be off by {margin:.3}, which is much of what levels differ by: collect more episodes"
            ));
        }
        warnings
    }

    /// All of them, from the lowest level to the highest.
    pub fn all(&self) -> &[Promise] {
        &self.0
    }

    /// The known levels below and above one, and how far it is from the first to the second; of what is known at the ends twice the
    /// same. `None` if nothing is known.
    fn around(&self, level: f64) -> Option<(&Promise, &Promise, f64)> {
        let above = self.0.partition_point(|promise| promise.level < level);
        let below = self.0.get(above.saturating_sub(1))?;
        let above = self.0.get(above).unwrap_or(below);
        let width = above.level - below.level;
        let share = if width > 0.0 { (level - below.level) / width } else { 0.0 };
        Some((below, above, share.clamp(0.0, 1.0)))
    }

    /// Some number of a level, between those of known levels in a straight line; nothing is 0.
    pub(super) fn mixed(&self, level: f64, of: impl Fn(&Promise) -> f64) -> f64 {
        let between = |(below, above, share)| of(below) * (1.0 - share) + of(above) * share;
        self.around(level).map_or(0.0, between)
    }

    /// The promise of a level, between those that are known in a straight line.
    pub fn of_level(&self, level: f64) -> Promise {
        Promise {
            level,
            promise: self.mixed(level, |known| known.promise),
            low: self.mixed(level, |known| known.low),
            high: self.mixed(level, |known| known.high),
            rank: self.rank(level),
        }
    }

    /// What the policy is told in an episode where a level is asked for, given a draw from 0 to 1: what the known level below it is
    /// told, or the one above, as often as it is near to them. So what is achieved lies on the straight line between what they
    /// achieve, as the promise does; a policy that is told something between them does whatever it does. No number stays none.
    pub fn told(&self, level: f64, draw: f64) -> f64 {
        match self.around(level) {
            Some((below, above, share)) if level.is_finite() => {
                if draw < share {
                    above.rank
                } else {
                    below.rank
                }
            }
            _ => level,
        }
    }

    /// What the policy is told at the nearest known level.
    pub fn rank(&self, level: f64) -> f64 {
        self.told(level, 0.5)
    }

    /// What [`rank`](Self::rank) does, as pieces one above the other: each holds above the one before it, up to its end.
    pub fn rank_pieces(&self) -> Vec<RankPiece> {
        let ends = self.0.windows(2).map(|pair| f64::midpoint(pair[0].level, pair[1].level));
        let mut pieces: Vec<RankPiece> = Vec::new();
        for (promise, upto) in self.0.iter().zip(ends.chain([f64::INFINITY])) {
            match pieces.last_mut() {
                Some(last) if last.rank == promise.rank => last.upto = upto,
                _ => pieces.push(RankPiece { upto, rank: promise.rank }),
            }
        }
        pieces
    }

    /// The level whose promise is this return: the nearest, if none is.
    pub fn level_of(&self, returned: f64) -> f64 {
        let above = self.0.partition_point(|promise| promise.promise < returned);
        match (above.checked_sub(1).map(|below| self.0[below]), self.0.get(above)) {
            (Some(a), Some(b)) if b.promise > a.promise => {
                a.level + (returned - a.promise) / (b.promise - a.promise) * (b.level - a.level)
            }
            (_, Some(b)) => b.level,
            (Some(a), None) => a.level,
            (None, None) => 0.5,
        }
    }

    /// The level that is chosen from the data alone: the one whose promise has the highest lower bound, and of equals the one in
    /// the middle, which most data speaks about.
    pub fn offline_level(&self) -> f64 {
        let best = self.0.iter().map(|promise| promise.low).fold(f64::MIN, f64::max);
        let spread = self.0.iter().map(|promise| promise.promise.abs()).fold(0.0, f64::max);
        let as_good = |promise: &&Promise| promise.low >= best - 1e-9 * (1.0 + spread);
        let equal: Vec<f64> = self.0.iter().filter(as_good).map(|promise| promise.level).collect();
        equal.get(equal.len() / 2).copied().unwrap_or(0.5)
    }

    /// Levels to ask for: some over the whole range, and the one that is chosen offline.
    pub fn sweep(&self) -> Vec<f64> {
        let mut levels = SWEEP.to_vec();
        let offline = self.offline_level();
        if !levels.contains(&offline) {
            levels.push(offline);
            levels.sort_by(f64::total_cmp);
        }
        levels
    }
}

/// From labels to returns: a straight line that goes through the middle of both, whose slope held-out episodes decide. The highest
/// of many noisy labels are those that are too high; then returns grow less than labels do.
struct Calibration {
    label: f64,
    returned: f64,
    slope: f64,
}

impl Calibration {
    fn of(tested: &[(f64, f64)], [label, returned]: [f64; 2]) -> Self {
        let labels = Moments::of(tested.iter().map(|(label, _)| *label));
        let returns = Moments::of(tested.iter().map(|(_, returned)| *returned));
        let (mut product, mut square) = (0.0, 0.0);
        for (label, returned) in tested {
            product += (label - labels.mean) * (returned - returns.mean);
            square += (label - labels.mean).powi(2);
        }
        // Nothing to tell: labels are taken at their word.
        let slope = if square > 0.0 { (product / square).min(1.5) } else { 1.0 };
        Calibration { label, returned, slope }
    }

    /// Higher levels promise no less. What episodes might have said otherwise stays in the interval.
    fn monotone(self) -> Self {
        Calibration { slope: self.slope.max(0.0), ..self }
    }

    fn apply(&self, label: f64) -> f64 {
        self.returned + self.slope * (label - self.label)
    }
}

#[cfg(test)]
mod tests {
    use super::super::levels::Starts;
    use super::*;

    fn line(slope: f64) -> Promises {
        // Labels 0 to 1; held-out returns grow by `slope` as much, with noise that averages out.
        let labels: Vec<f64> = (0..4_000).map(|at| f64::from(at % 100) / 100.0).collect();
        let noise = |at: usize| if (at / 100).is_multiple_of(2) { 0.5 } else { -0.5 };
        let returns: Vec<f64> = (0..4_000).map(|at| 3.0 + slope * labels[at] + noise(at)).collect();
        let held_out: Vec<bool> = (0..4_000).map(|at| at >= 2_000).collect();
        let starts = vec![vec![0.0]; 4_000];
        let (levels, _) = StartLevels::of(&Starts::given(&starts), &labels, Seed::new(0));
        Promises::of(&levels, &labels, &returns, &held_out, Seed::new(1))
    }

    #[test]
    fn promises_are_what_held_out_episodes_return() {
        for slope in [1.0, 0.4] {
            let promises = line(slope);
            promises.check().unwrap();
            for level in [0.05, 0.5, 0.95] {
                let Promise { promise, low, high, .. } = promises.of_level(level);
                assert!(
                    (promise - (3.0 + slope * level)).abs() < 0.03,
                    "{slope} {level} {promise}"
                );
                assert!(low < promise && promise < high && high - low < 0.2, "{low} {high}");
            }
            assert!((promises.level_of(3.0 + slope * 0.5) - 0.5).abs() < 0.05);
            assert_eq!((promises.level_of(-9.0), promises.level_of(9.0)), (0.05, 0.95));
            assert_eq!(promises.offline_level(), 0.95);
        }
    }

    /// A third of the way between known levels, two of three episodes are told the lower one: the average of what both achieve is
    /// what is promised. What is worth less than a lower one is told that.
    #[test]
    fn between_known_levels_one_of_them_is_drawn() {
        let known = |level: f64, promise: f64, rank: f64| Promise {
            rank,
            ..Promise { level, ..Promise::exactly(level, promise) }
        };
        let promises =
            Promises(vec![known(0.2, 1.0, 0.2), known(0.5, 4.0, 0.5), known(0.8, 4.0, 0.5)]);
        let draws = (0..300).map(|at| f64::from(at) / 300.0);
        let told: Vec<f64> = draws.map(|draw| promises.told(0.3, draw)).collect();
        assert_eq!(told.iter().filter(|&&rank| rank == 0.2).count(), 200);
        assert_eq!(told.iter().filter(|&&rank| rank == 0.5).count(), 100);
        assert!((promises.of_level(0.3).promise - 2.0).abs() < 1e-12);
        for draw in [0.0, 0.99] {
            assert_eq!([0.0, 0.2, 0.5].map(|level| promises.told(level, draw)), [0.2, 0.2, 0.5]);
            assert_eq!([0.6, 0.8, 1.0].map(|level| promises.told(level, draw)), [0.5; 3]);
            assert!(promises.told(f64::NAN, draw).is_nan());
        }
        let pieces = promises.rank_pieces();
        assert_eq!(pieces.iter().map(|piece| piece.rank).collect::<Vec<_>>(), [0.2, 0.5]);
        assert_eq!(pieces[0].upto, 0.35);
    }

    /// Where all levels are worth the same, the one in the middle is asked for.
    #[test]
    fn of_equals_the_middle_is_chosen() {
        assert_eq!(line(0.0).offline_level(), 0.5);
    }
}
