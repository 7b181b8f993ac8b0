//! Many episodes side by side.

use std::ops::ControlFlow;

use esper::agent::Agent;
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
        self.returns.iter().sum::<f64>() / self.returns.len().max(1) as f64
    }

    /// The standard error of the mean.
    pub fn stderr(&self) -> f64 {
        let (count, mean) = (self.returns.len() as f64, self.mean());
        if count < 2.0 {
            return 0.0;
        }
        let squares = self.returns.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        (squares / (count - 1.0) / count).sqrt()
    }
}

/// Episodes that are played side by side.
const PLACES: usize = 256;

/// Plays so many episodes with every target. What happens in an episode follows from the seed, its target's number and
/// its own number. `watch` is told of finished episodes and may stop it; then there is no result.
pub fn rollouts<E, A>(
    env: &E,
    agent: &mut A,
    targets: &[f64],
    episodes: usize,
    seed: Seed,
    mut watch: impl FnMut(usize) -> ControlFlow<()>,
) -> Option<Vec<Achieved>>
where
    E: Env,
    A: Agent + ?Sized,
{
    let mut achieved = vec![Achieved { returns: vec![0.0; episodes] }; targets.len()];
    let mut waiting = (0..targets.len()).flat_map(|target| (0..episodes).map(move |e| (target, e)));
    let mut worlds = VecEnv::new(env, PLACES.min(targets.len() * episodes));
    let mut playing: Vec<Option<(usize, usize)>> = vec![None; worlds.copies()];
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
            achieved[target].returns[episode] += f64::from(reward);
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

    /// The three actions pay -5, -2.5 and 1 on average.
    #[test]
    fn every_target_gets_its_own_episodes() {
        let env = Gambling::default();
        let play = || {
            let targets = [0.0, 1.0, 2.0];
            let watch = |_| ControlFlow::Continue(());
            rollouts(&env, &mut Obedient::default(), &targets, 4_000, Seed::new(0), watch).unwrap()
        };
        let achieved = play();
        for (achieved, expected) in achieved.iter().zip([-5.0, -2.5, 1.0]) {
            assert!((achieved.mean() - expected).abs() < 4.0 * achieved.stderr() + 1e-9);
        }
        assert_eq!(achieved, play());
    }

    #[test]
    fn it_can_be_stopped() {
        let watch = |_| ControlFlow::Break(());
        let stopped = rollouts(
            &Gambling::default(),
            &mut Obedient::default(),
            &[1.0],
            10,
            Seed::new(0),
            watch,
        );
        assert!(stopped.is_none());
    }
}
