//! Writing a data set as CSV, in the words of the log that it came from.

use std::io::{BufWriter, Write};
use std::path::Path;

use super::csv::quoted;
use super::mapping::{Mapping, RewardPer};
use super::plan::raw_fields;
use super::value::format_date;
use crate::calendar::SECONDS_OF_A_DAY;
use crate::cells::CellsRef;
use crate::dataset::Dataset;
use crate::error::DataError;
use crate::fields::{Field, FieldKind, Word};
use crate::file::PendingFile;

/// Writes a data set as CSV: one row a step, columns by the names of their fields. Returns the mapping with which
/// importing the file gives an equal data set.
pub fn write_csv(data: &Dataset, path: &Path, overwrite: bool) -> Result<Mapping, DataError> {
    let layout = Layout::new(data)?;
    let mut file = BufWriter::new(PendingFile::create(path, overwrite)?);
    layout.write(data, &mut file).map_err(|error| DataError::io(path, error))?;
    let file = file.into_inner().map_err(|error| DataError::io(path, error.into_error()))?;
    file.finish()?;
    Ok(layout.mapping)
}

/// A column, and the cell that it is made of.
struct Column {
    cell: usize,
    field: Field,
    /// The cell that says whether the value is missing.
    indicator: Option<usize>,
}

struct Layout {
    observation: Vec<Column>,
    action: Vec<Column>,
    mapping: Mapping,
    header: Vec<String>,
}

/// The columns of some fields: one for each, but for indicators.
fn columns(fields: &[Field]) -> Vec<Column> {
    let indicator = |name: &str| {
        fields.iter().position(|other| other.name == name && other.kind == FieldKind::Missing)
    };
    let column = |(cell, field): (usize, &Field)| match field.kind {
        FieldKind::Missing => None,
        _ => Some(Column { cell, field: field.clone(), indicator: indicator(&field.name) }),
    };
    fields.iter().enumerate().filter_map(column).collect()
}

impl Layout {
    fn new(data: &Dataset) -> Result<Self, DataError> {
        let metadata = data.metadata();
        let known = |fields: &[Field], space, prefix: &str| match fields {
            [] => {
                let mut fields = raw_fields(space);
                for field in &mut fields {
                    field.name = format!("{prefix}_{}", field.name);
                }
                fields
            }
            fields => fields.to_vec(),
        };
        let fields = &metadata.fields;
        let observation =
            columns(&known(&fields.observation, &metadata.observation_space, "observation"));
        let action = columns(&known(&fields.action, &metadata.action_space, "action"));
        // A name that the log has already is given another.
        let mut header: Vec<String> = Vec::new();
        let mut fresh = |name: &str| {
            let mut name = name.to_owned();
            let taken = |name: &String, header: &[String]| {
                let of_log =
                    observation.iter().chain(&action).any(|column| column.field.name == *name);
                header.contains(name) || of_log
            };
            while taken(&name, &header) {
                name.push('_');
            }
            header.push(name.clone());
            name
        };
        let (episode, time) = (fresh("episode"), fresh("step"));
        let names =
            |columns: &[Column]| columns.iter().map(|column| column.field.name.clone()).collect();
        let (observation_names, mut action_names): (Vec<String>, Vec<String>) =
            (names(&observation), names(&action));
        // The same column may be seen and done.
        for name in &mut action_names {
            while observation_names.contains(name) {
                name.push('_');
            }
        }
        let (reward, end, cut) = (fresh("reward"), fresh("terminated"), fresh("truncated"));
        let behaviour = (!data.behaviours().is_empty()).then(|| fresh("behaviour"));
        let finals: Vec<String> =
            observation_names.iter().map(|name| fresh(&format!("final_{name}"))).collect();
        let json = serde_json::to_string(metadata)
            .map_err(|error| DataError::Invalid(format!("metadata: {error}")))?;
        let header = [episode.clone(), time.clone()]
            .into_iter()
            .chain(observation_names.iter().cloned())
            .chain(action_names.iter().cloned())
            .chain([reward.clone(), end.clone(), cut.clone()])
            .chain(behaviour.clone())
            .chain(finals.iter().cloned())
            .collect();
        let mapping = Mapping {
            episode: Some(episode),
            time: Some(time),
            observation: observation_names,
            action: action_names,
            reward: Some(reward),
            reward_per: Some(RewardPer::Step),
            end: Some(end),
            cut: Some(cut),
            behaviour: Some(behaviour.unwrap_or_default()),
            final_observation: finals,
            metadata: Some(json),
            ..Mapping::default()
        };
        Ok(Layout { observation, action, mapping, header })
    }

    fn write(&self, data: &Dataset, file: &mut impl Write) -> std::io::Result<()> {
        let header: Vec<_> = self.header.iter().map(|name| quoted(name)).collect();
        writeln!(file, "{}", header.join(","))?;
        let metadata = data.metadata();
        let (seen, done) = (metadata.observation_space.cells(), metadata.action_space.cells());
        let mut line = String::new();
        for episode in 0..data.episodes() {
            let rows = data.episode_observations(episode);
            let last = rows.end - 1;
            let end = data.end(episode);
            for (step, (observation, row)) in rows.zip(data.episode_steps(episode)).enumerate() {
                let is_last = observation + 1 == last;
                line.clear();
                line += &format!("{episode},{step}");
                push_cells(
                    &mut line,
                    &self.observation,
                    data.observations().view(),
                    observation * seen,
                );
                push_cells(&mut line, &self.action, data.actions().view(), row * done);
                let (terminated, truncated) = (is_last && end.terminated, is_last && end.truncated);
                line += &format!(",{},{terminated},{truncated}", data.rewards()[row]);
                if let Some(behaviour) = data.behaviour(episode) {
                    line.push(',');
                    line += &quoted(&data.behaviours()[behaviour]);
                }
                match is_last {
                    true => push_cells(
                        &mut line,
                        &self.observation,
                        data.observations().view(),
                        last * seen,
                    ),
                    false => line.extend(std::iter::repeat_n(',', self.observation.len())),
                }
                line.push('\n');
                file.write_all(line.as_bytes())?;
            }
        }
        Ok(())
    }
}

/// Appends a separator and a value for every column.
fn push_cells(line: &mut String, columns: &[Column], cells: CellsRef<'_>, first: usize) {
    for Column { cell, field, indicator } in columns {
        line.push(',');
        let is_missing = indicator.is_some_and(|at| cells.number(first + at) == 1.0);
        if is_missing {
            continue;
        }
        let number = cells.number(first + cell);
        match &field.kind {
            FieldKind::Category { values } => match values.get(number as usize) {
                None | Some(Word::Missing) => {}
                Some(word) => *line += &quoted(&word.to_string()),
            },
            FieldKind::Boolean { .. } if number == 0.0 || number == 1.0 => {
                *line += if number == 1.0 { "true" } else { "false" };
            }
            FieldKind::Date { origin, .. } => {
                *line += &format_date(origin + f64::from(number) * SECONDS_OF_A_DAY);
            }
            _ => *line += &number.to_string(),
        }
    }
}
