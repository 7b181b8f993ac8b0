//! What is made of a column, by what it holds.

use std::collections::HashMap;

use super::facts::Facts;
use super::mapping::Kind;
use super::table::Place;
use super::value::{Look, format_date, look};
use crate::calendar::SECONDS_OF_A_DAY;
use crate::fields::{FieldKind, Word};

/// More different words than this are no categories, unless the user says so.
const MOST_CATEGORIES: usize = 1_000;

/// Fewer than this are categories even if nearly all values differ.
const FEW_CATEGORIES: usize = 20;

/// More different whole numbers than this are numbers, where an action may be either.
const MOST_WHOLE_ACTIONS: usize = 256;

/// What a column becomes, and how that is said.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    pub(super) kind: FieldKind,
    /// Whether a cell beside it says where values are missing.
    pub(super) indicator: bool,
    pub(super) says: String,
    pub(super) notes: Vec<String>,
}

/// Why nothing can be decided.
pub(super) enum Undecided {
    /// The different words of the column have to be known first.
    Words,
    /// There is nothing in the column.
    Empty,
    /// Something is wrong, perhaps with a certain row.
    Wrong(Option<Place>, String),
}

fn wrong<T>(place: Option<Place>, problem: String) -> Result<T, Undecided> {
    Err(Undecided::Wrong(place, problem))
}

/// A number as people write it.
fn short(number: f64) -> String {
    let rounded = (number * 1000.0).round() / 1000.0;
    if rounded != 0.0 || number == 0.0 { rounded.to_string() } else { format!("{number:e}") }
}

/// What a column of observations becomes. `facts` are of all that it holds, `before` of what was seen before an action: what
/// stands for missing values is the mean of those.
pub(super) fn observation(
    name: &str,
    facts: &Facts,
    before: &Facts,
    given: Option<Kind>,
) -> Result<Decision, Undecided> {
    if facts.values() == 0 && (facts.markers.count == 0 || given != Some(Kind::Category)) {
        return Err(Undecided::Empty);
    }
    let kind = match given {
        Some(kind) => kind,
        None => looks_like(name, facts)?,
    };
    check_kind(name, facts, kind)?;
    match kind {
        Kind::Category => {
            let instead = format!("leave it out: --ignore {name}");
            category(name, facts, given.is_some(), &instead)
        }
        Kind::Number | Kind::Boolean | Kind::Date => Ok(number(name, facts, before, kind)),
    }
}

/// What the values of a column look like, if they look like one thing.
fn looks_like(name: &str, facts: &Facts) -> Result<Kind, Undecided> {
    let (numbers, dates) = (facts.numbers(), facts.dates.count);
    let truths = facts.truths.count + facts.truth_words.count;
    let texts = facts.texts.count;
    match () {
        // `00501` is the name of something, and so is `10001` beside it.
        () if facts.padded.count > 0 => Ok(Kind::Category),
        () if texts + dates + truths == 0 => Ok(Kind::Number),
        () if texts + numbers + truths == 0 => Ok(Kind::Date),
        () if texts + dates == 0 && numbers == facts.bits => Ok(Kind::Boolean),
        () if numbers > texts + dates + truths => {
            let place = facts.first_other_than_number();
            let problem = format!(
                "column `{name}` has numbers, and something else here{}; mend it, leave the column out (--ignore {name}), or \
                 say in a mapping file (--map) that its kind is \"category\"",
                commas(facts)
            );
            wrong(place, problem)
        }
        () if dates > texts + numbers + truths => {
            let others = [facts.texts.first, facts.whole.first, facts.fractions.first];
            let place = others.into_iter().flatten().min_by_key(|place| (place.file, place.line));
            let problem = format!(
                "column `{name}` has dates, and something else here; mend it, or leave the column out (--ignore {name})"
            );
            wrong(place, problem)
        }
        () => Ok(Kind::Category),
    }
}

/// Whether a text would be a number without its commas.
fn is_comma_number(word: &str) -> bool {
    let without = word.replace(',', "");
    without.len() < word.len() && is_number(&without)
}

fn is_number(word: &str) -> bool {
    matches!(look(word), Look::Whole(_) | Look::Padded(_) | Look::Number(_))
}

/// What is said of categories that would be numbers without their commas.
fn comma_numbers(name: &str, facts: &Facts) -> Option<String> {
    let words = facts.words.as_ref()?;
    let word = words.iter().find(|word| is_comma_number(word))?;
    let fits = |word: &str| is_number(word) || is_comma_number(word) || look(word) == Look::Marker;
    words.iter().all(fits).then(|| {
        format!(
            "`{name}` holds numbers with commas such as `{word}`, which are taken as categories; numbers need a decimal point and \
             nothing between thousands"
        )
    })
}

/// A hint where numbers have decimal commas.
fn commas(facts: &Facts) -> &'static str {
    let words = facts.words.as_ref();
    match words.is_some_and(|words| words.iter().take(1_000).any(is_comma_number)) {
        true => " (numbers need a decimal point, not a comma, and nothing between thousands)",
        false => "",
    }
}

