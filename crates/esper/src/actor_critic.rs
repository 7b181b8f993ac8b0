//! Parts of actor-critic methods with real-valued actions (soft actor-critic, conservative Q-learning): an actor that is a
//! squashed Gaussian, two critics, and numbers that are learned through their logarithm.
//!
//! Actions are in -1..1 here; [`Squash`] is what they stand for in a world.

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData, activation};
use esper_data::{LOG_DEVIATIONS, Rng, Space};
use esper_nn::{AdamWConfig, Device, Mlp, MlpConfig, Noise, RowsIn, both, gather_rows, mix};
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::training::{Checkpointed, Trained};

/// Squashed Gaussian: tanh of normal numbers. Their means and the logarithms of their deviations are what a network puts
/// out, `[rows, cells]` each.
pub struct SquashedGaussian {
    mean: Tensor<2>,
    log_deviation: Tensor<2>,
}

/// Actions that were drawn, and the logarithm of their density.
pub struct Drawn {
    /// `[rows, cells]`, in -1..1.
    pub actions: Tensor<2>,
    /// `[rows, 1]`
    pub log_probability: Tensor<2>,
}

impl SquashedGaussian {
    /// What an actor says of some states.
    pub fn of(actor: &Mlp, states: &RowsIn) -> Self {
        let output = actor.forward(states.clone(), &mut Noise::new(0));
        let cells = output.dims()[1] / 2;
        let [low, high] = LOG_DEVIATIONS;
        SquashedGaussian {
            mean: output.clone().narrow(1, 0, cells),
            log_deviation: output.narrow(1, cells, cells).clamp(low, high),
        }
    }

    /// The action in the middle: `[rows, cells]`.
    pub fn middle(&self) -> Tensor<2> {
        activation::tanh(self.mean.clone())
    }

    /// The same for every row `times` times, one after the other.
    pub fn repeated(&self, times: usize) -> Self {
        let rows = self.mean.dims()[0] as u32;
        let of: Vec<u32> = (0..rows).flat_map(|row| std::iter::repeat_n(row, times)).collect();
        SquashedGaussian {
            mean: gather_rows(self.mean.clone(), &of),
            log_deviation: gather_rows(self.log_deviation.clone(), &of),
        }
    }

    /// Draws an action for every row. Gradients flow through the draw (reparametrisation).
    pub fn draw(&self, rng: &mut Rng) -> Drawn {
        let SquashedGaussian { mean, log_deviation } = self;
        let [rows, cells] = mean.dims();
        let noise: Vec<f32> = (0..rows * cells).map(|_| rng.sample(StandardNormal)).collect();
        let noise = Tensor::<2>::from_data(TensorData::new(noise, [rows, cells]), &mean.device());
        let deviation = log_deviation.clone().exp();
        let actions = activation::tanh(mean.clone() + deviation * noise.clone());
        // The density of tanh x is that of x divided by 1 - tanh² x.
        let half_log_tau = 0.5 * (2.0 * std::f64::consts::PI).ln();
        let squash = (actions.clone().square().neg() + 1.0 + 1e-6).log();
        let log_probability = noise.square() * -0.5 - log_deviation.clone() - half_log_tau - squash;
        Drawn { actions, log_probability: log_probability.sum_dim(1) }
    }
}

/// Two critics: what actions are worth, by networks of their own. The lower of both is less easily too high.
#[derive(Module, Debug)]
pub struct Critics {
    one: Mlp,
    other: Mlp,
}

impl Critics {
    /// The lower of what both say actions are worth: `[rows, 1]`.
    pub fn lower(&self, states: &RowsIn, actions: Tensor<2>) -> Tensor<2> {
        let input = states.clone().with(actions);
        let worth = |critic: &Mlp| critic.forward(input.clone(), &mut Noise::new(0));
        let (one, other) = both(|| worth(&self.one), || worth(&self.other));
        one.min_pair(other)
    }
}

/// Two critics that learn, and targets that follow them slowly. They have nothing to do with each other but for what
/// they learn from, so each learns on a thread of its own.
pub struct LearningCritics {
    one: Trained<Mlp>,
    other: Trained<Mlp>,
    target: Critics,
}

impl LearningCritics {
    /// Draws the weights; the config's inputs are the features of a state and the cells of an action.
    pub fn new(
        config: &MlpConfig,
        optimizer: &AdamWConfig,
        learning_rate: f64,
        device: &Device,
        rng: &mut Rng,
    ) -> Self {
        let critics = Critics { one: config.init(device, rng), other: config.init(device, rng) };
        let trained = |critic: &Mlp| Trained::new(critic.clone(), optimizer, learning_rate);
        LearningCritics {
            one: trained(&critics.one),
            other: trained(&critics.other),
            target: critics.valid(),
        }
    }

    /// The critics as they are now, to be asked and not moved: no gradient reaches their weights.
    pub fn fixed(&self) -> Critics {
        let fixed = |critic: &Trained<Mlp>| critic.module().clone().no_grad();
        Critics { one: fixed(&self.one), other: fixed(&self.other) }
    }

    /// The critics that follow.
    pub fn target(&self) -> &Critics {
        &self.target
    }

