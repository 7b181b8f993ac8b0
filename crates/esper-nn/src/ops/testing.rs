//! How operations are tested: against finite differences, and against themselves composed of ordinary operations.

use std::cell::Cell;

use burn::tensor::{Device, Tensor, TensorData};

thread_local! {
    static COMPOSED_ONLY: Cell<bool> = const { Cell::new(false) };
}

/// Whether operations are to do as if this were another device.
pub(crate) fn composed_only() -> bool {
    COMPOSED_ONLY.get()
}

/// Runs something as it would run on another device: every fused operation composed of ordinary ones.
pub(crate) fn as_on_another_device<T>(run: impl FnOnce() -> T) -> T {
    COMPOSED_ONLY.set(true);
    let result = run();
    COMPOSED_ONLY.set(false);
    result
}

/// The CPU with gradients.
pub(crate) fn device() -> Device {
    Device::flex().autodiff()
}

/// Random numbers in -1..1 that are the same in every run.
pub(crate) fn random<const D: usize>(shape: [usize; D], key: u64) -> Tensor<D> {
    let count = shape.iter().product::<usize>();
    let values: Vec<f32> =
        (0..count).map(|at| 2.0 * crate::kernels::math::uniform(key, at as u32) - 1.0).collect();
    Tensor::from_data(TensorData::new(values, shape), &device())
}

/// A tensor's numbers.
pub(crate) fn values<const D: usize>(tensor: &Tensor<D>) -> Vec<f32> {
    tensor.to_data().try_to_vec().expect("floats")
}

/// Checks that two lists of numbers agree to `tolerance`, relative where they are large.
pub(crate) fn assert_close(name: &str, ours: &[f32], expected: &[f32], tolerance: f32) {
    assert_eq!(ours.len(), expected.len(), "{name}: another number of numbers");
    for (at, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        let allowed = tolerance * expected.abs().max(1.0);
        assert!((ours - expected).abs() <= allowed, "{name} at {at}: {ours}, expected {expected}");
    }
}

/// An operation on the inputs of a test: matrices and vectors.
pub(crate) struct Inputs {
    pub(crate) matrices: Vec<Tensor<2>>,
    pub(crate) vectors: Vec<Tensor<1>>,
}

/// The output, and the gradients of all inputs of a loss in which every output counts differently.
fn output_and_gradients(
    operation: &dyn Fn(&Inputs) -> Tensor<2>,
    inputs: &Inputs,
) -> (Vec<f32>, Vec<Vec<f32>>) {
    let tracked = Inputs {
        matrices: inputs.matrices.iter().map(|t| t.clone().require_grad()).collect(),
        vectors: inputs.vectors.iter().map(|t| t.clone().require_grad()).collect(),
    };
    let output = operation(&tracked);
    let weights = random(output.dims(), 4711);
    let gradients = (output.clone() * weights).sum().backward();
    let of_matrices = tracked.matrices.iter().map(|t| t.grad(&gradients).map(|g| values(&g)));
    let of_vectors = tracked.vectors.iter().map(|t| t.grad(&gradients).map(|g| values(&g)));
    let found = of_matrices.chain(of_vectors).map(|g| g.expect("every input has a gradient"));
    (values(&output), found.collect())
}

/// Checks output and gradients of a fused operation against the composed one.
pub(crate) fn assert_same_as_composed(
    name: &str,
    fused: &dyn Fn(&Inputs) -> Tensor<2>,
    composed: &dyn Fn(&Inputs) -> Tensor<2>,
    inputs: &Inputs,
) {
    let (fused_output, fused_gradients) = output_and_gradients(fused, inputs);
    let (output, gradients) = output_and_gradients(composed, inputs);
    assert_close(&format!("{name}: output"), &fused_output, &output, 2e-5);
    for (number, (fused, composed)) in fused_gradients.iter().zip(&gradients).enumerate() {
        assert_close(&format!("{name}: gradient of input {number}"), fused, composed, 1e-4);
    }
}

/// Checks the gradients of an operation against central differences of its output.
pub(crate) fn assert_gradients(
    name: &str,
    operation: &dyn Fn(&Inputs) -> Tensor<2>,
    inputs: &Inputs,
) {
    const STEP: f32 = 1e-2;
    let (_, gradients) = output_and_gradients(operation, inputs);
    let loss = |inputs: &Inputs| -> f64 {
        let output = operation(inputs);
        let weights = values(&random::<2>(output.dims(), 4711));
        let products = values(&output).into_iter().zip(weights);
        products.map(|(output, weight)| f64::from(output) * f64::from(weight)).sum()
    };
    let count = inputs.matrices.len() + inputs.vectors.len();
    for number in 0..count {
        for at in 0..gradients[number].len() {
            let moved = |by: f32| -> Inputs {
                let shift = |values: &mut Vec<f32>| values[at] += by;
                let mut matrices = inputs.matrices.clone();
                let mut vectors = inputs.vectors.clone();
                match number.checked_sub(matrices.len()) {
                    None => matrices[number] = changed(&matrices[number], shift),
                    Some(number) => vectors[number] = changed(&vectors[number], shift),
                }
                Inputs { matrices, vectors }
            };
            let difference = (loss(&moved(STEP)) - loss(&moved(-STEP))) / (2.0 * f64::from(STEP));
            let (found, expected) = (gradients[number][at], difference as f32);
            let allowed = 2e-2 * expected.abs().max(1.0);
            assert!(
                (found - expected).abs() <= allowed,
                "{name}: input {number} at {at}: gradient {found}, difference {expected}"
            );
        }
    }
}

fn changed<const D: usize>(tensor: &Tensor<D>, change: impl Fn(&mut Vec<f32>)) -> Tensor<D> {
    let mut numbers = values(tensor);
    change(&mut numbers);
    Tensor::from_data(TensorData::new(numbers, tensor.dims()), &tensor.device())
}
