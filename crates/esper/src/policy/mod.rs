//! Policies: `π(a_t | …, s_t, label_t)` and others. A [`Policy`] is one file that says everything about itself.

mod card;
pub mod mlp;
mod support;
pub mod transformer;

pub use card::{
    LoadNetwork, Loader, Outlook, Policy, PolicyCard, PolicyFile, PolicyOrigin, Promised,
};
pub use support::Support;

use burn::tensor::{Tensor, TensorData};
use esper_data::{CellsRef, Dataset};
use esper_nn::Device;
use serde::{Deserialize, Serialize};

use crate::agent::Agent;
use crate::condition::Conditioned;
use crate::error::Error;
use crate::features::Scale;
use crate::memory::Widths;
use crate::methods::Context;
use crate::onnx::FeedForward;
use crate::settings::{Config, Section};
use crate::trajectories::Interface;

/// A kind of policy that is trained on labels.
pub trait PolicyKind: Send + Sync {
    /// Its name in commands, files and JSON.
    fn name(&self) -> &'static str;

    /// What it is, in half a sentence.
    fn summary(&self) -> &'static str;

    /// The settings it owns.
    fn sections(&self) -> Vec<Section>;

    /// How it is loaded.
    fn loader(&self) -> Loader;

    /// Bytes that it takes because of how many features there are; see
    /// [`Method::memory`](crate::methods::Method::memory).
    fn memory(&self, _widths: &Widths, _config: &Config) -> Result<u64, Error> {
        Ok(0)
    }

    /// Learns to do what was done, given the label it was done under.
    fn train(&self, set: &TrainingSet<'_>, context: &Context<'_>) -> Result<Policy, Error>;
}

/// The network of a policy, whatever it is.
pub trait Network: Send + Sync {
    /// The weights as the bytes of a safetensors file, with a text under a key of its metadata.
    fn to_safetensors(&self, key: &str, text: &str) -> Vec<u8>;

    /// Something that acts, by what the policy's card says.
    fn agent(&self, card: &PolicyCard) -> Box<dyn Agent>;

    /// Parameters of the distributions over actions at every step of some logged episodes, one episode after the other, given
    /// what happened in them so far and what the policy is told all along: `[steps, outputs]`. `None` for networks that are
    /// told nothing.
    fn distributions(
        &self,
        _card: &PolicyCard,
        _data: &Dataset,
        _episodes: &[usize],
        _told: f64,
    ) -> Option<Vec<f32>> {
        None
    }

    /// The network as plain layers, for those that are feed-forward: what can be written as ONNX.
    fn feed_forward(&self) -> Option<FeedForward> {
        None
    }

    /// Action values Q(s, ·) of some rows of observations, `[rows, actions]`; `None` for networks that do not know any.
    fn action_values(
        &self,
        _card: &PolicyCard,
        _observations: CellsRef<'_>,
        _rows: &[usize],
    ) -> Option<Vec<f32>> {
        None
    }
}

/// What a policy is trained on.
pub struct TrainingSet<'a> {
    /// The episodes.
    pub data: &'a Dataset,
    /// How they enter networks.
    pub interface: &'a Interface,
    /// The label of every step row.
    pub labels: &'a [f32],
    /// What a policy is told at every step.
    pub conditioned: &'a Conditioned,
    /// The episodes that are imitated.
    pub episodes: &'a [usize],
    /// Discount factor γ.
    pub discount: f64,
    /// Whether the policy can then be asked for a label.
    pub has_targets: bool,
}

impl TrainingSet<'_> {
    /// The card of a policy that was trained on this.
    pub(crate) fn card(
        &self,
        kind: &str,
        network: &impl Serialize,
        context: &Context<'_>,
    ) -> PolicyCard {
        let reach = LabelInput::of(self.labels, self.data, self.episodes).range();
        let first_steps =
            self.episodes.iter().map(|&episode| self.data.episode_steps(episode).start);
        let support =
            self.has_targets.then(|| Support::of(first_steps.map(|step| self.labels[step]), reach));
        let levels = self.conditioned.levels.clone();
        PolicyCard {
            condition: self.conditioned.condition,
            labels: Some(self.conditioned.input),
            levels,
            support,
            ..PolicyCard::new(kind, network, self.interface, self.discount, context.origin)
        }
    }
}

/// How labels enter a policy: standardised, and never further than what it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelInput {
    scale: Scale,
    /// The lowest and the highest label that was trained on.
    range: [f64; 2],
}

impl LabelInput {
    /// Fits the labels of some episodes.
    pub fn of(labels: &[f32], data: &Dataset, episodes: &[usize]) -> Self {
        let numbers = || {
            let steps = episodes.iter().flat_map(|&episode| data.episode_steps(episode));
            steps.map(|step| f64::from(labels[step]))
        };
        let lowest = numbers().fold(f64::INFINITY, f64::min);
        let highest = numbers().fold(f64::NEG_INFINITY, f64::max);
        LabelInput { scale: Scale::of(numbers()), range: [lowest, highest] }
    }

    /// Levels, which are evenly spread from 0 to 1.
    pub fn levels() -> Self {
        LabelInput {
            scale: Scale { mean: 0.5, deviation: 12f64.sqrt().recip() },
            range: [0.0, 1.0],
        }
    }

    /// What the policy sees of a label. Beyond the range a network would make something up, so the nearest end is
    /// what is asked for.
    pub fn apply(&self, label: f64) -> f32 {
        let [lowest, highest] = self.range;
        self.scale.apply(label.max(lowest).min(highest))
    }

    /// How labels are standardised.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// The lowest and the highest label that was trained on.
    pub fn range(&self) -> [f64; 2] {
        self.range
    }

    /// Whether it makes sense; one that was read from a file may not.
    fn check(&self) -> Result<(), String> {
        let [lowest, highest] = self.range;
        if !(lowest.is_finite() && highest.is_finite() && lowest <= highest) {
            return Err(format!("labels range from {lowest} to {highest}"));
        }
        self.scale.check().map_err(|problem| format!("labels: {problem}"))
    }
}

/// Numbers as a column: `[rows, 1]`.
pub fn column(numbers: Vec<f32>, device: &Device) -> Tensor<2> {
    let rows = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [rows, 1]), device)
}

/// The numbers of a matrix, row after row.
pub fn floats(matrix: Tensor<2>) -> Vec<f32> {
    matrix.into_data().try_to_vec().expect("networks compute with floats")
}
