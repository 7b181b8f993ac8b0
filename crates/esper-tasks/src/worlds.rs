//! Many copies of a world, stepped together without allocation.

use esper_data::{CellError, Cells, CellsRef, Space};

use crate::env::Env;
use crate::world::{Spaces, Step, World, WorldError};

/// Copies of one world, their observations side by side.
///
/// A copy whose episode is over stays as it is, its last observation and step readable, until it is reset.
///
/// ```
/// use esper_tasks::{Worlds, gambling::Gambling};
///
/// # fn main() -> Result<(), esper_tasks::WorldError> {
/// let mut worlds = Worlds::of(&Gambling::default(), 3)?;
/// for copy in 0..3 {
///     worlds.reset(copy, copy as u64)?;
/// }
/// worlds.step((&[0u8, 1, 2]).into())?;
/// worlds.step((&[0u8, 0, 0]).into())?;
/// assert!(worlds.steps().iter().all(|step| step.terminated));
/// # Ok(())
/// # }
/// ```
pub struct Worlds {
    worlds: Vec<Box<dyn World>>,
    spaces: Spaces,
    /// `[copies, cells]`
    observations: Cells,
    steps: Vec<Step>,
    running: Vec<bool>,
}

impl Worlds {
    /// Makes the copies, at least one. Each has to be reset before it is stepped; until then it counts as over.
    pub fn new(
        copies: usize,
        make: impl Fn() -> Result<Box<dyn World>, WorldError>,
    ) -> Result<Self, WorldError> {
        let worlds: Vec<Box<dyn World>> =
            (0..copies.max(1)).map(|_| make()).collect::<Result<_, _>>()?;
        let spaces = worlds[0].spaces();
        if worlds.iter().any(|world| world.spaces() != spaces) {
            return Err(WorldError::Broken("copies of it have different spaces".to_owned()));
        }
        spaces.validate()?;
        let cells = worlds.len() * spaces.observation.cells();
        Ok(Worlds {
            observations: Cells::filled(spaces.observation.cell_type(), cells),
            steps: vec![Step::default(); worlds.len()],
            running: vec![false; worlds.len()],
            worlds,
            spaces,
        })
    }

    /// Copies of an environment.
    pub fn of<E: Env + Clone + 'static>(env: &E, copies: usize) -> Result<Self, WorldError> {
        Self::new(copies, || Ok(Box::new(env.clone())))
    }

    /// Their observation and action space.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// The number of copies.
    pub fn copies(&self) -> usize {
        self.worlds.len()
    }

    /// Starts a new episode in one copy.
    pub fn reset(&mut self, copy: usize, seed: u64) -> Result<(), WorldError> {
        let width = self.spaces.observation.cells();
        let observation = self.observations.view_mut(copy * width..(copy + 1) * width);
        self.running[copy] = false;
        self.worlds[copy].reset(seed, observation)?;
        let range = copy * width..(copy + 1) * width;
        check_observation(&self.spaces.observation, self.observations.view().slice(range))?;
        self.steps[copy] = Step::default();
        self.running[copy] = true;
        Ok(())
    }

    /// Steps every copy that is running. `actions` has one action a copy, `[copies, cells]`; those of copies that are over
    /// are ignored.
    pub fn step(&mut self, actions: CellsRef<'_>) -> Result<(), WorldError> {
        let space = &self.spaces.action;
        let (width, cells) = (space.cells(), self.spaces.observation.cells());
        let refused = |problem: String| WorldError::Action { space: space.clone(), problem };
        if actions.len() != self.worlds.len() * width || actions.cell_type() != space.cell_type() {
            return Err(refused(format!(
                "{} cells of type {:?} for {} copies",
                actions.len(),
                actions.cell_type(),
                self.worlds.len()
            )));
        }
        for (copy, world) in self.worlds.iter_mut().enumerate() {
            if !self.running[copy] {
                continue;
            }
            let action = actions.slice(copy * width..(copy + 1) * width);
            space.check(action).map_err(|CellError { cell, problem, .. }| {
                refused(format!("cell {cell} of copy {copy}: {problem}"))
            })?;
            let observation = self.observations.view_mut(copy * cells..(copy + 1) * cells);
            let step = world.step(action, observation)?;
            if !step.reward.is_finite() {
                return Err(WorldError::Broken(format!("a reward is {}", step.reward)));
            }
            let seen = self.observations.view().slice(copy * cells..(copy + 1) * cells);
            check_observation(&self.spaces.observation, seen)?;
            self.steps[copy] = step;
            self.running[copy] = !step.is_over();
        }
        Ok(())
    }

    /// The observations: `[copies, cells]`.
    pub fn observations(&self) -> CellsRef<'_> {
        self.observations.view()
    }

    /// What the last step of every copy gave.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Which copies have an episode under way.
    pub fn running(&self) -> &[bool] {
        &self.running
    }
}

