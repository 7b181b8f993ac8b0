//! A player: what comes of learning by acting.

use burn::module::Module;
use esper::actor_critic::Squash;
use esper::agent::{Agent, Episodes};
use esper::condition::{Target, Told};
use esper::features::{Column, encode};
use esper::policy::floats;
use esper::{Error, Interface};
use esper_data::{Cells, CellsRef, Seed, draw_squashed};
use esper_nn::{Device, Mlp, Noise, to_safetensors};

/// A policy by what it sees: `π(a | s)`. A choice among actions is drawn from logits, real numbers from a squashed Gaussian.
#[derive(Clone, Debug)]
pub struct Actor {
    mlp: Mlp,
    interface: Interface,
    /// For real numbers.
    squash: Option<Squash>,
    device: Device,
}

impl Actor {
    pub(crate) fn new(mlp: Mlp, interface: Interface, device: Device) -> Self {
        let squash = Squash::of(interface.action.encoding().space());
        Actor { mlp, interface, squash, device }
    }

    /// The weights.
    pub fn to_safetensors(&self) -> Vec<u8> {
        to_safetensors(&self.mlp)
    }

    /// The policy as something that acts; it has no targets.
    pub fn agent(&self) -> ActorAgent {
        let actor = Actor { mlp: self.mlp.valid(), ..self.clone() };
        ActorAgent { actor, episodes: Episodes::default() }
    }
}

/// Acts as an [`Actor`] says.
pub struct ActorAgent {
    actor: Actor,
    episodes: Episodes,
}

impl Agent for ActorAgent {
    fn begin(&mut self, place: usize, _: Target, seed: Seed) {
        self.episodes.begin(place, Told::Level(0.0), seed);
    }

    fn act(
        &mut self,
        observations: CellsRef<'_>,
        places: &[usize],
        actions: &mut Cells,
    ) -> Result<(), Error> {
        let Actor { mlp, interface, squash, device } = &self.actor;
        interface.check_places(observations, places, actions)?;
        let encoding = &interface.observation;
        let states = encode(&[Column { encoding, cells: observations, rows: places }], device);
        let outputs = floats(mlp.forward(states, &mut Noise::new(0)));
        match (squash, actions) {
            (Some(squash), Cells::Float(actions)) => {
                self.episodes.draw_with(&outputs, places, |outputs, rng| {
                    draw_squashed(outputs, &squash.0, rng, actions);
                })
            }
            (_, actions) => self.episodes.draw(&interface.action, &outputs, places, actions),
        }
    }

    fn reward(&mut self, _: usize, _: f32) -> Result<(), Error> {
        Ok(())
    }

    fn end(&mut self, place: usize) {
        self.episodes.end(place);
    }
}
