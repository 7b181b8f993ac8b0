//! D4RL's files, and those of d3rlpy's first version: flat arrays, where flags say which steps ended an episode.

use hdf5_reader::Dataset as Hdf5Dataset;

use super::hdf5::Hdf5;
use super::log::{Episode, Log};
use super::numbers::Array;
use super::spaces::{Extent, Side};
use super::{Known, counted};
use crate::dataset::End;
use crate::error::DataError;

/// Whether these are the names of its arrays.
pub(super) fn is_it(names: &[&str]) -> bool {
    ["observations", "actions", "rewards", "terminals"].iter().all(|name| names.contains(name))
}

pub(super) fn read(file: &Hdf5<'_>, datasets: &[Hdf5Dataset]) -> Result<Known, DataError> {
    let find = |name: &str| datasets.iter().find(|dataset| dataset.name() == name);
    let missing = |name: &str| file.at(name, "it is missing");
    let observations = find("observations").ok_or_else(|| missing("observations"))?;
    let steps = file.rows(observations, "observations")?;
    // Whoever claims more rows than the others is refused before it is read.
    let optional = |name: &str| -> Result<Option<Array>, DataError> {
        let Some(dataset) = find(name) else { return Ok(None) };
        let rows = file.rows(dataset, name)?;
        if rows != steps {
            return Err(file.at(name, format!("{rows} rows; `observations` has {steps}")));
        }
        Ok(Some(file.array(dataset, name)?))
    };
    let array = |name: &str| optional(name)?.ok_or_else(|| missing(name));
    let observations = [array("observations")?];
    let actions = [array("actions")?];
    let invalid = DataError::Invalid;
    let rewards = array("rewards")?.reals().map_err(invalid)?;
    let terminals = array("terminals")?.truths().map_err(invalid)?;
    let timeouts = match optional("timeouts")? {
        Some(timeouts) => timeouts.truths().map_err(invalid)?,
        None => match optional("episode_terminals")? {
            // The name in d3rlpy's first version: every last step.
            Some(ends) => {
                let ends = ends.truths().map_err(invalid)?;
                ends.iter().zip(&terminals).map(|(&ends, &terminal)| ends && !terminal).collect()
            }
            None => vec![false; steps],
        },
    };
    let following = optional("next_observations")?.map(|array| [array]);

    let side =
        |what, array: &Array| Side::infer(what, vec![(Vec::new(), Extent::with(None, array)?)]);
    let observation = side("observation", &observations[0]).map_err(invalid)?;
    let action = side("action", &actions[0]).map_err(invalid)?;
    let mut log = Log::new(observation, action);
    let mut start = 0;
    let mut notes = Vec::new();
    for step in 0..steps {
        let mut end = End { terminated: terminals[step], truncated: timeouts[step] };
        if end == End::default() {
            if step + 1 < steps {
                continue;
            }
            let length = steps - start;
            notes.push(format!(
                "the last episode has no end after {}; it is kept as truncated",
                counted(length, "step")
            ));
            end.truncated = true;
        }
        let last = match &following {
            Some(following) => (&following[..], step),
            None => (&observations[..], step),
        };
        let rows = start..step + 1;
        let (observations, actions, rewards) = (&observations[..], &actions[..], &rewards[..]);
        log.push(&Episode { observations, actions, rewards, rows, last, end })?;
        start = step + 1;
    }
    if following.is_none() {
        notes.push(super::NO_LAST_OBSERVATION.to_owned());
    }
    Ok(Known { data: log.build()?, format: "D4RL (HDF5)", notes })
}
