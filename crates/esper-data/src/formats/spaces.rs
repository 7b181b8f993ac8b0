//! Gymnasium's spaces as other tools write them down, and how nested ones become rows of cells.
//!
//! A dictionary or tuple of spaces has parts, each an array of its own in the file. Their cells stand side by side in one
//! observation, and are called what they were: `arm.angle[1]`.

use std::fmt;
use std::ops::Range;

use serde_json::Value;

use super::numbers::{Array, Numbers};
use crate::cells::Cells;
use crate::fields::{Field, FieldKind, Word};
use crate::space::{MAX_CATEGORIES, Space};

/// More names or words of categories than this are not kept: they are there for people to read.
const MOST_NAMES: usize = 4096;

/// A step on the way to a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    /// A key of a dictionary.
    Name(String),
    /// The number of an element of a tuple.
    Index(usize),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Name(name) => f.write_str(name),
            Key::Index(index) => write!(f, "{index}"),
        }
    }
}

/// A space that is not nested, and where it is in the whole.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) path: Vec<Key>,
    space: Space,
    /// What the lowest category of every cell is in the file; empty where that is 0 everywhere.
    starts: Vec<i64>,
    /// A picture, which Minari keeps as JPEG.
    pub(super) is_image: bool,
}

/// All parts of observations or of actions.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// `observation` or `action`.
    what: &'static str,
    pub(super) parts: Vec<Part>,
    /// What they are together.
    pub(super) space: Space,
}

impl Part {
    /// How many categories a cell has.
    fn limit(&self, cell: usize) -> Option<u32> {
        match &self.space {
            Space::Discrete { n } => Some(*n),
            Space::MultiDiscrete { nvec } => nvec.get(cell).copied(),
            Space::MultiBinary { .. } => Some(2),
            Space::Box { .. } | Space::Tuple { .. } => None,
        }
    }

    fn start(&self, cell: usize) -> i64 {
        self.starts.get(cell).copied().unwrap_or(0)
    }

    /// The names of the keys that lead here.
    pub(super) fn name(&self) -> String {
        let keys: Vec<String> = self.path.iter().map(Key::to_string).collect();
        keys.join(".")
    }

    /// What is known of its cells in words.
    fn fields(&self, what: &str) -> Vec<Field> {
        let name = if self.path.is_empty() { what.to_owned() } else { self.name() };
        let is_single = match &self.space {
            Space::Discrete { .. } => true,
            Space::Box { shape, .. } | Space::MultiBinary { shape } => shape.is_empty(),
            Space::MultiDiscrete { .. } | Space::Tuple { .. } => false,
        };
        let field = |cell: usize| {
            let kind = match (&self.space, self.limit(cell)) {
                (Space::MultiBinary { .. }, _) => FieldKind::Boolean { fill: None },
                (_, Some(n)) => {
                    let first = self.start(cell);
                    let words = first..first.saturating_add(i64::from(n));
                    FieldKind::Category { values: words.map(Word::Whole).collect() }
                }
                (_, None) => FieldKind::Number { fill: None },
            };
            let name = if is_single { name.clone() } else { format!("{name}[{cell}]") };
            Field::new(name, kind)
        };
        (0..self.space.cells()).map(field).collect()
    }

    /// The category that a number of the file is.
    fn category(&self, array: &Array, at: usize, cell: usize) -> Result<u32, String> {
        let start = self.start(cell);
        let category = array.numbers.whole(at).and_then(|value| value.checked_sub(start));
        let category = category.and_then(|category| u32::try_from(category).ok());
        match (category, self.limit(cell)) {
            (Some(category), Some(limit)) if category < limit => Ok(category),
            (_, limit) => {
                let end = start.saturating_add(i64::from(limit.unwrap_or(0)));
                let row = at / self.space.cells();
                let value = array.numbers.real(at);
                Err(format!(
                    "{}, row {row}: {value} is not one of the categories {start} to {}",
                    array.at,
                    end - 1
                ))
            }
        }
    }
}

impl Side {
    fn new(what: &'static str, parts: Vec<Part>) -> Result<Self, String> {
        for part in &parts {
            part.space.validate().map_err(|problem| match part.path.is_empty() {
                true => problem,
                false => format!("`{}`: {problem}", part.name()),
            })?;
        }
        let space = combine(&parts)?;
        space.validate()?;
        if what == "action" && matches!(space, Space::Tuple { .. }) {
            return Err(format!(
                "{space}: actions of categories beside numbers cannot be learned; keep one kind of them"
            ));
        }
        Ok(Side { what, parts, space })
    }

