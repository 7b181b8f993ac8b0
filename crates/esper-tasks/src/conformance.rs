//! What every world keeps, checked by playing it.

use esper_data::{CellType, Cells, Seed};

use crate::behaviour::{Behaviour, UniformRandom};
use crate::world::{Step, World};

/// Plays `episodes` random episodes and checks that the world keeps its promises:
///
/// - spaces make sense, every observation is a value of its space, every reward is finite;
/// - an episode ends within `longest` steps;
/// - a seed and the actions decide an episode, whatever was played before it and whatever the memory held.
///
/// # Panics
///
/// With a description of the first promise that is broken.
pub fn check(world: &mut dyn World, episodes: u64, longest: usize) {
    let spaces = world.spaces();
    spaces.observation.validate().expect("the observation space makes sense");
    spaces.action.validate().expect("the action space makes sense");
    for seed in 0..episodes {
        let first = play(world, seed, seed, longest, false);
        // Another episode, left in its middle, and something else in the memory.
        play(world, seed + 1, seed, longest.min(1), true);
        let again = play(world, seed, seed, longest, true);
        assert_eq!(first, again, "seed {seed}: an episode depends on what was played before");
    }
}

/// Whether chance plays a part: under the same random actions, some of so many pairs of seeds give different episodes.
pub fn is_random(world: &mut dyn World, pairs: u64, longest: usize) -> bool {
    (0..pairs).any(|stream| {
        let mut of_seed = |seed| play(world, seed, stream, longest, false);
        of_seed(2 * stream) != of_seed(2 * stream + 1)
    })
}

/// The steps of an episode, and its observations.
type Played = (Vec<Step>, Vec<Cells>);

/// Plays the first steps of an episode, at most so many, with random actions of a stream. Where nothing is wrong it is to its
/// end; only what is left in its middle on purpose has a limit of one.
fn play(
    world: &mut dyn World,
    seed: u64,
    stream: u64,
    longest: usize,
    other_memory: bool,
) -> Played {
    let spaces = world.spaces();
    let space = &spaces.observation;
    let random = UniformRandom::over(&spaces.action).expect("actions can be drawn at random");
    let mut rng = Seed::new(stream).named("actions").rng();
    let cells = space.cells();
    // What a world does not write stays what it was, and tells on it.
    let memory = || match (space.cell_type(), other_memory) {
        (CellType::Byte, true) => Cells::Byte(vec![1; cells]),
        (CellType::Short, true) => Cells::Short(vec![1; cells]),
        (CellType::Float, true) => Cells::Float(vec![1.0; cells]),
        (other, false) => Cells::filled(other, cells),
    };
    let mut observation = memory();
    let (mut steps, mut observations) = (Vec::new(), Vec::new());
    world
        .reset(seed, observation.view_mut(0..cells))
        .unwrap_or_else(|error| panic!("seed {seed}: it cannot be reset: {error}"));
    loop {
        space.check(observation.view()).unwrap_or_else(|error| {
            panic!("seed {seed}: observation {} is outside {space}: {error}", observations.len())
        });
        observations.push(observation.clone());
        match steps.last() {
            Some(step) if Step::is_over(*step) => return (steps, observations),
            Some(_) if longest == 1 && other_memory => return (steps, observations),
            _ => assert!(steps.len() < longest, "seed {seed}: no end within {longest} steps"),
        }
        let mut action = Cells::empty(spaces.action.cell_type());
        random.act(observation.view(), &mut rng, &mut action).expect("a random action");
        observation = memory();
        let step = world
            .step(action.view(), observation.view_mut(0..cells))
            .unwrap_or_else(|error| panic!("seed {seed}: it cannot be stepped: {error}"));
        assert!(step.reward.is_finite(), "seed {seed}: a reward is {}", step.reward);
        steps.push(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::mujoco::MujocoError;
    use crate::world::WorldError;
    use esper_data::Space;
    use std::io::Write as _;

    #[test]
    fn built_in_worlds_conform() {
        for task in crate::tasks() {
            let mut world = match task.world() {
                Err(WorldError::Mujoco(MujocoError::NotFound)) => {
                    // Not by a macro, whose words the test runner keeps to itself.
                    let words = format!("NO MUJOCO: {} IS NOT TESTED\n", task.name());
                    std::io::stderr().write_all(words.as_bytes()).unwrap();
                    continue;
                }
                world => world.unwrap(),
            };
            assert_eq!(world.spaces(), task.spaces().unwrap(), "{}", task.name());
            let (episodes, longest) = match world.spaces().action {
                Space::Box { .. } => (5, 1_000),
                _ => (50, 500),
            };
            check(world.as_mut(), episodes, longest);
            assert!(is_random(world.as_mut(), episodes, longest), "{}", task.name());
        }
    }

    /// A world that does not write its last observation shows whatever was there.
    #[test]
    #[should_panic(expected = "depends on what was played before")]
    fn a_world_that_writes_nothing_is_caught() {
        struct Silent;
        impl Env for Silent {
            type Cell = u8;
            type Action = u8;
            fn observation_space(&self) -> esper_data::Space {
                esper_data::Space::Discrete { n: 2 }
            }
            fn action_space(&self) -> esper_data::Space {
                esper_data::Space::Discrete { n: 1 }
            }
            fn reset(&mut self, _: u64, observation: &mut [u8]) {
                observation[0] = 0;
            }
            fn step(&mut self, _: u8, _: &mut [u8]) -> Step {
                Step::end(0.0)
            }
        }
        check(&mut Silent, 2, 1);
    }

    /// A world that counts its resets breaks the promise that only the seed decides.
    #[test]
    #[should_panic(expected = "depends on what was played before")]
    fn a_world_with_a_memory_is_caught() {
        struct Counter(u8);
        impl Env for Counter {
            type Cell = u8;
            type Action = u8;
            fn observation_space(&self) -> esper_data::Space {
                esper_data::Space::Discrete { n: 256 }
            }
            fn action_space(&self) -> esper_data::Space {
                esper_data::Space::Discrete { n: 1 }
            }
            fn reset(&mut self, _: u64, observation: &mut [u8]) {
                self.0 += 1;
                observation[0] = self.0;
            }
            fn step(&mut self, _: u8, observation: &mut [u8]) -> Step {
                observation[0] = self.0;
                Step::end(0.0)
            }
        }
        check(&mut Counter(0), 2, 1);
    }
}
