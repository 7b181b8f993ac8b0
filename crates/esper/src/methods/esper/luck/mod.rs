//! Leakage where it counts: labels against the luck that changed returns.
//!
//! With V any guess at what is still to come, and A(s, a) the mean of the surprise δ = r + V(s') - V(s) after taking a in s, chance
//! gave
//!
//! > B_t = δ_t - A(s_t, a_t)
//!
//! in step t: zero on average whoever acts, because what follows (s, a) is up to the world alone. The sum over an episode is its
//! luck. A label that says who acted, and no more, is the same whether chance was kind or not. What the first state and action explain
//! of a label was there before chance had a say, and does not count.
//!
//! An error in A adds up along an episode, and as those who act differently go through different states and actions, it looks as if
//! labels told luck. So where states come again, V and A are counted (`counted.rs`); else networks learn them (`learned.rs`).
//! Either way A is put right on the very steps that are measured, so that what is left of it there is zero on average.

mod counted;
mod learned;
mod least_squares;

use esper_data::Moments;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::condition::StartLevels;
use crate::error::Error;
use crate::methods::Context;

/// What first labels tell about the luck of their episodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LuckInLabels {
    /// How much of episodes' luck labels explain, as a correlation: 0 is nothing, 1 is all of it.
    pub correlation: f64,
    /// The correlation that labels without any luck in them would show at most, with nineteen chances of twenty.
    pub noise: f64,
    /// The share of the variance of returns that is luck.
    pub share: f64,
}

impl LuckInLabels {
    /// Whether no luck was found in labels: within noise, within what is tolerated, or there is hardly any luck.
    pub fn is_clean(&self, tolerance: f64) -> bool {
        self.correlation <= tolerance.max(self.noise) || self.share < LEAST_SHARE
    }
}

/// Less of returns than this is no luck but an error of the values.
const LEAST_SHARE: f64 = 0.02;

/// The luck of every episode.
pub(crate) struct Luck {
    /// By episode.
    of_episodes: Vec<f64>,
    share: f64,
    /// What episodes have in common before chance has a say: like starts, the same first action.
    groups: Vec<usize>,
}

/// The most steps that are looked at.
const MOST_STEPS: usize = 400_000;

/// Labels of a group are told apart by so many heights, if there are enough of them.
const HEIGHTS: usize = 5;
const ENOUGH: usize = 40;

impl Luck {
    /// Learns what every episode owes to luck.
    pub(crate) fn of(context: &Context<'_>, steps: usize) -> Result<Self, Error> {
        let data = context.data;
        let seed = context.seed.named("luck");
        let mut order: Vec<usize> = (0..data.episodes()).collect();
        order.shuffle(&mut seed.rng());
        let mut total = 0;
        order.retain(|&episode| {
            let within = total < MOST_STEPS;
            total += data.length(episode);
            within
        });
        let mut of_episodes = vec![f64::NAN; data.episodes()];
        let counted = counted::of_episodes(data, &order, context.discount);
        let known = match counted {
            Some(counted) => counted,
            None => learned::of_episodes(context, &order, steps)?,
        };
        order.iter().zip(&known).for_each(|(&episode, &luck)| of_episodes[episode] = luck);
        let returns = order.iter().map(|&episode| data.episode_return(episode));
        let variance = |moments: Moments| moments.population_std().powi(2);
        let of_luck = Moments::of(known.iter().copied());
        let share = variance(of_luck) / variance(Moments::of(returns)).max(1e-300);
        let groups = StartLevels::groups(context, seed.named("starts"));
        Ok(Luck { of_episodes, share: share.min(1.0), groups })
    }

    /// Whether chance has a say in returns.
    pub(crate) fn is_there(&self) -> bool {
        self.share >= LEAST_SHARE
    }

    /// What first labels tell about it.
    pub(crate) fn in_labels(&self, labels: &[f32], context: &Context<'_>) -> LuckInLabels {
        let data = context.data;
        let label = |episode: usize| labels[data.episode_steps(episode).start];
        let mut members: Vec<Vec<usize>> =
            vec![Vec::new(); self.groups.iter().max().map_or(0, |most| most + 1)];
        let known = |episode: &usize| !self.of_episodes[*episode].is_nan();
        (0..data.episodes()).filter(known).for_each(|it| members[self.groups[it]].push(it));
        let all = members.iter().flatten().map(|&episode| f64::from(label(episode)));
        // Labels that differ by a hair are the same.
        let hair = 1e-3 * Moments::of(all.collect::<Vec<_>>().into_iter()).population_std();
        let (mut explained, mut whole, mut chance, mut count) = (0.0, 0.0, 0.0, 0usize);
        for group in &mut members {
            if group.len() < ENOUGH {
                continue;
            }
            group.sort_by(|&a, &b| label(a).total_cmp(&label(b)).then(a.cmp(&b)));
            let luck = Moments::of(group.iter().map(|&episode| self.of_episodes[episode]));
            let variance = luck.population_std().powi(2);
            whole += variance * group.len() as f64;
            count += group.len();
            // Heights of about as many episodes each; equal labels stay together.
            let size = (group.len() / HEIGHTS).max(ENOUGH);
            let (mut start, mut heights) = (0, 0);
            while start < group.len() {
                let mut end = (start + size).min(group.len());
                while end < group.len()
                    && f64::from(label(group[end]) - label(group[end - 1])) <= hair
                {
                    end += 1;
                }
                let some = group[start..end].iter().map(|&episode| self.of_episodes[episode]);
                let difference = Moments::of(some).mean - luck.mean;
                explained += difference.powi(2) * (end - start) as f64;
                (start, heights) = (end, heights + 1);
            }
            // By chance alone every height but one takes a share of the variance.
            chance += (heights - 1) as f64 * variance;
        }
        if whole <= 0.0 {
            return LuckInLabels { correlation: 0.0, noise: 0.0, share: self.share };
        }
        LuckInLabels {
            correlation: ((explained - chance).max(0.0) / whole).sqrt(),
            noise: 1.65 / (count as f64).sqrt(),
            share: self.share,
        }
    }
}
