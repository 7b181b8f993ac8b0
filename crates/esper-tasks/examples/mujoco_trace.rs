//! Plays a MuJoCo world as it is told: `mujoco_trace TASK`. It is what `bench/mujoco_parity.py` holds beside Gymnasium.
//!
//! Of every line of the input, the first word says what to do: `start` an episode, at positions and velocities that follow, or
//! `step`, with the action that follows. The answer is a line: positions and velocities, observation, reward, whether the
//! world came to an end, whether the episode was cut.

use std::error::Error;
use std::fmt::Display;
use std::io::{self, BufRead, Write};

use esper_data::{Cells, CellsRef};
use esper_tasks::mujoco::MujocoWorld;
use esper_tasks::mujoco::rules::{HALFCHEETAH, HOPPER, HOPPER_V4, WALKER2D, WALKER2D_V4};
use esper_tasks::{Step, World};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("which task?")?;
    let rules = match name.as_str() {
        "hopper" => &HOPPER,
        "hopper-v4" => &HOPPER_V4,
        "walker2d" => &WALKER2D,
        "walker2d-v4" => &WALKER2D_V4,
        "halfcheetah" => &HALFCHEETAH,
        _ => return Err(format!("there is no such task: {name}").into()),
    };
    let mut world = MujocoWorld::new(rules, 0.0)?;
    let space = world.spaces().observation;
    let mut observation = Cells::filled(space.cell_type(), space.cells());
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let order = words.next();
        let numbers: Vec<f64> = words.map(str::parse).collect::<Result<_, _>>()?;
        let step = match order {
            Some("start") => {
                world.start_at(&numbers[..numbers.len() / 2], &numbers[numbers.len() / 2..])?;
                Step::default()
            }
            Some("step") => {
                let action: Vec<f32> = numbers.iter().map(|&number| number as f32).collect();
                world.step(CellsRef::Float(&action), observation.view_mut(0..space.cells()))?
            }
            _ => return Err(format!("neither start nor step: {line}").into()),
        };
        let (positions, velocities) = world.motion();
        let seen = match &observation {
            Cells::Float(seen) => words_of(seen),
            _ => unreachable!("observations are real numbers"),
        };
        let ends = [step.terminated, step.truncated].map(u8::from);
        writeln!(
            output,
            "{}; {}; {seen}; {}; {} {}",
            words_of(positions),
            words_of(velocities),
            step.reward,
            ends[0],
            ends[1]
        )?;
    }
    Ok(())
}

/// Numbers with spaces between them, to the last digit.
fn words_of(numbers: &[impl Display]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}
