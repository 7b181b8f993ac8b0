//! Many episodes side by side.

use std::ops::ControlFlow;

use esper::agent::Agent;
use esper::statistics::mean_and_error;
use esper_data::{Cell, Cells, Seed};
use esper_tasks::{Action, Env, VecEnv};

/// Returns of the episodes that were played with one target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Achieved {
    /// One an episode, in order.
    pub returns: Vec<f64>,
}

impl Achieved {
    /// The mean return.
    pub fn mean(&self) -> f64 {
        mean_and_error(&self.returns).0
    }

    /// The standard error of the mean.
    pub fn stderr(&self) -> f64 {
        mean_and_error(&self.returns).1
    }
}

/// Episodes that are played side by side.
const PLACES: usize = 256;

/// What is played: so many episodes with every target.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The targets.
    pub targets: Vec<f64>,
    /// Episodes with each.
    pub episodes: usize,
    /// How much a reward counts for less a step later, as in the labels that targets stand for.
    pub discount: f64,
    /// Decides everything random in them.
    pub seed: Seed,
}

/// Plays the episodes of a sweep. What happens in an episode follows from the seed, its target's number and
/// its own number. `watch` is told of finished episodes and may stop it; then there is no result.
pub fn rollouts<E, A>(
    env: &E,
    agent: &mut A,
    sweep: &Sweep,
    mut watch: impl FnMut(usize) -> ControlFlow<()>,
) -> Option<Vec<Achieved>>
where
    E: Env,
    A: Agent + ?Sized,
{
    let Sweep { targets, episodes, discount, seed } = sweep;
    let (episodes, seed) = (*episodes, *seed);
    let mut achieved = vec![Achieved { returns: vec![0.0; episodes] }; targets.len()];
    let mut waiting = (0..targets.len()).flat_map(|target| (0..episodes).map(move |e| (target, e)));
    let mut worlds = VecEnv::new(env, PLACES.min(targets.len() * episodes));
    let mut playing: Vec<Option<(usize, usize)>> = vec![None; worlds.copies()];
    // What the next reward counts in every place.
    let mut counts = vec![1.0; worlds.copies()];
    let mut chosen = vec![E::Action::default(); worlds.copies()];
    let action_cells = env.action_space().cells();
    loop {
        let mut finished = 0;
        for place in 0..worlds.copies() {
            if worlds.running()[place] {
                continue;
            }
            finished += usize::from(playing[place].is_some());
            playing[place] = waiting.next();
            if let Some((target, episode)) = playing[place] {
                let seed = seed.indexed(target as u64).indexed(episode as u64);
                worlds.reset(place, seed.named("environment").value());
                agent.begin(place, targets[target], seed.named("agent"));
                counts[place] = 1.0;
            }
        }
        if finished > 0 && watch(finished).is_break() {
            return None;
        }
        let places: Vec<usize> =
            (0..worlds.copies()).filter(|&place| worlds.running()[place]).collect();
        if places.is_empty() {
            return Some(achieved);
        }
        let mut actions = Cells::empty(<E::Action as Action>::Cell::TYPE);
        agent.act(E::Cell::view(worlds.observations()), &places, &mut actions);
        let cells = <E::Action as Action>::Cell::slice(&actions);
        for (&place, cells) in places.iter().zip(cells.chunks_exact(action_cells)) {
            chosen[place] = E::Action::from_cells(cells).expect("an action of the action space");
        }
        worlds.step(&chosen);
        for &place in &places {
            let reward = worlds.steps()[place].reward;
            agent.reward(place, reward);
            let (target, episode) = playing[place].expect("only what is playing is running");
            achieved[target].returns[episode] += counts[place] * f64::from(reward);
            counts[place] *= discount;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::CellsRef;
    use esper_tasks::gambling::Gambling;

    /// Takes the action that its target names.
    #[derive(Default)]
    struct Obedient(Vec<u8>);

    impl Agent for Obedient {
        fn begin(&mut self, place: usize, target: f64, _: Seed) {
            self.0.resize(self.0.len().max(place + 1), 0);
            self.0[place] = target as u8;
        }
        fn act(&mut self, _: CellsRef<'_>, places: &[usize], actions: &mut Cells) {
            let Cells::Byte(actions) = actions else { panic!("gambling takes bytes") };
            actions.extend(places.iter().map(|&place| self.0[place]));
        }
        fn reward(&mut self, _: usize, _: f32) {}
    }

    fn sweep(episodes: usize, discount: f64) -> Sweep {
        Sweep { targets: vec![0.0, 1.0, 2.0], episodes, discount, seed: Seed::new(0) }
    }

    /// The three actions pay -5, -2.5 and 1 on average.
    #[test]
    fn every_target_gets_its_own_episodes() {
        let env = Gambling::default();
        let play = |discount| {
            let sweep = sweep(4_000, discount);
            let watch = |_| ControlFlow::Continue(());
            rollouts(&env, &mut Obedient::default(), &sweep, watch).unwrap()
        };
        let achieved = play(1.0);
        for (achieved, expected) in achieved.iter().zip([-5.0, -2.5, 1.0]) {
            assert!((achieved.mean() - expected).abs() < 4.0 * achieved.stderr() + 1e-9);
        }
        assert_eq!(achieved, play(1.0));
        // The second step pays.
        assert_eq!(play(0.5)[2].mean(), 0.5);
    }

    #[test]
    fn it_can_be_stopped() {
        let watch = |_| ControlFlow::Break(());
        let sweep = sweep(10, 1.0);
        let stopped = rollouts(&Gambling::default(), &mut Obedient::default(), &sweep, watch);
        assert!(stopped.is_none());
    }
}
