//! The proving ground: worlds with known truth, on which promises can be held against what is.
//!
//! `mdp-17` is the finite world that follows from seed 17: few states, chance in what follows, some of it kind and some of it not,
//! starts that are drawn or fixed, rewards at the end or on the way, and behaviours of several qualities. It is solved exactly by
//! dynamic programming: [`truth`] says what every behaviour is worth from every start, what the best of them would get, and
//! what the optimum is. `points-17` is the same world seen as points of real numbers, which never come again, `hidden-17` and
//! `hidden-points-17` are the same where several states look alike, and `long-17` one of more than a hundred steps. Beside them are a few that a person recognises: `windy-grid`, `queue`, `treatment`, and
//! `drift`, with real-valued observations and actions.
//!
//! ```
//! let truth = esper_tasks::proving::truth("mdp-17").expect("every seed has a world");
//! assert!(truth.best_behaviour <= truth.optimum);
//! let task = esper_tasks::task("mdp-17").expect("and a task");
//! assert_eq!(task.behaviours().len(), truth.behaviours.len() + 1); // and random play
//! ```

mod drift;
mod finite;
mod named;
mod points;
mod random;

pub use finite::{FiniteEnv, FiniteWorld, Outcome, Policy};
pub use random::{Family, random_world};

use crate::task::Task;

/// What is true of a world and its behaviours.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The kind of world, as in `layered-drawn-way`.
    pub kind: String,
    /// Its behaviours, in the order of the task's.
    pub behaviours: Vec<BehaviourTruth>,
    /// The mean return of the best of them.
    pub best_behaviour: f64,
    /// The mean return of whoever takes from every start the behaviour that is best from there.
    pub best_by_start: f64,
    /// The highest mean return that there is.
    pub optimum: f64,
}

/// What is true of a behaviour.
#[derive(Clone, Debug, PartialEq)]
pub struct BehaviourTruth {
    /// Its name.
    pub name: String,
    /// Its mean return.
    pub value: f64,
    /// Its mean return from every start, by state; empty where states are not counted.
    pub from: Vec<f64>,
}

impl Truth {
    /// Sums up what behaviours are worth, given the probabilities of starts.
    fn new(kind: String, starts: &[f64], behaviours: Vec<BehaviourTruth>, optimum: f64) -> Self {
        let best = |values: &mut dyn Iterator<Item = f64>| values.fold(f64::NEG_INFINITY, f64::max);
        let best_behaviour = best(&mut behaviours.iter().map(|behaviour| behaviour.value));
        let from = |start: usize| best(&mut behaviours.iter().map(|b| b.from[start]));
        let by_start = starts.iter().enumerate().filter(|(_, chance)| **chance > 0.0);
        let best_by_start = match behaviours.iter().any(|behaviour| behaviour.from.is_empty()) {
            true => best_behaviour,
            false => by_start.map(|(start, chance)| chance * from(start)).sum(),
        };
        Truth { kind, behaviours, best_behaviour, best_by_start, optimum }
    }

    /// From the lowest to the highest mean return of a behaviour.
    pub fn range(&self) -> f64 {
        let lowest = self.behaviours.iter().map(|b| b.value).fold(f64::INFINITY, f64::min);
        self.best_behaviour - lowest
    }
}

/// What is true of the proving ground's task of a name; `None` for other tasks.
pub fn truth(name: &str) -> Option<Truth> {
    if name == drift::NAME {
        return Some(drift::truth());
    }
    finite(name).map(|world| world.truth())
}

/// What chance gave in every episode of a log from a world: by how much each reward, with the worth of the state that followed,
/// was above what the behaviour's action was worth, summed. `None` for other tasks, and where worths are not known by state.
pub fn luck(name: &str, data: &esper_data::Dataset) -> Option<Vec<f64>> {
    finite(name)?.luck(data)
}

/// The first state of every episode of a log from a world, as a number. `None` for other tasks, and where states are not counted.
pub fn first_states(name: &str, data: &esper_data::Dataset) -> Option<Vec<usize>> {
    Some(finite(name)?.first_states(data))
}

/// The finite world of a name.
fn finite(name: &str) -> Option<FiniteWorld> {
    let named = named::worlds().into_iter().find(|(named, _)| *named == name);
    named.map(|(_, world)| world).or_else(|| random(name))
}

/// The random world of a name like `mdp-17`.
fn random(name: &str) -> Option<FiniteWorld> {
    let (family, digits) = name.rsplit_once('-')?;
    let family = Family::ALL.into_iter().find(|known| known.name() == family)?;
    // One name for one world.
    let seed: u64 = digits.parse().ok()?;
    (seed.to_string() == digits).then(|| random_world(family, seed))
}

/// The names of the worlds that a person recognises.
pub fn names() -> Vec<&'static str> {
    named::worlds().into_iter().map(|(name, _)| name).chain([drift::NAME]).collect()
}

/// The task of a random world, by its name.
pub(crate) fn random_task(name: &str) -> Option<Task> {
    let world = random(name)?;
    let summary = format!("A random finite world of the proving ground ({}).", world.kind());
    Some(world.task(name, summary))
}

/// The tasks that a person recognises.
pub(crate) fn tasks() -> Vec<Task> {
    let mut tasks = named::tasks();
    tasks.push(drift::task());
    tasks
}
