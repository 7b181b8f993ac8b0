//! The blocks on a GPU: outputs, gradients and training are those of the CPU to within rounding.
//!
//! `cargo test -p esper-nn --features gpu --test gpu`. Where there is no GPU the tests do nothing, and say so; a software
//! one will do (on Debian: `apt install mesa-vulkan-drivers`).

use std::io::Write;
use std::time::Instant;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Gradients, Tensor, TensorData};
use esper_nn::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What a computation gave: lists of numbers with names.
type Results = Vec<(String, Vec<f32>)>;

/// How far rounding may carry numbers apart, relative to the largest of a list.
const ROUNDING: f32 = 1e-4;

/// Runs something on both devices, with gradients, and compares all that it gives.
fn assert_same(name: &str, tolerance: f32, run: impl Fn(&Device) -> Results) {
    let gpu = match DeviceName::Gpu.open() {
        Ok(gpu) => gpu,
        Err(error) => {
            // Not by `eprintln`, which tests that pass keep to themselves.
            let said = writeln!(std::io::stderr(), "\nNOTHING WAS TESTED of {name}: {error}\n");
            return said.expect("standard error can be written to");
        }
    };
    let timed = |device: Device| {
        let start = Instant::now();
        (run(&device.autodiff()), start.elapsed().as_secs_f32())
    };
    let ((expected, cpu_time), (found, gpu_time)) = (timed(default_device()), timed(gpu));
    eprintln!("{name}: {cpu_time:.3} s on the CPU, {gpu_time:.3} s on the GPU");
    assert_eq!(expected.len(), found.len(), "{name}: another number of results");
    for ((part, expected), (_, found)) in expected.iter().zip(&found) {
        assert_eq!(expected.len(), found.len(), "{name}, {part}: another number of numbers");
        let largest = expected.iter().fold(0f32, |largest, value| largest.max(value.abs()));
        for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
            let near = (expected - found).abs() <= tolerance * largest.max(1e-3);
            assert!(near, "{name}, {part} at {at}: {found} on the GPU, {expected} on the CPU");
        }
    }
}

fn rng(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Random numbers in -1..1 that are the same on every device.
fn random(shape: [usize; 2], seed: u64, device: &Device) -> Tensor<2> {
    let mut rng = rng(seed);
    let values = (0..shape[0] * shape[1]).map(|_| rng.random_range(-1.0f32..1.0)).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().try_to_vec().expect("floats")
}

/// The output, and the gradients of input and parameters of a loss in which every output counts differently.
fn differentiate<M: Module>(module: &M, input: Option<&Tensor<2>>, output: Tensor<2>) -> Results {
    let weights = random(output.dims(), 4711, &output.device());
    let gradients = (output.clone() * weights).sum().backward();
    let mut results = vec![("output".to_owned(), values(&output))];
    if let Some(input) = input {
        let gradient = input.grad(&gradients).expect("the input has a gradient");
        results.push(("gradient of the input".to_owned(), values(&gradient)));
    }
    results.extend(parameter_gradients(module, &gradients));
    results
}

fn parameter_gradients<M: Module>(module: &M, gradients: &Gradients) -> Results {
    struct Visitor<'a>(&'a Gradients, Results);
    impl ModuleVisitor for Visitor<'_> {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            if let Some(gradient) = param.val().grad(self.0) {
                self.1.push((format!("gradient of parameter {}", self.1.len()), values(&gradient)));
            }
        }
    }
    let mut visitor = Visitor(gradients, Vec::new());
    module.visit(&mut visitor);
    assert!(!visitor.1.is_empty(), "parameters have gradients");
    visitor.1
}

/// All weights and running values.
fn weights<M: Module>(module: &M) -> Results {
    struct Visitor(Results);
    impl ModuleVisitor for Visitor {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push((format!("parameter {}", self.0.len()), values(&param.val())));
        }
    }
    let mut visitor = Visitor(Vec::new());
    module.visit(&mut visitor);
    visitor.0
}

#[test]
fn perceptrons() {
    for normalization in [Normalization::None, Normalization::Layer, Normalization::Batch] {
        for dropout in [0.0, 0.4] {
            let config = MlpConfig::new(6, 3).with_hidden(10).with_dropout(dropout);
            let config = config.with_normalization(normalization);
            let name = format!("MLP, {normalization:?}, dropout {dropout}");
            assert_same(&name, ROUNDING, |device| {
                let mlp = config.init(device, &mut rng(1));
                let rows = random([9, 6], 2, device).require_grad();
                let output = mlp.forward(rows.clone(), &mut Noise::new(3));
                let mut results = differentiate(&mlp, Some(&rows), output);
                // Running values have moved, and evaluation takes them.
                results.extend(weights(&mlp));
                let evaluated = mlp.valid().forward(rows.inner(), &mut Noise::new(3));
                results.push(("evaluation".to_owned(), values(&evaluated)));
                results
            });
        }
    }
}

