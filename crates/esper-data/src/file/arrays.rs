//! From arrow's arrays, whichever way a writer chose to keep numbers and strings, to our columns.

use std::fmt;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, GenericListArray, OffsetSizeTrait};
use arrow_schema::DataType;

use crate::cells::Cells;
use crate::space::Space;

/// What is wrong with a batch of rows, and where in it.
pub(crate) struct Problem {
    pub(crate) column: &'static str,
    pub(crate) row: Option<usize>,
    pub(crate) what: String,
}

impl Problem {
    pub(super) fn new(
        column: &'static str,
        row: impl Into<Option<usize>>,
        what: impl Into<String>,
    ) -> Self {
        Problem { column, row: row.into(), what: what.into() }
    }
}

/// The first empty (null) element.
pub(crate) fn first_null(array: &ArrayRef) -> Option<usize> {
    // Nearly always there are none, which an array knows: to ask for every element takes as long as to read it.
    match array.null_count() {
        0 => None,
        _ => (0..array.len()).find(|&at| array.is_null(at)),
    }
}

/// Appends the cells of a column of observations or actions.
pub(super) fn values(
    name: &'static str,
    space: &Space,
    array: &ArrayRef,
    to: &mut Cells,
) -> Result<(), Problem> {
    if matches!(space, Space::Discrete { .. }) {
        return cells(name, array, to);
    }
    lists(name, array, space.cells(), space, to)
}

/// Appends the cells of a column of lists, which all have to have `width` of them, as `owner` has.
pub(super) fn lists(
    name: &'static str,
    array: &ArrayRef,
    width: usize,
    owner: &dyn fmt::Display,
    to: &mut Cells,
) -> Result<(), Problem> {
    let elements = if let Some(list) = array.as_fixed_size_list_opt() {
        list.values().slice(list.value_offset_at(0), list.len() * width)
    } else {
        let list_cells = match array.as_list_opt::<i32>() {
            Some(list) => list_cells(list, width),
            None => list_cells(array.as_list::<i64>(), width),
        };
        list_cells.map_err(|(row, found)| {
            Problem::new(name, row, format!("has {found} cells; {owner} has {width}"))
        })?
    };
    match first_null(&elements) {
        None => cells(name, &elements, to)
            .map_err(|problem| Problem { row: problem.row.map(|cell| cell / width), ..problem }),
        Some(cell) => Err(Problem::new(name, cell / width, "has an empty (null) cell")),
    }
}

/// The number of elements in the first row of a column of lists; 0 when there are no rows.
pub(super) fn list_width(array: &ArrayRef) -> usize {
    if let Some(list) = array.as_fixed_size_list_opt() {
        list.value_length() as usize
    } else if let Some(list) = array.as_list_opt::<i32>() {
        list.offsets().lengths().next().unwrap_or(0)
    } else {
        array.as_list::<i64>().offsets().lengths().next().unwrap_or(0)
    }
}

/// The elements of all rows, or the first row that has another number of them than `width`.
fn list_cells<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    width: usize,
) -> Result<ArrayRef, (usize, usize)> {
    match list.offsets().lengths().enumerate().find(|&(_, found)| found != width) {
        Some(wrong) => Err(wrong),
        None => Ok(list.values().slice(list.value_offsets()[0].as_usize(), list.len() * width)),
    }
}

/// Appends a flat array to a column of cells.
fn cells(name: &'static str, array: &ArrayRef, to: &mut Cells) -> Result<(), Problem> {
    match to {
        Cells::Byte(to) => match array.as_primitive_opt::<UInt8Type>() {
            Some(bytes) => to.extend_from_slice(bytes.values()),
            None => integers(name, array, to)?,
        },
        Cells::Short(to) => integers(name, array, to)?,
        Cells::Float(to) => floats(name, array, to)?,
    }
    Ok(())
}

