//! Errors as Python has them: the same words, in a class of `esper.errors`.

use std::io::ErrorKind;

use esper_data::DataError as Data;
use esper_eval::EvalError as Eval;
use esper_report::ReportError;
use pyo3::PyErr;
use pyo3::exceptions::PyKeyboardInterrupt;

/// The classes; Python's half defines them, because most are of two kinds.
mod classes {
    pyo3::import_exception!(esper.errors, EsperError);
    pyo3::import_exception!(esper.errors, DataError);
    pyo3::import_exception!(esper.errors, FileError);
    pyo3::import_exception!(esper.errors, MissingFileError);
    pyo3::import_exception!(esper.errors, SettingsError);
    pyo3::import_exception!(esper.errors, RunError);
    pyo3::import_exception!(esper.errors, BusyError);
    pyo3::import_exception!(esper.errors, PolicyError);
    pyo3::import_exception!(esper.errors, WorldError);
}

/// What an error is about.
#[derive(Clone, Copy)]
enum Kind {
    Any,
    Data,
    File,
    MissingFile,
    Settings,
    Run,
    Busy,
    Policy,
    World,
    Stopped,
}

impl Kind {
    fn error(self, words: String) -> PyErr {
        match self {
            Kind::Any => classes::EsperError::new_err(words),
            Kind::Data => classes::DataError::new_err(words),
            Kind::File => classes::FileError::new_err(words),
            Kind::MissingFile => classes::MissingFileError::new_err(words),
            Kind::Settings => classes::SettingsError::new_err(words),
            Kind::Run => classes::RunError::new_err(words),
            Kind::Busy => classes::BusyError::new_err(words),
            Kind::Policy => classes::PolicyError::new_err(words),
            Kind::World => classes::WorldError::new_err(words),
            Kind::Stopped => PyKeyboardInterrupt::new_err(words),
        }
    }
}

fn of_io(error: &std::io::Error) -> Kind {
    match error.kind() {
        ErrorKind::NotFound => Kind::MissingFile,
        _ => Kind::File,
    }
}

fn of_data(error: &Data) -> Kind {
    match error {
        Data::Io { source, .. } => of_io(source),
        Data::NoFolder(_) => Kind::MissingFile,
        Data::Locked { .. } => Kind::Busy,
        Data::Exists(_) | Data::NotAFile(_) | Data::NotWritten { .. } => Kind::File,
        Data::Stopped => Kind::Stopped,
        _ => Kind::Data,
    }
}

fn of_learning(error: &esper::Error) -> Kind {
    use esper::Error;
    match error {
        Error::Unsuitable(_) => Kind::Data,
        Error::Config(_) | Error::Settings { .. } | Error::Unknown { .. } | Error::Device(_) => {
            Kind::Settings
        }
        Error::Stopped => Kind::Stopped,
        Error::Acting(_) | Error::Export(_) | Error::PolicyFile { .. } | Error::Store(_) => {
            Kind::Policy
        }
        Error::Run(_) | Error::RunExists(_) | Error::Damaged { .. } => Kind::Run,
        Error::Io { source, .. } => of_io(source),
        Error::Data(error) => of_data(error),
        _ => Kind::Any,
    }
}

fn of_eval(error: &Eval) -> Kind {
    match error {
        Eval::Learning(error) => of_learning(error),
        Eval::Run { source, .. } => of_eval(source),
        Eval::World(_) | Eval::Collect(_) => Kind::World,
        Eval::Options(_) | Eval::Asked(_) => Kind::Settings,
        Eval::Data(error) => of_data(error),
        Eval::Folder { source, .. } => of_io(source),
        Eval::Mismatch(_) => Kind::Policy,
        Eval::Stopped => Kind::Stopped,
        _ => Kind::Run,
    }
}

/// Anything that has words and belongs to one of the classes.
pub(crate) trait IntoPython {
    /// The exception.
    fn raise(self) -> PyErr;
}

impl IntoPython for Data {
    fn raise(self) -> PyErr {
        of_data(&self).error(self.to_string())
    }
}

impl IntoPython for esper::Error {
    fn raise(self) -> PyErr {
        of_learning(&self).error(self.to_string())
    }
}

impl IntoPython for Eval {
    fn raise(self) -> PyErr {
        of_eval(&self).error(self.to_string())
    }
}

impl IntoPython for ReportError {
    fn raise(self) -> PyErr {
        Kind::Run.error(self.to_string())
    }
}

impl IntoPython for esper_tasks::WorldError {
    fn raise(self) -> PyErr {
        Kind::World.error(self.to_string())
    }
}

impl IntoPython for esper_tasks::TaskError {
    fn raise(self) -> PyErr {
        Kind::Settings.error(self.to_string())
    }
}

impl IntoPython for esper_tasks::OptionsError {
    fn raise(self) -> PyErr {
        Kind::Settings.error(self.to_string())
    }
}

/// Data that makes no sense.
pub(crate) fn wrong_data(words: impl Into<String>) -> PyErr {
    Kind::Data.error(words.into())
}

/// Something was asked for that makes no sense.
pub(crate) fn wrong_settings(words: impl Into<String>) -> PyErr {
    Kind::Settings.error(words.into())
}

/// A policy was asked for something that makes no sense.
pub(crate) fn wrong_policy(words: impl Into<String>) -> PyErr {
    Kind::Policy.error(words.into())
}
