//! Answers as they go out: actions and their probabilities in the log's own words.

use std::sync::Arc;

use esper_data::{CellType, CellsRef, Field, FieldKind, Fields, Space};
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use crate::trajectories::Interface;

/// The answer to a request.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Answer {
    /// The name of the episode as it was given; null if it was not.
    pub episode: Value,
    /// What to do, unless there was nothing to see or something is wrong.
    pub action: Option<Value>,
    /// How likely all actions were, where they are categories and the policy knows.
    pub probabilities: Option<Probabilities>,
    /// The average return that is promised from the start of the episode; `None` where nothing is.
    pub promise: Option<f64>,
    /// What to know beside it: sentences without a stop.
    pub warnings: Vec<String>,
    /// Why there is no answer; the request has then changed nothing.
    pub error: Option<String>,
}

impl Answer {
    pub(super) fn error(episode: Value, words: String) -> Self {
        Answer { error: Some(words), ..Answer::without_action(episode, None, Vec::new()) }
    }

    pub(super) fn without_action(
        episode: Value,
        promise: Option<f64>,
        warnings: Vec<String>,
    ) -> Self {
        Answer { episode, action: None, probabilities: None, promise, warnings, error: None }
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("episode", &self.episode)?;
        if let Some(error) = &self.error {
            map.serialize_entry("error", error)?;
            return map.end();
        }
        if let Some(action) = &self.action {
            map.serialize_entry("action", action)?;
        }
        if let Some(probabilities) = &self.probabilities {
            map.serialize_entry("probabilities", probabilities)?;
        }
        map.serialize_entry("promise", &self.promise)?;
        if !self.warnings.is_empty() {
            map.serialize_entry("warning", &self.warnings.join("; "))?;
        }
        map.end()
    }
}

/// Probabilities of the categories of an action. In JSON an object by their words, or an array where they have none; of an action
/// of several cells one of those for each, by the names of columns or in an array.
#[derive(Clone, Debug)]
pub struct Probabilities {
    cells: Arc<[ActionCell]>,
    /// Of all categories of the first cell, then of the next.
    pub values: Vec<f32>,
}

impl PartialEq for Probabilities {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

/// A cell of an action that is a category.
#[derive(Debug)]
struct ActionCell {
    /// Its column in the log, if it has one.
    name: Option<String>,
    categories: usize,
    /// The words of its categories, if they have any.
    words: Vec<String>,
}

impl ActionCell {
    fn new(field: Option<&Field>, categories: usize) -> Self {
        let words = match field.map(|field| &field.kind) {
            Some(FieldKind::Category { values }) => {
                values.iter().map(ToString::to_string).collect()
            }
            Some(FieldKind::Boolean { .. } | FieldKind::Missing) => {
                vec!["false".to_owned(), "true".to_owned()]
            }
            _ => Vec::new(),
        };
        ActionCell { name: field.map(|field| field.name.clone()), categories, words }
    }
}

/// Probabilities of one cell.
struct OfCell<'a>(&'a ActionCell, &'a [f32]);

impl Serialize for OfCell<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let OfCell(cell, values) = self;
        if cell.words.len() != values.len() {
            return serializer.collect_seq(*values);
        }
        serializer.collect_map(cell.words.iter().zip(*values))
    }
}

impl Serialize for Probabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut rest = self.values.as_slice();
        let mut parts = self.cells.iter().map(|cell| {
            let (own, others) = rest.split_at(cell.categories.min(rest.len()));
            rest = others;
            OfCell(cell, own)
        });
        match self.cells.as_ref() {
            [_] => parts.next().serialize(serializer),
            cells if cells.iter().all(|cell| cell.name.is_some()) => {
                let mut map = serializer.serialize_map(Some(cells.len()))?;
                for part in parts {
                    map.serialize_entry(part.0.name.as_deref().unwrap_or_default(), &part)?;
                }
                map.end()
            }
            cells => {
                let mut sequence = serializer.serialize_seq(Some(cells.len()))?;
                for part in parts {
                    sequence.serialize_element(&part)?;
                }
                sequence.end()
            }
        }
    }
}

/// What actions are called.
pub(super) struct ActionNames {
    space: Space,
    fields: Fields,
    cells: Arc<[ActionCell]>,
    outputs: usize,
}

impl ActionNames {
    pub(super) fn new(interface: &Interface) -> Self {
        let categories = interface.action.categories();
        let field = |cell: usize| interface.fields.action.get(cell);
        let cells = categories.iter().enumerate();
        ActionNames {
            space: interface.action.encoding().space().clone(),
            fields: interface.fields.clone(),
            cells: cells.map(|(cell, &n)| ActionCell::new(field(cell), n)).collect(),
            outputs: categories.iter().sum(),
        }
    }

    pub(super) fn cell_type(&self) -> CellType {
        self.space.cell_type()
    }

    /// The action in a row of some.
    pub(super) fn action(&self, actions: CellsRef<'_>, row: usize) -> Value {
        let width = self.space.cells();
        let cells: Vec<f32> = (0..width).map(|cell| actions.number(row * width + cell)).collect();
        if let Some(words) = self.fields.action_value(&cells) {
            return words;
        }
        match self.space {
            Space::Discrete { .. } => Value::from(cells[0] as u64),
            Space::Box { .. } | Space::Tuple { .. } => cells.into_iter().map(short).collect(),
            Space::MultiDiscrete { .. } | Space::MultiBinary { .. } => {
                cells.into_iter().map(|cell| cell as u64).collect()
            }
        }
    }

    /// The probabilities in a row of some, if there are any.
    pub(super) fn probabilities(&self, all: &[f32], row: usize) -> Option<Probabilities> {
        let values = all.get(row * self.outputs..(row + 1) * self.outputs)?;
        let cells = Arc::clone(&self.cells);
        (!values.is_empty()).then(|| Probabilities { cells, values: values.to_vec() })
    }
}

/// A number with as many digits as it has, and no more: as 64 bits, 0.1 would be 0.10000000149011612.
fn short(number: f32) -> f64 {
    number.to_string().parse().unwrap_or(f64::from(number))
}
