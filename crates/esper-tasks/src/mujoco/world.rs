//! The rules as worlds: simulation, and chance at the start and in what actions do.

use std::sync::{Arc, Mutex, PoisonError};

use esper_data::{Cell, CellsMut, CellsRef, Rng, Seed, Space};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::error::MujocoError;
use super::library::{Model, Simulation};
use super::rules::{Rules, TIME_LIMIT, noise_deviation};
use crate::world::{Spaces, Step, World, WorldError};

/// A body in the plane that learns to move on, simulated by MuJoCo.
///
/// It sees the positions and velocities of its joints, all but how far it has come, and acts by one torque a joint, from
/// -1 to 1. What is beyond has the effect of the bound and the cost of itself, as in Gymnasium.
///
/// With action noise σ, the world is the same but for the action: after t steps of an episode, normal noise with standard
/// deviation |(1 − e^(−0.01 t)) · sin t · σ| is added to each of its numbers before anything else is done with it.
pub struct MujocoWorld {
    rules: &'static Rules,
    simulation: Simulation,
    /// Steps of the episode so far.
    time: u32,
    /// Sigma of the action noise.
    sigma: f64,
    noise: Rng,
    /// The action as it is carried out, noise added.
    action: Vec<f32>,
    controls: Vec<f64>,
}

impl MujocoWorld {
    /// A copy of a world with these rules, with action noise σ, which has to be a number from 0 up. MuJoCo's library is looked
    /// for and opened if it is not yet.
    pub fn new(rules: &'static Rules, sigma: f64) -> Result<Self, WorldError> {
        if !(sigma.is_finite() && sigma >= 0.0) {
            return Err(WorldError::failed(format!(
                "action noise is a number from 0 up, not {sigma}"
            )));
        }
        let simulation = Simulation::new(model(rules)?)?;
        let controls = rules.sizes.controls;
        Ok(MujocoWorld {
            rules,
            simulation,
            time: 0,
            sigma,
            noise: noise_stream(0),
            action: vec![0.0; controls],
            controls: vec![0.0; controls],
        })
    }

    /// Starts an episode at these positions and velocities of the joints (`qpos` and `qvel`), without any chance but that
    /// of noise, which is of seed 0.
    pub fn start_at(&mut self, positions: &[f64], velocities: &[f64]) -> Result<(), WorldError> {
        let sizes = self.rules.sizes;
        let fits = (positions.len(), velocities.len()) == (sizes.positions, sizes.velocities);
        if !fits || !positions.iter().chain(velocities).all(|number| number.is_finite()) {
            return Err(WorldError::failed(format!(
                "a start of {} is {} positions and {} velocities, all finite",
                self.rules.name, sizes.positions, sizes.velocities
            )));
        }
        self.simulation.reset();
        self.simulation.set_motion(|own_positions, own_velocities| {
            own_positions.copy_from_slice(positions);
            own_velocities.copy_from_slice(velocities);
        });
        self.time = 0;
        self.noise = noise_stream(0);
        Ok(())
    }

    /// The positions and the velocities of the joints, `qpos` and `qvel`.
    pub fn motion(&self) -> (&[f64], &[f64]) {
        self.simulation.motion()
    }

    /// Writes the observation.
    fn observe(&self, observation: CellsMut<'_>) -> Result<(), WorldError> {
        let found = observation.cell_type();
        let memory = f32::slice_mut(observation).ok_or_else(|| {
            WorldError::Broken(format!("it writes observations as floats, not as {found:?}"))
        })?;
        let (positions, velocities) = self.simulation.motion();
        self.rules.observe(positions, velocities, memory);
        Ok(())
    }

    /// Takes over an action, noise added.
    fn take(&mut self, action: CellsRef<'_>) -> Result<(), WorldError> {
        let refused = |problem| WorldError::Action { space: action_space(self.rules), problem };
        let numbers = match f32::slice(action) {
            Some(numbers) if numbers.len() == self.action.len() => numbers,
            _ => {
                let problem = format!("{} cells of type {:?}", action.len(), action.cell_type());
                return Err(refused(problem));
            }
        };
        if let Some(cell) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(refused(format!("cell {cell}: {} is not a finite number", numbers[cell])));
        }
        self.action.copy_from_slice(numbers);
        if self.sigma > 0.0 {
            let deviation = noise_deviation(self.time, self.sigma);
            for number in &mut self.action {
                *number += (deviation * self.noise.sample::<f64, _>(StandardNormal)) as f32;
            }
        }
        for (control, &number) in self.controls.iter_mut().zip(&self.action) {
            // MuJoCo would do the same, up to numbers that it takes for a mistake.
            *control = f64::from(number.clamp(-1.0, 1.0));
        }
        Ok(())
    }
}

impl World for MujocoWorld {
    fn spaces(&self) -> Spaces {
        spaces(self.rules)
    }

    fn reset(&mut self, seed: u64, observation: CellsMut<'_>) -> Result<(), WorldError> {
        let mut rng = Seed::new(seed).named("start").rng();
        let Rules { start_noise: scale, normal_velocities, .. } = *self.rules;
        self.simulation.reset();
        self.simulation.set_motion(|positions, velocities| {
            positions.iter_mut().for_each(|number| *number += rng.random_range(-scale..=scale));
            for number in velocities {
                *number += match normal_velocities {
                    true => scale * rng.sample::<f64, _>(StandardNormal),
                    false => rng.random_range(-scale..=scale),
                };
            }
        });
        self.time = 0;
        self.noise = noise_stream(seed);
        self.observe(observation)
    }

    fn step(
        &mut self,
        action: CellsRef<'_>,
        observation: CellsMut<'_>,
    ) -> Result<Step, WorldError> {
        self.take(action)?;
        let before = self.simulation.motion().0[0];
        self.simulation.step(&self.controls, self.rules.frame_skip)?;
        self.time += 1;
        let (positions, velocities) = self.simulation.motion();
        let healthy = self.rules.is_healthy(positions, velocities);
        let reward = self.rules.reward(before, positions[0], &self.action, healthy);
        self.observe(observation)?;
        Ok(Step { reward: reward as f32, terminated: !healthy, truncated: self.time >= TIME_LIMIT })
    }
}

/// What worlds with these rules see, and how they are acted in. No library is needed to know it.
pub(super) fn spaces(rules: &Rules) -> Spaces {
    Spaces {
        observation: Space::Box { shape: vec![rules.seen()], bounds: None },
        action: action_space(rules),
    }
}

fn action_space(rules: &Rules) -> Space {
    let controls = rules.sizes.controls;
    Space::Box { shape: vec![controls], bounds: Some(vec![[-1.0, 1.0]; controls]) }
}

/// The noise of an episode: a stream of its own, so that σ does not change where it starts.
fn noise_stream(seed: u64) -> Rng {
    Seed::new(seed).named("noise").rng()
}

/// The compiled model of some rules: made once, shared by all copies of the world.
fn model(rules: &'static Rules) -> Result<Arc<Model>, MujocoError> {
    static MODELS: Mutex<Vec<(&str, Arc<Model>)>> = Mutex::new(Vec::new());
    let mut models = MODELS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, model)) = models.iter().find(|(name, _)| *name == rules.name) {
        return Ok(model.clone());
    }
    let model = Arc::new(Model::compile(rules.name, &rules.xml(), rules.sizes)?);
    models.push((rules.name, model.clone()));
    Ok(model)
}
