//! Many episodes side by side.

use std::ops::ControlFlow;

use esper::agent::Agent;
use esper::condition::Target;
use esper_data::{Cells, Moments, Seed};
use esper_tasks::Worlds;

use crate::error::EvalError;

/// Returns of the episodes that were played with one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Achieved {
    /// One an episode, in order.
    pub returns: Vec<f64>,
}

impl Achieved {
    /// Mean and standard error of the returns.
    pub fn moments(&self) -> Moments {
        Moments::of(self.returns.iter().copied())
    }
}

/// The most episodes that are played side by side.
const PLACES: usize = 256;

/// Steps of all copies together between two questions whether to go on.
const WATCH_STEPS: usize = 256;

/// What is played: so many episodes with every target.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The targets.
    pub targets: Vec<Target>,
    /// Episodes with each.
    pub episodes: usize,
    /// Discount factor γ of the returns, as in the labels that targets stand for.
    pub discount: f64,
    /// Decides everything random in them.
    pub seed: Seed,
}

impl Sweep {
    /// How many copies of a world it is best played in.
    pub fn places(&self) -> usize {
        PLACES.min(self.targets.len() * self.episodes)
    }
}

/// Plays the episodes of a sweep. What happens in an episode follows from the seed, its target's number and
/// its own number. `watch` is told of finished episodes and may stop it.
pub fn rollouts(
    worlds: &mut Worlds,
    agent: &mut dyn Agent,
    sweep: &Sweep,
    mut watch: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<Vec<Achieved>, EvalError> {
    let Sweep { targets, episodes, discount, seed } = sweep;
    let (episodes, seed) = (*episodes, *seed);
    let mut achieved = vec![Achieved { returns: vec![0.0; episodes] }; targets.len()];
    let mut waiting = (0..targets.len()).flat_map(|target| (0..episodes).map(move |e| (target, e)));
    let mut playing: Vec<Option<(usize, usize)>> = vec![None; worlds.copies()];
    let mut over = vec![true; worlds.copies()];
    // What the next reward counts in every place.
    let mut counts = vec![1.0; worlds.copies()];
    let action_space = worlds.spaces().action.clone();
    let width = action_space.cells();
    let mut steps = 0usize;
    loop {
        let mut finished = 0;
        for place in 0..worlds.copies() {
            if !over[place] {
                continue;
            }
            if playing[place].is_some() {
                finished += 1;
                agent.end(place);
            }
            playing[place] = waiting.next();
            if let Some((target, episode)) = playing[place] {
                let seed = seed.indexed(target as u64).indexed(episode as u64);
                worlds.reset(place, seed.named("environment").value())?;
                agent.begin(place, targets[target], seed.named("agent"));
                counts[place] = 1.0;
                over[place] = false;
            }
        }
        if finished > 0 && watch(finished).is_break() {
            return Err(EvalError::Stopped);
        }
        let places: Vec<usize> = (0..worlds.copies()).filter(|&place| !over[place]).collect();
        if places.is_empty() {
            return Ok(achieved);
        }
        // Episodes may take their time to end, or never do.
        steps += 1;
        if steps.is_multiple_of(WATCH_STEPS) && watch(0).is_break() {
            return Err(EvalError::Stopped);
        }
        let mut actions = Cells::empty(action_space.cell_type());
        agent.act(worlds.observations(), &places, &mut actions)?;
        if actions.len() != places.len() * width {
            return Err(EvalError::Asked(format!(
                "the agent gave {} cells of actions for {} places",
                actions.len(),
                places.len()
            )));
        }
        // One action a copy; those of copies that are over are not looked at.
        let mut all = Cells::empty(action_space.cell_type());
        let mut chosen = 0;
        for &over in &over {
            let at = chosen.min(places.len() - 1);
            all.extend_from(actions.view(), at * width..(at + 1) * width);
            chosen += usize::from(!over);
        }
        worlds.step(all.view())?;
        for &place in &places {
            let step = worlds.steps()[place];
            agent.reward(place, step.reward)?;
            let (target, episode) = playing[place].expect("only what is playing is running");
            achieved[target].returns[episode] += counts[place] * f64::from(step.reward);
            counts[place] *= discount;
            over[place] = step.is_over();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::{CellsMut, CellsRef};
    use esper_tasks::gambling::Gambling;
    use esper_tasks::{Spaces, Step, World, WorldError};

    /// Takes the action that its target names; counts the episodes that ended.
    #[derive(Default)]
    struct Obedient {
        targets: Vec<u8>,
        ended: usize,
    }

    impl Agent for Obedient {
        fn begin(&mut self, place: usize, target: Target, _: Seed) {
            let Target::Return(target) = target else { panic!("returns are asked for") };
            self.targets.resize(self.targets.len().max(place + 1), 0);
            self.targets[place] = target as u8;
        }
        fn act(
            &mut self,
            _: CellsRef<'_>,
            places: &[usize],
            actions: &mut Cells,
        ) -> Result<(), esper::Error> {
            places.iter().for_each(|&place| actions.push_category(self.targets[place].into()));
            Ok(())
        }
        fn reward(&mut self, _: usize, _: f32) -> Result<(), esper::Error> {
            Ok(())
        }
        fn end(&mut self, _: usize) {
            self.ended += 1;
        }
    }

    fn sweep(episodes: usize, discount: f64) -> Sweep {
        Sweep {
            targets: [0.0, 1.0, 2.0].map(Target::Return).to_vec(),
            episodes,
            discount,
            seed: Seed::new(0),
        }
    }

    fn play(
        agent: &mut Obedient,
        sweep: &Sweep,
        watch: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<Vec<Achieved>, EvalError> {
        let mut worlds = Worlds::of(&Gambling::default(), sweep.places()).unwrap();
        rollouts(&mut worlds, agent, sweep, watch)
    }

    /// The three actions pay -5, -2.5 and 1 on average.
    #[test]
    fn every_target_gets_its_own_episodes() {
        let play = |discount| {
            let mut agent = Obedient::default();
            let watch = |_| ControlFlow::Continue(());
            let achieved = play(&mut agent, &sweep(4_000, discount), watch).unwrap();
            assert_eq!(agent.ended, 12_000);
            achieved
        };
        let achieved = play(1.0);
        for (achieved, expected) in achieved.iter().zip([-5.0, -2.5, 1.0]) {
            let moments = achieved.moments();
            assert!((moments.mean - expected).abs() < 4.0 * moments.standard_error() + 1e-9);
        }
        assert_eq!(achieved, play(1.0));
        // The second step pays.
        assert_eq!(play(0.5)[2].moments().mean, 0.5);
    }

    /// The gamble on machinery that is out of order: nothing can be played to its end.
    struct OutOfOrder(Gambling);

    impl World for OutOfOrder {
        fn spaces(&self) -> Spaces {
            World::spaces(&self.0)
        }
        fn reset(&mut self, seed: u64, observation: CellsMut<'_>) -> Result<(), WorldError> {
            World::reset(&mut self.0, seed, observation)
        }
        fn step(&mut self, _: CellsRef<'_>, _: CellsMut<'_>) -> Result<Step, WorldError> {
            Err(WorldError::failed("out of order"))
        }
    }

    #[test]
    fn an_error_of_the_world_is_handed_on() {
        let make = || -> Result<Box<dyn World>, WorldError> {
            Ok(Box::new(OutOfOrder(Gambling::default())))
        };
        let mut worlds = Worlds::new(3, make).unwrap();
        let watch = |_| ControlFlow::Continue(());
        let failed = rollouts(&mut worlds, &mut Obedient::default(), &sweep(10, 1.0), watch);
        let error = failed.unwrap_err();
        assert!(matches!(error, EvalError::World(WorldError::Failed { .. })), "{error}");
        assert_eq!(error.to_string(), "out of order");
    }

    #[test]
    fn it_can_be_stopped() {
        let stopped = play(&mut Obedient::default(), &sweep(10, 1.0), |_| ControlFlow::Break(()));
        assert!(matches!(stopped, Err(EvalError::Stopped)));
    }
}
