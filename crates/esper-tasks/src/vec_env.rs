//! Many copies of a world, stepped together without allocation.

use crate::env::{Env, Step};

/// Copies of one environment, their observations side by side.
///
/// A copy whose episode is over stays as it is, its last observation and step readable, until it is reset.
///
/// ```
/// use esper_tasks::{Env, VecEnv, gambling::Gambling};
///
/// let mut worlds = VecEnv::new(&Gambling::default(), 3);
/// for copy in 0..3 {
///     worlds.reset(copy, copy as u64);
/// }
/// worlds.step(&[0, 1, 2]);
/// worlds.step(&[0, 0, 0]);
/// assert!(worlds.steps().iter().all(|step| step.terminated));
/// ```
pub struct VecEnv<E: Env> {
    envs: Vec<E>,
    width: usize,
    observations: Vec<E::Cell>,
    steps: Vec<Step>,
    running: Vec<bool>,
}

impl<E: Env> VecEnv<E> {
    /// Makes the copies. Each has to be reset before it is stepped; until then it counts as over.
    pub fn new(env: &E, copies: usize) -> Self {
        let width = env.observation_space().cells();
        VecEnv {
            envs: vec![env.clone(); copies],
            width,
            observations: vec![E::Cell::default(); copies * width],
            steps: vec![Step::default(); copies],
            running: vec![false; copies],
        }
    }

    /// The number of copies.
    pub fn copies(&self) -> usize {
        self.envs.len()
    }

    /// Starts a new episode in one copy.
    pub fn reset(&mut self, copy: usize, seed: u64) {
        let cells = copy * self.width..(copy + 1) * self.width;
        self.envs[copy].reset(seed, &mut self.observations[cells]);
        self.steps[copy] = Step::default();
        self.running[copy] = true;
    }

    /// Steps every copy that is running; the actions of the others are ignored.
    ///
    /// # Panics
    ///
    /// When there is not one action a copy.
    pub fn step(&mut self, actions: &[E::Action]) {
        assert_eq!(actions.len(), self.copies(), "one action a copy");
        let copies = self.envs.iter_mut().zip(self.observations.chunks_exact_mut(self.width));
        let states = self.steps.iter_mut().zip(&mut self.running);
        for (((env, observation), (step, running)), &action) in copies.zip(states).zip(actions) {
            if *running {
                *step = env.step(action, observation);
                *running = !step.is_over();
            }
        }
    }

    /// The observations: `[copies, cells]`.
    pub fn observations(&self) -> &[E::Cell] {
        &self.observations
    }

    /// What the last step of every copy gave.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Which copies have an episode under way.
    pub fn running(&self) -> &[bool] {
        &self.running
    }

    /// The environments themselves, for policies that look inside.
    pub fn envs(&self) -> &[E] {
        &self.envs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twenty48::Twenty48;

    /// Stepping together is stepping one by one.
    #[test]
    fn copies_do_not_influence_each_other() {
        let mut together = VecEnv::new(&Twenty48::default(), 8);
        let mut alone = vec![Twenty48::default(); 8];
        let mut observation = [0; 16];
        for (copy, alone) in alone.iter_mut().enumerate() {
            together.reset(copy, copy as u64);
            alone.reset(copy as u64, &mut observation);
            assert_eq!(together.observations()[copy * 16..][..16], observation);
        }
        let mut over = [false; 8];
        for time in 0..600 {
            let actions: Vec<u8> = (0..8).map(|copy| (time / (copy + 1) % 4) as u8).collect();
            together.step(&actions);
            for copy in 0..8 {
                if !over[copy] {
                    let step = alone[copy].step(actions[copy], &mut observation);
                    assert_eq!(together.steps()[copy], step);
                    assert_eq!(together.observations()[copy * 16..][..16], observation);
                    over[copy] = step.is_over();
                    assert_eq!(together.running()[copy], !over[copy]);
                }
            }
        }
        assert!(over.iter().all(|&over| over));
    }
}
