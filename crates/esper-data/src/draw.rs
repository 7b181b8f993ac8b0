//! Categorical draws: an index with a probability in proportion to its weight; and draws from squashed Gaussians.

use std::ops::SubAssign;

use rand::RngExt;
use rand_distr::StandardNormal;

use crate::seed::Rng;

/// The index whose stretch holds the point `at`, when weights are laid end to end from zero on.
///
/// `None` if the point lies beyond all of them, which rounding can bring about. Weights have to be of a type that can
/// be negative.
///
/// ```
/// assert_eq!(esper_data::index_at([2, 3, 1], 4), Some(1));
/// assert_eq!(esper_data::index_at([2, 3, 1], 6), None);
/// ```
pub fn index_at<W>(weights: impl IntoIterator<Item = W>, mut at: W) -> Option<usize>
where
    W: Copy + SubAssign + PartialOrd + Default,
{
    weights.into_iter().position(|weight| {
        at -= weight;
        at < W::default()
    })
}

/// Draws an index with a probability in proportion to its weight. Weights need not add up to one.
///
/// # Panics
///
/// When there are no weights.
pub fn draw_weighted(weights: &[f64], rng: &mut Rng) -> usize {
    let at = rng.random::<f64>() * weights.iter().sum::<f64>();
    index_at(weights.iter().copied(), at).unwrap_or(weights.len() - 1)
}

/// Softmax draw: from the categorical distribution that logits give.
///
/// # Panics
///
/// When there are no logits.
pub fn draw_softmax(logits: &[f32], rng: &mut Rng) -> usize {
    // Exponents of what is at most zero cannot overflow.
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights = || logits.iter().map(|logit| f64::from(logit - highest).exp());
    let at = rng.random::<f64>() * weights().sum::<f64>();
    index_at(weights(), at).unwrap_or(logits.len() - 1)
}

/// The least and the greatest logarithm of a deviation that [`draw_squashed`] takes.
pub const LOG_DEVIATIONS: [f32; 2] = [-20.0, 2.0];

/// Draw from a squashed Gaussian: tanh of normal numbers, stretched to bounds. `outputs` are their means, then the logarithms
/// of their deviations.
///
/// # Panics
///
/// When there are not two outputs for each of the bounds.
pub fn draw_squashed(outputs: &[f32], bounds: &[[f32; 2]], rng: &mut Rng, numbers: &mut Vec<f32>) {
    assert_eq!(outputs.len(), 2 * bounds.len(), "a mean and a deviation for each number");
    let (means, log_deviations) = outputs.split_at(bounds.len());
    let [least, greatest] = LOG_DEVIATIONS;
    for ((mean, log_deviation), [low, high]) in means.iter().zip(log_deviations).zip(bounds) {
        let deviation = log_deviation.clamp(least, greatest).exp();
        let squashed = (mean + deviation * rng.sample::<f32, _>(StandardNormal)).tanh();
        numbers.push((low + (squashed + 1.0) / 2.0 * (high - low)).clamp(*low, *high));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seed::Seed;

    const DRAWS: usize = 20_000;

    /// How often each index was drawn, as a share of all draws.
    fn shares(categories: usize, mut draw: impl FnMut(&mut Rng) -> usize) -> Vec<f64> {
        let mut rng = Seed::new(0).rng();
        let mut counts = vec![0; categories];
        (0..DRAWS).for_each(|_| counts[draw(&mut rng)] += 1);
        counts.into_iter().map(|count| f64::from(count) / DRAWS as f64).collect()
    }

    fn assert_near(found: &[f64], expected: &[f64]) {
        for (found, expected) in found.iter().zip(expected) {
            // Four standard deviations of a share.
            let slack = 4.0 * (expected * (1.0 - expected) / DRAWS as f64).sqrt();
            assert!((found - expected).abs() <= slack, "{found} is not {expected}");
        }
    }

    #[test]
    fn a_point_is_in_the_stretch_of_its_index() {
        assert_eq!(index_at([0.5, 0.0, 0.5], 0.0), Some(0));
        assert_eq!(index_at([0.5, 0.0, 0.5], 0.5), Some(2));
        assert_eq!(index_at([0.5, 0.0, 0.5], 1.0), None);
        assert_eq!(index_at([3, 1], 2), Some(0));
        assert_eq!(index_at([3, 1], 3), Some(1));
    }

    #[test]
    fn draws_follow_the_weights() {
        let weights = [2.0, 0.0, 5.0, 3.0];
        let found = shares(4, |rng| draw_weighted(&weights, rng));
        assert_near(&found, &[0.2, 0.0, 0.5, 0.3]);
    }

    #[test]
    fn draws_follow_the_logits_however_large() {
        for shift in [0.0, 1e4, -1e4] {
            let logits = [0.25f32, 0.5, 0.25].map(|share| share.log2() * 2f32.ln() + shift);
            let found = shares(3, |rng| draw_softmax(&logits, rng));
            assert!((found[1] - 0.5).abs() < 0.015, "{found:?}");
        }
        let found = shares(3, |rng| draw_softmax(&[0.2f32, 0.5, 0.3].map(f32::ln), rng));
        assert_near(&found, &[0.2, 0.5, 0.3]);
    }

    /// Agents are replayed from their seeds, so which draw gives which category must never change.
    #[test]
    fn draws_are_fixed_for_ever() {
        // What drawing was before it came here.
        fn before(logits: &[f32], rng: &mut Rng) -> usize {
            let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let weight = |logit: &f32| f64::from(logit - highest).exp();
            let mut left = rng.random::<f64>() * logits.iter().map(weight).sum::<f64>();
            let chosen = logits.iter().position(|logit| {
                left -= weight(logit);
                left < 0.0
            });
            chosen.unwrap_or(logits.len() - 1)
        }
        let mut numbers = Seed::new(1).rng();
        let (mut one, mut other) = (Seed::new(2).rng(), Seed::new(2).rng());
        for _ in 0..1000 {
            let logits: Vec<f32> =
                (0..numbers.random_range(1..12)).map(|_| numbers.random_range(-9.0..9.0)).collect();
            assert_eq!(draw_softmax(&logits, &mut one), before(&logits, &mut other));
        }
    }
}
