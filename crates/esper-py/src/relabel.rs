//! Relabellers from Python: a function of the data, or a column.

use std::sync::{Arc, Mutex, PoisonError};

use esper::Error;
use esper::methods::{About, Context, Findings, Labels, Relabel};
use esper::settings::Config;
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

use crate::dataset::Dataset;

/// What somebody in Python makes labels with.
pub(crate) struct PythonLabels {
    name: String,
    source: Source,
    /// What a function raised: it is raised again where everything was called.
    raised: Raised,
}

/// An exception on its way through code that knows nothing of Python.
pub(crate) type Raised = Arc<Mutex<Option<PyErr>>>;

enum Source {
    /// Given a data set, gives one label a step.
    Function(Py<PyAny>),
    /// One label a step of the data that it was given for.
    Column(Vec<f32>),
}

impl PythonLabels {
    /// A function, if it can be called, or a column.
    pub(crate) fn new(name: String, source: &Bound<'_, PyAny>, raised: Raised) -> PyResult<Self> {
        let source = match source.is_callable() {
            true => Source::Function(source.clone().unbind()),
            false => Source::Column(column(source)?),
        };
        Ok(PythonLabels { name, source, raised })
    }

    fn call(&self, function: &Py<PyAny>, data: &esper_data::Dataset) -> Result<Vec<f32>, Error> {
        let called = Python::attach(|py| {
            let data = Dataset { data: data.clone() };
            column(function.call1(py, (data,))?.bind(py))
        });
        called.map_err(|error| {
            let words = format!("{}: {error}", self.name);
            *self.raised.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            Error::Unsuitable(words)
        })
    }

    fn fits(&self, found: usize, steps: usize) -> Result<(), Error> {
        match found == steps {
            true => Ok(()),
            false => Err(Error::Unsuitable(format!(
                "{}: there are {found} labels for {steps} steps; there has to be one a step, in the order of the data",
                self.name
            ))),
        }
    }
}

/// Numbers of whatever NumPy makes a column of.
fn column(values: &Bound<'_, PyAny>) -> PyResult<Vec<f32>> {
    let numpy = values.py().import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (values, "float32"))?;
    let array: PyReadonlyArray1<'_, f32> = array.call_method0("ravel")?.extract()?;
    Ok(array.as_slice()?.to_vec())
}

impl Relabel for PythonLabels {
    fn about(&self) -> About {
        About::new(self.name.as_str()).summed_up("takes its labels from Python")
    }

    fn identity(&self) -> Result<Option<String>, Error> {
        Ok(match &self.source {
            Source::Function(_) => None,
            Source::Column(labels) => {
                let bytes: Vec<u8> = labels.iter().flat_map(|label| label.to_le_bytes()).collect();
                Some(format!("labels with checksum {:08x}", crc32fast::hash(&bytes)))
            }
        })
    }

    fn check(&self, data: &esper_data::Dataset, _: &Config) -> Result<(), Error> {
        match &self.source {
            Source::Function(_) => Ok(()),
            Source::Column(labels) => self.fits(labels.len(), data.steps()),
        }
    }

    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error> {
        let data = context.data;
        let by_step = match &self.source {
            Source::Function(function) => self.call(function, data)?,
            Source::Column(labels) => labels.clone(),
        };
        self.fits(by_step.len(), data.steps())?;
        let mut values = vec![0.0; data.rows()];
        for (row, label) in data.step_rows().zip(by_step) {
            values[row] = label;
        }
        let calibration = Some(context.calibration(&values));
        let findings = Findings { calibration, ..Findings::default() };
        Ok(Labels { findings, ..Labels::new(values) })
    }
}
