//! AdamW with PyTorch's meaning of its numbers, warm-up, and clipping of all gradients together.

use std::collections::HashMap;

use burn::backend::Flex;
use burn::config::Config;
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamId};
use burn::tensor::{Gradients, Tensor, TensorData, Transaction};

use crate::kernels::update;
use crate::ops::{Input, Values};
use crate::store::{Named, StoreError, deserialize, serialize};

/// What an [`AdamW`] optimiser is like. The defaults are PyTorch's.
#[derive(Config, Debug)]
pub struct AdamWConfig {
    /// β₁, decay rate of the first moment: how long the mean of gradients remembers.
    #[config(default = 0.9)]
    pub beta1: f64,
    /// β₂, decay rate of the second moment: how long the mean of squared gradients remembers.
    #[config(default = 0.999)]
    pub beta2: f64,
    /// ε: added to the root of the second moment, which is divided by.
    #[config(default = 1e-8)]
    pub epsilon: f64,
    /// Weight decay: how fast weights shrink, in units of the learning rate. Biases and normalisations (all vectors) do
    /// not.
    #[config(default = 0.01)]
    pub weight_decay: f64,
    /// Warm-up steps: those over which the learning rate rises from zero.
    #[config(default = 0)]
    pub warmup_steps: usize,
    /// Gradient clipping: the most that the norm of all gradients together may be; larger ones are scaled down.
    pub max_norm: Option<f64>,
}

/// The optimiser and what it remembers of every parameter.
pub struct AdamW {
    config: AdamWConfig,
    time: u64,
    moments: HashMap<ParamId, Moments>,
}

/// First and second moment: running means of a parameter's gradient and of its square.
#[derive(Clone)]
struct Moments {
    first: Vec<f32>,
    second: Vec<f32>,
}

impl AdamWConfig {
    /// An optimiser that has not seen anything yet.
    pub fn init(&self) -> AdamW {
        AdamW { config: self.clone(), time: 0, moments: HashMap::new() }
    }
}

impl AdamW {
    /// Moves the parameters of a module against their gradients; those without a gradient stay.
    pub fn step<M: Module>(&mut self, learning_rate: f64, module: M, gradients: Gradients) -> M {
        let mut gradients = gradients;
        self.step_part(learning_rate, module, &mut gradients)
    }

    /// As [`AdamW::step`], leaving the gradients of other modules for their own optimisers.
    pub fn step_part<M: Module>(
        &mut self,
        learning_rate: f64,
        module: M,
        gradients: &mut Gradients,
    ) -> M {
        let on_host = fetch(&module, gradients);
        self.time += 1;
        let AdamWConfig { beta1, beta2, epsilon, weight_decay, warmup_steps, max_norm } =
            self.config;
        let warmth = self.time as f64 / warmup_steps.max(1) as f64;
        let gradient_scale = match max_norm {
            None => 1.0,
            // As PyTorch does it, with a little added to the norm.
            Some(most) => (most / (norm(&module, gradients, &on_host) + 1e-6)).min(1.0),
        };
        let update = update::AdamW {
            learning_rate: (learning_rate * warmth.min(1.0)) as f32,
            beta1: beta1 as f32,
            beta2: beta2 as f32,
            epsilon: epsilon as f32,
            weight_decay: weight_decay as f32,
            time: self.time,
            gradient_scale: gradient_scale as f32,
        };
        module.map(&mut Mapper { update, gradients, on_host, moments: &mut self.moments })
    }

    /// The number of steps taken.
    pub fn steps(&self) -> u64 {
        self.time
    }

    /// What it remembers of a module's parameters, as the bytes of a safetensors file, to go on from later.
    pub fn to_safetensors<M: Module>(&self, module: &M) -> Vec<u8> {
        let mut tensors = Vec::new();
        for (name, id, _) in named_parameters(module) {
            if let Some(Moments { first, second }) = self.moments.get(&id) {
                for (suffix, values) in [("first", first), ("second", second)] {
                    tensors.push(Named {
                        name: format!("{name}.{suffix}"),
                        shape: vec![values.len()],
                        values: values.clone(),
                    });
                }
            }
        }
        let time = digits(self.time);
        tensors.push(Named { name: TIME.to_owned(), shape: vec![time.len()], values: time });
        serialize(&tensors, None)
    }