/// What a world shows has to be of its own space: nobody downstream asks again.
fn check_observation(space: &Space, observation: CellsRef<'_>) -> Result<(), WorldError> {
    space.check(observation).map_err(|CellError { cell, problem, .. }| {
        WorldError::Broken(format!("an observation is outside {space}: cell {cell}: {problem}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gambling::Gambling;
    use crate::twenty48::Twenty48;
    use esper_data::Cell;

    /// Stepping together is stepping one by one.
    #[test]
    fn copies_do_not_influence_each_other() {
        let mut together = Worlds::of(&Twenty48::default(), 8).unwrap();
        let mut alone = vec![Twenty48::default(); 8];
        let mut observation = [0; 16];
        let seen = |worlds: &Worlds, copy: usize| -> Vec<u8> {
            u8::slice(worlds.observations()).unwrap()[copy * 16..][..16].to_vec()
        };
        for (copy, alone) in alone.iter_mut().enumerate() {
            together.reset(copy, copy as u64).unwrap();
            Env::reset(alone, copy as u64, &mut observation);
            assert_eq!(seen(&together, copy), observation);
        }
        let mut over = [false; 8];
        for time in 0..600 {
            let actions: Vec<u8> = (0..8).map(|copy| (time / (copy + 1) % 4) as u8).collect();
            together.step((&actions).into()).unwrap();
            for copy in 0..8 {
                if !over[copy] {
                    let step = Env::step(&mut alone[copy], actions[copy], &mut observation);
                    assert_eq!(together.steps()[copy], step);
                    assert_eq!(seen(&together, copy), observation);
                    over[copy] = step.is_over();
                    assert_eq!(together.running()[copy], !over[copy]);
                }
            }
        }
        assert!(over.iter().all(|&over| over));
    }

    #[test]
    fn actions_outside_the_space_are_refused() {
        let mut worlds = Worlds::of(&Gambling::default(), 2).unwrap();
        (0..2).for_each(|copy| worlds.reset(copy, 0).unwrap());
        let problem = |worlds: &mut Worlds, actions: CellsRef<'_>| {
            worlds.step(actions).unwrap_err().to_string()
        };
        let words = problem(&mut worlds, (&[0u8, 3]).into());
        assert_eq!(words, "an action is outside Discrete(3): cell 0 of copy 1: 3 is not below 3");
        assert!(problem(&mut worlds, (&[0u8]).into()).contains("for 2 copies"));
        assert!(problem(&mut worlds, (&[0.0f32, 1.0]).into()).contains("Float"));
    }

    /// Real-valued actions and observations come through the same door.
    #[test]
    fn real_numbers_are_a_world_too() {
        #[derive(Clone)]
        struct Line(f32);
        impl Env for Line {
            type Cell = f32;
            type Action = [f32; 1];
            fn observation_space(&self) -> Space {
                Space::Box { shape: vec![1], bounds: None }
            }
            fn action_space(&self) -> Space {
                Space::Box { shape: vec![1], bounds: Some(vec![[-1.0, 1.0]]) }
            }
            fn reset(&mut self, seed: u64, observation: &mut [f32]) {
                self.0 = seed as f32;
                observation[0] = self.0;
            }
            fn step(&mut self, [push]: [f32; 1], observation: &mut [f32]) -> Step {
                self.0 += push;
                observation[0] = self.0;
                Step::paying(if self.0 > 5.0 { f32::NAN } else { -self.0.abs() })
            }
        }
        let mut worlds = Worlds::of(&Line(0.0), 1).unwrap();
        worlds.reset(0, 3).unwrap();
        worlds.step((&[0.5f32]).into()).unwrap();
        assert_eq!(worlds.observations(), CellsRef::Float(&[3.5]));
        assert_eq!(worlds.steps()[0].reward, -3.5);
        assert!(worlds.step((&[f32::NAN]).into()).is_err());
        worlds.reset(0, 9).unwrap();
        assert!(matches!(worlds.step((&[0.0f32]).into()), Err(WorldError::Broken(_))));
        // Beyond what a float holds.
        worlds.reset(0, 3).unwrap();
        let far = Worlds::of(&Line(0.0), 1).and_then(|mut worlds| {
            worlds.reset(0, 3)?;
            worlds.step((&[f32::NEG_INFINITY]).into())
        });
        assert!(far.is_err());
    }
}
