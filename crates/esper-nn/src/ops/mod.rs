//! Operations with hand-written kernels on the CPU, and the same operations composed of ordinary ones for other backends.
//!
//! Each file has a public function, the fused operation behind it on the CPU (an [`Op`]: a forward and a backward pass),
//! and `composed`, which is what other backends run and what tests compare with.

pub(crate) mod attention;
pub(crate) mod batch_norm;
pub(crate) mod gumbel;
pub(crate) mod layer_norm;
pub(crate) mod linear;
pub(crate) mod loss;
pub(crate) mod lstm;
mod pooled;
pub(crate) mod repeated;
pub(crate) mod rows;
#[cfg(test)]
pub(crate) mod testing;

use std::fmt::Debug;

use burn::backend::autodiff::checkpoint::base::Checkpointer;
use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops, OpsKind};
use burn::backend::flex::FlexTensor;
use burn::backend::{Autodiff, Flex};
use burn::tensor::{DType, Tensor, TensorData};

use crate::kernels::memory::Buffer;

/// The CPU backend with gradients.
type Tracking = Autodiff<Flex>;

/// A tensor with gradients on the CPU.
type TrackedTensor = <Tracking as burn::backend::BackendTypes>::FloatTensorPrimitive;

/// A fused operation of `N` tensors on the CPU.
pub(crate) trait Op<const N: usize>: Clone + Debug + Send + 'static {
    /// What the backward pass needs of the forward pass.
    type Saved: Clone + Debug + Send + 'static;

    /// Computes the output. Inputs are contiguous.
    fn forward(&self, inputs: [Values; N]) -> (Values, Self::Saved);

    /// Computes the gradients of those inputs that need one from the gradient of the output.
    fn backward(
        self,
        saved: Self::Saved,
        gradient: Values,
        needed: [bool; N],
    ) -> [Option<Values>; N];
}

/// A contiguous tensor of floats on the CPU. Clones share their memory.
#[derive(Clone, Debug)]
pub(crate) struct Values(FlexTensor);

impl Values {
    /// Numbers with a shape.
    pub(crate) fn new<const D: usize>(values: impl Into<Owned>, shape: [usize; D]) -> Self {
        let data = match values.into() {
            Owned::Small(values) => TensorData::new(values, shape),
            Owned::Large(values) => {
                let count: usize = shape.iter().product();
                assert_eq!(values.len(), count, "the shape fits the numbers");
                TensorData::from_bytes(pooled::bytes(values), shape, DType::F32)
            }
        };
        Values(FlexTensor::from_data(data))
    }

    /// The numbers of a tensor, without gradients; `None` if it is not on the CPU.
    pub(crate) fn on_cpu<const D: usize>(tensor: &Tensor<D>) -> Option<Self> {
        Some(match Input::of(tensor)? {
            Input::Tracked(tensor) => Values::of(tensor.into_primitive()),
            Input::Plain(tensor) => Values::of(tensor),
        })
    }

    /// The tensor again, without gradients.
    pub(crate) fn into_tensor<const D: usize>(self) -> Tensor<D> {
        Tensor::from_primitive::<Flex>(self.0)
    }

    /// A tensor of the CPU; copied if it is a view of another.
    pub(crate) fn of(tensor: FlexTensor) -> Self {
        let whole = tensor.layout().num_elements() * size_of::<f32>() == tensor.bytes().len();
        if tensor.is_contiguous() && tensor.layout().start_offset() == 0 && whole {
            return Values(tensor);
        }
        // A view that is no longer needed must not count as a second owner of its memory.
        let contiguous = tensor.to_contiguous();
        drop(tensor);
        Values(contiguous)
    }

    /// All numbers.
    pub(crate) fn get(&self) -> &[f32] {
        self.0.storage()
    }

    /// All numbers, to change; copied first if another tensor shares them.
    pub(crate) fn get_mut(&mut self) -> &mut [f32] {
        self.0.storage_mut()
    }

