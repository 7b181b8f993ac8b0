//! Methods: ways to get a policy out of logged data. Each is a file or a folder that owns its settings, its training, its
//! loading, and what it has to tell a report; the [`Registry`](crate::Registry) lists them.
//!
//! Most methods are relabellers ([`Relabel`]): they say for every step what the behaviour that took it was worth, and a
//! policy of a chosen kind is trained on that. Others ([`Method`]) learn a policy of their own kind.

pub mod bc;
pub mod cql;
pub mod esper;
mod findings;
pub mod labels;
pub mod rvs;

pub use findings::{Curve, Findings, LabelCalibration, LabelGroup, Measure};

use esper_data::{Dataset, Seed, Space, check_name};
use esper_nn::Device;

use self::esper::Clusters;
use crate::condition::{Condition, Conditioned, Promise};
use crate::error::Error;
use crate::memory::Widths;
use crate::policy::{Loader, Policy, PolicyKind, PolicyOrigin, Support, TrainingSet};
use crate::settings::{Config, General, Section};
use crate::training::Monitor;
use crate::trajectories::{Interface, Split, StepRows};

/// What a method is called, and what others than itself have to know about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// Its name in commands, files and JSON.
    pub name: String,
    /// Its name in a report; the same as `name` if nothing is said.
    pub title: String,
    /// Other titles, by the policy that is trained on its labels.
    pub titles: Vec<(String, String)>,
    /// What it does, in half a sentence: "labels steps by …".
    pub summary: String,
}

impl About {
    /// A method of this name.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        About { title: name.clone(), name, ..About::default() }
    }

    /// Its name in a report.
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Its name in a report, when this policy is trained on its labels.
    pub fn titled_with(mut self, policy: impl Into<String>, title: impl Into<String>) -> Self {
        self.titles.push((policy.into(), title.into()));
        self
    }

    /// What it does, in half a sentence.
    pub fn summed_up(mut self, summary: impl Into<String>) -> Self {
        self.summary = summary.into();
        self
    }

    /// Its name in a report, with a policy.
    pub fn title(&self, policy: Option<&str>) -> &str {
        let special = self.titles.iter().find(|(of, _)| Some(of.as_str()) == policy);
        special.map_or(&self.title, |(_, title)| title)
    }
}

/// A way to get a policy out of logged data.
///
/// Whatever labels steps implements [`Relabel`] instead, and is a method by that.
pub trait Method: Send + Sync {
    /// What it is called.
    fn about(&self) -> About;

    /// The settings it owns.
    fn sections(&self) -> Vec<Section>;

    /// How its own kinds of policies are loaded; none where a policy of a chosen kind is trained on labels.
    fn loaders(&self) -> Vec<Loader> {
        Vec::new()
    }

    /// Whether a policy of a chosen kind is trained on labels.
    fn takes_policy(&self) -> bool {
        false
    }

