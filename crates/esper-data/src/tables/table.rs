//! A table that is in one file, in many or in memory, gone through in chunks, in parallel and in order.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use rayon::prelude::*;

use super::chunks::{Chunk, Raw, TextReader};
use super::csv::{self, Cut, Records};
use super::json::{self, Layout, Shape};
use super::parquet::{self, Leaf};
use super::sniff::{self, Format};
use crate::error::DataError;

/// Rows in memory that are gone through as one chunk.
const BATCH_ROWS: usize = 1 << 16;

/// A table: files with the same columns, of any of the formats that are known.
#[derive(Debug)]
pub struct Table {
    files: Vec<TableFile>,
    columns: Vec<Column>,
}

/// A column. Those of a list are one for every element.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    /// The name of the list that it is an element of.
    pub(super) list: Option<String>,
    /// Why it cannot be read: the name of its type.
    pub(super) unreadable: Option<String>,
}

impl Column {
    fn of(leaf: &Leaf) -> Self {
        Column {
            name: leaf.name.clone(),
            list: leaf.list.as_ref().map(|(name, ..)| name.clone()),
            unreadable: leaf.unreadable.clone(),
        }
    }
}

#[derive(Debug)]
pub(super) struct TableFile {
    pub(super) path: PathBuf,
    pub(super) kind: Kind,
}

/// What has to be known of a file to read it.
#[derive(Debug)]
pub(super) enum Kind {
    /// For every column its place in a record; how many fields a record has.
    Csv {
        separator: u8,
        places: Vec<usize>,
        fields: usize,
    },
    JsonLines,
    /// For every column its leaf.
    Parquet {
        leaves: Vec<Leaf>,
    },
    /// The same of what is in memory.
    Memory {
        leaves: Vec<Leaf>,
        batches: Vec<RecordBatch>,
    },
}

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: u32,
    /// The line of a text, counted from 1; the row of a Parquet file, counted from 0.
    pub(super) line: u64,
}

/// Told how many bytes have been read since the last time; says whether to go on.
pub(super) type Watch<'w> = dyn FnMut(u64) -> ControlFlow<()> + 'w;

impl Table {
    /// Opens the sources, files or folders of part files, and finds out which columns they have.
    pub fn open(sources: &[PathBuf]) -> Result<Self, DataError> {
        let mut files = Vec::new();
        for source in sources {
            for path in sniff::files(source)? {
                let format = sniff::format(&path)?;
                files.push((path, format));
            }
        }
        let Some((first, _)) = files.first().cloned() else {
            return Err(DataError::Invalid("there are no files to import".to_owned()));
        };
        let json: Vec<&Path> = files
            .iter()
            .filter(|(_, format)| *format == Format::JsonLines)
            .map(|(path, _)| path.as_path())
            .collect();
        let mut columns: Option<Vec<Column>> = None;
        if !json.is_empty() {
            let found = json_columns(&json)?;
            check_names(&found, &first)?;
            columns = Some(found);
        }
        let mut known = Vec::new();
        for (path, format) in files {
            let (found, kind) = match format {
                Format::JsonLines => (None, Kind::JsonLines),
                Format::Csv => {
                    let (found, separator) = csv_columns(&path)?;
                    let (places, fields) = ((0..found.len()).collect(), found.len());
                    (Some(found), Kind::Csv { separator, places, fields })
                }
                Format::Parquet => {
                    let leaves = parquet::leaves(&path)?;
                    (Some(leaves.iter().map(Column::of).collect()), Kind::Parquet { leaves })
                }
            };
            let kind = match (&columns, found) {
                (_, None) => kind,
                (None, Some(found)) => {
                    check_names(&found, &path)?;
                    columns = Some(found);
                    kind
                }
                (Some(columns), Some(found)) => kind.in_order(columns, &found, &first, &path)?,
            };
            known.push(TableFile { path, kind });
        }
        Ok(Table { files: known, columns: columns.unwrap_or_default() })
    }

