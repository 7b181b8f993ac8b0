//! What cells are called, and what they hold, in the log that they came from: so that observations can be given by the names of
//! their columns, and actions come back in the user's own words.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calendar::{SECONDS_OF_A_DAY, format_day, parse_date};
use crate::cells::Cells;
use crate::space::Space;

/// Fields of observations and of actions: one for every cell, or none where nothing is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fields {
    /// Of an observation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observation: Vec<Field>,
    /// Of an action.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub action: Vec<Field>,
}

/// What one cell was in the log that it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Field {
    /// The name of its column.
    pub name: String,
    /// What it holds.
    #[serde(flatten)]
    pub kind: FieldKind,
}

/// What a cell holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum FieldKind {
    /// A number, as it is.
    Number {
        /// What stands for a value that is missing; without, none may be.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<f32>,
    },
    /// True or false, as 1 and 0.
    Boolean {
        /// What stands for a value that is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<f32>,
    },
    /// A date, as days since another.
    Date {
        /// That other, in seconds since 1970.
        origin: f64,
        /// What stands for a value that is missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fill: Option<f32>,
    },
    /// One of some words, as its place among them.
    Category {
        /// The words.
        values: Vec<Word>,
    },
    /// Indicator of missing values: 1 where the number, truth or date of the same name is missing, else 0.
    Missing,
}

/// A category in a log's own terms.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word {
    /// Nothing was there.
    Missing,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Whole(i64),
    /// A text.
    Text(String),
}

/// How a word that is missing is shown; it may also be given so, where no text of the log is the same.
const MISSING: &str = "(missing)";

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Missing => f.write_str(MISSING),
            Word::Boolean(truth) => write!(f, "{truth}"),
            Word::Whole(number) => write!(f, "{number}"),
            Word::Text(text) => f.write_str(text),
        }
    }
}

impl Word {
    /// Whether a value of JSON is this word. Numbers and truths may also be given as texts: that is how tables without types
    /// have them.
    fn is(&self, value: &Value) -> bool {
        match (self, value) {
            (Word::Missing, value) => is_missing(value),
            (Word::Boolean(truth), Value::Bool(given)) => truth == given,
            (Word::Whole(number), Value::Number(given)) => {
                given.as_i64() == Some(*number) || given.as_f64() == Some(*number as f64)
            }
            (Word::Text(text), Value::String(given)) => text == given,
            (Word::Text(text), Value::Number(given)) => *text == given.to_string(),
            (word, Value::String(given)) => word.to_string() == *given,
            _ => false,
        }
    }

    /// The word as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Word::Missing => Value::Null,
            Word::Boolean(truth) => Value::from(*truth),
            Word::Whole(number) => Value::from(*number),
            Word::Text(text) => Value::from(text.as_str()),
        }
    }
}

