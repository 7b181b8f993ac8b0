//! Behaviour policies: who made the data.

use esper_data::{Rng, Space};
use rand::RngExt;

use crate::env::Env;

/// A way of acting, by what is seen or by looking inside the world (a solver's player does). It keeps no state of its own.
pub trait Behaviour<E: Env>: Send + Sync {
    /// Chooses an action.
    fn act(&self, env: &E, observation: &[E::Cell], rng: &mut Rng) -> E::Action;
}

/// Every action with the same probability.
#[derive(Clone, Copy, Debug)]
pub struct UniformRandom {
    actions: u16,
}

impl UniformRandom {
    /// Uniform over a `Discrete` action space of at most 256 actions; `None` for any other.
    pub fn over(space: &Space) -> Option<Self> {
        match *space {
            Space::Discrete { n: n @ 1..=256 } => Some(UniformRandom { actions: n as u16 }),
            _ => None,
        }
    }
}

impl<E: Env<Action = u8>> Behaviour<E> for UniformRandom {
    fn act(&self, _: &E, _: &[E::Cell], rng: &mut Rng) -> u8 {
        rng.random_range(0..self.actions) as u8
    }
}

/// Several behaviours, one drawn for every episode.
pub struct Mixture<E: Env> {
    parts: Vec<Part<E>>,
}

struct Part<E: Env> {
    name: String,
    weight: f64,
    behaviour: Box<dyn Behaviour<E>>,
}

impl<E: Env> Mixture<E> {
    /// A mixture of nothing, to be added to.
    pub fn new() -> Self {
        Mixture { parts: Vec::new() }
    }

    /// Adds a behaviour, drawn in proportion to its weight.
    pub fn with(
        mut self,
        name: impl Into<String>,
        weight: f64,
        behaviour: Box<dyn Behaviour<E>>,
    ) -> Self {
        self.parts.push(Part { name: name.into(), weight, behaviour });
        self
    }

    /// The names of the behaviours.
    pub fn names(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.name.clone()).collect()
    }

    /// Draws the behaviour of an episode: its number among [`Mixture::names`], and itself.
    ///
    /// # Panics
    ///
    /// When the mixture is empty.
    pub fn draw(&self, rng: &mut Rng) -> (usize, &dyn Behaviour<E>) {
        let total: f64 = self.parts.iter().map(|part| part.weight).sum();
        let mut left = rng.random::<f64>() * total;
        let last = self.parts.len() - 1;
        for (index, part) in self.parts.iter().enumerate() {
            left -= part.weight;
            if left < 0.0 || index == last {
                return (index, part.behaviour.as_ref());
            }
        }
        unreachable!("the last part is always taken")
    }
}

impl<E: Env> Default for Mixture<E> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gambling::Gambling;
    use esper_data::Seed;

    struct Always(u8);
    impl Behaviour<Gambling> for Always {
        fn act(&self, _: &Gambling, _: &[u8], _: &mut Rng) -> u8 {
            self.0
        }
    }

    #[test]
    fn parts_are_drawn_in_proportion_to_their_weights() {
        let mixture =
            Mixture::new().with("a", 3.0, Box::new(Always(0))).with("b", 1.0, Box::new(Always(1)));
        let mut rng = Seed::new(0).rng();
        let b = (0..40_000).filter(|_| mixture.draw(&mut rng).0 == 1).count();
        // Standard deviation 87.
        assert!((9_600..10_400).contains(&b), "{b}");
    }
}
