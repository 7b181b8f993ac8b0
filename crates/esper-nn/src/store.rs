//! Modules as safetensors: every parameter and running value under its path.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};

/// Why bytes do not give a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(String);

impl StoreError {
    pub(crate) fn new(problem: &str) -> Self {
        StoreError(problem.to_owned())
    }
}

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl std::error::Error for StoreError {}

/// All parameters and running values of a module as the bytes of a safetensors file. The same module gives the same bytes.
pub fn to_safetensors<M: Module>(module: &M) -> Vec<u8> {
    let mut collector = Collector::default();
    module.visit(&mut collector);
    serialize(&collector.found)
}

/// Fills a module of the same configuration. All of its parameters have to be there, in the same shapes, and no others.
pub fn from_safetensors<M: Module>(module: M, bytes: &[u8]) -> Result<M, StoreError> {
    let tensors = deserialize(bytes)?;
    let mut loader = Loader { path: Vec::new(), tensors: &tensors, used: 0, problem: None };
    let module = module.map(&mut loader);
    match loader.problem {
        Some(problem) => Err(StoreError(problem)),
        None if loader.used < tensors.len() => {
            let (used, all) = (loader.used, tensors.len());
            Err(StoreError(format!("the model has {used} tensors, the file {all}")))
        }
        None => Ok(module),
    }
}

/// A tensor with its name.
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

/// Named tensors as the bytes of a file.
pub(crate) fn serialize(tensors: &[Named]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|(tensor, bytes)| {
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), bytes);
        (&tensor.name, view.expect("a tensor has as many numbers as its shape says"))
    });
    // Without metadata, whose entries would stand in an order that changes from run to run.
    safetensors::serialize(views, None).expect("memory can always be written to")
}

/// The tensors of a file.
pub(crate) fn deserialize(bytes: &[u8]) -> Result<Vec<Named>, StoreError> {
    let tensors = SafeTensors::deserialize(bytes)
        .map_err(|error| StoreError(format!("not a safetensors file: {error}")))?;
    let named = |(name, tensor): (String, TensorView<'_>)| {
        if tensor.dtype() != Dtype::F32 {
            return Err(StoreError(format!("tensor {name} is {:?}, not F32", tensor.dtype())));
        }
        let (numbers, _) = tensor.data().as_chunks::<4>();
        let values = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(Named { name, shape: tensor.shape().to_vec(), values })
    };
    tensors.tensors().into_iter().map(named).collect()
}

#[derive(Default)]
struct Collector {
    path: Vec<String>,
    found: Vec<Named>,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let tensor = param.val();
        self.found.push(Named {
            name: self.path.join("."),
            shape: tensor.dims().to_vec(),
            values: tensor.into_data().try_to_vec().expect("parameters are floats"),
        });
    }
}

struct Loader<'a> {
    path: Vec<String>,
    tensors: &'a [Named],
    used: usize,
    problem: Option<String>,
}

impl ModuleMapper for Loader<'_> {
    fn enter_module(&mut self, name: &str, _: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _: &str, _: &str) {
        self.path.pop();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let name = self.path.join(".");
        let shape = param.val().dims();
        match self.tensors.iter().find(|tensor| tensor.name == name) {
            Some(tensor) if tensor.shape == shape => {
                self.used += 1;
                param.map(|old| {
                    let data = TensorData::new(tensor.values.clone(), shape);
                    let new = Tensor::from_data(data, &old.device());
                    new.set_require_grad(old.is_require_grad())
                })
            }
            Some(tensor) => {
                let found = &tensor.shape;
                self.problem = Some(format!("tensor {name} is {found:?}, the model's {shape:?}"));
                param
            }
            None => {
                self.problem = Some(format!("tensor {name} is missing"));
                param
            }
        }
    }
}
