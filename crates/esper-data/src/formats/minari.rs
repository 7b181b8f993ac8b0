//! Minari's data sets, versions 0.4 and 0.5.
//!
//! A data set is a folder `data` with `metadata.json` (0.5; in 0.4 the same is in attributes of the HDF5 file), which names the
//! spaces, and with the episodes in one of three layouts: a file `main_data.hdf5` with a group `episode_N` each, or a folder
//! `N` each with a file of Arrow or Parquet, whose last row holds nothing but the last observation. Dictionaries and tuples
//! are groups or structs.

use std::path::{Path, PathBuf};

use hdf5_reader::Dataset as Hdf5Dataset;
use hdf5_reader::group::Group;
use serde_json::Value;

use super::hdf5::Hdf5;
use super::log::{Episode, Log};
use super::numbers::Array;
use super::spaces::{Extent, Key, Part, Side, parse_json};
use super::{Known, arrow, counted, problem};
use crate::dataset::{End, Metadata};
use crate::error::DataError;

/// The file of the HDF5 layout.
pub(super) const MAIN_FILE: &str = "main_data.hdf5";
/// The file that describes a data set.
pub(super) const METADATA_FILE: &str = "metadata.json";
/// What an episode's group is called, before its number.
pub(super) const EPISODE: &str = "episode_";
/// What an element of a tuple is called, before its number.
pub(super) const INDEX: &str = "_index_";
/// The entry of the metadata, and the attribute of an episode, that only this program writes.
pub(super) const OURS: &str = "esper";
pub(super) const BEHAVIOUR: &str = "behaviour";

/// A folder that is recognised.
pub(super) enum Layout {
    Hdf5(PathBuf),
    Tables { folder: PathBuf, is_parquet: bool, about: Box<About> },
}

/// What a data set says of itself.
#[derive(Default)]
pub(super) struct About {
    observation: Option<Side>,
    action: Option<Side>,
    episodes: Option<u64>,
    are_jpeg: bool,
    /// What this program wrote of its own data.
    ours: Option<Metadata>,
}

/// The arrays of one episode: one more row of observations than of anything else that counts.
struct Found {
    observations: Vec<Array>,
    actions: Vec<Array>,
    rewards: Array,
    terminations: Array,
    truncations: Array,
    behaviour: Option<String>,
}

/// Finds the data in a folder, or in the folder `data` within.
pub(super) fn find(folder: &Path) -> Result<Option<Layout>, DataError> {
    for folder in [folder.to_owned(), folder.join("data")] {
        if folder.join(MAIN_FILE).is_file() {
            return Ok(Some(Layout::Hdf5(folder.join(MAIN_FILE))));
        }
        let file = folder.join(METADATA_FILE);
        if !file.is_file() {
            continue;
        }
        let json = read_json(&file)?;
        let is_parquet = match json["data_format"].as_str() {
            Some("arrow") => false,
            Some("parquet") => true,
            Some("hdf5") => return Err(problem(&folder, format!("there is no `{MAIN_FILE}`"))),
            _ => continue,
        };
        let about = About::from_json(&json).map_err(|text| problem(&file, text))?;
        return Ok(Some(Layout::Tables { folder, is_parquet, about: Box::new(about) }));
    }
    Ok(None)
}

fn read_json(path: &Path) -> Result<Value, DataError> {
    let text = std::fs::read_to_string(path).map_err(|error| DataError::io(path, error))?;
    parse_json(&text).map_err(|error| problem(path, format!("it is no sound JSON: {error}")))
}

