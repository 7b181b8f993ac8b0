//! A trained player: a small network that was learned elsewhere and is only asked here.

use esper_data::{Cells, CellsRef, Rng, Space, draw_softmax, draw_squashed};
use safetensors::{Dtype, SafeTensorError, SafeTensors};

use crate::behaviour::Behaviour;
use crate::world::{Spaces, WorldError};

/// A player that draws its action from what its network says of the observation.
///
/// The network is layers of `x · W + b`, cut at zero between them, from the features of an observation to one logit
/// an action; or, for real-valued actions within bounds, to the means and the logarithms of the deviations of a squashed
/// Gaussian. `esper expert` makes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Expert {
    observation: Space,
    layers: Vec<Layer>,
    /// The bounds of real-valued actions; empty for a choice among actions.
    bounds: Vec<[f32; 2]>,
}

#[derive(Clone, Debug, PartialEq)]
struct Layer {
    /// `[inputs, outputs]`
    weight: Vec<f32>,
    bias: Vec<f32>,
}

/// Why bytes are no expert.
#[derive(Debug, thiserror::Error)]
#[error("this is no expert for the task: {problem}")]
pub struct ExpertError {
    problem: String,
    #[source]
    source: Option<SafeTensorError>,
}

impl ExpertError {
    fn new(problem: impl Into<String>) -> Self {
        ExpertError { problem: problem.into(), source: None }
    }
}

impl Expert {
    /// The expert in a safetensors file, for a task with these spaces.
    pub fn from_safetensors(bytes: &[u8], spaces: &Spaces) -> Result<Self, ExpertError> {
        let Spaces { observation, action } = spaces;
        let (outputs, bounds) = match action {
            Space::Discrete { .. } => (action.features(), Vec::new()),
            Space::Box { bounds: Some(bounds), .. } => (2 * action.cells(), bounds.clone()),
            _ => {
                return Err(ExpertError::new(format!(
                    "it chooses among actions, or draws numbers within bounds; the task has {action}"
                )));
            }
        };
        let tensors = SafeTensors::deserialize(bytes)
            .map_err(|error| ExpertError { problem: error.to_string(), source: Some(error) })?;
        let hidden = (0..).map(|layer| format!("hidden.{layer}.linear"));
        let mut names: Vec<String> =
            hidden.take_while(|name| tensors.tensor(&format!("{name}.weight")).is_ok()).collect();
        names.push("output".to_owned());
        if tensors.len() != 2 * names.len() {
            return Err(ExpertError::new("it holds other things than its layers"));
        }
        let mut layers = Vec::new();
        let mut inputs = observation.features();
        for name in names {
            let layer = Layer::of(&tensors, &name, inputs)?;
            inputs = layer.bias.len();
            layers.push(layer);
        }
        if inputs != outputs {
            return Err(ExpertError::new(format!(
                "its network puts out {inputs} numbers, where {outputs} are needed for {action}"
            )));
        }
        Ok(Expert { observation: observation.clone(), layers, bounds })
    }

    /// What its network puts out.
    fn outputs(&self, observation: CellsRef<'_>) -> Vec<f32> {
        let mut numbers = vec![0.0; self.observation.features()];
        self.observation.encode(observation, 0, &mut numbers);
        for (at, layer) in self.layers.iter().enumerate() {
            let last = at + 1 == self.layers.len();
            numbers = layer.apply(&numbers, !last);
        }
        numbers
    }
}

impl Layer {
    fn of(tensors: &SafeTensors<'_>, name: &str, inputs: usize) -> Result<Self, ExpertError> {
        let read = |part: &str, shape: &[usize]| {
            let name = format!("{name}.{part}");
            let missing = |_| ExpertError::new(format!("{name} is missing"));
            let tensor = tensors.tensor(&name).map_err(missing)?;
            if tensor.dtype() != Dtype::F32 || !tensor.shape().starts_with(shape) {
                return Err(ExpertError::new(format!(
                    "{name} is {:?} of {:?}, expected F32 of {shape:?}",
                    tensor.dtype(),
                    tensor.shape()
                )));
            }
            let numbers = tensor.data().as_chunks::<4>().0.iter();
            let numbers: Vec<f32> = numbers.map(|bytes| f32::from_le_bytes(*bytes)).collect();
            match numbers.iter().all(|number| number.is_finite()) {
                true => Ok(numbers),
                false => Err(ExpertError::new(format!("{name} holds numbers that are not finite"))),
            }
        };
        let bias = read("bias", &[])?;
        let weight = read("weight", &[inputs, bias.len()])?;
        if bias.is_empty() || weight.len() != inputs * bias.len() {
            return Err(ExpertError::new(format!("{name} is no layer")));
        }
        Ok(Layer { weight, bias })
    }

    fn apply(&self, numbers: &[f32], cut_at_zero: bool) -> Vec<f32> {
        let mut sums = self.bias.clone();
        for (&number, weights) in numbers.iter().zip(self.weight.chunks_exact(sums.len())) {
            // Most features are zero, and about half of what was cut at zero.
            if number != 0.0 {
                sums.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += number * weight);
            }
        }
        if cut_at_zero {
            sums.iter_mut().for_each(|sum| *sum = sum.max(0.0));
        }
        sums
    }
}

impl Behaviour for Expert {
    fn act(
        &self,
        observation: CellsRef<'_>,
        rng: &mut Rng,
        action: &mut Cells,
    ) -> Result<(), WorldError> {
        let outputs = self.outputs(observation);
        match action {
            Cells::Float(numbers) => draw_squashed(&outputs, &self.bounds, rng, numbers),
            action => action.push_category(draw_softmax(&outputs, rng)),
        }
        Ok(())
    }
}