    /// Takes up what [`AdamW::to_safetensors`] gave for a module of the same kind. After an error it is as it was.
    pub fn restore<M: Module>(&mut self, module: &M, bytes: &[u8]) -> Result<(), StoreError> {
        let mut tensors: HashMap<String, Named> =
            deserialize(bytes)?.into_iter().map(|tensor| (tensor.name.clone(), tensor)).collect();
        let time = tensors.remove(TIME).ok_or_else(|| StoreError::Missing(TIME.to_owned()))?;
        let time = from_digits(&time.values).ok_or(StoreError::Steps)?;
        let mut moments = HashMap::new();
        for (name, id, count) in named_parameters(module) {
            let mut take = |suffix: &str| {
                let tensor = tensors.remove(&format!("{name}.{suffix}"));
                tensor.map(|Named { name, shape, values }| match values.len() == count {
                    true => Ok(values),
                    false => Err(StoreError::Shape { name, found: shape, expected: vec![count] }),
                })
            };
            match (take("first").transpose()?, take("second").transpose()?) {
                (Some(first), Some(second)) => {
                    moments.insert(id, Moments { first, second });
                }
                // It has never had a gradient.
                (None, None) => {}
                (None, Some(_)) => return Err(StoreError::Missing(format!("{name}.first"))),
                (Some(_), None) => return Err(StoreError::Missing(format!("{name}.second"))),
            }
        }
        if let Some(name) = tensors.into_keys().min() {
            return Err(StoreError::Unknown(name));
        }
        (self.time, self.moments) = (time, moments);
        Ok(())
    }
}

/// Where the number of steps is kept.
const TIME: &str = "time";

/// Bits of a digit: as many as a float holds exactly.
const DIGIT: u32 = f32::MANTISSA_DIGITS;

/// A count as digits that floats hold exactly, the lowest first; one of them for any count below 2²⁴.
fn digits(count: u64) -> Vec<f32> {
    let digit = |at: u32| (count >> (at * DIGIT) & ((1 << DIGIT) - 1)) as f32;
    let used = (u64::BITS - count.leading_zeros()).div_ceil(DIGIT).max(1);
    (0..used).map(digit).collect()
}

/// The count again; `None` where digits are none, or too many.
fn from_digits(digits: &[f32]) -> Option<u64> {
    let base = 1u64 << DIGIT;
    let add = |count: u64, &digit: &f32| {
        let whole = digit.fract() == 0.0 && (0.0..base as f32).contains(&digit);
        let count = count.checked_mul(base)?.checked_add(digit as u64)?;
        whole.then_some(count)
    };
    (!digits.is_empty()).then(|| digits.iter().rev().try_fold(0, add))?
}

/// The parameters of a module: their paths and sizes.
fn named_parameters<M: Module>(module: &M) -> Vec<(String, ParamId, usize)> {
    #[derive(Default)]
    struct Names {
        path: Vec<String>,
        found: Vec<(String, ParamId, usize)>,
    }
    impl ModuleVisitor for Names {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.path.push(name.to_owned());
        }
        fn exit_module(&mut self, _: &str, _: &str) {
            self.path.pop();
        }
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let count = param.val().shape().num_elements();
            self.found.push((self.path.join("."), param.id, count));
        }
    }
    let mut names = Names::default();
    module.visit(&mut names);
    names.found
}

/// Weights and gradient of a parameter that is on another device than the CPU.
struct OnHost {
    weights: Vec<f32>,
    gradient: Vec<f32>,
}