    /// The parts of a space as Minari writes it: JSON with Python's names for what is infinite.
    pub(super) fn from_json(what: &'static str, json: &Value) -> Result<Self, String> {
        let mut parts = Vec::new();
        collect(json, &mut Vec::new(), &mut parts)?;
        Self::new(what, parts)
    }

    /// Parts whose spaces follow from their values, where a file says nothing of spaces.
    ///
    /// Whole numbers are categories if they are actions, or observations of a single cell; other observations are numbers.
    /// Booleans are binary.
    pub(super) fn infer(
        what: &'static str,
        extents: Vec<(Vec<Key>, Extent)>,
    ) -> Result<Self, String> {
        let parts = extents.into_iter().map(|(path, extent)| extent.part(path, what == "action"));
        Self::new(what, parts.collect())
    }

    /// What cells are called, where that is more than a number.
    pub(super) fn fields(&self) -> Vec<Field> {
        let is_named =
            |part: &Part| !part.path.is_empty() || part.starts.iter().any(|&start| start != 0);
        let words = |part: &Part| match &part.space {
            Space::MultiDiscrete { nvec } => nvec.iter().map(|&n| n as usize).sum(),
            Space::Discrete { n } => *n as usize,
            space => space.cells(),
        };
        let all: usize = self.parts.iter().map(words).sum();
        if all > MOST_NAMES || !self.parts.iter().any(is_named) {
            return Vec::new();
        }
        let fields: Vec<Field> =
            self.parts.iter().flat_map(|part| part.fields(self.what)).collect();
        let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
        names.sort_unstable();
        let is_unique = names.windows(2).all(|pair| pair[0] != pair[1]);
        if is_unique { fields } else { Vec::new() }
    }

    /// Checks that arrays, one a part, have rows of its space.
    pub(super) fn check(&self, arrays: &[Array]) -> Result<(), String> {
        for (part, array) in self.parts.iter().zip(arrays) {
            let (found, cells) = (array.width(), part.space.cells());
            if found != cells {
                let space = &part.space;
                return Err(format!(
                    "{}: {found} numbers a row where {space} has {cells}",
                    array.at
                ));
            }
        }
        Ok(())
    }

    /// The cells of some rows of arrays that were found to fit.
    pub(super) fn cells(&self, arrays: &[Array], rows: Range<usize>) -> Result<Cells, String> {
        if let ([Space::Box { .. }], [Array { numbers: Numbers::Single(values), .. }]) =
            (self.space.parts(), arrays)
        {
            let width = self.space.cells();
            return Ok(Cells::Float(values[rows.start * width..rows.end * width].to_vec()));
        }
        let mut cells = Cells::empty(self.space.cell_type());
        cells.reserve(rows.len() * self.space.cells());
        for row in rows {
            for (part, array) in self.parts.iter().zip(arrays) {
                let width = part.space.cells();
                for (cell, at) in (row * width..(row + 1) * width).enumerate() {
                    match (&mut cells, part.limit(cell)) {
                        (Cells::Float(to), None) => to.push(array.numbers.real(at)),
                        (Cells::Float(to), Some(_)) => {
                            to.push(part.category(array, at, cell)? as f32);
                        }
                        (to, _) => to.push_category(part.category(array, at, cell)? as usize),
                    }
                }
            }
        }
        Ok(cells)
    }
}

/// One space for parts side by side: the simplest that holds all of them.
fn combine(parts: &[Part]) -> Result<Space, String> {
    if let [part] = parts {
        return Ok(part.space.clone());
    }
    let cells = || parts.iter().map(|part| part.space.cells()).sum::<usize>();
    let all = |is: fn(&Space) -> bool| parts.iter().all(|part| is(&part.space));
    Ok(if parts.is_empty() {
        return Err("a space without parts".to_owned());
    } else if all(|space| matches!(space, Space::Box { .. })) {
        let is_bounded = |part: &Part| matches!(part.space, Space::Box { bounds: Some(_), .. });
        let bounds = |part: &Part| match &part.space {
            Space::Box { bounds: Some(bounds), .. } => bounds.clone(),
            space => vec![[f32::NEG_INFINITY, f32::INFINITY]; space.cells()],
        };
        let bounds = parts.iter().any(is_bounded).then(|| parts.iter().flat_map(bounds).collect());
        Space::Box { shape: vec![cells()], bounds }
    } else if all(|space| matches!(space, Space::MultiBinary { .. })) {
        Space::MultiBinary { shape: vec![cells()] }
    } else if all(|space| !matches!(space, Space::Box { .. })) {
        let nvec = parts.iter().flat_map(|part| part.space.categories()).flatten().collect();
        Space::MultiDiscrete { nvec }
    } else {
        Space::Tuple { spaces: parts.iter().map(|part| part.space.clone()).collect() }
    })
}

