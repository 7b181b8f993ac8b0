//! Settings: every hyperparameter with its default and its range beside it, by section; presets; how a user changes them.
//!
//! Whatever learns declares its own sections with [`settings!`](crate::settings!): methods, policies. A [`Config`] holds all
//! sections that a [`Registry`](crate::Registry) knows, resolved and checked.

mod changes;

use std::any::TypeId;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;

use esper_nn::Normalization;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::condition::{Condition, PromiseConfig};
use crate::error::Error;

/// Where the numbers come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Preset {
    /// Sized for two CPU cores.
    #[default]
    Quick,
    /// The paper's.
    Paper,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 2] = [Preset::Quick, Preset::Paper];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Quick => "quick",
            Preset::Paper => "paper",
        }
    }
}

/// A section of settings; [`settings!`](crate::settings!) makes one.
pub trait Settings: Clone + Serialize + DeserializeOwned + 'static {
    /// Its name, in front of the names of its settings; empty for those that stand alone.
    const SECTION: &'static str;

    /// The defaults of a preset.
    fn preset(preset: Preset) -> Self;

    /// Whether the numbers make sense.
    fn check(&self) -> Result<(), Error>;
}

/// Declares a section of settings: a struct whose fields have their default, and where they have one their range, beside
/// them. What is said to be the `paper`'s is the default of the preset `paper`; what is `together` checks several fields.
///
/// ```
/// use esper::settings::{Preset, Settings};
///
/// esper::settings! {
///     /// How to smooth.
///     pub struct Smoothing in "smoothing" {
///         /// Window: steps on either side.
///         window: usize = 3, paper: 5, within: 1..=100;
///         /// Whether the ends count.
///         ends: bool = true;
///     }
/// }
///
/// assert_eq!(Smoothing::preset(Preset::Paper).window, 5);
/// let wrong = Smoothing { window: 0, ends: true };
/// let problem = wrong.check().unwrap_err().to_string();
/// assert_eq!(problem, "smoothing.window is 0; it has to be from 1 to 100");
/// ```
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident in $section:literal {
            $(
                $(#[$field_meta:meta])*
                $field:ident : $type:ty = $quick:expr
                $(, paper: $paper:expr)? $(, within: $range:expr)? ;
            )*
        }
        $(together $together:expr)?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, ::esper::__serde::Serialize, ::esper::__serde::Deserialize)]
        #[serde(crate = "::esper::__serde", deny_unknown_fields)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $crate::settings::Settings for $name {
            const SECTION: &'static str = $section;

            fn preset(preset: $crate::settings::Preset) -> Self {
                match preset {
                    $crate::settings::Preset::Paper => {
                        $name { $( $field: $crate::settings!(@either $($paper)? ; $quick) ),* }
                    }
                    _ => $name { $( $field: $quick ),* },
                }
            }

            fn check(&self) -> Result<(), $crate::Error> {
                $( $(
                    $crate::settings::check_range(
                        Self::SECTION,
                        stringify!($field),
                        &self.$field,
                        &$range,
                    )?;
                )? )*
                $( ($together)(self)?; )?
                Ok(())
            }
        }

        impl Default for $name {
            fn default() -> Self {
                <Self as $crate::settings::Settings>::preset($crate::settings::Preset::Quick)
            }
        }
    };
    (@either $paper:expr ; $quick:expr) => { $paper };
    (@either ; $quick:expr) => { $quick };
}

/// The full name of a setting.
fn key(section: &str, field: &str) -> String {
    if section.is_empty() { field.to_owned() } else { format!("{section}.{field}") }
}

/// Whether a setting is within its range. What [`settings!`](crate::settings!) calls.
pub fn check_range<T: PartialOrd + Display>(
    section: &str,
    field: &str,
    value: &T,
    range: &RangeInclusive<T>,
) -> Result<(), Error> {
    if range.contains(value) {
        return Ok(());
    }
    let (key, low, high) = (key(section, field), range.start(), range.end());
    Err(Error::Config(format!("{key} is {value}; it has to be from {low} to {high}")))
}

crate::settings! {
    /// What every training has, whatever learns.
    pub struct General in "" {
        /// Discount factor γ: how much less a reward counts a step later.
        discount: f64 = 1.0, within: 0.0..=1.0;
        /// Condition: what a policy is told, `return` (the paper's: what is left to collect), `level` (where a behaviour stands
        /// among those from the same start), `step-level` (among those in the same state), or `auto`: returns or levels by what
        /// the method was made for; levels of steps, unless episodes are longer than 100 steps.
        condition: Condition = Condition::Auto, paper: Condition::Return;
        /// Held-out share: the share of the episodes that is not learned from, to measure on.
        held_out: f64 = 0.1, within: 0.001..=0.5;
    }
}

/// Normalisation of hidden layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// None.
    None,
    /// Batch norm: over the rows of a batch.
    Batch,
    /// Layer norm: over each row.
    Layer,
}