/// Whether a value of JSON stands for none.
fn is_missing(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// What tables write for a number, a truth or a date that is missing, as they are imported; among categories these are words.
const MARKERS: [&str; 8] = ["na", "n/a", "nan", "null", "none", "nil", "-", "?"];

/// Whether a text is one of them.
pub(crate) fn is_marker(text: &str) -> bool {
    text.len() <= 4 && MARKERS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a value of JSON stands for a number, a truth or a date that is missing.
fn is_no_number(value: &Value) -> bool {
    is_missing(value) || value.as_str().is_some_and(|text| is_marker(text.trim()))
}

impl Field {
    /// A field of a column.
    pub fn new(name: impl Into<String>, kind: FieldKind) -> Self {
        Field { name: name.into(), kind }
    }

    /// Whether a name in a log is the column of this cell.
    fn is_indicator(&self) -> bool {
        matches!(self.kind, FieldKind::Missing)
    }

    /// The cell of a value of JSON, or what is wrong with it. `None` is a column that is not there.
    pub fn cell(&self, value: Option<&Value>) -> Result<f32, String> {
        let name = &self.name;
        let value = value.unwrap_or(&Value::Null);
        let filled = |fill: Option<f32>| {
            fill.ok_or_else(|| format!("`{name}` is missing, which it never was in the log"))
        };
        match &self.kind {
            FieldKind::Missing => Ok(f32::from(u8::from(is_no_number(value)))),
            FieldKind::Category { values } => match values.iter().position(|word| word.is(value)) {
                Some(at) => Ok(at as f32),
                None if is_missing(value) => filled(None),
                None if value.as_str() == Some(MISSING) && values.contains(&Word::Missing) => {
                    self.cell(None)
                }
                None => Err(format!("`{name}` is {value}, which is not in the log; {}", known(values))),
            },
            FieldKind::Number { fill } | FieldKind::Boolean { fill } | FieldKind::Date { fill, .. }
                if is_no_number(value) =>
            {
                filled(*fill)
            }
            FieldKind::Number { .. } => number(value)
                .ok_or_else(|| format!("`{name}` is {value}, which is not a finite number")),
            FieldKind::Boolean { .. } => truth(value)
                .map(|truth| f32::from(u8::from(truth)))
                .ok_or_else(|| format!("`{name}` is {value}, which is neither true nor false")),
            FieldKind::Date { origin, .. } => date(value)
                .map(|seconds| ((seconds - origin) / SECONDS_OF_A_DAY) as f32)
                .ok_or_else(|| {
                    format!("`{name}` is {value}, which is no date such as 2024-05-31 or 2024-05-31T12:00:00")
                }),
        }
    }

    /// A number of a cell as people read it: of a date the day, of anything else the number.
    pub fn text(&self, cell: f32) -> String {
        match self.kind {
            FieldKind::Date { origin, .. } => {
                format_day(origin + f64::from(cell) * SECONDS_OF_A_DAY)
                    .unwrap_or_else(|| cell.to_string())
            }
            _ => cell.to_string(),
        }
    }

    /// The value of a cell, as JSON.
    pub fn value(&self, cell: f32) -> Value {
        match &self.kind {
            FieldKind::Category { values } => {
                values.get(cell as usize).map_or(Value::Null, Word::to_json)
            }
            FieldKind::Boolean { .. } if cell == 0.0 || cell == 1.0 => Value::from(cell == 1.0),
            _ => Value::from(cell),
        }
    }
}

/// Some of the words there are, for an error.
fn known(values: &[Word]) -> String {
    const SHOWN: usize = 8;
    let mut words: Vec<String> =
        values.iter().take(SHOWN).map(|word| format!("`{word}`")).collect();
    if values.len() > SHOWN {
        words.push(format!("{} more", values.len() - SHOWN));
    }
    format!("there are {}", words.join(", "))
}

fn number(value: &Value) -> Option<f32> {
    let number = match value {
        Value::Number(number) => number.as_f64()?,
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    let number = number as f32;
    number.is_finite().then_some(number)
}

fn truth(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::Number(number) if number.as_f64() == Some(1.0) => Some(true),
        Value::Number(number) if number.as_f64() == Some(0.0) => Some(false),
        Value::String(text) => parse_truth(text),
        _ => None,
    }
}

/// What logs write for true and false.
pub fn parse_truth(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.trim().eq_ignore_ascii_case(word));
    match () {
        () if is(&["true", "t", "yes", "y", "1", "1.0"]) => Some(true),
        () if is(&["false", "f", "no", "n", "0", "0.0"]) => Some(false),
        () => None,
    }
}

fn date(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => parse_date(text),
        Value::Number(number) => number.as_f64().filter(|seconds| seconds.is_finite()),
        _ => None,
    }
}

