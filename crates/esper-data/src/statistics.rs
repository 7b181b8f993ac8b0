//! What a data set holds in numbers, and what about it looks wrong.

use serde::Serialize;

use crate::dataset::Dataset;
use crate::space::Space;

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
    /// The distribution of some values; all zero when there are none.
    pub fn of(mut values: Vec<f64>) -> Self {
        if values.is_empty() {
            return Distribution {
                mean: 0.0,
                std: 0.0,
                min: 0.0,
                median: 0.0,
                max: 0.0,
            };
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = if values.len().is_multiple_of(2) {
            (values[middle - 1] + values[middle]) / 2.0
        } else {
            values[middle]
        };
        Distribution {
            mean,
            std: if values.len() > 1 {
                (squares / (count - 1.0)).sqrt()
            } else {
                0.0
            },
            min: values[0],
            median,
            max: values[values.len() - 1],
        }
    }
}

/// What one behaviour contributed.
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

/// A bar of a histogram: how many episodes had a return in `low..high` (`low` itself when both are equal).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bar {
    /// The lowest return counted.
    pub low: f64,
    /// Where the next bar starts; the last bar includes it.
    pub high: f64,
    /// The number of episodes.
    pub episodes: usize,
}

/// Collects per-episode numbers, data set by data set, so that a stream of them need not be kept.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    names: Vec<String>,
    episodes: Vec<EpisodeRecord>,
}

#[derive(Clone, Copy, Debug)]
struct EpisodeRecord {
    episode_return: f64,
    length: usize,
    behaviour: Option<u16>,
}

impl Statistics {
    /// The statistics of one data set.
    pub fn of(data: &Dataset) -> Self {
        let mut statistics = Statistics::default();
        statistics.add(data);
        statistics
    }

    /// Adds the episodes of a data set; all of them must name the same behaviours.
    pub fn add(&mut self, data: &Dataset) {
        self.names.clone_from(&data.provenance().names);
        let behaviours = &data.provenance().of_episode;
        self.episodes
            .extend((0..data.episodes()).map(|episode| EpisodeRecord {
                episode_return: data.episode_return(episode),
                length: data.length(episode),
                behaviour: behaviours.get(episode).copied(),
            }));
    }

    /// The number of episodes.
    pub fn episodes(&self) -> usize {
        self.episodes.len()
    }

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.episodes.iter().map(|episode| episode.length).sum()
    }

    /// The distribution of episode returns.
    pub fn returns(&self) -> Distribution {
        Distribution::of(
            self.episodes
                .iter()
                .map(|episode| episode.episode_return)
                .collect(),
        )
    }

    /// The distribution of episode lengths.
    pub fn lengths(&self) -> Distribution {
        Distribution::of(
            self.episodes
                .iter()
                .map(|episode| episode.length as f64)
                .collect(),
        )
    }

    /// What each behaviour contributed, in the order of their names' first use; behaviours without episodes are left out.
    pub fn behaviours(&self) -> Vec<BehaviourSummary> {
        let summary = |(index, name): (usize, &String)| {
            let of_behaviour = self
                .episodes
                .iter()
                .filter(|episode| episode.behaviour.map(usize::from) == Some(index));
            let (mut episodes, mut steps, mut total) = (0, 0, 0.0);
            for episode in of_behaviour {
                episodes += 1;
                steps += episode.length;
                total += episode.episode_return;
            }
            (episodes > 0).then(|| BehaviourSummary {
                name: name.clone(),
                episodes,
                steps,
                mean_return: total / episodes as f64,
                mean_length: steps as f64 / episodes as f64,
            })
        };
        self.names.iter().enumerate().filter_map(summary).collect()
    }

    /// A histogram of episode returns: a bar for each value when there are at most `bars`, else equal widths.
    pub fn histogram(&self, bars: usize) -> Vec<Bar> {
        let mut returns: Vec<f64> = self
            .episodes
            .iter()
            .map(|episode| episode.episode_return)
            .collect();
        returns.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (returns.first(), returns.last()) else {
            return Vec::new();
        };

        let mut values = returns.clone();
        values.dedup();
        if values.len() <= bars {
            let count = |value: f64| returns.iter().filter(|&&r| r == value).count();
            return values
                .into_iter()
                .map(|value| Bar {
                    low: value,
                    high: value,
                    episodes: count(value),
                })
                .collect();
        }

        let width = (high - low) / bars as f64;
        let mut histogram: Vec<Bar> = (0..bars)
            .map(|bar| Bar {
                low: low + width * bar as f64,
                high: if bar + 1 == bars {
                    high
                } else {
                    low + width * (bar + 1) as f64
                },
                episodes: 0,
            })
            .collect();
        for value in returns {
            let bar = ((value - low) / width) as usize;
            histogram[bar.min(bars - 1)].episodes += 1;
        }
        histogram
    }
}

/// The fewest episodes that are not remarked upon.
const FEW_EPISODES: usize = 100;

