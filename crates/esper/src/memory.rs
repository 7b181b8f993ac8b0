//! What a training takes in memory because of how wide observations and actions are.
//!
//! Categories are one-hot features. They enter networks as lists of ones, which cost nothing, but a first layer has a row
//! of weights for every feature, and whatever predicts an observation puts out all of its features for every row of a batch. A
//! space that declares tens of thousands of categories a cell asks for more than any machine has; that is found out before
//! anything is begun.

use std::path::{Path, PathBuf};

use esper_data::tables::is_native_file;
use esper_data::{Dataset, Scratch};

use crate::error::Error;

/// Bytes of one weight in training: itself, its gradient, and two moments of Adam.
const BYTES_A_WEIGHT: u64 = 16;

/// Bytes of a number.
const BYTES: u64 = 4;

/// Bytes that a training takes at least, whatever it learns from: the program, buffers that are used again, hidden layers.
const ANYWAY: u64 = 512 << 20;

/// How many features there are, and how long episodes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Widths {
    /// Features of an observation.
    pub observation: u64,
    /// Features of an action.
    pub action: u64,
    /// Steps of all episodes.
    pub steps: u64,
    /// All episodes.
    pub episodes: u64,
    /// Steps of the longest of them.
    pub longest: u64,
}

impl Widths {
    /// Of a data set.
    pub fn of(data: &Dataset) -> Self {
        let metadata = data.metadata();
        Widths {
            observation: metadata.observation_space.features() as u64,
            action: metadata.action_space.features() as u64,
            steps: data.steps() as u64,
            episodes: data.episodes() as u64,
            longest: data.longest() as u64,
        }
    }

    /// Features of an observation and an action together.
    pub fn both(&self) -> u64 {
        self.observation.saturating_add(self.action)
    }

    /// Steps that a batch of episodes has, on average.
    pub fn batch(&self, episodes: usize) -> u64 {
        (episodes as u64).saturating_mul(self.steps.div_ceil(self.episodes.max(1)))
    }
}

/// The bytes of layers between so many features and so many hidden numbers, in training.
pub fn weights(features: u64, hidden: usize) -> u64 {
    features.saturating_mul(hidden as u64).saturating_mul(BYTES_A_WEIGHT)
}

/// The bytes of so many dense matrices of rows.
pub fn rows(matrices: u64, rows: u64, features: u64) -> u64 {
    matrices.saturating_mul(rows).saturating_mul(features).saturating_mul(BYTES)
}

/// What a training takes with everything else that any takes.
pub(crate) fn with_anything(needed: u64) -> u64 {
    needed.saturating_add(ANYWAY)
}

/// Refuses a training whose features take more than there is.
pub(crate) fn check(widths: &Widths, needed: u64, limit: u64) -> Result<(), Error> {
    let needed = with_anything(needed);
    if needed <= limit {
        return Ok(());
    }
    let Widths { observation, action, .. } = *widths;
    let (what, features) = match observation >= action {
        true => ("observations", observation),
        false => ("actions", action),
    };
    Err(Error::Unsuitable(format!(
        "{what} have {} features, one for every number and every category of every cell; to learn from them takes about \
         {} of memory, and there are {}: declare only categories that come up, put rare ones together, give numbers \
         as numbers rather than as categories, leave cells out, or allow more memory",
        thousands(features),
        text(needed),
        text(limit),
    )))
}

/// Bytes of a step that a training keeps in memory wherever the data is: reward, return, label, what a policy is told, and
/// what is sorted on the way.
const BYTES_A_STEP: u64 = 36;

/// Bytes of a step's clusters at most where sizes follow from the data.
const CLUSTERS_A_STEP: u64 = 128;

/// What a training on so many steps takes, even if what they hold stays on disk.
pub(crate) fn of_steps(data: &Dataset) -> u64 {
    with_anything((data.rows() as u64).saturating_mul(BYTES_A_STEP))
}

/// Refuses data whose steps are too many.
pub(crate) fn check_steps(data: &Dataset, limit: u64) -> Result<(), Error> {
    let needed = of_steps(data);
    if needed <= limit {
        return Ok(());
    }
    Err(Error::Unsuitable(format!(
        "to learn from {} steps takes about {} of memory, {BYTES_A_STEP} bytes a step for rewards, returns, labels and ranks, \
         and there are {}: learn from fewer steps, or allow more memory",
        thousands(data.rows() as u64),
        text(needed),
        text(limit),
    )))
}

