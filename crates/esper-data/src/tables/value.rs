//! One value of a table, whichever format it came from, and what it looks like.

use std::borrow::Cow;
use std::fmt::Write;

use crate::calendar::{SECONDS_OF_A_DAY, civil, parse_date, parse_nanoseconds};
use crate::fields::is_marker;

/// A value of a row. Tables without types have texts only, and those may be numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value<'a> {
    /// Nothing is there.
    Missing,
    /// A text as it stands, never empty.
    Text(Cow<'a, str>),
    /// The same in a table with types, which says that it is a text.
    String(Cow<'a, str>),
    /// A whole number.
    Whole(i64),
    /// A number that is not NaN.
    Number(f64),
    /// So many of the `scale`-th decimal: what fits neither of them without rounding.
    Decimal { unscaled: i128, scale: i8 },
    /// True or false.
    Truth(bool),
    /// A date.
    Date {
        /// Seconds since 1970.
        seconds: f64,
        /// The same in nanoseconds, which no rounding has touched.
        nanoseconds: i128,
    },
}

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Look {
    Missing,
    /// A word that stands for a missing number: `NA`, `nan`, `null`.
    Marker,
    Whole(i64),
    /// A whole number with zeros in front, as codes have them: `00501`.
    Padded(i64),
    Number(f64),
    /// `true` and `false`.
    Truth(bool),
    /// Another word for true and false: `yes` and `no`.
    TruthWord(bool),
    Date(f64),
    Text,
}

impl Value<'_> {
    /// What the value looks like.
    pub(super) fn look(&self) -> Look {
        match self {
            Value::Missing => Look::Missing,
            Value::Text(text) | Value::String(text) => look(text),
            Value::Whole(number) => Look::Whole(*number),
            Value::Number(number) => whole(*number).map_or(Look::Number(*number), Look::Whole),
            Value::Decimal { unscaled, scale } => match decimal_whole(*unscaled, *scale) {
                Some(number) => Look::Whole(number),
                None => Look::Number(decimal(*unscaled, *scale)),
            },
            Value::Truth(truth) => Look::Truth(*truth),
            Value::Date { seconds, .. } => Look::Date(*seconds),
        }
    }

    /// The value as a text, to be told from others by; `buffer` is where it is written if it is none.
    pub(super) fn text<'b>(&'b self, buffer: &'b mut String) -> &'b str {
        buffer.clear();
        // Writing to a string cannot fail.
        let _ = match self {
            Value::Missing => Ok(()),
            Value::Text(text) | Value::String(text) => return text,
            Value::Whole(number) => write!(buffer, "{number}"),
            Value::Number(number) => match whole(*number) {
                Some(number) => write!(buffer, "{number}"),
                None => write!(buffer, "{number}"),
            },
            Value::Decimal { unscaled, scale } => write_decimal(buffer, *unscaled, *scale),
            Value::Truth(truth) => write!(buffer, "{truth}"),
            Value::Date { nanoseconds, .. } => {
                buffer.push_str(&format_nanoseconds(*nanoseconds));
                Ok(())
            }
        };
        buffer
    }

    /// The value as a number of 32 bits, if it is one. Texts are rounded once.
    pub(super) fn number(&self) -> Option<f32> {
        match self {
            Value::Text(text) | Value::String(text) => match text.trim().parse::<f32>() {
                Ok(number) if !number.is_nan() => Some(number),
                _ => None,
            },
            Value::Whole(number) => Some(*number as f32),
            Value::Number(number) => Some(*number as f32),
            Value::Decimal { unscaled, scale } => Some(decimal(*unscaled, *scale) as f32),
            Value::Truth(truth) => Some(f32::from(u8::from(*truth))),
            Value::Missing | Value::Date { .. } => None,
        }
    }

    /// Whether the value says true or false; `None` if it says neither.
    pub(super) fn truth(&self) -> Option<bool> {
        match self.look() {
            Look::Truth(truth) | Look::TruthWord(truth) => Some(truth),
            Look::Whole(1) | Look::Padded(1) => Some(true),
            Look::Whole(0) | Look::Padded(0) => Some(false),
            _ => None,
        }
    }
}

