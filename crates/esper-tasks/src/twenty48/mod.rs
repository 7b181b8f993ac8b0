//! 2048, stopped at the first 128: planning under the randomness of new tiles.

mod env;
pub mod rules;

pub use env::{TIME_LIMIT, Twenty48};

use crate::env::Env;
use crate::expert::Expert;

/// A player that wins about four of five games: `esper expert twenty48` made it.
pub fn included_expert() -> Expert {
    let (env, bytes) = (Twenty48::default(), include_bytes!("expert.safetensors"));
    Expert::from_safetensors(bytes, &env.observation_space(), &env.action_space())
        .expect("the expert that is included is one for this task")
}
