//! Pieces of a table's files, or of its arrays in memory: read one after the other, parsed into rows by whoever has time.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;

use super::csv::{self, Cut, Records};
use super::json;
use super::parquet::{self, Leaf};
use super::table::{Column, Kind, Place, TableFile};
use super::value::Value;
use crate::error::DataError;
use crate::file::{Batches, ParquetSource};

/// Bytes of text that are parsed as one chunk.
const CHUNK: usize = 1 << 21;

/// The longest record there may be: a quote that is never closed makes one of the whole file.
const LONGEST_RECORD: usize = 1 << 26;

/// What was read of a file, to be parsed.
pub(super) enum Raw {
    Text { text: String, start: usize, first_line: u64 },
    Batch { batch: RecordBatch, first_row: u64 },
}

impl Raw {
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Raw::Text { text, .. } => text.len() as u64,
            Raw::Batch { batch, .. } => batch.get_array_memory_size() as u64,
        }
    }
}

/// Reads a file piece by piece.
pub(super) enum Reader {
    Text(TextReader),
    Batches { batches: Batches, row: u64 },
    Memory { batches: std::vec::IntoIter<RecordBatch>, row: u64 },
}

impl Reader {
    pub(super) fn some(&mut self, at_once: usize) -> Result<Vec<Raw>, DataError> {
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
pub(super) struct TextReader {
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
    pub(super) fn open(path: &Path, separator: Option<u8>) -> Result<Self, DataError> {
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

    pub(super) fn next(&mut self) -> Result<Option<Raw>, DataError> {
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
        if first_line == 1
            && self.separator.is_some()
            && let Some((_, length)) = csv::said_separator(&text[start..])
        {
            (start, first_line) = (start + length, 2);
        }
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
pub(super) struct View {
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
    pub(super) fn line(&self, line: u64) -> String {
        match self.kind {
            Kind::Parquet { .. } | Kind::Memory { .. } => format!("row {line}"),
            _ => format!("line {line}"),
        }
    }

    pub(super) fn view(&self, wanted: &[usize], columns: &[Column]) -> View {
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

    pub(super) fn reader(&self, view: &View) -> Result<Reader, DataError> {
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
    pub(super) file: &'a TableFile,
    pub(super) number: u32,
    pub(super) view: &'a View,
    pub(super) raw: &'a Raw,
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
                                values[*slot] = value.clone();
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
