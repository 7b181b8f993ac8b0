//! Modules that follow others slowly.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};

/// A module moved a share of the way towards another of the same configuration, parameter by parameter.
///
/// # Panics
///
/// When the two have different parameters.
pub fn mix<M: Module>(module: M, towards: &M, share: f64) -> M {
    let mut collected = Collected::default();
    towards.visit(&mut collected);
    let mut mixer = Mixer { towards: collected.0.into_iter(), share: share as f32 };
    let mixed = module.map(&mut mixer);
    assert!(mixer.towards.next().is_none(), "both modules have the same parameters");
    mixed
}

#[derive(Default)]
struct Collected(Vec<Vec<f32>>);

impl ModuleVisitor for Collected {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.0.push(values(param.val()));
    }
}

struct Mixer {
    towards: std::vec::IntoIter<Vec<f32>>,
    share: f32,
}

impl ModuleMapper for Mixer {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let towards = self.towards.next().expect("both modules have the same parameters");
        let share = self.share;
        param.map(|tensor| {
            let (device, shape, tracked) =
                (tensor.device(), tensor.dims(), tensor.is_require_grad());
            let mut mixed = values(tensor);
            assert_eq!(mixed.len(), towards.len(), "both modules have the same parameters");
            for (value, towards) in mixed.iter_mut().zip(&towards) {
                *value += share * (towards - *value);
            }
            Tensor::from_data(TensorData::new(mixed, shape), &device).set_require_grad(tracked)
        })
    }
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().expect("parameters are floats")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinearConfig;
    use crate::ops::testing::{assert_close, device, random, values};
    use rand::SeedableRng;

    /// A linear layer is linear in its weights: halfway between two is halfway between their outputs.
    #[test]
    fn halfway_is_halfway() {
        let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(0);
        let mut layer = || LinearConfig::new(3, 2).init(&device(), &mut rng);
        let (one, other) = (layer(), layer());
        let rows: Tensor<2> = random([4, 3], 1);
        let mixed = mix(one.clone(), &other, 0.5).forward(rows.clone());
        let halfway = (one.forward(rows.clone()) + other.forward(rows)) * 0.5;
        assert_close("outputs", &values(&mixed), &values(&halfway), 1e-6);
    }
}
