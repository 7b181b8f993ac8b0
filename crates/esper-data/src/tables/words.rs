//! Texts, each kept once, with numbers in the order of their first appearance.

use std::hash::{DefaultHasher, Hasher};

/// A set of texts that are numbered from 0 on. One text costs its bytes and about 16 more, however many there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Words {
    bytes: String,
    /// Where every text ends in `bytes`.
    ends: Vec<usize>,
    /// Open addressing: the number of a text plus one, 0 where there is none. A power of two long.
    table: Vec<u32>,
}

impl Words {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// One of the texts.
    pub(super) fn get(&self, number: usize) -> &str {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// The number of a text, if it is known.
    pub(super) fn find(&self, text: &str) -> Option<usize> {
        match self.table.is_empty() {
            true => None,
            false => self.slot(text).ok(),
        }
    }

    /// The number of a text, which is added if it is new.
    pub(super) fn add(&mut self, text: &str) -> usize {
        if 2 * (self.len() + 1) > self.table.len() {
            self.grow();
        }
        match self.slot(text) {
            Ok(number) => number,
            Err(slot) => {
                self.bytes.push_str(text);
                self.ends.push(self.bytes.len());
                self.table[slot] = self.len() as u32;
                self.len() - 1
            }
        }
    }

    /// The number of a text, or the free place where it belongs.
    fn slot(&self, text: &str) -> Result<usize, usize> {
        let mut hasher = DefaultHasher::new();
        hasher.write(text.as_bytes());
        let mask = self.table.len() - 1;
        let mut slot = hasher.finish() as usize & mask;
        loop {
            match self.table[slot] {
                0 => return Err(slot),
                number if self.get(number as usize - 1) == text => return Ok(number as usize - 1),
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        self.table = vec![0; (4 * (self.len() + 1)).next_power_of_two()];
        for number in 0..self.len() {
            if let Err(slot) = self.slot(self.get(number)) {
                self.table[slot] = number as u32 + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_numbered_as_they_come() {
        let mut words = Words::default();
        assert_eq!(words.find("a"), None);
        for number in 0..5_000usize {
            assert_eq!(words.add(&format!("{number}")), number);
        }
        assert_eq!(words.add(""), 5_000);
        for number in (0..5_000usize).rev() {
            let text = format!("{number}");
            assert_eq!((words.add(&text), words.find(&text)), (number, Some(number)));
            assert_eq!(words.get(number), text);
        }
        assert_eq!((words.len(), words.find("x")), (5_001, None));
        assert_eq!(words.iter().nth(17), Some("17"));
    }
}
