//! A table that is in one file, in many or in memory, gone through in chunks, in parallel and in order.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use rayon::prelude::*;

use super::csv::{self, Cut, Records};
use super::json::{self, Layout, Shape};
use super::parquet::{self, Leaf};
use super::sniff::{self, Format};
use super::value::Value;
use crate::error::DataError;
use crate::file::{Batches, ParquetSource};

/// Bytes of text that are parsed as one chunk.
const CHUNK: usize = 1 << 21;

/// Rows in memory that are gone through as one chunk.
const BATCH_ROWS: usize = 1 << 16;

/// The longest record there may be: a quote that is never closed makes one of the whole file.
const LONGEST_RECORD: usize = 1 << 26;

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
struct TableFile {
    path: PathBuf,
    /// Which of the sources that the user named it belongs to.
    source: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
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
        for (source, path) in sources.iter().enumerate() {
            for path in sniff::files(path)? {
                let format = sniff::format(&path)?;
                files.push((path, source as u32, format));
            }
        }
        let Some((first, ..)) = files.first().cloned() else {
            return Err(DataError::Invalid("there are no files to import".to_owned()));
        };
        let json: Vec<&Path> = files
            .iter()
            .filter(|(.., format)| *format == Format::JsonLines)
            .map(|(path, ..)| path.as_path())
            .collect();
        let mut columns: Option<Vec<Column>> = None;
        if !json.is_empty() {
            let found = json_columns(&json)?;
            check_names(&found, &first)?;
            columns = Some(found);
        }
        let mut known = Vec::new();
        for (path, source, format) in files {
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
            known.push(TableFile { path, source, kind });
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
        Ok(Table { files: vec![TableFile { path, source: 0, kind }], columns })
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

    /// Which of the sources a file belongs to.
    pub(super) fn source_of(&self, place: Place) -> u32 {
        self.files[place.file as usize].source
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
    let separator = csv::separator(text[start..].trim_start());
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

/// What was read of a file, to be parsed.
enum Raw {
    Text { text: String, start: usize, first_line: u64 },
    Batch { batch: RecordBatch, first_row: u64 },
}

impl Raw {
    fn bytes(&self) -> u64 {
        match self {
            Raw::Text { text, .. } => text.len() as u64,
            Raw::Batch { batch, .. } => batch.get_array_memory_size() as u64,
        }
    }
}

/// Reads a file piece by piece.
enum Reader {
    Text(TextReader),
    Batches { batches: Batches, row: u64 },
    Memory { batches: std::vec::IntoIter<RecordBatch>, row: u64 },
}

impl Reader {
    fn some(&mut self, at_once: usize) -> Result<Vec<Raw>, DataError> {
        let mut read = || match self {
            Reader::Text(reader) => reader.next(),
            Reader::Batches { batches, row } => match batches.next() {
                None => Ok(None),
                Some(batch) => {
                    let (batch, first_row) = (batch?, *row);
                    *row += batch.num_rows() as u64;
                    Ok(Some(Raw::Batch { batch, first_row }))
                }
            },
            Reader::Memory { batches, row } => Ok(batches.next().map(|batch| {
                let first_row = *row;
                *row += batch.num_rows() as u64;
                Raw::Batch { batch, first_row }
            })),
        };
        (0..at_once).map_while(|_| read().transpose()).collect()
    }
}

/// Reads a text in pieces that end with a record.
struct TextReader {
    path: PathBuf,
    file: File,
    /// What has been read of the next piece.
    rest: Vec<u8>,
    line: u64,
    /// Between fields of records, which may have line breaks within quotes; `None` where every line is a record.
    separator: Option<u8>,
    /// Whether a header is still to be left out.
    header: bool,
    over: bool,
}

impl TextReader {
    fn open(path: &Path, separator: Option<u8>) -> Result<Self, DataError> {
        let file = File::open(path).map_err(|error| DataError::io(path, error))?;
        Ok(TextReader {
            path: path.to_owned(),
            file,
            rest: Vec::new(),
            line: 1,
            separator,
            header: false,
            over: false,
        })
    }

    fn wrong(&self, line: u64, problem: &str) -> DataError {
        let problem = format!("line {line}: {problem}");
        DataError::InvalidFile { path: self.path.clone(), problem }
    }

    fn next(&mut self) -> Result<Option<Raw>, DataError> {
        let mut bytes = std::mem::take(&mut self.rest);
        let end = loop {
            let wanted = (bytes.len() + 1).next_multiple_of(CHUNK) - bytes.len();
            let limit = wanted as u64;
            bytes.reserve(wanted);
            let read = (&self.file).take(limit).read_to_end(&mut bytes);
            let read = read.map_err(|error| DataError::io(&self.path, error))?;
            if read < wanted {
                self.over = true;
                break bytes.len();
            }
            let end = match self.separator {
                Some(separator) => csv::last_record_end(&bytes, separator),
                None => memchr::memrchr(b'\n', &bytes).map(|newline| newline + 1),
            };
            match end {
                Some(end) => break end,
                None if bytes.len() >= LONGEST_RECORD => {
                    let problem =
                        "a record of more than 64 MB; is a quote (\") opened and never closed?";
                    return Err(self.wrong(self.line, problem));
                }
                None => {}
            }
        };
        if end == 0 {
            return Ok(None);
        }
        self.rest = bytes.split_off(end);
        let lines = memchr::memchr_iter(b'\n', &bytes).count() as u64;
        let text = String::from_utf8(bytes).map_err(|error| {
            let valid = error.utf8_error().valid_up_to();
            let before = memchr::memchr_iter(b'\n', &error.as_bytes()[..valid]).count() as u64;
            self.wrong(self.line + before, "is not text in UTF-8; save the file as UTF-8")
        })?;
        let mut start = match self.line == 1 && text.starts_with('\u{feff}') {
            true => '\u{feff}'.len_utf8(),
            false => 0,
        };
        let mut first_line = self.line;
        self.line += lines;
        if std::mem::take(&mut self.header)
            && let Some(separator) = self.separator
        {
            let mut records = Records::new(&text[start..], separator, first_line);
            records.next(|_, _| {});
            let (at, line) = records.position();
            (start, first_line) = (start + at, line);
        }
        Ok(Some(Raw::Text { text, start, first_line }))
    }
}

/// What is looked at of a file.
struct View {
    /// How many values a row has: one for every column that is asked for.
    slots: usize,
    kind: ViewKind,
}

enum ViewKind {
    /// For every field of a record the slot that it goes to.
    Csv {
        separator: u8,
        slots: Vec<Option<usize>>,
    },
    JsonLines {
        names: HashMap<String, Target>,
    },
    /// The roots that are read, in order; for every slot its leaf.
    Parquet {
        roots: Vec<usize>,
        leaves: Vec<Leaf>,
    },
}

/// Where what is under a name goes.
enum Target {
    Scalar(usize),
    List(Vec<Option<usize>>),
}

impl TableFile {
    /// A line in words.
    fn line(&self, line: u64) -> String {
        match self.kind {
            Kind::Parquet { .. } | Kind::Memory { .. } => format!("row {line}"),
            _ => format!("line {line}"),
        }
    }

    fn view(&self, wanted: &[usize], columns: &[Column]) -> View {
        let kind = match &self.kind {
            Kind::Csv { separator, places, fields } => {
                let mut slots = vec![None; *fields];
                for (slot, &column) in wanted.iter().enumerate() {
                    slots[places[column]] = Some(slot);
                }
                ViewKind::Csv { separator: *separator, slots }
            }
            Kind::JsonLines => {
                let mut names = HashMap::new();
                for (slot, &column) in wanted.iter().enumerate() {
                    let Column { name, list, .. } = &columns[column];
                    let Some(list) = list else {
                        names.insert(name.clone(), Target::Scalar(slot));
                        continue;
                    };
                    let elements: Vec<usize> = (0..columns.len())
                        .filter(|&other| columns[other].list.as_ref() == Some(list))
                        .collect();
                    let element = elements.iter().position(|&other| other == column);
                    let target = names
                        .entry(list.clone())
                        .or_insert_with(|| Target::List(vec![None; elements.len()]));
                    if let (Target::List(slots), Some(element)) = (target, element) {
                        slots[element] = Some(slot);
                    }
                }
                ViewKind::JsonLines { names }
            }
            Kind::Parquet { leaves } | Kind::Memory { leaves, .. } => {
                let leaves: Vec<Leaf> = wanted.iter().map(|&at| leaves[at].clone()).collect();
                let mut roots: Vec<usize> = leaves.iter().map(Leaf::root).collect();
                roots.sort_unstable();
                roots.dedup();
                ViewKind::Parquet { roots, leaves }
            }
        };
        View { slots: wanted.len(), kind }
    }

    fn reader(&self, view: &View) -> Result<Reader, DataError> {
        Ok(match &view.kind {
            ViewKind::Csv { separator, .. } => {
                let mut reader = TextReader::open(&self.path, Some(*separator))?;
                reader.header = true;
                Reader::Text(reader)
            }
            ViewKind::JsonLines { .. } => Reader::Text(TextReader::open(&self.path, None)?),
            ViewKind::Parquet { roots, .. } => match &self.kind {
                Kind::Memory { batches, .. } => {
                    let project = |batch: &RecordBatch| batch.project(roots);
                    let batches = batches.iter().map(project).collect::<Result<Vec<_>, _>>();
                    let batches = batches.map_err(|error| DataError::InvalidFile {
                        path: self.path.clone(),
                        problem: error.to_string(),
                    })?;
                    Reader::Memory { batches: batches.into_iter(), row: 0 }
                }
                _ => {
                    let batches = ParquetSource::open(&self.path)?.batches(roots)?;
                    Reader::Batches { batches, row: 0 }
                }
            },
        })
    }
}

/// Some rows of a file, not parsed yet.
pub(super) struct Chunk<'a> {
    file: &'a TableFile,
    number: u32,
    view: &'a View,
    raw: &'a Raw,
}

impl<'a> Chunk<'a> {
    /// Hands over every row: where it is, and a value for each of the columns that were asked for. What is wrong with it is
    /// an error of that row.
    pub(super) fn rows(
        &self,
        mut each: impl FnMut(Place, &[Value<'a>]) -> Result<(), String>,
    ) -> Result<(), DataError> {
        let wrong = |(line, problem): (u64, String)| {
            let problem = format!("{}: {problem}", self.file.line(line));
            DataError::InvalidFile { path: self.file.path.clone(), problem }
        };
        let each = |line: u64, values: &[Value<'a>]| {
            each(Place { file: self.number, line }, values).map_err(|problem| (line, problem))
        };
        let values = vec![Value::Missing; self.view.slots];
        match (&self.view.kind, self.raw) {
            (ViewKind::Csv { separator, slots }, Raw::Text { text, start, first_line }) => {
                let records = Records::new(&text[*start..], *separator, *first_line);
                csv_rows(records, slots, values, each)
            }
            (ViewKind::JsonLines { names }, Raw::Text { text, start, first_line }) => {
                json_rows(&text[*start..], *first_line, names, values, each)
            }
            (ViewKind::Parquet { roots, leaves }, Raw::Batch { batch, first_row }) => {
                batch_rows(batch, *first_row, roots, leaves, values, each)
            }
            _ => Ok(()),
        }
        .map_err(wrong)
    }
}

fn csv_rows<'a>(
    mut records: Records<'a>,
    slots: &[Option<usize>],
    mut values: Vec<Value<'a>>,
    mut each: impl FnMut(u64, &[Value<'a>]) -> Result<(), (u64, String)>,
) -> Result<(), (u64, String)> {
    loop {
        let cut = records.next(|field, value| {
            if let Some(Some(slot)) = slots.get(field) {
                values[*slot] = value;
            }
        });
        match cut {
            Cut::Over => return Ok(()),
            Cut::Record { fields, line } if fields == slots.len() => each(line, &values)?,
            Cut::Record { fields, line } => {
                let columns = slots.len();
                let problem = format!("has {fields} fields where the header has {columns}");
                return Err((line, problem));
            }
            Cut::Broken { line, problem } => return Err((line, problem.to_owned())),
        }
    }
}

fn json_rows<'a>(
    text: &'a str,
    first_line: u64,
    names: &HashMap<String, Target>,
    mut values: Vec<Value<'a>>,
    mut each: impl FnMut(u64, &[Value<'a>]) -> Result<(), (u64, String)>,
) -> Result<(), (u64, String)> {
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let number = first_line + at as u64;
        let wrong = |problem| (number, problem);
        values.fill(Value::Missing);
        let entries = json::object(line).map_err(wrong)?;
        json::leaves("", &entries, &mut |name, leaf| {
            match (names.get(name), leaf) {
                (None, _) => {}
                (Some(Target::Scalar(slot)), json::Leaf::Scalar(value)) => {
                    values[*slot] = value.clone();
                }
                (Some(Target::List(_)), json::Leaf::Scalar(Value::Missing)) => {}
                (Some(Target::List(slots)), json::Leaf::List(items))
                    if items.len() == slots.len() =>
                {
                    for (slot, item) in slots.iter().zip(items) {
                        match (slot, item) {
                            (Some(slot), json::Json::Scalar(value)) => {
                                values[*slot] = value.clone()
                            }
                            (Some(_), _) => {
                                return Err(format!("`{name}` is nested deeper than one array"));
                            }
                            (None, _) => {}
                        }
                    }
                }
                _ => return Err(format!("`{name}` has another shape than in the lines before")),
            }
            Ok(())
        })
        .map_err(wrong)?;
        each(number, &values)?;
    }
    Ok(())
}

fn batch_rows<'a>(
    batch: &'a RecordBatch,
    first_row: u64,
    roots: &[usize],
    leaves: &[Leaf],
    mut values: Vec<Value<'a>>,
    mut each: impl FnMut(u64, &[Value<'a>]) -> Result<(), (u64, String)>,
) -> Result<(), (u64, String)> {
    let leaves: Vec<&Leaf> = leaves.iter().collect();
    let columns = parquet::columns(batch, roots, &leaves)
        .map_err(|(row, problem)| (first_row + row as u64, problem))?;
    for row in 0..batch.num_rows() {
        for (value, column) in values.iter_mut().zip(&columns) {
            *value = column(row);
        }
        each(first_row + row as u64, &values)?;
    }
    Ok(())
}
