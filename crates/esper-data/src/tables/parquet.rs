//! Parquet files of any program, and Arrow's arrays in memory: their columns, and values by row whichever way they are kept.

use std::borrow::Cow;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Date64Type, Decimal128Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, Schema, TimeUnit};

use super::value::Value;
use crate::calendar::SECONDS_OF_A_DAY;
use crate::error::DataError;
use crate::file::ParquetSource;

/// A column of a file: a root, a way through structures, and an element of a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Leaf {
    pub(super) name: String,
    root: usize,
    path: Vec<usize>,
    /// The name of the list, the element, and how many there are.
    pub(super) list: Option<(String, usize, usize)>,
    /// What cannot be read, as arrow calls its type.
    pub(super) unreadable: Option<String>,
}

/// The columns of a file.
pub(super) fn leaves(path: &Path) -> Result<Vec<Leaf>, DataError> {
    let source = ParquetSource::open(path)?;
    leaves_of(source.schema(), &|root, path| {
        first_width(source.batches(&[root])?.map(|batch| Ok(batch?.column(0).clone())), path)
    })
}

/// The columns of what is in memory.
pub(super) fn leaves_in(schema: &Schema, batches: &[RecordBatch]) -> Result<Vec<Leaf>, DataError> {
    leaves_of(schema, &|root, path| {
        first_width(batches.iter().map(|batch| Ok(batch.column(root).clone())), path)
    })
}

/// Finds out how many elements the lists of a root have that are at the end of a path.
type Widths<'a> = dyn Fn(usize, &[usize]) -> Result<usize, DataError> + 'a;

fn leaves_of(schema: &Schema, widths: &Widths<'_>) -> Result<Vec<Leaf>, DataError> {
    let mut found = Vec::new();
    for (root, field) in schema.fields().iter().enumerate() {
        add_leaves(widths, root, Vec::new(), field.name().clone(), field.data_type(), &mut found)?;
    }
    Ok(found)
}

fn add_leaves(
    widths: &Widths<'_>,
    root: usize,
    path: Vec<usize>,
    name: String,
    data_type: &DataType,
    found: &mut Vec<Leaf>,
) -> Result<(), DataError> {
    let leaf = |name, list, unreadable| Leaf { name, root, path: path.clone(), list, unreadable };
    match data_type {
        DataType::Struct(fields) => {
            for (at, field) in fields.iter().enumerate() {
                let path = path.iter().copied().chain([at]).collect();
                let name = format!("{name}.{}", field.name());
                add_leaves(widths, root, path, name, field.data_type(), found)?;
            }
        }
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)
            if is_readable(item.data_type()) =>
        {
            let width = match data_type {
                DataType::FixedSizeList(_, width) => *width as usize,
                _ => widths(root, &path)?,
            };
            for element in 0..width.max(1) {
                let list = Some((name.clone(), element, width));
                found.push(leaf(format!("{name}_{element}"), list, None));
            }
        }
        data_type if is_readable(data_type) => found.push(leaf(name, None, None)),
        other => found.push(leaf(name, None, Some(other.to_string()))),
    }
    Ok(())
}

/// How many elements the first list has that is not null; 0 if there is none.
fn first_width(
    columns: impl Iterator<Item = Result<ArrayRef, DataError>>,
    path: &[usize],
) -> Result<usize, DataError> {
    for column in columns {
        let column = column?;
        let arrays = along(&column, path);
        let Some(list) = arrays.last() else { continue };
        for row in 0..list.len() {
            if arrays.iter().all(|array| array.is_valid(row)) {
                return Ok(width_of(list, row));
            }
        }
    }
    Ok(0)
}

/// The arrays on the way to a leaf, itself last.
fn along<'a>(array: &'a ArrayRef, path: &[usize]) -> Vec<&'a ArrayRef> {
    let mut arrays = vec![array];
    for &at in path {
        let last = arrays[arrays.len() - 1];
        match last.as_struct_opt().and_then(|parent| parent.columns().get(at)) {
            Some(child) => arrays.push(child),
            None => break,
        }
    }
    arrays
}

fn width_of(list: &ArrayRef, row: usize) -> usize {
    match list.data_type() {
        DataType::FixedSizeList(_, width) => *width as usize,
        DataType::List(_) => list.as_list::<i32>().value_length(row) as usize,
        _ => list.as_list::<i64>().value_length(row) as usize,
    }
}

/// Where the elements of a list begin among those of all.
fn offset_of(list: &ArrayRef, row: usize) -> usize {
    match list.data_type() {
        DataType::FixedSizeList(_, _) => list.as_fixed_size_list().value_offset_at(row),
        DataType::List(_) => list.as_list::<i32>().value_offsets()[row] as usize,
        _ => list.as_list::<i64>().value_offsets()[row] as usize,
    }
}

fn elements(list: &ArrayRef) -> &ArrayRef {
    match list.data_type() {
        DataType::FixedSizeList(_, _) => list.as_fixed_size_list().values(),
        DataType::List(_) => list.as_list::<i32>().values(),
        _ => list.as_list::<i64>().values(),
    }
}

fn is_readable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_readable(values),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Boolean | DataType::Null | DataType::Date32 | DataType::Date64 => true,
        DataType::Timestamp(_, _) | DataType::Decimal128(_, _) => true,
        other => other.is_integer() || other.is_floating(),
    }
}

/// A look at a column of a batch by row.
type Look<'a> = Box<dyn Fn(usize) -> Value<'a> + 'a>;

