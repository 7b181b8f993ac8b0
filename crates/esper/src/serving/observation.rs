//! Observations as they come: by the names of columns, in the log's own words, or as cells.

use esper_data::{CellError, Cells, Field, FieldKind, Fields, Space, Word};
use serde_json::Value;

use super::request::kind;
use crate::trajectories::Interface;

/// Reads observations of a policy: objects by the names of columns, arrays, single values, as requests have them.
pub struct Reader {
    space: Space,
    /// For every cell how many categories it has; `None` for real numbers.
    categories: Vec<Option<u32>>,
    fields: Fields,
    /// For every field which of the values of an array it is, where indicators are left out.
    columns: Vec<usize>,
    /// How many values that are.
    values: usize,
    /// Cells that are real numbers, with the lowest and the highest of each in the data.
    ranges: Vec<(usize, [f32; 2])>,
}

/// What lies beyond what was seen by more than this share of it is far outside.
const FAR: f32 = 0.5;

/// Warnings about numbers far outside that one answer has.
const MOST_FAR: usize = 3;

impl Reader {
    /// A reader of observations that enter networks in this way.
    pub fn new(interface: &Interface) -> Self {
        let encoding = &interface.observation;
        let (space, fields) = (encoding.space().clone(), interface.fields.clone());
        let (mut names, mut columns) = (Vec::new(), Vec::new());
        for field in &fields.observation {
            let known = names.iter().position(|name| *name == field.name);
            columns.push(known.unwrap_or(names.len()));
            if known.is_none() {
                names.push(field.name.clone());
            }
        }
        let ranges = space.real_cells().into_iter().zip(encoding.ranges().iter().copied());
        Reader {
            categories: space.categories(),
            values: names.len(),
            columns,
            ranges: ranges.filter(|(_, [low, high])| low <= high).collect(),
            space,
            fields,
        }
    }

    /// Appends the cells of an observation to an empty column, or says what is wrong with it. Numbers that are far outside of
    /// what was seen, and columns that are not given, are warned of.
    pub fn read(
        &self,
        value: &Value,
        cells: &mut Cells,
        warnings: &mut Vec<String>,
    ) -> Result<(), String> {
        match value {
            Value::Object(columns) => {
                self.fields.observation_cells(columns, cells)?;
                let absent = |field: &&Field| !columns.contains_key(&field.name);
                let is_value = |field: &&Field| !matches!(field.kind, FieldKind::Missing);
                let fields = self.fields.observation.iter().filter(is_value).filter(absent);
                warnings.extend(
                    fields.map(|field| {
                        format!("`{}` is not given: it counts as missing", field.name)
                    }),
                );
            }
            Value::Array(values) if self.is_in_words(values) => self.words(values, cells)?,
            Value::Array(_) => {
                self.cells(value, cells)?;
                let (found, wanted) = (cells.len(), self.space.cells());
                if found != wanted {
                    return Err(match self.values {
                        0 => format!(
                            "the observation has {found} cells; {} has {wanted}",
                            self.space
                        ),
                        values => format!(
                            "the observation has {found} values; there are {values} columns"
                        ),
                    });
                }
            }
            value => match self.fields.observation.len() {
                1 => self.words(std::slice::from_ref(value), cells)?,
                _ if self.space.cells() == 1 => self.cells(value, cells)?,
                _ => {
                    let (found, wanted) = (kind(value), self.space.cells());
                    return Err(format!(
                        "the observation is {found}; {} has {wanted} cells",
                        self.space
                    ));
                }
            },
        }
        if let Err(CellError { cell, problem, .. }) = self.space.check(cells.view()) {
            return Err(format!("{} of the observation: {problem}", self.name(cell)));
        }
        self.far_outside(cells, warnings);
        Ok(())
    }

    fn name(&self, cell: usize) -> String {
        match self.fields.observation.get(cell) {
            Some(field) => format!("`{}`", field.name),
            None => format!("cell {cell}"),
        }
    }

    /// Whether an array has one value a column. Where indicators make up the difference it may also have one a cell.
    fn is_in_words(&self, values: &[Value]) -> bool {
        !self.columns.is_empty() && values.len() == self.values
    }

    fn words(&self, values: &[Value], cells: &mut Cells) -> Result<(), String> {
        for (field, &column) in self.fields.observation.iter().zip(&self.columns) {
            let value = values.get(column);
            let cell = match (field.cell(value), value) {
                (Ok(cell), _) => cell,
                (Err(words), Some(value)) => place_of(field, value).ok_or(words)?,
                (Err(words), None) => return Err(words),
            };
            match &mut *cells {
                Cells::Float(cells) => cells.push(cell),
                cells => cells.push_category(cell as usize),
            }
        }
        Ok(())
    }

    /// Appends numbers as they are, of arrays within arrays one after the other.
    fn cells(&self, value: &Value, cells: &mut Cells) -> Result<(), String> {
        if let Value::Array(values) = value {
            return values.iter().try_for_each(|value| self.cells(value, cells));
        }
        let at = cells.len();
        let limit = self.categories.get(at).copied().flatten();
        let wrong = |what: &str| {
            let name = self.name(at);
            Err(match limit {
                Some(n) => format!(
                    "{name} of the observation is {what}; it is a category from 0 to {}",
                    n - 1
                ),
                None => format!("{name} of the observation is {what}; it is a finite number"),
            })
        };
        let number = match value {
            Value::Number(number) => number.as_f64().unwrap_or(f64::NAN),
            Value::Bool(truth) => f64::from(u8::from(*truth)),
            other => return wrong(kind(other)),
        };
        match (limit, cells) {
            (Some(n), _) if number.fract() != 0.0 || !(0.0..f64::from(n)).contains(&number) => {
                wrong(&number.to_string())
            }
            (None, Cells::Float(_)) if !(number as f32).is_finite() => wrong(&number.to_string()),
            (_, Cells::Float(cells)) => {
                cells.push(number as f32);
                Ok(())
            }
            (_, cells) => {
                cells.push_category(number as usize);
                Ok(())
            }
        }
    }

    /// Numbers that are far outside of what was seen.
    fn far_outside(&self, cells: &Cells, warnings: &mut Vec<String>) {
        let far = |&&(cell, [low, high]): &&(usize, [f32; 2])| {
            let slack = FAR * (high - low) + 1e-6 * (1.0 + high.abs());
            let number = cells.view().number(cell);
            number < low - slack || number > high + slack
        };
        let words = |(cell, [low, high]): &(usize, [f32; 2])| {
            let text = |number: f32| match self.fields.observation.get(*cell) {
                Some(field) => field.text(number),
                None => number.to_string(),
            };
            let [number, low, high] = [cells.view().number(*cell), *low, *high].map(text);
            format!("{} is {number}, and was {low} to {high} in the data", self.name(*cell))
        };
        let mut outside = self.ranges.iter().filter(far);
        warnings.extend(outside.by_ref().take(MOST_FAR).map(words));
        let others = outside.count();
        if others > 0 {
            warnings.push(format!("{others} more are as far outside"));
        }
    }
}

/// The cell of a category that is given by its place among the words, where that cannot be mistaken for a word.
fn place_of(field: &Field, value: &Value) -> Option<f32> {
    let FieldKind::Category { values } = &field.kind else { return None };
    let is_number = |word: &Word| match word {
        Word::Whole(_) => true,
        Word::Text(text) => text.parse::<f64>().is_ok(),
        Word::Missing | Word::Boolean(_) => false,
    };
    let place = value.as_u64().filter(|&place| place < values.len() as u64)?;
    (!values.iter().any(is_number)).then_some(place as f32)
}
