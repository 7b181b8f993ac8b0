//! What a data set holds in numbers, and what about it looks wrong.

use serde::Serialize;

use crate::cells::Cells;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::numbers::Moments;
use crate::space::Space;

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
#[derive(Clone, Debug, PartialEq, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize)]
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

fn histogram(mut values: Vec<f64>, bars: usize) -> Vec<Bar> {
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

/// The fewest episodes that are not remarked upon.
const FEW_EPISODES: usize = 100;

/// What a person would want to look at before training on this data, in plain sentences.
pub fn suspicions(data: &Dataset) -> Vec<String> {
    let mut suspicions = Suspicions::default();
    suspicions.add(data);
    suspicions.found()
}

/// What looks suspicious, gathered data set by data set, so that a stream of them need not be kept.
#[derive(Clone, Debug, Default)]
pub struct Suspicions {
    episodes: usize,
    /// The lowest and the highest return.
    returns: Option<[f64; 2]>,
    /// Episodes that end neither terminated nor truncated.
    open: usize,
    /// Which actions are taken, where there is one choice among some.
    taken: Vec<bool>,
    /// The first value of every observation cell that has had no other.
    constant: Vec<Option<f32>>,
    observations: Outside,
    actions: Outside,
}

/// Cells outside the bounds of their space.
#[derive(Clone, Debug, Default)]
struct Outside {
    space: Option<Space>,
    cells: usize,
}

impl Suspicions {
    /// Adds a data set with the same spaces as those before it.
    pub fn add(&mut self, data: &Dataset) {
        let metadata = data.metadata();
        self.episodes += data.episodes();
        for episode in 0..data.episodes() {
            let (sum, end) = (data.episode_return(episode), data.end(episode));
            let [low, high] = self.returns.unwrap_or([sum; 2]);
            self.returns = Some([low.min(sum), high.max(sum)]);
            self.open += usize::from(!end.terminated && !end.truncated);
        }
        if let Space::Discrete { n } = metadata.action_space {
            self.taken.resize(n as usize, false);
            data.step_rows().for_each(|row| self.taken[data.actions().category(row)] = true);
        }
        self.add_constant(data);
        let space = &metadata.observation_space;
        self.observations.add(space, data.observations(), data.observation_rows());
        self.actions.add(&metadata.action_space, data.actions(), data.step_rows());
    }

    fn add_constant(&mut self, data: &Dataset) {
        let width = data.metadata().observation_space.cells();
        let cells = data.observations().view();
        if self.constant.is_empty() {
            let first = data.observation_rows().next();
            let value = |cell: usize| first.map(|row| cells.number(row * width + cell));
            self.constant = (0..width).map(value).collect();
        }
        for (cell, constant) in self.constant.iter_mut().enumerate() {
            let Some(first) = *constant else { continue };
            let is_same = |row: usize| cells.number(row * width + cell) == first;
            if !data.observation_rows().all(is_same) {
                *constant = None;
            }
        }
    }

    /// What was found, in plain sentences.
    pub fn found(&self) -> Vec<String> {
        let mut found = Vec::new();
        let (episodes, open) = (self.episodes, self.open);
        if episodes < FEW_EPISODES {
            found.push(format!(
                "only {episodes} episodes: averages over clusters of them will be rough"
            ));
        }
        if let Some([same, highest]) = self.returns
            && episodes > 1
            && same == highest
        {
            found.push(format!(
                "every episode has the same return ({same}): there is nothing to tell good from bad"
            ));
        }
        if open > 0 {
            found.push(format!(
                "{open} of {episodes} episodes end neither terminated nor truncated: \
                 their returns may be incomplete"
            ));
        }
        found.extend(unused_actions(&self.taken));
        let constant = self.constant.iter().filter(|value| value.is_some()).count();
        if constant > 0 {
            let cells = self.constant.len();
            found.push(format!("{constant} of {cells} observation cells never change"));
        }
        found.extend(self.observations.found("observation"));
        found.extend(self.actions.found("action"));
        found
    }
}

impl Outside {
    fn add(&mut self, space: &Space, cells: &Cells, rows: impl Iterator<Item = usize>) {
        let Space::Box { bounds: Some(bounds), .. } = space else { return };
        let (cells, width) = (cells.view(), bounds.len());
        let outside_in = |row: usize| {
            let is_outside = |&(cell, &[low, high]): &(usize, &[f32; 2])| {
                !(low..=high).contains(&cells.number(row * width + cell))
            };
            bounds.iter().enumerate().filter(is_outside).count()
        };
        self.cells += rows.map(outside_in).sum::<usize>();
        self.space = Some(space.clone());
    }

    fn found(&self, name: &str) -> Option<String> {
        let Outside { space: Some(space), cells: 1.. } = self else { return None };
        Some(format!("{} {name} cells are outside the bounds of {space}", self.cells))
    }
}

/// What to say of actions, given which are taken.
fn unused_actions(taken: &[bool]) -> Option<String> {
    let unused: Vec<String> = (0..taken.len())
        .filter(|&action| !taken[action])
        .map(|action| action.to_string())
        .collect();
    match unused.len() {
        0 => None,
        count if count + 1 == taken.len() => {
            Some("only one action is ever taken: there is no choice to learn".to_owned())
        }
        1..=10 => Some(format!(
            "never taken: action {}; nothing can be learned about it",
            unused.join(", ")
        )),
        count => Some(format!("{count} of {} actions are never taken", taken.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::{TERMINATED, small, small_metadata};
    use crate::{DatasetBuilder, End, Metadata};

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

    #[test]
    fn what_looks_wrong_is_said() {
        let mut builder = DatasetBuilder::new(small_metadata());
        builder.push_steps(&[2u8; 2], &[1u8; 2], &[1.0, 1.0]).unwrap();
        builder.end(&[2u8], TERMINATED).unwrap();
        builder.push(&[2u8], &[1u8], 2.0).unwrap();
        builder.end(&[2u8], End::default()).unwrap();
        let found = suspicions(&builder.build().unwrap());
        let expected = [
            "only 2 episodes",
            "same return (2)",
            "1 of 2 episodes end neither",
            "only one action",
            "1 of 1 observation cells never change",
        ];
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.contains(expected), "{expected}: {found}");
        }
        assert_eq!(found.len(), expected.len(), "{found:?}");
    }

    /// Part by part the same is found as in the whole.
    #[test]
    fn suspicions_add_up() {
        let part = |seen: u8, action: u8, paid: f32| {
            let mut builder = DatasetBuilder::new(small_metadata());
            builder.push(&[seen], &[action], paid).unwrap();
            builder.end(&[seen], TERMINATED).unwrap();
            builder.build().unwrap()
        };
        let found = |parts: &[Dataset]| {
            let mut suspicions = Suspicions::default();
            let mut whole = DatasetBuilder::new(small_metadata());
            for part in parts {
                suspicions.add(part);
                whole.extend(part).unwrap();
            }
            let found = suspicions.found();
            assert_eq!(found, super::suspicions(&whole.build().unwrap()));
            found.join("; ")
        };
        let same = found(&[part(1, 0, 2.0), part(1, 0, 2.0)]);
        assert!(
            ["same return (2)", "only one action", "never change"].iter().all(|w| same.contains(w))
        );
        // Each part is constant, and all of them together are not.
        let different = found(&[part(1, 0, 2.0), part(2, 1, 3.0)]);
        assert!(
            ["return", "only one", "change"].iter().all(|w| !different.contains(w)),
            "{different}"
        );
    }

    #[test]
    fn values_outside_bounds_are_mentioned() {
        let action_space = Space::Box { shape: vec![1], bounds: Some(vec![[-1.0, 1.0]]) };
        let metadata = Metadata { action_space, ..small_metadata() };
        let mut builder = DatasetBuilder::new(metadata);
        builder.push_steps(&[0u8, 1, 2], &[0.5f32, 1.5, -1.0], &[0.0; 3]).unwrap();
        builder.end(&[0u8], TERMINATED).unwrap();
        let found = suspicions(&builder.build().unwrap());
        assert!(found.iter().any(|s| s.contains("1 action cells are outside")), "{found:?}");
    }
}
