//! Finite worlds: their rules as tables, their solution by dynamic programming, and the environment that plays them.

use std::sync::Arc;

use esper_data::{Cells, CellsRef, Dataset, Rng, Seed, Space, draw_weighted};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::points::{Points, PointsEnv};
use super::{BehaviourTruth, Truth};
use crate::behaviour::Behaviour;
use crate::env::Env;
use crate::specs::{BehaviourSpec, DatasetSpec};
use crate::task::Task;
use crate::world::{Step, World, WorldError};

/// Markov decision process with finitely many states and actions, and at most `horizon` steps. What is seen is the state, as its
/// number or as a point; the time is not.
#[derive(Clone, Debug, PartialEq)]
pub struct FiniteWorld {
    pub(super) kind: String,
    pub(super) states: usize,
    pub(super) actions: usize,
    /// An episode that has not come to its end after this many steps is cut.
    pub(super) horizon: usize,
    /// The probability of every state to be the first.
    pub(super) starts: Vec<f64>,
    /// What can follow, `[states, actions]`; the probabilities of each sum to one.
    pub(super) outcomes: Vec<Vec<Outcome>>,
    /// Standard deviation of normal noise in every reward, which no state shows.
    pub(super) noise: f64,
    pub(super) behaviours: Vec<(String, Policy)>,
    pub(super) seen: Seen,
    /// Steps of a log.
    pub(super) steps: u64,
}

/// How states are seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    /// By state the number that it is seen as, which several may share; nothing where it is the state's own.
    pub(super) numbers: Vec<u8>,
    /// By that number a point that is seen in its place.
    pub(super) points: Option<Points>,
}

/// Something that can follow an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// How likely.
    pub probability: f64,
    /// The state it leads to.
    pub next: usize,
    /// What it pays.
    pub reward: f64,
    /// Whether the world ends there.
    pub ends: bool,
}

/// A stationary policy: the probability of every action in every state, `[states, actions]`.
pub type Policy = Vec<f64>;

/// Steps of a proving ground's log, if nothing else is said.
pub(super) const STEPS: u64 = 50_000;

