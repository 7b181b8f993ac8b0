//! What actions are worth when some were hardly tried: drawn towards the mean of their state (empirical Bayes).
//!
//! A policy that was learned from data takes what went well there, were it by luck: of many things that were tried a few times, the
//! best look better than they are. So what an action is worth is taken as if the mean of its state had been seen k more times:
//! k = σ² / τ², the noise of what follows an action over how much actions differ, by an analysis of variance over all states.

/// How much less is known of an action than its counts say.
#[derive(Clone, Copy, Default)]
pub(super) struct Prior {
    /// How many times the mean of its state counts: k.
    weight: f64,
    /// How far from that actions are: τ.
    deviation: f64,
}

/// The most that the mean of a state counts.
const HEAVIEST: f64 = 1e6;

/// Sums over states: by how much outcomes of an action differ, and actions of a state.
#[derive(Default)]
struct Spread {
    within: f64,
    within_freedom: f64,
    between: f64,
    between_freedom: f64,
    /// Counts, less what of them one action of a state takes.
    shared: f64,
}

impl Spread {
    /// Adds a state: by action its count, mean and variance.
    fn add(&mut self, actions: &[[f64; 3]]) {
        let count: f64 = actions.iter().map(|[count, ..]| count).sum();
        let mean = actions.iter().map(|[count, mean, _]| count * mean).sum::<f64>() / count;
        let squares: f64 = actions.iter().map(|[count, ..]| count * count).sum();
        for [count, own, variance] in actions {
            self.within += count * variance;
            self.within_freedom += count - 1.0;
            self.between += count * (own - mean).powi(2);
        }
        self.between_freedom += actions.len() as f64 - 1.0;
        self.shared += count - squares / count;
    }

    /// Analysis of variance.
    fn prior(&self) -> Prior {
        let noise = if self.within_freedom > 0.0 { self.within / self.within_freedom } else { 0.0 };
        let differing = self.between - self.between_freedom * noise;
        let variance = if self.shared > 0.0 { (differing / self.shared).max(0.0) } else { 0.0 };
        match noise > 0.0 {
            true => Prior {
                weight: (noise / variance.max(f64::MIN_POSITIVE)).min(HEAVIEST),
                deviation: variance.sqrt(),
            },
            // What always goes the same way is known as soon as it was seen.
            false => Prior { weight: 0.0, deviation: variance.sqrt() },
        }
    }
}

/// What all states together say about actions, `[states, actions]`: how often, how good, how sure.
pub(super) fn estimated(outcomes: &[[f64; 3]], actions: usize) -> Prior {
    let mut spread = Spread::default();
    for of_state in outcomes.chunks_exact(actions) {
        let tried: Vec<[f64; 3]> =
            of_state.iter().copied().filter(|[count, ..]| *count > 0.0).collect();
        if !tried.is_empty() {
            spread.add(&tried);
        }
    }
    spread.prior()
}

/// What a state is worth where actions are taken with these chances: what was never done there is taken for the mean of what
/// was, and what was done seldom for something between.
pub(super) fn mean_worth(
    outcomes: &[[f64; 3]],
    chances: &[f32],
    prior: Prior,
    apart_by: impl Fn(usize) -> f64,
) -> f64 {
    let count: f64 = outcomes.iter().map(|[count, ..]| count).sum();
    if count <= 0.0 {
        return 0.0;
    }
    let mean = outcomes.iter().map(|[count, worth, _]| count * worth).sum::<f64>() / count;
    let worth = |action: usize| {
        let [count, own, _] = outcomes[action];
        let all = count + prior.weight;
        if all <= 0.0 {
            return mean;
        }
        let drawn = mean + prior.deviation * apart_by(action);
        (count * own + prior.weight * drawn) / all
    };
    chances.iter().enumerate().map(|(action, &chance)| f64::from(chance) * worth(action)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcomes of ±1, so many of the first action and of the second, whose means are this far above and below.
    fn state(counts: [f64; 2], apart: f64) -> [[f64; 3]; 2] {
        [[counts[0], apart, 1.0], [counts[1], -apart, 1.0]]
    }

    /// σ² = 1, and the variance of two actions that are 1 apart is τ² = 1/2: k is 2.
    #[test]
    fn the_weight_is_noise_over_difference() {
        let outcomes = [state([4_000.0; 2], 0.5), state([4_000.0; 2], -0.5)].concat();
        let Prior { weight, deviation } = estimated(&outcomes, 2);
        assert!((weight - 2.0).abs() < 0.01, "{weight}");
        assert!((deviation * deviation * weight - 1.0).abs() < 0.01, "{deviation}");
        // Differences that chance makes are none.
        let by_chance = [state([4.0; 2], 0.3), state([4.0; 2], -0.3)].concat();
        assert!(estimated(&by_chance, 2).weight > 1e5);
    }

    #[test]
    fn what_was_tried_seldom_lies_between() {
        let outcomes = [[6.0, 0.0, 1.0], [2.0, 4.0, 1.0]];
        let prior = Prior { weight: 2.0, deviation: 3.0 };
        // The mean is 1; half of the second action's worth is its own.
        let second = |apart_by: f64| mean_worth(&outcomes, &[0.0, 1.0], prior, |_| apart_by);
        assert_eq!(second(0.0), 2.5);
        assert_eq!(second(-1.0), 1.0);
        // With nothing to draw it, it is what was seen; and what was never done is the mean.
        let certain = Prior::default();
        assert_eq!(mean_worth(&outcomes, &[0.0, 1.0], certain, |_| 0.0), 4.0);
        let once = [[6.0, 2.0, 1.0], [0.0; 3]];
        assert_eq!(mean_worth(&once, &[0.0, 1.0], certain, |_| 0.0), 2.0);
    }
}
