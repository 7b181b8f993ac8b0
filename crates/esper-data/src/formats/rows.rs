//! Tables with a row for every step, as RLlib and RLDS write them, and RLDS's tables with a row for every episode.

use std::collections::HashMap;
use std::path::PathBuf;

use arrow_schema::{DataType, Schema};

use super::arrow::Table;
use super::log::{Episode, Log};
use super::numbers::Array;
use super::spaces::{Extent, Key, Side};
use super::{Known, NO_LAST_OBSERVATION, counted};
use crate::dataset::End;
use crate::error::DataError;

/// The columns of RLlib that are read. Which of them have to be there: [`Kind::of`].
const RLLIB: [&str; 10] = [
    "obs",
    "new_obs",
    "actions",
    "rewards",
    "terminateds",
    "truncateds",
    "dones",
    "eps_id",
    "t",
    "agent_id",
];

/// Those of RLDS.
const RLDS: [&str; 6] = ["observation", "action", "reward", "is_first", "is_last", "is_terminal"];

/// The column of RLDS that has the steps of an episode in a row.
const STEPS: &str = "steps";

/// What a Parquet file is by its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Rllib,
    RldsSteps,
    RldsEpisodes,
}

impl Kind {
    pub(super) fn of(schema: &Schema) -> Option<Kind> {
        let has = |name: &str| schema.field_with_name(name).is_ok();
        let all = |names: &[&str]| names.iter().all(|name| has(name));
        if all(&["obs", "actions", "rewards"])
            && ["terminateds", "dones", "eps_id"].iter().any(|name| has(name))
        {
            return Some(Kind::Rllib);
        }
        if all(&["observation", "action", "reward", "is_first", "is_last"]) {
            return Some(Kind::RldsSteps);
        }
        let steps = match schema.field_with_name(STEPS).ok()?.data_type() {
            DataType::List(steps) | DataType::LargeList(steps) => steps.data_type(),
            _ => return None,
        };
        let DataType::Struct(fields) = steps else { return None };
        let has = |name: &&str| fields.find(name).is_some();
        ["observation", "action", "reward", "is_last"].iter().all(has).then_some(Kind::RldsEpisodes)
    }

    /// Reads files of this kind that follow each other.
    pub(super) fn read(self, paths: &[PathBuf]) -> Result<Known, DataError> {
        match self {
            Kind::Rllib => read_rllib(&Table::read(paths, &RLLIB, true)?),
            Kind::RldsSteps => {
                let table = Table::read(paths, &RLDS, true)?;
                let is_first = truths(&table, "is_first")?;
                let starts = (0..is_first.len()).filter(|&row| row == 0 || is_first[row]);
                let mut starts: Vec<usize> = starts.collect();
                starts.push(is_first.len());
                read_rlds(&table, &starts)
            }
            Kind::RldsEpisodes => {
                let (table, lengths) = Table::read(paths, &[STEPS], true)?.unpack(STEPS)?;
                let mut starts = vec![0];
                for length in lengths {
                    starts.push(starts[starts.len() - 1] + length);
                }
                read_rlds(&table, &starts)
            }
        }
    }
}

fn column(table: &Table, name: &str) -> Result<Array, DataError> {
    table.array(&[Key::Name(name.to_owned())])
}

fn truths(table: &Table, name: &str) -> Result<Vec<bool>, DataError> {
    column(table, name)?.truths().map_err(DataError::Invalid)
}

/// A column of observations or actions, perhaps with columns within.
fn parts(table: &Table, name: &str) -> Result<(Vec<Vec<Key>>, Vec<Array>), DataError> {
    let paths = table.paths(name);
    let array = |path: &Vec<Key>| table.array(&[&[Key::Name(name.to_owned())], &path[..]].concat());
    let arrays = paths.iter().map(array).collect::<Result<_, _>>()?;
    Ok((paths, arrays))
}

