//! What a policy would do differently from the past, and where: for people to read, never for learning.
//!
//! At logged steps the policy is asked what it would do. Steps are put into groups by one or two columns of what was seen
//! (categories, or ranges of numbers), and in every group the shares of actions in the data are held against the policy's. The
//! columns are those that show best where something changes; groups are ranked by how much changes times how often.

mod columns;
mod intended;

use esper_data::{Cells, Dataset, FieldKind, Moments, Space};
use serde::{Deserialize, Serialize};

use self::columns::{Column, columns};
use self::intended::Intended;
use crate::error::Error;
use crate::policy::Policy;

/// What a policy would do differently from the past.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Differences {
    /// The level that it was asked for, where levels are told.
    pub level: Option<f64>,
    /// The average return that it was asked for; `None` if it cannot be asked.
    pub target: Option<f64>,
    /// Logged steps that were looked at.
    pub steps: usize,
    /// Of choices: how often the policy would do what was done, from 0 to 1.
    pub agreement: Option<f64>,
    /// What numbers of actions are.
    pub measure: Measure,
    /// The columns that groups are by.
    pub by: Vec<String>,
    /// How much changes between groups by them: the sum of every group's change by its share of the steps, less what chance alone
    /// would show.
    pub changed: f64,
    /// How well each column by itself shows where, the best first.
    pub columns: Vec<ColumnChange>,
    /// Groups of states in which something else would be done, what changes most first.
    pub groups: Vec<StateGroup>,
}

/// What numbers of actions are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Shares, from 0 to 1; a change is the share of decisions that would be others (total variation).
    Share,
    /// Means; a change is how far means are apart, in standard deviations of the action in the data.
    Mean,
}

/// How well a column shows where something else would be done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ColumnChange {
    /// Its name.
    pub column: String,
    /// The root mean square of its groups' changes, less what chance alone would show: the higher, the more what changes is
    /// in some of the groups and not in others.
    pub shows: f64,
}

/// States that are alike, and what was done in them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StateGroup {
    /// Which, in the words of the log: "ward is B, age over 63".
    pub states: String,
    /// Logged steps in them.
    pub steps: usize,
    /// Their share of all that were looked at.
    pub share: f64,
    /// How much changes; see [`Measure`].
    pub change: f64,
    /// The actions that change most.
    pub actions: Vec<ActionChange>,
}

/// What becomes of an action in some states.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionChange {
    /// Which, in the words of the log.
    pub action: String,
    /// Its share in the data, or its mean.
    pub data: f64,
    /// The policy's.
    pub policy: f64,
}

/// The most groups that are kept.
const GROUPS: usize = 12;

/// The most columns that are kept.
const COLUMNS: usize = 8;

/// The most actions of a group that are kept.
const ACTIONS: usize = 6;

/// With fewer steps a group is not told.
const FEWEST: usize = 10;

/// Changes below this are none.
const LEAST: f64 = 0.01;

/// Columns that are tried two at a time.
const PAIRED: usize = 5;

/// The most groups that two columns may make.
const MOST_PAIRS: usize = 1_024;

/// Two columns have to show so many times as much as one.
const WORTH_TWO: f64 = 1.1;

impl Differences {
    /// What a policy would do differently at steps of a data set, asked for what is chosen from the data alone.
    pub fn of(policy: &Policy, data: &Dataset) -> Result<Self, Error> {
        let card = policy.card();
        let intended = Intended::of(policy, data)?;
        let asked = card.offline_target().and_then(|target| card.promised(target));
        Ok(Differences {
            level: asked.and_then(|asked| asked.level),
            target: asked.map(|asked| asked.target),
            ..Self::between(data, &intended)
        })
    }

    /// The difference between what was done at some steps and what is intended there.
    fn between(data: &Dataset, intended: &Intended) -> Self {
        let space = &data.metadata().action_space;
        let doings = Doings::of(data, intended);
        let all = columns(data, &intended.rows);
        let mut ranked: Vec<(usize, f64)> =
            (0..all.len()).map(|at| (at, doings.shown(&all[at])[1])).collect();
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        let shown =
            |&(at, shows): &(usize, f64)| ColumnChange { column: all[at].name.clone(), shows };
        let chosen = doings.best(&all, &ranked);
        let (by, changed, groups) = match &chosen {
            None => (Vec::new(), 0.0, Vec::new()),
            Some((by, column, changed)) => (by.clone(), *changed, doings.groups(column)),
        };
        Differences {
            level: None,
            target: None,
            steps: intended.rows.steps.len(),
            agreement: doings.agreement,
            measure: match space {
                Space::Box { .. } => Measure::Mean,
                _ => Measure::Share,
            },
            by,
            changed,
            columns: ranked
                .iter()
                .filter(|(_, shows)| *shows > LEAST)
                .take(COLUMNS)
                .map(shown)
                .collect(),
            groups,
        }
    }
}

