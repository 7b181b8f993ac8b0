//! What is compared (`comparison.json`), and what makes it again.

use std::fmt;
use std::path::{Path, PathBuf};

use esper::Registry;
use esper::run::DataId;
use esper::settings::Preset;
use esper_tasks::{Task, task};
use serde::{Deserialize, Serialize};

use crate::results::{ResultsError, read_checked};
use crate::text::{percent, plural};

/// What data is called that has no name.
pub(crate) const NAMELESS: &str = "data";

/// What a file of data is called, without its folder and its ending.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| NAMELESS.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The task; null for data of none.
    pub task: Option<String>,
    /// The data that was given, in place of what a task's players would make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<GivenData>,
    /// Whether policies are tried in the task's world.
    #[serde(default = "in_world", skip_serializing_if = "Clone::clone")]
    pub world: bool,
    /// The data set, if it is another than the task's first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<String>,
    /// Steps of data.
    pub steps: u64,
    /// Where settings come from.
    pub preset: String,
    /// The methods.
    pub methods: Vec<String>,
    /// What is trained on labels.
    pub policy: String,
    /// Seeds 0, 1, 2, …
    pub seeds: u64,
    /// Episodes with each target; 0 where there is no world.
    pub episodes: usize,
    /// The shares of the data, if there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fractions: Option<Vec<f64>>,
    /// Settings that differ from the preset's, as `key=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<String>,
    /// A file of labels that is compared with the methods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<PathBuf>,
    /// Where tensors are.
    pub device: String,
}

/// Every comparison was, before there were others.
fn in_world() -> bool {
    true
}

/// Data that was given: where it was, and what tells it from other data. It is not copied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GivenData {
    /// Where it was.
    pub path: PathBuf,
    /// Its size and its checksums.
    #[serde(flatten)]
    pub id: DataId,
}

/// What makes a comparison again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// A command of the program.
    Command(String),
    /// A call of the library, in words.
    Call(String),
}

impl fmt::Display for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Again::Command(words) | Again::Call(words)) = self;
        f.write_str(words)
    }
}

impl Comparison {
    /// The file it is kept in.
    pub const FILE: &str = "comparison.json";

    /// What is compared in a folder.
    pub fn read(folder: &Path) -> Result<Self, ResultsError> {
        read_checked(folder.join(Self::FILE), Self::check)
    }

    /// Whether it makes sense; one that was read from a file may not.
    fn check(&self) -> Result<(), String> {
        match () {
            () if self.seeds == 0 => Err("it has no seeds".to_owned()),
            () if self.fractions.as_ref().is_some_and(Vec::is_empty) => {
                Err("it has no shares of the data".to_owned())
            }
            () => Ok(()),
        }
    }

    /// What it is of, as a file may be called: the data's file, or the task with its data set if that is not the first.
    pub fn name(&self) -> String {
        let task = self.task.as_deref().unwrap_or(NAMELESS);
        match (&self.data, &self.dataset) {
            (Some(data), _) => stem(&data.path),
            (None, Some(dataset)) => format!("{task}-{dataset}"),
            (None, None) => task.to_owned(),
        }
    }

    /// Whether it is the same comparison; given data may have been moved.
    pub(crate) fn is_same(&self, other: &Comparison) -> bool {
        let unmoved = |of: &Comparison| Comparison {
            data: of.data.clone().map(|data| GivenData { path: PathBuf::new(), ..data }),
            ..of.clone()
        };
        unmoved(self) == unmoved(other)
    }

    /// What makes it again: a command, or if the program cannot know of what was compared, words for the library call.
    pub fn again(&self) -> Again {
        match self.is_built_in() {
            true => Again::Command(self.command()),
            false => Again::Call(self.call()),
        }
    }

    /// Whether task, data set, methods, policy and settings are such as the program has.
    fn is_built_in(&self) -> bool {
        let registry = Registry::default();
        let preset = Preset::ALL.into_iter().find(|preset| preset.name() == self.preset);
        let known_data = |task: &Task| {
            self.dataset.as_ref().is_none_or(|dataset| task.dataset(dataset).is_some())
        };
        let known_settings =
            |preset: Preset| registry.config(preset).changed(None, &self.changes).is_ok();
        let known_task =
            |name: &str| task(name).is_some_and(|task| task.name() == name && known_data(task));
        (self.data.is_some() || self.task.as_deref().is_some_and(known_task))
            && self.methods.iter().all(|method| registry.method(method).is_ok())
            && registry.policy(&self.policy).is_ok()
            && preset.is_some_and(known_settings)
    }