/// The space of all values in lists of arrays, which have one for every path.
fn side(what: &'static str, paths: Vec<Vec<Key>>, lists: &[&[Array]]) -> Result<Side, DataError> {
    let extent = |(at, path): (usize, Vec<Key>)| {
        let [first, rest @ ..] = lists else { return Err(format!("there is no {what}")) };
        let first = Extent::with(None, &first[at])?;
        let all = rest.iter().try_fold(first, |all, list| Extent::with(Some(all), &list[at]))?;
        Ok((path, all))
    };
    let extents = paths.into_iter().enumerate().map(extent).collect::<Result<_, String>>();
    extents.and_then(|extents| Side::infer(what, extents)).map_err(DataError::Invalid)
}

/// RLlib's columns: rows in any order if they are numbered, else in that of time.
fn read_rllib(table: &Table) -> Result<Known, DataError> {
    let invalid = DataError::Invalid;
    let rewards = column(table, "rewards")?.reals().map_err(invalid)?;
    let rows = rewards.len();
    let optional = |name: &str| match table.has(name) {
        true => truths(table, name).map(Some),
        false => Ok(None),
    };
    let terminateds = optional("terminateds")?;
    let dones = optional("dones")?;
    let truncateds = optional("truncateds")?.unwrap_or_else(|| vec![false; rows]);
    let mut notes = Vec::new();
    if terminateds.is_none() && dones.is_some() {
        notes.push(
            "`dones` does not tell ends from cuts; all of them count as ends of the world"
                .to_owned(),
        );
    }
    let terminateds = terminateds.or(dones).unwrap_or_else(|| vec![false; rows]);
    let end = |row: usize| End { terminated: terminateds[row], truncated: truncateds[row] };

    let episodes = rllib_episodes(table, rows, |row| end(row) != End::default())?;
    let (paths, observations) = parts(table, "obs")?;
    let following = match table.has("new_obs") {
        true => Some(parts(table, "new_obs")?),
        false => None,
    };
    if following.as_ref().is_some_and(|(following, _)| *following != paths) {
        return Err(invalid("column `new_obs`: it has other columns within than `obs`".to_owned()));
    }
    let (action_paths, actions) = parts(table, "actions")?;
    let mut seen = vec![&observations[..]];
    seen.extend(following.as_ref().map(|(_, arrays)| &arrays[..]));
    let mut log =
        Log::new(side("observation", paths, &seen)?, side("action", action_paths, &[&actions])?);
    let mut open = 0;
    for rows in &episodes {
        let select = |arrays: &[Array]| -> Vec<Array> {
            arrays.iter().map(|array| array.select(rows)).collect()
        };
        let last = rows.len() - 1;
        let marked = rows[..last].iter().position(|&row| end(row) != End::default());
        if let Some(step) = marked {
            let row = rows[step];
            return Err(invalid(format!("row {row} ends an episode that goes on after it")));
        }
        let end = end(rows[last]);
        open += usize::from(end == End::default());
        let seen = select(&observations);
        let next = following.as_ref().map(|(_, arrays)| {
            arrays.iter().map(|array| array.select(&rows[last..])).collect::<Vec<_>>()
        });
        log.push(&Episode {
            observations: &seen,
            actions: &select(&actions),
            rewards: &rows.iter().map(|&row| rewards[row]).collect::<Vec<_>>(),
            rows: 0..rows.len(),
            last: next.as_deref().map_or((&seen[..], last), |next| (next, 0)),
            end,
        })?;
    }
    if open > 0 {
        notes.push(format!("{} without an end: the log stops there", counted(open, "episode")));
    }
    if following.is_none() {
        notes.push(NO_LAST_OBSERVATION.to_owned());
    }
    Ok(Known { data: log.build()?, format: "RLlib (Parquet)", notes })
}

