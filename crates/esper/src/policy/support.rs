//! Which targets the data speaks about.

use serde::{Deserialize, Serialize};

/// Target support: the labels of first steps, which is what a policy is asked for when an episode begins, as quantiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Support {
    /// Evenly spaced, the lowest and the highest label included.
    quantiles: Vec<f64>,
    /// The lowest and the highest label of all steps, which is as far as asking makes a difference.
    reach: [f64; 2],
}

/// Quantiles that are kept, if there are more episodes.
const QUANTILES: usize = 1_001;

/// The share of episodes whose first label reaches the target that is chosen offline.
const OFFLINE_SHARE: f64 = 0.05;

/// The share of first labels that has to be near a target for it to count as supported.
const NEAR_SHARE: f64 = 0.01;

/// The share of first labels at either end that may be strays.
const STRAYS: f64 = 0.005;

/// The steps that a sweep divides the range into.
const SWEEP_STEPS: usize = 20;

/// How many of them it goes beyond either end.
const SWEEP_BEYOND: usize = 2;

/// Targets from there to the furthest label of any step.
const SWEEP_FAR: usize = 4;

impl Support {
    /// The support that first labels give; there has to be one. `reach` is the lowest and the highest label of all steps.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn of(first_labels: impl Iterator<Item = f32>, reach: [f64; 2]) -> Self {
        let mut labels: Vec<f64> = first_labels.map(f64::from).collect();
        assert!(!labels.is_empty(), "an episode has a first step");
        labels.sort_by(f64::total_cmp);
        let count = QUANTILES.min(labels.len()).max(2);
        let at = |index: usize| labels[index * (labels.len() - 1) / (count - 1)];
        Support { quantiles: (0..count).map(at).collect(), reach }
    }

    /// Whether it makes sense; one that was read from a file may not.
    pub(super) fn check(&self) -> Result<(), String> {
        let finite = self.quantiles.iter().all(|label| label.is_finite());
        if self.quantiles.len() < 2 || !finite || !self.quantiles.is_sorted() {
            return Err("its quantiles of first labels are not in order".to_owned());
        }
        let [lowest, highest] = self.reach;
        match lowest.is_finite() && highest.is_finite() && lowest <= highest {
            true => Ok(()),
            false => Err(format!("labels reach from {lowest} to {highest}")),
        }
    }

    /// The label at a quantile from 0 to 1.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let last = (self.quantiles.len() - 1) as f64;
        self.quantiles[(quantile.clamp(0.0, 1.0) * last).round() as usize]
    }

    /// The lowest and the highest label, strays left out.
    pub fn range(&self) -> [f64; 2] {
        [self.quantile(STRAYS), self.quantile(1.0 - STRAYS)]
    }

    /// The highest label with enough support: one of twenty episodes starts with it or a higher one.
    pub fn offline_target(&self) -> f64 {
        self.quantile(1.0 - OFFLINE_SHARE)
    }

    /// Whether one of a hundred episodes starts with about this label.
    pub fn supports(&self, target: f64) -> bool {
        self.near(target) >= NEAR_SHARE
    }

    /// The share of episodes that start with about this label, to within half a step of the sweep.
    pub fn near(&self, target: f64) -> f64 {
        let [low, high] = self.range();
        let reach = (high - low) / SWEEP_STEPS as f64 / 2.0 + 1e-6 * (1.0 + high.abs());
        let near = self.quantiles.iter().filter(|label| (*label - target).abs() <= reach).count();
        near as f64 / self.quantiles.len() as f64
    }

    /// Targets to ask for: evenly over the range and a little beyond it, some quantiles, the offline target, and some up
    /// to the furthest that any step is labelled with. Later in an episode labels are higher and lower than at its start.
    pub fn sweep(&self) -> Vec<f64> {
        let [low, high] = self.range();
        let step = (high - low) / SWEEP_STEPS as f64;
        let beyond = SWEEP_BEYOND as f64 * step;
        let far = |from: f64, to: f64| {
            (1..=SWEEP_FAR).map(move |at| from + (to - from) * at as f64 / SWEEP_FAR as f64)
        };
        let [lowest, highest] = self.reach;
        let mut targets: Vec<f64> = (0..=SWEEP_STEPS + 2 * SWEEP_BEYOND)
            .map(|at| low - beyond + at as f64 * step)
            // Nothing is nothing, not what is left of rounding.
            .map(|target| if target.abs() < 1e-9 * step { 0.0 } else { target })
            .chain([0.1, 0.3, 0.5, 0.7, 0.9].map(|quantile| self.quantile(quantile)))
            .chain(far(low - beyond, lowest.min(low - beyond)))
            .chain(far(high + beyond, highest.max(high + beyond)))
            .collect();
        let offline = self.offline_target();
        let apart = |a: f64, b: f64| (a - b).abs() > step / 50.0;
        targets.sort_by(f64::total_cmp);
        targets.dedup_by(|a, b| !apart(*a, *b));
        // The offline target itself, in place of one that is nearly the same.
        targets.retain(|&target| apart(target, offline));
        targets.push(offline);
        targets.sort_by(f64::total_cmp);
        targets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A third each of -5, -2.5 and 1.
    fn gambling() -> Support {
        Support::of((0..999).map(|at| [-5.0, -2.5, 1.0][at % 3]), [-15.0, 1.2])
    }

    #[test]
    fn what_many_episodes_start_with_is_supported() {
        let support = gambling();
        assert_eq!(support.range(), [-5.0, 1.0]);
        assert_eq!(support.offline_target(), 1.0);
        for (target, supported) in
            [(-5.0, true), (-4.0, false), (-2.6, true), (0.9, true), (0.0, false), (1.3, false)]
        {
            assert_eq!(support.supports(target), supported, "{target}");
        }
    }

    #[test]
    fn a_sweep_covers_the_range_and_goes_beyond() {
        let support = gambling();
        let sweep = support.sweep();
        assert!(sweep.is_sorted());
        // Two steps of 0.3 beyond the first labels, and as far as any label goes.
        assert_eq!(sweep[0], -15.0);
        assert!((sweep[sweep.len() - 1] - 1.6).abs() < 1e-9);
        for target in [-5.0, -2.5, 1.0] {
            assert!(sweep.iter().any(|swept| (swept - target).abs() < 0.01), "{target}");
        }
    }

    #[test]
    fn a_few_strays_are_no_support() {
        let support = Support::of((0..1000).map(|at| if at == 0 { 50.0 } else { 1.0 }), [1.0, 1.0]);
        assert_eq!(support.range(), [1.0, 1.0]);
        assert_eq!(support.sweep(), [1.0]);
        assert!(support.supports(1.0) && !support.supports(50.0));
        assert_eq!(Support::of([3.0].into_iter(), [3.0, 3.0]).sweep(), [3.0]);
    }
}
