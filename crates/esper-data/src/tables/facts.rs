//! What a column holds, found out value by value, in chunks that are joined in their order.

use super::table::Place;
use super::value::{Look, Value};
use super::words::Words;

/// The most different words that are kept of a column: one more than any category may have.
pub(super) const MOST_WORDS: usize = 65_536;

/// How often something was seen, and where first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) count: u64,
    pub(super) first: Option<Place>,
}

impl Seen {
    fn add(&mut self, place: Place) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(place);
        }
    }

    fn join(&mut self, other: Seen) {
        self.count += other.count;
        self.first = self.first.or(other.first);
    }
}

/// What was seen in a column.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) missing: Seen,
    /// Words that stand for a missing number.
    pub(super) markers: Seen,
    pub(super) whole: Seen,
    /// Whole numbers with zeros in front, as codes have them.
    pub(super) padded: Seen,
    pub(super) fractions: Seen,
    /// Numbers that 32 bits do not hold.
    pub(super) infinite: Seen,
    /// Zeros and ones among the whole numbers.
    pub(super) bits: u64,
    /// What says true: `true`, `yes` and 1.
    pub(super) ones: u64,
    /// `true` and `false`.
    pub(super) truths: Seen,
    /// Other words for them.
    pub(super) truth_words: Seen,
    pub(super) dates: Seen,
    pub(super) texts: Seen,
    /// Values of which the table itself says that they are texts, whatever they look like.
    pub(super) strings: u64,
    /// Numbers, or dates in seconds: the least, the greatest and the sum.
    pub(super) range: Option<[f64; 2]>,
    sum: f64,
    /// The different values as texts, if they are asked for.
    pub(super) words: Option<Words>,
    /// Whether there are more than are kept.
    pub(super) too_many: bool,
}

impl Facts {
    pub(super) fn new(with_words: bool) -> Self {
        Facts { words: with_words.then(Words::default), ..Facts::default() }
    }

    pub(super) fn add(&mut self, value: &Value<'_>, place: Place, buffer: &mut String) {
        let look = value.look();
        self.strings += u64::from(matches!(value, Value::String(_)));
        if matches!(look, Look::Truth(true) | Look::TruthWord(true) | Look::Whole(1)) {
            self.ones += 1;
        }
        match look {
            Look::Missing => return self.missing.add(place),
            Look::Marker => self.markers.add(place),
            Look::Whole(number) => {
                self.whole.add(place);
                self.bits += u64::from(number == 0 || number == 1);
                self.add_number(number as f64, place);
            }
            Look::Padded(number) => {
                self.padded.add(place);
                self.add_number(number as f64, place);
            }
            Look::Number(number) => {
                self.fractions.add(place);
                self.add_number(number, place);
            }
            Look::Truth(_) => self.truths.add(place),
            Look::TruthWord(_) => self.truth_words.add(place),
            Look::Date(seconds) => {
                self.dates.add(place);
                self.add_number(seconds, place);
            }
            Look::Text => self.texts.add(place),
        }
        if let Some(words) = &mut self.words
            && !self.too_many
        {
            words.add(value.text(buffer));
            self.too_many = words.len() > MOST_WORDS;
        }
    }

    fn add_number(&mut self, number: f64, place: Place) {
        if !(number as f32).is_finite() {
            return self.infinite.add(place);
        }
        let [low, high] = self.range.unwrap_or([number; 2]);
        self.range = Some([low.min(number), high.max(number)]);
        self.sum += number;
    }

    /// Joins what was seen further on.
    pub(super) fn join(&mut self, other: Facts) {
        self.missing.join(other.missing);
        self.join_values(other);
    }

    /// The same but for missing values.
    pub(super) fn join_values(&mut self, other: Facts) {
        self.markers.join(other.markers);
        self.whole.join(other.whole);
        self.padded.join(other.padded);
        self.strings += other.strings;
        self.fractions.join(other.fractions);
        self.infinite.join(other.infinite);
        self.bits += other.bits;
        self.ones += other.ones;
        self.truths.join(other.truths);
        self.truth_words.join(other.truth_words);
        self.dates.join(other.dates);
        self.texts.join(other.texts);
        if let Some([low, high]) = other.range {
            let [lowest, highest] = self.range.unwrap_or([low, high]);
            self.range = Some([lowest.min(low), highest.max(high)]);
        }
        self.sum += other.sum;
        self.too_many |= other.too_many;
        match (&mut self.words, other.words) {
            (Some(words), Some(others)) if !self.too_many => {
                others.iter().for_each(|word| {
                    words.add(word);
                });
                self.too_many = words.len() > MOST_WORDS;
            }
            (None, words @ Some(_)) => self.words = words,
            _ => {}
        }
    }

    /// Values that are there and stand for something.
    pub(super) fn values(&self) -> u64 {
        self.numbers()
            + self.truths.count
            + self.truth_words.count
            + self.dates.count
            + self.texts.count
    }

    pub(super) fn numbers(&self) -> u64 {
        self.whole.count + self.padded.count + self.fractions.count
    }

    /// The mean of the numbers or dates.
    pub(super) fn mean(&self) -> f64 {
        self.sum / (self.numbers() + self.dates.count).max(1) as f64
    }

    /// How many different values there are, where words were asked for.
    pub(super) fn different(&self) -> Option<usize> {
        self.words.as_ref().map(Words::len)
    }

    /// The first value that is no number and stands for something.
    pub(super) fn first_other_than_number(&self) -> Option<Place> {
        let firsts = [self.texts, self.dates, self.truths, self.truth_words].map(|seen| seen.first);
        firsts.into_iter().flatten().min_by_key(|place| (place.file, place.line))
    }
}
