//! What every environment keeps, checked by playing it.

use esper_data::{Cell, Rng, Seed};

use crate::env::{Env, Step};

/// Plays `episodes` random episodes and checks that the environment keeps its promises:
///
/// - spaces make sense, every observation is a value of its space, every reward is finite;
/// - an episode ends within `longest` steps;
/// - a seed and the actions decide an episode, whatever was played before it;
/// - a copy goes on exactly as its original;
/// - different seeds give different episodes.
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
    env.observation_space()
        .validate()
        .expect("the observation space makes sense");
    env.action_space()
        .validate()
        .expect("the action space makes sense");

    let mut used = env.clone();
    let mut all = Vec::new();
    for seed in 0..episodes {
        let fresh = play(&mut env.clone(), seed, longest, &random_action);
        let again = play(&mut used, seed, longest, &random_action);
        assert_eq!(
            fresh, again,
            "seed {seed}: an episode depends on what was played before"
        );
        all.push(fresh);
    }
    let differ = all.iter().any(|episode| episode != &all[0]);
    assert!(episodes < 2 || differ, "every seed gives the same episode");
}

/// The steps of an episode, and its observations as numbers so that they can be compared.
type Played = (Vec<Step>, Vec<Vec<f32>>);

fn play<E: Env>(
    env: &mut E,
    seed: u64,
    longest: usize,
    random_action: &impl Fn(&mut Rng) -> E::Action,
) -> Played {
    let space = env.observation_space();
    let actions = env.action_space();
    let mut observation = vec![E::Cell::default(); space.cells()];
    let mut rng = Seed::new(seed).named("actions").rng();
    let (mut steps, mut observations) = (Vec::new(), Vec::new());

    let mut record = |observation: &[E::Cell]| {
        let cells = E::Cell::column(observation.to_vec());
        space.check(&cells).unwrap_or_else(|error| {
            panic!(
                "seed {seed}: observation {} is outside {space}: {error}",
                observations.len()
            )
        });
        observations.push((0..cells.len()).map(|at| cells.number(at)).collect());
    };

    env.reset(seed, &mut observation);
    record(&observation);
    loop {
        let action = random_action(&mut rng);
        let cells = Cell::column(crate::Action::cells(&action).to_vec());
        assert_eq!(cells.len(), actions.cells());
        actions
            .check(&cells)
            .expect("random actions are in the action space");

        let mut copy = env.clone();
        let mut copied = observation.clone();
        let step = env.step(action, &mut observation);
        assert_eq!(
            copy.step(action, &mut copied),
            step,
            "seed {seed}: a copy goes another way"
        );
        record(&copied);
        record(&observation);
        assert!(
            step.reward.is_finite(),
            "seed {seed}: a reward is {}",
            step.reward
        );
        steps.push(step);
        if step.is_over() {
            return (steps, observations);
        }
        assert!(
            steps.len() < longest,
            "seed {seed}: no end within {longest} steps"
        );
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
        check(&ConnectFour::default(), 50, 21, |rng| {
            rng.random_range(0..7)
        });
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
            fn step(&mut self, _: u8, _: &mut [u8]) -> Step {
                Step {
                    reward: 0.0,
                    terminated: true,
                    truncated: false,
                }
            }
        }
        check(&Counter(0), 2, 1, |_| 0);
    }
}
