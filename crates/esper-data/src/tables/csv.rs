//! Texts with separators (RFC 4180): records are cut into fields, without a copy but where quotes are doubled.

use std::borrow::Cow;

use super::value::Value;

/// What may stand between fields.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// The separator of a table, by its first record: the one that is there most often outside of quotes.
pub(super) fn separator(text: &str) -> u8 {
    let mut counts = [0usize; SEPARATORS.len()];
    let mut quoted = false;
    for byte in text.bytes() {
        match byte {
            b'"' => quoted = !quoted,
            b'\n' if !quoted => break,
            _ if quoted => {}
            _ => {
                if let Some(at) = SEPARATORS.iter().position(|&separator| separator == byte) {
                    counts[at] += 1;
                }
            }
        }
    }
    let most = counts.into_iter().max().unwrap_or(0);
    let at = counts.iter().position(|&count| count == most).unwrap_or(0);
    SEPARATORS[at]
}

/// The separator that a first line such as `sep=;` says, which Excel writes and reads, and how long that line is.
pub(super) fn said_separator(text: &str) -> Option<(u8, usize)> {
    let end = text.find('\n')?;
    let line = text[..end].trim_end_matches('\r').trim_matches('"');
    let (name, said) = line.split_at_checked(4)?;
    match said.as_bytes() {
        [separator] if name.eq_ignore_ascii_case("sep=") => Some((*separator, end + 1)),
        _ => None,
    }
}

/// Where the last complete record ends, from the start of one on; `None` if none does.
pub(super) fn last_record_end(bytes: &[u8], separator: u8) -> Option<usize> {
    let mut end = None;
    let mut at = 0;
    loop {
        let quote = memchr::memchr(b'"', &bytes[at..]).map(|found| at + found);
        let outside = &bytes[at..quote.unwrap_or(bytes.len())];
        if let Some(newline) = memchr::memrchr(b'\n', outside) {
            end = Some(at + newline + 1);
        }
        let Some(quote) = quote else { return end };
        let opens = quote == 0 || bytes[quote - 1] == separator || bytes[quote - 1] == b'\n';
        at = quote + 1;
        if opens {
            match closing(bytes, at) {
                // What follows the last byte may be a second quote.
                Some(close) if close + 1 < bytes.len() => at = close + 1,
                _ => return end,
            }
        }
    }
}

/// The quote that closes a field whose text begins here.
fn closing(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let quote = at + memchr::memchr(b'"', &bytes[at..])?;
        if bytes.get(quote + 1) != Some(&b'"') {
            return Some(quote);
        }
        at = quote + 2;
    }
}

/// Goes through the records of a text.
pub(super) struct Records<'a> {
    text: &'a str,
    separator: u8,
    at: usize,
    /// The line that the next record starts in.
    line: u64,
}

/// The end of a record, and what is wrong with it.
pub(super) enum Cut {
    /// There are no more records.
    Over,
    /// So many fields, which began in this line.
    Record { fields: usize, line: u64 },
    /// A record that cannot be cut.
    Broken { line: u64, problem: &'static str },
}

impl<'a> Records<'a> {
    pub(super) fn new(text: &'a str, separator: u8, first_line: u64) -> Self {
        Records { text, separator, at: 0, line: first_line }
    }

    /// How far it is in the text, and in which line.
    pub(super) fn position(&self) -> (usize, u64) {
        (self.at, self.line)
    }