impl FiniteWorld {
    /// The kind of world.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    pub(super) fn outcomes(&self, state: usize, action: usize) -> &[Outcome] {
        &self.outcomes[state * self.actions + action]
    }

    /// The state that an observation shows; of those that share it, the first.
    fn state(&self, seen: CellsRef<'_>, row: usize) -> usize {
        let number = match &self.seen.points {
            None => seen.category(row),
            Some(points) => points.nearest(seen, row),
        };
        match self.seen.numbers.is_empty() {
            true => number,
            false => (0..self.states).find(|&it| self.shown(it) == number).unwrap_or(0),
        }
    }

    /// The number that a state is seen as.
    pub(super) fn shown(&self, state: usize) -> usize {
        self.seen.numbers.get(state).map_or(state, |&number| usize::from(number))
    }

    /// Makes a table of `[states, actions]` one that whoever sees states can know: the mean over those that look the same.
    pub(super) fn as_seen(&self, table: &[f64]) -> Vec<f64> {
        let same = |state: usize| {
            (0..self.states).filter(move |&other| self.shown(other) == self.shown(state))
        };
        let mean = |state: usize, action: usize| {
            let sum: f64 = same(state).map(|other| table[other * self.actions + action]).sum();
            sum / same(state).count() as f64
        };
        let all = (0..self.states).flat_map(|state| (0..self.actions).map(move |a| (state, a)));
        all.map(|(state, action)| mean(state, action)).collect()
    }

    /// The first state of every episode of a log, or one that looks the same.
    pub(super) fn first_states(&self, data: &Dataset) -> Vec<usize> {
        let first = |episode: usize| data.episode_observations(episode).start;
        let all = 0..data.episodes();
        all.map(|episode| self.state(data.observations().view(), first(episode))).collect()
    }

    /// The worth of every action, given that of every state one step later: `[states, actions]`.
    fn action_values(&self, after: &[f64]) -> Vec<f64> {
        let worth = |outcome: &Outcome| {
            let later = if outcome.ends { 0.0 } else { after[outcome.next] };
            outcome.probability * (outcome.reward + later)
        };
        self.outcomes.iter().map(|outcomes| outcomes.iter().map(worth).sum()).collect()
    }

    /// Backward induction: the worth of every state with all steps left, and of every action, where `value` makes the worth of
    /// a state of those of its actions.
    pub(super) fn induction(&self, value: impl Fn(usize, &[f64]) -> f64) -> (Vec<f64>, Vec<f64>) {
        let mut values = vec![0.0; self.states];
        let mut action_values = vec![0.0; self.states * self.actions];
        for _ in 0..self.horizon {
            action_values = self.action_values(&values);
            let of_actions = action_values.chunks_exact(self.actions).enumerate();
            values = of_actions.map(|(state, of_actions)| value(state, of_actions)).collect();
        }
        (values, action_values)
    }

    /// The optimum: the worth of every state and of every action, with all steps left.
    pub(super) fn optimum(&self) -> (Vec<f64>, Vec<f64>) {
        self.induction(|_, of_actions| of_actions.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }

    /// What a policy is worth from every state, with all steps left.
    pub fn values(&self, policy: &Policy) -> Vec<f64> {
        let expected = |state: usize, of_actions: &[f64]| {
            let chances = &policy[state * self.actions..(state + 1) * self.actions];
            chances.iter().zip(of_actions).map(|(chance, value)| chance * value).sum()
        };
        self.induction(expected).0
    }

    /// The mean over starts.
    fn mean_over_starts(&self, values: &[f64]) -> f64 {
        self.starts.iter().zip(values).map(|(chance, value)| chance * value).sum()
    }

    /// What is true of it.
    pub fn truth(&self) -> Truth {
        let behaviour = |(name, policy): &(String, Policy)| {
            let from = self.values(policy);
            BehaviourTruth { name: name.clone(), value: self.mean_over_starts(&from), from }
        };
        let optimum = self.mean_over_starts(&self.optimum().0);
        let behaviours = self.behaviours.iter().map(behaviour).collect();
        Truth::new(self.kind.clone(), &self.starts, behaviours, optimum)
    }

    /// What chance gave in every episode of a log of the behaviours. `None` where an episode does not say whose it is, or states
    /// are not known.
    pub fn luck(&self, data: &Dataset) -> Option<Vec<f64>> {
        if !self.seen.numbers.is_empty() {
            return None;
        }
        let of_behaviour = |name: &String| {
            let (_, policy) = self.behaviours.iter().find(|(known, _)| known == name)?;
            // By steps that are left: worths of states, and of actions.
            let mut by_left = vec![(vec![0.0; self.states], Vec::new())];
            for left in 0..self.horizon {
                let actions = self.action_values(&by_left[left].0);
                let worth = |(values, chances): (&[f64], &[f64])| {
                    values.iter().zip(chances).map(|(value, chance)| value * chance).sum()
                };
                let of_states =
                    actions.chunks_exact(self.actions).zip(policy.chunks_exact(self.actions));
                by_left.push((of_states.map(worth).collect::<Vec<f64>>(), actions));
            }
            Some(by_left)
        };
        let worths: Option<Vec<_>> = data.behaviours().iter().map(of_behaviour).collect();
        let worths = worths?;
        let luck = |episode: usize| {
            let by_left = &worths[data.behaviour(episode)?];
            let (steps, seen) =
                (data.episode_steps(episode), data.episode_observations(episode).start);
            let (first, length) = (steps.start, data.length(episode));
            let terminated = data.end(episode).terminated;
            let of_step = |step: usize| {
                let time = step - first;
                let left = self.horizon - time;
                let [state, next] =
                    [time, time + 1].map(|at| self.state(data.observations().view(), seen + at));
                let action = data.actions().category(step);
                let ends = terminated && time + 1 == length;
                let after = if ends { 0.0 } else { by_left[left - 1].0[next] };
                let expected = by_left[left].1[state * self.actions + action];
                f64::from(data.rewards()[step]) + after - expected
            };
            Some(steps.map(of_step).sum())
        };
        (0..data.episodes()).map(luck).collect()
    }

    /// It as a task, with a data set in which every behaviour has the same share of the episodes.
    pub(super) fn task(self, name: &str, summary: String) -> Task {
        let names: Vec<String> = self.behaviours.iter().map(|(name, _)| name.clone()).collect();
        let world = Arc::new(self);
        let own = world.clone();
        let make = move || -> Result<Box<dyn World>, WorldError> {
            let env = FiniteEnv::new(own.clone());
            Ok(match &own.seen.points {
                Some(points) => Box::new(PointsEnv::new(env, points.clone())),
                None => Box::new(env),
            })
        };
        let mut task = Task::new(name, make)
            .with_summary(summary)
            .with_dataset(
                DatasetSpec::new("mixture", world.steps, &names)
                    .with_summary("all behaviours alike"),
            )
            .with_episodes(2_000);
        for (at, name) in names.into_iter().enumerate() {
            let world = world.clone();
            let value = world.mean_over_starts(&world.values(&world.behaviours[at].1));
            let summary = format!("returns {value:.3} on average");
            task = task.with_behaviour(BehaviourSpec::new(name, summary, move |_| {
                Ok(Box::new(Player { world: world.clone(), policy: at }))
            }));
        }
        task
    }
}

/// Plays as one of a world's behaviours.
struct Player {
    world: Arc<FiniteWorld>,
    policy: usize,
}

