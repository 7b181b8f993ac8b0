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

use crate::task::{DatasetSpec, OptionSpec, ReferenceReturns, Task};
use rules::{HALFCHEETAH, HOPPER, HOPPER_V4, Rules, WALKER2D, WALKER2D_V4};

/// The most action noise that can be asked for. Actions are from -1 to 1: beyond a few, all of them are luck.
const MOST_NOISE: f64 = 10.0;

/// D4RL's returns of a random player and of its expert, by which it normalises scores.
const HOPPER_RETURNS: ReferenceReturns = ReferenceReturns { random: -20.27, expert: 3234.3 };
const WALKER2D_RETURNS: ReferenceReturns = ReferenceReturns { random: 1.63, expert: 4592.3 };
const HALFCHEETAH_RETURNS: ReferenceReturns = ReferenceReturns { random: -280.18, expert: 12135.0 };

/// The tasks.
pub fn tasks() -> Vec<Task> {
    let hopper = "A leg that hops: three joints, one foot. It pays for speed and for standing, and ends with a fall.";
    let walker = "Two legs that walk: six joints. They pay for speed and for standing, and it ends with a fall.";
    let older = "Gymnasium's version 4, as in D4RL's data";
    vec![
        task(&HOPPER, hopper)
            .with_aliases(["Hopper-v5"])
            .with_reference_returns(HOPPER_RETURNS)
            .with_expert_return(3_000.0),
        task(&HOPPER_V4, &format!("The hopper of {older}: the step that falls pays for standing, too."))
            .with_aliases(["Hopper-v4"])
            .with_reference_returns(HOPPER_RETURNS)
            .with_expert_return(3_000.0),
        task(&WALKER2D, walker)
            .with_aliases(["Walker2d-v5"])
            .with_reference_returns(WALKER2D_RETURNS)
            .with_expert_return(4_000.0),
        task(
            &WALKER2D_V4,
            &format!(
                "The walker of {older}: its right foot slips more easily than the left, and the step that falls pays for \
                 standing, too."
            ),
        )
        .with_aliases(["Walker2d-v4"])
        .with_reference_returns(WALKER2D_RETURNS)
        .with_expert_return(4_000.0),
        task(
            &HALFCHEETAH,
            "Half a cheetah that runs: six joints with springs. It pays for speed, and nothing ends it before its time.",
        )
        .with_aliases(["halfcheetah-v4", "HalfCheetah-v4", "HalfCheetah-v5"])
        .with_reference_returns(HALFCHEETAH_RETURNS)
        .with_expert_return(8_000.0),
    ]
}

/// What all of them have in common.
fn task(rules: &'static Rules, summary: &str) -> Task {
    let noise = OptionSpec::new("noise", 0.0, [0.0, MOST_NOISE]).with_summary(
        "sigma of normal noise on actions, whose deviation after t steps is |(1 - e^(-0.01t)) sin(t) sigma|",
    );
    Task::with_options(rules.name, [noise], move |values| {
        Ok(Box::new(MujocoWorld::new(rules, values[0])?))
    })
    .with_spaces(world::spaces(rules))
    .with_summary(summary)
    .with_dataset(
        DatasetSpec::new("random", 1_000_000, ["random"]).with_summary("uniformly random actions"),
    )
    // A thousand steps each, nearly without chance.
    .with_episodes(100)
}
