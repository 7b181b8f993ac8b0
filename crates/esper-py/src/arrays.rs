//! NumPy's arrays and our cells.

use esper_data::{CellType, Cells, CellsRef, Space};
use numpy::{
    Element, PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::prelude::*;

use crate::errors::wrong_data;

/// Cells of a space with the shape that they came in.
pub(crate) struct Shaped {
    pub(crate) cells: Cells,
    pub(crate) shape: Vec<usize>,
}

/// The cells of a number, an array or whatever NumPy makes an array of.
pub(crate) fn shaped(value: &Bound<'_, PyAny>, wanted: CellType) -> PyResult<Shaped> {
    if let Ok(array) = value.cast::<PyUntypedArray>() {
        return Ok(Shaped { shape: array.shape().to_vec(), cells: cells(array, wanted)? });
    }
    if wanted == CellType::Float {
        if let Ok(number) = value.extract::<f64>() {
            return Ok(Shaped { cells: Cells::Float(vec![number as f32]), shape: Vec::new() });
        }
    } else if let Ok(number) = value.extract::<i64>() {
        let mut cells = Cells::empty(wanted);
        cells.push_category(category(number as f64, wanted)?);
        return Ok(Shaped { cells, shape: Vec::new() });
    }
    let array = value.py().import("numpy")?.call_method1("asarray", (value,))?;
    let array = array.cast_into::<PyUntypedArray>()?;
    Ok(Shaped { shape: array.shape().to_vec(), cells: cells(&array, wanted)? })
}

/// A category that fits a type of cells.
fn category(number: f64, wanted: CellType) -> PyResult<usize> {
    let most = if wanted == CellType::Byte { 255.0 } else { 65_535.0 };
    if number.fract() == 0.0 && (0.0..=most).contains(&number) {
        return Ok(number as usize);
    }
    Err(wrong_data(format!("{number} is no category: whole numbers from 0 to {most} are")))
}

/// The cells of an array, in C's order, as a type of cells.
fn cells(array: &Bound<'_, PyUntypedArray>, wanted: CellType) -> PyResult<Cells> {
    fn read<'py, T: Element>(
        array: &Bound<'py, PyUntypedArray>,
    ) -> Option<PyReadonlyArrayDyn<'py, T>> {
        array.cast::<PyArrayDyn<T>>().ok()?.try_readonly().ok()
    }
    macro_rules! of {
        ($($number:ty),*) => {$(
            if let Some(array) = read::<$number>(array) {
                return converted(array.as_array().iter().map(|&number| number as f64), wanted);
            }
        )*};
    }
    // What is stored as we do is taken as it is.
    if wanted == CellType::Byte
        && let Some(array) = read::<u8>(array)
    {
        return Ok(Cells::Byte(array.as_array().iter().copied().collect()));
    }
    if wanted == CellType::Short
        && let Some(array) = read::<u16>(array)
    {
        return Ok(Cells::Short(array.as_array().iter().copied().collect()));
    }
    if wanted == CellType::Float
        && let Some(array) = read::<f32>(array)
    {
        return Ok(Cells::Float(array.as_array().iter().copied().collect()));
    }
    of!(i64, f64, f32, u8, i32, u16, u32, i16, i8, u64);
    if let Some(array) = read::<bool>(array) {
        return converted(array.as_array().iter().map(|&truth| f64::from(u8::from(truth))), wanted);
    }
    let found = array.dtype().str().map_or_else(|_| "unknown".to_owned(), |name| name.to_string());
    Err(wrong_data(format!("an array of type {found}, which holds no numbers")))
}

fn converted(numbers: impl Iterator<Item = f64>, wanted: CellType) -> PyResult<Cells> {
    Ok(match wanted {
        CellType::Float => Cells::Float(numbers.map(|number| number as f32).collect()),
        CellType::Byte => Cells::Byte(
            numbers.map(|number| Ok(category(number, wanted)? as u8)).collect::<PyResult<_>>()?,
        ),
        CellType::Short => Cells::Short(
            numbers.map(|number| Ok(category(number, wanted)? as u16)).collect::<PyResult<_>>()?,
        ),
    })
}

/// An array that is stored as cells are, without a copy.
pub(crate) enum Borrowed<'py> {
    Byte(PyReadonlyArrayDyn<'py, u8>),
    Short(PyReadonlyArrayDyn<'py, u16>),
    Float(PyReadonlyArrayDyn<'py, f32>),
}

impl<'py> Borrowed<'py> {
    /// Looks at a contiguous array of `uint8`, `uint16` or `float32`.
    pub(crate) fn of(value: &Bound<'py, PyAny>) -> PyResult<Self> {
        if let Ok(array) = value.cast::<PyArrayDyn<u8>>() {
            return Ok(Borrowed::Byte(array.readonly()));
        }
        if let Ok(array) = value.cast::<PyArrayDyn<u16>>() {
            return Ok(Borrowed::Short(array.readonly()));
        }
        if let Ok(array) = value.cast::<PyArrayDyn<f32>>() {
            return Ok(Borrowed::Float(array.readonly()));
        }
        Err(wrong_data("cells are uint8, uint16 or float32"))
    }

    /// The cells.
    pub(crate) fn cells(&self) -> PyResult<CellsRef<'_>> {
        Ok(match self {
            Borrowed::Byte(array) => CellsRef::Byte(array.as_slice()?),
            Borrowed::Short(array) => CellsRef::Short(array.as_slice()?),
            Borrowed::Float(array) => CellsRef::Float(array.as_slice()?),
        })
    }
}

/// The shape of one value of a space: that of Gymnasium's.
pub(crate) fn shape_of(space: &Space) -> Vec<usize> {
    match space {
        Space::Discrete { .. } => Vec::new(),
        Space::MultiBinary { shape } | Space::Box { shape, .. } => shape.clone(),
        Space::MultiDiscrete { .. } | Space::Tuple { .. } => vec![space.cells()],
    }
}

/// Cells as an array `[…rows, …shape]`, of the type that they are stored in.
pub(crate) fn array<'py>(
    py: Python<'py>,
    cells: Cells,
    rows: Option<usize>,
    space: &Space,
) -> PyResult<Bound<'py, PyAny>> {
    let shape: Vec<usize> = rows.into_iter().chain(shape_of(space)).collect();
    fn reshaped<'py, T: Element>(
        array: Bound<'py, PyArray1<T>>,
        shape: Vec<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(array.reshape(shape)?.into_any())
    }
    match cells {
        Cells::Byte(cells) => reshaped(PyArray1::from_vec(py, cells), shape),
        Cells::Short(cells) => reshaped(PyArray1::from_vec(py, cells), shape),
        Cells::Float(cells) => reshaped(PyArray1::from_vec(py, cells), shape),
    }
}