    /// A table in memory, as Arrow's record batches, which are not copied. Errors call it by this name.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
    /// use esper_data::tables::{Mapping, Table};
    ///
    /// let columns: [(&str, ArrayRef); 4] = [
    ///     ("episode", Arc::new(Int32Array::from(vec![0, 0, 1]))),
    ///     ("age", Arc::new(Float64Array::from(vec![40.0, 41.5, 70.0]))),
    ///     ("action", Arc::new(StringArray::from(vec!["drug", "none", "drug"]))),
    ///     ("reward", Arc::new(Float64Array::from(vec![0.0, 1.0, 0.0]))),
    /// ];
    /// let batch = RecordBatch::try_from_iter(columns)?;
    /// let go_on = |_| std::ops::ControlFlow::Continue(());
    /// let table = Table::in_memory(batch.schema().as_ref(), vec![batch], "patients")?;
    /// let data = table.survey(&Mapping::default(), go_on)?.dataset(go_on)?;
    /// assert_eq!((data.episodes(), data.steps(), data.episode_return(0)), (2, 3, 1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_memory(
        schema: &Schema,
        batches: Vec<RecordBatch>,
        name: &str,
    ) -> Result<Self, DataError> {
        let path = PathBuf::from(name);
        let mut parts = Vec::new();
        for batch in batches {
            if batch.schema_ref().fields() != schema.fields() {
                let problem = "its batches do not have the same columns".to_owned();
                return Err(DataError::InvalidFile { path, problem });
            }
            let part = |first| batch.slice(first, BATCH_ROWS.min(batch.num_rows() - first));
            parts.extend((0..batch.num_rows()).step_by(BATCH_ROWS).map(part));
        }
        let leaves = parquet::leaves_in(schema, &parts)?;
        let columns: Vec<Column> = leaves.iter().map(Column::of).collect();
        check_names(&columns, &path)?;
        let kind = Kind::Memory { leaves, batches: parts };
        Ok(Table { files: vec![TableFile { path, kind }], columns })
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The first file.
    pub(super) fn path(&self) -> &Path {
        &self.files[0].path
    }

    /// Bytes of all files: what a watch is told in one pass.
    pub fn bytes(&self) -> u64 {
        let size = |file: &TableFile| std::fs::metadata(&file.path).map_or(0, |file| file.len());
        self.files.iter().map(size).sum()
    }

    /// Something is wrong with a row.
    pub(super) fn wrong(&self, place: Place, problem: &str) -> DataError {
        let file = &self.files[place.file as usize];
        let problem = format!("{}: {problem}", file.line(place.line));
        DataError::InvalidFile { path: file.path.clone(), problem }
    }

    /// A place in words.
    pub(super) fn place(&self, place: Place) -> String {
        let file = &self.files[place.file as usize];
        match self.files.len() {
            1 => file.line(place.line),
            _ => format!("{}, {}", file.path.display(), file.line(place.line)),
        }
    }

    /// Goes through all rows of some columns: `work` makes something of every chunk, in parallel, `merge` is given them in
    /// order, until it breaks.
    pub(super) fn scan<R: Send>(
        &self,
        columns: &[usize],
        watch: &mut Watch<'_>,
        work: impl Fn(&Chunk<'_>) -> Result<R, DataError> + Sync,
        mut merge: impl FnMut(R) -> Result<ControlFlow<()>, DataError>,
    ) -> Result<(), DataError> {
        let at_once = 2 * rayon::current_num_threads();
        for (number, file) in self.files.iter().enumerate() {
            let view = file.view(columns, &self.columns);
            let mut reader = file.reader(&view)?;
            let mut raw = reader.some(at_once)?;
            while !raw.is_empty() {
                let bytes = raw.iter().map(Raw::bytes).sum();
                let (done, next) = rayon::join(
                    || {
                        let chunk = |raw: &Raw| {
                            work(&Chunk { file, number: number as u32, view: &view, raw })
                        };
                        raw.par_iter().map(chunk).collect::<Vec<_>>()
                    },
                    || reader.some(at_once),
                );
                for result in done {
                    if merge(result?)?.is_break() {
                        return Ok(());
                    }
                }
                if watch(bytes).is_break() {
                    return Err(DataError::Stopped);
                }
                raw = next?;
            }
        }
        Ok(())
    }
}

impl Kind {
    /// The same with columns in the order of the first file, which has to have the same ones.
    fn in_order(
        self,
        columns: &[Column],
        found: &[Column],
        first: &Path,
        path: &Path,
    ) -> Result<Self, DataError> {
        let differs = |problem: String| DataError::InvalidFile { path: path.to_owned(), problem };
        check_names(found, path)?;
        let order: Result<Vec<usize>, DataError> = columns
            .iter()
            .map(|column| {
                found.iter().position(|other| other.name == column.name).ok_or_else(|| {
                    let first = first.display();
                    differs(format!("has no column `{}`, which {first} has", column.name))
                })
            })
            .collect();
        let order = order?;
        if let Some(extra) = (0..found.len()).find(|at| !order.contains(at)) {
            let first = first.display();
            let problem = format!("has a column `{}`, which {first} has not", found[extra].name);
            return Err(differs(problem));
        }
        Ok(match self {
            Kind::Csv { separator, fields, .. } => Kind::Csv { separator, places: order, fields },
            Kind::JsonLines => Kind::JsonLines,
            Kind::Parquet { leaves } => {
                Kind::Parquet { leaves: order.iter().map(|&at| leaves[at].clone()).collect() }
            }
            // There is no other beside it.
            Kind::Memory { leaves, batches } => Kind::Memory { leaves, batches },
        })
    }
}

/// Names of columns have to be there, each once.
fn check_names(columns: &[Column], path: &Path) -> Result<(), DataError> {
    let refused = |problem: String| DataError::InvalidFile { path: path.to_owned(), problem };
    let mut seen = HashMap::new();
    for (at, column) in columns.iter().enumerate() {
        if column.name.is_empty() {
            return Err(refused(format!("column {} has no name", at + 1)));
        }
        if let Some(other) = seen.insert(column.name.as_str(), at) {
            let (name, other, at) = (&column.name, other + 1, at + 1);
            return Err(refused(format!("columns {other} and {at} are both called `{name}`")));
        }
    }
    match columns.is_empty() {
        true => Err(refused("has no columns".to_owned())),
        false => Ok(()),
    }
}

fn csv_columns(path: &Path) -> Result<(Vec<Column>, u8), DataError> {
    let mut reader = TextReader::open(path, Some(b','))?;
    // Where records end depends on the separator, of which the first line tells.
    let Some(Raw::Text { text, start, first_line }) = reader.next()? else {
        let problem = "is empty but for blanks".to_owned();
        return Err(DataError::InvalidFile { path: path.to_owned(), problem });
    };
    let body = &text[start..];
    if body.contains('\r') && !body.contains('\n') {
        let problem = "has lines that end in carriage returns alone, as old programs wrote them; save it with line feeds \
                       (tr '\\r' '\\n' < FILE > NEW)";
        return Err(DataError::InvalidFile { path: path.to_owned(), problem: problem.to_owned() });
    }
    let said = csv::said_separator(text.trim_start_matches('\u{feff}'));
    let separator = said.map_or_else(|| csv::separator(body.trim_start()), |(said, _)| said);
    let mut names: Vec<String> = Vec::new();
    let mut records = Records::new(&text[start..], separator, first_line);
    let cut = records.next(|_, value| names.push(value.text(&mut String::new()).trim().to_owned()));
    if let Cut::Broken { line, problem } = cut {
        let problem = format!("line {line}: {problem}");
        return Err(DataError::InvalidFile { path: path.to_owned(), problem });
    }
    // What pandas writes in front of its rows unless told not to.
    if let Some(first) = names.first_mut()
        && first.is_empty()
    {
        *first = PANDAS_INDEX.to_owned();
    }
    let column = |name| Column { name, list: None, unreadable: None };
    Ok((names.into_iter().map(column).collect(), separator))
}

/// The name that is given to a first column without one.
pub(super) const PANDAS_INDEX: &str = "Unnamed: 0";

/// The columns of JSON lines: all names that any line has.
fn json_columns(paths: &[&Path]) -> Result<Vec<Column>, DataError> {
    let mut layout = Layout::default();
    for path in paths {
        let mut reader = TextReader::open(path, None)?;
        let wrong = |(line, problem): (u64, String)| DataError::InvalidFile {
            path: path.to_path_buf(),
            problem: format!("line {line}: {problem}"),
        };
        loop {
            let raw = (0..2 * rayon::current_num_threads())
                .map_while(|_| reader.next().transpose())
                .collect::<Result<Vec<_>, _>>()?;
            if raw.is_empty() {
                break;
            }
            let found: Vec<_> = raw.par_iter().map(json_layout).collect();
            for found in found {
                let (found, first_line) = found.map_err(wrong)?;
                for (name, shape) in found.shapes {
                    layout.add(&name, shape).map_err(|problem| wrong((first_line, problem)))?;
                }
            }
        }
    }
    let mut columns = Vec::new();
    for (name, shape) in layout.shapes {
        match shape {
            Shape::List(width) => columns.extend((0..width).map(|element| Column {
                name: format!("{name}_{element}"),
                list: Some(name.clone()),
                unreadable: None,
            })),
            Shape::Scalar | Shape::Unknown => {
                columns.push(Column { name, list: None, unreadable: None });
            }
        }
    }
    Ok(columns)
}

/// The names in a chunk, or the line in which something is wrong.
fn json_layout(raw: &Raw) -> Result<(Layout, u64), (u64, String)> {
    let mut layout = Layout::default();
    let Raw::Text { text, start, first_line } = raw else { return Ok((layout, 0)) };
    for (at, line) in text[*start..].lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let wrong = |problem| (first_line + at as u64, problem);
        let entries = json::object(line).map_err(wrong)?;
        json::leaves("", &entries, &mut |name, leaf| layout.add(name, leaf.shape()))
            .map_err(wrong)?;
    }
    Ok((layout, *first_line))
}
