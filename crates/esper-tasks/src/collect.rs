//! Collecting data: episodes of a mixture of behaviours, the same whatever the number of threads.
//!
//! Every episode has a random stream of its own, so episodes can be played in any order. They are handed on in order,
//! in parts that stay small, so that a data set larger than memory can be written as it is made.

use std::ops::{ControlFlow, Range};

use esper_data::{Cell, Columns, Dataset, End, Metadata, Provenance, Seed};
use rayon::prelude::*;

use crate::behaviour::Mixture;
use crate::env::{Action, Env};

/// Episodes one thread plays at a time.
const UNIT: u64 = 64;

/// The most units played between two hand-overs.
const MOST_UNITS: u64 = 256;

/// Steps at which a part is handed on.
const PART_STEPS: usize = 1 << 17;

/// Why a collection ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CollectError<E> {
    /// Whoever watched it said so.
    Stopped,
    /// Whoever took the parts failed.
    Sink(E),
}

/// Plays whole episodes until there are at least `steps` steps, and hands them on in parts.
///
/// `sink` takes a part at a time, in order, while the next is being played; its error ends the collection. `watch` is
/// told, from any thread, how many steps have just been played, and may break off.
pub fn collect<E, Error>(
    env: &E,
    mixture: &Mixture<E>,
    metadata: &Metadata,
    seed: Seed,
    steps: u64,
    mut sink: impl FnMut(Dataset) -> Result<(), Error> + Send,
    watch: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<(), CollectError<Error>>
where
    E: Env + Sync,
    Error: Send,
{
    let play = |units: Range<u64>| -> Option<Vec<Episodes<E>>> {
        let unit =
            |unit| Episodes::play(env, mixture, seed, unit * UNIT..(unit + 1) * UNIT, &watch);
        units.into_par_iter().map(unit).collect()
    };

    let names = mixture.names();
    let mut part = Episodes::<E>::default();
    let mut collected = 0;
    let mut units = 0..2;
    let mut played = play(units.clone()).ok_or(CollectError::Stopped)?;
    loop {
        let in_hand: u64 = played.iter().map(|unit| unit.rewards.len() as u64).sum();
        let missing = steps.saturating_sub(collected + in_hand);
        let unit_steps = in_hand / (units.end - units.start);
        let upcoming = units.end..units.end + missing.div_ceil(unit_steps).min(MOST_UNITS);

        let mut hand_on = || -> Result<(), Error> {
            for unit in played.drain(..) {
                collected += part.append_until(&unit, steps.saturating_sub(collected));
                if part.rewards.len() >= PART_STEPS {
                    sink(std::mem::take(&mut part).into_dataset(metadata, &names))?;
                }
            }
            if collected >= steps && !part.rewards.is_empty() {
                sink(std::mem::take(&mut part).into_dataset(metadata, &names))?;
            }
            Ok(())
        };
        // While this is handed on, the other threads play what comes next.
        let (handed_on, then) = rayon::join(&mut hand_on, || play(upcoming.clone()));
        handed_on.map_err(CollectError::Sink)?;
        played = then.ok_or(CollectError::Stopped)?;
        if collected >= steps {
            return Ok(());
        }
        units = upcoming;
    }
}

/// Episodes as columns that are being filled.
struct Episodes<E: Env> {
    lengths: Vec<usize>,
    ends: Vec<End>,
    behaviours: Vec<u16>,
    observations: Vec<E::Cell>,
    actions: Vec<<E::Action as Action>::Cell>,
    rewards: Vec<f32>,
}

impl<E: Env> Default for Episodes<E> {
    fn default() -> Self {
        Episodes {
            lengths: Vec::new(),
            ends: Vec::new(),
            behaviours: Vec::new(),
            observations: Vec::new(),
            actions: Vec::new(),
            rewards: Vec::new(),
        }
    }
}

impl<E: Env> Episodes<E> {
    /// Plays the episodes with these numbers, unless `watch` breaks off.
    fn play(
        env: &E,
        mixture: &Mixture<E>,
        seed: Seed,
        numbers: Range<u64>,
        watch: &impl Fn(u64) -> ControlFlow<()>,
    ) -> Option<Self> {
        let mut env = env.clone();
        let mut observation = vec![E::Cell::default(); env.observation_space().cells()];
        let mut episodes = Self::default();
        for number in numbers {
            let stream = seed.indexed(number);
            let (behaviour, policy) = mixture.draw(&mut stream.named("behaviour").rng());
            let mut rng = stream.named("actions").rng();
            env.reset(stream.named("environment").value(), &mut observation);
            episodes.observations.extend_from_slice(&observation);
            let start = episodes.rewards.len();
            let last = loop {
                let action = policy.act(&env, &observation, &mut rng);
                let step = env.step(action, &mut observation);
                episodes.observations.extend_from_slice(&observation);
                episodes.actions.extend_from_slice(action.cells());
                episodes.rewards.push(step.reward);
                if step.is_over() {
                    break step;
                }
            };
            let length = episodes.rewards.len() - start;
            episodes.lengths.push(length);
            episodes.ends.push(End { terminated: last.terminated, truncated: last.truncated });
            episodes.behaviours.push(behaviour as u16);
            if watch(length as u64).is_break() {
                return None;
            }
        }
        Some(episodes)
    }

    /// Appends episodes of another until there are `steps` more steps, or all of it. Returns the steps appended.
    fn append_until(&mut self, other: &Self, steps: u64) -> u64 {
        let mut appended = 0;
        let mut episodes = 0;
        while (appended as u64) < steps && episodes < other.lengths.len() {
            appended += other.lengths[episodes];
            episodes += 1;
        }
        let rows = other.rewards.len() + other.lengths.len();
        let observation_cells = other.observations.len() / rows;
        let action_cells = other.actions.len() / other.rewards.len();
        self.lengths.extend_from_slice(&other.lengths[..episodes]);
        self.ends.extend_from_slice(&other.ends[..episodes]);
        self.behaviours.extend_from_slice(&other.behaviours[..episodes]);
        let observations = (appended + episodes) * observation_cells;
        self.observations.extend_from_slice(&other.observations[..observations]);
        self.actions.extend_from_slice(&other.actions[..appended * action_cells]);
        self.rewards.extend_from_slice(&other.rewards[..appended]);
        appended as u64
    }

    fn into_dataset(self, metadata: &Metadata, names: &[String]) -> Dataset {
        let columns = Columns {
            lengths: self.lengths,
            ends: self.ends,
            observations: E::Cell::column(self.observations),
            actions: Cell::column(self.actions),
            rewards: self.rewards,
            provenance: Provenance { names: names.to_vec(), of_episode: self.behaviours },
        };
        Dataset::new(metadata.clone(), columns)
            .expect("an environment that conforms makes valid episodes")
    }
}
