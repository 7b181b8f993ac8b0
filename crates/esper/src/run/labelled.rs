//! What labels came out like: for people to look at, never for learning.

use std::collections::{BTreeSet, HashMap};

use esper_data::{Dataset, Moments};
use serde::{Deserialize, Serialize};

use crate::methods::Labels;
use crate::methods::esper::Clusters;
use crate::windows::cut;

/// The labels of a run beside what is known about the episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labelled {
    /// The labels of first steps, which is what a policy is asked for when an episode begins.
    pub first: Histogram,
    /// The labels of all steps.
    pub all: Histogram,
    /// How labels differ by who made the episode; one entry without a name where that is not known.
    pub behaviours: Vec<BehaviourLabels>,
    /// The most common clusters, if there are clusters.
    pub clusters: Vec<ClusterUse>,
}

/// Counts in bins of equal width.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Where the first bin begins.
    pub low: f64,
    /// Where the last bin ends.
    pub high: f64,
    /// What is in each; values beyond either end are in the bin at that end.
    pub counts: Vec<usize>,
}

/// The labels of one behaviour's episodes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BehaviourLabels {
    /// Its name.
    pub name: String,
    /// Its episodes.
    pub episodes: usize,
    /// Their mean return: what their labels should be on average.
    pub mean_return: f64,
    /// The mean label, over episodes of the mean over steps.
    pub mean_label: f64,
    /// The mean label of first steps.
    pub first_label: f64,
    /// The same of episodes that returned more than the behaviour does on average, if there are any. Equal, if labels know
    /// no luck.
    pub first_label_lucky: Option<f64>,
    /// The same of the other episodes.
    pub first_label_unlucky: Option<f64>,
    /// The mean label by time.
    pub times: Vec<TimeLabel>,
}

/// Labels at one time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeLabel {
    /// Steps since the episode began.
    pub step: usize,
    /// Episodes that last so long.
    pub episodes: usize,
    /// Their mean label at that time.
    pub label: f64,
}

/// A cluster, as the most likely one of some steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterUse {
    /// Its category in every group.
    pub categories: Vec<u32>,
    /// The share of steps it is the most likely cluster of.
    pub share: f64,
    /// How those steps divide among the behaviours that have episodes, in their order.
    pub behaviours: Vec<f64>,
    /// The mean of their labels.
    pub label: f64,
}

/// Bins of a histogram.
const BINS: usize = 60;

/// Times that labels are shown at.
const TIMES: usize = 24;

/// Steps whose clusters are looked at together.
const STEPS_AT_ONCE: usize = 1 << 16;

/// Clusters that are shown.
const MOST_CLUSTERS: usize = 16;

impl Labelled {
    /// Looks at the labels of a data set.
    pub fn of(data: &Dataset, labels: &Labels) -> Self {
        let returns: Vec<f64> =
            (0..data.episodes()).map(|episode| data.episode_return(episode)).collect();
        let lowest = returns.iter().copied().fold(f64::INFINITY, f64::min);
        let highest = returns.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // The same bins for all that is learned from the same data.
        let range = [lowest, if highest > lowest { highest } else { lowest + 1.0 }];
        let label = |step: usize| f64::from(labels.values[step]);
        let first_steps = (0..data.episodes()).map(|episode| data.episode_steps(episode).start);
        let names = data.behaviours().to_vec();
        let names = if names.is_empty() { vec![String::new()] } else { names };
        let makers: BTreeSet<usize> =
            (0..data.episodes()).map(|episode| maker(data, episode)).collect();
        let present: Vec<usize> = makers.into_iter().collect();
        Labelled {
            first: Histogram::of(first_steps.map(label), range),
            all: Histogram::of(data.step_rows().map(label), range),
            behaviours: present
                .iter()
                .filter_map(|&at| behaviour(data, &labels.values, &returns, at, &names[at]))
                .collect(),
            clusters: labels.clusters.as_ref().map_or_else(Vec::new, |clusters| {
                cluster_use(data, &labels.values, clusters, &present)
            }),
        }
    }
}

