//! The gamble as an environment.

use esper_data::{Rng, Seed, Space};
use rand::RngExt;

use super::rules::{ACTIONS, OUTCOMES, REWARD, START, STATES};
use crate::env::Env;
use crate::world::Step;

/// Two steps: the choice, whose outcome shows in the next state, and one that pays and ends, whatever is done in it.
#[derive(Clone, Debug)]
pub struct Gambling {
    state: u8,
    rng: Rng,
}

impl Default for Gambling {
    fn default() -> Self {
        Gambling { state: START, rng: Seed::new(0).rng() }
    }
}

impl Env for Gambling {
    type Cell = u8;
    type Action = u8;

    fn observation_space(&self) -> Space {
        Space::Discrete { n: STATES as u32 }
    }

    fn action_space(&self) -> Space {
        Space::Discrete { n: ACTIONS as u32 }
    }

    fn reset(&mut self, seed: u64, observation: &mut [u8]) {
        self.rng = Seed::new(seed).rng();
        self.state = START;
        observation[0] = self.state;
    }

    fn step(&mut self, action: u8, observation: &mut [u8]) -> Step {
        let reward = REWARD[usize::from(self.state)];
        let terminated = self.state != START;
        if !terminated {
            let luck = usize::from(self.rng.random::<bool>());
            self.state = OUTCOMES[usize::from(action)][luck];
        }
        observation[0] = self.state;
        Step { reward, terminated, truncated: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_step_is_free_and_the_second_pays_its_state() {
        let mut env = Gambling::default();
        let mut observation = [9];
        for seed in 0..100 {
            env.reset(seed, &mut observation);
            assert_eq!(observation, [START]);
            let action = (seed % 3) as u8;
            let first = env.step(action, &mut observation);
            assert_eq!(first, Step::default());
            let state = observation[0];
            assert!(OUTCOMES[usize::from(action)].contains(&state));
            let second = env.step((seed % 2) as u8, &mut observation);
            assert_eq!(second.reward, REWARD[usize::from(state)]);
            assert!(second.terminated);
        }
    }

    #[test]
    fn both_outcomes_are_equally_likely() {
        let mut env = Gambling::default();
        let mut observation = [0];
        let good = (0..40_000).filter(|&seed| {
            env.reset(seed, &mut observation);
            env.step(0, &mut observation);
            observation[0] == OUTCOMES[0][0]
        });
        let good = good.count(); // standard deviation 100
        assert!((19_500..20_500).contains(&good), "{good}");
    }
}