/// What was done and what is intended at every step, in the same form: shares of categories, or numbers.
struct Doings<'a> {
    names: Vec<String>,
    /// The categories of every cell of an action; none of numbers.
    categories: Vec<usize>,
    /// Of numbers, their deviation in the data.
    deviations: Vec<f64>,
    /// `[steps, width]`.
    done: Vec<f32>,
    intended: &'a Intended,
    width: usize,
    agreement: Option<f64>,
}

/// Sums over the steps of a group.
#[derive(Clone)]
struct Sums {
    steps: usize,
    done: Vec<f64>,
    intended: Vec<f64>,
}

impl<'a> Doings<'a> {
    fn of(data: &Dataset, intended: &'a Intended) -> Self {
        let metadata = data.metadata();
        let (space, fields) = (&metadata.action_space, &metadata.fields.action);
        let (cells, steps) = (space.cells(), &intended.rows.steps);
        let mut taken = Cells::empty(data.action_type());
        data.scan_actions(steps.iter().copied(), |done, rows| {
            rows.iter().for_each(|row| taken.extend_from(done, row * cells..(row + 1) * cells));
        });
        let taken = taken.view();
        let categories: Vec<usize> =
            space.categories().into_iter().flatten().map(|n| n as usize).collect();
        let name = |cell: usize| match fields.get(cell) {
            Some(field) => field.name.clone(),
            None if cells == 1 => "action".to_owned(),
            None => format!("action cell {cell}"),
        };
        if categories.is_empty() {
            let number = |at: usize| taken.number(at);
            let deviation = |cell: usize| {
                let of_cell = (cell..taken.len()).step_by(cells);
                Moments::of(of_cell.map(|at| f64::from(number(at)))).population_std()
            };
            return Doings {
                names: (0..cells).map(name).collect(),
                categories,
                deviations: (0..cells).map(deviation).collect(),
                done: (0..taken.len()).map(number).collect(),
                intended,
                width: cells,
                agreement: None,
            };
        }
        let width: usize = categories.iter().sum();
        let mut done = vec![0.0; steps.len() * width];
        let mut agreement = 0.0;
        for at in 0..steps.len() {
            let (mut first, mut agrees) = (at * width, 1.0);
            for (cell, n) in categories.iter().enumerate() {
                let category = taken.category(at * cells + cell);
                done[first + category] = 1.0;
                agrees *= f64::from(intended.actions[first + category]);
                first += n;
            }
            agreement += agrees;
        }
        let value = |cell: usize, value: usize| {
            let word = match fields.get(cell).map(|field| &field.kind) {
                Some(FieldKind::Category { values }) => values.get(value).map(ToString::to_string),
                Some(FieldKind::Boolean { .. }) => Some((value == 1).to_string()),
                _ => None,
            };
            let word = word.unwrap_or_else(|| value.to_string());
            match cells {
                1 if fields.is_empty() => format!("action {word}"),
                1 => word,
                _ => format!("{} {word}", name(cell)),
            }
        };
        let names = (0..categories.len())
            .flat_map(|cell| (0..categories[cell]).map(move |of| (cell, of)))
            .map(|(cell, of)| value(cell, of));
        Doings {
            names: names.collect(),
            done,
            intended,
            width,
            agreement: Some(agreement / steps.len().max(1) as f64),
            deviations: Vec::new(),
            categories,
        }
    }

    fn steps(&self) -> usize {
        self.intended.rows.steps.len()
    }

    /// Sums over the steps of each group of a column.
    fn sums(&self, column: &Column) -> Vec<Sums> {
        let nothing =
            Sums { steps: 0, done: vec![0.0; self.width], intended: vec![0.0; self.width] };
        let mut sums = vec![nothing; column.groups.len()];
        for (at, &group) in column.of.iter().enumerate() {
            let sums = &mut sums[usize::from(group)];
            sums.steps += 1;
            let cells = at * self.width..(at + 1) * self.width;
            let pairs = self.done[cells.clone()].iter().zip(&self.intended.actions[cells]);
            for (place, (done, intended)) in pairs.enumerate() {
                sums.done[place] += f64::from(*done);
                sums.intended[place] += f64::from(*intended);
            }
        }
        sums
    }