/// Checks that all values are of a kind.
fn check_kind(name: &str, facts: &Facts, kind: Kind) -> Result<(), Undecided> {
    let truths = [facts.truths, facts.truth_words];
    let fits = |first: Option<Place>| match first {
        None => Ok(()),
        Some(place) => {
            wrong(Some(place), format!("column `{name}` is to be a {kind}, and this is none"))
        }
    };
    match kind {
        Kind::Category => return Ok(()),
        Kind::Number => {
            fits(facts.texts.first.or(facts.dates.first).or(facts.truth_words.first))?;
        }
        Kind::Boolean => {
            fits(facts.texts.first.or(facts.dates.first).or(facts.fractions.first))?;
            if facts.whole.count != facts.bits {
                fits(facts.whole.first)?;
            }
            fits(facts.padded.first)?;
        }
        Kind::Date => {
            let others = truths[0].first.or(truths[1].first).or(facts.whole.first);
            fits(facts.padded.first)?;
            fits(facts.texts.first.or(facts.fractions.first).or(others))?;
        }
    }
    match facts.infinite.first {
        None => Ok(()),
        Some(place) => wrong(
            Some(place),
            format!("column `{name}` is infinite, or too large for a number of 32 bits"),
        ),
    }
}

fn number(name: &str, facts: &Facts, before: &Facts, kind: Kind) -> Decision {
    let missing = facts.missing.count + facts.markers.count;
    let [low, high] = facts.range.unwrap_or_default();
    let before = if before.values() > 0 { before } else { facts };
    let mean = match kind {
        Kind::Boolean => before.ones as f64 / before.values().max(1) as f64,
        Kind::Date => (before.mean() - low) / SECONDS_OF_A_DAY,
        _ => before.mean(),
    };
    let fill = (missing > 0).then_some(mean as f32);
    let (field, range) = match kind {
        Kind::Boolean => (FieldKind::Boolean { fill }, String::new()),
        Kind::Date => {
            let range = format!(", {} to {}", format_date(low), format_date(high));
            (FieldKind::Date { origin: low, fill }, format!("{range}, as days since the first"))
        }
        _ => (FieldKind::Number { fill }, format!(", {} to {}", short(low), short(high))),
    };
    let mut says = format!("{kind}{range}");
    let mut notes = Vec::new();
    if missing > 0 {
        let all = facts.values() + missing;
        let fill = short(mean);
        says += &format!(
            "; {missing} of {all} missing: {fill} in their place, and a cell that says so"
        );
        notes.push(format!(
            "`{name}`: {missing} of {all} values are missing; {fill} stands in their place, and a cell of its own says where"
        ));
    }
    if low == high && facts.numbers() + facts.dates.count == facts.values() && missing == 0 {
        let value = if kind == Kind::Date { format_date(low) } else { short(low) };
        notes.push(format!("`{name}` is always {value}"));
    }
    if kind == Kind::Number
        && low.abs().max(high.abs()) > f64::from(1 << 24)
        && facts.fractions.count == 0
    {
        notes.push(format!("`{name}`: whole numbers beyond 16,777,216 are rounded; is it an id?"));
    }
    Decision { kind: field, indicator: missing > 0, says, notes }
}

/// `said` is whether the user wants it to be one; `instead` is what to do if it cannot be.
fn category(name: &str, facts: &Facts, said: bool, instead: &str) -> Result<Decision, Undecided> {
    let Some(different) = facts.different() else { return Err(Undecided::Words) };
    let all = facts.values() + facts.markers.count;
    let nearly_all = different > FEW_CATEGORIES && different as u64 > all / 2;
    let too_many = different > MOST_CATEGORIES || nearly_all;
    if facts.too_many || (too_many && !said) {
        let more = if facts.too_many { "more than 65,536" } else { &different.to_string() };
        return wrong(
            None,
            format!(
                "column `{name}` has {more} different texts in {all} rows, too many to be categories{}; {instead}",
                commas(facts)
            ),
        );
    }
    let values = words(facts);
    let mut notes = Vec::new();
    let missing = facts.missing.count;
    if missing > 0 {
        let all = all + missing;
        notes.push(format!(
            "`{name}`: {missing} of {all} values are missing, which is a category of its own"
        ));
    }
    if let [only] = values.as_slice() {
        notes.push(format!("`{name}` is always `{only}`"));
    }
    if !said {
        notes.extend(comma_numbers(name, facts));
    }
    notes.extend(same_number(name, &values));
    let says = format!("category: {}", some(&values));
    Ok(Decision { kind: FieldKind::Category { values }, indicator: false, says, notes })
}

