//! Collecting data: episodes of a mixture of behaviours, the same whatever the number of threads.
//!
//! Every episode has a random stream of its own, so episodes can be played in any order. They are handed on in order,
//! in parts that stay small, so that a data set larger than memory can be written as it is made.

use std::ops::{ControlFlow, Range};

use esper_data::{Cells, DataError, Dataset, DatasetBuilder, End, Metadata, Seed};
use rayon::prelude::*;

use crate::behaviour::Mixture;
use crate::world::WorldError;
use crate::worlds::Worlds;

/// Episodes one thread plays at a time.
const UNIT: u64 = 64;

/// The most units played between two hand-overs.
const MOST_UNITS: u64 = 256;

/// Steps at which a part is handed on.
const PART_STEPS: usize = 1 << 17;

/// The most steps of an episode between two reports.
const REPORT_STEPS: u64 = 1 << 12;

/// Why a collection ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// Whoever watched it said so.
    #[error("stopped")]
    Stopped,
    /// The world, or a behaviour in it, failed.
    #[error(transparent)]
    World(#[from] WorldError),
    /// A replay was asked for without anybody who learns.
    #[error(
        "this data set is what somebody saw while learning, and nobody learns here; `esper collect` can make it"
    )]
    NobodyLearns,
    /// Learning failed.
    #[error("learning by acting failed: {0}")]
    Learning(Box<dyn std::error::Error + Send + Sync>),
    /// What was played is no data set, or whoever took the parts failed.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Plays whole episodes until there are at least `steps` steps, and hands them on in parts.
///
/// `make` gives a copy of the world; every thread takes one. `sink` takes a part at a time, in order, while the next is being
/// played; its error ends the collection. `watch` is told, from any thread, how many steps have just been played, and may
/// break off.
pub(crate) fn collect(
    make: &(dyn Fn() -> Result<Worlds, WorldError> + Sync),
    mixture: &Mixture,
    metadata: &Metadata,
    seed: Seed,
    steps: u64,
    mut sink: impl FnMut(Dataset) -> Result<(), DataError> + Send,
    watch: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<(), CollectError> {
    let empty =
        || DatasetBuilder::new(metadata.clone()).with_behaviours(mixture.names().iter().cloned());
    let play = |units: Range<u64>| -> Result<Vec<DatasetBuilder>, CollectError> {
        let unit = |unit| {
            let mut episodes = empty();
            let numbers = unit * UNIT..(unit + 1) * UNIT;
            Player { world: make()?, mixture, seed }.play(numbers, &mut episodes, &watch)?;
            Ok(episodes)
        };
        units.into_par_iter().map(unit).collect()
    };

    let mut part = empty();
    let mut collected = 0;
    let mut units = 0..2;
    let mut played = play(units.clone())?;
    loop {
        let in_hand: u64 = played.iter().map(|unit| unit.steps() as u64).sum();
        let missing = steps.saturating_sub(collected + in_hand);
        let unit_steps = in_hand / (units.end - units.start);
        let upcoming = units.end..units.end + missing.div_ceil(unit_steps).min(MOST_UNITS);

        let mut hand_on = || -> Result<(), DataError> {
            for unit in played.drain(..) {
                let (episodes, appended) = enough(&unit, steps.saturating_sub(collected));
                part.append(&unit, episodes)?;
                collected += appended;
                if part.steps() >= PART_STEPS {
                    sink(std::mem::replace(&mut part, empty()).build()?)?;
                }
            }
            if collected >= steps && !part.is_empty() {
                sink(std::mem::replace(&mut part, empty()).build()?)?;
            }
            Ok(())
        };
        // While this is handed on, the other threads play what comes next.
        let (handed_on, then) = rayon::join(&mut hand_on, || play(upcoming.clone()));
        handed_on?;
        played = then?;
        if collected >= steps {
            return Ok(());
        }
        units = upcoming;
    }
}

/// The first episodes that have so many steps, or all of them; and how many steps they have.
fn enough(unit: &DatasetBuilder, steps: u64) -> (usize, u64) {
    let (mut episodes, mut appended) = (0, 0);
    while appended < steps && episodes < unit.episodes() {
        appended += unit.length(episodes) as u64;
        episodes += 1;
    }
    (episodes, appended)
}

/// Plays episodes one after the other.
struct Player<'a> {
    world: Worlds,
    mixture: &'a Mixture,
    seed: Seed,
}

impl Player<'_> {
    /// Plays the episodes with these numbers, unless `watch` breaks off.
    fn play(
        &mut self,
        numbers: Range<u64>,
        episodes: &mut DatasetBuilder,
        watch: &impl Fn(u64) -> ControlFlow<()>,
    ) -> Result<(), CollectError> {
        let Player { world, mixture, seed } = self;
        let mut seen = Cells::empty(world.spaces().observation.cell_type());
        let mut action = Cells::empty(world.spaces().action.cell_type());
        for number in numbers {
            let stream = seed.indexed(number);
            let (behaviour, policy) = mixture.draw(&mut stream.named("behaviour").rng());
            let mut rng = stream.named("actions").rng();
            world.reset(0, stream.named("environment").value())?;
            let mut unreported = 0;
            let last = loop {
                seen.clear();
                seen.extend_from(world.observations(), 0..world.observations().len());
                action.clear();
                policy.act(seen.view(), &mut rng, &mut action)?;
                world.step(action.view())?;
                let step = world.steps()[0];
                episodes.push(&seen, &action, step.reward)?;
                unreported += 1;
                if step.is_over() {
                    break step;
                }
                // A world may take its time to end an episode, or never do.
                if unreported == REPORT_STEPS && watch(std::mem::take(&mut unreported)).is_break() {
                    return Err(CollectError::Stopped);
                }
            };
            episodes.made_by(&mixture.names()[behaviour]);
            let end = End { terminated: last.terminated, truncated: last.truncated };
            episodes.end(world.observations(), end)?;
            if watch(unreported).is_break() {
                return Err(CollectError::Stopped);
            }
        }
        Ok(())
    }
}
