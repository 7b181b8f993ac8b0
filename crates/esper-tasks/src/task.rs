//! The tasks that are built in: a world, who acts in it, and how much data the paper took.

use std::ops::ControlFlow;

use esper_data::{Dataset, Metadata, Seed, Space};

use crate::behaviour::{Behaviour, Mixture, UniformRandom};
use crate::collect::{CollectError, collect};
use crate::connect_four::ConnectFour;
use crate::connect_four::behaviours::{EpsilonOptimal, Exploiter};
use crate::env::Env;
use crate::expert::Expert;
use crate::gambling::Gambling;
use crate::twenty48::{self, Twenty48};

/// A task that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// The gamble of the paper's Figure 1.
    Gambling,
    /// Connect Four against a nearly perfect opponent.
    ConnectFour,
    /// 2048 up to the first 128.
    Twenty48,
}

/// A behaviour that a task offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BehaviourInfo {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Whether it has a part in the task's data when nothing else is asked for.
    pub by_default: bool,
}

/// The environment of a task that is built in, and who can play it.
pub trait BuiltIn: Env<Cell = u8, Action = u8> + Sync + 'static {
    /// The behaviour of that name, among those that only this task has.
    fn own_behaviour(&self, _name: &str, _players: &Players) -> Option<Box<dyn Behaviour<Self>>> {
        None
    }

    /// The behaviour of that name: random play, an expert that was given, or one of the task's own.
    fn behaviour(&self, name: &str, players: &Players) -> Option<Box<dyn Behaviour<Self>>> {
        match &players.expert {
            _ if name == RANDOM.name => Some(Box::new(UniformRandom::over(&self.action_space())?)),
            Some(expert) if name == EXPERT.name => Some(Box::new(expert.clone())),
            _ => self.own_behaviour(name, players),
        }
    }
}

/// What behaviours are made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Players {
    /// The share of random moves of `epsilon-optimal`.
    epsilon: f64,
    /// Who plays as `expert`, if not the one that comes with the task.
    expert: Option<Expert>,
}

impl BuiltIn for Gambling {}

impl BuiltIn for Twenty48 {
    fn own_behaviour(&self, name: &str, _: &Players) -> Option<Box<dyn Behaviour<Self>>> {
        (name == EXPERT.name).then(|| Box::new(twenty48::included_expert()) as _)
    }
}

impl BuiltIn for ConnectFour {
    fn own_behaviour(&self, name: &str, players: &Players) -> Option<Box<dyn Behaviour<Self>>> {
        if name == EPSILON_OPTIMAL.name {
            Some(Box::new(EpsilonOptimal { epsilon: players.epsilon }))
        } else if name == EXPLOITER.name {
            Some(Box::new(Exploiter))
        } else {
            None
        }
    }
}

/// Something to be done with the environment of a task, whatever its type.
pub trait EnvVisitor {
    /// What comes of it.
    type Output;
    /// Does it.
    fn visit<E: BuiltIn>(self, env: E) -> Self::Output;
}

const RANDOM: BehaviourInfo =
    BehaviourInfo { name: "random", summary: "every action equally likely", by_default: true };

const EPSILON_OPTIMAL: BehaviourInfo = BehaviourInfo {
    name: "epsilon-optimal",
    summary: "the solver's best column, now and then any column",
    by_default: true,
};

const EXPLOITER: BehaviourInfo = BehaviourInfo {
    name: "exploiter",
    summary: "always the last column, hoping that the opponent forgets it",
    by_default: true,
};

const EXPERT: BehaviourInfo = BehaviourInfo {
    name: "expert",
    summary: "a network that learned by playing, stopped when it won four of five games",
    by_default: true,
};

impl Task {
    /// All of them.
    pub const ALL: [Task; 3] = [Task::Gambling, Task::ConnectFour, Task::Twenty48];

