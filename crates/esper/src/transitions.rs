//! What followed states and actions in a log, counted, where states come again.
//!
//! Whoever acted, what follows a state and an action is up to the world, so that the steps of all behaviours count alike, and those of all
//! times do, unless what follows depends on the time. Where it depends on what came before, observations do not show all of the state
//! (a partially observed world); then what came before becomes a part of the state, as far as that can still be counted.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use esper_data::{Dataset, Space};

/// Steps of a state that make counting worth more than learning, on average.
const ENOUGH: usize = 10;

/// As often has each of what followed a state and an action to have done so, on average, where states are measured: of two that differ
/// by a little, counting does not know that they are alike.
const RESOLVED: usize = 5;

/// By how many deviations the counts of different times have to differ to be kept apart.
const APART: f64 = 4.0;

/// Fewer expected counts tell nothing about a difference.
const EXPECTED: f64 = 5.0;

/// The largest table of states, times and actions.
const MOST_CELLS: usize = 2_000_000;

/// Steps of the past that states hold at most.
const MOST_PAST: usize = 3;

/// Where an episode is over.
pub(crate) const OVER: u32 = u32::MAX;

/// What followed is not known.
pub(crate) const UNKNOWN: u32 = u32::MAX - 1;

/// The steps of some episodes, with states as numbers.
pub(crate) struct Transitions {
    /// Where the steps of every episode begin; then where the last one ends.
    pub(crate) first: Vec<usize>,
    /// Steps since the start, of every step.
    pub(crate) time: Vec<u32>,
    /// The state of every step, and the one that it led to, [`OVER`] or [`UNKNOWN`].
    pub(crate) state: Vec<u32>,
    pub(crate) next: Vec<u32>,
    pub(crate) action: Vec<u32>,
    pub(crate) reward: Vec<f64>,
    pub(crate) states: usize,
    pub(crate) actions: usize,
    /// Steps of the longest episode.
    pub(crate) horizon: usize,
    /// Whether what follows depends on more of what came before than states hold.
    pub(crate) hides: bool,
}

impl Transitions {
    /// Those of some episodes; `None` where states hardly ever come again, actions are not one choice, or tables would be too
    /// large.
    pub(crate) fn of(data: &Dataset, episodes: &[usize]) -> Option<Self> {
        let Space::Discrete { n: actions } = data.metadata().action_space else { return None };
        let steps: usize = episodes.iter().map(|&episode| data.length(episode)).sum();
        let horizon = episodes.iter().map(|&episode| data.length(episode)).max().unwrap_or(0);
        let most = most_states(horizon, actions as usize, steps);
        let mut numbers: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut number = |state: Vec<u32>| -> Option<u32> {
            let new = numbers.len() as u32;
            let at = *numbers.entry(state).or_insert(new);
            (numbers.len() <= most.max(1)).then_some(at)
        };
        let (mut state, mut next) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
        let (mut firsts, mut time, mut rows) = (vec![0], Vec::new(), Vec::new());
        let mut measured = Measured::default();
        for &episode in episodes {
            let first = state.len();
            let mut seen = cells(data, data.episode_observations(episode));
            let last = seen.pop().unwrap_or_default();
            for observed in seen {
                measured.see(&observed);
                state.push(number(observed)?);
            }
            next.extend_from_slice(&state[first + 1..]);
            // The clock ends the longest, as it will again, whatever else may: of that nothing is learned about other times.
            // Whatever ends an episode earlier ends it.
            let end = data.end(episode);
            next.push(match data.length(episode) == horizon {
                true if end.truncated && !end.terminated => number(last)?,
                true => UNKNOWN,
                false => OVER,
            });
            firsts.push(state.len());
            time.extend(0..data.length(episode) as u32);
            rows.extend(data.episode_steps(episode));
        }
        let action = data.with_actions(&rows, |taken, at| {
            at.iter().map(|&row| taken.category(row) as u32).collect::<Vec<u32>>()
        });
        let reward = rows.iter().map(|&row| f64::from(data.rewards()[row])).collect();
        let log = Transitions {
            first: firsts,
            time,
            state,
            next,
            action,
            reward,
            states: numbers.len(),
            actions: actions as usize,
            horizon,
            hides: false,
        };
        (!measured.found || log.is_resolved()).then(|| log.with_past())
    }