    /// How much changes in a group, and how much would seem to by chance alone.
    fn change(&self, sums: &Sums) -> [f64; 2] {
        let steps = sums.steps.max(1) as f64;
        // The mean distance of a standard normal number from zero.
        let normal = (2.0 / std::f64::consts::PI).sqrt();
        // What is drawn is as noisy as what was done.
        let noise = if self.intended.drawn { 2f64.sqrt() } else { 1.0 } * normal / steps.sqrt();
        let apart = |at: usize| (sums.done[at] - sums.intended[at]).abs() / steps;
        if self.categories.is_empty() {
            let change = |cell: usize| match self.deviations[cell] {
                deviation if deviation > 0.0 => apart(cell) / deviation,
                _ => 0.0,
            };
            let most = (0..self.width).map(change).fold(0.0, f64::max);
            return [most, noise];
        }
        let mut most = [0.0, 0.0];
        let mut first = 0;
        for n in &self.categories {
            let of_cell = first..first + n;
            first += n;
            let change = of_cell.clone().map(apart).sum::<f64>() / 2.0;
            let spread = |at: usize| {
                let share = (sums.done[at] / steps).clamp(0.0, 1.0);
                (share * (1.0 - share)).sqrt()
            };
            let by_chance = noise * of_cell.map(spread).sum::<f64>() / 2.0;
            if change - by_chance >= most[0] - most[1] {
                most = [change, by_chance];
            }
        }
        most
    }

    /// How much changes between the groups of a column, by their shares of the steps: the mean, and the root of the mean square,
    /// which is the higher the more what changes is in some groups and not in others.
    fn shown(&self, column: &Column) -> [f64; 2] {
        let (mut sum, mut squares) = (0.0, 0.0);
        for sums in self.sums(column) {
            let [change, by_chance] = self.change(&sums);
            let change = (change - by_chance).max(0.0);
            sum += change * sums.steps as f64;
            squares += change.powi(2) * sums.steps as f64;
        }
        let steps = self.steps().max(1) as f64;
        [sum / steps, (squares / steps).sqrt()]
    }

    /// The column, or two of them, that shows best where something changes; and how much does.
    fn best(&self, all: &[Column], ranked: &[(usize, f64)]) -> Option<(Vec<String>, Column, f64)> {
        let &(first, alone) = ranked.first()?;
        let mut best = (vec![all[first].name.clone()], all[first].clone());
        let mut most = alone * WORTH_TWO;
        for (place, &(one, _)) in ranked.iter().take(PAIRED).enumerate() {
            for &(other, _) in ranked.iter().take(PAIRED).skip(place + 1) {
                // In the order of the log.
                let (one, other) = (&all[one.min(other)], &all[one.max(other)]);
                if one.groups.len() * other.groups.len() > MOST_PAIRS {
                    continue;
                }
                let both = one.with(other);
                let [_, shows] = self.shown(&both);
                if shows > most {
                    most = shows;
                    best = (vec![one.name.clone(), other.name.clone()], both);
                }
            }
        }
        let (by, column) = best;
        let [changed, _] = self.shown(&column);
        Some((by, column, changed))
    }

    /// The groups of a column in which something else would be done.
    fn groups(&self, column: &Column) -> Vec<StateGroup> {
        let mut groups: Vec<(f64, StateGroup)> = Vec::new();
        for (states, sums) in column.groups.iter().zip(self.sums(column)) {
            let [change, by_chance] = self.change(&sums);
            let weight = (change - by_chance) * sums.steps as f64;
            if sums.steps < FEWEST.min(self.steps()) || change - by_chance < LEAST {
                continue;
            }
            let share = sums.steps as f64 / self.steps() as f64;
            let group = StateGroup {
                states: states.clone(),
                steps: sums.steps,
                share,
                change,
                actions: self.actions(&sums),
            };
            groups.push((weight, group));
        }
        groups.sort_by(|a, b| b.0.total_cmp(&a.0));
        groups.truncate(GROUPS);
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// The actions that change most in a group.
    fn actions(&self, sums: &Sums) -> Vec<ActionChange> {
        let steps = sums.steps as f64;
        let action = |at: usize| ActionChange {
            action: self.names[at].clone(),
            data: sums.done[at] / steps,
            policy: sums.intended[at] / steps,
        };
        let mut actions: Vec<ActionChange> = (0..self.width).map(action).collect();
        let change = |action: &ActionChange| (action.policy - action.data).abs();
        actions.sort_by(|a, b| change(b).total_cmp(&change(a)));
        actions.truncate(ACTIONS);
        actions
    }
}

#[cfg(test)]
mod tests;