    /// The task with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|task| task.name() == name)
    }

    /// Its name, as the command line takes it.
    pub fn name(self) -> &'static str {
        match self {
            Task::Gambling => "gambling",
            Task::ConnectFour => "connect-four",
            Task::Twenty48 => "twenty48",
        }
    }

    /// What it is and what it shows, in a sentence or two.
    pub fn summary(self) -> &'static str {
        match self {
            Task::Gambling => {
                "One choice among two gambles and a safe bet. The gambles look best when they go well, the safe bet \
                 is best on average: imitating what won gambles one time in three."
            }
            Task::ConnectFour => {
                "Connect Four against a perfect opponent that in one of five cases forgets to block the last column. \
                 Stacking that column wins by luck; playing well wins every time."
            }
            Task::Twenty48 => {
                "2048 up to the first 128 tile, which pays 1. New tiles appear at random, so a won game says little \
                 about how well it was played."
            }
        }
    }

    /// The steps of the paper's data set.
    pub fn default_steps(self) -> u64 {
        match self {
            Task::Gambling => 100_000,
            Task::ConnectFour => 1_000_000,
            Task::Twenty48 => 5_000_000,
        }
    }

    /// The behaviours it offers.
    pub fn behaviours(self) -> &'static [BehaviourInfo] {
        match self {
            Task::Gambling => &[RANDOM],
            Task::Twenty48 => &[EXPERT, RANDOM],
            Task::ConnectFour => {
                &[EPSILON_OPTIMAL, EXPLOITER, BehaviourInfo { by_default: false, ..RANDOM }]
            }
        }
    }

    /// Does something with its environment.
    pub fn with_env<V: EnvVisitor>(self, visitor: V) -> V::Output {
        match self {
            Task::Gambling => visitor.visit(Gambling::default()),
            Task::ConnectFour => visitor.visit(ConnectFour::default()),
            Task::Twenty48 => visitor.visit(Twenty48::default()),
        }
    }

    /// What its observations and its actions look like.
    pub fn spaces(self) -> (Space, Space) {
        struct Spaces;
        impl EnvVisitor for Spaces {
            type Output = (Space, Space);
            fn visit<E: BuiltIn>(self, env: E) -> (Space, Space) {
                (env.observation_space(), env.action_space())
            }
        }
        self.with_env(Spaces)
    }
}

/// What to collect, before it is checked.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectOptions {
    /// At least this many steps; the last episode is played to its end.
    pub steps: u64,
    /// Decides everything.
    pub seed: u64,
    /// The behaviours to mix, each with the same share of the episodes; empty for the task's own mixture.
    pub behaviours: Vec<String>,
    /// The share of random moves of `epsilon-optimal`, if it is to be another than the paper's.
    pub epsilon: Option<f64>,
    /// Who plays as `expert`, if it is to be another than the one that comes with the task.
    pub expert: Option<Expert>,
}

/// Why what was asked for cannot be collected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// The task does not have the behaviour.
    #[error("{task} has no behaviour `{asked}`; it has {known}")]
    UnknownBehaviour {
        /// The task.
        task: &'static str,
        /// What was asked for.
        asked: String,
        /// What there is.
        known: String,
    },
    /// A behaviour is named twice.
    #[error("behaviour `{0}` is named twice")]
    Twice(&'static str),
    /// There is nobody to take epsilon.
    #[error("epsilon is for the behaviour `epsilon-optimal`, which does not play here")]
    NoEpsilon,
    /// An expert was given, and does not play.
    #[error(
        "an expert is given, but the behaviour `expert` does not play here; name it among the behaviours"
    )]
    NoExpert,
    /// Epsilon is no probability.
    #[error("epsilon has to be from 0 to 1")]
    Epsilon,
    /// Nothing was asked for.
    #[error("at least one step has to be collected")]
    NoSteps,
}

/// The share of random moves of the paper's Connect Four player.
const DEFAULT_EPSILON: f64 = 0.01;

/// Data that can be collected: options that have been checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Collection {
    task: Task,
    steps: u64,
    players: Players,
    seed: Seed,
    metadata: Metadata,
    chosen: Vec<&'static str>,
}

