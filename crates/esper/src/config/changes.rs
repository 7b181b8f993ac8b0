//! How a user changes settings: a TOML document, and `key=value` pairs.

use toml::{Table, Value};

use super::Config;
use crate::error::Error;

impl Config {
    /// The settings that differ from another configuration's, as `key=value`.
    pub fn changes_from(&self, other: &Config) -> Vec<String> {
        let flat = |config: &Config| {
            let mut pairs = Vec::new();
            if let Ok(table) = Table::try_from(config) {
                flatten("", &table, &mut pairs);
            }
            pairs
        };
        let theirs = flat(other);
        flat(self).into_iter().filter(|pair| !theirs.contains(pair)).collect()
    }

    /// Changes what a TOML document says, then what `key=value` pairs say (`cluster.beta_act=0.02`).
    pub fn changed(&self, document: Option<&str>, pairs: &[String]) -> Result<Self, Error> {
        let mut table = Table::try_from(self).map_err(|error| Error::Config(error.to_string()))?;
        if let Some(document) = document {
            let changes: Table = document
                .parse()
                .map_err(|error| Error::Config(format!("the configuration is no TOML: {error}")))?;
            merge(&mut table, changes, "")?;
        }
        for pair in pairs {
            merge(&mut table, parse_pair(pair)?, "")?;
        }
        let config: Config = table
            .try_into()
            .map_err(|error: toml::de::Error| Error::Config(one_line(&error.to_string())))?;
        config.check()?;
        Ok(config)
    }
}

/// `a.b=1` as the document it stands for. What is not TOML is text, so that `cluster.transition=history` needs no quotes.
fn parse_pair(pair: &str) -> Result<Table, Error> {
    let (key, value) = pair.split_once('=').ok_or_else(|| {
        Error::Config(format!("`{pair}` is no setting; write key=value, as in mlp.steps=1000"))
    })?;
    let (key, value) = (key.trim(), value.trim());
    let parsed: Result<Table, _> = format!("value = {value}").parse();
    let value = match parsed {
        Ok(mut table) => table.remove("value").expect("it was just written"),
        Err(_) => Value::String(value.to_owned()),
    };
    Ok(key
        .rsplit('.')
        .fold(None, |inner: Option<Table>, part| {
            let value = inner.map_or_else(|| value.clone(), Value::Table);
            Some(Table::from_iter([(part.to_owned(), value)]))
        })
        .expect("there is at least one part"))
}

/// Puts changes into a table that has an entry for everything there is.
fn merge(table: &mut Table, changes: Table, path: &str) -> Result<(), Error> {
    for (key, value) in changes {
        let full = format!("{path}{key}");
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(changes)) => {
                merge(inner, changes, &format!("{full}."))?;
            }
            (Some(Value::Table(inner)), _) => {
                let known = keys(inner);
                return Err(Error::Config(format!("{full} is a section; it has {known}")));
            }
            (None, _) => {
                let known = keys(table);
                return Err(Error::Config(format!(
                    "there is no setting {full}; there are {known}"
                )));
            }
            (Some(old), value) => *old = value,
        }
    }
    Ok(())
}

/// A message of several lines as one.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn keys(table: &Table) -> String {
    table.keys().cloned().collect::<Vec<_>>().join(", ")
}

/// Every setting of a table as `key=value`.
fn flatten(prefix: &str, table: &Table, pairs: &mut Vec<String>) {
    for (key, value) in table {
        match value {
            Value::Table(table) => flatten(&format!("{prefix}{key}."), table, pairs),
            Value::String(text) => pairs.push(format!("{prefix}{key}={text}")),
            other => pairs.push(format!("{prefix}{key}={other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Preset, TransitionInput};

    fn changed(pairs: &[&str]) -> Result<Config, Error> {
        let pairs: Vec<String> = pairs.iter().map(|&pair| pair.to_owned()).collect();
        Config::preset(Preset::Quick, Some("gambling")).changed(None, &pairs)
    }

    #[test]
    fn settings_change_one_by_one() {
        let config =
            changed(&["cluster.beta_act=1", "cluster.transition=history", "returns.scale = 2"])
                .unwrap();
        assert_eq!(config.cluster.beta_act, 1.0);
        assert_eq!(config.cluster.transition, TransitionInput::History);
        assert_eq!(config.returns.scale, 2.0);
        assert_eq!(config.cluster.rep_size, 8);
        // And back: what was changed is what differs.
        let changes = config.changes_from(&Config::preset(Preset::Quick, Some("gambling")));
        assert_eq!(
            changes,
            ["cluster.beta_act=1.0", "cluster.transition=history", "returns.scale=2.0"]
        );
        let again: Vec<&str> = changes.iter().map(String::as_str).collect();
        assert_eq!(changed(&again).unwrap(), config);
    }

    #[test]
    fn what_was_resolved_resolves_to_itself() {
        for preset in [Preset::Quick, Preset::Paper] {
            for task in [None, Some("gambling"), Some("twenty48")] {
                let config = Config::preset(preset, task);
                config.check().unwrap();
                let again =
                    Config::preset(Preset::Quick, None).changed(Some(&config.to_toml()), &[]);
                let again = again.unwrap();
                assert_eq!(again, config);
            }
        }
    }

    #[test]
    fn wrong_settings_say_what_is_right() {
        for (pair, words) in [
            ("cluster.beta", "there is no setting cluster.beta; there are"),
            ("cluster", "write key=value"),
            ("cluster=3", "is a section"),
            ("cluster.beta=3", "rep_size"),
            ("cluster.rep_groups=3", "multiple"),
            ("mlp.steps=0", "from 1"),
            ("mlp.steps=many", "mlp.steps"),
            ("mlp.hidden=1000000000", "to 8192"),
            ("cluster.rep_size=2048", "256"),
            ("cluster.transition=psychic", "history"),
            ("discount=nan", "from 0 to 1"),
        ] {
            let pair = if pair.contains('=') || pair == "cluster" {
                pair.to_owned()
            } else {
                format!("{pair}=1")
            };
            let error = changed(&[&pair]).unwrap_err().to_string();
            assert!(error.contains(words), "{pair}: {error}");
        }
    }
}