/// What a person would want to look at before training on this data, in plain sentences.
pub fn suspicions(data: &Dataset) -> Vec<String> {
    let mut found = Vec::new();
    if data.episodes() < FEW_EPISODES {
        found.push(format!(
            "only {} episodes: averages over clusters of them will be rough",
            data.episodes()
        ));
    }
    let returns = Statistics::of(data).returns();
    if data.episodes() > 1 && returns.min == returns.max {
        found.push(format!(
            "every episode has the same return ({}): there is nothing to tell good from bad",
            returns.min
        ));
    }
    let open = (0..data.episodes())
        .filter(|&episode| !data.end(episode).terminated && !data.end(episode).truncated)
        .count();
    if open > 0 {
        found.push(format!(
            "{open} of {} episodes end neither terminated nor truncated: their returns may be incomplete",
            data.episodes()
        ));
    }
    if let Space::Discrete { n } = data.metadata().action_space {
        let mut counts = vec![0usize; n as usize];
        for step in 0..data.steps() {
            counts[data.actions().category(step)] += 1;
        }
        let unused: Vec<String> = (0..counts.len())
            .filter(|&a| counts[a] == 0)
            .map(|a| a.to_string())
            .collect();
        if counts.len() > 1 && unused.len() + 1 == counts.len() {
            found.push("only one action is ever taken: there is no choice to learn".to_owned());
        } else if !unused.is_empty() {
            let never = if unused.len() > 10 {
                format!("{} of {} actions", unused.len(), counts.len())
            } else {
                format!("action {}", unused.join(", "))
            };
            found.push(format!(
                "{never} is never taken: nothing can be learned about it"
            ));
        }
    }
    let constant = constant_cells(data);
    let cells = data.metadata().observation_space.cells();
    if constant > 0 && data.steps() > 0 {
        found.push(format!(
            "{constant} of {cells} observation cells never change"
        ));
    }
    found
}

/// How many observation cells have the same value in every observation.
fn constant_cells(data: &Dataset) -> usize {
    let width = data.metadata().observation_space.cells();
    let cells = data.observations();
    let rows = cells.len() / width;
    (0..width)
        .filter(|&cell| {
            let first = cells.number(cell);
            (1..rows).all(|row| cells.number(row * width + cell) == first)
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::tests::small;
    use crate::{Cells, End};

    #[test]
    fn a_distribution_is_the_textbook_one() {
        let d = Distribution::of(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!((d.mean, d.min, d.median, d.max), (2.5, 1.0, 2.5, 4.0));
        assert!((d.std - (5.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Distribution::of(vec![7.0]).std, 0.0);
    }

    #[test]
    fn behaviours_are_told_apart() {
        let (metadata, columns) = small();
        let statistics = Statistics::of(&Dataset::new(metadata, columns).unwrap());
        let behaviours = statistics.behaviours();
        assert_eq!(behaviours.len(), 2);
        assert_eq!(
            (behaviours[0].name.as_str(), behaviours[0].mean_return),
            ("one", 4.0)
        );
        assert_eq!(
            (behaviours[1].name.as_str(), behaviours[1].mean_return),
            ("two", 0.5)
        );
        assert_eq!(behaviours[1].mean_length, 2.0);
    }

    #[test]
    fn adding_parts_equals_the_whole() {
        let (metadata, columns) = small();
        let part = Dataset::new(metadata, columns).unwrap();
        let mut whole = part.clone();
        whole.append(&part).unwrap();
        let mut parts = Statistics::default();
        parts.add(&part);
        parts.add(&part);
        assert_eq!(parts.returns(), Statistics::of(&whole).returns());
        assert_eq!(parts.behaviours(), Statistics::of(&whole).behaviours());
    }

    #[test]
    fn few_values_get_a_bar_each_and_many_get_equal_widths() {
        let (metadata, columns) = small();
        let few = Statistics::of(&Dataset::new(metadata, columns).unwrap());
        let bars = few.histogram(10);
        assert_eq!(
            bars[0],
            Bar {
                low: 0.5,
                high: 0.5,
                episodes: 1
            }
        );
        assert_eq!(
            bars[1],
            Bar {
                low: 4.0,
                high: 4.0,
                episodes: 1
            }
        );

        let record = |i: usize| EpisodeRecord {
            episode_return: i as f64,
            length: 1,
            behaviour: None,
        };
        let many = Statistics {
            names: vec![],
            episodes: (0..=100).map(record).collect(),
        };
        let bars = many.histogram(4);
        assert_eq!(
            bars.iter().map(|bar| bar.episodes).collect::<Vec<_>>(),
            [25, 25, 25, 26]
        );
        assert_eq!(
            (bars[1].low, bars[1].high, bars[3].high),
            (25.0, 50.0, 100.0)
        );
    }

    #[test]
    fn what_looks_wrong_is_said() {
        let (metadata, mut columns) = small();
        columns.ends[1] = End::default();
        columns.rewards = vec![1.0, 1.0, 2.0];
        columns.actions = Cells::Byte(vec![1, 1, 1]);
        columns.observations = Cells::Byte(vec![2; 5]);
        let found = suspicions(&Dataset::new(metadata, columns).unwrap());
        for expected in [
            "only 2 episodes",
            "same return (2)",
            "1 of 2 episodes end neither",
            "only one action",
            "1 of 1 observation",
        ] {
            assert!(
                found.iter().any(|s| s.contains(expected)),
                "{expected}: {found:?}"
            );
        }
    }
}
