//! How a user changes settings: a TOML document, and `key=value` pairs.

use toml::{Table, Value};

use super::{Config, key, put};
use crate::error::Error;

impl Config {
    /// The settings that differ from another configuration's, as `key=value`.
    pub fn changes_from(&self, other: &Config) -> Vec<String> {
        let flat = |config: &Config| {
            let mut pairs = Vec::new();
            flatten("", &config.table, &mut pairs);
            pairs
        };
        let theirs = flat(other);
        flat(self).into_iter().filter(|pair| !theirs.contains(pair)).collect()
    }

    /// Changes what a TOML document says, then what `key=value` pairs say (`cluster.beta_act=0.02`).
    pub fn changed(&self, document: Option<&str>, pairs: &[String]) -> Result<Self, Error> {
        let mut config = self.clone();
        if let Some(document) = document {
            let changes: Table = document.parse().map_err(|error: toml::de::Error| {
                let problem = format!("the configuration is no TOML: {error}");
                Error::Settings { problem, source: error.into() }
            })?;
            merge(&mut config.table, changes, "")?;
        }
        for pair in pairs {
            merge(&mut config.table, parse_pair(pair)?, "")?;
        }
        for section in config.sections.clone().iter() {
            let resolved = (section.resolve)(config.section(section.name))?;
            put(&mut config.table, section.name, resolved);
        }
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
    for (name, value) in changes {
        let full = key(path, &name);
        match (table.get_mut(&name), value) {
            (Some(Value::Table(inner)), Value::Table(changes)) => merge(inner, changes, &full)?,
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
            (Some(old), value) if !fits(old, &value) => {
                let (old_kind, new_kind) = (old.type_str(), value.type_str());
                return Err(Error::Config(format!(
                    "{full} is {old}, of type {old_kind}; it cannot be {value}, of type {new_kind}"
                )));
            }
            (Some(old), value) => *old = value,
        }
    }
    Ok(())
}

/// Whether a value is of the type of another; a whole number is a number, too.
fn fits(old: &Value, new: &Value) -> bool {
    old.same_type(new) || (old.is_float() && new.is_integer())
}

fn keys(table: &Table) -> String {
    table.keys().cloned().collect::<Vec<_>>().join(", ")
}

/// Every setting of a table as `key=value`.
fn flatten(prefix: &str, table: &Table, pairs: &mut Vec<String>) {
    for (name, value) in table {
        let full = key(prefix, name);
        match value {
            Value::Table(table) => flatten(&full, table, pairs),
            Value::String(text) => pairs.push(format!("{full}={text}")),
            other => pairs.push(format!("{full}={other}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Registry;
    use crate::methods::esper::{ClusterConfig, ReturnsConfig, TransitionInput};
    use crate::settings::Preset;

    fn quick() -> Config {
        Registry::default().config(Preset::Quick)
    }

    fn changed(pairs: &[&str]) -> Result<Config, Error> {
        let pairs: Vec<String> = pairs.iter().map(|&pair| pair.to_owned()).collect();
        quick().changed(None, &pairs)
    }

    #[test]
    fn settings_change_one_by_one() {
        let config =
            changed(&["cluster.beta_act=1", "cluster.transition=history", "returns.scale = 2"])
                .unwrap();
        let cluster = config.get::<ClusterConfig>().unwrap();
        assert_eq!((cluster.beta_act, cluster.transition), (1.0, TransitionInput::History));
        assert_eq!(config.get::<ReturnsConfig>().unwrap().scale, 2.0);
        // And back: what was changed is what differs.
        let changes = config.changes_from(&quick());
        assert_eq!(
            changes,
            ["cluster.beta_act=1.0", "cluster.transition=history", "returns.scale=2.0"]
        );
        let again: Vec<&str> = changes.iter().map(String::as_str).collect();
        assert_eq!(changed(&again).unwrap(), config);
    }

    #[test]
    fn what_was_resolved_resolves_to_itself() {
        for preset in Preset::ALL {
            let config = Registry::default().config(preset);
            let again = quick().changed(Some(&config.to_toml()), &[]);
            assert_eq!(again.unwrap(), config);
        }
    }

    #[test]
    fn wrong_settings_say_what_is_right() {
        for (pair, words) in [
            ("cluster.beta=1", "there is no setting cluster.beta; there are"),
            ("cluster", "write key=value"),
            ("cluster=3", "is a section"),
            ("cluster.beta=3", "rep_size"),
            ("mlp.steps=0", "from 1"),
            ("mlp.steps=many", "mlp.steps is 8000, of type integer"),
            ("mlp.steps=-1", "mlp"),
            ("mlp.steps=1.5", "mlp.steps"),
            ("mlp.hidden=1000000000", "to 8192"),
            ("cluster.rep_size=2048", "256"),
            ("cluster.transition=psychic", "history"),
            ("discount=nan", "from 0 to 1"),
            ("colour=red", "there is no setting colour; there are discount"),
        ] {
            let error = changed(&[pair]).unwrap_err().to_string();
            assert!(error.contains(words), "{pair}: {error}");
        }
    }

    #[test]
    fn what_a_library_said_is_kept() {
        use std::error::Error as _;
        let no_toml = quick().changed(Some("cluster = ["), &[]).unwrap_err();
        assert!(no_toml.to_string().contains("no TOML") && no_toml.source().is_some());
        assert!(changed(&["cluster.transition=psychic"]).unwrap_err().source().is_some());
    }
}
