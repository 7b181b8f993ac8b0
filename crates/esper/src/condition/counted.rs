//! Evaluating a policy where states come again: what follows an action is counted, and dynamic programming says what the policy
//! is worth in a world like that.
//!
//! > V(s, t, u) = Σ_a π(a | s, t, u) (r̂(s, a) + Σ_{s'} p̂(s' | s, a) V(s', t + 1, u))
//!
//! Whoever acted, what follows a state and an action is up to the world, so that all behaviours count alike. Unlike a network, counting
//! has no error but that of the data, which a bootstrap over episodes measures. Counts of a state and action at different
//! times are pooled, unless they differ by more than chance would have it.

use std::collections::HashMap;
use std::ops::Range;

use esper_data::{Dataset, Seed};
use rayon::prelude::*;

use super::evaluation::{Evaluated, Log};
use super::levels::Starts;
use super::promises::LEVELS;
use crate::methods::Context;

/// Steps of a state that make counting worth more than learning, on average.
const ENOUGH: usize = 50;

/// Bootstrap samples of the episodes.
const SAMPLES: usize = 40;

/// By how many deviations the counts of different times have to differ to be kept apart.
const APART: f64 = 4.0;

/// What counts of all times weigh beside those of one, where they are kept apart.
const POOLED: f64 = 5.0;

/// Fewer expected counts tell nothing about a difference.
const EXPECTED: f64 = 5.0;

/// The largest table of states, times and actions.
const MOST_CELLS: usize = 2_000_000;

/// States of a log as numbers, and what the policy does in each at every time.
pub(super) struct Counted {
    /// Where the steps of every episode begin; then where the last one ends.
    first: Vec<usize>,
    /// Steps since the start, of every step.
    time: Vec<u32>,
    /// The state of every step, and the one that it led to, or [`OVER`].
    state: Vec<u32>,
    next: Vec<u32>,
    action: Vec<u32>,
    reward: Vec<f64>,
    states: usize,
    actions: usize,
    /// Steps of the longest episode.
    horizon: usize,
    /// By level, then state and time: what the policy does, `[states, horizon, actions]`.
    policy: Vec<Vec<f32>>,
}

/// Where an episode is over.
const OVER: u32 = u32::MAX;

/// What follows a state and an action.
#[derive(Clone, Default)]
struct Following {
    count: f64,
    reward: f64,
    square: f64,
    /// How often each state followed; the rest of the count is where it was over.
    next: Vec<(u32, f64)>,
}

impl Following {
    fn add(&mut self, next: u32, reward: f64, times: f64) {
        self.count += times;
        self.reward += times * reward;
        self.square += times * reward * reward;
        if next == OVER {
            return;
        }
        match self.next.iter_mut().find(|(state, _)| *state == next) {
            Some((_, count)) => *count += times,
            None => self.next.push((next, times)),
        }
    }

    /// What is to be expected, given what states are worth.
    fn worth(&self, discount: f64, values: &[f64]) -> f64 {
        let after: f64 =
            self.next.iter().map(|(state, count)| count * values[*state as usize]).sum();
        (self.reward + discount * after) / self.count
    }
}

impl Counted {
    /// Counts a log; `None` where states hardly ever come again, or actions are not one choice.
    pub(super) fn of(log: &Log, context: &Context<'_>) -> Option<Self> {
        let data = context.data;
        if !log.choice {
            return None;
        }
        let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
        let most = log.rows.steps.len() / ENOUGH;
        let mut number = |state: Vec<u32>| -> Option<u32> {
            let new = numbers.len() as u32;
            let at = *numbers.entry(state).or_insert(new);
            (numbers.len() <= most.max(1)).then_some(at)
        };
        let horizon =
            (0..log.episodes()).map(|at| log.first[at + 1] - log.first[at]).max().unwrap_or(0);
        let (mut state, mut next) = (Vec::new(), Vec::new());
        for (at, &episode) in log.episodes.iter().enumerate() {
            let mut seen = cells(data, data.episode_observations(episode));
            let last = seen.pop().unwrap_or_default();
            for observed in seen {
                state.push(number(observed)?);
            }
            next.extend_from_slice(&state[log.first[at] + 1..]);
            // Cut by the clock, as it will be again; whatever else ends an episode ends it.
            let by_clock = data.end(episode).truncated
                && !data.end(episode).terminated
                && data.length(episode) == horizon;
            next.push(if by_clock { number(last)? } else { OVER });
        }
        let action =
            (0..log.rows.steps.len()).map(|row| log.actions.category(row) as u32).collect();
        let reward = log.rows.steps.iter().map(|&step| f64::from(data.rewards()[step])).collect();
        let (states, actions) = (numbers.len(), log.outputs);
        if states * horizon * actions > MOST_CELLS {
            return None;
        }
        let of_level =
            |table: &Vec<f32>| told(table, &state, &log.rows.times, states, actions, horizon);
        let policy = log.policy.par_iter().map(of_level).collect();
        let (first, time) = (log.first.clone(), log.rows.times.clone());
        Some(Counted { first, time, state, next, action, reward, states, actions, horizon, policy })
    }

