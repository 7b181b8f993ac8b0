//! The clusters of every step of a data set.

use burn::module::Module;
use burn::tensor::Device;
use esper_data::{Dataset, Rng};
use rand::RngExt;

use super::cluster::ClusterModel;
use crate::error::Error;
use crate::training::Monitor;
use crate::trajectories::{Interface, Trajectories};

/// For every step the probabilities of its clusters, to within 1/255.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clusters {
    groups: usize,
    categories: usize,
    /// `[steps, groups · categories]`, in units of 1/255.
    probabilities: Vec<u8>,
}

/// Steps that go through the network at once; whole episodes of them.
const STEPS_AT_ONCE: usize = 16_384;

impl Clusters {
    /// Probabilities of given groups and categories, in units of 1/255: `[steps, groups · categories]`.
    ///
    /// # Panics
    ///
    /// When they do not fill whole steps.
    pub fn new(groups: usize, categories: usize, probabilities: Vec<u8>) -> Self {
        assert!(probabilities.len().is_multiple_of(groups * categories), "whole steps");
        Clusters { groups, categories, probabilities }
    }

    /// The clusters that a model gives to every step, in one pass over the data.
    pub(crate) fn assign(
        model: &ClusterModel,
        data: &Dataset,
        interface: &Interface,
        groups: usize,
        categories: usize,
        monitor: &dyn Monitor,
    ) -> Result<Self, Error> {
        let model = model.valid();
        let width = groups * categories;
        let mut probabilities = vec![0u8; data.steps() * width];
        let mut done = 0;
        for episodes in parts(data, STEPS_AT_ONCE) {
            let batch = Trajectories::new(data, interface, &episodes, &Device::flex());
            let rows: Vec<f32> = model
                .probabilities(&batch)
                .into_data()
                .try_to_vec()
                .expect("probabilities are floats");
            for (row, &step) in rows.chunks_exact(width).zip(batch.packed.step_rows()) {
                let kept = &mut probabilities[step * width..(step + 1) * width];
                for (kept, &probability) in kept.iter_mut().zip(row) {
                    *kept = (probability * 255.0).round() as u8;
                }
            }
            done += batch.packed.rows();
            monitor.progress("assign", done, data.steps());
            if monitor.stop() {
                return Err(Error::Stopped);
            }
        }
        Ok(Clusters { groups, categories, probabilities })
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

    /// The number of steps.
    pub fn steps(&self) -> usize {
        self.probabilities.len() / self.width()
    }

    /// All probabilities in units of 1/255: `[steps, width]`.
    pub fn probabilities(&self) -> &[u8] {
        &self.probabilities
    }

    fn group(&self, step: usize, group: usize) -> &[u8] {
        let start = step * self.width() + group * self.categories;
        &self.probabilities[start..start + self.categories]
    }

    /// Draws the cluster of a step: appends one category a group, as columns of `[width]`.
    pub fn draw(&self, step: usize, rng: &mut Rng, columns: &mut Vec<u32>) {
        for group in 0..self.groups {
            columns.push(self.column(step, group, rng.random()));
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

    /// The column of the category at a quantile (from 0 to 1) of a group's distribution.
    fn column(&self, step: usize, group: usize, quantile: f64) -> u32 {
        let weights = self.group(step, group);
        let total: u32 = weights.iter().map(|&weight| u32::from(weight)).sum();
        let mut left = quantile * f64::from(total);
        let category = weights.iter().position(|&weight| {
            left -= f64::from(weight);
            left < 0.0
        });
        (group * self.categories + category.unwrap_or(0)) as u32
    }

    /// Clusters with weights that stand for the whole distribution of a step: all there are, if those are no more than
    /// `samples`; otherwise so many draws, spread evenly over the distribution of every group.
    pub fn representatives(&self, step: usize, samples: usize, rng: &mut Rng) -> Representatives {
        let mut columns = Vec::new();
        if self.groups == 1 && self.categories <= samples {
            let weights = self.group(step, 0);
            let total: f32 = weights.iter().map(|&weight| f32::from(weight)).sum();
            let mut kept = Vec::new();
            for (category, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0)
            {
                columns.push(category as u32);
                kept.push(f32::from(weight) / total);
            }
            return Representatives { columns, weights: kept };
        }
        // A Latin hypercube: every group sees every stratum once, in an order of its own.
        let mut orders = Vec::with_capacity(self.groups);
        for _ in 0..self.groups {
            orders.push(shuffled(samples, rng));
        }
        for sample in 0..samples {
            for (group, order) in orders.iter().enumerate() {
                let quantile = (order[sample] as f64 + rng.random::<f64>()) / samples as f64;
                columns.push(self.column(step, group, quantile));
            }
        }
        Representatives { columns, weights: vec![1.0 / samples as f32; samples] }
    }
}

fn shuffled(count: usize, rng: &mut Rng) -> Vec<usize> {
    use rand::seq::SliceRandom;
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(rng);
    order
}

/// Clusters that stand for the distribution of a step.
pub struct Representatives {
    /// One column a group for every cluster.
    pub columns: Vec<u32>,
    /// What each cluster counts; they sum to one.
    pub weights: Vec<f32>,
}

/// The episodes in order, in parts of about so many steps.
pub(crate) fn parts(data: &Dataset, steps: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let mut part = Vec::new();
        let mut count = 0;
        while next < data.episodes() && (part.is_empty() || count + data.length(next) <= steps) {
            count += data.length(next);
            part.push(next);
            next += 1;
        }
        (!part.is_empty()).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::Seed;

    /// Weights 3 : 1 in one group; a certain category and an even split in two.
    #[test]
    fn representatives_stand_for_the_distribution() {
        let mut rng = Seed::new(0).rng();
        let one = Clusters::new(1, 3, vec![150, 0, 50]);
        let all = one.representatives(0, 8, &mut rng);
        assert_eq!((all.columns, all.weights), (vec![0, 2], vec![0.75, 0.25]));

        let two = Clusters::new(2, 2, vec![0, 255, 127, 127]);
        let drawn = two.representatives(0, 8, &mut rng);
        assert!(drawn.columns.iter().step_by(2).all(|&column| column == 1));
        let second = drawn.columns.iter().skip(1).step_by(2);
        assert_eq!(second.filter(|&&column| column == 2).count(), 4);
        assert_eq!(drawn.weights.iter().sum::<f32>(), 1.0);
    }

    #[test]
    fn draws_follow_the_probabilities() {
        let clusters = Clusters::new(1, 2, vec![204, 51]);
        let mut rng = Seed::new(0).rng();
        let mut columns = Vec::new();
        (0..10_000).for_each(|_| clusters.draw(0, &mut rng, &mut columns));
        let share = columns.iter().filter(|&&column| column == 0).count() as f64 / 10_000.0;
        assert!((share - 0.8).abs() < 0.02, "{share}");
        assert_eq!(clusters.likeliest(0), [0]);
    }
}
