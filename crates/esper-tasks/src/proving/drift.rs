//! A point that drifts, with real-valued observations and actions, and a solution in closed form.
//!
//! > x' = x + 0.3 a + 0.1 η,  r = -x² - 0.1 a²,  η normal
//!
//! Ten steps, from a start drawn uniformly from -1..1. Behaviours push back in proportion to where it is, with some noise:
//! a = -k x + σ ε. Then second moments follow from second moments.

use esper_data::{Cells, CellsRef, Rng, Seed, Space};
use rand::RngExt;
use rand_distr::StandardNormal;

use super::{BehaviourTruth, Truth};
use crate::behaviour::Behaviour;
use crate::env::Env;
use crate::specs::{BehaviourSpec, DatasetSpec};
use crate::task::Task;
use crate::world::{Step, WorldError};

pub(super) const NAME: &str = "drift";

const STEPS: usize = 10;
const PUSH: f64 = 0.3;
const DRIFT: f64 = 0.1;
const PRICE: f64 = 0.1;

/// The most that can be pushed; so far off that nobody comes near.
const BOUND: f32 = 10.0;

/// Noise in what behaviours do.
const SIGMA: f64 = 0.3;

/// Behaviours: by how much they push back.
const GAINS: [(&str, f64); 4] = [("steady", 1.5), ("gentle", 0.5), ("idle", 0.0), ("away", -0.4)];

/// The second moment of a start.
const START: f64 = 1.0 / 3.0;

#[derive(Clone, Debug)]
struct Drift {
    at: f64,
    time: usize,
    rng: Rng,
}

impl Env for Drift {
    type Cell = f32;
    type Action = [f32; 1];

    fn observation_space(&self) -> Space {
        Space::Box { shape: vec![1], bounds: None }
    }

    fn action_space(&self) -> Space {
        Space::Box { shape: vec![1], bounds: Some(vec![[-BOUND, BOUND]]) }
    }

    fn reset(&mut self, seed: u64, observation: &mut [f32]) {
        self.rng = Seed::new(seed).rng();
        self.at = self.rng.random_range(-1.0..1.0);
        self.time = 0;
        observation[0] = self.at as f32;
    }

    fn step(&mut self, [push]: [f32; 1], observation: &mut [f32]) -> Step {
        let push = f64::from(push.clamp(-BOUND, BOUND));
        let reward = -self.at * self.at - PRICE * push * push;
        self.at += PUSH * push + DRIFT * self.rng.sample::<f64, _>(StandardNormal);
        self.time += 1;
        observation[0] = self.at as f32;
        let truncated = self.time >= STEPS;
        Step { reward: reward as f32, terminated: false, truncated }
    }
}

struct Pushing {
    gain: f64,
}

impl Behaviour for Pushing {
    fn act(
        &self,
        observation: CellsRef<'_>,
        rng: &mut Rng,
        action: &mut Cells,
    ) -> Result<(), WorldError> {
        let Cells::Float(action) = action else {
            return Err(WorldError::failed("a push is a real number"));
        };
        let push = -self.gain * f64::from(observation.number(0));
        action.push((push + SIGMA * rng.sample::<f64, _>(StandardNormal)) as f32);
        Ok(())
    }
}

/// The mean return of pushing back with a gain and noise.
fn value(gain: f64, sigma: f64) -> f64 {
    let (mut moment, mut total) = (START, 0.0);
    for _ in 0..STEPS {
        total -= moment + PRICE * (gain * gain * moment + sigma * sigma);
        let kept = 1.0 - PUSH * gain;
        moment = kept * kept * moment + (PUSH * sigma).powi(2) + DRIFT * DRIFT;
    }
    total
}

/// The optimum: a linear quadratic regulator. With n steps left, -(p x² + q) is what a place is worth.
fn optimum() -> f64 {
    let (mut p, mut q) = (0.0, 0.0);
    for _ in 0..STEPS {
        q += p * DRIFT * DRIFT;
        // -x² - PRICE a² - p (x + PUSH a)² is highest for a = -p PUSH x / (PRICE + p PUSH²).
        p = 1.0 + p * PRICE / (PRICE + p * PUSH * PUSH);
    }
    -(p * START + q)
}

pub(super) fn truth() -> Truth {
    let behaviour = |&(name, gain): &(&str, f64)| BehaviourTruth {
        name: name.to_owned(),
        value: value(gain, SIGMA),
        from: Vec::new(),
    };
    Truth::new(NAME.to_owned(), &[], GAINS.iter().map(behaviour).collect(), optimum())
}

pub(super) fn task() -> Task {
    let names = GAINS.map(|(name, _)| name);
    let mut task = Task::new(NAME, || {
        Ok(Box::new(Drift { at: 0.0, time: 0, rng: Seed::new(0).rng() }))
    })
    .with_summary(
        "A point that drifts and can be pushed back: real-valued observations and actions, drawn starts, costs on the way.",
    )
    .with_dataset(
        DatasetSpec::new("mixture", 50_000, names).with_summary("all behaviours alike"),
    )
    .with_episodes(2_000);
    for (name, gain) in GAINS {
        let summary = format!("returns {:.3} on average", value(gain, SIGMA));
        task = task.with_behaviour(BehaviourSpec::new(name, summary, move |_| {
            Ok(Box::new(Pushing { gain }))
        }));
    }
    task
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance;
    use crate::{CollectOptions, Collection};
    use esper_data::Tally;
    use std::ops::ControlFlow;

    /// What is played returns on average what the recursion says.
    #[test]
    fn second_moments_follow_from_second_moments() {
        conformance::check(&mut Drift { at: 0.0, time: 0, rng: Seed::new(0).rng() }, 10, STEPS);
        let options = CollectOptions { steps: Some(400_000), ..CollectOptions::default() };
        let mut tally = Tally::default();
        Collection::new(&task(), &options)
            .unwrap()
            .run(|part| tally.add(&part), |_| ControlFlow::Continue(()))
            .unwrap();
        let truth = truth();
        for (played, truth) in tally.behaviours().iter().zip(&truth.behaviours) {
            assert_eq!(played.name, truth.name);
            let miss = (played.mean_return - truth.value).abs();
            // Returns deviate by about as much as they are: ten thousand episodes are within 1% of their mean.
            assert!(miss < 0.05 * truth.value.abs(), "{}: {miss}", truth.name);
        }
        assert!(truth.best_behaviour < truth.optimum && truth.range() > 1.0, "{truth:?}");
    }

    /// The regulator is at least as good as any fixed gain, and not better than knowing no noise would be.
    #[test]
    fn the_optimum_is_above_every_gain() {
        let best = (0..60).map(|gain| value(f64::from(gain) / 10.0, 0.0)).fold(f64::MIN, f64::max);
        assert!(best <= optimum() && optimum() < best + 0.05, "{best} {}", optimum());
    }
}