/// Values of a batch, column by column: one a leaf, or the row in which a list has another number of elements.
pub(super) fn columns<'a>(
    batch: &'a RecordBatch,
    roots: &[usize],
    leaves: &[&Leaf],
) -> Result<Vec<Look<'a>>, (usize, String)> {
    leaves.iter().map(|leaf| column(batch, roots, leaf)).collect()
}

fn column<'a>(
    batch: &'a RecordBatch,
    roots: &[usize],
    leaf: &Leaf,
) -> Result<Look<'a>, (usize, String)> {
    let lost = || (0, format!("column `{}` cannot be read", leaf.name));
    let at = roots.iter().position(|&root| root == leaf.root).ok_or_else(lost)?;
    let arrays = along(batch.columns().get(at).ok_or_else(lost)?, &leaf.path);
    let array = arrays[arrays.len() - 1];
    let look: Look<'a> = match &leaf.list {
        None => look(array).ok_or_else(lost)?,
        Some((name, element, width)) => {
            let elements = look(elements(array)).ok_or_else(lost)?;
            let (element, width) = (*element, *width);
            for row in (0..array.len()).filter(|&row| array.is_valid(row)) {
                let found = width_of(array, row);
                if found != width {
                    let problem =
                        format!("`{name}` has {found} elements where those before have {width}");
                    return Err((row, problem));
                }
            }
            Box::new(move |row| match array.is_null(row) || width == 0 {
                true => Value::Missing,
                false => elements(offset_of(array, row) + element),
            })
        }
    };
    if arrays.iter().all(|array| array.null_count() == 0) {
        return Ok(look);
    }
    Ok(Box::new(move |row| match arrays.iter().any(|array| array.is_null(row)) {
        true => Value::Missing,
        false => look(row),
    }))
}

fn look(array: &ArrayRef) -> Option<Look<'_>> {
    macro_rules! whole {
        ($kind:ty) => {{
            let values = array.as_primitive::<$kind>();
            Box::new(move |row| Value::Whole(i64::from(values.value(row))))
        }};
    }
    macro_rules! date {
        ($kind:ty, $seconds:expr, $nanoseconds:expr) => {{
            let values = array.as_primitive::<$kind>();
            Box::new(move |row| {
                let ticks = i64::from(values.value(row));
                let nanoseconds = i128::from(ticks) * $nanoseconds;
                Value::Date { seconds: ticks as f64 * $seconds, nanoseconds }
            })
        }};
    }
    let number = |number: f64| if number.is_nan() { Value::Missing } else { Value::Number(number) };
    let text = |text| match text {
        "" => Value::Missing,
        text => Value::String(Cow::Borrowed(text)),
    };
    let look: Look<'_> = match array.data_type() {
        DataType::Null => Box::new(|_| Value::Missing),
        DataType::Int8 => whole!(Int8Type),
        DataType::Int16 => whole!(Int16Type),
        DataType::Int32 => whole!(Int32Type),
        DataType::Int64 => whole!(Int64Type),
        DataType::UInt8 => whole!(UInt8Type),
        DataType::UInt16 => whole!(UInt16Type),
        DataType::UInt32 => whole!(UInt32Type),
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>();
            Box::new(move |row| {
                let value = values.value(row);
                let wide = Value::Decimal { unscaled: i128::from(value), scale: 0 };
                i64::try_from(value).map_or(wide, Value::Whole)
            })
        }
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>();
            Box::new(move |row| number(f64::from(values.value(row))))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            Box::new(move |row| number(f64::from(values.value(row))))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            Box::new(move |row| number(values.value(row)))
        }
        DataType::Decimal128(_, scale) => {
            let (values, scale) = (array.as_primitive::<Decimal128Type>(), *scale);
            Box::new(move |row| Value::Decimal { unscaled: values.value(row), scale })
        }
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(move |row| Value::Truth(values.value(row)))
        }
        DataType::Date32 => date!(Date32Type, SECONDS_OF_A_DAY, 86_400_000_000_000),
        DataType::Date64 => date!(Date64Type, 1e-3, 1_000_000),
        DataType::Timestamp(TimeUnit::Second, _) => date!(TimestampSecondType, 1.0, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            date!(TimestampMillisecondType, 1e-3, 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            date!(TimestampMicrosecondType, 1e-6, 1_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => date!(TimestampNanosecondType, 1e-9, 1),
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            Box::new(move |row| text(values.value(row)))
        }
        DataType::LargeUtf8 => {
            let values = array.as_string::<i64>();
            Box::new(move |row| text(values.value(row)))
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            Box::new(move |row| text(values.value(row)))
        }
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary_opt()?;
            let words = dictionary.values();
            if words.is_empty() {
                return Some(Box::new(|_| Value::Missing));
            }
            let (keys, look) = (dictionary.normalized_keys(), look(words)?);
            Box::new(move |row| match array.is_null(row) || words.is_null(keys[row]) {
                true => Value::Missing,
                false => look(keys[row]),
            })
        }
        _ => return None,
    };
    // Nulls of elements of lists are not those of the list.
    match array.null_count() {
        0 => Some(look),
        _ => Some(Box::new(move |row| match array.is_null(row) {
            true => Value::Missing,
            false => look(row),
        })),
    }
}

impl Leaf {
    /// The root that it is in.
    pub(super) fn root(&self) -> usize {
        self.root
    }
}
