//! The first pass: what the columns hold, which episodes there are, and what will be made of them.

use std::ops::ControlFlow;

use super::answers::{Answers, Comparison};
use super::chunks::Chunk;
use super::episodes::{Episodes, Row};
use super::facts::Facts;
use super::mapping::{Kind, Mapping};
use super::plan::{Made, Open, Plan};
use super::roles::{self, Roles};
use super::table::{Table, Watch};
use super::value::{Look, Value};
use crate::dataset::Metadata;
use crate::error::DataError;
use crate::fields::{Field, FieldKind, Fields};

/// What a table holds and what will be made of it, before anything is.
pub struct Survey {
    pub(super) table: Table,
    pub(super) slots: Slots,
    pub(super) episodes: Episodes,
    pub(super) plan: Plan,
    mapping: Mapping,
    columns: Vec<ColumnReport>,
    notes: Vec<String>,
}

/// What is made of a column.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// Its role: `episode`, `time`, `observation`, `action`, `reward`, `end`, `cut`, `behaviour`, `final_observation` or `ignored`.
    pub role: &'static str,
    /// What it holds and what becomes of it, in words.
    pub says: String,
}

/// The columns that are read, and which of them are what.
pub(super) struct Slots {
    /// Columns of the table.
    pub(super) columns: Vec<usize>,
    pub(super) episode: usize,
    pub(super) reward: usize,
    pub(super) time: Option<usize>,
    pub(super) end: Option<usize>,
    pub(super) cut: Option<usize>,
    pub(super) behaviour: Option<usize>,
    pub(super) observation: Vec<usize>,
    pub(super) finals: Vec<usize>,
    pub(super) action: Vec<usize>,
}

impl Slots {
    fn new(roles: &Roles) -> Self {
        let mut columns = Vec::new();
        let mut slot = |column: usize| {
            columns.push(column);
            columns.len() - 1
        };
        let (episode, reward) = (slot(roles.episode), slot(roles.reward));
        let mut optional = |column: Option<usize>| column.map(&mut slot);
        let (time, end, cut) = (optional(roles.time), optional(roles.end), optional(roles.cut));
        let behaviour = optional(roles.behaviour);
        let mut many = |columns: &[usize]| columns.iter().map(|&column| slot(column)).collect();
        let (observation, finals) = (many(&roles.observation), many(&roles.finals));
        let action = many(&roles.action);
        Slots { columns, episode, reward, time, end, cut, behaviour, observation, finals, action }
    }
}

/// What a pass over some rows found.
pub(super) struct Found {
    pub(super) facts: Vec<Facts>,
    pub(super) episodes: Episodes,
    /// The most decimals that a time has; `None` where one is not written with digits.
    pub(super) decimals: Option<u8>,
    /// Whether next observations are those of the next rows.
    pub(super) answers: Answers,
}

