//! Environments as what learns online wants them.

use esper::online::{Outcome, Worlds};
use esper_data::{Cell, CellsRef, Space};
use esper_tasks::{Env, VecEnv};

/// Copies of an environment with a choice among actions.
pub struct LiveWorlds<E: Env<Action = u8>> {
    envs: VecEnv<E>,
    spaces: (Space, Space),
    actions: Vec<u8>,
}

impl<E: Env<Action = u8>> LiveWorlds<E> {
    /// Makes the copies.
    pub fn new(env: &E, copies: usize) -> Self {
        LiveWorlds {
            envs: VecEnv::new(env, copies),
            spaces: (env.observation_space(), env.action_space()),
            actions: vec![0; copies],
        }
    }
}

impl<E: Env<Action = u8>> Worlds for LiveWorlds<E> {
    fn spaces(&self) -> (Space, Space) {
        self.spaces.clone()
    }

    fn copies(&self) -> usize {
        self.envs.copies()
    }

    fn reset(&mut self, copy: usize, seed: u64) {
        self.envs.reset(copy, seed);
    }

    fn step(&mut self, actions: &[usize]) {
        // Spaces of `u8` actions have at most 256 of them.
        self.actions.iter_mut().zip(actions).for_each(|(to, &action)| *to = action as u8);
        self.envs.step(&self.actions);
    }

    fn observations(&self) -> CellsRef<'_> {
        E::Cell::view(self.envs.observations())
    }

    fn outcome(&self, copy: usize) -> Outcome {
        let step = self.envs.steps()[copy];
        Outcome { reward: step.reward, terminated: step.terminated, truncated: step.truncated }
    }
}