#[test]
fn first_layers_of_zeros_and_ones() {
    let sparse = || SparseRows::new(5, vec![2, 2, 3, 6], vec![0, 4, 1, 0, 2, 3]);
    assert_same("sparse first layers", ROUNDING, |device| {
        let mlp = MlpConfig::new(8, 3).with_hidden(10).init(device, &mut rng(1));
        let dense = random([4, 3], 2, device).require_grad();
        let noise = &mut Noise::new(0);
        let both = mlp.forward((sparse(), dense.clone()), noise);
        let mut results = differentiate(&mlp, Some(&dense), both);
        // Three numbers are left out, and count as zeros.
        results.extend(differentiate(&mlp, None, mlp.forward(sparse(), noise)));
        let rows = RowsIn::from((sparse(), dense.inner())).gather(&[3, 0, 3]);
        results.push(("some".to_owned(), values(&mlp.valid().forward(rows, noise))));
        let none: Tensor<2> =
            LinearConfig::new(8, 2).with_bias(false).init(device, &mut rng(1)).forward_relu(
                RowsIn::from(sparse()).with_ones(&SparseRows::new(3, vec![1; 4], vec![2])),
            );
        results.push(("no bias".to_owned(), values(&none)));
        results
    });
}

#[test]
fn memories_over_packed_sequences() {
    let offsets = [0, 4, 8, 10, 11];
    for reverse in [false, true] {
        assert_same(&format!("LSTM, reverse {reverse}"), ROUNDING, |device| {
            let config = LstmConfig::new(3, 5).with_reverse(reverse);
            let lstm = config.init(device, &mut rng(1));
            let rows = random([11, 3], 2, device).require_grad();
            let (output, state) = lstm.forward(rows.clone(), &offsets, None);
            let mut results = differentiate(&lstm, Some(&rows), output);
            results.push(("cells".to_owned(), values(&state.cells)));
            let carried = state.hidden.dims()[0];
            let more = random([carried, 3], 3, device).require_grad();
            let (output, state) = lstm.forward(more.clone(), &[0, carried], Some(state));
            results.extend(differentiate(&lstm, Some(&more), output));
            results.push(("hidden".to_owned(), values(&state.hidden)));
            results
        });
    }
}

#[test]
fn samples_of_categories() {
    for hard in [false, true] {
        assert_same(&format!("Gumbel-softmax, hard {hard}"), ROUNDING, |device| {
            let gumbel =
                GumbelSoftmaxConfig::new(3, 4).with_temperature(0.7).with_hard(hard).init();
            let logits = random([7, 12], 1, device).require_grad();
            let sample = gumbel.forward(logits.clone(), &mut Noise::new(5));
            let again = gumbel.forward(logits.clone(), &mut Noise::new(5));
            let other = gumbel.forward(logits.clone(), &mut Noise::new(6));
            assert_eq!(values(&sample), values(&again), "the same key, the same sample");
            assert_ne!(values(&sample), values(&other), "another key, another sample");
            let gradients = (sample.clone() * random([7, 12], 2, device)).sum().backward();
            let gradient = logits.grad(&gradients).expect("logits have a gradient");
            let probabilities = gumbel.probabilities(logits);
            vec![
                ("sample".to_owned(), values(&sample)),
                ("gradient".to_owned(), values(&gradient)),
                ("probabilities".to_owned(), values(&probabilities)),
            ]
        });
    }
}

fn transformer(device: &Device, dropout: f64) -> Transformer {
    let config = TransformerConfig::new(4).with_width(8).with_heads(2).with_layers(2);
    config.with_dropout(dropout).init(device, &mut rng(1))
}

#[test]
fn transformers() {
    for dropout in [0.0, 0.3] {
        assert_same(&format!("transformer, dropout {dropout}"), ROUNDING, |device| {
            let transformer = transformer(device, dropout);
            let tokens = random([9, 8], 2, device).require_grad();
            let times = [0, 1, 2, 3, 4, 0, 0, 1, 2];
            let (offsets, wanted) = ([0, 5, 6, 9], [1, 4, 5, 8]);
            let noise = &mut Noise::new(7);
            let output = transformer.forward(tokens.clone(), &times, &offsets, &wanted, noise);
            differentiate(&transformer, Some(&tokens), output)
        });
    }
}

#[test]
fn transformers_that_act_from_a_cache() {
    assert_same("transformer with a cache", ROUNDING, |device| {
        let transformer = transformer(device, 0.1).valid();
        let mut cache = transformer.cache(2, 4);
        let mut results = Results::new();
        for (number, (sequences, count)) in
            [(&[1, 0][..], 2), (&[0], 1), (&[1], 2)].into_iter().enumerate()
        {
            let rows = sequences.len() * count;
            let tokens = random([rows, 8], number as u64, device).inner();
            let times: Vec<u32> = (0..rows as u32).collect();
            let output = transformer.extend(tokens, &times, sequences, &mut cache);
            results.push((format!("tokens {number}"), values(&output)));
        }
        results
    });
}

