//! From values to cells, as fields say.

use std::collections::HashMap;

use super::value::{Look, Value};
use super::words::Words;
use crate::calendar::SECONDS_OF_A_DAY;
use crate::fields::{Field, FieldKind, Word};

/// How the value of a column becomes one cell.
#[derive(Clone, Debug)]
pub(super) struct CellPlan {
    /// Which value of a row it is made of.
    pub(super) slot: usize,
    /// The same after the last action, where there is one.
    pub(super) final_slot: Option<usize>,
    name: String,
    encoder: Encoder,
}

#[derive(Clone, Debug)]
enum Encoder {
    Number { fill: Option<f32> },
    Boolean { fill: Option<f32> },
    Date { origin: f64, fill: Option<f32> },
    Category(Lookup),
    Missing,
}

/// Finds words, by what they are.
#[derive(Clone, Debug)]
enum Lookup {
    Whole { places: HashMap<i64, usize>, missing: Option<usize> },
    Boolean { places: [Option<usize>; 2], missing: Option<usize> },
    Text { words: Words, places: Vec<usize>, missing: Option<usize> },
}

impl CellPlan {
    pub(super) fn new(field: &Field, slot: usize, final_slot: Option<usize>) -> Self {
        let encoder = match &field.kind {
            FieldKind::Number { fill } => Encoder::Number { fill: *fill },
            FieldKind::Boolean { fill } => Encoder::Boolean { fill: *fill },
            FieldKind::Date { origin, fill } => Encoder::Date { origin: *origin, fill: *fill },
            FieldKind::Category { values } => Encoder::Category(Lookup::new(values)),
            FieldKind::Missing => Encoder::Missing,
        };
        CellPlan { slot, final_slot, name: field.name.clone(), encoder }
    }

    /// The cell of a value, or what is wrong with it.
    pub(super) fn cell(&self, value: &Value<'_>, buffer: &mut String) -> Result<f32, String> {
        let (found, fill) = match &self.encoder {
            Encoder::Number { fill } => (value.number(), fill),
            Encoder::Boolean { fill } => {
                (value.truth().map(|truth| f32::from(u8::from(truth))), fill)
            }
            Encoder::Date { origin, fill } => match value.look() {
                Look::Date(seconds) => (Some(((seconds - origin) / SECONDS_OF_A_DAY) as f32), fill),
                _ => (None, fill),
            },
            Encoder::Missing => {
                let missing = matches!(value.look(), Look::Missing | Look::Marker);
                return Ok(f32::from(u8::from(missing)));
            }
            Encoder::Category(lookup) => (lookup.find(value, buffer), &None),
        };
        let missing = || matches!(value.look(), Look::Missing | Look::Marker);
        match found {
            Some(cell) if cell.is_finite() => Ok(cell),
            Some(_) => Err(self.refused(value, "is not a finite number of 32 bits")),
            None => match fill {
                Some(fill) if missing() => Ok(*fill),
                _ if missing() => Err(format!("`{}` is missing", self.name)),
                _ => Err(self.refused(value, "does not fit its column")),
            },
        }
    }

    fn refused(&self, value: &Value<'_>, problem: &str) -> String {
        format!("`{}`: `{}` {problem}", self.name, value.text(&mut String::new()))
    }
}

impl Lookup {
    fn new(values: &[Word]) -> Self {
        let missing = values.iter().position(|word| *word == Word::Missing);
        let words = || values.iter().enumerate().filter(|(_, word)| **word != Word::Missing);
        if words().all(|(_, word)| matches!(word, Word::Whole(_))) {
            let place = |(at, word): (usize, &Word)| match word {
                Word::Whole(number) => Some((*number, at)),
                _ => None,
            };
            return Lookup::Whole { places: words().filter_map(place).collect(), missing };
        }
        if words().all(|(_, word)| matches!(word, Word::Boolean(_))) {
            let place = |truth| values.iter().position(|word| *word == Word::Boolean(truth));
            return Lookup::Boolean { places: [place(false), place(true)], missing };
        }
        let (mut texts, mut places) = (Words::default(), Vec::new());
        for (at, word) in words() {
            if texts.add(&word.to_string()) == places.len() {
                places.push(at);
            }
        }
        Lookup::Text { words: texts, places, missing }
    }

    fn find(&self, value: &Value<'_>, buffer: &mut String) -> Option<f32> {
        let place = match self {
            Lookup::Whole { places, missing } => match value.look() {
                Look::Whole(number) => places.get(&number).copied(),
                Look::Missing | Look::Marker => *missing,
                _ => None,
            },
            Lookup::Boolean { places, missing } => match value.look() {
                Look::Missing | Look::Marker => *missing,
                _ => value.truth().and_then(|truth| places[usize::from(truth)]),
            },
            Lookup::Text { missing, .. } if *value == Value::Missing => *missing,
            Lookup::Text { words, places, .. } => {
                words.find(value.text(buffer)).map(|number| places[number])
            }
        };
        place.map(|place| place as f32)
    }
}
