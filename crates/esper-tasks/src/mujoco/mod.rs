//! Hopper, Walker2d and HalfCheetah: continuous control, simulated by MuJoCo, nearly without chance, or with as much as is
//! asked for.
//!
//! MuJoCo is neither built nor linked: its library is opened when a world is made. [`use_library`] says where it is; else
//! `$MUJOCO_PATH` does, or the Python on the path has it (`pip install mujoco`). Without it tasks are described all the
//! same, and making a world is an error that tells how to install it.
//!
//! The definitions are Gymnasium's: `hopper` is its Hopper-v5. With MuJoCo 4.0, positions, rewards and ends equal Gymnasium's to
//! the last digit; `bench/mujoco_parity.py` compares them. An episode's numbers follow from its seed and the version of MuJoCo.
//!
//! ```no_run
//! let hopper = esper_tasks::task("hopper+noise=0.5").expect("it is built in");
//! assert_eq!(hopper.name(), "hopper+noise=0.5");
//! let worlds = hopper.worlds(8)?;
//! # Ok::<(), esper_tasks::WorldError>(())
//! ```

mod error;
mod find;
mod library;
pub mod rules;
mod world;

pub use error::MujocoError;
pub use library::{Version, use_library, version};
pub use world::MujocoWorld;

use crate::expert::Expert;
use crate::specs::{BehaviourSpec, DatasetSpec, OptionSpec, ReferenceReturns};
use crate::task::Task;
use crate::world::WorldError;
use rules::{HALFCHEETAH, HOPPER, HOPPER_V4, Rules, WALKER2D, WALKER2D_V4};

/// The most action noise that can be asked for. Actions are from -1 to 1: beyond a few, all of them are luck.
const MOST_NOISE: f64 = 10.0;