/// Fetches the weights and gradients that are on another device, all in one: each would have to be waited for.
fn fetch<M: Module>(module: &M, gradients: &Gradients) -> HashMap<ParamId, OnHost> {
    struct Fetching<'a> {
        gradients: &'a Gradients,
        ids: Vec<ParamId>,
        transaction: Transaction,
    }
    impl ModuleVisitor for Fetching<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            let gradient = param.val().grad(self.gradients);
            if let Some(gradient) = gradient.filter(|gradient| Input::of(gradient).is_none()) {
                self.ids.push(param.id);
                let transaction = std::mem::take(&mut self.transaction);
                self.transaction = transaction.register(param.val().inner()).register(gradient);
            }
        }
    }
    let mut fetching = Fetching { gradients, ids: Vec::new(), transaction: Transaction::default() };
    module.visit(&mut fetching);
    if fetching.ids.is_empty() {
        return HashMap::new();
    }
    let fetched = fetching.transaction.execute().into_iter();
    let mut fetched = fetched.map(|data| data.try_to_vec().expect("parameters are floats"));
    let mut next = || fetched.next().expect("as many as were asked for");
    let on_host = |id| (id, OnHost { weights: next(), gradient: next() });
    fetching.ids.into_iter().map(on_host).collect()
}

/// The norm of all gradients together.
fn norm<M: Module>(module: &M, gradients: &Gradients, on_host: &HashMap<ParamId, OnHost>) -> f64 {
    struct Squares<'a> {
        gradients: &'a Gradients,
        on_host: &'a HashMap<ParamId, OnHost>,
        sum: f64,
    }
    impl ModuleVisitor for Squares<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(OnHost { gradient, .. }) = self.on_host.get(&param.id) {
                self.sum += update::sum_of_squares(gradient);
            } else if let Some(gradient) = param.val().grad(self.gradients) {
                let gradient = Values::on_cpu(&gradient).expect("what is not has been fetched");
                self.sum += update::sum_of_squares(gradient.get());
            }
        }
    }
    let mut squares = Squares { gradients, on_host, sum: 0.0 };
    module.visit(&mut squares);
    squares.sum.sqrt()
}

struct Mapper<'a> {
    update: update::AdamW,
    gradients: &'a mut Gradients,
    on_host: HashMap<ParamId, OnHost>,
    moments: &'a mut HashMap<ParamId, Moments>,
}

