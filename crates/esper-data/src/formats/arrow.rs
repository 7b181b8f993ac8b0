//! Tables of Arrow and Parquet files as arrays, nested columns by the names of their fields.

use std::path::{Path, PathBuf};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, UInt8Type};
use arrow_array::{Array as _, ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_schema::{DataType, Schema};

use super::numbers::{Array, Numbers};
use super::problem;
use super::spaces::Key;
use crate::error::DataError;
use crate::file::{METADATA_KEY, ParquetSource, first_null, floats, integers};

/// The files of a folder with an ending, by name.
pub(super) fn files(folder: &Path, ending: &str) -> Result<Vec<PathBuf>, DataError> {
    let io = |error| DataError::io(folder, error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("_");
        let is_hidden = name.starts_with(['_', '.']);
        let fits = path.extension().is_some_and(|found| found == ending);
        if fits && !is_hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Some columns of files that follow each other.
pub(super) struct Table {
    batches: Vec<(PathBuf, RecordBatch)>,
}

impl Table {
    /// Reads columns by their names; all of the others are left out.
    pub(super) fn read(
        paths: &[PathBuf],
        columns: &[&str],
        is_parquet: bool,
    ) -> Result<Self, DataError> {
        let mut batches = Vec::new();
        for path in paths {
            let read = match is_parquet {
                true => read_parquet(path, columns)?,
                false => read_ipc(path)?,
            };
            batches.extend(read.into_iter().map(|batch| (path.clone(), batch)));
        }
        Ok(Table { batches })
    }

    /// The same of tables that lie in lists, a row of the file each: the tables one after the other, and how long they are.
    pub(super) fn unpack(self, column: &str) -> Result<(Self, Vec<usize>), DataError> {
        let mut lengths = Vec::new();
        let mut batches = Vec::new();
        for (path, batch) in self.batches {
            let found = batch.column_by_name(column).ok_or_else(|| missing(&path, column))?;
            let unpacked = unpack(found, &mut lengths).ok_or_else(|| {
                problem(
                    &path,
                    format!("column `{column}`: it is no list of steps, or has empty (null) ones"),
                )
            })?;
            batches.push((path, unpacked));
        }
        Ok((Table { batches }, lengths))
    }

    /// Whether a column is there.
    pub(super) fn has(&self, column: &str) -> bool {
        self.batches.iter().all(|(_, batch)| batch.column_by_name(column).is_some())
    }

    /// The paths of all columns within one that may be nested.
    pub(super) fn paths(&self, column: &str) -> Vec<Vec<Key>> {
        fn collect(kind: &DataType, path: &mut Vec<Key>, paths: &mut Vec<Vec<Key>>) {
            let DataType::Struct(fields) = kind else { return paths.push(path.clone()) };
            for field in fields {
                path.push(Key::Name(field.name().clone()));
                collect(field.data_type(), path, paths);
                path.pop();
            }
        }
        let mut paths = Vec::new();
        if let Some((_, batch)) = self.batches.first()
            && let Some(array) = batch.column_by_name(column)
        {
            collect(array.data_type(), &mut Vec::new(), &mut paths);
        }
        paths
    }

    /// A column, or one within others.
    pub(super) fn array(&self, path: &[Key]) -> Result<Array, DataError> {
        let keys: Vec<String> = path.iter().map(Key::to_string).collect();
        let name = keys.join(".");
        let mut whole: Option<Array> = None;
        let mut before = 0;
        for (file, batch) in &self.batches {
            let invalid = |text| problem(file, text);
            let mut keys = keys.iter();
            let mut found = keys.next().and_then(|key| batch.column_by_name(key));
            for key in keys {
                let parent = found.and_then(|array| array.as_struct_opt());
                if let Some(row) = found.and_then(first_null) {
                    let row = before + row;
                    return Err(invalid(format!("column `{name}` in row {row}: is empty (null)")));
                }
                found = parent.and_then(|parent| parent.column_by_name(key));
            }
            let array = to_array(&name, found.ok_or_else(|| missing(file, &name))?, before);
            let array = array.map_err(invalid)?;
            before += array.rows;
            match &mut whole {
                Some(whole) => whole.append(array).map_err(invalid)?,
                None => whole = Some(array),
            }
        }
        whole.ok_or_else(|| DataError::Invalid(format!("column `{name}`: there are no rows")))
    }

    /// A column of ids of any kind, as texts.
    pub(super) fn ids(&self, column: &str) -> Result<Vec<String>, DataError> {
        let mut ids = Vec::new();
        for (file, batch) in &self.batches {
            let array = batch.column_by_name(column).ok_or_else(|| missing(file, column))?;
            let null =
                |row| problem(file, format!("column `{column}` in row {row}: is empty (null)"));
            if let Some(row) = first_null(array) {
                return Err(null(ids.len() + row));
            }
            match array.data_type() {
                DataType::Utf8 => {
                    ids.extend(array.as_string::<i32>().iter().flatten().map(str::to_owned));
                }
                DataType::LargeUtf8 => {
                    ids.extend(array.as_string::<i64>().iter().flatten().map(str::to_owned));
                }
                DataType::Utf8View => {
                    ids.extend(array.as_string_view().iter().flatten().map(str::to_owned));
                }
                _ => {
                    let array =
                        to_array(column, array, ids.len()).map_err(|text| problem(file, text))?;
                    let whole = array.wholes().map_err(|text| problem(file, text))?;
                    ids.extend(whole.into_iter().map(|id| id.to_string()));
                }
            }
        }
        Ok(ids)
    }
}

fn missing(path: &Path, column: &str) -> DataError {
    problem(path, format!("there is no column `{column}`"))
}

/// The columns of a Parquet file.
pub(super) fn schema(path: &Path) -> Result<(Schema, bool), DataError> {
    let source = ParquetSource::open(path)?;
    let ours = source.metadata().file_metadata().key_value_metadata();
    let is_ours = ours.is_some_and(|pairs| pairs.iter().any(|pair| pair.key == METADATA_KEY));
    Ok((source.schema().clone(), is_ours))
}

fn read_parquet(path: &Path, columns: &[&str]) -> Result<Vec<RecordBatch>, DataError> {
    let source = ParquetSource::open(path)?;
    let parts = source.read_groups(
        columns,
        None,
        |_| Vec::new(),
        |part: &mut Vec<RecordBatch>, batch| {
            part.push(batch.clone());
            Ok(())
        },
    )?;
    Ok(parts.into_iter().flatten().collect())
}

/// Reads an Arrow file (IPC). Whatever its footer says is looked for within the bytes that are there.
fn read_ipc(path: &Path) -> Result<Vec<RecordBatch>, DataError> {
    const MAGIC: &[u8] = b"ARROW1";
    let bytes = std::fs::read(path).map_err(|error| DataError::io(path, error))?;
    let damaged = |text: &str| problem(path, format!("it cannot be read as an Arrow file: {text}"));
    let size = bytes.len();
    // The magic, the footer, its length in four bytes, and the magic again.
    let body = bytes.strip_suffix(MAGIC).filter(|_| bytes.starts_with(MAGIC));
    let (body, length) = body
        .and_then(<[u8]>::split_last_chunk::<4>)
        .ok_or_else(|| damaged("it is cut, or of another kind"))?;
    let start = usize::try_from(i32::from_le_bytes(*length)).ok();
    let start = start.and_then(|length| body.len().checked_sub(length));
    let start = start.ok_or_else(|| damaged("its footer is not where it has to be"))?;
    let footer = arrow_ipc::root_as_footer(&body[start..]);
    let footer = footer.map_err(|error| damaged(&error.to_string()))?;
    let schema = footer.schema().ok_or_else(|| damaged("it has no schema"))?;
    let schema = arrow_ipc::convert::try_fb_to_schema(schema);
    let schema = schema.map_err(|error| damaged(&error.to_string()))?;
    let mut decoder = FileDecoder::new(schema.into(), footer.version());
    let buffer = Buffer::from_vec(bytes.clone());
    let slice = |block: &arrow_ipc::Block| {
        let offset = usize::try_from(block.offset()).ok()?;
        let metadata = usize::try_from(block.metaDataLength()).ok()?;
        let length = usize::try_from(block.bodyLength()).ok()?.checked_add(metadata)?;
        let end = offset.checked_add(length).filter(|&end| end <= size)?;
        Some(buffer.slice_with_length(offset, end - offset))
    };
    let outside = || damaged("a part lies outside of it");
    for block in footer.dictionaries().iter().flatten() {
        let read = decoder.read_dictionary(block, &slice(block).ok_or_else(outside)?);
        read.map_err(|error| damaged(&error.to_string()))?;
    }
    let mut batches = Vec::new();
    for block in footer.recordBatches().iter().flatten() {
        let read = decoder.read_record_batch(block, &slice(block).ok_or_else(outside)?);
        let batch = read.map_err(|error| damaged(&error.to_string()))?;
        batches.extend(batch);
    }
    // A truth takes a bit: more rows than that cannot be in the file.
    if batches.iter().any(|batch| batch.num_rows() > size.saturating_mul(8)) {
        return Err(damaged("it claims more rows than it can hold"));
    }
    Ok(batches)
}

/// The structs of a column of lists as one table, with the length of every list.
fn unpack(array: &ArrayRef, lengths: &mut Vec<usize>) -> Option<RecordBatch> {
    fn of<O: OffsetSizeTrait>(
        list: &GenericListArray<O>,
        lengths: &mut Vec<usize>,
    ) -> Option<RecordBatch> {
        lengths.extend(list.offsets().lengths());
        let (first, last) = (list.offsets().first(), list.offsets().last());
        let values = list.values().slice(first.as_usize(), last.as_usize() - first.as_usize());
        let values = values.as_struct_opt().filter(|steps| steps.null_count() == 0)?;
        Some(RecordBatch::from(values))
    }
    if array.null_count() > 0 {
        return None;
    }
    match array.as_list_opt::<i32>() {
        Some(list) => of(list, lengths),
        None => of(array.as_list_opt::<i64>()?, lengths),
    }
}

/// A column as an array; lists within lists have to be of one length in all rows.
fn to_array(name: &str, array: &ArrayRef, before: usize) -> Result<Array, String> {
    let problem = |row: Option<usize>, text: &str| {
        let row = row.map_or(String::new(), |row| format!(" in row {}", before + row));
        format!("column `{name}`{row}: {text}")
    };
    let rows = array.len();
    let mut shape = Vec::new();
    let mut values = array.clone();
    let row_of = |cell: usize, cells: usize| cell.checked_div(cells.checked_div(rows).unwrap_or(0));
    loop {
        if let Some(cell) = first_null(&values) {
            return Err(problem(row_of(cell, values.len()), "is empty (null)"));
        }
        let (width, inner) = match values.data_type() {
            DataType::FixedSizeList(..) => {
                let list = values.as_fixed_size_list();
                let width = list.value_length() as usize;
                (width, list.values().slice(list.value_offset_at(0), list.len() * width))
            }
            DataType::List(_) => uniform(values.as_list::<i32>()).map_err(|row| {
                problem(row_of(row, values.len()), "has another length than the first")
            })?,
            DataType::LargeList(_) => uniform(values.as_list::<i64>()).map_err(|row| {
                problem(row_of(row, values.len()), "has another length than the first")
            })?,
            _ => break,
        };
        shape.push(width);
        values = inner;
    }
    let (numbers, truths) = numbers(&values).map_err(|text| problem(None, &text))?;
    Ok(Array { at: format!("column `{name}`"), rows, shape, numbers, truths })
}

/// The length of all lists and their elements, or the first that is of another length.
fn uniform<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<(usize, ArrayRef), usize> {
    let width = list.offsets().lengths().next().unwrap_or(0);
    match list.offsets().lengths().position(|length| length != width) {
        Some(row) => Err(row),
        None => {
            let first = list.value_offsets()[0].as_usize();
            Ok((width, list.values().slice(first, list.len() * width)))
        }
    }
}

fn numbers(array: &ArrayRef) -> Result<(Numbers, bool), String> {
    let numbers = match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values().iter().map(u8::from);
            return Ok((Numbers::Bytes(values.collect()), true));
        }
        DataType::UInt8 => Numbers::Bytes(array.as_primitive::<UInt8Type>().values().to_vec()),
        DataType::Float32 => Numbers::Single(array.as_primitive::<Float32Type>().values().to_vec()),
        DataType::Float64 => Numbers::Double(array.as_primitive::<Float64Type>().values().to_vec()),
        DataType::Float16 => {
            let mut values = Vec::new();
            floats("", array, &mut values).map_err(|problem| problem.what)?;
            Numbers::Single(values)
        }
        DataType::Binary | DataType::LargeBinary | DataType::Utf8 | DataType::LargeUtf8 => {
            return Err(
                "holds texts or packed Python objects, not numbers; RLlib writes numbers with \
                `output_compress_columns=[]`, and texts or pictures have to be left out"
                    .to_owned(),
            );
        }
        _ => {
            let mut values = Vec::new();
            integers("", array, &mut values)
                .map_err(|problem| problem.what.replace("integers", "numbers"))?;
            Numbers::Whole(values)
        }
    };
    Ok((numbers, false))
}
