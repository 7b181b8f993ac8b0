//! What will be made of a table, given what its columns hold: spaces, cells, rewards, times, and what has to be said of each.

use super::answers::Answers;
use super::decide::{self, Decision, Undecided};
use super::encode::CellPlan;
use super::facts::Facts;
use super::mapping::{Kind, RewardPer};
use super::survey::{ColumnReport, Found, Slots, Surveyor};
use super::table::Place;
use super::words::Words;
use crate::builder::{MAX_BEHAVIOURS, TOO_MANY_BEHAVIOURS};
use crate::dataset::Metadata;
use crate::error::DataError;
use crate::fields::{Field, FieldKind, Fields, Word};
use crate::space::Space;

/// How rows become steps.
pub(super) struct Plan {
    pub(super) metadata: Metadata,
    pub(super) observation: Vec<CellPlan>,
    pub(super) action: Vec<CellPlan>,
    pub(super) reward_per: RewardPer,
    pub(super) time: TimeKind,
    /// Names, in the order of their first appearance.
    pub(super) behaviours: Words,
    /// Whether what says that an episode ended also says so where it was cut: Gym's `done`.
    pub(super) end_covers_cut: bool,
}

/// What orders the rows of an episode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeKind {
    FileOrder,
    Whole,
    /// Numbers of at most so many decimals, in units of the last one of them, less a base.
    Scaled {
        decimals: u8,
        base: i128,
    },
    /// Numbers that are floats.
    Number,
    /// Dates in units of so many nanoseconds.
    Date {
        unit: i64,
    },
}

/// What was decided.
pub(super) struct Made {
    pub(super) plan: Plan,
    pub(super) columns: Vec<ColumnReport>,
    pub(super) notes: Vec<String>,
    /// Observations that hold nothing and are left out.
    pub(super) dropped: Vec<String>,
}