impl Table {
    /// Goes through the table once. What the mapping leaves open is found by usual names; whatever is in doubt, or cannot be
    /// imported, is an error. `watch` is told how many bytes were read, and says whether to go on.
    pub fn survey(
        self,
        mapping: &Mapping,
        mut watch: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Survey, DataError> {
        let roles = roles::find(mapping, self.columns(), self.path())?;
        let slots = Slots::new(&roles);
        let surveyor = Surveyor { table: &self, slots: &slots, mapping };
        let (found, made) = surveyor.decide(&mut watch)?;
        let Made { plan, columns, notes, dropped } = made;
        let mut mapping = roles.mapping(self.columns(), mapping);
        mapping.reward_per = Some(plan.reward_per);
        let with_finals = mapping.final_observation.len() == mapping.observation.len();
        for name in dropped {
            if let Some(at) = mapping.observation.iter().position(|other| *other == name) {
                mapping.observation.remove(at);
                if with_finals {
                    mapping.ignore.push(mapping.final_observation.remove(at));
                }
            }
            mapping.ignore.push(name);
        }
        let mut all_columns = columns;
        for &at in &roles.ignored {
            let column = &self.columns()[at];
            all_columns.push(ColumnReport {
                name: column.name.clone(),
                role: "ignored",
                says: column.unreadable.clone().unwrap_or_default(),
            });
        }
        if mapping.metadata.is_none() {
            for (column, kind) in kinds_of(&plan.metadata.fields) {
                mapping.kinds.entry(column).or_insert(kind);
            }
        }
        let mut all_notes = roles.notes;
        all_notes.extend(notes);
        let Found { episodes, .. } = found;
        Ok(Survey {
            table: self,
            slots,
            episodes,
            plan,
            mapping,
            columns: all_columns,
            notes: all_notes,
        })
    }
}

/// The kinds of columns, as a mapping says them.
fn kinds_of(fields: &Fields) -> Vec<(String, Kind)> {
    let kind = |field: &Field| {
        let kind = match field.kind {
            FieldKind::Number { .. } => Kind::Number,
            FieldKind::Boolean { .. } => Kind::Boolean,
            FieldKind::Date { .. } => Kind::Date,
            FieldKind::Category { .. } => Kind::Category,
            FieldKind::Missing => return None,
        };
        Some((field.name.clone(), kind))
    };
    fields.observation.iter().chain(&fields.action).filter_map(kind).collect()
}

impl Survey {
    /// The mapping with everything said that was found.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// What is made of every column.
    pub fn columns(&self) -> &[ColumnReport] {
        &self.columns
    }

    /// What the user should know.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the columns of the data set will mean.
    pub fn metadata(&self) -> &Metadata {
        &self.plan.metadata
    }

    /// The number of rows, which is that of steps.
    pub fn steps(&self) -> u64 {
        self.episodes.facts.iter().map(|episode| episode.rows).sum()
    }

    /// The number of episodes.
    pub fn episodes(&self) -> usize {
        self.episodes.facts.len()
    }

    /// Bytes of the files, as a watch counts them in one pass.
    pub fn bytes(&self) -> u64 {
        self.table.bytes()
    }
}

/// Whoever goes through a table.
pub(super) struct Surveyor<'a> {
    pub(super) table: &'a Table,
    pub(super) slots: &'a Slots,
    pub(super) mapping: &'a Mapping,
}

