//! What a data set holds in numbers.

use serde::{Deserialize, Serialize};

use crate::dataset::Dataset;
use crate::error::DataError;
use crate::numbers::Moments;

/// What one behaviour, or all together, contributed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BehaviourSummary {
    /// The behaviour's name.
    pub name: String,
    /// Its episodes.
    pub episodes: usize,
    /// Their steps.
    pub steps: usize,
    /// Their mean return.
    pub mean_return: f64,
    /// Their mean length.
    pub mean_length: f64,
}

/// Sums by behaviour, collected data set by data set, so that a stream of them need not be kept.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    names: Vec<String>,
    /// One a name; a single one when no behaviour has a name.
    sums: Vec<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    episodes: usize,
    steps: usize,
    total_return: f64,
}

impl Tally {
    /// The tally of one data set.
    pub fn of(data: &Dataset) -> Self {
        let names = data.behaviours().to_vec();
        let mut tally = Tally { sums: vec![Sums::default(); names.len().max(1)], names };
        for episode in 0..data.episodes() {
            let sums = &mut tally.sums[data.behaviour(episode).unwrap_or(0)];
            sums.episodes += 1;
            sums.steps += data.length(episode);
            sums.total_return += data.episode_return(episode);
        }
        tally
    }

    /// Adds a data set with the same behaviours as those before it.
    pub fn add(&mut self, data: &Dataset) -> Result<(), DataError> {
        let other = Tally::of(data);
        if self.sums.is_empty() {
            *self = other;
            return Ok(());
        }
        if self.names != other.names {
            let problem = "the data sets have different behaviours";
            return Err(DataError::Invalid(problem.to_owned()));
        }
        for (sums, other) in self.sums.iter_mut().zip(other.sums) {
            sums.episodes += other.episodes;
            sums.steps += other.steps;
            sums.total_return += other.total_return;
        }
        Ok(())
    }

    /// What each named behaviour contributed; those without episodes are left out.
    pub fn behaviours(&self) -> Vec<BehaviourSummary> {
        let named = self.names.iter().zip(&self.sums);
        named.filter(|(_, sums)| sums.episodes > 0).map(|(name, sums)| sums.summary(name)).collect()
    }

    /// What all contributed together.
    pub fn total(&self) -> BehaviourSummary {
        let mut total = Sums::default();
        for sums in &self.sums {
            total.episodes += sums.episodes;
            total.steps += sums.steps;
            total.total_return += sums.total_return;
        }
        total.summary("all")
    }
}

impl Sums {
    fn summary(&self, name: &str) -> BehaviourSummary {
        let episodes = self.episodes.max(1) as f64;
        BehaviourSummary {
            name: name.to_owned(),
            episodes: self.episodes,
            steps: self.steps,
            mean_return: self.total_return / episodes,
            mean_length: self.steps as f64 / episodes,
        }
    }
}

/// The distribution of one number over episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The mean.
    pub mean: f64,
    /// The standard deviation (of the sample).
    pub std: f64,
    /// The smallest value.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The largest value.
    pub max: f64,
}

impl Distribution {
    /// The distribution of episode returns.
    pub fn of_returns(data: &Dataset) -> Self {
        Self::of((0..data.episodes()).map(|episode| data.episode_return(episode)).collect())
    }

    /// The distribution of episode lengths.
    pub fn of_lengths(data: &Dataset) -> Self {
        Self::of((0..data.episodes()).map(|episode| data.length(episode) as f64).collect())
    }

    /// The distribution of some values; all zero when there are none.
    pub fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            values.push(0.0);
        }
        let moments = Moments::of(values.iter().copied());
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            (values[middle - 1] + values[middle]) / 2.0
        } else {
            values[middle]
        };
        Distribution {
            mean: moments.mean,
            std: moments.sample_std(),
            min: values[0],
            median,
            max: values[values.len() - 1],
        }
    }
}

/// A bar of a histogram: how many values are in `low..high` (are `low` when both are equal).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The lowest value counted.
    pub low: f64,
    /// Where the next bar starts; the last bar includes it.
    pub high: f64,
    /// The number of episodes.
    pub episodes: usize,
}

/// A histogram of episode returns: a bar for each value when there are at most `bars`, else equal widths.
pub fn return_histogram(data: &Dataset, bars: usize) -> Vec<Bar> {
    histogram((0..data.episodes()).map(|episode| data.episode_return(episode)).collect(), bars)
}

pub(crate) fn histogram(mut values: Vec<f64>, bars: usize) -> Vec<Bar> {
    values.sort_by(f64::total_cmp);
    let (Some(&low), Some(&high)) = (values.first(), values.last()) else {
        return Vec::new();
    };
    let runs = || values.chunk_by(|a, b| a == b);
    if runs().count() <= bars {
        let bar = |run: &[f64]| Bar { low: run[0], high: run[0], episodes: run.len() };
        return runs().map(bar).collect();
    }

    let width = (high - low) / bars as f64;
    let edge = |bar: usize| if bar == bars { high } else { low + width * bar as f64 };
    let mut histogram: Vec<Bar> =
        (0..bars).map(|bar| Bar { low: edge(bar), high: edge(bar + 1), episodes: 0 }).collect();
    for value in values {
        let bar = ((value - low) / width) as usize;
        histogram[bar.min(bars - 1)].episodes += 1;
    }
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DatasetBuilder;
    use crate::dataset::tests::{TERMINATED, small, small_metadata};

    #[test]
    fn a_distribution_is_the_textbook_one() {
        let d = Distribution::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((d.mean, d.min, d.median, d.max), (2.5, 1.0, 2.5, 4.0));
        assert!((d.std - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Distribution::of(vec![7.0]).std, 0.0);
    }

    #[test]
    fn behaviours_are_told_apart() {
        let tally = Tally::of(&small());
        let [one, two] = &tally.behaviours()[..] else { panic!("two behaviours") };
        assert_eq!((one.name.as_str(), one.mean_return), ("one", 4.0));
        assert_eq!((two.name.as_str(), two.mean_return, two.mean_length), ("two", 0.5, 2.0));
        assert_eq!((tally.total().episodes, tally.total().mean_return), (2, 2.25));
    }

    #[test]
    fn adding_parts_equals_the_whole() {
        let part = small();
        let mut builder = DatasetBuilder::new(small_metadata());
        builder.extend(&part).unwrap();
        builder.extend(&part).unwrap();
        let whole = builder.build().unwrap();
        let mut parts = Tally::default();
        parts.add(&part).unwrap();
        parts.add(&part).unwrap();
        assert_eq!(parts.behaviours(), Tally::of(&whole).behaviours());
        assert_eq!(parts.total(), Tally::of(&whole).total());

        let mut builder = DatasetBuilder::new(small_metadata());
        builder.made_by("other");
        builder.push(&[0u8], &[0u8], 0.0).unwrap();
        builder.end(&[0u8], TERMINATED).unwrap();
        assert!(parts.add(&builder.build().unwrap()).is_err());
    }

    #[test]
    fn few_values_get_a_bar_each_and_many_get_equal_widths() {
        let bar = |low, high, episodes| Bar { low, high, episodes };
        assert_eq!(return_histogram(&small(), 10), [bar(0.5, 0.5, 1), bar(4.0, 4.0, 1)]);

        let bars = histogram((0..=100).map(f64::from).collect(), 4);
        let expected =
            [bar(0.0, 25.0, 25), bar(25.0, 50.0, 25), bar(50.0, 75.0, 25), bar(75.0, 100.0, 26)];
        assert_eq!(bars, expected);
    }
}