impl Value<'_> {
    /// How many decimals the value is written with; `None` where it is not written with digits alone.
    pub(super) fn decimals(&self) -> Option<u8> {
        match self {
            Value::Whole(_) => Some(0),
            Value::Decimal { scale, .. } => Some((*scale).max(0) as u8),
            Value::Text(text) | Value::String(text) => {
                let digits = text.trim().trim_start_matches(['+', '-']);
                let (whole, rest) = digits.split_once('.').unwrap_or((digits, ""));
                let is_digits = whole.bytes().chain(rest.bytes()).all(|byte| byte.is_ascii_digit());
                u8::try_from(rest.len()).ok().filter(|_| is_digits)
            }
            _ => None,
        }
    }

    /// The value in units of a decimal, exactly; `None` where it has more decimals or is too large.
    pub(super) fn scaled(&self, decimals: u8) -> Option<i128> {
        let more = |by: u8| 10i128.checked_pow(u32::from(by));
        match self {
            Value::Whole(number) => i128::from(*number).checked_mul(more(decimals)?),
            Value::Decimal { unscaled, scale } => {
                let by = i16::from(decimals) - i16::from(*scale);
                unscaled.checked_mul(more(u8::try_from(by).ok()?)?)
            }
            Value::Text(text) | Value::String(text) => {
                let by = decimals.checked_sub(self.decimals()?)?;
                let digits: String = text.trim().chars().filter(|&c| c != '.').collect();
                digits.parse::<i128>().ok()?.checked_mul(more(by)?)
            }
            _ => None,
        }
    }

    /// Nanoseconds since 1970 of a date.
    pub(super) fn nanoseconds(&self) -> Option<i128> {
        match self {
            Value::Date { nanoseconds, .. } => Some(*nanoseconds),
            Value::Text(text) | Value::String(text) => parse_nanoseconds(text),
            _ => None,
        }
    }
}

/// A decimal, rounded.
fn decimal(unscaled: i128, scale: i8) -> f64 {
    unscaled as f64 / 10f64.powi(i32::from(scale))
}

/// The whole number that a decimal is, if it is one of 64 bits.
fn decimal_whole(unscaled: i128, scale: i8) -> Option<i64> {
    let power = 10i128.checked_pow(u32::from(scale.unsigned_abs()))?;
    let whole = match scale {
        ..=0 => unscaled.checked_mul(power)?,
        _ => (unscaled % power == 0).then_some(unscaled / power)?,
    };
    i64::try_from(whole).ok()
}

/// Writes a decimal as a number is written: without zeros at its end.
fn write_decimal(buffer: &mut String, unscaled: i128, scale: i8) -> std::fmt::Result {
    if scale <= 0 {
        let zeros = if unscaled == 0 { 0 } else { usize::from(scale.unsigned_abs()) };
        return write!(buffer, "{unscaled}{}", "0".repeat(zeros));
    }
    let scale = usize::from(scale.unsigned_abs());
    let digits = format!("{:0width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, rest) = digits.split_at(digits.len() - scale);
    let rest = rest.trim_end_matches('0');
    let sign = if unscaled < 0 { "-" } else { "" };
    let point = if rest.is_empty() { "" } else { "." };
    write!(buffer, "{sign}{whole}{point}{rest}")
}

/// The whole number that a number is, if it is one that is kept exactly.
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() <= 2f64.powi(53)).then_some(number as i64)
}

/// What a text looks like.
pub(super) fn look(text: &str) -> Look {
    let text = text.trim();
    let bytes = text.as_bytes();
    let Some(&first) = bytes.first() else { return Look::Missing };
    if matches!(first, b'0'..=b'9' | b'+' | b'-' | b'.') {
        let is_padded = is_padded(bytes);
        if let Some(number) = short_whole(bytes).or_else(|| text.parse().ok()) {
            return if is_padded { Look::Padded(number) } else { Look::Whole(number) };
        }
        if is_padded {
            return Look::Text;
        }
        if let Ok(number) = text.parse::<f64>() {
            return whole(number).map_or(Look::Number(number), Look::Whole);
        }
        if bytes.get(4) == Some(&b'-')
            && let Some(seconds) = parse_date(text)
        {
            return Look::Date(seconds);
        }
    } else if bytes.len() <= 9 {
        let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        match first.to_ascii_lowercase() {
            b't' if is(&["true"]) => return Look::Truth(true),
            b'f' if is(&["false"]) => return Look::Truth(false),
            b't' | b'y' if is(&["t", "y", "yes"]) => return Look::TruthWord(true),
            b'f' | b'n' if is(&["f", "n", "no"]) => return Look::TruthWord(false),
            b'i' if is(&["inf", "infinity"]) => return Look::Number(f64::INFINITY),
            _ => {}
        }
    }
    match is_marker(text) {
        true => Look::Marker,
        false => Look::Text,
    }
}

/// Whether a text is nothing but digits, with a zero in front that a number does not need.
fn is_padded(bytes: &[u8]) -> bool {
    match bytes {
        [b'0', rest @ ..] | [b'+' | b'-', b'0', rest @ ..] => {
            !rest.is_empty() && rest.iter().all(u8::is_ascii_digit)
        }
        _ => false,
    }
}

/// A whole number of at most 15 digits, which most of them have.
fn short_whole(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 15 {
        return None;
    }
    let mut number = 0i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        number = 10 * number + i64::from(byte - b'0');
    }
    Some(if negative { -number } else { number })
}

/// A date as ISO 8601 has it, which [`parse_date`] reads: the day alone at midnight.
pub(super) fn format_date(seconds: f64) -> String {
    let day = (seconds / SECONDS_OF_A_DAY).floor();
    let nanoseconds = ((seconds - day * SECONDS_OF_A_DAY) * 1e9).round() as u64;
    let (extra, nanoseconds) = (nanoseconds / 86_400_000_000_000, nanoseconds % 86_400_000_000_000);
    format_moment(day as i64 + extra as i64, nanoseconds)
}

