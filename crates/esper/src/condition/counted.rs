//! Evaluating a policy where states come again: what follows an action is counted, and dynamic programming says what the policy
//! is worth in a world like that.
//!
//! > V(s, t, u) = Σ_a π(a | s, t, u) (r̂(s, a) + Σ_{s'} p̂(s' | s, a) V(s', t + 1, u))
//!
//! Whoever acted, what follows a state and an action is up to the world, so that all behaviours count alike. Unlike a network, counting
//! has no error but that of the data, which a bootstrap over episodes measures. Counts of a state and action at different
//! times are pooled, unless they differ by more than chance would have it.
//! Where a policy chooses among the actions of a state, what was hardly tried is drawn towards the mean of its state (`shrinkage.rs`),
//! and counts as little known: samples draw it anew, as far from the mean as actions are.

use std::collections::HashMap;

use esper_data::{Moments, Seed};
use rand::RngExt;
use rayon::prelude::*;

use super::evaluation::{Evaluated, Log, student};
use super::levels::Starts;
use super::promises::LEVELS;
use super::shrinkage::{Prior, estimated, mean_worth};
use crate::methods::Context;
use crate::transitions::{Following, Transitions};

/// Bootstrap samples of the episodes.
const SAMPLES: usize = 40;

/// What counts of all times weigh beside those of one, where they are kept apart.
const POOLED: f64 = 5.0;

/// A log whose states come again, and what the policy does in each at every time.
pub(super) struct Counted {
    log: Transitions,
    /// By level, then state and time: what the policy does, `[states, horizon, actions]`.
    policy: Vec<Vec<f32>>,
}

/// What is known of the worth of actions beside their counts.
#[derive(Clone, Copy)]
enum Known<'a> {
    /// What all counts say together.
    Estimated,
    /// By level and time what they say, and by state and action how far from it, in deviations, it is this time.
    Drawn(&'a [Vec<Prior>], &'a [f64]),
}

impl Counted {
    /// What a policy does in a log.
    pub(super) fn new(transitions: Transitions, log: &Log) -> Self {
        let of_level = |table: &Vec<f32>| told(table, &transitions);
        let policy = log.policy.par_iter().map(of_level).collect();
        Counted { log: transitions, policy }
    }

