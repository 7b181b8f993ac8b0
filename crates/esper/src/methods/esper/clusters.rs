//! The clusters of every step of a data set.

use std::sync::{Mutex, PoisonError};

use burn::module::Module;
use esper_data::{ByteColumn, Dataset, Rng, index_at};
use esper_nn::alone;
use rand::RngExt;
use rand::seq::SliceRandom;
use rayon::prelude::*;

use super::cluster::ClusterModel;
use crate::error::Error;
use crate::methods::Context;
use crate::policy::floats;
use crate::trajectories::Trajectories;
use crate::windows::batches;

/// For every step the probabilities of its clusters, to within 1/255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    groups: usize,
    categories: usize,
    /// `[rows, groups · categories]`, in units of 1/255.
    probabilities: ByteColumn,
}

/// The same of some steps, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SomeClusters {
    groups: usize,
    categories: usize,
    probabilities: Vec<u8>,
}

/// Steps that go through the network at once: whole episodes of them, or windows of longer ones.
pub(super) const STEPS_AT_ONCE: usize = 16_384;

impl Clusters {
    /// Probabilities of given groups and categories, in units of 1/255: `[steps, groups · categories]`.
    ///
    /// # Panics
    ///
    /// When they do not fill whole steps.
    pub fn new(groups: usize, categories: usize, probabilities: Vec<u8>) -> Self {
        assert!(probabilities.len().is_multiple_of(groups * categories), "whole steps");
        Clusters { groups, categories, probabilities: probabilities.into() }
    }

    /// One cluster for everything.
    pub(crate) fn one(data: &Dataset) -> Result<Self, Error> {
        let mut probabilities = ByteColumn::zeros(2 * data.rows(), data.scratch())?;
        for start in (0..data.rows()).step_by(STEPS_AT_ONCE) {
            let count = STEPS_AT_ONCE.min(data.rows() - start);
            probabilities.write(2 * start, &[255, 0].repeat(count))?;
        }
        Ok(Clusters { groups: 1, categories: 2, probabilities })
    }

    /// The clusters that a model gives to every step, in one pass over the data.
    pub(crate) fn assign(
        model: &ClusterModel,
        context: &Context<'_>,
        groups: usize,
        categories: usize,
    ) -> Result<Self, Error> {
        let Context { data, interface, device, monitor, .. } = *context;
        let model = model.valid();
        let width = groups * categories;
        let parts: Vec<Vec<usize>> = parts(data, 0..data.episodes(), STEPS_AT_ONCE).collect();
        // With the number of steps that are done, so that progress is told in order.
        let kept = ByteColumn::zeros(data.rows() * width, data.scratch())?;
        let probabilities = Mutex::new((kept, 0));
        parts.par_iter().try_for_each(|episodes| {
            if monitor.stop() {
                return Err(Error::Stopped);
            }
            // The memory runs backwards: what comes last is first.
            let mut after = None;
            for windows in batches(data, episodes, STEPS_AT_ONCE).iter().rev() {
                let batch = Trajectories::new(data, interface, windows, device);
                let (rows, state) = alone(|| model.probabilities(&batch, after.take()));
                after = Some(state);
                let rows = floats(rows);
                let mut kept = probabilities.lock().unwrap_or_else(PoisonError::into_inner);
                let (kept, done) = &mut *kept;
                for (at, window) in batch.packed.windows().iter().enumerate() {
                    // Rows are packed by time: those of one trajectory are put side by side.
                    let mut own = Vec::with_capacity(window.length * width);
                    for offset in &batch.offsets()[..window.length] {
                        let row = &rows[(offset + at) * width..][..width];
                        own.extend(
                            row.iter().map(|probability| (probability * 255.0).round() as u8),
                        );
                    }
                    kept.write(batch.packed.step_rows()[at] * width, &own)?;
                }
                *done += batch.packed.rows();
                monitor.progress("assign", *done, data.steps());
            }
            Ok(())
        })?;
        let (probabilities, _) = probabilities.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Clusters { groups, categories, probabilities })
    }

    /// Gives all steps of a trajectory the cluster of its first.
    pub(crate) fn take_first(&mut self, data: &Dataset) -> Result<(), Error> {
        let width = self.width();
        for episode in 0..data.episodes() {
            let steps = data.episode_steps(episode);
            let mut first = Vec::with_capacity(width);
            self.probabilities.gather(&[steps.start], width, &mut first);
            for start in steps.clone().step_by(STEPS_AT_ONCE) {
                let count = STEPS_AT_ONCE.min(steps.end - start);
                self.probabilities.write(start * width, &first.repeat(count))?;
            }
        }
        Ok(())
    }

    /// The clusters of some steps, in their order.
    pub fn of_steps(&self, steps: &[usize]) -> SomeClusters {
        let mut probabilities = Vec::with_capacity(steps.len() * self.width());
        self.probabilities.gather(steps, self.width(), &mut probabilities);
        SomeClusters { groups: self.groups, categories: self.categories, probabilities }
    }

    /// Categorical variables that make up a cluster.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Categories of each.
    pub fn categories(&self) -> usize {
        self.categories
    }

    /// The numbers of a step.
    pub fn width(&self) -> usize {
        self.groups * self.categories
    }

    /// All probabilities in units of 1/255: `[rows, width]`.
    pub fn probabilities(&self) -> &ByteColumn {
        &self.probabilities
    }
}

