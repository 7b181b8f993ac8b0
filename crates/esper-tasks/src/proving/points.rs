//! Finite worlds seen as points of real numbers: the same states, but what is seen never comes again.

use std::sync::Arc;

use esper_data::{CellsRef, Rng, Seed, Space};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::finite::FiniteEnv;
use crate::env::Env;
use crate::world::Step;

/// Numbers of a point.
const NUMBERS: usize = 4;

/// Points of different numbers are at least so far apart,
const APART: f32 = 0.5;

/// and seen with normal noise of this deviation in every number: once in three million times nearer to another's.
const BLUR: f32 = 0.05;

/// Where every number is seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Points(Arc<Vec<[f32; NUMBERS]>>);

impl Points {
    /// Draws a point for each of some numbers, from -1 to 1 in every number.
    pub(super) fn draw(states: usize, rng: &mut Rng) -> Self {
        let mut points: Vec<[f32; NUMBERS]> = Vec::with_capacity(states);
        while points.len() < states {
            let point = [(); NUMBERS].map(|()| rng.random_range(-1.0..1.0));
            if points.iter().all(|other| square(other, &point) >= APART * APART) {
                points.push(point);
            }
        }
        Points(Arc::new(points))
    }

    /// The number whose point is nearest to an observation.
    pub(super) fn nearest(&self, seen: CellsRef<'_>, row: usize) -> usize {
        let mut at = [0.0; NUMBERS];
        at.iter_mut().enumerate().for_each(|(of, it)| *it = seen.number(row * NUMBERS + of));
        let far = |state: &usize| square(&self.0[*state], &at);
        (0..self.0.len()).min_by(|a, b| far(a).total_cmp(&far(b))).unwrap_or(0)
    }
}

fn square(a: &[f32; NUMBERS], b: &[f32; NUMBERS]) -> f32 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

/// A finite world whose states are seen as points.
#[derive(Clone, Debug)]
pub(super) struct PointsEnv {
    world: FiniteEnv,
    points: Points,
    rng: Rng,
}

impl PointsEnv {
    /// Shows a world so.
    pub(super) fn new(world: FiniteEnv, points: Points) -> Self {
        PointsEnv { world, points, rng: Seed::new(0).rng() }
    }

    fn show(&mut self, observation: &mut [f32]) {
        for (cell, number) in
            observation.iter_mut().zip(self.points.0[usize::from(self.world.seen())])
        {
            *cell = number + BLUR * self.rng.sample::<f32, _>(StandardNormal);
        }
    }
}

impl Env for PointsEnv {
    type Cell = f32;
    type Action = u8;

    fn observation_space(&self) -> Space {
        Space::Box { shape: vec![NUMBERS], bounds: None }
    }

    fn action_space(&self) -> Space {
        self.world.action_space()
    }

    fn reset(&mut self, seed: u64, observation: &mut [f32]) {
        self.rng = Seed::new(seed).named("seen").rng();
        self.world.reset(seed, &mut [0]);
        self.show(observation);
    }

    fn step(&mut self, action: u8, observation: &mut [f32]) -> Step {
        let step = self.world.step(action, &mut [0]);
        self.show(observation);
        step
    }
}