    /// What the policy is worth at every level, from every start. One that `chooses` among the actions of a state may have chosen
    /// by luck; one that does as others did has not.
    pub(super) fn evaluate<'a>(
        &self,
        log: &Log,
        context: &Context<'a>,
        chooses: bool,
        seed: Seed,
    ) -> Evaluated<'a> {
        let discount = context.discount;
        let all = vec![1u32; log.episodes()];
        let apart = self.log.times_differ();
        let starts = log.first[..log.episodes()].iter().map(|&at| self.log.state[at]);
        let starts: Vec<u32> = starts.collect();
        let mut different = starts.clone();
        different.sort_unstable();
        different.dedup();
        let mut counts = vec![0.0; self.log.states];
        starts.iter().for_each(|&start| counts[start as usize] += 1.0);
        let certain = vec![vec![Prior::default(); self.log.horizon]; self.policy.len()];
        let as_seen = vec![0.0; self.log.states * self.log.actions];
        let known = if chooses { Known::Estimated } else { Known::Drawn(&certain, &as_seen) };
        let (values, priors) = self.values(&all, apart, discount, known);
        let of_sample = |sample: usize| {
            let seed = seed.indexed(sample as u64);
            let counts = log.bootstrap(seed);
            let mut rng = seed.named("actions").rng();
            let apart_by: Vec<f64> = (0..self.log.states * self.log.actions)
                .map(|_| rng.sample(rand_distr::StandardNormal))
                .collect();
            let known = Known::Drawn(&priors, &apart_by);
            let (values, _) = self.values(&counts, apart, discount, known);
            let mean = |of_level: &Vec<f64>| {
                let each = starts.iter().zip(&counts);
                let sum: f64 =
                    each.map(|(&start, &count)| of_level[start as usize] * f64::from(count)).sum();
                sum / starts.len() as f64
            };
            values.iter().map(mean).collect::<Vec<f64>>()
        };
        let samples: Vec<Vec<f64>> = (0..SAMPLES).into_par_iter().map(of_sample).collect();
        let row = |start: &u32| {
            let at = starts.iter().position(|other| other == start).unwrap_or(0);
            log.rows.observations[log.first[at]]
        };
        let rows = different.iter().map(row).collect();
        let of_starts = |of_level: &Vec<f64>| {
            different.iter().map(|&start| of_level[start as usize]).collect::<Vec<f64>>()
        };
        Evaluated {
            starts: Starts::of_rows(context.data, &context.interface.observation, rows),
            counts: different.iter().map(|&start| counts[start as usize]).collect(),
            values: values.iter().map(of_starts).collect(),
            margins: (0..LEVELS.len())
                .map(|level| {
                    let of_level = Moments::of(samples.iter().map(|sample| sample[level]));
                    student(SAMPLES - 1) * of_level.standard_error() * (SAMPLES as f64).sqrt()
                })
                .collect(),
            hides: self.log.hides,
        }
    }

    /// By level, what every state is worth at the start, with episodes counted so many times each, and by level and time what is
    /// known of actions beside their counts. `apart` keeps times apart.
    fn values(
        &self,
        counts: &[u32],
        apart: bool,
        discount: f64,
        known: Known<'_>,
    ) -> (Vec<Vec<f64>>, Vec<Vec<Prior>>) {
        let pooled = self.log.following(counts);
        let timed = if apart { self.log.following_in_time(counts) } else { HashMap::new() };
        // By state and action how often, how good and how sure, given what states are worth a step later.
        let outcomes = |time: usize, values: &[f64]| {
            let of_pair = |(pair, all): (usize, &Following)| {
                if all.count <= 0.0 {
                    return [0.0; 3];
                }
                let mut worth = all.worth(discount, values);
                if let Some(own) = timed.get(&(pair as u32, time as u32)) {
                    let weight = own.count / (own.count + POOLED);
                    worth = weight * own.worth(discount, values) + (1.0 - weight) * worth;
                }
                let variance = match known {
                    Known::Estimated => all.variance(discount, values),
                    // Nobody asks.
                    Known::Drawn(..) => 0.0,
                };
                [all.count, worth, variance]
            };
            pooled.iter().enumerate().map(of_pair).collect::<Vec<[f64; 3]>>()
        };
        let of_level = |(level, policy): (usize, &Vec<f32>)| {
            let mut values = vec![0.0; self.log.states];
            let mut priors = vec![Prior::default(); self.log.horizon];
            for time in (0..self.log.horizon).rev() {
                let outcomes = outcomes(time, &values);
                let prior = match known {
                    Known::Estimated => estimated(&outcomes, self.log.actions),
                    Known::Drawn(priors, _) => priors[level][time],
                };
                let of_state = |(state, outcomes): (usize, &[[f64; 3]])| {
                    let apart_by = |action: usize| match known {
                        Known::Estimated => 0.0,
                        Known::Drawn(_, by) => by[state * self.log.actions + action],
                    };
                    let at = (state * self.log.horizon + time) * self.log.actions;
                    mean_worth(outcomes, &policy[at..at + self.log.actions], prior, apart_by)
                };
                values =
                    outcomes.chunks_exact(self.log.actions).enumerate().map(of_state).collect();
                priors[time] = prior;
            }
            (values, priors)
        };
        self.policy.iter().enumerate().map(of_level).unzip()
    }
}