impl About {
    fn from_json(json: &Value) -> Result<Self, String> {
        let side = |what: &'static str, name: &str| match json[name].as_str() {
            Some(text) => parse_space(what, name, text).map(Some),
            None => Ok(None),
        };
        Ok(About {
            observation: side("observation", "observation_space")?,
            action: side("action", "action_space")?,
            episodes: json["total_episodes"].as_u64(),
            are_jpeg: json["jpeg_encoding"].as_bool().unwrap_or(true),
            ours: serde_json::from_value(json[OURS].clone()).ok(),
        })
    }

    fn from_attributes(file: &Hdf5<'_>, root: &Group) -> Result<Self, DataError> {
        let side = |what: &'static str, name: &str| {
            let text = file.text_attribute(root, name);
            let side = text.map(|text| parse_space(what, name, &text)).transpose();
            side.map_err(|text| file.at("/", text))
        };
        Ok(About {
            observation: side("observation", "observation_space")?,
            action: side("action", "action_space")?,
            episodes: file.count_attribute(root, "total_episodes"),
            are_jpeg: false,
            ours: None,
        })
    }

    /// A log for these sides, with what this program knew of its own data if that is of the same cells.
    fn log(ours: Option<Metadata>, observation: Side, action: Side) -> Log {
        let fits = |ours: &Metadata| {
            ours.observation_space.validate().is_ok()
                && ours.action_space.validate().is_ok()
                && ours.observation_space.categories() == observation.space.categories()
                && ours.action_space.categories() == action.space.categories()
                && ours.observation_space.cell_type() == observation.space.cell_type()
                && ours.action_space.cell_type() == action.space.cell_type()
        };
        match ours.filter(fits) {
            Some(ours) => Log::with_metadata(observation, action, ours),
            None => Log::new(observation, action),
        }
    }
}

fn parse_space(what: &'static str, name: &str, text: &str) -> Result<Side, String> {
    let json = parse_json(text).map_err(|error| format!("`{name}` is no sound JSON: {error}"))?;
    Side::from_json(what, &json).map_err(|text| format!("`{name}`: {text}"))
}

/// Puts the episodes that `read` gives, by their numbers, into a data set.
fn assemble(
    about: About,
    sides: [Side; 2],
    episodes: usize,
    format: &'static str,
    read: impl Fn(usize, &Side, &Side) -> Result<Found, DataError>,
) -> Result<Known, DataError> {
    let [observation, action] = sides;
    let pictures: Vec<&Part> = observation.parts.iter().filter(|part| part.is_image).collect();
    if let (true, [part, ..]) = (about.are_jpeg, &pictures[..]) {
        let name = if part.path.is_empty() { String::new() } else { format!(" `{}`", part.name()) };
        return Err(DataError::Invalid(format!(
            "observations{name} are pictures as JPEG, which are not read; write the data set with `jpeg_encoding=False`"
        )));
    }
    let mut log = About::log(about.ours, observation.clone(), action.clone());
    let mut empty = 0;
    for episode in 0..episodes {
        let found = read(episode, &observation, &action)?;
        let place = |text| DataError::Invalid(format!("episode {episode}: {text}"));
        let steps = found.observations.iter().map(|array| array.rows).min().unwrap_or(0);
        let steps = steps.saturating_sub(1);
        if steps == 0 {
            empty += 1;
            continue;
        }
        let flags = |array: &Array| {
            let flags = array.truths().map_err(place)?;
            match flags[..steps - 1].iter().position(|&flag| flag) {
                None => Ok(flags[steps - 1]),
                Some(row) => Err(place(format!(
                    "{}: true in row {row}, but the episode goes on to row {}",
                    array.at,
                    steps - 1
                ))),
            }
        };
        for array in &found.observations {
            array.check_rows(steps + 1).map_err(place)?;
        }
        let others = [&found.rewards, &found.terminations, &found.truncations];
        for array in found.actions.iter().chain(others) {
            // Tables have a row more, in which only the observation counts.
            if array.rows != steps + 1 || format == HDF5 {
                array.check_rows(steps).map_err(place)?;
            }
        }
        let end =
            End { terminated: flags(&found.terminations)?, truncated: flags(&found.truncations)? };
        if let Some(name) = &found.behaviour {
            log.made_by(name);
        }
        log.push(&Episode {
            observations: &found.observations,
            actions: &found.actions,
            rewards: &found.rewards.reals().map_err(place)?,
            rows: 0..steps,
            last: (&found.observations, steps),
            end,
        })?;
    }
    let mut notes = Vec::new();
    if empty > 0 {
        notes.push(format!("{} without steps left out", counted(empty, "episode")));
    }
    Ok(Known { data: log.build()?, format, notes })
}