    /// The library call, in words.
    fn call(&self) -> String {
        let Comparison { steps, preset, methods, policy, seeds, episodes, .. } = self;
        let source = match (&self.data, &self.task) {
            (Some(data), _) => format!("the data {}", data.path.display()),
            (None, task) => format!("the task {}", task.as_deref().unwrap_or(NAMELESS)),
        };
        let tried = match self.world {
            true => format!("{} with each target", plural(*episodes, "episode")),
            false => "tried in no world".to_owned(),
        };
        let mut words = format!(
            "an `Experiment` of the library on {source}: methods {}, policy {policy}, {}, preset {preset}, {} of data, {tried}",
            methods.join(", "),
            plural(*seeds as usize, "seed"),
            plural(*steps as usize, "step"),
        );
        if let Some(dataset) = &self.dataset {
            words += &format!(", data set {dataset}");
        }
        if let Some(fractions) = &self.fractions {
            let shares: Vec<String> = fractions.iter().copied().map(percent).collect();
            words += &format!(", shares {}", shares.join(", "));
        }
        if let Some(labels) = &self.labels {
            words += &format!(", labels {}", labels.display());
        }
        if !self.changes.is_empty() {
            words += &format!(", settings {}", self.changes.join(", "));
        }
        words
    }

    /// The command that makes it again.
    fn command(&self) -> String {
        let Comparison { steps, preset, methods, policy, seeds, episodes, .. } = self;
        let mut command = match (&self.data, &self.task) {
            (Some(data), _) => format!("esper run {}", quoted(&data.path.display().to_string())),
            (None, task) => format!("esper run {}", task.as_deref().unwrap_or(NAMELESS)),
        };
        if let Some(fractions) = &self.fractions {
            let shares: Vec<String> = fractions.iter().copied().map(percent).collect();
            command += &format!(" --fractions {}", shares.join(","));
        }
        if let Some(dataset) = &self.dataset {
            command += &format!(" --dataset {dataset}");
        }
        command += &format!(
            " --methods {} --policy {policy} --seeds {seeds} --preset {preset}",
            methods.join(",")
        );
        if self.data.is_none() {
            command += &format!(" --steps {steps}");
        }
        match (self.world, &self.data, &self.task) {
            (true, _, _) => command += &format!(" --episodes {episodes}"),
            // Data of no task has no world to leave out.
            (false, Some(_), None) => {}
            (false, _, _) => command += " --offline",
        }
        if let Some(labels) = &self.labels {
            command += &format!(" --labels {}", quoted(&labels.display().to_string()));
        }
        if self.device != "cpu" {
            command += &format!(" --device {}", self.device);
        }
        self.changes.iter().for_each(|change| command += &format!(" --set {}", quoted(change)));
        command
    }
}

/// A word as a shell takes it for one.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-=/%+,:".contains(c);
    match word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command is only given where the program would take it.
    #[test]
    fn what_is_from_outside_is_no_command() {
        let inside = Comparison {
            task: Some("gambling".to_owned()),
            data: None,
            world: true,
            dataset: None,
            steps: 2_000,
            preset: "quick".to_owned(),
            methods: vec!["esper".to_owned(), "rvs".to_owned()],
            policy: "mlp".to_owned(),
            seeds: 1,
            episodes: 50,
            fractions: None,
            changes: vec!["mlp.steps=10".to_owned()],
            labels: None,
            device: "cpu".to_owned(),
        };
        let command = "esper run gambling --methods esper,rvs --policy mlp --seeds 1 --preset quick --steps 2000 \
                       --episodes 50 --set mlp.steps=10";
        assert_eq!(inside.again(), Again::Command(command.to_owned()));
        let word = || "mine".to_owned();
        let outside = [
            Comparison { task: Some(word()), ..inside.clone() },
            Comparison { dataset: Some(word()), ..inside.clone() },
            Comparison { methods: vec![word()], ..inside.clone() },
            Comparison { policy: word(), ..inside.clone() },
            Comparison { changes: vec!["mine.prior=1".to_owned()], ..inside.clone() },
        ];
        let data = esper_data::DatasetBuilder::inferring();
        let data = {
            let mut data = data;
            data.push(&[0u8], &[0u8], 1.0).unwrap();
            data.end(&[0u8], esper_data::End::default()).unwrap();
            data.build().unwrap()
        };
        let path = PathBuf::from("my logs/orders.csv");
        let given = Comparison {
            task: None,
            data: Some(GivenData { path, id: DataId::of(&data) }),
            world: false,
            episodes: 0,
            ..inside.clone()
        };
        let command = "esper run 'my logs/orders.csv' --methods esper,rvs --policy mlp --seeds 1 --preset quick --set \
                       mlp.steps=10";
        assert_eq!(given.again(), Again::Command(command.to_owned()));
        assert_eq!(given.name(), "orders");
        let json = serde_json::to_string(&given).unwrap();
        assert_eq!(serde_json::from_str::<Comparison>(&json).unwrap(), given);
        let offline = Comparison { world: false, ..inside.clone() };
        assert!(
            offline.again().to_string().contains("--steps 2000 --offline"),
            "{}",
            offline.again()
        );
        for comparison in outside {
            let Again::Call(words) = comparison.again() else { panic!("{comparison:?}") };
            assert!(words.contains("mine") && !words.contains("esper run"), "{words}");
        }
    }
}