/// The same of nanoseconds since 1970.
fn format_nanoseconds(nanoseconds: i128) -> String {
    const DAY: i128 = 86_400_000_000_000;
    format_moment(nanoseconds.div_euclid(DAY) as i64, nanoseconds.rem_euclid(DAY) as u64)
}

/// A day since 1970 and so many nanoseconds of it.
fn format_moment(day: i64, nanoseconds: u64) -> String {
    let (year, month, day) = civil(day);
    let mut text = format!("{year:04}-{month:02}-{day:02}");
    if nanoseconds > 0 {
        let (whole, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
        let (hours, minutes) = (whole / 3600, whole / 60 % 60);
        let _ = write!(text, "T{hours:02}:{minutes:02}:{:02}", whole % 60);
        if rest > 0 {
            let _ = write!(text, ".{}", format!("{rest:09}").trim_end_matches('0'));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_look_like_what_they_are() {
        for (text, expected) in [
            ("", Look::Missing),
            ("  ", Look::Missing),
            ("NA", Look::Marker),
            ("NaN", Look::Marker),
            ("None", Look::Marker),
            ("12", Look::Whole(12)),
            (" -3 ", Look::Whole(-3)),
            ("+7", Look::Whole(7)),
            ("2.0", Look::Whole(2)),
            ("1e3", Look::Whole(1000)),
            ("1700000000000000301", Look::Whole(1_700_000_000_000_000_301)),
            ("00501", Look::Padded(501)),
            ("-01", Look::Padded(-1)),
            ("000000000000000000000000000012", Look::Padded(12)),
            ("099999999999999999999", Look::Text),
            ("0", Look::Whole(0)),
            ("0.5", Look::Number(0.5)),
            (".5", Look::Number(0.5)),
            ("-inf", Look::Number(f64::NEG_INFINITY)),
            ("inf", Look::Number(f64::INFINITY)),
            ("True", Look::Truth(true)),
            ("no", Look::TruthWord(false)),
            ("1970-01-02", Look::Date(86_400.0)),
            ("1970-01-02T00:00:01", Look::Date(86_401.0)),
            ("2024-13-01", Look::Text),
            ("1,5", Look::Text),
            ("ward", Look::Text),
            ("é", Look::Text),
            ("12345678901234567890", Look::Number(12_345_678_901_234_567_890.0)),
        ] {
            assert_eq!(look(text), expected, "{text:?}");
        }
    }

    #[test]
    fn dates_are_written_as_they_are_read() {
        for text in [
            "1970-01-01",
            "2000-02-29",
            "1969-12-31T23:59:59",
            "2024-05-31T12:30:15.5",
            "1900-03-01",
            "2024-12-31",
            "0001-01-01",
            "9999-12-31T23:59:59",
        ] {
            assert_eq!(format_date(parse_date(text).unwrap()), text);
        }
    }

    #[test]
    fn numbers_are_told_apart_by_their_value() {
        let mut buffer = String::new();
        assert_eq!(Value::Number(3.0).text(&mut buffer), "3");
        assert_eq!(Value::Whole(3).text(&mut buffer), "3");
        assert_eq!(Value::Number(0.1).text(&mut buffer), "0.1");
    }

    #[test]
    fn decimals_are_what_they_are_written_as() {
        let mut buffer = String::new();
        for (unscaled, scale, text, look) in [
            (1500, 2, "15", Look::Whole(15)),
            (-5, 2, "-0.05", Look::Number(-0.05)),
            (120, 1, "12", Look::Whole(12)),
            (7, -3, "7000", Look::Whole(7000)),
            (0, -3, "0", Look::Whole(0)),
            (123, 0, "123", Look::Whole(123)),
            (1 << 64, 0, "18446744073709551616", Look::Number(18_446_744_073_709_551_616.0)),
        ] {
            let value = Value::Decimal { unscaled, scale };
            assert_eq!((value.text(&mut buffer), value.look()), (text, look));
            let written = Value::Text(text.into());
            assert_eq!(value.scaled(4), written.scaled(4), "{text}");
            assert!(value.scaled(4).is_some());
        }
        let date = Value::Date { seconds: 0.0, nanoseconds: 1_704_067_200_000_000_003 };
        assert_eq!(date.text(&mut buffer), "2024-01-01T00:00:00.000000003");
        let written = Value::Text("2024-01-01T00:00:00.000000003Z".into());
        assert_eq!(date.nanoseconds(), written.nanoseconds());
        let before = Value::Text("1969-12-31T23:59:59.999999999".into());
        assert_eq!(before.nanoseconds(), Some(-1));
        assert_eq!(Value::Text("1e3".into()).scaled(2), None);
    }
}