    /// Cuts the next record that is not blank, and hands over its fields by their place.
    pub(super) fn next(&mut self, mut field: impl FnMut(usize, Value<'a>)) -> Cut {
        let bytes = self.text.as_bytes();
        loop {
            match bytes[self.at..] {
                [] => return Cut::Over,
                [b'\n', ..] => self.at += 1,
                [b'\r', b'\n', ..] => self.at += 2,
                _ => break,
            }
            self.line += 1;
        }
        let line = self.line;
        let mut fields = 0;
        loop {
            let end = match bytes.get(self.at) {
                Some(b'"') => {
                    let start = self.at + 1;
                    let Some(close) = closing(bytes, start) else {
                        let problem = "a quote (\") is opened and never closed";
                        return Cut::Broken { line, problem };
                    };
                    let inner = &self.text[start..close];
                    self.line += memchr::memchr_iter(b'\n', inner.as_bytes()).count() as u64;
                    field(fields, unquoted(inner));
                    let end = close + 1;
                    // A carriage return belongs to the end of the line.
                    let end = if bytes[end..].starts_with(b"\r\n") { end + 1 } else { end };
                    match bytes.get(end) {
                        None | Some(b'\n') => end,
                        Some(byte) if *byte == self.separator => end,
                        Some(b'\r') if end + 1 == bytes.len() => bytes.len(),
                        Some(_) => {
                            let problem = "there is text behind a closing quote (\"); a quote within a field is written twice";
                            return Cut::Broken { line, problem };
                        }
                    }
                }
                _ => {
                    let length = bytes[self.at..]
                        .iter()
                        .position(|&byte| byte == self.separator || byte == b'\n');
                    let end = length.map_or(bytes.len(), |length| self.at + length);
                    let inner = self.text[self.at..end].trim();
                    field(
                        fields,
                        if inner.is_empty() {
                            Value::Missing
                        } else {
                            Value::Text(Cow::Borrowed(inner))
                        },
                    );
                    end
                }
            };
            fields += 1;
            self.at = (end + 1).min(bytes.len());
            match bytes.get(end) {
                Some(b'\n') => {
                    self.line += 1;
                    return Cut::Record { fields, line };
                }
                None => return Cut::Record { fields, line },
                // The last field of the text may be an empty one behind a separator.
                Some(_) if end + 1 == bytes.len() => {
                    field(fields, Value::Missing);
                    return Cut::Record { fields: fields + 1, line };
                }
                Some(_) => {}
            }
        }
    }
}

fn unquoted(inner: &str) -> Value<'_> {
    match inner {
        "" => Value::Missing,
        _ if inner.contains('"') => Value::Text(Cow::Owned(inner.replace("\"\"", "\""))),
        _ => Value::Text(Cow::Borrowed(inner)),
    }
}

/// A text as a field: in quotes where it has to be.
pub(super) fn quoted(text: &str) -> Cow<'_, str> {
    let special = |byte: u8| matches!(byte, b',' | b'"' | b'\n' | b'\r' | b';' | b'\t' | b'|');
    match text.bytes().any(special) || text.trim() != text || text.is_empty() {
        true => Cow::Owned(format!("\"{}\"", text.replace('"', "\"\""))),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All records, a blank for a missing field.
    fn cut(text: &str) -> Vec<Vec<String>> {
        let mut records = Records::new(text, separator(text), 1);
        let mut all = Vec::new();
        loop {
            let mut record = Vec::new();
            let mut buffer = String::new();
            match records.next(|_, value| record.push(value.text(&mut buffer).to_owned())) {
                Cut::Over => return all,
                Cut::Record { fields, .. } => {
                    assert_eq!(fields, record.len());
                    all.push(record);
                }
                Cut::Broken { line, problem } => {
                    all.push(vec![format!("{line}: {problem}")]);
                    return all;
                }
            }
        }
    }

    #[test]
    fn records_are_cut_as_the_standard_says() {
        for (text, expected) in [
            ("a,b\n1,2\n", vec![vec!["a", "b"], vec!["1", "2"]]),
            ("a,b\r\n1,2\r\n", vec![vec!["a", "b"], vec!["1", "2"]]),
            ("a,b\n1,2", vec![vec!["a", "b"], vec!["1", "2"]]),
            (
                "a,b\n\n\r\n1,\n,2\n,",
                vec![vec!["a", "b"], vec!["1", ""], vec!["", "2"], vec!["", ""]],
            ),
            ("a;b\n1,5;2\n", vec![vec!["a", "b"], vec!["1,5", "2"]]),
            ("a\tb\n1 \t 2\n", vec![vec!["a", "b"], vec!["1", "2"]]),
            (
                "\"a,b\",c\n\"x\ny\",\"\"\"q\"\"\"\r\n",
                vec![vec!["a,b", "c"], vec!["x\ny", "\"q\""]],
            ),
            ("a,b\n5\" pipe,2\n", vec![vec!["a", "b"], vec!["5\" pipe", "2"]]),
            ("\"\",\"x\"\r", vec![vec!["", "x"]]),
            ("", vec![]),
        ] {
            assert_eq!(cut(text), expected, "{text:?}");
        }
        assert!(cut("a,b\n\"x,2\n3,4")[1][0].contains("2: a quote"));
        assert!(cut("a,b\n\"x\" y,2\n")[1][0].contains("behind a closing quote"));
    }

    #[test]
    fn blocks_end_with_a_record() {
        for (text, expected) in [
            ("a,b\n1,2", Some(4)),
            ("a,b", None),
            ("a,\"b\n\"\n1", Some(7)),
            ("a,\"b\n", None),
            ("x\na,\"b\n", Some(2)),
            ("x\na,\"b\"", Some(2)),
            ("x\na,5\"b\n", Some(8)),
            ("\"a\"\"\nb\"\n", Some(8)),
        ] {
            assert_eq!(last_record_end(text.as_bytes(), b','), expected, "{text:?}");
        }
    }

    /// Wherever a text is cut into blocks, the records are the same.
    #[test]
    fn blocks_do_not_change_records() {
        let text = "a,b\n1,\"x\ny\"\n\"\"\"\",5\"\n\n\"\n\n\",z\r\n3,4\n";
        let whole = cut(text);
        for size in 1..text.len() {
            let (mut start, mut length, mut found) = (0, size, Vec::new());
            while start < text.len() {
                let end = (start + length).min(text.len());
                let cut_at = match end == text.len() {
                    true => Some(end),
                    false => {
                        last_record_end(&text.as_bytes()[start..end], b',').map(|end| start + end)
                    }
                };
                match cut_at {
                    None => length += size,
                    Some(cut_at) => {
                        let mut records = Records::new(&text[start..cut_at], b',', 1);
                        loop {
                            let (mut record, mut buffer) = (Vec::new(), String::new());
                            match records
                                .next(|_, value| record.push(value.text(&mut buffer).to_owned()))
                            {
                                Cut::Record { .. } => found.push(record),
                                _ => break,
                            }
                        }
                        (start, length) = (cut_at, size);
                    }
                }
            }
            assert_eq!(found, whole, "{size}");
        }
    }
}