impl Collection {
    /// Checks what was asked for.
    pub fn new(task: Task, options: &CollectOptions) -> Result<Self, OptionsError> {
        if options.steps == 0 {
            return Err(OptionsError::NoSteps);
        }
        let chosen = choose(task, options)?;
        let epsilon = options.epsilon.unwrap_or(DEFAULT_EPSILON);
        if !(0.0..=1.0).contains(&epsilon) {
            return Err(OptionsError::Epsilon);
        }
        if options.epsilon.is_some() && !chosen.contains(&EPSILON_OPTIMAL.name) {
            return Err(OptionsError::NoEpsilon);
        }
        if options.expert.is_some() && !chosen.contains(&EXPERT.name) {
            return Err(OptionsError::NoExpert);
        }
        let players = Players { epsilon, expert: options.expert.clone() };
        let (observation_space, action_space) = task.spaces();
        let metadata = Metadata {
            task: Some(task.name().to_owned()),
            seed: Some(options.seed),
            observation_space,
            action_space,
        };
        let seed = Seed::new(options.seed).named("collect").named(task.name());
        Ok(Collection { task, steps: options.steps, players, seed, metadata, chosen })
    }

    /// What the data will mean.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The steps that were asked for.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The behaviours' names as the data will have them.
    pub fn behaviours(&self) -> Vec<String> {
        self.chosen.iter().map(|name| self.recorded_name(name)).collect()
    }

    /// Plays, and hands the data on in parts; see [`collect`].
    pub fn run<Error, Sink, Watch>(
        &self,
        sink: Sink,
        watch: Watch,
    ) -> Result<(), CollectError<Error>>
    where
        Error: Send,
        Sink: FnMut(Dataset) -> Result<(), Error> + Send,
        Watch: Fn(u64) -> ControlFlow<()> + Sync,
    {
        struct Run<'a, Sink, Watch>(&'a Collection, Sink, Watch);
        impl<Error, Sink, Watch> EnvVisitor for Run<'_, Sink, Watch>
        where
            Error: Send,
            Sink: FnMut(Dataset) -> Result<(), Error> + Send,
            Watch: Fn(u64) -> ControlFlow<()> + Sync,
        {
            type Output = Result<(), CollectError<Error>>;
            fn visit<E: BuiltIn>(self, env: E) -> Self::Output {
                let Run(collection, sink, watch) = self;
                let mixture = collection.mixture(&env);
                let Collection { metadata, seed, steps, .. } = collection;
                collect(&env, &mixture, metadata, *seed, *steps, sink, watch)
            }
        }
        self.task.with_env(Run(self, sink, watch))
    }

    /// The chosen behaviours in equal shares.
    fn mixture<E: BuiltIn>(&self, env: &E) -> Mixture<E> {
        self.chosen.iter().fold(Mixture::new(), |mixture, name| {
            let behaviour = env.behaviour(name, &self.players).expect("a task has what it lists");
            mixture.with(self.recorded_name(name), 1.0, behaviour)
        })
    }

    /// A behaviour's name in the data: with its epsilon, unless that is the paper's.
    fn recorded_name(&self, name: &str) -> String {
        let epsilon = self.players.epsilon;
        if name == EPSILON_OPTIMAL.name && epsilon != DEFAULT_EPSILON {
            format!("{name}({epsilon})")
        } else {
            name.to_owned()
        }
    }
}

/// The behaviours asked for, or the task's own mixture when none are.
fn choose(task: Task, options: &CollectOptions) -> Result<Vec<&'static str>, OptionsError> {
    let mut known = task.behaviours().to_vec();
    if options.behaviours.is_empty() {
        return Ok(known.iter().filter(|b| b.by_default).map(|b| b.name).collect());
    }
    // Every task can be played by an expert that was trained for it.
    if options.expert.is_some() && !known.contains(&EXPERT) {
        known.push(EXPERT);
    }
    let mut chosen = Vec::new();
    for asked in &options.behaviours {
        let name = known.iter().map(|b| b.name).find(|name| name == asked).ok_or_else(|| {
            OptionsError::UnknownBehaviour {
                task: task.name(),
                asked: asked.clone(),
                known: known.iter().map(|b| b.name).collect::<Vec<_>>().join(", "),
            }
        })?;
        if chosen.contains(&name) {
            return Err(OptionsError::Twice(name));
        }
        chosen.push(name);
    }
    Ok(chosen)
}