impl Surveyor<'_> {
    /// What is made of the columns, given what they hold.
    pub(super) fn make(&self, found: &Found) -> Result<Made, Open> {
        let Slots { observation, finals, action, .. } = self.slots;
        if found.episodes.facts.is_empty() {
            let problem = "has no rows, only the names of columns".to_owned();
            let path = self.table.path().to_owned();
            return Err(Open::Wrong(DataError::InvalidFile { path, problem }));
        }
        let mut notes = Vec::new();
        let mut columns = Vec::new();
        let report = |slot: usize, role, says: String| ColumnReport {
            name: self.name(slot).to_owned(),
            role,
            says,
        };
        columns.push(report(self.slots.episode, "episode", String::new()));
        let time = self.time(found)?;
        if let Some(slot) = self.slots.time {
            columns.push(report(slot, "time", String::new()));
        } else {
            notes.push(
                "no column of times: rows of an episode are in the order of the file".to_owned(),
            );
        }

        // Observations, with what is known of the same columns after the last action.
        let (mut seen, mut dropped) = (Vec::new(), Vec::new());
        for (at, &slot) in observation.iter().enumerate() {
            let name = self.name(slot);
            let mut facts = found.facts[slot].clone();
            if let Some(&last) = finals.get(at) {
                facts.join(found.facts[last].clone());
            }
            match decide::observation(name, &facts, &found.facts[slot], self.kind_of(slot)) {
                Ok(decision) => {
                    columns.push(report(slot, "observation", decision.says.clone()));
                    notes.extend(decision.notes.clone());
                    seen.push((slot, finals.get(at).copied(), decision));
                }
                Err(Undecided::Empty) => {
                    columns.push(report(slot, "ignored", "holds nothing".to_owned()));
                    notes.push(format!("`{name}` holds nothing and is left out"));
                    dropped.push(name.to_owned());
                }
                Err(other) => return Err(self.open(slot, other)),
            }
        }
        if seen.is_empty() {
            let problem =
                "all columns of the observation are empty; name others with --observation";
            return Err(Open::Wrong(self.in_doubt(problem.to_owned())));
        }
        let acted: Vec<(&str, &Facts, Option<Kind>)> = action
            .iter()
            .map(|&slot| (self.name(slot), &found.facts[slot], self.kind_of(slot)))
            .collect();
        let acted = decide::actions(&acted).map_err(|(at, other)| self.open(action[at], other))?;
        for (&slot, decision) in action.iter().zip(&acted) {
            columns.push(report(slot, "action", decision.says.clone()));
            notes.extend(decision.notes.clone());
        }
        let reward_per = self.reward_per(found, &mut notes)?;
        let says = match reward_per {
            RewardPer::Step => "one a step",
            RewardPer::Episode => "one an episode, given to its last step",
        };
        columns.push(report(self.slots.reward, "reward", says.to_owned()));
        for (slot, role) in
            [(self.slots.end, "end"), (self.slots.cut, "cut"), (self.slots.behaviour, "behaviour")]
        {
            columns.extend(slot.map(|slot| report(slot, role, String::new())));
        }
        columns.extend(finals.iter().map(|&slot| report(slot, "final_observation", String::new())));
        self.say_the_rest(found, &mut notes);

        let behaviours = self.behaviours(found)?;
        let end_covers_cut = self.slots.end.is_some_and(|slot| {
            ["done", "dones", "is_last"].contains(&self.name(slot).to_lowercase().as_str())
        });
        let (metadata, observation, action) = match &self.mapping.metadata {
            Some(json) => self.declared(json)?,
            None => self.inferred(seen, acted)?,
        };
        let plan =
            Plan { metadata, observation, action, reward_per, time, behaviours, end_covers_cut };
        Ok(Made { plan, columns, notes, dropped })
    }

    /// What the user says of a column, or of the list it is in.
    fn kind_of(&self, slot: usize) -> Option<Kind> {
        let column = &self.table.columns()[self.slots.columns[slot]];
        let kinds = &self.mapping.kinds;
        let of_list = column.list.as_ref().and_then(|list| kinds.get(list));
        kinds.get(&column.name).or(of_list).copied()
    }

    fn open(&self, slot: usize, undecided: Undecided) -> Open {
        match undecided {
            Undecided::Words => Open::Words(slot),
            Undecided::Empty => {
                Open::Wrong(self.in_doubt(format!("column `{}` holds nothing", self.name(slot))))
            }
            Undecided::Wrong(Some(place), problem) => {
                Open::Wrong(self.table.wrong(place, &problem))
            }
            Undecided::Wrong(None, problem) => Open::Wrong(self.in_doubt(problem)),
        }
    }

    fn time(&self, found: &Found) -> Result<TimeKind, Open> {
        let Some(slot) = self.slots.time else { return Ok(TimeKind::FileOrder) };
        let (facts, name) = (&found.facts[slot], self.name(slot));
        let wrong = |place, problem: String| Err(Open::Wrong(self.table.wrong(place, &problem)));
        if let Some(place) = facts.missing.first.or(facts.markers.first) {
            return wrong(place, format!("the time (`{name}`) is missing"));
        }
        let others = [facts.texts, facts.truths, facts.truth_words];
        if let Some(place) = others.iter().find_map(|seen| seen.first) {
            let problem = format!(
                "the time (`{name}`) is neither a number nor a date such as 2024-05-31T12:00:00"
            );
            return wrong(place, problem);
        }
        match (facts.numbers(), facts.dates) {
            (0, _) => {
                let [low, high] = facts.range.unwrap_or_default();
                // Nanoseconds of 64 bits end in 2262.
                let is_near = low.abs().max(high.abs()) < 9.2e9;
                Ok(TimeKind::Date { unit: if is_near { 1 } else { 1_000 } })
            }
            (_, dates) if dates.count > 0 => {
                let place = dates.first.unwrap_or(Place { file: 0, line: 0 });
                wrong(place, format!("the time (`{name}`) is a date here and a number elsewhere"))
            }
            _ if facts.fractions.count > 0 => Ok(scaled(facts, found.decimals)),
            _ => Ok(TimeKind::Whole),
        }
    }

    /// Whether rewards are those of steps or of episodes.
    fn reward_per(&self, found: &Found, notes: &mut Vec<String>) -> Result<RewardPer, Open> {
        let facts = &found.facts[self.slots.reward];
        let episodes = &found.episodes;
        let name = self.name(self.slots.reward);
        let missing = facts.missing.first.or(facts.markers.first);
        let one_each = || episodes.facts.iter().all(|episode| episode.rewards == 1);
        let repeated = || {
            let long = episodes.facts.iter().any(|episode| episode.rows > 1);
            long && episodes.facts.iter().all(|episode| !episode.rewards_differ)
        };
        match (self.mapping.reward_per, missing) {
            (Some(RewardPer::Episode), _) => {}
            (Some(RewardPer::Step) | None, None)
                if self.mapping.reward_per.is_some()
                    || !name.eq_ignore_ascii_case("outcome")
                    || !repeated() =>
            {
                return Ok(RewardPer::Step);
            }
            (None, None) => notes.push(format!(
                "`{name}` is the same in all rows of an episode: it is taken as one outcome, which the last step is given \
                 (--reward-per step takes it as it is)"
            )),
            (None, Some(_)) if one_each() => notes.push(format!(
                "`{name}` has one value an episode: it is taken as its outcome, which the last step is given"
            )),
            (_, Some(place)) => {
                let problem = format!(
                    "the reward (`{name}`) is missing; every row has one, or exactly one row of every episode"
                );
                return Err(Open::Wrong(self.table.wrong(place, &problem)));
            }
            (Some(RewardPer::Step), None) => return Ok(RewardPer::Step),
        }
        let bad = episodes
            .facts
            .iter()
            .position(|episode| episode.rewards == 0 || episode.rewards_differ);
        if let Some(at) = bad {
            let (id, what) = (episodes.ids.get(at), episodes.facts[at].rewards);
            let problem = match what {
                0 => format!("episode `{id}` has no outcome (`{name}`)"),
                _ => format!(
                    "episode `{id}` has different outcomes (`{name}`); are they rewards of steps (--reward-per step)?"
                ),
            };
            return Err(Open::Wrong(self.in_doubt(problem)));
        }
        Ok(RewardPer::Episode)
    }

    fn behaviours(&self, found: &Found) -> Result<Words, Open> {
        let Some(slot) = self.slots.behaviour else { return Ok(Default::default()) };
        let facts = &found.facts[slot];
        let name = self.name(slot);
        if let Some(place) = facts.missing.first {
            let problem = format!(
                "who decided (`{name}`) is missing; every row says so, or there is no such column (--behaviour \"\")"
            );
            return Err(Open::Wrong(self.table.wrong(place, &problem)));
        }
        match &facts.words {
            Some(words) if words.len() <= MAX_BEHAVIOURS => Ok(words.clone()),
            _ => Err(Open::Wrong(self.in_doubt(format!("column `{name}`: {TOO_MANY_BEHAVIOURS}")))),
        }
    }

    /// What is said of everything else.
    fn say_the_rest(&self, found: &Found, notes: &mut Vec<String>) {
        let several = found.episodes.facts.iter().filter(|episode| episode.in_several).count();
        if several > 0 {
            notes.push(format!(
                "{several} episodes have rows in more than one of the files: the same id is the same episode; if ids begin anew in every file, \
                 give every episode an id of its own"
            ));
        }
        match (self.slots.end, self.slots.cut) {
            (None, None) => notes.push(
                "no column says how episodes end: the last row of each is taken as its end (--end COLUMN says otherwise)".to_owned(),
            ),
            (Some(slot), _) => {
                let facts = &found.facts[slot];
                if facts.ones == 0 {
                    let name = self.name(slot);
                    notes.push(format!("`{name}` is never true: all episodes are taken as cut"));
                }
                let last = found.episodes.facts.iter().filter(|episode| episode.ended).count();
                let early = facts.ones.saturating_sub(last as u64);
                if early > 0 {
                    let name = self.name(slot);
                    notes.push(format!(
                        "{early} rows in the middle of episodes say that the episode ended (`{name}`), which is not heeded: the rows \
                         behind them are of the same episode. If ids are used again, give every episode an id of its own; if \
                         `{name}` says something else, leave it out (--end \"\")"
                    ));
                }
            }
            _ => {}
        }
        if let Some(&slot) = self.slots.finals.first()
            && found.answers.contradict()
        {
            let (name, seen) = (self.name(slot), self.name(self.slots.observation[0]));
            let Answers { compared, other } = found.answers;
            notes.push(format!(
                "what an action led to (`{name}` and the like) is not what the next row has (`{seen}`) in {other} of {compared} rows that \
                 were compared; only that of an episode's last row is used, which may be wrong as well: --ignore leaves it out"
            ));
        }
        if self.slots.finals.is_empty() {
            notes.push(
                "no column says what the last action of an episode led to (`final_` or `next_` before the name of every \
                 observation): the last observation is repeated, so chance in last steps is not seen"
                    .to_owned(),
            );
        }
    }

    /// Spaces and fields by what was found.
    fn inferred(
        &self,
        seen: Vec<(usize, Option<usize>, Decision)>,
        acted: Vec<Decision>,
    ) -> Result<(Metadata, Vec<CellPlan>, Vec<CellPlan>), Open> {
        let mut fields = Fields::default();
        let (mut observation, mut action) = (Vec::new(), Vec::new());
        for (slot, last, decision) in seen {
            let field = Field::new(self.name(slot), decision.kind);
            observation.push(CellPlan::new(&field, slot, last));
            fields.observation.push(field);
            if decision.indicator {
                let field = Field::new(self.name(slot), FieldKind::Missing);
                observation.push(CellPlan::new(&field, slot, last));
                fields.observation.push(field);
            }
        }
        for (&slot, decision) in self.slots.action.iter().zip(acted) {
            let field = Field::new(self.name(slot), decision.kind);
            action.push(CellPlan::new(&field, slot, None));
            fields.action.push(field);
        }
        let spaces = Metadata::new(space_of(&fields.observation), space_of(&fields.action));
        for space in [&spaces.observation_space, &spaces.action_space] {
            space.validate().map_err(|problem| Open::Wrong(self.in_doubt(problem)))?;
        }
        Ok((Metadata { fields, ..spaces }, observation, action))
    }

    /// Spaces and fields as the mapping has them.
    fn declared(&self, json: &str) -> Result<(Metadata, Vec<CellPlan>, Vec<CellPlan>), Open> {
        let wrong = |problem: String| {
            Open::Wrong(self.in_doubt(format!("`metadata` of the mapping: {problem}")))
        };
        let metadata: Metadata =
            serde_json::from_str(json).map_err(|error| wrong(error.to_string()))?;
        let Metadata { observation_space, action_space, fields, .. } = &metadata;
        observation_space.validate().map_err(wrong)?;
        action_space.validate().map_err(wrong)?;
        fields.check(observation_space, action_space).map_err(wrong)?;
        let plans =
            |name: &str, fields: &[Field], space: &Space, slots: &[usize], finals: &[usize]| {
                let raw;
                let fields = match fields {
                    [] => {
                        raw = raw_fields(space);
                        &raw
                    }
                    fields => fields,
                };
                let is_column = |field: &&Field| field.kind != FieldKind::Missing;
                let columns: Vec<&Field> = fields.iter().filter(is_column).collect();
                if columns.len() != slots.len() {
                    let (found, needed) = (slots.len(), columns.len());
                    return Err(wrong(format!(
                        "{found} columns of the {name} where there should be {needed}"
                    )));
                }
                let plan = |field: &Field| {
                    let at = columns.iter().position(|column| column.name == field.name);
                    let at = at.ok_or_else(|| wrong(format!("no column `{}`", field.name)))?;
                    Ok(CellPlan::new(field, slots[at], finals.get(at).copied()))
                };
                fields.iter().map(plan).collect::<Result<Vec<_>, Open>>()
            };
        let Slots { observation, finals, action, .. } = self.slots;
        let observation =
            plans("observation", &fields.observation, observation_space, observation, finals)?;
        let action = plans("action", &fields.action, action_space, action, &[])?;
        Ok((metadata, observation, action))
    }
}