impl Labelled {
    /// Whether it makes sense; one that was read from a file may not.
    pub(super) fn check(&self) -> Result<(), String> {
        self.first.check().map_err(|problem| format!("labels of first steps: {problem}"))?;
        self.all.check().map_err(|problem| format!("labels of all steps: {problem}"))?;
        if self.behaviours.is_empty() {
            return Err("it has no behaviours, not even one without a name".to_owned());
        }
        let uneven = |cluster: &&ClusterUse| cluster.behaviours.len() != self.behaviours.len();
        match self.clusters.iter().find(uneven) {
            None => Ok(()),
            Some(cluster) => Err(format!(
                "a cluster has the shares of {} behaviours, and there are {}",
                cluster.behaviours.len(),
                self.behaviours.len()
            )),
        }
    }
}

impl Histogram {
    /// Whether it makes sense; one that was read from a file may not.
    fn check(&self) -> Result<(), String> {
        match !self.counts.is_empty() && self.low < self.high && (self.high - self.low).is_finite()
        {
            true => Ok(()),
            false => Err(format!(
                "a histogram of {} bins from {} to {}",
                self.counts.len(),
                self.low,
                self.high
            )),
        }
    }

    fn of(values: impl Iterator<Item = f64>, [low, high]: [f64; 2]) -> Self {
        let mut counts = vec![0; BINS];
        for value in values {
            let at = (value - low) / (high - low) * BINS as f64;
            counts[at.clamp(0.0, (BINS - 1) as f64) as usize] += 1;
        }
        Histogram { low, high, counts }
    }
}

/// The number of the behaviour that made an episode.
fn maker(data: &Dataset, episode: usize) -> usize {
    data.behaviour(episode).unwrap_or(0)
}

fn behaviour(
    data: &Dataset,
    labels: &[f32],
    returns: &[f64],
    behaviour: usize,
    name: &str,
) -> Option<BehaviourLabels> {
    let episodes: Vec<usize> =
        (0..data.episodes()).filter(|&episode| maker(data, episode) == behaviour).collect();
    if episodes.is_empty() {
        return None;
    }
    let mean = |values: Vec<f64>| Moments::of(values.iter().copied()).mean;
    let label = |step: usize| f64::from(labels[step]);
    let first = |episode: &usize| label(data.episode_steps(*episode).start);
    let over_steps = |&episode: &usize| mean(data.episode_steps(episode).map(label).collect());
    let mean_return = mean(episodes.iter().map(|&episode| returns[episode]).collect());
    let (lucky, unlucky): (Vec<usize>, Vec<usize>) =
        episodes.iter().partition(|&&episode| returns[episode] > mean_return);
    let of_some = |episodes: &[usize]| {
        (!episodes.is_empty()).then(|| mean(episodes.iter().map(first).collect()))
    };
    let longest = episodes.iter().map(|&episode| data.length(episode)).max().unwrap_or(0);
    let mut times: Vec<usize> = (0..TIMES).map(|at| at * longest / TIMES).collect();
    times.dedup();
    let at_time = |step: usize| {
        let there = episodes.iter().filter(|&&episode| data.length(episode) > step);
        let labels: Vec<f64> =
            there.map(|&episode| label(data.episode_steps(episode).start + step)).collect();
        TimeLabel { step, episodes: labels.len(), label: mean(labels) }
    };
    Some(BehaviourLabels {
        name: name.to_owned(),
        episodes: episodes.len(),
        mean_return,
        mean_label: mean(episodes.iter().map(over_steps).collect()),
        first_label: mean(episodes.iter().map(first).collect()),
        first_label_lucky: of_some(&lucky),
        first_label_unlucky: of_some(&unlucky),
        times: times.into_iter().map(at_time).collect(),
    })
}