const HDF5: &str = "Minari (HDF5)";

/// Reads the HDF5 layout.
pub(super) fn read_hdf5(
    file: &Hdf5<'_>,
    root: &Group,
    groups: &[Group],
) -> Result<Known, DataError> {
    let beside = file.path.with_file_name(METADATA_FILE);
    let mut about = match beside.is_file() {
        true => About::from_json(&read_json(&beside)?).map_err(|text| problem(&beside, text))?,
        false => About::from_attributes(file, root)?,
    };
    let number = |group: &Group| group.name().strip_prefix(EPISODE)?.parse::<usize>().ok();
    let mut episodes: Vec<(usize, &Group)> =
        groups.iter().filter_map(|group| Some((number(group)?, group))).collect();
    episodes.sort_unstable_by_key(|(number, _)| *number);
    for (expected, (number, _)) in episodes.iter().enumerate() {
        if expected != *number {
            return Err(file.at(&format!("{EPISODE}{expected}"), "it is missing"));
        }
    }
    if about.episodes.is_some_and(|said| said != episodes.len() as u64) {
        let (found, said) = (episodes.len(), about.episodes.unwrap_or(0));
        return Err(file.at("/", format!("{found} episodes, where `total_episodes` is {said}")));
    }
    let groups: Vec<&Group> = episodes.into_iter().map(|(_, group)| group).collect();
    let side = |what, name, given: Option<Side>| match given {
        Some(side) => Ok(side),
        None => infer(file, &groups, what, name),
    };
    let sides = [
        side("observation", "observations", about.observation.take())?,
        side("action", "actions", about.action.take())?,
    ];
    let is_ours = about.ours.is_some();
    assemble(about, sides, groups.len(), HDF5, |episode, observation, action| {
        let (group, at) = (groups[episode], format!("{EPISODE}{episode}"));
        let members = Members::of(file, group, at)?;
        let parts = |side: &Side, name: &str| {
            let one = |part: &Part| members.part(file, name, &part.path);
            side.parts.iter().map(one).collect::<Result<Vec<Array>, DataError>>()
        };
        Ok(Found {
            observations: parts(observation, "observations")?,
            actions: parts(action, "actions")?,
            rewards: members.part(file, "rewards", &[])?,
            terminations: members.part(file, "terminations", &[])?,
            truncations: members.part(file, "truncations", &[])?,
            behaviour: is_ours.then(|| file.text_attribute(group, BEHAVIOUR)).flatten(),
        })
    })
}

/// What is in a group, with its place in the file.
struct Members {
    at: String,
    groups: Vec<Group>,
    datasets: Vec<Hdf5Dataset>,
}

impl Members {
    fn of(file: &Hdf5<'_>, group: &Group, at: String) -> Result<Self, DataError> {
        let (groups, datasets) = file.members(group, &at)?;
        Ok(Members { at, groups, datasets })
    }

    /// The array of a part.
    fn part(&self, file: &Hdf5<'_>, name: &str, path: &[Key]) -> Result<Array, DataError> {
        let at = format!("{}/{name}", self.at);
        let missing = || file.at(&at, "it is missing");
        let Some((key, path)) = path.split_first() else {
            let found = self.datasets.iter().find(|dataset| dataset.name() == name);
            return file.array(found.ok_or_else(missing)?, &at);
        };
        let group = self.groups.iter().find(|group| group.name() == name).ok_or_else(missing)?;
        let name = match key {
            Key::Name(name) => name.clone(),
            Key::Index(index) => format!("{INDEX}{index}"),
        };
        Members::of(file, group, at.clone())?.part(file, &name, path)
    }