/// What the values of one part are like, over all arrays that hold them.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    shape: Vec<usize>,
    truths: bool,
    whole: bool,
    low: i64,
    high: i64,
}

impl Extent {
    /// Of one array, and of those before it.
    pub(super) fn with(before: Option<Extent>, array: &Array) -> Result<Extent, String> {
        let whole = array.numbers.are_whole().then(|| array.whole_range()).flatten();
        let (low, high) = whole.unwrap_or((0, 0));
        let extent = Extent {
            shape: array.shape.clone(),
            truths: array.truths,
            whole: whole.is_some(),
            low,
            high,
        };
        let Some(before) = before else { return Ok(extent) };
        if before.shape != extent.shape {
            return Err(format!(
                "{}: rows of {:?} numbers, those before have {:?}",
                array.at, extent.shape, before.shape
            ));
        }
        Ok(Extent {
            shape: extent.shape,
            truths: before.truths && extent.truths,
            whole: before.whole && extent.whole,
            low: before.low.min(extent.low),
            high: before.high.max(extent.high),
        })
    }

    fn part(self, path: Vec<Key>, is_action: bool) -> Part {
        let cells = self.shape.iter().fold(1usize, |all, &n| all.saturating_mul(n));
        let start = self.low.min(0);
        let n = self.high.checked_sub(start).and_then(|n| n.checked_add(1));
        let n = n.and_then(|n| u32::try_from(n).ok()).filter(|&n| n <= MAX_CATEGORIES);
        let space = match n {
            _ if self.truths && cells > 1 => Space::MultiBinary { shape: self.shape },
            _ if self.truths => Space::Discrete { n: 2 },
            Some(n) if self.whole && cells == 1 => Space::Discrete { n },
            // Rows that are too long are refused before anything is made of them.
            Some(n) if self.whole && is_action && cells <= MOST_NAMES => {
                Space::MultiDiscrete { nvec: vec![n; cells] }
            }
            _ => Space::Box { shape: self.shape, bounds: None },
        };
        let is_shifted = start != 0 && !matches!(space, Space::Box { .. });
        let starts = if is_shifted { vec![start; cells] } else { Vec::new() };
        Part { path, space, starts, is_image: false }
    }
}

/// Finds the parts of a space that is written as JSON.
fn collect(json: &Value, path: &mut Vec<Key>, parts: &mut Vec<Part>) -> Result<(), String> {
    let place = |path: &[Key]| match path {
        [] => String::new(),
        path => {
            let keys: Vec<String> = path.iter().map(Key::to_string).collect();
            format!(" of `{}`", keys.join("."))
        }
    };
    let missing = |key: &str| format!("the space{} has no sound `{key}`", place(path));
    let kind = json["type"].as_str().ok_or_else(|| missing("type"))?;
    let mut nested = |key: Key, space: &Value, path: &mut Vec<Key>| {
        path.push(key);
        let found = collect(space, path, parts);
        path.pop();
        found
    };
    let (space, starts) = match kind {
        "Dict" => {
            let spaces = json["subspaces"].as_object().ok_or_else(|| missing("subspaces"))?;
            return spaces
                .iter()
                .try_for_each(|(name, space)| nested(Key::Name(name.clone()), space, path));
        }
        "Tuple" => {
            let spaces = json["subspaces"].as_array().ok_or_else(|| missing("subspaces"))?;
            return spaces
                .iter()
                .enumerate()
                .try_for_each(|(at, space)| nested(Key::Index(at), space, path));
        }
        "Discrete" => {
            let n = json["n"].as_u64().and_then(|n| u32::try_from(n).ok());
            let n = n.ok_or_else(|| missing("n"))?;
            (Space::Discrete { n }, vec![json["start"].as_i64().unwrap_or(0)])
        }
        "MultiDiscrete" => {
            let mut nvec = Vec::new();
            flatten(&json["nvec"], &mut |n| {
                nvec.push(n.as_u64().and_then(|n| u32::try_from(n).ok())?);
                Some(())
            })
            .ok_or_else(|| missing("nvec"))?;
            let mut starts = Vec::new();
            if !json["start"].is_null() {
                flatten(&json["start"], &mut |start| {
                    starts.push(start.as_i64()?);
                    Some(())
                })
                .filter(|()| starts.len() == nvec.len())
                .ok_or_else(|| missing("start"))?;
            }
            (Space::MultiDiscrete { nvec }, starts)
        }
        "MultiBinary" => {
            let shape = match json["n"].as_u64() {
                Some(n) => Some(vec![n as usize]),
                None => sizes(&json["n"]),
            };
            (Space::MultiBinary { shape: shape.ok_or_else(|| missing("n"))? }, Vec::new())
        }
        "Box" => {
            let shape = sizes(&json["shape"]).ok_or_else(|| missing("shape"))?;
            let (low, high) = (reals(&json["low"]), reals(&json["high"]));
            let low = low.ok_or_else(|| missing("low"))?;
            let high = high.ok_or_else(|| missing("high"))?;
            if low.len() != high.len() {
                return Err(missing("high"));
            }
            let bounds: Vec<[f32; 2]> =
                low.into_iter().zip(high).map(|(low, high)| [low, high]).collect();
            let is_bounded = |pair: &[f32; 2]| pair.iter().any(|bound| bound.is_finite());
            let cells = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
            if cells != Some(bounds.len()) {
                return Err(missing("low"));
            }
            let bounds = bounds.iter().any(is_bounded).then_some(bounds);
            (Space::Box { shape, bounds }, Vec::new())
        }
        other => {
            let place = place(path);
            return Err(format!(
                "the space{place} is {other}, which is not supported; leave it out when the data is written"
            ));
        }
    };
    let is_image = json["dtype"] == "uint8"
        && matches!(&space, Space::Box { shape, .. }
            if (2..=3).contains(&shape.len()) && shape[0] >= 32 && shape[1] >= 32);
    let starts = if starts.iter().all(|&start| start == 0) { Vec::new() } else { starts };
    parts.push(Part { path: path.clone(), space, starts, is_image });
    Ok(())
}