    /// Whether what follows states and actions comes again, too.
    fn is_resolved(&self) -> bool {
        let followed = |row: usize| (self.pair(row), self.next[row]);
        let different: HashSet<(usize, u32)> = (0..self.state.len()).map(followed).collect();
        different.len() * RESOLVED <= self.state.len()
    }

    /// The same with what came before in states, one step after the other, while what follows depends on it and states still come
    /// again.
    fn with_past(mut self) -> Self {
        for _ in 0..MOST_PAST {
            let past = self.past();
            self.hides = self.depends_on_past(&past);
            if !self.hides || !self.remember(&past) {
                break;
            }
        }
        self
    }

    /// By step a number for the state, the action and the reward before it; then the same for what comes after the last step of every
    /// episode. The first step of an episode has none before it.
    fn past(&self) -> Vec<u32> {
        let kinds = kinds(&self.reward);
        let mut numbers: HashMap<(usize, u32), u32> = HashMap::new();
        let mut past = Vec::with_capacity(self.state.len() + self.episodes());
        for steps in self.first.windows(2) {
            past.push(0);
            for (row, &kind) in (steps[0]..steps[1]).zip(&kinds[steps[0]..]) {
                let new = numbers.len() as u32 + 1;
                past.push(*numbers.entry((self.pair(row), kind)).or_insert(new));
            }
        }
        past
    }

    /// Whether what follows depends on the past, beside the time if it depends on that.
    fn depends_on_past(&self, past: &[u32]) -> bool {
        let timed = self.times_differ();
        let mut numbers: HashMap<(usize, u32), usize> = HashMap::new();
        let together = |row: usize| {
            let new = numbers.len();
            *numbers.entry((self.pair(row), if timed { self.time[row] } else { 0 })).or_insert(new)
        };
        let together: Vec<usize> = (0..self.state.len()).map(together).collect();
        let own = self.by_row(past);
        self.depends(&together, &own)
    }

    /// Of what is known before every step and after the last of each episode, what is known before steps.
    fn by_row(&self, past: &[u32]) -> Vec<u32> {
        let of_episode = |(episode, steps): (usize, &[usize])| {
            past[steps[0] + episode..steps[1] + episode].to_vec()
        };
        self.first.windows(2).enumerate().flat_map(of_episode).collect()
    }

    /// Makes the past a part of states, unless they would come too seldom.
    fn remember(&mut self, past: &[u32]) -> bool {
        let most = most_states(self.horizon, self.actions, self.state.len());
        let mut numbers: HashMap<(u32, u32), u32> = HashMap::new();
        let mut number = |past: u32, state: u32| {
            let new = numbers.len() as u32;
            *numbers.entry((past, state)).or_insert(new)
        };
        let (mut states, mut next) = (Vec::new(), Vec::new());
        for (episode, steps) in self.first.windows(2).enumerate() {
            let first = states.len();
            for row in steps[0]..steps[1] {
                states.push(number(past[row + episode], self.state[row]));
            }
            next.extend_from_slice(&states[first + 1..]);
            next.push(match self.next[steps[1] - 1] {
                over @ (OVER | UNKNOWN) => over,
                last => number(past[steps[1] + episode], last),
            });
        }
        if numbers.len() > most {
            return false;
        }
        (self.state, self.next, self.states) = (states, next, numbers.len());
        true
    }

    /// How many episodes there are.
    pub(crate) fn episodes(&self) -> usize {
        self.first.len() - 1
    }

    /// The number of a step's state and action together.
    pub(crate) fn pair(&self, row: usize) -> usize {
        self.state[row] as usize * self.actions + self.action[row] as usize
    }

    /// What follows every state and action, at whatever time.
    pub(crate) fn following(&self, counts: &[u32]) -> Vec<Following> {
        let mut all = vec![Following::default(); self.states * self.actions];
        self.each(counts, |pair, _, next, reward, times| all[pair].add(next, reward, times));
        all
    }

    /// The same by time.
    pub(crate) fn following_in_time(&self, counts: &[u32]) -> HashMap<(u32, u32), Following> {
        let mut all: HashMap<(u32, u32), Following> = HashMap::new();
        self.each(counts, |pair, time, next, reward, times| {
            all.entry((pair as u32, time)).or_default().add(next, reward, times);
        });
        all
    }