impl SomeClusters {
    /// All probabilities in units of 1/255: `[steps, width]`.
    pub fn probabilities(&self) -> &[u8] {
        &self.probabilities
    }

    /// The numbers of a step.
    fn width(&self) -> usize {
        self.groups * self.categories
    }

    fn group(&self, step: usize, group: usize) -> &[u8] {
        let start = step * self.width() + group * self.categories;
        &self.probabilities[start..start + self.categories]
    }

    /// Draws the cluster of a step: appends one category a group, as columns of `[width]`.
    pub fn draw(&self, step: usize, rng: &mut Rng, columns: &mut Vec<u32>) {
        for group in 0..self.groups {
            columns.push(at_quantile(self.possible(step, group), rng.random()));
        }
    }

    /// The most likely cluster of a step.
    pub fn likeliest(&self, step: usize) -> Vec<u32> {
        let likeliest = |group: usize| {
            let weights = self.group(step, group);
            // The first of equals.
            let best = (0..weights.len()).rev().max_by_key(|&category| weights[category]);
            (group * self.categories + best.unwrap_or(0)) as u32
        };
        (0..self.groups).map(likeliest).collect()
    }

    /// Adds clusters with weights that stand for the whole distribution of a step: all that are possible, if those are no
    /// more than `samples`; otherwise so many draws, spread evenly over the distribution of every group, equal ones put
    /// together.
    pub fn represent(&self, step: usize, samples: usize, rng: &mut Rng, to: &mut Representatives) {
        let count = (0..self.groups)
            .try_fold(1usize, |all, group| all.checked_mul(self.possible(step, group).count()));
        if count.is_some_and(|count| count <= samples) {
            return self.represent_all(step, to);
        }
        // A Latin hypercube: every group sees every stratum once, in an order of its own.
        let Representatives { columns, weights, order, drawn, possible } = to;
        drawn.clear();
        drawn.resize(samples * self.groups, 0);
        order.clear();
        order.extend(0..samples);
        for group in 0..self.groups {
            order.shuffle(rng);
            possible.clear();
            possible.extend(self.possible(step, group));
            for (sample, stratum) in order.iter().enumerate() {
                let quantile = (*stratum as f64 + rng.random::<f64>()) / samples as f64;
                drawn[sample * self.groups + group] =
                    at_quantile(possible.iter().copied(), quantile);
            }
        }
        let (first, first_weight) = (columns.len(), weights.len());
        for cluster in drawn.chunks_exact(self.groups) {
            let same =
                columns[first..].chunks_exact(self.groups).position(|other| other == cluster);
            match same {
                Some(at) => weights[first_weight + at] += 1.0 / samples as f32,
                None => {
                    columns.extend_from_slice(cluster);
                    weights.push(1.0 / samples as f32);
                }
            }
        }
    }

    /// Adds every combination of one column a group, with its probability; the last group changes fastest.
    fn represent_all(&self, step: usize, to: &mut Representatives) {
        // The combinations of a tree's branches, followed from its root: what stands in `drawn` is the branch.
        fn follow(
            clusters: &SomeClusters,
            (step, group): (usize, usize),
            weight: f64,
            to: &mut Representatives,
        ) {
            if group == clusters.groups {
                to.columns.extend_from_slice(&to.drawn);
                to.weights.push(weight as f32);
                return;
            }
            for (column, probability) in clusters.possible(step, group) {
                to.drawn.push(column);
                follow(clusters, (step, group + 1), weight * probability, to);
                to.drawn.pop();
            }
        }
        to.drawn.clear();
        follow(self, (step, 0), 1.0, to);
    }

