//! Luck where states come again: V and A are counted.
//!
//! > V_t(s) = r̂(s) + Σ_{s'} p̂(s' | s) V_{t+1}(s'),  B_t = r_t + V_{t+1}(s_{t+1}) - r̂(s, a) - Σ_{s'} p̂(s' | s, a) V_{t+1}(s')
//!
//! with means over all steps of a state (and action). Of n steps with one state and action their own mean takes a share of the
//! variance away; it is given back by √(n / (n - 1)).

use std::collections::HashMap;

use esper_data::Dataset;

use crate::transitions::{Following, OVER, Transitions, UNKNOWN};

/// Where what follows depends on the time, steps of a state and action at one time, on average, that make counting worth more
/// than learning.
const ENOUGH: usize = 5;

/// The luck of some episodes, in their order; `None` where it cannot be counted.
pub(super) fn of_episodes(data: &Dataset, episodes: &[usize], discount: f64) -> Option<Vec<f64>> {
    let log = Transitions::of(data, episodes)?;
    let rows = log.state.len();
    // What is counted together: the steps of a state and action, at one time where that matters.
    let apart = log.times_differ();
    let mut numbers: HashMap<(usize, u32), usize> = HashMap::new();
    let group_of: Vec<usize> = (0..rows)
        .map(|row| {
            let new = numbers.len();
            let time = if apart { log.time[row] } else { 0 };
            *numbers.entry((log.pair(row), time)).or_insert(new)
        })
        .collect();
    if apart && rows < ENOUGH * numbers.len() {
        return None;
    }
    let mut following = vec![Following::default(); numbers.len()];
    for (row, &group) in group_of.iter().enumerate() {
        following[group].add(log.next[row], log.reward[row], 1.0);
    }
    let ahead = values(&log, apart, discount);
    let by_chance = |row: usize| {
        let group = &following[group_of[row]];
        let after = &ahead[log.time[row] as usize + 1];
        let led_to = match log.next[row] {
            OVER | UNKNOWN => 0.0,
            state => after[state as usize],
        };
        let given = log.reward[row] + discount * led_to - group.worth(discount, after);
        match group.count {
            count if count > 1.0 => given * (count / (count - 1.0)).sqrt(),
            _ => 0.0,
        }
    };
    let luck = |steps: &[usize]| (steps[0]..steps[1]).map(by_chance).sum();
    Some(log.first.windows(2).map(luck).collect())
}

/// What is still to come for those who acted, by time and state; after the last step nothing is.
fn values(log: &Transitions, apart: bool, discount: f64) -> Vec<Vec<f64>> {
    let mut of_state = vec![Following::default(); log.states];
    // By time, states that were seen then.
    let mut in_time: Vec<HashMap<u32, Following>> = vec![HashMap::new(); log.horizon];
    for row in 0..log.state.len() {
        let (state, next, reward) = (log.state[row], log.next[row], log.reward[row]);
        of_state[state as usize].add(next, reward, 1.0);
        if apart {
            let own = in_time[log.time[row] as usize].entry(state).or_default();
            own.add(next, reward, 1.0);
        }
    }
    let mut ahead = vec![vec![0.0; log.states]; log.horizon + 1];
    for time in (0..log.horizon).rev() {
        let (before, after) = ahead.split_at_mut(time + 1);
        for (state, value) in before[time].iter_mut().enumerate() {
            let own = in_time[time].get(&(state as u32)).unwrap_or(&of_state[state]);
            *value = if own.count > 0.0 { own.worth(discount, &after[0]) } else { 0.0 };
        }
    }
    ahead
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::discrete;
    use esper_data::Moments;

    /// Two steps: in state 0 the action pays nothing and leads to state 1 or 2 by a coin; in 1 a step pays 4, in 2 nothing. The coin
    /// is worth 2 either way; what is done is not luck.
    #[test]
    fn a_coin_is_luck_and_a_choice_is_not() {
        let episodes = 400usize;
        let (mut seen, mut taken, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..episodes {
            let (heads, good) = (at % 2 == 0, at % 4 < 2);
            seen.extend([0, if heads { 1 } else { 2 }, 3]);
            taken.extend([u8::from(good), 0]);
            rewards.extend([if good { 1.0 } else { 0.0 }, if heads { 4.0 } else { 0.0 }]);
        }
        let data = discrete([4, 2], &vec![2; episodes], &seen, &taken, &rewards, &[]);
        let all: Vec<usize> = (0..episodes).collect();
        let luck = of_episodes(&data, &all, 1.0).expect("states come again");
        for (at, luck) in luck.iter().enumerate() {
            let coin = if at % 2 == 0 { 2.0 } else { -2.0 };
            assert!((luck - coin).abs() < 0.02, "{at}: {luck}");
        }
        assert!(Moments::of(luck.iter().copied()).mean.abs() < 1e-9);
    }

    /// Where the same always follows there is no luck, whoever acts.
    #[test]
    fn what_always_follows_is_no_luck() {
        let episodes = 100usize;
        let seen: Vec<u8> = [0, 1, 2].repeat(episodes);
        let taken: Vec<u8> = (0..2 * episodes).map(|at| (at / 3 % 2) as u8).collect();
        let rewards: Vec<f32> = taken.iter().map(|&action| f32::from(action)).collect();
        let data = discrete([3, 2], &vec![2; episodes], &seen, &taken, &rewards, &[]);
        let all: Vec<usize> = (0..episodes).collect();
        let luck = of_episodes(&data, &all, 1.0).expect("states come again");
        assert!(luck.iter().all(|luck| luck.abs() < 1e-9));
    }
}