    fn each(&self, counts: &[u32], mut of: impl FnMut(usize, u32, u32, f64, f64)) {
        for (episode, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            for at in self.first[episode]..self.first[episode + 1] {
                of(self.pair(at), self.time[at], self.next[at], self.reward[at], f64::from(count));
            }
        }
    }

    /// Whether what follows a state and an action depends on the time.
    pub(crate) fn times_differ(&self) -> bool {
        let pairs: Vec<usize> = (0..self.state.len()).map(|row| self.pair(row)).collect();
        self.depends(&pairs, &self.time)
    }

    /// Whether what follows steps that are counted together depends on something else that is known of each by more than chance would
    /// have it: Pearson's χ² of what followed, and of rewards.
    fn depends(&self, together: &[usize], known: &[u32]) -> bool {
        let groups = together.iter().max().map_or(0, |most| most + 1);
        let mut pooled = vec![Following::default(); groups];
        let mut apart: HashMap<(usize, u32), Following> = HashMap::new();
        for (row, (&group, &known)) in together.iter().zip(known).enumerate() {
            let (next, reward) = (self.next[row], self.reward[row]);
            pooled[group].add(next, reward, 1.0);
            apart.entry((group, known)).or_default().add(next, reward, 1.0);
        }
        let (mut statistic, mut freedom) = (0.0, 0.0);
        let mut own: Vec<(&(usize, u32), &Following)> = apart.iter().collect();
        own.sort_by_key(|(key, _)| **key);
        // Where only one thing is known there is nothing to differ from.
        let mut parts = vec![0usize; groups];
        own.iter().for_each(|((group, _), _)| parts[*group] += 1);
        for ((group, _), one) in own {
            let (whole, parts) = (&pooled[*group], parts[*group] as f64);
            if parts < 2.0 {
                continue;
            }
            // Of so many parts one is what the others leave.
            let share = (parts - 1.0) / parts;
            let mut categories = 0.0;
            for &(next, count) in &whole.next {
                let expected = one.known * count / whole.known;
                if expected < EXPECTED || whole.known - count < EXPECTED {
                    continue;
                }
                let found = one.next.iter().find(|(state, _)| *state == next);
                let found = found.map_or(0.0, |(_, count)| *count);
                // Each on its own: it follows, or it does not.
                let chance = count / whole.known;
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

/// The most states that can be counted.
fn most_states(horizon: usize, actions: usize, steps: usize) -> usize {
    (MOST_CELLS / (horizon * actions).max(1)).min(steps / ENOUGH)
}

/// The most different rewards that are told apart one by one.
const MOST_REWARDS: usize = 64;

/// Kinds of rewards: one for each that there is, or quarters of them where they are many.
fn kinds(rewards: &[f64]) -> Vec<u32> {
    let mut sorted = rewards.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quarters = [1, 2, 3].map(|at| sorted.get(sorted.len() * at / 4).copied().unwrap_or(0.0));
    sorted.dedup();
    let bounds = if sorted.len() <= MOST_REWARDS { &sorted[..] } else { &quarters[..] };
    rewards.iter().map(|reward| bounds.partition_point(|bound| bound < reward) as u32).collect()
}

/// What follows a state and an action.
#[derive(Clone, Default)]
pub(crate) struct Following {
    pub(crate) count: f64,
    pub(crate) reward: f64,
    pub(crate) square: f64,
    /// How often it is known what followed.
    pub(crate) known: f64,
    /// How often each state did; the rest is where it was over.
    pub(crate) next: Vec<(u32, f64)>,
}

impl Following {
    pub(crate) fn add(&mut self, next: u32, reward: f64, times: f64) {
        self.count += times;
        self.reward += times * reward;
        self.square += times * reward * reward;
        if next == UNKNOWN {
            return;
        }
        self.known += times;
        if next == OVER {
            return;
        }
        match self.next.iter_mut().find(|(state, _)| *state == next) {
            Some((_, count)) => *count += times,
            None => self.next.push((next, times)),
        }
    }

    /// What is to be expected, given what states are worth.
    pub(crate) fn worth(&self, discount: f64, values: &[f64]) -> f64 {
        self.reward / self.count + discount * self.after(values)[0]
    }

    /// What the states that follow are worth: the mean, and that of squares.
    fn after(&self, values: &[f64]) -> [f64; 2] {
        if self.known <= 0.0 {
            return [0.0; 2];
        }
        let mut sums = [0.0; 2];
        for &(state, count) in &self.next {
            let value = values[state as usize];
            sums[0] += count * value;
            sums[1] += count * value * value;
        }
        sums.map(|sum| sum / self.known)
    }

    /// How much it varies: rewards, and what the states that follow are worth.
    pub(crate) fn variance(&self, discount: f64, values: &[f64]) -> f64 {
        let [after, square] = self.after(values);
        let mean = self.reward / self.count;
        let of_rewards = self.square / self.count - mean * mean;
        of_rewards.max(0.0) + discount * discount * (square - after * after).max(0.0)
    }
}

/// Whether observations are measured: some cell of theirs has different numbers that are not whole. A single one may stand for those
/// that are missing.
#[derive(Default)]
struct Measured {
    /// By cell the first that is not whole.
    first: HashMap<usize, u32>,
    found: bool,
}

impl Measured {
    fn see(&mut self, observed: &[u32]) {
        if self.found {
            return;
        }
        let is_whole = |bits: u32| f32::from_bits(bits).fract() == 0.0;
        for (cell, &bits) in observed.iter().enumerate().filter(|(_, bits)| !is_whole(**bits)) {
            self.found |= *self.first.entry(cell).or_insert(bits) != bits;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::discrete;

    /// A coin is shown at the start (state 0 or 1), then forgotten (state 2), then decides what is paid.
    fn forgotten(episodes: usize, matters: bool) -> Transitions {
        let (mut seen, mut rewards) = (Vec::new(), Vec::new());
        let mut coins = Vec::new();
        for at in 0..episodes {
            let heads = at % 2 == 0;
            coins.push(heads);
            seen.extend([u8::from(heads), 2, 3]);
            let paid = if matters { heads } else { at / 2 % 2 == 0 };
            rewards.extend([0.0, f32::from(u8::from(paid))]);
        }
        let taken: Vec<u8> = (0..2 * episodes).map(|at| (at / 4 % 2) as u8).collect();
        let data = discrete([4, 2], &vec![2; episodes], &seen, &taken, &rewards, &[]);
        Transitions::of(&data, &(0..episodes).collect::<Vec<_>>()).expect("states come again")
    }

    #[test]
    fn what_was_seen_before_is_remembered_where_it_matters() {
        let log = forgotten(800, true);
        // Two starts; state 2 after either of them and either action.
        assert_eq!((log.states, log.hides), (6, false));
        assert_eq!(log.next[0], log.state[1]);
        assert_ne!(log.state[1], log.state[3]);
        let log = forgotten(800, false);
        assert_eq!((log.states, log.hides), (3, false));
    }

    /// Of whole numbers, of one that stands for what is missing, and of readings.
    #[test]
    fn readings_are_measured() {
        let found = |observations: &[[f32; 2]]| {
            let mut measured = Measured::default();
            for observed in observations {
                measured.see(&observed.map(f32::to_bits));
            }
            measured.found
        };
        assert!(!found(&[[1.0, -2.0], [0.0, 3e9]]));
        assert!(!found(&[[1.0, 0.25], [1.5, 2.0], [1.5, 0.25]]));
        assert!(found(&[[1.0, 0.25], [1.0, 0.5]]));
    }

    /// One state that leads to itself: what follows comes again. Many that each lead somewhere else: it does not.
    #[test]
    fn what_follows_has_to_come_again() {
        let lasting = forgotten(800, false);
        assert!(lasting.is_resolved());
        let next = (0..lasting.state.len() as u32).collect();
        assert!(!Transitions { next, ..lasting }.is_resolved());
    }

    #[test]
    fn many_rewards_are_told_apart_by_quarters() {
        let few = [0.0, 5.0, 0.0, 1.0];
        assert_eq!(kinds(&few), [0, 2, 0, 1]);
        let many: Vec<f64> = (0..1_000).map(f64::from).collect();
        let kinds = kinds(&many);
        assert_eq!((kinds[0], kinds[400], kinds[999]), (0, 1, 3));
    }
}
