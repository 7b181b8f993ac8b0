//! The mapping: which columns of a table are what.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::DataError;

/// Which columns of a table are what, as far as it is said; what is not said is found by the usual names.
///
/// It is a short TOML file. Names of lists stand for all of their elements; an empty name says that there is no such column.
///
/// ```
/// use esper_data::tables::{Kind, Mapping};
///
/// let mapping = Mapping::from_toml(
///     r#"
///     episode = "patient"
///     observation = ["age", "ward"]
///     action = ["treatment"]
///     end = ""
///
///     [kinds]
///     ward = "category"
///     "#,
/// )?;
/// assert_eq!(mapping.kinds["ward"], Kind::Category);
/// assert_eq!(Mapping::from_toml(&mapping.to_toml())?, mapping);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Mapping {
    /// Episode id: rows with the same one are one episode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub episode: Option<String>,
    /// Orders the rows of an episode; without, the order of the file does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// What was known when the decision was made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub observation: Vec<String>,
    /// What was decided.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub action: Vec<String>,
    /// What it paid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward: Option<String>,
    /// Whether every step has a reward of its own, or every episode one outcome.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reward_per: Option<RewardPer>,
    /// Says in an episode's last row whether it came to its end there (terminated), or was cut (truncated).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<String>,
    /// Says in an episode's last row whether it was cut there; where there is such a column, `end` says nothing of that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Who decided, for statistics: never shown to a learner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behaviour: Option<String>,
    /// What the last action led to: a column for every one of `observation`, looked at in an episode's last row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub final_observation: Vec<String>,
    /// Columns that are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// What columns of observations and actions hold, where it is not what their values look like.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<String, Kind>,
    /// Metadata of a data set as JSON, in mappings that `esper export` wrote: spaces and categories are taken from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
}

/// What a reward belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RewardPer {
    /// Every step has one.
    Step,
    /// Every episode has one, which its last step is given.
    Episode,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Numbers.
    Number,
    /// Words, or whole numbers that are names of something.
    Category,
    /// True or false.
    Boolean,
    /// Dates.
    Date,
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Number => "number",
            Kind::Category => "category",
            Kind::Boolean => "boolean",
            Kind::Date => "date",
        })
    }
}

impl Mapping {
    /// Reads the text of a mapping file, or says what is wrong with it.
    pub fn from_toml(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
    }

    /// Reads a mapping file.
    pub fn read(path: &Path) -> Result<Self, DataError> {
        let io = |error| DataError::io(path, error);
        if !std::fs::metadata(path).map_err(io)?.is_file() {
            let problem = "is not a file".to_owned();
            return Err(DataError::InvalidFile { path: path.to_owned(), problem });
        }
        let text = std::fs::read_to_string(path).map_err(io)?;
        Self::from_toml(&text).map_err(|problem| {
            let problem = format!("is not a mapping:\n{problem}");
            DataError::InvalidFile { path: path.to_owned(), problem }
        })
    }

    /// The text of a mapping file.
    pub fn to_toml(&self) -> String {
        // Texts, lists and a table of texts can be TOML.
        toml::to_string(self).unwrap_or_default()
    }

    /// What is said here, and where nothing is, what `other` says.
    pub fn or(self, other: Mapping) -> Mapping {
        let list = |ours: Vec<String>, theirs| if ours.is_empty() { theirs } else { ours };
        let mut kinds = other.kinds;
        kinds.extend(self.kinds);
        let mut ignore = other.ignore;
        ignore.extend(self.ignore);
        Mapping {
            episode: self.episode.or(other.episode),
            time: self.time.or(other.time),
            observation: list(self.observation, other.observation),
            action: list(self.action, other.action),
            reward: self.reward.or(other.reward),
            reward_per: self.reward_per.or(other.reward_per),
            end: self.end.or(other.end),
            cut: self.cut.or(other.cut),
            behaviour: self.behaviour.or(other.behaviour),
            final_observation: list(self.final_observation, other.final_observation),
            ignore,
            kinds,
            metadata: self.metadata.or(other.metadata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_before_a_file() {
        let file = Mapping::from_toml("episode = \"a\"\ntime = \"t\"\nignore = [\"x\"]").unwrap();
        let options = Mapping {
            episode: Some("b".to_owned()),
            ignore: vec!["y".to_owned()],
            ..Mapping::default()
        };
        let both = options.or(file);
        assert_eq!((both.episode.as_deref(), both.time.as_deref()), (Some("b"), Some("t")));
        assert_eq!(both.ignore, ["x", "y"]);
    }

    #[test]
    fn misspelt_entries_are_named() {
        for text in ["episodes = \"a\"", "episode = 3", "[kinds]\na = \"word\"", "nonsense"] {
            assert!(Mapping::from_toml(text).is_err(), "{text}");
        }
        assert!(Mapping::from_toml("episodes = \"a\"").unwrap_err().contains("episodes"));
    }
}