    /// The columns of a group that a step can have, with their probabilities.
    fn possible(&self, step: usize, group: usize) -> impl Iterator<Item = (u32, f64)> + Clone {
        let weights = self.group(step, group);
        let total: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
        let first = (group * self.categories) as u32;
        let chances = (first..).zip(weights).filter(|(_, weight)| **weight > 0);
        chances.map(move |(column, &weight)| (column, f64::from(weight) / f64::from(total)))
    }
}

/// The column at a quantile (from 0 to 1) of a distribution.
fn at_quantile(distribution: impl Iterator<Item = (u32, f64)> + Clone, quantile: f64) -> u32 {
    let probabilities = distribution.clone().map(|(_, probability)| probability);
    let mut columns = distribution.map(|(column, _)| column);
    let found = match index_at(probabilities, quantile) {
        Some(at) => columns.nth(at),
        // Rounding: the point lies beyond all of them.
        None => columns.last(),
    };
    found.unwrap_or(0)
}

/// Clusters that stand for the distributions of steps, one step's after the other's.
#[derive(Default)]
pub struct Representatives {
    /// One column a group for every cluster.
    pub columns: Vec<u32>,
    /// What each cluster counts; those of a step sum to one.
    pub weights: Vec<f32>,
    /// What drawing needs for a moment.
    order: Vec<usize>,
    drawn: Vec<u32>,
    possible: Vec<(u32, f64)>,
}

/// Episodes in order, in parts of about so many steps.
pub(crate) fn parts(
    data: &Dataset,
    episodes: impl Iterator<Item = usize>,
    steps: usize,
) -> impl Iterator<Item = Vec<usize>> {
    let mut left = episodes.peekable();
    std::iter::from_fn(move || {
        let mut part = Vec::new();
        let mut count = 0;
        while let Some(&next) = left.peek()
            && (part.is_empty() || count + data.length(next) <= steps)
        {
            count += data.length(next);
            part.push(next);
            left.next();
        }
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::discrete;
    use esper_data::Seed;

    /// Weights 3 : 1 in one group; a certain category and an even split in two; two even splits.
    #[test]
    fn representatives_stand_for_the_distribution() {
        let mut rng = Seed::new(0).rng();
        let mut of = |clusters: &Clusters, samples: usize| {
            let mut found = Representatives::default();
            clusters.of_steps(&[0]).represent(0, samples, &mut rng, &mut found);
            found
        };
        let all = of(&Clusters::new(1, 3, vec![150, 0, 50]), 8);
        assert_eq!((all.columns, all.weights), (vec![0, 2], vec![0.75, 0.25]));

        let all = of(&Clusters::new(2, 2, vec![0, 255, 100, 100]), 8);
        assert_eq!((all.columns, all.weights), (vec![1, 2, 1, 3], vec![0.5, 0.5]));
        let all = of(&Clusters::new(2, 2, vec![51, 204, 204, 51]), 4);
        assert_eq!(all.columns, [0, 2, 0, 3, 1, 2, 1, 3]);
        assert_eq!(all.weights, [0.16, 0.04, 0.64, 0.16]);

        // Four possible, two draws: each half of both distributions once.
        let drawn = of(&Clusters::new(2, 2, vec![100, 100, 100, 100]), 2);
        assert_eq!(drawn.weights, [0.5, 0.5]);
        let mut columns = drawn.columns;
        columns.sort_unstable();
        assert_eq!(columns, [0, 1, 2, 3]);
    }

    /// Two trajectories, of two steps and of one.
    #[test]
    fn a_trajectory_can_have_the_cluster_of_its_first_step() {
        let data = discrete([2, 2], &[2, 1], &[0; 5], &[0; 3], &[0.0; 3], &[]);
        let mut clusters = Clusters::new(1, 2, vec![200, 55, 10, 245, 0, 255]);
        clusters.take_first(&data).unwrap();
        assert_eq!(clusters.of_steps(&[0, 1, 2]).probabilities(), [200, 55, 200, 55, 0, 255]);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let clusters = Clusters::new(1, 2, vec![204, 51]).of_steps(&[0]);
        let mut rng = Seed::new(0).rng();
        let mut columns = Vec::new();
        (0..10_000).for_each(|_| clusters.draw(0, &mut rng, &mut columns));
        let share = columns.iter().filter(|&&column| column == 0).count() as f64 / 10_000.0;
        assert!((share - 0.8).abs() < 0.02, "{share}");
        assert_eq!(clusters.likeliest(0), [0]);
    }
}
