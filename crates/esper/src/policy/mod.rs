//! Policies that are asked for a label: `π(a_t | …, s_t, label_t)`.

mod mlp;
mod support;
mod transformer;

pub use mlp::{MlpAgent, MlpPolicy};
pub use support::Support;
pub use transformer::{TransformerAgent, TransformerPolicy};

use burn::tensor::{Device, Tensor, TensorData};
use esper_data::{Cells, Dataset, Rng, Seed};
use serde::{Deserialize, Serialize};

use crate::actions::ActionHead;
use crate::agent::Remaining;
use crate::features::Scale;
use crate::trajectories::Interface;

/// What a policy is trained on.
pub struct TrainingSet<'a> {
    /// The episodes.
    pub data: &'a Dataset,
    /// How they enter networks.
    pub interface: &'a Interface,
    /// The label of every step.
    pub labels: &'a [f32],
    /// The episodes that are imitated.
    pub episodes: &'a [usize],
    /// How much a reward counts for less a step later.
    pub discount: f64,
}

impl TrainingSet<'_> {
    /// Every step of the episodes: its episode and its time.
    pub(crate) fn places(&self) -> Vec<(u32, u32)> {
        let times = |&episode: &usize| {
            (0..self.data.length(episode)).map(move |time| (episode as u32, time as u32))
        };
        self.episodes.iter().flat_map(times).collect()
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

    /// What the policy sees of a label. Beyond the range a network would make something up, so the nearest end is
    /// what is asked for.
    pub fn apply(&self, label: f64) -> f32 {
        let [lowest, highest] = self.range;
        self.scale.apply(label.max(lowest).min(highest))
    }

    /// The lowest and the highest label that was trained on.
    pub fn range(&self) -> [f64; 2] {
        self.range
    }
}

/// What agents remember of the episodes they are in.
#[derive(Default)]
pub(crate) struct Episodes(Vec<Option<(Remaining, Rng)>>);

impl Episodes {
    pub(crate) fn begin(&mut self, place: usize, remaining: Remaining, seed: Seed) {
        if place >= self.0.len() {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some((remaining, seed.rng()));
    }

    fn episode(&mut self, place: usize) -> &mut (Remaining, Rng) {
        self.0[place].as_mut().expect("an episode begins before it goes on")
    }

    /// What is left to be reached.
    pub(crate) fn target(&self, place: usize) -> f64 {
        self.0[place].as_ref().map_or(0.0, |(remaining, _)| remaining.target())
    }

    pub(crate) fn reward(&mut self, place: usize, reward: f32) {
        self.episode(place).0.receive(reward);
    }

    /// Draws the actions of some places, given the outputs of a network.
    pub(crate) fn draw(
        &mut self,
        head: &ActionHead,
        outputs: &[f32],
        places: &[usize],
        actions: &mut Cells,
    ) {
        for (&place, outputs) in places.iter().zip(outputs.chunks_exact(head.outputs())) {
            head.draw(outputs, &mut self.episode(place).1, actions);
        }
    }
}

/// Numbers as a column: `[rows, 1]`.
pub(crate) fn column(numbers: Vec<f32>, device: &Device) -> Tensor<2> {
    let rows = numbers.len();
    Tensor::from_data(TensorData::new(numbers, [rows, 1]), device)
}

/// The numbers of a matrix, row after row.
pub(crate) fn floats(matrix: Tensor<2>) -> Vec<f32> {
    matrix.into_data().try_to_vec().expect("networks compute with floats")
}
