//! What d3rlpy's `ReplayBuffer.dump` writes: arrays `observations_0`, `actions_0`, `rewards_0` and a flag `terminated_0` for
//! every episode. Observations that are tuples are `observations_0_0`, `observations_0_1` and so on.

use std::collections::HashMap;

use hdf5_reader::Dataset as Hdf5Dataset;

use super::hdf5::Hdf5;
use super::log::{Episode, Log};
use super::numbers::Array;
use super::spaces::{Extent, Key, Side};
use super::{Known, NO_LAST_OBSERVATION};
use crate::dataset::End;
use crate::error::DataError;

/// Whether these are the names of its arrays.
pub(super) fn is_it(names: &[&str]) -> bool {
    ["columns", "num_episodes", "version"].iter().all(|name| names.contains(name))
}

/// The arrays of a file by their names.
struct Arrays<'a> {
    file: &'a Hdf5<'a>,
    by_name: HashMap<&'a str, &'a Hdf5Dataset>,
}

impl Arrays<'_> {
    fn read(&self, name: &str) -> Result<Array, DataError> {
        let missing = || self.file.at(name, "it is missing");
        self.file.array(self.by_name.get(name).ok_or_else(missing)?, name)
    }

    /// The array of a column, or one for each element of its tuple.
    fn parts(&self, column: &str, episode: usize) -> Result<Vec<(Vec<Key>, Array)>, DataError> {
        let name = format!("{column}_{episode}");
        if !self.by_name.contains_key(format!("{name}_0").as_str()) {
            return Ok(vec![(Vec::new(), self.read(&name)?)]);
        }
        let names = (0..).map(|part| (part, format!("{name}_{part}")));
        let names = names.take_while(|(_, name)| self.by_name.contains_key(name.as_str()));
        names.map(|(part, name)| Ok((vec![Key::Index(part)], self.read(&name)?))).collect()
    }
}

pub(super) fn read(file: &Hdf5<'_>, datasets: &[Hdf5Dataset]) -> Result<Known, DataError> {
    let by_name = datasets.iter().map(|dataset| (dataset.name(), dataset)).collect();
    let arrays = Arrays { file, by_name };
    let invalid = DataError::Invalid;
    let episodes = match arrays.read("num_episodes")?.wholes().map_err(invalid)?[..] {
        [episodes] => usize::try_from(episodes).ok(),
        _ => None,
    };
    // Every episode has arrays of its own.
    let episodes = episodes.filter(|&episodes| episodes <= datasets.len());
    let episodes =
        episodes.ok_or_else(|| file.at("num_episodes", "it is no number of episodes"))?;

    let side = |what: &'static str, column: &str| {
        let mut extents: Vec<(Vec<Key>, Option<Extent>)> = Vec::new();
        for episode in 0..episodes {
            let parts = arrays.parts(column, episode)?;
            if episode == 0 {
                extents.extend(parts.iter().map(|(path, _)| (path.clone(), None)));
            }
            if parts.len() != extents.len() {
                let name = format!("{column}_{episode}");
                return Err(file.at(&name, "it has other parts than those before"));
            }
            for (extent, (_, array)) in extents.iter_mut().zip(&parts) {
                extent.1 = Some(Extent::with(extent.1.take(), array).map_err(invalid)?);
            }
        }
        let extents = extents.into_iter().filter_map(|(path, extent)| Some((path, extent?)));
        Side::infer(what, extents.collect()).map_err(invalid)
    };
    if episodes == 0 {
        return Err(invalid("there are no episodes".to_owned()));
    }
    let mut log = Log::new(side("observation", "observations")?, side("action", "actions")?);
    for episode in 0..episodes {
        let only = |parts: Vec<(Vec<Key>, Array)>| -> Vec<Array> {
            parts.into_iter().map(|(_, array)| array).collect()
        };
        let observations = only(arrays.parts("observations", episode)?);
        let actions = only(arrays.parts("actions", episode)?);
        let rewards = arrays.read(&format!("rewards_{episode}"))?.reals().map_err(invalid)?;
        let steps = rewards.len();
        if steps == 0 {
            return Err(file.at(&format!("rewards_{episode}"), "the episode has no steps"));
        }
        for array in observations.iter().chain(&actions) {
            array.check_rows(steps).map_err(invalid)?;
        }
        let flag = arrays.read(&format!("terminated_{episode}"))?.truths().map_err(invalid)?;
        let [terminated] = flag[..] else {
            return Err(file.at(&format!("terminated_{episode}"), "it is not one flag"));
        };
        log.push(&Episode {
            observations: &observations,
            actions: &actions,
            rewards: &rewards,
            rows: 0..steps,
            last: (&observations, steps - 1),
            end: End { terminated, truncated: !terminated },
        })?;
    }
    let notes = vec![NO_LAST_OBSERVATION.to_owned()];
    Ok(Known { data: log.build()?, format: "d3rlpy (HDF5)", notes })
}