    /// The numbers along the last axis.
    pub(crate) fn width(&self) -> usize {
        *self.0.layout().shape().last().unwrap_or(&1)
    }

    /// The numbers along the first axis.
    pub(crate) fn rows(&self) -> usize {
        *self.0.layout().shape().first().unwrap_or(&1)
    }
}

/// Numbers that a tensor takes over.
pub(crate) enum Owned {
    Small(Vec<f32>),
    Large(Buffer),
}

impl From<Vec<f32>> for Owned {
    fn from(values: Vec<f32>) -> Self {
        Owned::Small(values)
    }
}

impl From<Buffer> for Owned {
    fn from(values: Buffer) -> Self {
        Owned::Large(values)
    }
}

/// An input of an operation, its rank forgotten.
pub(crate) enum Input {
    Tracked(TrackedTensor),
    Plain(FlexTensor),
}

impl Input {
    /// `None` if the tensor is not on the CPU.
    pub(crate) fn of<const D: usize>(tensor: &Tensor<D>) -> Option<Self> {
        #[cfg(test)]
        if testing::composed_only() {
            return None;
        }
        if tensor.device().is_autodiff() {
            tensor.clone().try_into_primitive::<Tracking>().ok().map(Input::Tracked)
        } else {
            tensor.clone().try_into_primitive::<Flex>().ok().map(Input::Plain)
        }
    }
}

/// Runs an operation on the CPU, and records it if any input may need a gradient.
///
/// # Panics
///
/// When some inputs track gradients and others cannot, as ordinary operations do.
pub(crate) fn apply<O: Op<N>, const N: usize, const D: usize>(
    op: O,
    inputs: [Input; N],
) -> Tensor<D> {
    if inputs.iter().all(|input| matches!(input, Input::Plain(_))) {
        let inputs = inputs.map(|input| match input {
            Input::Plain(tensor) => Values::of(tensor),
            Input::Tracked(_) => unreachable!("all are plain"),
        });
        return Tensor::from_primitive::<Flex>(op.forward(inputs).0.0);
    }
    let inputs = inputs.map(|input| match input {
        Input::Tracked(tensor) => tensor,
        Input::Plain(_) => panic!("all inputs have to be on a device with gradients, or none"),
    });
    let nodes = inputs.each_ref().map(|input| input.node());
    let values = inputs.map(|input| Values::of(input.into_primitive()));
    let preparation = Adapter(op.clone()).prepare::<NoCheckpointing>(nodes).compute_bound();
    let output = match preparation.stateful() {
        OpsKind::Tracked(preparation) => {
            let (output, saved) = op.forward(values);
            preparation.finish(saved, output.0)
        }
        OpsKind::UnTracked(preparation) => preparation.finish(op.forward(values).0.0),
    };
    Tensor::from_primitive::<Tracking>(output)
}

/// An [`Op`] as Burn's autodiff wants it.
#[derive(Clone, Debug)]
struct Adapter<O>(O);

impl<O: Op<N>, const N: usize> Backward<Flex, N> for Adapter<O> {
    type State = O::Saved;

    fn backward(self, ops: Ops<Self::State, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = Values::of(gradients.consume::<Flex>(&ops.node));
        let needed = ops.parents.each_ref().map(Option::is_some);
        let results = self.0.backward(ops.state, gradient, needed);
        for (parent, result) in ops.parents.into_iter().zip(results) {
            if let (Some(parent), Some(result)) = (parent, result) {
                gradients.register::<Flex>(parent.id, result.0);
            }
        }
    }
}

/// The operands of an operation as [`Input`]s, or `None` if one of them is not on the CPU.
macro_rules! inputs {
    ($($tensor:expr),*) => {
        (|| Some([$(crate::ops::Input::of($tensor)?),*]))()
    };
}
pub(crate) use inputs;