#[test]
fn losses_and_operations_on_rows() {
    assert_same("operations on rows", ROUNDING, |device| {
        let mut results = Results::new();
        let mut check = |name: &str, operation: &dyn Fn(Tensor<2>) -> Tensor<1>| {
            let rows = random([6, 4], 1, device).require_grad();
            let output = operation(rows.clone());
            let gradients = output.backward();
            let gradient = rows.grad(&gradients).expect("rows have a gradient");
            results.push((name.to_owned(), values(&output)));
            results.push((format!("gradient of {name}"), values(&gradient)));
        };
        let some = [1.0, 0.0, 2.5, 1.0, 0.0, 3.0];
        for weights in [None, Some(&some[..])] {
            check("cross-entropy", &|rows| cross_entropy(rows, &[0, 3, 1, 2, 2, 0], weights));
            let targets = random([6, 4], 2, device);
            check("squared error", &|rows| squared_error(rows, targets.clone(), weights));
        }
        let counts = random([7, 4], 3, device);
        check("gather", &|rows| (gather_rows(rows, &[5, 0, 0, 2, 5, 5, 1]) * counts.clone()).sum());
        let counts = random([6, 4], 3, device);
        check("scale gradient", &|rows| (scale_gradient(rows, -0.5) * counts.clone()).sum());
        results
    });
}

/// Both clipping and warm-up count, and moments are the same afterwards.
#[test]
fn a_step_of_the_optimiser() {
    assert_same("AdamW", ROUNDING, |device| {
        let mut mlp = MlpConfig::new(4, 2).with_hidden(6).init(device, &mut rng(1));
        let config = AdamWConfig::new().with_max_norm(Some(0.05)).with_warmup_steps(3);
        let mut optimizer = config.with_weight_decay(0.1).init();
        for step in 0..2 {
            let output = mlp.forward(random([5, 4], step, device), &mut Noise::new(0));
            let loss = squared_error(output, random([5, 2], 9, device), None);
            mlp = optimizer.step(0.01, mlp, loss.backward());
        }
        weights(&mlp)
    });
}

/// Rounding adds up over steps, slowly.
#[test]
fn training() {
    assert_same("30 steps of training", 1e-3, |device| {
        let config = MlpConfig::new(4, 3).with_hidden(12).with_dropout(0.2);
        let mut mlp = config.with_normalization(Normalization::Layer).init(device, &mut rng(1));
        let config = AdamWConfig::new().with_max_norm(Some(1.0)).with_warmup_steps(5);
        let (mut optimizer, mut noise) = (config.init(), Noise::new(2));
        let mut losses = Vec::new();
        for step in 0..30 {
            // As many rows as it happens, as in packed batches.
            let count = 17 + step % 3;
            let rows = random([count, 4], step as u64, device);
            let best: Vec<u32> = (0..count as u32).map(|row| row % 3).collect();
            let loss = cross_entropy(mlp.forward(rows, &mut noise), &best, None);
            losses.extend(values(&loss));
            mlp = optimizer.step(3e-3, mlp, loss.backward());
        }
        let mut results = weights(&mlp);
        results.push(("losses".to_owned(), losses));
        results
    });
}

/// A model is drawn, kept, read and mixed the same way wherever it is.
#[test]
fn files_know_nothing_of_devices() {
    assert_same("files", 0.0, |device| {
        let config = MlpConfig::new(4, 2).with_hidden(6).with_normalization(Normalization::Batch);
        let [one, other] = [1, 2].map(|seed| config.init(device, &mut rng(seed)));
        let read = from_safetensors(other.clone(), &to_safetensors(&one)).unwrap();
        let mut results = weights(&read);
        results.extend(weights(&mix(one, &other, 0.25)));
        results
    });
}

/// No driver, no GPU: an error that says what to do, and no panic. In a program of its own, where drivers can be hidden.
#[test]
fn a_machine_without_a_gpu_gets_an_error() {
    const HIDDEN: &str = "ESPER_TEST_WITHOUT_DRIVERS";
    if std::env::var_os(HIDDEN).is_some() {
        let problem = DeviceName::Gpu.open().expect_err("drivers are hidden").to_string();
        assert!(problem.contains("no GPU was found"), "{problem}");
        assert!(problem.contains("mesa-vulkan-drivers"), "{problem}");
        return;
    }
    if !cfg!(target_os = "linux") {
        return;
    }
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_machine_without_a_gpu_gets_an_error"])
        .envs([
            (HIDDEN, "1"),
            ("VK_ICD_FILENAMES", "/dev/null"),
            ("VK_DRIVER_FILES", "/dev/null"),
            ("__EGL_VENDOR_LIBRARY_FILENAMES", "/dev/null"),
        ])
        .status()
        .unwrap();
    assert!(status.success());
}