/// The rows of every episode, in the order of time; episodes in the order that they first appear in.
fn rllib_episodes(
    table: &Table,
    rows: usize,
    is_end: impl Fn(usize) -> bool,
) -> Result<Vec<Vec<usize>>, DataError> {
    let mut episodes: Vec<Vec<usize>> = Vec::new();
    if !table.has("eps_id") {
        for row in 0..rows {
            if row == 0 || is_end(row - 1) {
                episodes.push(Vec::new());
            }
            episodes.last_mut().into_iter().for_each(|episode| episode.push(row));
        }
        return Ok(episodes);
    }
    let mut ids = table.ids("eps_id")?;
    if table.has("agent_id") {
        // Several agents of one world are episodes of their own.
        if let Ok(agents) = table.ids("agent_id") {
            ids.iter_mut().zip(agents).for_each(|(id, agent)| {
                id.push('\n');
                id.push_str(&agent);
            });
        }
    }
    let mut known: HashMap<&str, usize> = HashMap::new();
    for (row, id) in ids.iter().enumerate() {
        let episode = *known.entry(id).or_insert_with(|| {
            episodes.push(Vec::new());
            episodes.len() - 1
        });
        episodes[episode].push(row);
    }
    if !table.has("t") {
        return Ok(episodes);
    }
    let times = column(table, "t")?.wholes().map_err(DataError::Invalid)?;
    for episode in &mut episodes {
        episode.sort_by_key(|&row| times[row]);
        let gap =
            episode.windows(2).find(|pair| times[pair[1]].checked_sub(times[pair[0]]) != Some(1));
        if let Some(&[before, after]) = gap {
            let id = ids[after].split('\n').next().unwrap_or("");
            let (before, after) = (times[before], times[after]);
            return Err(DataError::Invalid(format!(
                "column `t`: episode {id} has step {after} after step {before}; steps are missing or there twice"
            )));
        }
    }
    // Shards of several workers come in any order; by their ids, the same data is the same data set.
    episodes.sort_by(|a, b| natural(&ids[a[0]]).cmp(&natural(&ids[b[0]])));
    Ok(episodes)
}

/// Ids that are numbers sort as such, before all others.
fn natural(id: &str) -> (Option<i64>, &str) {
    let number = id.split('\n').next().and_then(|id| id.parse().ok());
    (number, id)
}

/// RLDS's steps, where episodes begin at these rows. Of a last step only the observation means anything.
fn read_rlds(table: &Table, starts: &[usize]) -> Result<Known, DataError> {
    let invalid = DataError::Invalid;
    let (paths, observations) = parts(table, "observation")?;
    let (action_paths, actions) = parts(table, "action")?;
    let rewards = column(table, "reward")?.reals().map_err(invalid)?;
    let is_last = truths(table, "is_last")?;
    let is_terminal = match table.has("is_terminal") {
        true => truths(table, "is_terminal")?,
        false => vec![false; is_last.len()],
    };
    let mut log = Log::new(
        side("observation", paths, &[&observations])?,
        side("action", action_paths, &[&actions])?,
    );
    let (mut empty, mut open, mut ignored) = (0, 0, 0.0);
    for (episode, pair) in starts.windows(2).enumerate() {
        let (start, stop) = (pair[0], pair[1]);
        let Some(last) = stop.checked_sub(1).filter(|&last| last >= start) else {
            empty += 1;
            continue;
        };
        if let Some(step) = is_last[start..last].iter().position(|&is_last| is_last) {
            return Err(invalid(format!(
                "episode {episode}: step {step} is marked `is_last`, but others follow"
            )));
        }
        let is_whole = is_last[last];
        let rows = start..if is_whole { last } else { stop };
        if rows.is_empty() {
            empty += 1;
            continue;
        }
        if is_whole {
            ignored += f64::from(rewards[last]);
        } else {
            open += 1;
        }
        let terminated = is_terminal[last];
        let end = End { terminated, truncated: is_whole && !terminated };
        let last = (&observations[..], last);
        let (observations, actions, rewards) = (&observations[..], &actions[..], &rewards[..]);
        log.push(&Episode { observations, actions, rewards, rows, last, end })?;
    }
    let mut notes = Vec::new();
    if empty > 0 {
        notes.push(format!("{} without steps left out", counted(empty, "episode")));
    }
    if open > 0 {
        let episodes = counted(open, "episode");
        notes.push(format!(
            "{episodes} without a step that is marked `is_last`: the log stops there"
        ));
    }
    if ignored != 0.0 {
        notes.push(format!(
            "rewards of steps marked `is_last`, {ignored} in all, are not counted: RLDS gives them no meaning"
        ));
    }
    Ok(Known { data: log.build()?, format: "RLDS (Parquet)", notes })
}
