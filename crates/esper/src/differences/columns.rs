//! Columns of what is seen, each cut into groups that a person can name.

use std::collections::{BTreeSet, HashMap};

use esper_data::{Dataset, Field, FieldKind};

use crate::trajectories::StepRows;

/// A column, or several, and the group of every step by it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Column {
    pub(super) name: String,
    /// What groups are called.
    pub(super) groups: Vec<String>,
    /// By step.
    pub(super) of: Vec<u16>,
}

/// The most columns that are looked at.
const MOST_COLUMNS: usize = 256;

/// Columns whose numbers are in memory at once.
const COLUMNS_AT_ONCE: usize = 32;

/// Numbers with so many values at most are taken one by one.
const FEW_VALUES: usize = 8;

/// Others are cut at these shares of the steps.
const CUTS: [f64; 3] = [0.25, 0.5, 0.75];

impl Column {
    /// Both columns at once: only groups that there are.
    pub(super) fn with(&self, other: &Column) -> Column {
        let pairs = self.of.iter().zip(&other.of);
        let found: BTreeSet<(u16, u16)> = pairs.clone().map(|(&a, &b)| (a, b)).collect();
        let found: Vec<(u16, u16)> = found.into_iter().collect();
        let name = |&(a, b): &(u16, u16)| {
            format!("{}, {}", self.groups[usize::from(a)], other.groups[usize::from(b)])
        };
        let place = |(&a, &b): (&u16, &u16)| found.binary_search(&(a, b)).unwrap_or(0) as u16;
        Column {
            name: format!("{}, {}", self.name, other.name),
            groups: found.iter().map(name).collect(),
            of: pairs.map(place).collect(),
        }
    }
}

/// All columns that tell steps apart: what was seen, and the time.
pub(super) fn columns(data: &Dataset, rows: &StepRows) -> Vec<Column> {
    let metadata = data.metadata();
    let space = &metadata.observation_space;
    let (fields, limits, width) = (&metadata.fields.observation, space.categories(), space.cells());
    let is_indicator = |field: &Field| matches!(field.kind, FieldKind::Missing);
    let twin = |cell: usize| {
        let field = fields.get(cell).filter(|field| !is_indicator(field))?;
        fields.iter().position(|other| is_indicator(other) && other.name == field.name)
    };
    // Indicators of missing values are told with their numbers.
    let is_told = |cell: &usize| fields.get(*cell).is_none_or(|field| !is_indicator(field));
    let column = |cell: usize, numbers: &mut HashMap<usize, Vec<f32>>| {
        let field = fields.get(cell);
        let name = match field {
            Some(field) => field.name.clone(),
            None if width == 1 => "the state".to_owned(),
            None => format!("cell {cell}"),
        };
        let values = numbers.remove(&cell).unwrap_or_default();
        let missing = twin(cell).and_then(|twin| numbers.remove(&twin)).unwrap_or_default();
        let column = match limits[cell] {
            Some(_) => categories(&name, field, &values),
            None => ranges(&name, field, &values, &missing),
        };
        column.filter(|column| column.groups.len() > 1)
    };
    let told: Vec<usize> = (0..width).filter(is_told).take(MOST_COLUMNS).collect();
    let mut all: Vec<Column> = Vec::new();
    for some in told.chunks(COLUMNS_AT_ONCE) {
        let twins = some.iter().filter_map(|&cell| twin(cell));
        let cells = some.iter().copied().chain(twins);
        let mut numbers: HashMap<usize, Vec<f32>> = cells.map(|cell| (cell, Vec::new())).collect();
        data.scan_observations(rows.observations.iter().copied(), |seen, rows| {
            for (cell, numbers) in &mut numbers {
                numbers.extend(rows.iter().map(|row| seen.number(row * width + cell)));
            }
        });
        all.extend(some.iter().filter_map(|&cell| column(cell, &mut numbers)));
    }
    let times: Vec<f32> = rows.times.iter().map(|&time| time as f32).collect();
    all.extend(ranges("step of the episode", None, &times, &[]).filter(|of| of.groups.len() > 1));
    // Where nothing tells steps apart they are one group.
    if all.is_empty() {
        let (name, groups) = ("all steps".to_owned(), vec!["all steps".to_owned()]);
        all.push(Column { name, groups, of: vec![0; rows.steps.len()] });
    }
    all
}

/// A group for each category that there is.
fn categories(name: &str, field: Option<&Field>, values: &[f32]) -> Option<Column> {
    let mut found: Vec<u16> = values.iter().map(|&value| value as u16).collect();
    found.sort_unstable();
    found.dedup();
    let group = |&value: &u16| {
        let word = field.map(|field| word(field, f32::from(value)));
        format!("{name} is {}", word.unwrap_or_else(|| value.to_string()))
    };
    Some(Column {
        name: name.to_owned(),
        groups: found.iter().map(group).collect(),
        of: values
            .iter()
            .map(|&value| found.binary_search(&(value as u16)).unwrap_or(0) as u16)
            .collect(),
    })
}

