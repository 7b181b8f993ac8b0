//! Behaviour policies: who made the data.

use esper_data::{Cells, CellsRef, Rng, Space, draw_weighted};
use rand::RngExt;

use crate::world::WorldError;

/// A behaviour policy: a way of acting by what is seen. It keeps no state of its own.
pub trait Behaviour: Send + Sync {
    /// Chooses an action for one observation and appends its cells.
    fn act(
        &self,
        observation: CellsRef<'_>,
        rng: &mut Rng,
        action: &mut Cells,
    ) -> Result<(), WorldError>;
}

/// Every action with the same probability.
#[derive(Clone, Debug)]
pub struct UniformRandom {
    space: Space,
}

impl UniformRandom {
    /// Uniform over an action space. Real numbers need bounds to be uniform in, and not as far apart as floats go.
    pub fn over(space: &Space) -> Result<Self, WorldError> {
        let bounded = |[low, high]: &[f32; 2]| (high - low).is_finite();
        match space {
            Space::Box { bounds, .. }
                if !bounds.as_ref().is_some_and(|all| all.iter().all(bounded)) =>
            {
                Err(WorldError::failed(format!("nobody can act at random in {space}: no bounds")))
            }
            _ => Ok(UniformRandom { space: space.clone() }),
        }
    }
}

impl Behaviour for UniformRandom {
    fn act(&self, _: CellsRef<'_>, rng: &mut Rng, action: &mut Cells) -> Result<(), WorldError> {
        // Categories fit two bytes.
        let mut category = |n: u32| usize::from(rng.random_range(0..=(n - 1) as u16));
        match (&self.space, action) {
            (Space::Discrete { n }, action) => action.push_category(category(*n)),
            (Space::MultiDiscrete { nvec }, action) => {
                nvec.iter().for_each(|&n| action.push_category(category(n)));
            }
            (space @ Space::MultiBinary { .. }, action) => {
                (0..space.cells()).for_each(|_| action.push_category(category(2)));
            }
            (Space::Box { bounds: Some(bounds), .. }, Cells::Float(action)) => {
                action.extend(bounds.iter().map(|&[low, high]| rng.random_range(low..=high)));
            }
            (space, _) => {
                return Err(WorldError::Action {
                    space: space.clone(),
                    problem: "there is memory for another type of cells".to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// Several behaviours, one drawn for every episode.
#[derive(Default)]
pub struct Mixture {
    names: Vec<String>,
    weights: Vec<f64>,
    behaviours: Vec<Box<dyn Behaviour>>,
}

impl Mixture {
    /// A mixture of nothing, to be added to.
    pub fn new() -> Self {
        Mixture::default()
    }

    /// Adds a behaviour, drawn in proportion to its weight.
    pub fn with(
        mut self,
        name: impl Into<String>,
        weight: f64,
        behaviour: Box<dyn Behaviour>,
    ) -> Self {
        self.names.push(name.into());
        self.weights.push(weight);
        self.behaviours.push(behaviour);
        self
    }

    /// The names of the behaviours.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Draws the behaviour of an episode: its number among [`Mixture::names`], and itself.
    ///
    /// # Panics
    ///
    /// When the mixture is empty.
    pub fn draw(&self, rng: &mut Rng) -> (usize, &dyn Behaviour) {
        let index = draw_weighted(&self.weights, rng);
        (index, self.behaviours[index].as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::Seed;

    #[test]
    fn parts_are_drawn_in_proportion_to_their_weights() {
        let random = || Box::new(UniformRandom::over(&Space::Discrete { n: 2 }).unwrap());
        let mixture = Mixture::new().with("a", 3.0, random()).with("b", 1.0, random());
        let mut rng = Seed::new(0).rng();
        let b = (0..40_000).filter(|_| mixture.draw(&mut rng).0 == 1).count();
        // Standard deviation 87.
        assert!((9_600..10_400).contains(&b), "{b}");
    }

    #[test]
    fn random_actions_are_values_of_their_space() {
        let spaces = [
            Space::Discrete { n: 7 },
            Space::Discrete { n: 65_536 },
            Space::MultiDiscrete { nvec: vec![2, 5] },
            Space::MultiBinary { shape: vec![2, 2] },
            Space::Box { shape: vec![2], bounds: Some(vec![[-1.0, 1.0], [0.0, 9.0]]) },
        ];
        let mut rng = Seed::new(1).rng();
        for space in spaces {
            let random = UniformRandom::over(&space).unwrap();
            let mut actions = Cells::empty(space.cell_type());
            for _ in 0..200 {
                random.act(CellsRef::Byte(&[0]), &mut rng, &mut actions).unwrap();
            }
            assert_eq!(actions.len(), 200 * space.cells());
            space.check(actions.view()).unwrap();
        }
        let real = |bounds| Space::Box { shape: vec![1], bounds };
        assert!(UniformRandom::over(&real(None)).is_err());
        assert!(UniformRandom::over(&real(Some(vec![[f32::MIN, f32::MAX]]))).is_err());
    }
}