    /// The phases that it goes through, as far as they are known beforehand; for telling how long it will take.
    fn phases(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What tells it from another method of the same name: a file's checksum, for example. A run is only gone on with
    /// where it is the same.
    fn identity(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Whether it can choose among such actions. Where nobody asked for it, a method that cannot is left out of a comparison.
    fn check_actions(&self, _actions: &Space) -> Result<(), Error> {
        Ok(())
    }

    /// Whether there is any sense in training on this data.
    fn check(&self, _data: &Dataset, _config: &Config) -> Result<(), Error> {
        Ok(())
    }

    /// Bytes that it takes because of how many features there are ([`memory`](crate::memory)): of weights, and of batches. Too many are
    /// refused before anything is begun.
    fn memory(&self, _widths: &Widths, _config: &Config) -> Result<u64, Error> {
        Ok(0)
    }

    /// Whether a limit of memory, in bytes, changes what it learns: by smaller batches, for example. A run is then only gone on
    /// with under the same limit.
    fn is_limited(&self, _widths: &Widths, _config: &Config, _memory: u64) -> Result<bool, Error> {
        Ok(false)
    }

    /// Learns.
    fn learn(&self, context: &Context<'_>) -> Result<Learned, Error>;
}

/// A way to label the steps of a data set: a relabeller.
///
/// A label says what the behaviour that took a step was worth on average; a policy is then trained to do what was done,
/// given the label it was done under, and asked for a label when it acts.
pub trait Relabel: Send + Sync {
    /// What it is called.
    fn about(&self) -> About;

    /// The settings it owns; none if it has none.
    fn sections(&self) -> Vec<Section> {
        Vec::new()
    }

    /// Whether a policy that was trained on its labels can be asked for a return.
    fn has_targets(&self) -> bool {
        true
    }

    /// Whether policies are told levels of its labels where nothing else is said, or labels themselves: what was observed is what
    /// return conditioning is told.
    fn is_made_for_levels(&self) -> bool {
        true
    }

    /// The phases that it goes through, as far as they are known beforehand; for telling how long it will take.
    fn phases(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// What tells it from another relabeller of the same name: a file's checksum, for example.
    fn identity(&self) -> Result<Option<String>, Error> {
        Ok(None)
    }

    /// Whether there is any sense in labelling this data.
    fn check(&self, _data: &Dataset, _config: &Config) -> Result<(), Error> {
        Ok(())
    }

    /// Bytes that it takes because of how many features there are; see [`Method::memory`].
    fn memory(&self, _widths: &Widths, _config: &Config) -> Result<u64, Error> {
        Ok(0)
    }

    /// Whether a limit of memory, in bytes, changes labels; see [`Method::is_limited`].
    fn is_limited(&self, _widths: &Widths, _config: &Config, _memory: u64) -> Result<bool, Error> {
        Ok(false)
    }

    /// Labels every step.
    fn relabel(&self, context: &Context<'_>) -> Result<Labels, Error>;
}

impl<R: Relabel> Method for R {
    fn about(&self) -> About {
        Relabel::about(self)
    }

    fn sections(&self) -> Vec<Section> {
        Relabel::sections(self)
    }

    fn takes_policy(&self) -> bool {
        true
    }

    fn phases(&self) -> Vec<&'static str> {
        let mut phases = Relabel::phases(self);
        // Levels are told where nothing else is said.
        phases.extend(self.is_made_for_levels().then_some("ranks"));
        phases.push("policy");
        phases.extend(self.is_made_for_levels().then_some("promise"));
        phases
    }

    fn identity(&self) -> Result<Option<String>, Error> {
        Relabel::identity(self)
    }

    fn check(&self, data: &Dataset, config: &Config) -> Result<(), Error> {
        Relabel::check(self, data, config)
    }

    fn memory(&self, widths: &Widths, config: &Config) -> Result<u64, Error> {
        Relabel::memory(self, widths, config)
    }

    fn is_limited(&self, widths: &Widths, config: &Config, memory: u64) -> Result<bool, Error> {
        Relabel::is_limited(self, widths, config, memory)
    }

    fn learn(&self, context: &Context<'_>) -> Result<Learned, Error> {
        let seed = context.seed.named(&Relabel::about(self).name);
        let labels = self.relabel(&Context { seed, ..*context })?;
        context.imitate(labels, self.has_targets(), self.is_made_for_levels())
    }
}

/// What a method is given.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The episodes.
    pub data: &'a Dataset,
    /// How they enter networks.
    pub interface: &'a Interface,
    /// Held-out split: which of them to learn from, and which to measure on. All of them are labelled.
    pub split: &'a Split,
    /// All settings.
    pub config: &'a Config,
    /// Discount factor γ.
    pub discount: f64,
    /// Decides everything random.
    pub seed: Seed,
    /// Where tensors are.
    pub device: &'a Device,
    /// Who follows it.
    pub monitor: &'a dyn Monitor,
    /// What is trained on labels.
    pub policy: &'a dyn PolicyKind,
    /// What a policy remembers of how it came about.
    pub origin: &'a PolicyOrigin,
    /// Memory: the most bytes that may be taken, if anything was said.
    pub memory: Option<u64>,
}

impl Context<'_> {
    /// Return-to-go: the sum of discounted rewards that followed each step, by step row.
    pub fn returns_to_go(&self) -> Vec<f32> {
        self.data.returns_to_go(self.discount)
    }

    /// What a policy is told, by the settings or else by what a method was made for.
    pub(crate) fn condition(&self, made_for_levels: bool) -> Result<Condition, Error> {
        Ok(self.config.get::<General>()?.condition.resolved(self.data, made_for_levels))
    }

    /// Labels beside the returns of held-out episodes.
    pub fn calibration(&self, labels: &[f32]) -> LabelCalibration {
        let returns = self.returns_to_go();
        let held_out = StepRows::of_episodes(self.data, &self.split.held_out);
        let pairs = held_out.steps.iter().map(|&step| (labels[step], returns[step]));
        LabelCalibration::of(pairs.collect())
    }

    /// Trains a policy of the chosen kind on labels.
    pub fn imitate(
        &self,
        labels: Labels,
        has_targets: bool,
        made_for_levels: bool,
    ) -> Result<Learned, Error> {
        let data = self.data;
        labels.check(data)?;
        let everything: Vec<usize> = (0..data.episodes()).collect();
        let episodes = labels.episodes.as_deref().unwrap_or(&everything);
        let conditioned = match self.condition(made_for_levels)? {
            Condition::Level if has_targets => {
                Conditioned::on_levels(&labels.values, self, episodes)
            }
            Condition::StepLevel if has_targets => {
                Conditioned::on_step_levels(&labels.values, self, episodes)?
            }
            _ => Conditioned::on_labels(&labels.values, data, episodes),
        };
        let set = TrainingSet {
            data,
            interface: self.interface,
            labels: &labels.values,
            conditioned: &conditioned,
            episodes,
            discount: self.discount,
            has_targets,
        };
        let mut policy = self.policy.train(&set, self)?;
        let (mut findings, mut curves) = (labels.findings.clone(), labels.curves.clone());
        if let Some(levels) = &conditioned.levels
            && let Some((evaluated, warnings)) = levels.evaluated(&policy, self, episodes)?
        {
            policy = policy.with_levels(evaluated);
            findings.warnings.extend(warnings);
        }
        if let Some(levels) = &policy.card().levels {
            findings.warnings.extend(levels.promises.warnings(episodes.len()));
        }
        curves.push(Curve::new("policy loss", "policy", "policy_loss"));
        Ok(Learned { labels: Some(labels), policy, findings, curves })
    }
}

/// What a policy is asked for at every step of the data, and how that came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Labels {
    /// One a step row ([`Dataset::rows`]).
    pub values: Vec<f32>,
    /// The episodes that a policy is to imitate; all of them if nothing is said.
    pub episodes: Option<Vec<usize>>,
    /// The probabilities of all clusters at every step, if the method has clusters.
    pub clusters: Option<Clusters>,
    /// What is known about them without the world.
    pub findings: Findings,
    /// Weights that were learned on the way, as safetensors, by name: that of a file, without its ending
    /// ([`check_name`]).
    pub models: Vec<(&'static str, Vec<u8>)>,
    /// What of its metrics a report draws.
    pub curves: Vec<Curve>,
}

impl Labels {
    /// Labels of which nothing else is known.
    pub fn new(values: Vec<f32>) -> Self {
        Labels { values, ..Labels::default() }
    }

    /// A relabeller may come from anywhere: there is a label for every step and it is a number, and whatever else it gives fits
    /// the data.
    fn check(&self, data: &Dataset) -> Result<(), Error> {
        let refused = |words: String| Err(Error::Unsuitable(words));
        let rows = data.rows();
        let found = self.values.len();
        if found != rows {
            return refused(format!(
                "there are {found} labels where the data has {rows} step rows"
            ));
        }
        if let Some(row) = data.step_rows().find(|&row| !self.values[row].is_finite()) {
            let label = self.values[row];
            return refused(format!(
                "the label of step row {row} is {label}; it has to be a number"
            ));
        }
        if let Some(clusters) = &self.clusters
            && clusters.probabilities().len() != rows * clusters.width()
        {
            return refused(format!("there are no clusters for each of {rows} step rows"));
        }
        match &self.episodes {
            Some(episodes) if episodes.is_empty() => {
                return refused("there are no episodes to imitate".to_owned());
            }
            Some(episodes) if episodes.iter().any(|&episode| episode >= data.episodes()) => {
                return refused(
                    "there are episodes to imitate that the data does not have".to_owned(),
                );
            }
            _ => {}
        }
        for (at, (name, _)) in self.models.iter().enumerate() {
            check_name(name).map_err(Error::Unsuitable)?;
            if *name == "policy" || self.models[..at].iter().any(|(other, _)| other == name) {
                return refused(format!("there are other weights that are called `{name}`"));
            }
        }
        match self.findings.measures.iter().find(|measure| !measure.value.is_finite()) {
            Some(measure) => {
                refused(format!("the measure `{}` is {}", measure.name, measure.value))
            }
            None => Ok(()),
        }
    }
}

/// What came of learning.
pub struct Learned {
    /// The labels, and what is known about them; `None` for methods without.
    pub labels: Option<Labels>,
    /// What acts.
    pub policy: Policy,
    /// What is known without the world: of the labels, where there are any.
    pub findings: Findings,
    /// What of its metrics a report draws.
    pub curves: Vec<Curve>,
}

impl Learned {
    /// What levels promise, if the policy is told levels.
    pub fn promises(&self) -> Vec<Promise> {
        let levels = self.policy.card().levels.as_ref();
        levels.map_or(Vec::new(), |levels| levels.promises.all().to_vec())
    }

    /// Which targets the policy can be asked for, if it can be asked.
    pub fn support(&self) -> Option<&Support> {
        self.policy.card().support.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::discrete;

    /// They become files beside the policy's.
    #[test]
    fn weights_have_names_of_files() {
        let data = discrete([2, 2], &[1], &[0, 1], &[0], &[1.0], &[]);
        let check = |names: &[&'static str]| {
            let models = names.iter().map(|&name| (name, Vec::new())).collect();
            Labels { models, ..Labels::new(vec![0.0]) }.check(&data)
        };
        check(&["clusters", "returns"]).unwrap();
        for names in [&["../clusters"][..], &["policy"], &["returns", "returns"]] {
            assert!(check(names).is_err(), "{names:?}");
        }
    }
}
