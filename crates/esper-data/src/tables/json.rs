//! JSON lines: one object a line. Objects within objects are columns with a point in their names, arrays are several cells.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::value::Value;

/// A value of JSON; keys stay in their order.
#[derive(Debug, PartialEq)]
pub(super) enum Json<'a> {
    Scalar(Value<'a>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'de: 'a, 'a> Deserialize<'de> for Json<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

fn text<'a>(text: Cow<'a, str>) -> Json<'a> {
    Json::Scalar(if text.is_empty() { Value::Missing } else { Value::String(text) })
}

impl<'de> Visitor<'de> for AnyValue {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Json::Scalar(Value::Missing))
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(Json::Scalar(Value::Truth(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Json::Scalar(Value::Whole(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        let whole = i64::try_from(number).map(Value::Whole);
        Ok(Json::Scalar(whole.unwrap_or(Value::Number(number as f64))))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Json::Scalar(Value::Number(number)))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<Self::Value, E> {
        Ok(text(Cow::Borrowed(value)))
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(text(Cow::Owned(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element()? {
            array.push(item);
        }
        Ok(Json::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut object = Vec::new();
        while let Some(Key(key)) = entries.next_key()? {
            object.push((key, entries.next_value()?));
        }
        Ok(Json::Object(object))
    }
}

/// A key, borrowed where nothing in it is escaped.
struct Key<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Key<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }
            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }
            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// What is under one name: a value, or so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Only `null` so far.
    Unknown,
    Scalar,
    List(usize),
}

/// The names there are, in the order of their first appearance, and what is under them.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) shapes: Vec<(String, Shape)>,
    numbers: HashMap<String, usize>,
}

impl Layout {
    /// Adds what is under a name, or says why it does not fit what was there before.
    pub(super) fn add(&mut self, name: &str, shape: Shape) -> Result<(), String> {
        let Some(&at) = self.numbers.get(name) else {
            self.numbers.insert(name.to_owned(), self.shapes.len());
            self.shapes.push((name.to_owned(), shape));
            return Ok(());
        };
        let known = &mut self.shapes[at].1;
        match (*known, shape) {
            (known, shape) if known == shape => Ok(()),
            (_, Shape::Unknown) => Ok(()),
            (Shape::Unknown, shape) => {
                *known = shape;
                Ok(())
            }
            (Shape::List(width), Shape::List(found)) => {
                Err(format!("`{name}` has {found} elements where those before have {width}"))
            }
            _ => Err(format!("`{name}` is an array in some lines and one value in others")),
        }
    }
}

/// One line as an object, or what is wrong with it.
pub(super) fn object(line: &str) -> Result<Vec<(Cow<'_, str>, Json<'_>)>, String> {
    match serde_json::from_str::<Json<'_>>(line) {
        Ok(Json::Object(mut entries)) => {
            if entries.iter().any(|(_, value)| value.is_wide()) {
                let mut literals = wide_literals(line);
                entries.iter_mut().for_each(|(_, value)| value.spell(&mut literals));
            }
            Ok(entries)
        }
        Ok(_) => Err("is not an object; JSON lines have one object a line".to_owned()),
        // Lines are counted by us: the library has seen but one.
        Err(error) => {
            let text = error.to_string();
            let problem = text.split(" at line ").next().unwrap_or_default();
            Err(format!("is not JSON: {problem} (column {})", error.column()))
        }
    }
}

/// From here on 64 bits do not hold a whole number.
const WIDE: f64 = 9_223_372_036_854_775_808.0;

impl<'a> Json<'a> {
    /// Whether there is a number in it that 64 bits do not hold, so that it was rounded.
    fn is_wide(&self) -> bool {
        match self {
            Json::Scalar(Value::Number(number)) => number.abs() >= WIDE,
            Json::Scalar(_) => false,
            Json::Array(items) => items.iter().any(Json::is_wide),
            Json::Object(entries) => entries.iter().any(|(_, value)| value.is_wide()),
        }
    }

    /// Puts the numbers that were rounded back as they are spelt, which comes in the same order.
    fn spell(&mut self, literals: &mut impl Iterator<Item = &'a str>) {
        match self {
            Json::Scalar(value) => {
                if matches!(value, Value::Number(number) if number.abs() >= WIDE)
                    && let Some(literal) = literals.next()
                {
                    *value = Value::Text(Cow::Borrowed(literal));
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| item.spell(literals)),
            Json::Object(entries) => {
                entries.iter_mut().for_each(|(_, value)| value.spell(literals));
            }
        }
    }
}

/// The numbers of a line of JSON that 64 bits do not hold, as they are spelt.
fn wide_literals(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit())?;
            rest = &rest[at..];
            if let Some(text) = rest.strip_prefix('"') {
                rest = behind_text(text);
                continue;
            }
            let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
            let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            let literal = &rest[..end];
            rest = &rest[end..];
            if literal.parse::<f64>().is_ok_and(|number| number.abs() >= WIDE) {
                return Some(literal);
            }
        }
    })
}