/// A body: what its tasks have in common, whatever the version of their rules.
struct Body {
    /// D4RL's returns of a random player and of its expert, by which it normalises scores.
    references: ReferenceReturns,
    /// The mean return at which a player is an expert, and about a third of it, where a medium one is stopped.
    expert_return: f64,
    medium_return: [f64; 2],
    /// Players that learned by acting: `esper expert hopper`, and `esper expert hopper --until 900..1200`, the medium return.
    expert: &'static [u8],
    medium: &'static [u8],
    /// Episodes of the medium player for each of the expert, so that both have as many steps: it falls sooner.
    medium_episodes: f64,
    /// The paper's normalised scores and their deviations: of ESPER, of return conditioning (both with the transformer) and of
    /// CQL, which has no deviation, by data set.
    scores: [(&'static str, [f64; 2], [f64; 2], f64); 3],
}

const HOPPER_BODY: Body = Body {
    references: ReferenceReturns { random: -20.27, expert: 3234.3 },
    expert_return: 3_000.0,
    medium_return: [900.0, 1_200.0],
    expert: include_bytes!("players/hopper-expert.safetensors"),
    medium: include_bytes!("players/hopper-medium.safetensors"),
    medium_episodes: 2.78,
    scores: [
        ("medium-expert", [89.95, 13.91], [79.64, 34.45], 110.0),
        ("medium", [50.57, 3.43], [59.46, 4.74], 58.0),
        ("medium-replay", [50.20, 16.09], [61.94, 16.99], 48.6),
    ],
};

const WALKER2D_BODY: Body = Body {
    references: ReferenceReturns { random: 1.63, expert: 4592.3 },
    expert_return: 4_000.0,
    medium_return: [1_200.0, 1_600.0],
    expert: include_bytes!("players/walker2d-expert.safetensors"),
    medium: include_bytes!("players/walker2d-medium.safetensors"),
    medium_episodes: 1.67,
    scores: [
        ("medium-expert", [106.87, 1.26], [107.96, 0.63], 98.7),
        ("medium", [69.78, 1.91], [69.7, 7.12], 79.2),
        ("medium-replay", [65.48, 8.05], [63.77, 2.82], 26.7),
    ],
};

const HALFCHEETAH_BODY: Body = Body {
    references: ReferenceReturns { random: -280.18, expert: 12135.0 },
    expert_return: 8_000.0,
    medium_return: [2_400.0, 3_200.0],
    expert: include_bytes!("players/halfcheetah-expert.safetensors"),
    medium: include_bytes!("players/halfcheetah-medium.safetensors"),
    medium_episodes: 1.0,
    scores: [
        ("medium-expert", [66.95, 11.13], [42.89, 0.35], 62.4),
        ("medium", [42.31, 0.08], [42.32, 0.39], 44.4),
        ("medium-replay", [35.85, 1.97], [36.88, 0.36], 46.2),
    ],
};

/// The tasks.
pub fn tasks() -> Vec<Task> {
    let hopper = "A leg that hops: three joints, one foot. It pays for speed and for standing, and ends with a fall.";
    let walker = "Two legs that walk: six joints. They pay for speed and for standing, and it ends with a fall.";
    let older = "Gymnasium's version 4, as in D4RL's data";
    vec![
        task(&HOPPER, &HOPPER_BODY, hopper).with_aliases(["Hopper-v5"]),
        task(
            &HOPPER_V4,
            &HOPPER_BODY,
            &format!("The hopper of {older}: the step that falls pays for standing, too."),
        )
        .with_aliases(["Hopper-v4"]),
        task(&WALKER2D, &WALKER2D_BODY, walker).with_aliases(["Walker2d-v5"]),
        task(
            &WALKER2D_V4,
            &WALKER2D_BODY,
            &format!(
                "The walker of {older}: its right foot slips more easily than the left, and the step that falls pays for \
                 standing, too."
            ),
        )
        .with_aliases(["Walker2d-v4"]),
        task(
            &HALFCHEETAH,
            &HALFCHEETAH_BODY,
            "Half a cheetah that runs: six joints with springs. It pays for speed, and nothing ends it before its time.",
        )
        .with_aliases(["halfcheetah-v4", "HalfCheetah-v4", "HalfCheetah-v5"]),
    ]
}

/// A task, with players and data sets as D4RL defines them.
fn task(rules: &'static Rules, body: &'static Body, summary: &str) -> Task {
    let noise = OptionSpec::new("noise", 0.0, [0.0, MOST_NOISE]).with_summary(
        "sigma of normal noise on actions, whose deviation after t steps is |(1 - e^(-0.01t)) sin(t) sigma|",
    );
    let player = |name: &str, bytes: &'static [u8], summary: String| {
        BehaviourSpec::new(name, summary, move |_| {
            let player = Expert::from_safetensors(bytes, &world::spaces(rules));
            Ok(Box::new(player.map_err(|error| WorldError::failed(error.to_string()))?))
        })
    };
    let [low, high] = body.medium_return;
    let learned = "a network that learned by acting (soft actor-critic), stopped when it returned";
    let million = 1_000_000;
    let both = [("medium", body.medium_episodes), ("expert", 1.0)];
    let mut task = Task::with_options(rules.name, [noise], move |values| {
        Ok(Box::new(MujocoWorld::new(rules, values[0])?))
    })
    .with_spaces(world::spaces(rules))
    .with_summary(summary)
    .with_behaviour(player("expert", body.expert, format!("{learned} {}", body.expert_return)))
    .with_behaviour(player("medium", body.medium, format!("{learned} {low} to {high}")))
    .with_dataset(
        DatasetSpec::weighted("medium-expert", 2 * million, both)
            .with_summary("half of the steps by the medium player, half by the expert"),
    )
    .with_dataset(
        DatasetSpec::new("medium", million, ["medium"]).with_summary("the medium player's"),
    )
    .with_dataset(
        DatasetSpec::replay("medium-replay", million, body.medium_return)
            .with_summary("at most: everything that the medium player saw while it learned"),
    )
    .with_dataset(DatasetSpec::new("expert", million, ["expert"]).with_summary("the expert's"))
    .with_dataset(
        DatasetSpec::new("random", million, ["random"]).with_summary("uniformly random actions"),
    )
    .with_reference_returns(body.references)
    .with_expert_return(body.expert_return)
    // A thousand steps each, nearly without chance.
    .with_episodes(20)
    .with_settings(
        "paper",
        [
            "cluster.rep_size=256",
            "cluster.beta_act=0.03",
            "returns.scale=1000.0",
            "mlp.steps=100000",
            "transformer.steps=100000",
        ],
    )
    // A trajectory is a thousand steps, so few make a batch. Where nearly nothing is left to chance, telling who acts has to be
    // worth more than what is left of the adversary's errors.
    .with_settings(
        "quick",
        [
            "condition=return",
            "cluster.rep_size=64",
            "cluster.rep_groups=4",
            "cluster.hidden=128",
            "leakage.luck_steps=0",
            "cluster.beta_act=0.3",
            "cluster.batch=8",
            "cluster.steps=1500",
            "leakage.steps=400",
            "returns.batch=16",
            "mlp.hidden=256",
            "mlp.steps=20000",
            "transformer.steps=8000",
        ],
    );
    for (dataset, esper, conditioning, cql) in body.scores {
        for (method, [score, std]) in [("esper", esper), ("rvs", conditioning)] {
            task = task.with_published_score(dataset, method, Some("transformer"), score, std);
        }
        task = task.with_published_score(dataset, "cql", None, cql, 0.0);
    }
    task
}