/// Reads a data set from a native file so that a training on it stays within a limit: as a whole where that fits with
/// everything else that a training keeps, else with observations, actions and clusters on disk, in files without a name in a
/// folder. Files of other kinds are refused: they would be in memory as a whole before anything is known of them.
pub fn read_within(path: &Path, limit: u64, folder: &Path) -> Result<Dataset, Error> {
    if !is_native_file(path)? {
        let path = path.display();
        return Err(Error::Unsuitable(format!(
            "{path} is no data set of esper's own kind, and only those can stay on disk while they are learned from: import it \
             first, `esper import {path} --out DATA.parquet`, or set no limit of memory"
        )));
    }
    let header = esper_data::read_header(path)?;
    let steps = header.steps as u64;
    // While it is read, it is there twice.
    let of_step = 2 * header.bytes_a_step() as u64 + BYTES_A_STEP + CLUSTERS_A_STEP;
    let whole = steps.saturating_mul(of_step).saturating_add(2 * ANYWAY);
    if whole <= limit {
        return Ok(esper_data::read(path)?);
    }
    Ok(esper_data::read_on_disk(path, &Scratch::in_folder(&existing(folder)))?)
}

/// A folder, or the nearest around it that exists.
fn existing(folder: &Path) -> PathBuf {
    let found = folder.ancestors().find(|path| path.is_dir());
    found.map_or_else(|| PathBuf::from("."), Path::to_owned)
}

/// The memory of this machine, or of the container that this runs in; sixteen gigabytes where that is not known.
pub fn of_machine() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let kilobytes = |line: &str| line.split_whitespace().nth(1)?.parse::<u64>().ok();
    let total = read("/proc/meminfo")
        .and_then(|text| text.lines().find(|line| line.starts_with("MemTotal")).and_then(kilobytes))
        .map_or(16 << 30, |kilobytes| kilobytes << 10);
    let group = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse::<u64>().ok());
    group.map_or(total, |group| total.min(group))
}

/// A number of bytes as people write it.
pub fn text(bytes: u64) -> String {
    let units = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let (mut number, mut unit) = (bytes as f64, 0);
    while number >= 1000.0 && unit + 1 < units.len() {
        (number, unit) = (number / 1000.0, unit + 1);
    }
    match unit {
        0 => format!("{bytes} bytes"),
        _ => format!("{number:.1} {}", units[unit]),
    }
}

/// Bytes as people write them: `2GB`, `512MB`, `1.5 GiB`, or a plain number.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no amount of memory; say 2GB, 512MB or 1.5GiB");
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0f64.powi(2),
        "gib" => 1024.0f64.powi(3),
        "tib" => 1024.0f64.powi(4),
        _ => return Err(wrong()),
    };
    let bytes = number * unit;
    match (1.0..1e18).contains(&bytes) {
        true => Ok(bytes.round() as u64),
        false => Err(wrong()),
    }
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_of_memory_are_read_as_people_write_them() {
        for (words, bytes) in [
            ("2GB", 2_000_000_000),
            ("512MB", 512_000_000),
            ("1.5 GiB", 3 << 29),
            (" 64 mib ", 64 << 20),
            ("1000", 1000),
            ("7k", 7000),
        ] {
            assert_eq!(parse(words), Ok(bytes), "{words}");
        }
        for words in
            ["", "GB", "-1GB", "2 potatoes", "1..5GB", "0", "NaN", "inf", "1e3", "9999999TB"]
        {
            assert!(parse(words).is_err_and(|error| error.contains("2GB")), "{words}");
        }
        assert_eq!(
            (text(999), text(33_500_000_000)),
            ("999 bytes".to_owned(), "33.5 GB".to_owned())
        );
    }

    #[test]
    fn what_does_not_fit_is_said_with_its_features() {
        let widths =
            Widths { observation: 65_536_000, action: 4, steps: 400, episodes: 40, longest: 10 };
        assert_eq!(weights(65_536_000, 128), 134_217_728_000);
        let error = check(&widths, weights(65_536_000, 128), 16 << 30).unwrap_err().to_string();
        assert!(error.contains("observations have 65,536,000 features"), "{error}");
        assert!(error.contains("134.8 GB") && error.contains("17.2 GB"), "{error}");
        check(&widths, weights(65_536_000, 128), u64::MAX).unwrap();
    }
}