/// What is behind the quote that closes a text.
fn behind_text(text: &str) -> &str {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' if !escaped => return &text[at + 1..],
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    ""
}

/// Hands over what is under every name of an object.
pub(super) fn leaves<'j, 'a>(
    prefix: &str,
    entries: &'j [(Cow<'a, str>, Json<'a>)],
    each: &mut impl FnMut(&str, Leaf<'j, 'a>) -> Result<(), String>,
) -> Result<(), String> {
    for (at, (key, value)) in entries.iter().enumerate() {
        if entries[..at].iter().any(|(other, _)| other == key) {
            return Err(format!("`{prefix}{key}` is there twice"));
        }
        let joined;
        let name: &str = if prefix.is_empty() {
            key
        } else {
            joined = format!("{prefix}{key}");
            &joined
        };
        match value {
            Json::Scalar(value) => each(name, Leaf::Scalar(value))?,
            Json::Array(items) => each(name, Leaf::List(items))?,
            Json::Object(entries) => leaves(&format!("{name}."), entries, each)?,
        }
    }
    Ok(())
}

/// What is under a name.
pub(super) enum Leaf<'j, 'a> {
    Scalar(&'j Value<'a>),
    List(&'j [Json<'a>]),
}

impl Leaf<'_, '_> {
    pub(super) fn shape(&self) -> Shape {
        match self {
            Leaf::Scalar(Value::Missing) => Shape::Unknown,
            Leaf::Scalar(_) => Shape::Scalar,
            Leaf::List(items) => Shape::List(items.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_flattened_in_their_order() {
        let line =
            r#"{"z": 1, "o": {"b": null, "a": [1.5, "x"]}, "t": "é\n", "u": true, "n": 1e400}"#;
        assert!(object(line).unwrap_err().contains("number out of range"));
        let line = line.replace("1e400", "-2.5");
        let entries = object(&line).unwrap();
        let mut layout = Layout::default();
        leaves("", &entries, &mut |name, leaf| layout.add(name, leaf.shape())).unwrap();
        let names: Vec<&str> = layout.shapes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["z", "o.b", "o.a", "t", "u", "n"]);
        assert_eq!((layout.shapes[1].1, layout.shapes[2].1), (Shape::Unknown, Shape::List(2)));
        assert!(layout.add("o.a", Shape::List(3)).unwrap_err().contains("3 elements"));
        assert!(layout.add("z", Shape::List(3)).is_err());
        assert!(layout.add("z", Shape::Unknown).is_ok());
    }

    #[test]
    fn numbers_of_any_length_keep_their_digits() {
        let line = r#"{"9999999999999999999999": "\\\"99999999999999999999\"", "a": 18446744073709551615, "b": [-9223372036854776308, 5, 1e30], "c": {"d": 10000000000000000000000001}}"#;
        let entries = object(line).unwrap();
        let mut found = Vec::new();
        leaves("", &entries, &mut |_, leaf| {
            let mut add = |value: &Value<'_>| found.push(value.text(&mut String::new()).to_owned());
            match leaf {
                Leaf::Scalar(value) => add(value),
                Leaf::List(items) => items.iter().for_each(|item| {
                    let Json::Scalar(value) = item else { unreachable!() };
                    add(value);
                }),
            }
            Ok(())
        })
        .unwrap();
        let wide = [
            "18446744073709551615",
            "-9223372036854776308",
            "5",
            "1e30",
            "10000000000000000000000001",
        ];
        assert_eq!(found[1..], wide);
    }

    #[test]
    fn what_is_no_object_is_said() {
        for line in ["[1]", "3", "{", "nonsense", "{\"a\": NaN}", "{\"a\": 1} x"] {
            assert!(object(line).is_err(), "{line}");
        }
        let entries = object(r#"{"a": 1, "a": 2}"#).unwrap();
        assert!(leaves("", &entries, &mut |_, _| Ok(())).unwrap_err().contains("twice"));
        let deep = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
        assert!(object(&deep).is_err());
    }
}