/// The words of a column in their order: as they are spelt, so that those which differ are never one. Numbers and truths are
/// such where the table does not say that they are texts, numbers only if all are spelt as numbers are written.
fn words(facts: &Facts) -> Vec<Word> {
    let Some(words) = &facts.words else { return Vec::new() };
    let others =
        facts.fractions.count + facts.dates.count + facts.texts.count + facts.truth_words.count;
    let is_plain = |text: &str| match look(text) {
        Look::Whole(number) => number.to_string() == text,
        _ => true,
    };
    let is_whole = others + facts.truths.count + facts.padded.count + facts.strings == 0
        && words.iter().all(is_plain);
    let is_truth = others + facts.numbers() + facts.markers.count + facts.strings == 0;
    let word = |text: &str| match look(text) {
        Look::Whole(number) if is_whole => Word::Whole(number),
        Look::Truth(truth) if is_truth => Word::Boolean(truth),
        Look::Marker if is_whole => Word::Missing,
        _ => Word::Text(text.to_owned()),
    };
    let mut values: Vec<Word> = words.iter().map(word).collect();
    if facts.missing.count > 0 {
        values.push(Word::Missing);
    }
    values.sort();
    values.dedup();
    values
}

/// What is said of words that differ and are the same number.
fn same_number(name: &str, values: &[Word]) -> Option<String> {
    let mut known: HashMap<u64, &str> = HashMap::new();
    values.iter().find_map(|word| {
        let Word::Text(text) = word else { return None };
        let number = match look(text) {
            Look::Whole(number) | Look::Padded(number) => number as f64,
            Look::Number(number) => number,
            _ => return None,
        };
        let other = known.insert(number.to_bits(), text)?;
        Some(format!(
            "`{name}`: `{other}` and `{text}` are two categories, because they are spelt differently; if they are the same, \
             spell them the same"
        ))
    })
}

/// Some words, for people.
fn some(values: &[Word]) -> String {
    const SHOWN: usize = 6;
    let shown: Vec<String> =
        values.iter().take(SHOWN).map(|word| word.to_string().escape_debug().to_string()).collect();
    match values.len() {
        0..=SHOWN => shown.join(", "),
        all => format!("{}, … ({all} in all)", shown.join(", ")),
    }
}

/// What the columns of actions become: all of them numbers, or all of them categories.
pub(super) fn actions(
    columns: &[(&str, &Facts, Option<Kind>)],
) -> Result<Vec<Decision>, (usize, Undecided)> {
    let mut may = Vec::new();
    for (at, (name, facts, given)) in columns.iter().enumerate() {
        may.push(choices(name, facts, *given).map_err(|problem| (at, problem))?);
    }
    let all_categories = may.iter().all(|choice| choice.category);
    if !all_categories && let Some(at) = may.iter().position(|choice| !choice.number) {
        let number = may.iter().position(|choice| !choice.category).unwrap_or(0);
        let problem = format!(
            "actions are all numbers or all categories: `{}` is a number, `{}` is not; say which with kinds in a mapping file (--map), or name one action with --action",
            columns[number].0, columns[at].0
        );
        return Err((at, Undecided::Wrong(None, problem)));
    }
    let decide = |(at, (name, facts, _)): (usize, &(&str, &Facts, Option<Kind>))| {
        let decision = match all_categories {
            true => category(name, facts, true, FEWER_ACTIONS),
            false => check_kind(name, facts, Kind::Number)
                .map(|()| number(name, facts, facts, Kind::Number)),
        };
        decision.map_err(|problem| (at, problem))
    };
    columns.iter().enumerate().map(decide).collect()
}

/// What to do about actions that are too many.
const FEWER_ACTIONS: &str =
    "name another column with --action, or put actions together until they are fewer";

/// What a column of actions may become.
struct Choices {
    number: bool,
    category: bool,
}

fn choices(name: &str, facts: &Facts, given: Option<Kind>) -> Result<Choices, Undecided> {
    let is_number = facts.numbers() == facts.values() && facts.padded.count == 0;
    if let Some(place) = facts.missing.first.or(facts.markers.first.filter(|_| is_number)) {
        return wrong(Some(place), format!("the action (`{name}`) is missing"));
    }
    match given {
        Some(Kind::Number) => return Ok(Choices { number: true, category: false }),
        Some(Kind::Category | Kind::Boolean) => {
            return Ok(Choices { number: false, category: true });
        }
        Some(Kind::Date) => {
            return wrong(None, format!("the action (`{name}`) cannot be a date"));
        }
        None => {}
    }
    if !is_number {
        // Texts that are too many are refused with the same words as those of observations.
        return category(name, facts, false, FEWER_ACTIONS)
            .map(|_| Choices { number: false, category: true });
    }
    if facts.fractions.count > 0 {
        return Ok(Choices { number: true, category: false });
    }
    let Some(different) = facts.different() else { return Err(Undecided::Words) };
    let few = different <= FEW_CATEGORIES || (different as u64) <= facts.values() / 5;
    Ok(Choices { number: true, category: different <= MOST_WHOLE_ACTIONS && few })
}