impl From<Norm> for Normalization {
    fn from(norm: Norm) -> Self {
        match norm {
            Norm::None => Normalization::None,
            Norm::Batch => Normalization::Batch,
            Norm::Layer => Normalization::Layer,
        }
    }
}

/// A section of settings, its type forgotten.
#[derive(Clone, Copy)]
pub struct Section {
    name: &'static str,
    /// Two types may not share a name.
    of: TypeId,
    defaults: fn(Preset) -> Table,
    resolve: fn(Table) -> Result<Table, Error>,
}

impl Section {
    /// The section of a type.
    pub fn of<S: Settings>() -> Self {
        Section {
            name: S::SECTION,
            of: TypeId::of::<S>(),
            defaults: |preset| to_table(&S::preset(preset)),
            resolve: |table| from_table::<S>(table).map(|settings| to_table(&settings)),
        }
    }

    /// Its name; empty for settings that stand alone.
    pub fn name(&self) -> &'static str {
        self.name
    }
}

fn to_table<S: Settings>(settings: &S) -> Table {
    Table::try_from(settings).expect("settings can always be written")
}

/// The settings of a section, checked.
fn from_table<S: Settings>(table: Table) -> Result<S, Error> {
    let settings: S = table.try_into().map_err(|error: toml::de::Error| {
        let words: Vec<&str> = error.message().split_whitespace().collect();
        let place = if S::SECTION.is_empty() { "settings" } else { S::SECTION };
        let problem = format!("{place}: {}", words.join(" "));
        Error::Settings { problem, source: error.into() }
    })?;
    settings.check()?;
    Ok(settings)
}

/// Every setting of everything that can learn, resolved and checked.
#[derive(Clone)]
pub struct Config {
    sections: Arc<[Section]>,
    /// Settings that stand alone, and a table for every other section.
    table: Table,
}

impl Config {
    /// The defaults of a preset for some sections, those of [`General`] first. A section that comes twice counts once.
    pub fn preset(preset: Preset, sections: &[Section]) -> Self {
        let mut known = vec![Section::of::<General>(), Section::of::<PromiseConfig>()];
        for section in sections {
            if known.iter().all(|other| other.name != section.name) {
                known.push(*section);
            }
        }
        let mut table = Table::new();
        for section in &known {
            put(&mut table, section.name, (section.defaults)(preset));
        }
        Config { sections: known.into(), table }
    }

    /// The settings of a section, which has to be one of those that the configuration was made for.
    pub fn get<S: Settings>(&self) -> Result<S, Error> {
        self.check_known::<S>()?;
        from_table(self.section(S::SECTION))
    }

    /// Whether a section is one of those that the configuration was made for.
    fn check_known<S: Settings>(&self) -> Result<(), Error> {
        let name = S::SECTION;
        match self.sections.iter().find(|section| section.name == name) {
            Some(section) if section.of == TypeId::of::<S>() => Ok(()),
            Some(_) => Err(Error::Config(format!("two sections of settings are called {name}"))),
            None => Err(Error::Config(format!("there is no section {name} in these settings"))),
        }
    }

    /// Puts other settings in place of a section's.
    pub fn set<S: Settings>(&mut self, settings: &S) -> Result<(), Error> {
        self.check_known::<S>()?;
        settings.check()?;
        put(&mut self.table, S::SECTION, to_table(settings));
        Ok(())
    }

    /// The same with a section changed.
    pub fn with<S: Settings>(mut self, change: impl FnOnce(&mut S)) -> Result<Self, Error> {
        let mut settings = self.get::<S>()?;
        change(&mut settings);
        self.set(&settings)?;
        Ok(self)
    }

    /// The configuration as a TOML document, which [`Config::changed`] takes again.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.table).expect("a configuration can always be written")
    }

    /// Only some sections, with those that stand alone: what a training makes use of.
    pub(crate) fn part(&self, sections: &[Section]) -> Table {
        part(&self.table, sections)
    }

    fn section(&self, name: &str) -> Table {
        match name {
            "" => alone(&self.table),
            name => self.table.get(name).and_then(Value::as_table).cloned().unwrap_or_default(),
        }
    }
}

impl std::fmt::Debug for Config {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Config({})", self.table)
    }
}

impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        self.table == other.table
    }
}

/// Puts a section into the table of all.
fn put(table: &mut Table, section: &str, settings: Table) {
    match section {
        "" => table.extend(settings),
        section => _ = table.insert(section.to_owned(), Value::Table(settings)),
    }
}

/// The settings that stand alone.
fn alone(table: &Table) -> Table {
    let single = table.iter().filter(|(_, value)| !value.is_table());
    single.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// The settings that stand alone, and some sections.
pub(crate) fn part(table: &Table, sections: &[Section]) -> Table {
    let mut part = alone(table);
    for section in sections {
        if let Some(settings) = table.get(section.name) {
            part.insert(section.name.to_owned(), settings.clone());
        }
    }
    part
}