fn cluster_use(
    data: &Dataset,
    labels: &[f32],
    clusters: &Clusters,
    present: &[usize],
) -> Vec<ClusterUse> {
    #[derive(Clone)]
    struct Sums {
        steps: Vec<usize>,
        labels: f64,
    }
    let mut uses: HashMap<Vec<u32>, Sums> = HashMap::new();
    let behaviours = present.iter().max().map_or(1, |most| most + 1);
    let nothing = Sums { steps: vec![0; behaviours], labels: 0.0 };
    for episode in 0..data.episodes() {
        for window in cut(data, episode, STEPS_AT_ONCE) {
            let first = data.episode_steps(episode).start + window.start;
            let steps: Vec<usize> = (first..first + window.length).collect();
            let own = clusters.of_steps(&steps);
            for (at, &step) in steps.iter().enumerate() {
                let sums = uses.entry(own.likeliest(at)).or_insert_with(|| nothing.clone());
                sums.steps[maker(data, episode)] += 1;
                sums.labels += f64::from(labels[step]);
            }
        }
    }
    let total = data.steps().max(1) as f64;
    let mut uses: Vec<ClusterUse> = uses
        .into_iter()
        .map(|(categories, Sums { steps, labels })| {
            let count = steps.iter().sum::<usize>() as f64;
            let behaviours = present.iter().map(|&at| steps[at] as f64 / count).collect();
            ClusterUse { categories, share: count / total, behaviours, label: labels / count }
        })
        .collect();
    uses.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.categories.cmp(&b.categories)));
    uses.truncate(MOST_CLUSTERS);
    uses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::discrete;

    /// Three episodes of two steps: one of `a`, which returns 1; two of `b`, which return 0 and 4.
    fn data() -> Dataset {
        let rewards = [0.0, 1.0, 0.0, 0.0, 0.0, 4.0];
        discrete([2, 2], &[2, 2, 2], &[0; 9], &[0; 6], &rewards, &["a", "b", "b"])
    }

    #[test]
    fn labels_are_seen_by_behaviour_and_by_luck() {
        let labels = Labels {
            values: vec![1.0, 1.0, 2.0, 0.0, 2.0, 4.0],
            clusters: Some(Clusters::new(
                1,
                2,
                vec![255, 0, 255, 0, 0, 255, 0, 255, 0, 255, 0, 255],
            )),
            ..Labels::default()
        };
        let labelled = Labelled::of(&data(), &labels);
        assert_eq!((labelled.first.low, labelled.first.high), (0.0, 4.0));
        assert_eq!(labelled.first.counts.iter().sum::<usize>(), 3);
        // 1 of 4 is bin 15 of 60, 2 is bin 30; the highest value is in the last bin.
        assert_eq!((labelled.first.counts[15], labelled.first.counts[30]), (1, 2));
        assert_eq!((labelled.all.counts[0], labelled.all.counts[59]), (1, 1));
        let [a, b] = &labelled.behaviours[..] else { panic!("two behaviours") };
        assert_eq!((a.mean_return, a.mean_label, a.first_label), (1.0, 1.0, 1.0));
        assert_eq!((b.mean_return, b.mean_label, b.first_label), (2.0, 2.0, 2.0));
        // The labels of the second step know how it went; those of the first do not.
        assert_eq!((b.first_label_lucky, b.first_label_unlucky), (Some(2.0), Some(2.0)));
        // No episode of `a` returned more than `a` does on average.
        assert_eq!((a.first_label_lucky, a.first_label_unlucky), (None, Some(1.0)));
        assert_eq!(b.times.iter().map(|time| time.label).collect::<Vec<_>>(), [2.0, 2.0]);
        let [often, seldom] = &labelled.clusters[..] else { panic!("two clusters") };
        assert_eq!((&often.categories[..], &often.behaviours[..]), (&[1][..], &[0.0, 1.0][..]));
        assert_eq!((seldom.share, seldom.label), (1.0 / 3.0, 1.0));
    }
}
