//! Opening a data set whatever it is kept as.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;

use super::mapping::Mapping;
use super::table::Table;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::file::{is_native, read};
use crate::formats::{Known, read_known};

/// Reads a data set: the native file, those of other tools ([`read_known`]), or any table whose columns are not in doubt (CSV,
/// JSON lines, Parquet, a folder of part files).
pub fn open(path: &Path) -> Result<Dataset, DataError> {
    open_with_notes(path).map(|(data, _)| data)
}

/// The same, with what there is to be said of how a table was understood.
pub fn open_with_notes(path: &Path) -> Result<(Dataset, Vec<String>), DataError> {
    if is_native_file(path)? {
        return Ok((read(path)?, Vec::new()));
    }
    if let Some(Known { data, notes, .. }) = read_known(path)? {
        return Ok((data, notes));
    }
    let go_on = |_| ControlFlow::Continue(());
    let table = Table::open(&[path.to_owned()])?;
    let survey = table.survey(&Mapping::default(), go_on).map_err(|error| match error {
        DataError::Mapping { path, problem } => {
            let problem =
                format!("{problem}, in `esper import {} --out DATA.parquet`", path.display());
            DataError::Mapping { path, problem }
        }
        other => other,
    })?;
    let data = survey.dataset(go_on)?;
    Ok((data, survey.notes().to_vec()))
}

/// Whether a path is a file that says of itself that it is a native one.
pub fn is_native_file(path: &Path) -> Result<bool, DataError> {
    let io = |error| DataError::io(path, error);
    // Opening a pipe would wait for somebody to write to it.
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Ok(false);
    }
    let mut magic = Vec::new();
    File::open(path).map_err(io)?.take(4).read_to_end(&mut magic).map_err(io)?;
    match magic.as_slice() {
        b"PAR1" => is_native(path),
        _ => Ok(false),
    }
}
