//! What commands share that read a data set, or say what is in one.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use esper::memory::read_within;
use esper_data::tables::{ColumnReport, Mapping, Table, is_native_file, open_with_notes};
use esper_data::{BehaviourSummary, DataError, Dataset, Known, Metadata, Tally, read_known};
use esper_eval::text::count;
use serde::Serialize;

use crate::output::{Failure, Output, failure, table, wrapped};

/// The JSON that the two share.
#[derive(Serialize)]
pub(crate) struct Summary {
    pub(crate) path: String,
    pub(crate) task: Option<String>,
    pub(crate) steps: usize,
    pub(crate) episodes: usize,
    pub(crate) mean_return: f64,
    pub(crate) mean_length: f64,
    pub(crate) seconds: f64,
    pub(crate) behaviours: Vec<BehaviourSummary>,
    pub(crate) warnings: Vec<String>,
}

impl Summary {
    pub(crate) fn new(
        path: &Path,
        metadata: &Metadata,
        tally: &Tally,
        warnings: Vec<String>,
        took: Duration,
    ) -> Self {
        let total = tally.total();
        Summary {
            path: path.display().to_string(),
            task: metadata.task.clone(),
            steps: total.steps,
            episodes: total.episodes,
            mean_return: total.mean_return,
            mean_length: total.mean_length,
            seconds: took.as_secs_f64(),
            behaviours: tally.behaviours(),
            warnings,
        }
    }
}

/// Reads a data set or a table, and says how a table was understood: which column is what, and what else there is to know.
pub(crate) fn open_data(path: &Path, output: &Output) -> Result<Dataset, Failure> {
    let (data, notes) = opened(path).map_err(Failure::error)?;
    notes.iter().for_each(|note| output.note(note));
    Ok(data)
}

fn opened(path: &Path) -> Result<(Dataset, Vec<String>), DataError> {
    if is_native_file(path)? {
        return open_with_notes(path);
    }
    if let Some(Known { data, notes, .. }) = read_known(path)? {
        return Ok((data, notes));
    }
    let go_on = |_| ControlFlow::Continue(());
    let surveyed = Table::open(&[path.to_owned()]);
    let surveyed = surveyed.and_then(|table| table.survey(&Mapping::default(), go_on));
    // Whoever opens tables in one go says what to do about one that is in doubt.
    let Ok(survey) = surveyed else { return open_with_notes(path) };
    let mut notes = vec![format!("columns: {}", roles_text(survey.columns()))];
    notes.extend_from_slice(survey.notes());
    Ok((survey.dataset(go_on)?, notes))
}

/// Which columns have which role, in a line.
fn roles_text(columns: &[ColumnReport]) -> String {
    const SHOWN: usize = 8;
    let mut roles: Vec<(&str, Vec<&str>)> = Vec::new();
    for ColumnReport { name, role, .. } in columns {
        match roles.iter_mut().find(|(known, _)| known == role) {
            Some((_, names)) => names.push(name),
            None => roles.push((role, vec![name])),
        }
    }
    let line = |(role, names): (&str, Vec<&str>)| {
        let mut shown: Vec<String> =
            names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
        if names.len() > SHOWN {
            shown.push(format!("{} more", names.len() - SHOWN));
        }
        format!("{role} {}", shown.join(", "))
    };
    roles.into_iter().map(line).collect::<Vec<_>>().join("; ")
}

/// The same within a limit of memory, if there is one: what is larger stays on disk, in files without a name in a folder or
/// beside it.
pub(crate) fn open_data_within(
    path: &Path,
    memory: Option<u64>,
    folder: &Path,
    output: &Output,
) -> Result<Dataset, Failure> {
    match memory {
        Some(limit) => read_within(path, limit, folder).map_err(|error| failure(error, "")),
        None => open_data(path, output),
    }
}

/// What looks suspicious, in lines of at most 80 columns; nothing if nothing does.
pub(crate) fn warnings_text(warnings: &[String]) -> String {
    let lines = warnings.iter().map(|warning| format!("  - {}\n", wrapped(warning, 80, 4)));
    match warnings {
        [] => String::new(),
        _ => format!("\n  to look at\n{}", lines.collect::<String>()),
    }
}

/// Behaviours and all together, a row each.
pub(crate) fn behaviour_table(tally: &Tally) -> String {
    let heading = ["behaviour", "episodes", "steps", "mean return", "mean length"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    let behaviours = tally.behaviours().into_iter().chain([tally.total()]);
    rows.extend(behaviours.map(|behaviour| {
        vec![
            behaviour.name.clone(),
            count(behaviour.episodes),
            count(behaviour.steps),
            format!("{:.3}", behaviour.mean_return),
            format!("{:.2}", behaviour.mean_length),
        ]
    }));
    table(&rows)
}