/// A group for each value where they are few, else for each of some ranges; and one for what is missing.
fn ranges(name: &str, field: Option<&Field>, values: &[f32], missing: &[f32]) -> Option<Column> {
    let is_missing = |at: usize| missing.get(at).is_some_and(|&missing| missing == 1.0);
    let known = || (0..values.len()).filter(|&at| !is_missing(at)).map(|at| values[at]);
    let mut sorted: Vec<f32> = known().collect();
    sorted.sort_by(f32::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    let is_date = matches!(field.map(|field| &field.kind), Some(FieldKind::Date { .. }));
    let said = |value: f32| field.map_or_else(|| number(value), |field| word(field, value));
    let (mut groups, place): (Vec<String>, Box<dyn Fn(f32) -> usize>) =
        if distinct.len() <= FEW_VALUES {
            let groups = distinct.iter().map(|&value| format!("{name} is {}", said(value)));
            let groups = groups.collect();
            (groups, Box::new(move |value| distinct.partition_point(|&of| of < value)))
        } else {
            let last = sorted.len() - 1;
            // Cuts are numbers as they are said, so that what is said is so.
            let cut = |share: f64| match sorted[(share * last as f64) as usize] {
                value if is_date => value.floor(),
                value => rounded(value),
            };
            let mut cuts: Vec<f32> = CUTS.map(cut).to_vec();
            cuts.dedup();
            cuts.retain(|&cut| cut >= sorted[0] && cut < sorted[last]);
            let mut groups: Vec<String> = Vec::new();
            for (at, &cut) in cuts.iter().enumerate() {
                groups.push(match at.checked_sub(1).map(|below| cuts[below]) {
                    None => format!("{name} up to {}", said(cut)),
                    Some(below) => format!("{name} over {} up to {}", said(below), said(cut)),
                });
            }
            match cuts.last() {
                Some(&cut) => groups.push(format!("{name} over {}", said(cut))),
                None => groups.push(format!("any {name}")),
            }
            (groups, Box::new(move |value| cuts.partition_point(|&cut| cut < value)))
        };
    let of_missing = groups.len() as u16;
    if missing.contains(&1.0) {
        groups.push(format!("{name} missing"));
    }
    let of = |at: usize| if is_missing(at) { of_missing } else { place(values[at]) as u16 };
    let of = (0..values.len()).map(of).collect();
    Some(Column { name: name.to_owned(), groups, of })
}

/// A value of a field in the words of its log.
fn word(field: &Field, value: f32) -> String {
    match &field.kind {
        FieldKind::Category { values } => {
            values.get(value as usize).map_or_else(|| number(value), ToString::to_string)
        }
        FieldKind::Boolean { .. } if value == 0.0 || value == 1.0 => (value == 1.0).to_string(),
        FieldKind::Date { .. } => field.text(value),
        _ => number(value),
    }
}

/// A number by its first three digits.
fn rounded(value: f32) -> f32 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let unit = 10f64.powi(2 - f64::from(value).abs().log10().floor() as i32);
    ((f64::from(value) * unit).round() / unit) as f32
}

/// A number without digits that it does not need.
fn number(value: f32) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-4..1e7).contains(&size) => format!("{value}"),
        _ => format!("{value:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 to 99: cut at the quarters, which are said as they are.
    #[test]
    fn numbers_are_cut_into_quarters() {
        let values: Vec<f32> = (0..100u8).map(f32::from).collect();
        let column = ranges("age", None, &values, &[]).unwrap();
        let expected =
            ["age up to 24", "age over 24 up to 49", "age over 49 up to 74", "age over 74"];
        assert_eq!(column.groups, expected);
        let count = |group: u16| column.of.iter().filter(|&&of| of == group).count();
        assert_eq!([0, 1, 2, 3].map(count), [25, 25, 25, 25]);
        assert_eq!((column.of[24], column.of[25]), (0, 1));
    }

    #[test]
    fn what_is_missing_is_a_group_of_its_own() {
        let column = ranges("age", None, &[7.0, 3.0, 7.0, 5.0], &[0.0, 0.0, 0.0, 1.0]).unwrap();
        assert_eq!(column.groups, ["age is 3", "age is 7", "age missing"]);
        assert_eq!(column.of, [1, 0, 1, 2]);
    }

    #[test]
    fn numbers_are_said_shortly() {
        assert_eq!([1234.5, 0.012_345, -7.0, 0.0].map(rounded), [1230.0, 0.0123, -7.0, 0.0]);
        assert_eq!([40.0, 0.0123, 1e-9].map(number), ["40", "0.0123", "1e-9"].map(str::to_owned));
    }
}