impl Fields {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.observation.is_empty() && self.action.is_empty()
    }

    /// Whether they are fields of these spaces; those that were read from a file may not be.
    pub fn check(&self, observation: &Space, action: &Space) -> Result<(), String> {
        for (name, fields, space) in
            [("observation", &self.observation, observation), ("action", &self.action, action)]
        {
            if fields.is_empty() {
                continue;
            }
            if fields.len() != space.cells() {
                let (found, cells) = (fields.len(), space.cells());
                return Err(format!("{found} fields of an {name} of {cells} cells"));
            }
            for (at, (field, categories)) in fields.iter().zip(space.categories()).enumerate() {
                let problem = |words: &str| Err(format!("{name} field `{}`: {words}", field.name));
                let twin = |other: &Field| {
                    other.name == field.name && other.is_indicator() == field.is_indicator()
                };
                if fields[..at].iter().any(twin) {
                    return problem("there are two of that name");
                }
                match (&field.kind, categories) {
                    (FieldKind::Category { values }, Some(n)) if values.len() == n as usize => {}
                    (FieldKind::Category { .. }, _) => {
                        return problem("its words are not as many as its categories");
                    }
                    (FieldKind::Missing | FieldKind::Boolean { .. }, Some(2) | None) => {}
                    (_, None) => {}
                    (_, Some(_)) => return problem("it is a number, and its cell is not"),
                }
                let fill = match field.kind {
                    FieldKind::Number { fill }
                    | FieldKind::Boolean { fill }
                    | FieldKind::Date { fill, .. } => fill,
                    FieldKind::Category { .. } | FieldKind::Missing => None,
                };
                if fill.is_some_and(|fill| !fill.is_finite()) {
                    return problem("what stands for missing values is no number");
                }
            }
        }
        Ok(())
    }

    /// Appends the cells of an observation that is given by the names of its columns, or what is wrong with it. Columns that
    /// there are not are an error: a name may be misspelt.
    pub fn observation_cells(
        &self,
        given: &Map<String, Value>,
        cells: &mut Cells,
    ) -> Result<(), String> {
        if self.observation.is_empty() {
            return Err("its columns have no names; give the observation as an array".to_owned());
        }
        let is_known = |name: &String| self.observation.iter().any(|field| field.name == *name);
        if let Some(name) = given.keys().find(|name| !is_known(name)) {
            let names = self.observation.iter().filter(|field| !field.is_indicator());
            let names: Vec<String> = names.map(|field| format!("`{}`", field.name)).collect();
            return Err(format!("there is no column `{name}`; there are {}", names.join(", ")));
        }
        let found: Result<Vec<f32>, String> =
            self.observation.iter().map(|field| field.cell(given.get(&field.name))).collect();
        for cell in found? {
            match cells {
                Cells::Float(cells) => cells.push(cell),
                Cells::Byte(_) | Cells::Short(_) => cells.push_category(cell as usize),
            }
        }
        Ok(())
    }

    /// An action in the user's own words: the value itself if it is one cell, else an object by the names of its columns.
    /// `None` where nothing is known of actions.
    pub fn action_value(&self, cells: &[f32]) -> Option<Value> {
        match (self.action.as_slice(), cells) {
            ([], _) => None,
            ([field], [cell]) => Some(field.value(*cell)),
            (fields, cells) => {
                let pairs = fields.iter().zip(cells);
                Some(pairs.map(|(field, cell)| (field.name.clone(), field.value(*cell))).collect())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields() -> Fields {
        let text = |text: &str| Word::Text(text.to_owned());
        Fields {
            observation: vec![
                Field::new("age", FieldKind::Number { fill: Some(40.0) }),
                Field::new("age", FieldKind::Missing),
                Field::new("ward", FieldKind::Category { values: vec![text("A"), text("B")] }),
                Field::new("since", FieldKind::Date { origin: 0.0, fill: None }),
                Field::new("urgent", FieldKind::Boolean { fill: None }),
            ],
            action: vec![Field::new(
                "dose",
                FieldKind::Category { values: vec![Word::Whole(0), Word::Whole(10)] },
            )],
        }
    }

    fn space() -> Space {
        let real = |cells: usize| Space::Box { shape: vec![cells], bounds: None };
        Space::Tuple { spaces: vec![real(2), Space::Discrete { n: 2 }, real(2)] }
    }

    fn cells(given: Value) -> Result<Vec<f32>, String> {
        let mut cells = Cells::Float(Vec::new());
        fields().observation_cells(given.as_object().unwrap(), &mut cells)?;
        let Cells::Float(cells) = cells else { unreachable!() };
        Ok(cells)
    }

    #[test]
    fn observations_come_by_the_names_of_their_columns() {
        fields().check(&space(), &Space::Discrete { n: 2 }).unwrap();
        let given = json!({"ward": "B", "age": 7, "since": "1970-01-03T12:00:00", "urgent": "yes"});
        assert_eq!(cells(given).unwrap(), [7.0, 0.0, 1.0, 2.5, 1.0]);
        let given = json!({"ward": "A", "since": "1969-12-31", "urgent": 0, "age": null});
        assert_eq!(cells(given).unwrap(), [40.0, 1.0, 0.0, -1.0, 0.0]);
    }

    /// What a table may hold for a number that is missing may also be asked with, and nothing else.
    #[test]
    fn what_is_missing_in_a_table_is_missing_in_a_request() {
        use std::ops::ControlFlow;
        let go_on = |_| ControlFlow::Continue(());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.csv");
        for marker in MARKERS.iter().map(|word| word.to_uppercase()).chain([String::new()]) {
            let rows = format!("a,5,x,1\na,7,y,0\nb,{marker},x,1\nb,6,y,0\n");
            std::fs::write(&path, format!("episode,obs_age,action,reward\n{rows}")).unwrap();
            let table = crate::tables::Table::open(std::slice::from_ref(&path)).unwrap();
            let survey = table.survey(&crate::tables::Mapping::default(), go_on).unwrap();
            let fields = &survey.metadata().fields;
            let kinds: Vec<&FieldKind> = fields.observation.iter().map(|of| &of.kind).collect();
            assert!(matches!(kinds[..], [FieldKind::Number { fill: Some(_) }, FieldKind::Missing]));
            let given = json!({ "obs_age": marker });
            let mut cells = Cells::Float(Vec::new());
            fields.observation_cells(given.as_object().unwrap(), &mut cells).unwrap();
            assert_eq!(cells.view().number(1), 1.0, "`{marker}`");
        }
        let given = json!({"age": "NO", "ward": "A", "since": "2020-01-01", "urgent": 1});
        assert!(cells(given).unwrap_err().contains("not a finite number"));
    }

    /// A list of known words has `(missing)`: it is taken as it is shown.
    #[test]
    fn a_missing_word_may_be_given_as_it_is_shown() {
        let of = |values: Vec<Word>| Field::new("ward", FieldKind::Category { values });
        let text = |text: &str| Word::Text(text.to_owned());
        let ward = of(vec![text("A"), Word::Missing]);
        for given in [json!("(missing)"), json!(null), json!("")] {
            assert_eq!(ward.cell(Some(&given)), Ok(1.0), "{given}");
        }
        // A text of the log comes first, and what was never missing is not.
        let ward = of(vec![Word::Missing, text("(missing)")]);
        assert_eq!(ward.cell(Some(&json!("(missing)"))), Ok(1.0));
        assert!(of(vec![text("A")]).cell(Some(&json!("(missing)"))).is_err());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_column() {
        let given = |ward: Value, since: Value, extra: &str| json!({"ward": ward, "since": since, "urgent": false, extra: 1});
        for (given, words) in [
            (given("C".into(), "2020-01-01".into(), "age"), "`ward` is \"C\""),
            (given("A".into(), "soon".into(), "age"), "no date"),
            (given("A".into(), Value::Null, "age"), "`since` is missing"),
            (given("A".into(), "2020-01-01".into(), "agee"), "no column `agee`"),
        ] {
            let error = cells(given).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn actions_come_back_in_words() {
        assert_eq!(fields().action_value(&[1.0]), Some(json!(10)));
        assert_eq!(Fields::default().action_value(&[1.0]), None);
    }

    #[test]
    fn the_json_form_is_stable() {
        let json = json!({
            "observation": [
                {"name": "age", "kind": "number", "fill": 40.0},
                {"name": "age", "kind": "missing"},
                {"name": "ward", "kind": "category", "values": ["A", "B"]},
                {"name": "since", "kind": "date", "origin": 0.0},
                {"name": "urgent", "kind": "boolean"},
            ],
            "action": [{"name": "dose", "kind": "category", "values": [0, 10]}],
        });
        assert_eq!(serde_json::to_value(fields()).unwrap(), json);
        assert_eq!(serde_json::from_value::<Fields>(json).unwrap(), fields());
        let words: Vec<Word> = serde_json::from_str(r#"[null, true, -3, "x"]"#).unwrap();
        let text = Word::Text("x".to_owned());
        assert_eq!(words, [Word::Missing, Word::Boolean(true), Word::Whole(-3), text]);
    }

    #[test]
    fn fields_that_do_not_fit_their_spaces_are_refused() {
        let discrete = Space::Discrete { n: 2 };
        assert!(fields().check(&discrete, &discrete).is_err());
        assert!(fields().check(&space(), &Space::Discrete { n: 3 }).is_err());
        let mut twice = fields();
        twice.observation[4].name = "since".to_owned();
        assert!(twice.check(&space(), &discrete).is_err());
    }
}