impl Behaviour for Player {
    fn act(
        &self,
        observation: CellsRef<'_>,
        rng: &mut Rng,
        action: &mut Cells,
    ) -> Result<(), WorldError> {
        let (state, actions) = (self.world.state(observation, 0), self.world.actions);
        let policy = &self.world.behaviours[self.policy].1;
        action.push_category(draw_weighted(&policy[state * actions..(state + 1) * actions], rng));
        Ok(())
    }
}

/// A finite world as an environment.
#[derive(Clone, Debug)]
pub struct FiniteEnv {
    world: Arc<FiniteWorld>,
    state: usize,
    time: usize,
    rng: Rng,
}

impl FiniteEnv {
    /// Plays a world.
    pub fn new(world: Arc<FiniteWorld>) -> Self {
        FiniteEnv { world, state: 0, time: 0, rng: Seed::new(0).rng() }
    }

    /// The number that is seen.
    pub(super) fn seen(&self) -> u8 {
        self.world.shown(self.state) as u8
    }
}

impl Env for FiniteEnv {
    type Cell = u8;
    type Action = u8;

    fn observation_space(&self) -> Space {
        Space::Discrete { n: self.world.states as u32 }
    }

    fn action_space(&self) -> Space {
        Space::Discrete { n: self.world.actions as u32 }
    }

    fn reset(&mut self, seed: u64, observation: &mut [u8]) {
        self.rng = Seed::new(seed).rng();
        self.state = draw_weighted(&self.world.starts, &mut self.rng);
        self.time = 0;
        observation[0] = self.seen();
    }

    fn step(&mut self, action: u8, observation: &mut [u8]) -> Step {
        let outcomes = self.world.outcomes(self.state, usize::from(action));
        let chances: Vec<f64> = outcomes.iter().map(|outcome| outcome.probability).collect();
        let outcome = outcomes[draw_weighted(&chances, &mut self.rng)];
        let noise: f64 = self.rng.sample(StandardNormal);
        self.state = outcome.next;
        self.time += 1;
        observation[0] = self.seen();
        Step {
            reward: (outcome.reward + self.world.noise * noise) as f32,
            terminated: outcome.ends,
            truncated: !outcome.ends && self.time >= self.world.horizon,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;

    /// One state: action 0 pays 1 and goes on, action 1 pays 3 or nothing with equal chances and ends. Three steps at most.
    fn toy() -> FiniteWorld {
        let outcome = |probability, reward, ends| Outcome { probability, next: 0, reward, ends };
        FiniteWorld {
            kind: "toy".to_owned(),
            states: 1,
            actions: 2,
            horizon: 3,
            starts: vec![1.0],
            outcomes: vec![
                vec![outcome(1.0, 1.0, false)],
                vec![outcome(0.5, 3.0, true), outcome(0.5, 0.0, true)],
            ],
            noise: 0.0,
            behaviours: vec![
                ("patient".to_owned(), vec![1.0, 0.0]),
                ("undecided".to_owned(), vec![0.5, 0.5]),
            ],
            seen: Seen::default(),
            steps: STEPS,
        }
    }

    /// Waiting twice and then gambling is worth 1 + 1 + 1.5; waiting always 3; a coin 0.5 (1 + v) + 0.5 · 1.5 with v the worth of
    /// one step less: 1.25, 1.875, 2.1875.
    #[test]
    fn dynamic_programming_is_right() {
        let truth = toy().truth();
        assert_eq!(truth.optimum, 3.5);
        let values: Vec<f64> = truth.behaviours.iter().map(|behaviour| behaviour.value).collect();
        assert_eq!(values, [3.0, 2.1875]);
        assert_eq!((truth.best_behaviour, truth.best_by_start, truth.range()), (3.0, 3.0, 0.8125));
    }

    /// What is played returns on average what was solved for.
    #[test]
    fn the_environment_plays_the_world() {
        let world = Arc::new(toy());
        let mut env = FiniteEnv::new(world.clone());
        conformance::check(&mut env, 20, 3);
        let player = Player { world, policy: 1 };
        let mut rng = Seed::new(1).rng();
        let episodes = 40_000;
        let mut total = 0.0;
        for seed in 0..episodes {
            let mut seen = [0];
            Env::reset(&mut env, seed, &mut seen);
            loop {
                let mut action = Cells::Byte(Vec::new());
                player.act(CellsRef::Byte(&seen), &mut rng, &mut action).unwrap();
                let step = Env::step(&mut env, action.category(0) as u8, &mut seen);
                total += f64::from(step.reward);
                if step.is_over() {
                    break;
                }
            }
        }
        // Standard deviation about 1.2: four standard errors.
        assert!((total / episodes as f64 - 2.1875).abs() < 0.025, "{}", total / episodes as f64);
    }
}
