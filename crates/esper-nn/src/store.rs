//! Modules as safetensors: every parameter and running value under its path.

use std::collections::HashMap;

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Tensor, TensorData};
use safetensors::tensor::{Metadata, TensorView};
use safetensors::{Dtype, SafeTensorError, SafeTensors};

/// Why bytes do not give a module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The bytes are something else, or damaged.
    #[error("not a safetensors file: {0}")]
    Format(#[source] SafeTensorError),
    /// A tensor holds something else than floats.
    #[error("tensor {name} is {found}, not F32")]
    Type {
        /// Its path.
        name: String,
        /// The type it has, by the name safetensors gives it.
        found: String,
    },
    /// A tensor holds an infinity, or something that is not a number.
    #[error("tensor {name} holds {value}, which is not a finite number")]
    NotFinite {
        /// Its path.
        name: String,
        /// The first such value.
        value: f32,
    },
    /// A tensor has another shape than in the model.
    #[error("tensor {name} is {found:?}, the model's {expected:?}")]
    Shape {
        /// Its path.
        name: String,
        /// In the file.
        found: Vec<usize>,
        /// In the model.
        expected: Vec<usize>,
    },
    /// The file lacks a tensor that the model has.
    #[error("tensor {0} is missing")]
    Missing(String),
    /// The file has tensors that the model lacks.
    #[error("the model has {model} tensors, the file {file}")]
    Surplus {
        /// Tensors of the model.
        model: usize,
        /// Tensors of the file.
        file: usize,
    },
    /// An optimiser's file remembers a parameter that the model lacks.
    #[error("the model has no {0}")]
    Unknown(String),
    /// An optimiser's file has a number of steps that is none.
    #[error("the number of steps is damaged")]
    Steps,
}

/// All parameters and running values of a module as the bytes of a safetensors file. The same module gives the same bytes.
pub fn to_safetensors<M: Module>(module: &M) -> Vec<u8> {
    serialize(&collect(module), None)
}

/// As [`to_safetensors`], with a text in the file's metadata, under a key. [`metadata`] reads it again.
pub fn to_safetensors_with<M: Module>(module: &M, key: &str, text: &str) -> Vec<u8> {
    serialize(&collect(module), Some((key, text)))
}

/// The text that a file's metadata has under a key, if any.
pub fn metadata(bytes: &[u8], key: &str) -> Result<Option<String>, StoreError> {
    Ok(header(bytes)?.metadata().as_ref().and_then(|texts| texts.get(key).cloned()))
}

/// The number of floats in a file. Only its header is read, so that a file can be compared with a config's `parameters`
/// before a module of that size is made.
pub fn stored_numbers(bytes: &[u8]) -> Result<usize, StoreError> {
    let header = header(bytes)?;
    let mut numbers = 0;
    for (name, tensor) in header.tensors() {
        check_type(&name, tensor.dtype)?;
        // Cannot overflow: the bytes of all tensors are there.
        numbers += tensor.shape.iter().product::<usize>();
    }
    Ok(numbers)
}

/// Fills a module of the same configuration. All of its parameters have to be there, in the same shapes, and no others;
/// and all of their numbers have to be finite.
pub fn from_safetensors<M: Module>(module: M, bytes: &[u8]) -> Result<M, StoreError> {
    let tensors = deserialize(bytes)?;
    let mut loader = Loader { path: Vec::new(), tensors: &tensors, used: 0, problem: None };
    let module = module.map(&mut loader);
    match loader.problem {
        Some(problem) => Err(problem),
        None if loader.used < tensors.len() => {
            Err(StoreError::Surplus { model: loader.used, file: tensors.len() })
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

/// Named tensors as the bytes of a file, perhaps with one text.
pub(crate) fn serialize(tensors: &[Named], text: Option<(&str, &str)>) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|tensor| tensor.values.iter().flat_map(|value| value.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|(tensor, bytes)| {
        let view = TensorView::new(Dtype::F32, tensor.shape.clone(), bytes);
        (&tensor.name, view.expect("a tensor has as many numbers as its shape says"))
    });
    // One entry at most: several would stand in an order that changes from run to run.
    let texts = text.map(|(key, text)| HashMap::from([(key.to_owned(), text.to_owned())]));
    safetensors::serialize(views, texts).expect("memory can always be written to")
}

/// The tensors of a file, in the order of their names.
pub(crate) fn deserialize(bytes: &[u8]) -> Result<Vec<Named>, StoreError> {
    header(bytes)?;
    let tensors = SafeTensors::deserialize(bytes).map_err(StoreError::Format)?;
    let mut tensors = tensors.tensors();
    // A file with several problems has the same one first each time.
    tensors.sort_by(|(one, _), (other, _)| one.cmp(other));
    let named = |(name, tensor): (String, TensorView<'_>)| {
        check_type(&name, tensor.dtype())?;
        let (numbers, _) = tensor.data().as_chunks::<4>();
        let values: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        match values.iter().find(|value| !value.is_finite()) {
            Some(&value) => Err(StoreError::NotFinite { name, value }),
            None => Ok(Named { name, shape: tensor.shape().to_vec(), values }),
        }
    };
    tensors.into_iter().map(named).collect()
}

/// What a file says about its tensors, which are all there.
fn header(bytes: &[u8]) -> Result<Metadata, StoreError> {
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(StoreError::Format)?;
    // Safetensors adds up sizes that a damaged file can have chosen so that the sum wraps round.
    if header.data_len() > bytes.len() {
        return Err(StoreError::Format(SafeTensorError::MetadataIncompleteBuffer));
    }
    Ok(header)
}

fn check_type(name: &str, found: Dtype) -> Result<(), StoreError> {
    match found {
        Dtype::F32 => Ok(()),
        other => Err(StoreError::Type { name: name.to_owned(), found: other.to_string() }),
    }
}

fn collect<M: Module>(module: &M) -> Vec<Named> {
    let mut collector = Collector::default();
    module.visit(&mut collector);
    collector.found
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
    problem: Option<StoreError>,
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
                let (found, expected) = (tensor.shape.clone(), shape.to_vec());
                self.problem = Some(StoreError::Shape { name, found, expected });
                param
            }
            None => {
                self.problem = Some(StoreError::Missing(name));
                param
            }
        }
    }
}
