//! Text that a terminal shows and does not obey: names come from files, and files from anywhere.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal acts on a character in place of showing it: control characters, old and new ones, and those that turn
/// the direction of writing round.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Text for people: what a terminal would obey is spelled out. Lines stay lines.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    spelled_out(
        text,
        |c| c == '\n',
        |out, c| {
            let _ = write!(out, "{}", c.escape_default());
        },
    )
}

/// A JSON document, in whose texts the same is spelled out as JSON does it. JSON itself does so only with the oldest.
pub(crate) fn plain_json(document: &str) -> Cow<'_, str> {
    spelled_out(
        document,
        |c| c == '\n',
        |out, c| {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        },
    )
}

fn spelled_out(
    text: &str,
    keep: impl Fn(char) -> bool,
    spell: impl Fn(&mut String, char),
) -> Cow<'_, str> {
    if !text.chars().any(|c| is_obeyed(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_obeyed(c) && !keep(c) {
            true => spell(&mut out, c),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_terminals_obey_is_spelled_out() {
        assert!(matches!(plain("esper: ε = 0.5,\n  β"), Cow::Borrowed(_)));
        assert_eq!(plain("a\x1b[31mb"), "a\\u{1b}[31mb");
        assert_eq!(plain("one\rtwo\tthree"), "one\\rtwo\\tthree");
        // The same as an escape and a bracket, in one character.
        assert_eq!(plain("\u{9b}2J"), "\\u{9b}2J");
        assert_eq!(plain("safe\u{202e}txt.exe"), "safe\\u{202e}txt.exe");
    }

    /// Any text: nothing is left that is obeyed, and what is fine stays as it was.
    #[test]
    fn whatever_the_text() {
        use rand::RngExt;
        let mut rng = esper_data::Seed::new(0).rng();
        let ranges = [0..0x80, 0x80..0x100, 0x2000..0x2100, 0x1f600..0x1f610];
        for _ in 0..2000 {
            let mut any = || {
                let range = ranges[rng.random_range(0..ranges.len())].clone();
                char::from_u32(rng.random_range(range)).unwrap_or('x')
            };
            let text: String = (0..8).map(|_| any()).collect();
            let shown = plain(&text);
            assert!(!shown.chars().any(|c| is_obeyed(c) && c != '\n'), "{text:?}");
            let is_fine = !text.chars().any(|c| is_obeyed(c) && c != '\n');
            assert_eq!(is_fine, shown == text, "{text:?}");
            let document = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<String>(&plain_json(&document)).unwrap(), text);
        }
    }

    #[test]
    fn json_stays_the_same_json() {
        let names = ["\u{9b}2J", "\u{202e}", "\x7f", "\x1b[0m", "ε\n"];
        let document = serde_json::to_string_pretty(&names).unwrap();
        let spelled = plain_json(&document);
        assert!(!spelled.chars().any(|c| is_obeyed(c) && c != '\n'), "{spelled}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&spelled).unwrap(), names);
    }
}