/// Appends an array of any integer type, refusing what does not fit.
pub(crate) fn integers<T: TryFrom<i64>>(
    name: &'static str,
    array: &ArrayRef,
    to: &mut Vec<T>,
) -> Result<(), Problem> {
    fn convert<A: ArrowPrimitiveType, T: TryFrom<i64>>(
        name: &'static str,
        array: &ArrayRef,
        to: &mut Vec<T>,
    ) -> Result<(), Problem>
    where
        A::Native: TryInto<i64> + std::fmt::Display,
    {
        for (row, &value) in array.as_primitive::<A>().values().iter().enumerate() {
            let fitting = value.try_into().ok().and_then(|value: i64| T::try_from(value).ok());
            let out_of_range = || Problem::new(name, row, format!("{value} is out of range"));
            to.push(fitting.ok_or_else(out_of_range)?);
        }
        Ok(())
    }
    match array.data_type() {
        DataType::UInt8 => convert::<UInt8Type, T>(name, array, to),
        DataType::UInt16 => convert::<UInt16Type, T>(name, array, to),
        DataType::UInt32 => convert::<UInt32Type, T>(name, array, to),
        DataType::UInt64 => convert::<UInt64Type, T>(name, array, to),
        DataType::Int8 => convert::<Int8Type, T>(name, array, to),
        DataType::Int16 => convert::<Int16Type, T>(name, array, to),
        DataType::Int32 => convert::<Int32Type, T>(name, array, to),
        DataType::Int64 => convert::<Int64Type, T>(name, array, to),
        other => Err(Problem::new(name, None, format!("holds {other}, not integers"))),
    }
}

/// Appends an array of any numeric type as floats.
pub(crate) fn floats(
    name: &'static str,
    array: &ArrayRef,
    to: &mut Vec<f32>,
) -> Result<(), Problem> {
    if let Some(array) = array.as_primitive_opt::<Float32Type>() {
        to.extend_from_slice(array.values());
    } else if let Some(array) = array.as_primitive_opt::<Float64Type>() {
        to.extend(array.values().iter().map(|&value| value as f32));
    } else if let Some(array) = array.as_primitive_opt::<Float16Type>() {
        to.extend(array.values().iter().map(|&value| f32::from(value)));
    } else {
        let mut values: Vec<i64> = Vec::new();
        integers(name, array, &mut values)?;
        to.extend(values.into_iter().map(|value| value as f32));
    }
    Ok(())
}

/// Appends an array of any integer type, or of floats that are whole: some programs count in those.
pub(super) fn whole_numbers(
    name: &'static str,
    array: &ArrayRef,
    to: &mut Vec<i64>,
) -> Result<(), Problem> {
    if !array.data_type().is_floating() {
        return integers(name, array, to);
    }
    // Whatever a float cannot hold exactly is beyond any number of episodes.
    let mut values = Vec::new();
    match array.as_primitive_opt::<Float64Type>() {
        Some(array) => values.extend_from_slice(array.values()),
        None => {
            let mut narrow = Vec::new();
            floats(name, array, &mut narrow)?;
            values.extend(narrow.into_iter().map(f64::from));
        }
    }
    for (row, value) in values.into_iter().enumerate() {
        if value.fract() != 0.0 || value.abs() > 2f64.powi(53) {
            return Err(Problem::new(name, row, format!("{value} is not a whole number")));
        }
        to.push(value as i64);
    }
    Ok(())
}

/// Looks strings up by row, whichever way they are kept. `None` if the array holds others than strings.
pub(super) fn strings<'a>(array: &'a ArrayRef) -> Option<Box<dyn Fn(usize) -> &'a str + 'a>> {
    Some(match array.data_type() {
        DataType::Utf8 => Box::new(|row| array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Box::new(|row| array.as_string::<i64>().value(row)),
        DataType::Utf8View => Box::new(|row| array.as_string_view().value(row)),
        DataType::Dictionary(_, _) if array.is_empty() => Box::new(|_| ""),
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let keys = dictionary.normalized_keys();
            let values = strings(dictionary.values())?;
            Box::new(move |row| values(keys[row]))
        }
        _ => return None,
    })
}