impl ModuleMapper for Mapper<'_> {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(gradient) = param.val().grad_remove(self.gradients) else {
            return param;
        };
        let (id, tensor, mapper) = param.consume();
        let decays = D > 1;
        let update = update::AdamW {
            weight_decay: if decays { self.update.weight_decay } else { 0.0 },
            ..self.update
        };
        let count = tensor.shape().num_elements();
        let Moments { first, second } = self
            .moments
            .entry(id)
            .or_insert_with(|| Moments { first: vec![0.0; count], second: vec![0.0; count] });
        let (tracked, tensor) = (tensor.is_require_grad(), tensor.inner());
        let moved = match self.on_host.remove(&id) {
            // By way of the host. Its kernel takes the same step, and moments stay where they are written to files.
            Some(OnHost { mut weights, gradient }) => {
                update.step(&mut weights, &gradient, first, second);
                let data = TensorData::new(weights, tensor.dims());
                Tensor::<D>::from_data(data, &tensor.device())
            }
            // In place.
            None => {
                let on_cpu = |tensor: Tensor<D>| {
                    let tensor = tensor.try_into_primitive::<Flex>();
                    Values::of(tensor.expect("what is not on the CPU has been fetched"))
                };
                let (mut weights, gradient) = (on_cpu(tensor), on_cpu(gradient));
                update.step(weights.get_mut(), gradient.get(), first, second);
                weights.into_tensor()
            }
        };
        let moved = Tensor::from_inner(moved).set_require_grad(tracked);
        Param::from_mapped_value(id, moved, mapper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{as_on_another_device, assert_close, device, random, values};
    use crate::{MlpConfig, Noise, squared_error};
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[derive(Module, Debug)]
    struct Parameters {
        matrix: Param<Tensor<2>>,
        vector: Param<Tensor<1>>,
    }

    fn parameters() -> Parameters {
        Parameters {
            matrix: Param::from_tensor(Tensor::from_floats([[1.0, -2.0]], &device())),
            vector: Param::from_tensor(Tensor::from_floats([3.0], &device())),
        }
    }

    /// Gradients 2, 4 of the matrix and -1 of the vector.
    fn gradients(module: &Parameters) -> Gradients {
        let weights = Tensor::<2>::from_floats([[2.0, 4.0]], &device());
        let loss = (module.matrix.val() * weights).sum() - module.vector.val().sum();
        loss.backward()
    }

    /// The first two steps worked out by hand: with constant gradients every step moves by the learning rate.
    #[test]
    fn steps_are_pytorchs() {
        let mut optimizer = AdamWConfig::new().with_weight_decay(0.1).init();
        let mut module = parameters();
        for step in 1..=2 {
            let gradients = gradients(&module);
            module = optimizer.step(0.01, module, gradients);
            let decay = (1.0f32 - 0.01 * 0.1).powi(step);
            let moved = 0.01 * (1.0 + if step == 2 { 1.0 - 0.01 * 0.1 } else { 0.0 });
            // Matrices decay, vectors do not.
            let expected = [1.0 * decay - moved, -2.0 * decay - moved];
            assert_close("matrix", &values(&module.matrix.val()), &expected, 1e-5);
            assert_close(
                "vector",
                &values(&module.vector.val()),
                &[3.0 + 0.01 * step as f32],
                1e-6,
            );
        }
    }

    #[test]
    fn the_learning_rate_warms_up() {
        let mut optimizer = AdamWConfig::new().with_weight_decay(0.0).with_warmup_steps(4).init();
        let mut module = parameters();
        for expected in [3.0025, 3.0075, 3.015, 3.025, 3.035] {
            let gradients = gradients(&module);
            module = optimizer.step(0.01, module, gradients);
            assert_close("vector", &values(&module.vector.val()), &[expected], 1e-6);
        }
    }

    /// The norm of 2, 4 and -1 together is √21. Clipping is seen in the second moment.
    #[test]
    fn gradients_are_clipped_together() {
        for (most, scale) in [(1.0, 1.0 / 21f32.sqrt()), (100.0, 1.0)] {
            let mut optimizer = AdamWConfig::new().with_max_norm(Some(most)).init();
            let module = parameters();
            let gradients = gradients(&module);
            let module = optimizer.step(0.01, module, gradients);
            let moments = &optimizer.moments[&module.matrix.id];
            assert_close("mean", &moments.first, &[0.2 * scale, 0.4 * scale], 1e-5);
            let squares = [0.004 * scale * scale, 0.016 * scale * scale];
            assert_close("mean square", &moments.second, &squares, 1e-6);
        }
    }

    /// The host's way, which other devices take, and the CPU's own are the same to the last bit.
    #[test]
    fn other_devices_take_the_same_steps() {
        let steps = || {
            let config = AdamWConfig::new().with_max_norm(Some(1.0)).with_weight_decay(0.1);
            let (mut optimizer, mut module) = (config.init(), parameters());
            for _ in 0..3 {
                let gradients = gradients(&module);
                module = optimizer.step(0.01, module, gradients);
            }
            let moments = &optimizer.moments[&module.matrix.id];
            [values(&module.matrix.val()), values(&module.vector.val()), moments.second.clone()]
        };
        assert_eq!(steps(), as_on_another_device(steps));
    }

    /// Going on from a file is going on.
    #[test]
    fn an_optimiser_survives_a_file() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(0);
        let mut noise = Noise::new(0);
        let mut mlp = MlpConfig::new(3, 2).with_hidden(8).init(&device(), &mut rng);
        let mut optimizer = AdamWConfig::new().init();
        let mut train = |mlp: crate::Mlp, optimizer: &mut AdamW| {
            let loss =
                squared_error(mlp.forward(random([9, 3], 1), &mut noise), random([9, 2], 2), None);
            optimizer.step(0.01, mlp, loss.backward())
        };
        mlp = train(mlp, &mut optimizer);
        let mut restored = AdamWConfig::new().init();
        restored.restore(&mlp, &optimizer.to_safetensors(&mlp)).unwrap();
        assert_eq!(restored.steps(), 1);
        let one = train(mlp.clone(), &mut optimizer);
        let other = train(mlp, &mut restored);
        let output = |mlp: &crate::Mlp| values(&mlp.forward(random([9, 3], 1), &mut Noise::new(0)));
        assert_eq!(output(&one), output(&other));
        assert!(restored.restore(&one, b"nonsense").is_err());
        let wider = MlpConfig::new(3, 2).with_hidden(9).init(&device(), &mut rng);
        let problem = restored.restore(&wider, &optimizer.to_safetensors(&one)).unwrap_err();
        assert!(matches!(problem, StoreError::Shape { .. }), "{problem}");
        assert_eq!(restored.steps(), 2, "an error leaves it as it was");
        let deeper = MlpConfig::new(3, 2).with_hidden(8).with_layers(1).init(&device(), &mut rng);
        let problem = restored.restore(&deeper, &optimizer.to_safetensors(&one)).unwrap_err();
        assert_eq!(problem.to_string(), "the model has no hidden.1.linear.bias.first");
    }

    /// A float has 24 bits; the number of steps may have more.
    #[test]
    fn the_number_of_steps_is_exact() {
        let module = parameters();
        let kept = |time: u64| {
            let optimizer = AdamW { time, ..AdamWConfig::new().init() };
            let mut restored = AdamWConfig::new().init();
            restored.restore(&module, &optimizer.to_safetensors(&module)).unwrap();
            restored.steps()
        };
        let power = |bits: u32| 1u64 << bits;
        for time in [0, 1, power(24) - 1, power(24), power(24) + 1, power(32) + 1, power(53) + 1] {
            assert_eq!(kept(time), time);
        }
        assert_eq!(kept(u64::MAX), u64::MAX);
        assert_eq!(digits(power(24) - 1), [16_777_215.0], "one number, as long as it fits");
        for damaged in [&[][..], &[0.5], &[-1.0], &[16_777_216.0], &[0.0, 0.0, 0.0, 1.0]] {
            assert_eq!(from_digits(damaged), None, "{damaged:?}");
        }
    }

    /// Long after the start, bias corrections are one and the learning rate is warm: with moments at rest, a step is the
    /// learning rate.
    #[test]
    fn late_steps_are_ordinary_ones() {
        for time in [1 << 24, (1 << 31) - 2, 1 << 31, 1 << 32, 1 << 40] {
            let mut optimizer =
                AdamWConfig::new().with_weight_decay(0.0).with_warmup_steps(4).init();
            let module = parameters();
            optimizer.time = time;
            optimizer
                .moments
                .insert(module.vector.id, Moments { first: vec![-1.0], second: vec![1.0] });
            let gradients = gradients(&module);
            let module = optimizer.step(0.01, module, gradients);
            assert_eq!(optimizer.steps(), time + 1);
            assert_close("vector", &values(&module.vector.val()), &[3.01], 1e-6);
        }
        // Halfway through a warm-up that is longer than a float can count.
        let mut optimizer =
            AdamWConfig::new().with_weight_decay(0.0).with_warmup_steps(1 << 33).init();
        let module = parameters();
        optimizer.time = (1 << 32) - 1;
        optimizer
            .moments
            .insert(module.vector.id, Moments { first: vec![-1.0], second: vec![1.0] });
        let gradients = gradients(&module);
        let module = optimizer.step(0.01, module, gradients);
        assert_close("vector", &values(&module.vector.val()), &[3.005], 1e-6);
    }
}