/// What a policy does in every state at every time, `[states, horizon, actions]`: the mean over the steps there, or over all
/// times of a state that was never seen at one.
fn told(table: &[f32], log: &Transitions) -> Vec<f32> {
    let Transitions { states, actions, horizon, .. } = *log;
    let mut sums = vec![0.0f64; states * horizon * actions];
    let mut of_state = vec![0.0f64; states * actions];
    for (row, chances) in table.chunks_exact(actions).enumerate() {
        let (state, time) = (log.state[row] as usize, log.time[row] as usize);
        for (action, &chance) in chances.iter().enumerate() {
            sums[(state * horizon + time) * actions + action] += f64::from(chance);
            of_state[state * actions + action] += f64::from(chance);
        }
    }
    let mut policy = vec![0.0f32; sums.len()];
    let cells = policy.chunks_exact_mut(actions).zip(sums.chunks_exact(actions));
    for (at, (policy, own)) in cells.enumerate() {
        let whole = &of_state[at / horizon * actions..][..actions];
        let from = if own.iter().sum::<f64>() > 0.0 { own } else { whole };
        let total: f64 = from.iter().sum();
        for (chance, sum) in policy.iter_mut().zip(from) {
            *chance = if total > 0.0 { (sum / total) as f32 } else { 0.0 };
        }
    }
    policy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transitions::{OVER, UNKNOWN};

    /// Episodes as (state, action, reward) with where each leads, all told `policy[state][action]` at whatever time.
    fn counted(episodes: &[&[(u32, u32, f64, u32)]], policy: &[[f32; 2]]) -> Counted {
        let steps = || episodes.iter().copied().flatten();
        let horizon = episodes.iter().map(|episode| episode.len()).max().unwrap();
        let mut first = vec![0];
        episodes.iter().for_each(|episode| first.push(first[first.len() - 1] + episode.len()));
        let log = Transitions {
            first,
            time: episodes.iter().flat_map(|episode| 0..episode.len() as u32).collect(),
            state: steps().map(|step| step.0).collect(),
            next: steps().map(|step| step.3).collect(),
            action: steps().map(|step| step.1).collect(),
            reward: steps().map(|step| step.2).collect(),
            states: policy.len(),
            actions: 2,
            horizon,
            hides: false,
        };
        Counted { log, policy: vec![policy.iter().flat_map(|of| of.repeat(horizon)).collect()] }
    }

    /// Both actions pay 1 or -1 by chance alone, but of the second there are only two outcomes, both good: they count as
    /// little as they are. Had actions differed before, they would count for more.
    #[test]
    fn what_was_hardly_tried_is_taken_for_the_mean() {
        let outcome = |state: u32, action: u32, reward: f64| vec![(state, action, reward, OVER)];
        let mut episodes = Vec::new();
        for at in 0..200 {
            let luck = if at % 2 == 0 { 1.0 } else { -1.0 };
            episodes.extend([outcome(0, 0, luck), outcome(1, 0, luck), outcome(1, 1, luck)]);
        }
        episodes.extend([outcome(0, 1, 1.0), outcome(0, 1, 1.0)]);
        let value_of_second = |episodes: &[Vec<(u32, u32, f64, u32)>]| {
            let views: Vec<&[_]> = episodes.iter().map(Vec::as_slice).collect();
            let world = counted(&views, &[[0.0, 1.0], [0.5, 0.5]]);
            let counts = vec![1; views.len()];
            let (values, priors) = world.values(&counts, false, 1.0, Known::Estimated);
            // A sample in which it is one deviation better than was thought.
            let drawn = Known::Drawn(&priors, &[0.0, 1.0, 0.0, 0.0]);
            let (better, _) = world.values(&counts, false, 1.0, drawn);
            (values[0][0], better[0][0])
        };
        let (value, _) = value_of_second(&episodes);
        assert!((0.0..0.1).contains(&value), "{value}");
        // In the other state actions differ by as much as chance does.
        for at in 0..200 {
            let luck = if at % 2 == 0 { 1.0 } else { -1.0 };
            episodes.extend([outcome(1, 0, luck + 1.0), outcome(1, 1, luck - 1.0)]);
        }
        let (value, better) = value_of_second(&episodes);
        assert!(value > 0.1 && value < 0.9, "{value}");
        assert!(better > value + 0.05, "{value} {better}");
    }

    /// From state 0 action 0 pays 1; action 1 leads to state 1 one time of four, where anything pays 8.
    #[test]
    fn values_are_those_of_the_counted_world() {
        let safe: &[(u32, u32, f64, u32)] = &[(0, 0, 1.0, OVER)];
        let won: &[(u32, u32, f64, u32)] = &[(0, 1, 0.0, 1), (1, 0, 8.0, OVER)];
        let lost: &[(u32, u32, f64, u32)] = &[(0, 1, 0.0, OVER)];
        let world = counted(&[safe, won, lost, lost, lost], &[[0.25, 0.75], [0.5, 0.5]]);
        let values = |counts: &[u32], discount: f64| {
            let priors = vec![vec![Prior::default(); 2]];
            world.values(counts, false, discount, Known::Drawn(&priors, &[0.0; 4])).0
        };
        // What was never done in state 1 is taken for what was.
        assert_eq!(values(&[1; 5], 1.0), [vec![0.25 * 1.0 + 0.75 * 2.0, 8.0]]);
        assert_eq!(values(&[1; 5], 0.5), [vec![0.25 * 1.0 + 0.75 * 1.0, 8.0]]);
        // A bootstrap sample without luck.
        assert_eq!(values(&[1, 0, 2, 1, 1], 1.0)[0][0], 0.25);
        assert!(!world.log.times_differ());
    }

    /// A state that goes on until the clock ends it, three steps, and pays 1 each time.
    #[test]
    fn the_clock_ends_an_episode_where_it_did() {
        let whole: &[(u32, u32, f64, u32)] = &[(0, 0, 1.0, 0), (0, 0, 1.0, 0), (0, 0, 1.0, 0)];
        let world = counted(&[whole], &[[1.0, 0.0]]);
        assert_eq!(world.values(&[1], false, 1.0, Known::Estimated).0, [[3.0]]);
    }

    /// Logs of one length that say of every last row that it ended: that is the clock, and not what may happen any time.
    #[test]
    fn what_ends_all_episodes_at_one_time_is_the_clock() {
        let lengths = [30; 100];
        let steps = 30 * 100;
        // Each observation, and the last one again; the reward is 1 a step whatever is done.
        let data = crate::fixtures::discrete(
            [2, 2],
            &lengths,
            &vec![0; steps + 100],
            &vec![0; steps],
            &vec![1.0; steps],
            &["a"; 100],
        );
        let numbered = Transitions::of(&data, &(0..100).collect::<Vec<_>>()).expect("one state");
        assert_eq!((numbered.states, numbered.horizon), (1, 30));
        assert_eq!(numbered.next.iter().filter(|&&next| next == UNKNOWN).count(), 100);
        assert!(!numbered.next.contains(&OVER));
        let episodes: Vec<Vec<_>> = (0..100)
            .map(|at| {
                let rows = at * 30..(at + 1) * 30;
                rows.map(|row| (numbered.state[row], 0u32, 1.0, numbered.next[row])).collect()
            })
            .collect();
        let views: Vec<&[_]> = episodes.iter().map(Vec::as_slice).collect();
        let world = counted(&views, &[[1.0, 0.0]]);
        assert!(!world.log.times_differ());
        let (values, _) = world.values(&[1; 100], false, 1.0, Known::Estimated);
        assert!((values[0][0] - 30.0).abs() < 1e-9, "{}", values[0][0]);
    }

    /// Early on action 0 pays 1, later 3: kept apart, the first step is worth 1 and the second 3.
    #[test]
    fn times_are_kept_apart_where_they_differ() {
        let noise = |at: usize| if at.is_multiple_of(2) { 0.1 } else { -0.1 };
        let episode = |at: usize, later: f64| {
            vec![(0u32, 0u32, 1.0 + noise(at), 0u32), (0, 0, later + noise(at), 0)]
        };
        for (later, apart) in [(3.0, true), (1.0, false)] {
            let episodes: Vec<Vec<_>> = (0..400).map(|at| episode(at, later)).collect();
            let views: Vec<&[_]> = episodes.iter().map(Vec::as_slice).collect();
            let world = counted(&views, &[[1.0, 0.0]]);
            assert_eq!(world.log.times_differ(), apart);
            let value = world.values(&[1; 400], apart, 1.0, Known::Estimated).0[0][0];
            assert!((value - (1.0 + later)).abs() < 0.06, "{value}");
        }
    }
}