    /// One step of each, against a loss that it is given; then the targets move a share of the way. Gives what the losses say
    /// beside themselves.
    pub fn learn<T: Send>(
        &mut self,
        pace: f64,
        tau: f64,
        loss: impl Fn(&Mlp) -> (Tensor<1>, T) + Sync,
    ) -> [T; 2] {
        let LearningCritics { one, other, target } = self;
        let step = |critic: &mut Trained<Mlp>, target: &mut Mlp| {
            let (loss, says) = loss(critic.module());
            critic.step(pace, &mut loss.backward());
            *target = mix(target.clone(), &critic.module().valid(), tau);
            says
        };
        let (one, other) = both(|| step(one, &mut target.one), || step(other, &mut target.other));
        [one, other]
    }
}

impl Checkpointed for LearningCritics {
    fn parts(&self) -> Vec<Vec<u8>> {
        [self.one.parts(), self.other.parts(), self.target.parts()].concat()
    }

    fn restore(&mut self, parts: &mut dyn Iterator<Item = &[u8]>) -> Result<(), Error> {
        self.one.restore(parts)?;
        self.other.restore(parts)?;
        self.target.restore(parts)
    }
}

/// The logarithm of a positive number that is learned.
#[derive(Module, Debug)]
pub struct Logarithm {
    value: Param<Tensor<1>>,
}

impl Logarithm {
    /// Of one.
    pub fn new(device: &Device) -> Self {
        Logarithm { value: Param::from_tensor(Tensor::zeros([1], device)) }
    }

    /// The number.
    pub fn number(&self) -> f64 {
        f64::from(self.value.val().into_scalar::<f32>()).exp()
    }

    /// A loss that makes the number grow while `excess` is above zero: `-excess · number`.
    pub fn loss(&self, excess: f64) -> Tensor<1> {
        self.value.val().exp() * -excess
    }
}

/// What -1 and 1 stand for in every cell of an action: the lowest and the highest number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Squash(pub Vec<[f32; 2]>);

impl Squash {
    /// The bounds of a space of actions, if it has finite ones.
    pub fn of(space: &Space) -> Option<Self> {
        match space {
            Space::Box { bounds: Some(bounds), .. } => {
                let finite = |[low, high]: &[f32; 2]| (high - low).is_finite() && low < high;
                bounds.iter().all(finite).then(|| Squash(bounds.clone()))
            }
            _ => None,
        }
    }

    /// Whether it makes sense for a space of actions; one that was read from a file may not.
    pub fn check(&self, space: &Space) -> Result<(), String> {
        let fits = matches!(space, Space::Box { .. }) && self.0.len() == space.cells();
        let sound =
            self.0.iter().all(|[low, high]| low.is_finite() && high.is_finite() && low < high);
        match fits && sound {
            true => Ok(()),
            false => Err(format!("its ranges {:?} are not those of {space}", self.0)),
        }
    }

    /// From -1..1 to the world's units.
    pub fn undo(&self, cell: usize, number: f32) -> f32 {
        let [low, high] = self.0[cell];
        low + (number.clamp(-1.0, 1.0) + 1.0) / 2.0 * (high - low)
    }

    /// From the world's units to -1..1.
    pub fn apply(&self, cell: usize, number: f32) -> f32 {
        let [low, high] = self.0[cell];
        (number - low) / (high - low) * 2.0 - 1.0
    }

    /// Rows of actions in the world's units as a matrix in -1..1: `[rows, cells]`.
    pub fn matrix(&self, actions: impl Iterator<Item = f32>, device: &Device) -> Tensor<2> {
        let cells = self.0.len();
        let scaled: Vec<f32> =
            actions.enumerate().map(|(at, number)| self.apply(at % cells, number)).collect();
        let rows = scaled.len() / cells;
        Tensor::from_data(TensorData::new(scaled, [rows, cells]), device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::cpu;
    use crate::policy::floats;
    use esper_data::Seed;

    /// Mean 0.3 and deviation e^-1, whatever is seen.
    fn fixed() -> SquashedGaussian {
        let of = |number: f32| Tensor::<2>::full([4_000, 1], number, &cpu());
        SquashedGaussian { mean: of(0.3), log_deviation: of(-1.0) }
    }

    /// A density integrates to one: the mean of 1/p over draws is the length of what they are drawn from.
    #[test]
    fn densities_are_those_of_what_is_drawn() {
        let Drawn { actions, log_probability } = fixed().draw(&mut Seed::new(0).rng());
        let (actions, logs) = (floats(actions), floats(log_probability));
        for (action, log) in actions.iter().zip(&logs) {
            let before = action.atanh();
            let normal = -0.5 * ((before - 0.3) / (-1f32).exp()).powi(2) + 1.0
                - 0.5 * (2.0 * std::f32::consts::PI).ln();
            assert!((normal - (1.0 - action * action).ln() - log).abs() < 1e-2, "{action}");
        }
        let inside = |x: &&f32| (-0.3..0.7).contains(*x);
        let volume: f32 =
            actions.iter().zip(&logs).filter(|(a, _)| inside(a)).map(|(_, l)| (-l).exp()).sum();
        assert!((volume / 4_000.0 - 1.0).abs() < 0.05, "{volume}");
    }

    #[test]
    fn a_squash_goes_both_ways() {
        let squash = Squash(vec![[-2.0, 2.0], [0.0, 1.0]]);
        assert_eq!((squash.apply(0, 1.0), squash.apply(1, 0.25)), (0.5, -0.5));
        assert_eq!((squash.undo(0, 0.5), squash.undo(1, -0.5)), (1.0, 0.25));
        assert_eq!(squash.undo(1, 7.0), 1.0);
    }
}
