//! Policies that are asked for a label: `π(a_t | s_t, label_t)`.

mod mlp;
mod support;

pub use mlp::{MlpAgent, MlpPolicy};
pub use support::Support;

use serde::{Deserialize, Serialize};

use crate::features::Scale;

/// How labels enter a policy: standardised, and never further than what it has seen.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabelInput {
    scale: Scale,
    /// The lowest and the highest label that was trained on.
    range: [f64; 2],
}

impl LabelInput {
    /// Fits labels.
    pub fn of(labels: &[f32]) -> Self {
        let numbers = || labels.iter().map(|&label| f64::from(label));
        let lowest = numbers().fold(f64::INFINITY, f64::min);
        let highest = numbers().fold(f64::NEG_INFINITY, f64::max);
        LabelInput { scale: Scale::of(numbers()), range: [lowest, highest] }
    }

    /// What the policy sees of a label. Beyond the range a network would make something up, so the nearest end is
    /// what is asked for.
    pub fn apply(&self, label: f64) -> f32 {
        let [lowest, highest] = self.range;
        self.scale.apply(label.clamp(lowest, highest))
    }

    /// The lowest and the highest label that was trained on.
    pub fn range(&self) -> [f64; 2] {
        self.range
    }
}