/// Calls for every leaf of nested lists, until one is not what it has to be.
fn flatten(json: &Value, visit: &mut impl FnMut(&Value) -> Option<()>) -> Option<()> {
    match json {
        Value::Array(values) => values.iter().try_for_each(|value| flatten(value, visit)),
        leaf => visit(leaf),
    }
}

fn sizes(json: &Value) -> Option<Vec<usize>> {
    json.as_array()?.iter().map(|n| usize::try_from(n.as_u64()?).ok()).collect()
}

fn reals(json: &Value) -> Option<Vec<f32>> {
    let mut reals = Vec::new();
    flatten(json, &mut |value| {
        let real = match value {
            Value::String(text) if text == "Infinity" => f64::INFINITY,
            Value::String(text) if text == "-Infinity" => f64::NEG_INFINITY,
            value => value.as_f64()?,
        };
        reals.push(real as f32);
        Some(())
    })?;
    Some(reals)
}

/// Parses JSON as Python writes it, where numbers may be `Infinity`, `-Infinity` and `NaN`: they become texts.
pub(super) fn parse_json(text: &str) -> Result<Value, serde_json::Error> {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    let mut in_text = false;
    while let Some(c) = rest.chars().next() {
        let word = ["Infinity", "-Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word));
        match (in_text, word, c) {
            (false, Some(word), _) => {
                clean.extend(["\"", word, "\""]);
                rest = &rest[word.len()..];
                continue;
            }
            (true, _, '\\') => {
                // Whatever is escaped ends no text.
                let length = rest.chars().take(2).map(char::len_utf8).sum();
                clean.push_str(&rest[..length]);
                rest = &rest[length..];
                continue;
            }
            (_, _, '"') => in_text = !in_text,
            _ => {}
        }
        clean.push(c);
        rest = &rest[c.len_utf8()..];
    }
    serde_json::from_str(&clean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::CellType;
    use serde_json::json;

    fn side(json: Value) -> Result<Side, String> {
        Side::from_json("observation", &json)
    }

    fn array(at: &str, shape: &[usize], values: &[f64]) -> Array {
        let width = shape.iter().product::<usize>().max(1);
        Array {
            at: at.to_owned(),
            rows: values.len() / width,
            shape: shape.to_vec(),
            numbers: Numbers::Double(values.to_vec()),
            truths: false,
        }
    }

    #[test]
    fn pythons_json_is_read() {
        let text = r#"{"low": [-Infinity, 1], "name": "an \"Infinity\" NaN", "nan": NaN}"#;
        let expected =
            json!({"low": ["-Infinity", 1], "name": "an \"Infinity\" NaN", "nan": "NaN"});
        assert_eq!(parse_json(text).unwrap(), expected);
        assert!(parse_json("{\"a\": \"b\\").is_err());
    }

    #[test]
    fn like_parts_are_one_space_and_unlike_ones_a_tuple() {
        let real =
            json!({"type": "Box", "shape": [2], "low": [0, "-Infinity"], "high": [1, "Infinity"]});
        let free = json!({"type": "Box", "shape": [], "low": "-Infinity", "high": "Infinity"});
        let choice = json!({"type": "Discrete", "n": 3, "start": 4});
        let of = |spaces: Value| side(json!({"type": "Tuple", "subspaces": spaces})).unwrap();
        let both = of(json!([real, free]));
        let open = [f32::NEG_INFINITY, f32::INFINITY];
        let bounds = Some(vec![[0.0, 1.0], open, open]);
        assert_eq!(both.space, Space::Box { shape: vec![3], bounds });
        let names: Vec<String> = both.fields().into_iter().map(|field| field.name).collect();
        assert_eq!(names, ["0[0]", "0[1]", "1"]);
        let choices = of(json!([choice, {"type": "MultiBinary", "n": 2}]));
        assert_eq!(choices.space, Space::MultiDiscrete { nvec: vec![3, 2, 2] });
        let mixed = of(json!([choice, free]));
        assert_eq!(mixed.space.to_string(), "Tuple(Discrete(3), Box())");
        let cells =
            mixed.cells(&[array("a", &[], &[4.0, 6.0]), array("b", &[], &[0.5, 1.5])], 0..2);
        assert_eq!(cells.unwrap(), Cells::Float(vec![0.0, 0.5, 2.0, 1.5]));
        assert_eq!(mixed.space.cell_type(), CellType::Float);
    }

    #[test]
    fn what_is_no_value_is_said_with_its_place() {
        let space = side(json!({"type": "Discrete", "n": 3, "start": 4})).unwrap();
        for (value, words) in [(3.0, "4 to 6"), (7.0, "row 1"), (4.5, "4.5")] {
            let error = space.cells(&[array("x/y", &[], &[4.0, value])], 0..2).unwrap_err();
            assert!(error.contains(words) && error.contains("x/y"), "{error}");
        }
        let error = space.check(&[array("x/y", &[2], &[4.0, 5.0])]).unwrap_err();
        assert!(error.contains("2 numbers a row"), "{error}");
    }

    #[test]
    fn unsound_spaces_are_refused() {
        for json in [
            json!({}),
            json!({"type": "Text", "max_length": 3}),
            json!({"type": "Discrete", "n": 0}),
            json!({"type": "Discrete", "n": 1u64 << 40}),
            json!({"type": "MultiBinary", "n": 1u64 << 60}),
            json!({"type": "Box", "shape": [1u64 << 60, 1u64 << 60], "low": [0], "high": [1]}),
            json!({"type": "Box", "shape": [2], "low": [0, 0], "high": [1]}),
            json!({"type": "Dict", "subspaces": {}}),
        ] {
            assert!(side(json.clone()).is_err(), "{json}");
        }
        let mixture = json!({"type": "Tuple", "subspaces": [
            {"type": "Discrete", "n": 2}, {"type": "Box", "shape": [], "low": 0, "high": 1}
        ]});
        assert!(Side::from_json("action", &mixture).is_err());
    }

    #[test]
    fn spaces_follow_from_values() {
        let whole = |shape: &[usize], values: &[i64]| Array {
            numbers: Numbers::Whole(values.to_vec()),
            ..array("a", shape, &values.iter().map(|&value| value as f64).collect::<Vec<_>>())
        };
        let infer = |what, array: &Array| {
            let extent = Extent::with(None, array).unwrap();
            Side::infer(what, vec![(Vec::new(), extent)]).unwrap()
        };
        let shifted = infer("action", &whole(&[], &[-1, 1]));
        assert_eq!(shifted.space, Space::Discrete { n: 3 });
        let cells = shifted.cells(&[whole(&[], &[-1, 1])], 0..2).unwrap();
        assert_eq!(cells, Cells::Byte(vec![0, 2]));
        assert_eq!(shifted.fields().len(), 1);
        let pair = whole(&[2], &[0, 5, 1, 2]);
        assert_eq!(infer("action", &pair).space, Space::MultiDiscrete { nvec: vec![6, 6] });
        assert_eq!(infer("observation", &pair).space, Space::Box { shape: vec![2], bounds: None });
        let far = infer("observation", &whole(&[1], &[0, 1 << 40]));
        assert_eq!(far.space, Space::Box { shape: vec![1], bounds: None });
    }
}