    /// The paths of all arrays under a name.
    fn paths(
        &self,
        file: &Hdf5<'_>,
        name: &str,
        path: &mut Vec<Key>,
        paths: &mut Vec<Vec<Key>>,
    ) -> Result<(), DataError> {
        let at = format!("{}/{name}", self.at);
        let Some(group) = self.groups.iter().find(|group| group.name() == name) else {
            paths.push(path.clone());
            return Ok(());
        };
        // Links may lead in circles; no space is nested as deep as that.
        if path.len() > 32 {
            return Err(file.at(&at, "it is nested too deep"));
        }
        let members = Members::of(file, group, at)?;
        let names = members.groups.iter().map(Group::name);
        let names = names.chain(members.datasets.iter().map(Hdf5Dataset::name));
        let mut keys: Vec<(Option<usize>, &str)> = names
            .map(|name| (name.strip_prefix(INDEX).and_then(|index| index.parse().ok()), name))
            .collect();
        keys.sort_unstable();
        for (index, name) in keys {
            path.push(index.map_or_else(|| Key::Name(name.to_owned()), Key::Index));
            members.paths(file, name, path, paths)?;
            path.pop();
        }
        Ok(())
    }
}

/// Spaces by the values of all episodes: the oldest files of 0.4 name none.
fn infer(
    file: &Hdf5<'_>,
    episodes: &[&Group],
    what: &'static str,
    name: &str,
) -> Result<Side, DataError> {
    let mut extents: Vec<(Vec<Key>, Option<Extent>)> = Vec::new();
    for (episode, group) in episodes.iter().enumerate() {
        let members = Members::of(file, group, format!("{EPISODE}{episode}"))?;
        if episode == 0 {
            let mut paths = Vec::new();
            members.paths(file, name, &mut Vec::new(), &mut paths)?;
            extents.extend(paths.into_iter().map(|path| (path, None)));
        }
        for (path, extent) in &mut extents {
            let array = members.part(file, name, path)?;
            *extent = Some(Extent::with(extent.take(), &array).map_err(DataError::Invalid)?);
        }
    }
    let extents = extents.into_iter().filter_map(|(path, extent)| Some((path, extent?)));
    Side::infer(what, extents.collect()).map_err(DataError::Invalid)
}

/// Reads the layouts of tables.
pub(super) fn read_tables(
    folder: &Path,
    is_parquet: bool,
    mut about: About,
) -> Result<Known, DataError> {
    let (Some(observation), Some(action), Some(episodes)) =
        (about.observation.take(), about.action.take(), about.episodes)
    else {
        let text = "it names no spaces, or no number of episodes".to_owned();
        return Err(problem(&folder.join(METADATA_FILE), text));
    };
    let (format, ending) = match is_parquet {
        true => ("Minari (Parquet)", "parquet"),
        false => ("Minari (Arrow)", "arrow"),
    };
    // Every episode is a folder: one that is missing ends this before any claimed number matters.
    let episodes = usize::try_from(episodes).unwrap_or(usize::MAX);
    assemble(about, [observation, action], episodes, format, |episode, observation, action| {
        let folder = folder.join(episode.to_string());
        let files = arrow::files(&folder, ending)?;
        if files.is_empty() {
            return Err(problem(&folder, format!("there is no file of .{ending}")));
        }
        let names = ["observations", "actions", "rewards", "terminations", "truncations"];
        let table = arrow::Table::read(&files, &names, is_parquet)?;
        let part =
            |name: &str, path: &[Key]| table.array(&[&[Key::Name(name.to_owned())], path].concat());
        let parts = |side: &Side, name: &str| {
            let one = |part_of: &Part| part(name, &part_of.path);
            side.parts.iter().map(one).collect::<Result<Vec<Array>, DataError>>()
        };
        Ok(Found {
            observations: parts(observation, "observations")?,
            actions: parts(action, "actions")?,
            rewards: part("rewards", &[])?,
            terminations: part("terminations", &[])?,
            truncations: part("truncations", &[])?,
            behaviour: None,
        })
    })
}