/// How numbers are put in order that are not all whole numbers of 64 bits: exactly, where their decimals allow it.
fn scaled(facts: &Facts, decimals: Option<u8>) -> TimeKind {
    let (Some(decimals), Some([low, high])) = (decimals, facts.range) else {
        return TimeKind::Number;
    };
    let unit = 10f64.powi(i32::from(decimals));
    // The bounds themselves are rounded.
    let (span, rounding) = ((high - low) * unit, low.abs().max(high.abs()) * unit * f64::EPSILON);
    let is_held = low.abs().max(high.abs()) * unit < 1e38 && facts.infinite.count == 0;
    match is_held && span + 2.0 * rounding < 9e18 {
        true => TimeKind::Scaled { decimals, base: (low * unit) as i128 },
        false => TimeKind::Number,
    }
}

/// Fields of cells that have no names: their places.
pub(super) fn raw_fields(space: &Space) -> Vec<Field> {
    let field = |(at, categories): (usize, Option<u32>)| {
        let kind = match categories {
            None => FieldKind::Number { fill: None },
            Some(n) => FieldKind::Category { values: (0..i64::from(n)).map(Word::Whole).collect() },
        };
        Field::new(at.to_string(), kind)
    };
    space.categories().into_iter().enumerate().map(field).collect()
}

/// Why nothing could be decided yet.
pub(super) enum Open {
    /// The words of a slot are needed.
    Words(usize),
    Wrong(DataError),
}

/// The space of some fields: numbers, categories, or runs of both side by side.
fn space_of(fields: &[Field]) -> Space {
    let categories = |field: &Field| match &field.kind {
        FieldKind::Category { values } => Some(values.len() as u32),
        _ => None,
    };
    let runs = fields.chunk_by(|a, b| categories(a).is_some() == categories(b).is_some());
    let space = |run: &[Field]| match run.iter().map(categories).collect::<Option<Vec<u32>>>() {
        None => Space::Box { shape: vec![run.len()], bounds: None },
        Some(nvec) => match nvec.as_slice() {
            [n] => Space::Discrete { n: *n },
            _ => Space::MultiDiscrete { nvec },
        },
    };
    let mut spaces: Vec<Space> = runs.map(space).collect();
    match spaces.len() {
        1 => spaces.remove(0),
        _ => Space::Tuple { spaces },
    }
}
