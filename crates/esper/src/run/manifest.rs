//! What the files of a run's folder say: what was trained on what, what was measured, and what is known in the end.

use std::collections::BTreeMap;
use std::path::Path;

use esper_data::{Checksums, Dataset};
use esper_nn::DeviceName;
use serde::{Deserialize, Serialize};

use super::Plan;
use crate::condition::{Condition, Promise};
use crate::error::Error;
use crate::methods::{Curve, Findings};
use crate::policy::Outlook;

/// The version of a run folder's layout. Folders of another are refused.
pub(super) const FORMAT: u32 = 2;

/// What was trained on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The version of the folder's layout.
    pub format: u32,
    /// The version of the program.
    pub version: String,
    /// The name of the method.
    pub method: String,
    /// The method's name in a report.
    pub title: String,
    /// What tells the method from others of the same name, if anything does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// What was trained on labels, if there is a choice of that.
    pub policy: Option<String>,
    /// What decided everything random.
    pub seed: u64,
    /// Where tensors were.
    pub device: String,
    /// The limit of memory, in bytes, where it made batches smaller; another would have learned something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// What it was trained on.
    pub data: DataId,
}

impl Manifest {
    pub(super) fn of(plan: &Plan, data: &DataId) -> Result<Self, Error> {
        let (about, policy) = (plan.about(), plan.policy_name());
        Ok(Manifest {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            title: about.title(policy).to_owned(),
            method: about.name,
            identity: plan.method.identity()?,
            policy: policy.map(str::to_owned),
            seed: plan.seed,
            device: DeviceName::of(&plan.device).to_string(),
            memory: plan.memory,
            data: data.clone(),
        })
    }
}

/// Which data it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataId {
    /// The task, if it is a named one.
    pub task: Option<String>,
    /// The version of the task's rules.
    #[serde(default)]
    pub task_version: Option<u32>,
    /// Its steps.
    pub steps: usize,
    /// Its episodes.
    pub episodes: usize,
    /// Checksums of what it holds.
    pub checksums: Checksums,
}

impl DataId {
    /// Of a data set.
    pub fn of(data: &Dataset) -> Self {
        DataId {
            task: data.metadata().task.clone(),
            task_version: data.metadata().task_version,
            steps: data.steps(),
            episodes: data.episodes(),
            checksums: Checksums::of(data),
        }
    }
}

/// What is known when a run is complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// How long training took, what was stopped and gone on with included.
    pub train_seconds: f64,
    /// What is known without the world.
    pub findings: Findings,
    /// What of its metrics a report draws.
    pub curves: Vec<Curve>,
    /// What the policy is told.
    #[serde(default)]
    pub condition: Condition,
    /// What levels promise; empty where no levels are told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<LevelPromise>,
    /// The level that was chosen from the data alone, where levels are told.
    #[serde(default)]
    pub offline_level: Option<f64>,
    /// The target that was chosen from the data alone; `None` for methods that cannot be asked.
    pub offline_target: Option<f64>,
    /// What every level gets, as far as the data says; empty for methods that cannot be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outlook: Vec<Outlook>,
    /// What the target that was chosen gets.
    #[serde(default)]
    pub chosen: Option<Outlook>,
    /// Discount factor γ that labels and targets stand for.
    pub discount: f64,
    /// The files that came of it, so that one that is missing is missed; empty in folders of versions that did not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
}

/// What a level promises, as it is listed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LevelPromise {
    /// What it promises.
    #[serde(flatten)]
    pub promise: Promise,
    /// The average return that asks for the same: what is promised.
    #[serde(default)]
    pub target: f64,
}

impl From<Promise> for LevelPromise {
    fn from(promise: Promise) -> Self {
        LevelPromise { promise, target: promise.promise }
    }
}

impl Summary {
    /// Whether it makes sense; one that was read from a file may not.
    pub(super) fn check(&self) -> Result<(), String> {
        if !(0.0..=1.0).contains(&self.discount) {
            return Err(format!("the discount factor is {}", self.discount));
        }
        if self.train_seconds < 0.0 {
            return Err(format!("training took {} seconds", self.train_seconds));
        }
        let is_name = |name: &&String| Path::new(name).file_name() == Some(name.as_ref());
        match self.files.iter().find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => Err(format!("`{name}` is no name of a file")),
        }
    }
}

/// Means of what was measured over some steps of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What was being trained.
    pub phase: String,
    /// Steps taken by then.
    pub step: usize,
    /// The means, by name.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, f64>,
}

impl Record {
    /// What was measured by a step of a phase.
    pub fn new(phase: &str, step: usize, metrics: &[(&'static str, f64)]) -> Self {
        let metrics = metrics.iter().map(|&(name, value)| (name.to_owned(), value)).collect();
        Record { phase: phase.to_owned(), step, metrics }
    }
}