    /// What the policy is worth at every level, from every start.
    pub(super) fn evaluate<'a>(
        &self,
        log: &Log,
        context: &Context<'a>,
        seed: Seed,
    ) -> Evaluated<'a> {
        let discount = context.discount;
        let all = vec![1u32; log.episodes()];
        let apart = self.times_differ();
        let starts = log.first[..log.episodes()].iter().map(|&at| self.state[at]);
        let starts: Vec<u32> = starts.collect();
        let mut different = starts.clone();
        different.sort_unstable();
        different.dedup();
        let mut counts = vec![0.0; self.states];
        starts.iter().for_each(|&start| counts[start as usize] += 1.0);
        let values = self.values(&all, apart, discount);
        let of_sample = |sample: usize| {
            let counts = log.bootstrap(seed.indexed(sample as u64));
            let values = self.values(&counts, apart, discount);
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
            samples: (0..LEVELS.len())
                .map(|level| samples.iter().map(|sample| sample[level]).collect())
                .collect(),
        }
    }

    /// By level, what every state is worth at the start, with episodes counted so many times each. `apart` keeps times apart.
    fn values(&self, counts: &[u32], apart: bool, discount: f64) -> Vec<Vec<f64>> {
        let pooled = self.following(counts);
        let timed = if apart { self.following_in_time(counts) } else { HashMap::new() };
        let of_level = |policy: &Vec<f32>| {
            let mut values = vec![0.0; self.states];
            for time in (0..self.horizon).rev() {
                values = (0..self.states)
                    .map(|state| {
                        let pair = |action: usize| state * self.actions + action;
                        let worth = |action: usize| {
                            let all = &pooled[pair(action)];
                            let own = timed.get(&(pair(action) as u32, time as u32));
                            match own {
                                Some(own) => {
                                    let weight = own.count / (own.count + POOLED);
                                    weight * own.worth(discount, &values)
                                        + (1.0 - weight) * all.worth(discount, &values)
                                }
                                None => all.worth(discount, &values),
                            }
                        };
                        // What was never done there is not known: the rest speaks for it.
                        let chances =
                            &policy[(state * self.horizon + time) * self.actions..][..self.actions];
                        let (mut sum, mut known) = (0.0, 0.0);
                        for (action, &chance) in chances.iter().enumerate() {
                            if pooled[pair(action)].count > 0.0 {
                                sum += f64::from(chance) * worth(action);
                                known += f64::from(chance);
                            }
                        }
                        if known > 0.0 { sum / known } else { 0.0 }
                    })
                    .collect();
            }
            values
        };
        self.policy.iter().map(of_level).collect()
    }

    /// What follows every state and action, at whatever time.
    fn following(&self, counts: &[u32]) -> Vec<Following> {
        let mut all = vec![Following::default(); self.states * self.actions];
        self.each(counts, |pair, _, next, reward, times| all[pair].add(next, reward, times));
        all
    }

    /// The same by time.
    fn following_in_time(&self, counts: &[u32]) -> HashMap<(u32, u32), Following> {
        let mut all: HashMap<(u32, u32), Following> = HashMap::new();
        self.each(counts, |pair, time, next, reward, times| {
            all.entry((pair as u32, time)).or_default().add(next, reward, times);
        });
        all
    }

    fn each(&self, counts: &[u32], mut of: impl FnMut(usize, u32, u32, f64, f64)) {
        for (episode, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            for at in self.first[episode]..self.first[episode + 1] {
                let pair = self.state[at] as usize * self.actions + self.action[at] as usize;
                of(pair, self.time[at], self.next[at], self.reward[at], f64::from(count));
            }
        }
    }

    /// Whether what follows a state and an action depends on the time by more than chance would have it: Pearson's χ² of what
    /// followed, and of rewards, over all times.
    fn times_differ(&self) -> bool {
        let all = vec![1u32; self.first.len() - 1];
        let pooled = self.following(&all);
        let timed = self.following_in_time(&all);
        let (mut statistic, mut freedom) = (0.0, 0.0);
        let mut own: Vec<(&(u32, u32), &Following)> = timed.iter().collect();
        own.sort_by_key(|(key, _)| **key);
        // A state and action that comes at one time only has nothing to differ from.
        let mut times = HashMap::new();
        own.iter().for_each(|((pair, _), _)| *times.entry(*pair).or_insert(0usize) += 1);
        for ((pair, _), one) in own {
            let (whole, times) = (&pooled[*pair as usize], times[pair] as f64);
            if times < 2.0 {
                continue;
            }
            // Of so many times one is what the others leave.
            let share = (times - 1.0) / times;
            let mut categories = 0.0;
            for &(next, count) in &whole.next {
                let expected = one.count * count / whole.count;
                if expected < EXPECTED || whole.count - count < EXPECTED {
                    continue;
                }
                let found = one.next.iter().find(|(state, _)| *state == next);
                let found = found.map_or(0.0, |(_, count)| *count);
                // Each on its own: it follows, or it does not.
                let chance = count / whole.count;
                statistic += (found - expected).powi(2) / (expected * (1.0 - chance));
                categories += 1.0;
            }
            freedom += share * categories;
            let mean = whole.reward / whole.count;
            let variance = whole.square / whole.count - mean * mean;
            if variance > 1e-9 * (1.0 + mean * mean) && one.count >= EXPECTED {
                statistic += one.count * (one.reward / one.count - mean).powi(2) / variance;
                freedom += share;
            }
        }
        freedom > 0.0 && statistic > freedom + APART * (2.0 * freedom).sqrt()
    }
}

