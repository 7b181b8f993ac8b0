//! What every world keeps, checked by playing it.

use esper_data::{Cells, Rng, Seed};

use crate::behaviour::{Behaviour, UniformRandom};
use crate::world::{Step, World};

/// Plays `episodes` random episodes and checks that the world keeps its promises:
///
/// - spaces make sense, every observation is a value of its space, every reward is finite;
/// - an episode ends within `longest` steps;
/// - a seed and the actions decide an episode, whatever was played before it and whatever the memory held;
/// - under the same actions, different seeds give different episodes.
///
/// # Panics
///
/// With a description of the first promise that is broken.
pub fn check(world: &mut dyn World, episodes: u64, longest: usize) {
    let spaces = world.spaces();
    spaces.observation.validate().expect("the observation space makes sense");
    spaces.action.validate().expect("the action space makes sense");
    let random = UniformRandom::over(&spaces.action).expect("actions can be drawn at random");
    let mut differ = false;
    for seed in 0..episodes {
        let actions = || Seed::new(seed).named("actions").rng();
        let mut play = |seed| play(world, seed, longest, actions(), &random);
        let first = play(seed);
        let other = play(seed + 1);
        // After another episode, cut in its middle; and with something else in the memory.
        let again = play(seed);
        assert_eq!(first, again, "seed {seed}: an episode depends on what was played before");
        differ |= first != other;
    }
    assert!(differ, "every seed gives the same episode");
}

/// The steps of an episode, and its observations.
type Played = (Vec<Step>, Vec<Cells>);

fn play(
    world: &mut dyn World,
    seed: u64,
    longest: usize,
    mut rng: Rng,
    random: &UniformRandom,
) -> Played {
    let spaces = world.spaces();
    let space = &spaces.observation;
    let cells = space.cells();
    let mut observation = Cells::filled(space.cell_type(), cells);
    let (mut steps, mut observations) = (Vec::new(), Vec::new());
    let reset = |world: &mut dyn World, seed, observation: &mut Cells| {
        let done = world.reset(seed, observation.view_mut(0..cells));
        done.unwrap_or_else(|error| panic!("seed {seed}: it cannot be reset: {error}"));
    };
    // An episode that is left in its middle has to be forgotten.
    reset(world, seed ^ 1, &mut observation);
    reset(world, seed, &mut observation);
    loop {
        space.check(observation.view()).unwrap_or_else(|error| {
            panic!("seed {seed}: observation {} is outside {space}: {error}", observations.len())
        });
        observations.push(observation.clone());
        match steps.last() {
            Some(step) if Step::is_over(*step) => return (steps, observations),
            _ => assert!(steps.len() < longest, "seed {seed}: no end within {longest} steps"),
        }
        let mut action = Cells::empty(spaces.action.cell_type());
        random.act(observation.view(), &mut rng, &mut action).expect("a random action");
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

    #[test]
    fn built_in_worlds_conform() {
        for (task, longest) in crate::tasks().iter().zip([2, 21, 500]) {
            check(task.world().unwrap().as_mut(), 50, longest);
        }
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
