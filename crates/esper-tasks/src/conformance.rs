//! What every environment keeps, checked by playing it.

use esper_data::{Cell, Rng, Seed};

use crate::env::{Action, Env, Step};

/// Plays `episodes` random episodes and checks that the environment keeps its promises:
///
/// - spaces make sense, every observation is a value of its space, every reward is finite;
/// - an episode ends within `longest` steps;
/// - a seed and the actions decide an episode, whatever was played before it and whatever the buffer held;
/// - a copy goes on exactly as its original;
/// - under the same actions, different seeds give different episodes.
///
/// # Panics
///
/// With a description of the first promise that is broken.
pub fn check<E: Env>(
    env: &E,
    episodes: u64,
    longest: usize,
    random_action: impl Fn(&mut Rng) -> E::Action,
) {
    let space = env.observation_space();
    space.validate().expect("the observation space makes sense");
    env.action_space().validate().expect("the action space makes sense");
    assert_eq!(E::Cell::TYPE, space.cell_type(), "observations are stored as {space} asks for");

    let mut used = env.clone();
    let mut differ = false;
    for seed in 0..episodes {
        let actions = |stream: u64| Seed::new(stream).named("actions").rng();
        let fresh = play(&mut env.clone(), seed, longest, actions(seed), &random_action);
        let again = play(&mut used, seed, longest, actions(seed), &random_action);
        assert_eq!(fresh, again, "seed {seed}: an episode depends on what was played before");
        // Leaves `used` in the middle of an episode, which the next reset has to forget.
        used.reset(seed + 1, &mut vec![E::Cell::default(); space.cells()]);

        let other = play(&mut env.clone(), seed + 1, longest, actions(seed), &random_action);
        differ |= fresh != other;
    }
    assert!(differ, "every seed gives the same episode");
}

/// The steps of an episode, and its observations.
type Played<C> = (Vec<Step>, Vec<Vec<C>>);

fn play<E: Env>(
    env: &mut E,
    seed: u64,
    longest: usize,
    mut rng: Rng,
    random_action: &impl Fn(&mut Rng) -> E::Action,
) -> Played<E::Cell> {
    let (space, action_space) = (env.observation_space(), env.action_space());
    let mut observation = vec![E::Cell::default(); space.cells()];
    let (mut steps, mut observations) = (Vec::new(), Vec::new());
    let valid = |observation: &[E::Cell], number: usize| {
        space.check(E::Cell::view(observation)).unwrap_or_else(|error| {
            panic!("seed {seed}: observation {number} is outside {space}: {error}")
        });
    };

    env.reset(seed, &mut observation);
    loop {
        valid(&observation, observations.len());
        observations.push(observation.clone());
        match steps.last() {
            Some(step) if Step::is_over(*step) => return (steps, observations),
            _ => assert!(steps.len() < longest, "seed {seed}: no end within {longest} steps"),
        }
        let action = random_action(&mut rng);
        let cells = action.cells();
        assert_eq!(cells.len(), action_space.cells());
        action_space.check(Cell::view(cells)).expect("random actions are in the action space");
        assert_eq!(E::Action::from_cells(cells), Some(action));

        let mut copy = env.clone();
        let mut copied = vec![E::Cell::default(); space.cells()];
        let step = env.step(action, &mut observation);
        assert_eq!(copy.step(action, &mut copied), step, "seed {seed}: a copy goes another way");
        assert_eq!(copied, observation, "seed {seed}: a copy sees something else");
        assert!(step.reward.is_finite(), "seed {seed}: a reward is {}", step.reward);
        steps.push(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect_four::ConnectFour;
    use crate::gambling::Gambling;
    use crate::twenty48::Twenty48;
    use rand::RngExt;

    #[test]
    fn gambling_conforms() {
        check(&Gambling::default(), 50, 2, |rng| rng.random_range(0..3));
    }

    #[test]
    fn connect_four_conforms() {
        check(&ConnectFour::default(), 50, 21, |rng| rng.random_range(0..7));
    }

    #[test]
    fn twenty48_conforms() {
        check(&Twenty48::default(), 50, 500, |rng| rng.random_range(0..4));
    }

    /// A world that counts its resets breaks the promise that only the seed decides.
    #[test]
    #[should_panic(expected = "depends on what was played before")]
    fn a_world_with_a_memory_is_caught() {
        #[derive(Clone)]
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
                Step { reward: 0.0, terminated: true, truncated: false }
            }
        }
        check(&Counter(0), 2, 1, |_| 0);
    }
}