/// The cells of some observations, as they are.
fn cells(data: &Dataset, observations: Range<usize>) -> Vec<Vec<u32>> {
    let width = data.metadata().observation_space.cells();
    let mut all = Vec::with_capacity(observations.len());
    data.with_observations(&observations.collect::<Vec<usize>>(), |seen, rows| {
        for row in rows {
            let cells = row * width..(row + 1) * width;
            all.push(cells.map(|cell| seen.number(cell).to_bits()).collect());
        }
    });
    all
}

/// What a policy does in every state at every time, `[states, horizon, actions]`: the mean over the steps there, or over all
/// times of a state that was never seen at one.
fn told(
    table: &[f32],
    state: &[u32],
    times: &[u32],
    states: usize,
    actions: usize,
    horizon: usize,
) -> Vec<f32> {
    let mut sums = vec![0.0f64; states * horizon * actions];
    let mut of_state = vec![0.0f64; states * actions];
    for (row, chances) in table.chunks_exact(actions).enumerate() {
        let (state, time) = (state[row] as usize, times[row] as usize);
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

    /// Episodes as (state, action, reward) with where each leads, all told `policy[state][action]` at whatever time.
    fn counted(episodes: &[&[(u32, u32, f64, u32)]], policy: &[[f32; 2]]) -> Counted {
        let steps = || episodes.iter().copied().flatten();
        let horizon = episodes.iter().map(|episode| episode.len()).max().unwrap();
        let mut first = vec![0];
        episodes.iter().for_each(|episode| first.push(first[first.len() - 1] + episode.len()));
        Counted {
            first,
            time: episodes.iter().flat_map(|episode| 0..episode.len() as u32).collect(),
            state: steps().map(|step| step.0).collect(),
            next: steps().map(|step| step.3).collect(),
            action: steps().map(|step| step.1).collect(),
            reward: steps().map(|step| step.2).collect(),
            states: policy.len(),
            actions: 2,
            horizon,
            policy: vec![policy.iter().flat_map(|of| of.repeat(horizon)).collect()],
        }
    }

    /// From state 0 action 0 pays 1; action 1 leads to state 1 one time of four, where anything pays 8.
    #[test]
    fn values_are_those_of_the_counted_world() {
        let safe: &[(u32, u32, f64, u32)] = &[(0, 0, 1.0, OVER)];
        let won: &[(u32, u32, f64, u32)] = &[(0, 1, 0.0, 1), (1, 0, 8.0, OVER)];
        let lost: &[(u32, u32, f64, u32)] = &[(0, 1, 0.0, OVER)];
        let world = counted(&[safe, won, lost, lost, lost], &[[0.25, 0.75], [0.5, 0.5]]);
        let values = world.values(&[1; 5], false, 1.0);
        // What was never done in state 1 is taken for what was.
        assert_eq!(values, [vec![0.25 * 1.0 + 0.75 * 2.0, 8.0]]);
        let values = world.values(&[1; 5], false, 0.5);
        assert_eq!(values, [vec![0.25 * 1.0 + 0.75 * 1.0, 8.0]]);
        // A bootstrap sample without luck.
        assert_eq!(world.values(&[1, 0, 2, 1, 1], false, 1.0)[0][0], 0.25);
        assert!(!world.times_differ());
    }

    /// A state that goes on until the clock ends it, three steps, and pays 1 each time.
    #[test]
    fn the_clock_ends_an_episode_where_it_did() {
        let whole: &[(u32, u32, f64, u32)] = &[(0, 0, 1.0, 0), (0, 0, 1.0, 0), (0, 0, 1.0, 0)];
        assert_eq!(counted(&[whole], &[[1.0, 0.0]]).values(&[1], false, 1.0), [[3.0]]);
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
            assert_eq!(world.times_differ(), apart);
            let value = world.values(&[1; 400], apart, 1.0)[0][0];
            assert!((value - (1.0 + later)).abs() < 0.06, "{value}");
        }
    }
}