impl Surveyor<'_> {
    pub(super) fn name(&self, slot: usize) -> &str {
        &self.table.columns()[self.slots.columns[slot]].name
    }

    /// Passes over the table until everything is known: words of a column are only kept if they may be needed, and once in
    /// a while it turns out late that they are.
    fn decide(&self, watch: &mut Watch<'_>) -> Result<(Found, Made), DataError> {
        let mut words = self.first_guess()?;
        loop {
            let found = self.pass(&words, watch)?;
            match self.make(&found) {
                Ok(made) => return Ok((found, made)),
                Err(Open::Words(slot)) if !words[slot] => words[slot] = true,
                Err(Open::Words(slot)) => {
                    let problem = format!("column `{}` cannot be understood", self.name(slot));
                    return Err(self.in_doubt(problem));
                }
                Err(Open::Wrong(error)) => return Err(error),
            }
        }
    }

    pub(super) fn in_doubt(&self, problem: String) -> DataError {
        DataError::Mapping { path: self.table.path().to_owned(), problem }
    }

    /// For every slot whether its words are kept: those of actions, behaviours, what is said to be categories, and what has
    /// texts near the beginning.
    fn first_guess(&self) -> Result<Vec<bool>, DataError> {
        let Slots { columns, action, behaviour, observation, finals, .. } = self.slots;
        let mut words = vec![false; columns.len()];
        action.iter().chain(behaviour).for_each(|&slot| words[slot] = true);
        let with = vec![false; columns.len()];
        let work = |chunk: &Chunk<'_>| self.pass_chunk(chunk, &with);
        let mut first = None;
        self.table.scan(columns, &mut |_| ControlFlow::Continue(()), work, |found| {
            first = Some(found);
            Ok(ControlFlow::Break(()))
        })?;
        let Some(first) = first else { return Ok(words) };
        for &slot in observation.iter().chain(finals) {
            let said = self.mapping.kinds.get(self.name(slot)) == Some(&Kind::Category);
            let Facts { texts, padded, .. } = &first.facts[slot];
            words[slot] = said || texts.count + padded.count > 0;
        }
        Ok(words)
    }

    fn pass(&self, words: &[bool], watch: &mut Watch<'_>) -> Result<Found, DataError> {
        let facts = words.iter().map(|&with| Facts::new(with)).collect();
        let (episodes, answers) = (Episodes::default(), Answers::default());
        let mut all = Found { facts, episodes, decimals: Some(0), answers };
        let work = |chunk: &Chunk<'_>| self.pass_chunk(chunk, words);
        self.table.scan(&self.slots.columns, watch, work, |found| {
            for (facts, more) in all.facts.iter_mut().zip(found.facts) {
                facts.join(more);
            }
            all.episodes.join(found.episodes);
            all.answers.join(found.answers);
            all.decimals = all.decimals.zip(found.decimals).map(|(one, other)| one.max(other));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(all)
    }

    fn pass_chunk(&self, chunk: &Chunk<'_>, words: &[bool]) -> Result<Found, DataError> {
        let mut facts: Vec<Facts> = words.iter().map(|&with| Facts::new(with)).collect();
        let mut episodes = Episodes::default();
        let mut buffer = String::new();
        let mut decimals = Some(0);
        let mut comparison = Comparison::default();
        let Slots { episode, reward, time, end, observation, finals, .. } = self.slots;
        let first_final = finals.first().copied().unwrap_or(usize::MAX);
        // When a row was matters only to how its episode ended and to what came next.
        let is_timed = end.is_some() || !finals.is_empty();
        let is_final = |slot: usize| slot >= first_final && slot < first_final + finals.len();
        chunk.rows(|place, values| {
            if values[*episode] == Value::Missing {
                return Err(format!("the episode id (`{}`) is missing", self.name(*episode)));
            }
            let row = Row {
                reward: self.reward(&values[*reward])?,
                file: place.file,
                time: time.filter(|_| is_timed).map_or(0.0, |slot| moment(&values[slot])),
                ended: end.is_some_and(|slot| values[slot].truth() == Some(true)),
            };
            let id = values[*episode].text(&mut buffer);
            comparison.add(id, row.time, values, observation, finals);
            episodes.add(id, row);
            if let (Some(most), Some(slot)) = (decimals, *time) {
                decimals = values[slot].decimals().map(|more| most.max(more));
            }
            // A row without any of them has no final observation; what is missing in one that has is missing indeed.
            let with_final = finals.iter().any(|&slot| values[slot] != Value::Missing);
            for (slot, facts) in facts.iter_mut().enumerate().skip(1) {
                if with_final || !is_final(slot) {
                    facts.add(&values[slot], place, &mut buffer);
                }
            }
            Ok(())
        })?;
        Ok(Found { facts, episodes, decimals, answers: comparison.answers })
    }

    /// The reward of a row, if it has one.
    fn reward(&self, value: &Value<'_>) -> Result<Option<f32>, String> {
        reward(value)
            .map_err(|problem| format!("the reward (`{}`) {problem}", self.name(self.slots.reward)))
    }
}

/// A time, rounded; 0 where there is none.
fn moment(value: &Value<'_>) -> f64 {
    match value.look() {
        Look::Whole(number) | Look::Padded(number) => number as f64,
        Look::Number(number) | Look::Date(number) => number,
        _ => 0.0,
    }
}

/// The reward that a value is; `None` where it is missing.
pub(super) fn reward(value: &Value<'_>) -> Result<Option<f32>, String> {
    match value.look() {
        Look::Missing | Look::Marker => Ok(None),
        Look::Truth(truth) | Look::TruthWord(truth) => Ok(Some(f32::from(u8::from(truth)))),
        Look::Whole(_) | Look::Padded(_) | Look::Number(_) => match value.number() {
            Some(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(format!(
                "is {}, which is not a finite number of 32 bits",
                value.text(&mut String::new())
            )),
        },
        Look::Date(_) | Look::Text => {
            Err(format!("is `{}`, which is not a number", value.text(&mut String::new())))
        }
    }
}
