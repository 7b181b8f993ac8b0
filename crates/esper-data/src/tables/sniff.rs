//! Which files a source is made of, and which format each has.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::DataError;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    JsonLines,
    Parquet,
}

/// Ends of names that tables have.
const ENDINGS: [&str; 9] =
    ["csv", "tsv", "txt", "json", "jsonl", "ndjson", "parquet", "pq", "parq"];

fn refused(path: &Path, problem: impl Into<String>) -> DataError {
    DataError::InvalidFile { path: path.to_owned(), problem: problem.into() }
}

/// The files of a source: itself, or the part files of a folder in the order of their names.
pub(super) fn files(source: &Path) -> Result<Vec<PathBuf>, DataError> {
    let io = |error| DataError::io(source, error);
    let metadata = fs::metadata(source).map_err(io)?;
    if metadata.is_file() {
        return Ok(vec![source.to_owned()]);
    }
    if !metadata.is_dir() {
        return Err(DataError::NotRegular(source.to_owned()));
    }
    if source.join("_delta_log").exists() {
        let problem = "is a Delta table, whose folder also holds rows that were deleted; write the table to plain Parquet first";
        return Err(refused(source, problem));
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(source).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What Spark and others put beside their parts: `_SUCCESS`, `.part-0.crc`.
        if name.starts_with(['_', '.']) {
            continue;
        }
        let is_folder = path.is_dir();
        if is_folder && name.contains('=') {
            let problem = format!(
                "is partitioned by folders (`{name}`), which are not read: write it without partitions, or one file"
            );
            return Err(refused(source, problem));
        }
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        if is_folder || !(ENDINGS.contains(&ending.as_str()) || is_packed(&ending)) {
            let problem = format!(
                "is a folder with `{name}` in it, which is no part of a table; part files end in .parquet, .csv, .tsv, .jsonl or .json"
            );
            return Err(refused(source, problem));
        }
        found.push(path);
    }
    found.sort();
    match found.is_empty() {
        true => Err(refused(source, "is a folder without any part files in it")),
        false => Ok(found),
    }
}

fn is_packed(ending: &str) -> bool {
    ["gz", "zst", "bz2", "xz", "zip"].contains(&ending)
}

/// The format of a file, by its first bytes; what no table begins with is an error that says what to do.
pub(super) fn format(path: &Path) -> Result<Format, DataError> {
    let io = |error| DataError::io(path, error);
    // Opening a pipe would wait for somebody to write to it.
    if !fs::metadata(path).map_err(io)?.is_file() {
        return Err(refused(path, "is not a file"));
    }
    let mut start = Vec::new();
    File::open(path).map_err(io)?.take(4096).read_to_end(&mut start).map_err(io)?;
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    let unpack = |kind: &str, how: &str| {
        Err(refused(path, format!("is compressed ({kind}), which is not read; {how}")))
    };
    match start.as_slice() {
        [] => return Err(refused(path, "is empty")),
        [b'P', b'A', b'R', b'1', ..] => return Ok(Format::Parquet),
        _ if ["parquet", "pq", "parq"].contains(&ending.as_str()) => return Ok(Format::Parquet),
        [0x1f, 0x8b, ..] => return unpack("gzip", "unpack it first: gunzip FILE"),
        [b'P', b'K', 3, 4, ..] => {
            return unpack("zip, as spreadsheets are", "unpack it, or save the sheet as CSV");
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return unpack("zstd", "unpack it first: unzstd FILE"),
        [b'B', b'Z', b'h', ..] => return unpack("bzip2", "unpack it first: bunzip2 FILE"),
        [0xfd, b'7', b'z', b'X', b'Z', ..] => return unpack("xz", "unpack it first: unxz FILE"),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] => {
            return Err(refused(path, "is an Arrow (Feather) file; write it as Parquet"));
        }
        [0x89, b'H', b'D', b'F', ..] => {
            return Err(refused(path, "is an HDF5 file of none of the layouts that are known"));
        }
        _ if ["h5", "hdf5", "hdf"].contains(&ending.as_str()) => {
            let problem = "is not an HDF5 file, as its name has it: it may be a page or a pointer that was downloaded in its place";
            return Err(refused(path, problem));
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            return Err(refused(path, "is a text in UTF-16; save it as UTF-8"));
        }
        _ => {}
    }
    if start.contains(&0) {
        let problem =
            "is neither a text nor Parquet; what can be imported is CSV, JSON lines and Parquet";
        return Err(refused(path, problem));
    }
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start);
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Err(refused(path, "is empty but for blanks")),
        Some(b'{') => Ok(Format::JsonLines),
        Some(b'[') if ending.starts_with("json") || ending == "ndjson" => Err(refused(
            path,
            "is one JSON array; write one object a line (pandas: `to_json(FILE, orient=\"records\", lines=True)`)",
        )),
        Some(_) => Ok(Format::Csv),
    }
}
