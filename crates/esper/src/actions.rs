//! Distributions over actions: what a network has to put out, what that is worth, and how to draw from it.

use burn::tensor::Tensor;
use esper_data::{Cells, CellsRef, Rng, Space, draw_softmax};
use esper_nn::{Device, cross_entropy, squared_error};
use serde::{Deserialize, Serialize};

use crate::features::Encoding;

/// A distribution over the actions of a space, given by the outputs of a network.
///
/// Categories get logits; several of them are independent of each other given the network's input. Real numbers are
/// normal with the output as their mean and, in standardised units, unit variance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionHead {
    encoding: Encoding,
}

/// Actions that were taken, as the loss wants them.
pub enum Taken {
    /// For every cell its category in every row.
    Categories(Vec<Vec<u32>>),
    /// Standardised numbers: `[rows, cells]`.
    Numbers(Box<Tensor<2>>),
}

impl ActionHead {
    /// The distribution for encoded actions.
    pub fn new(encoding: Encoding) -> Self {
        ActionHead { encoding }
    }

    /// How actions enter other networks.
    pub fn encoding(&self) -> &Encoding {
        &self.encoding
    }

    /// The number of categories of every cell; none for real numbers.
    fn categories(&self) -> Vec<usize> {
        match self.encoding.space() {
            Space::Discrete { n } => vec![*n as usize],
            Space::MultiDiscrete { nvec } => nvec.iter().map(|&n| n as usize).collect(),
            space @ Space::MultiBinary { .. } => vec![2; space.cells()],
            Space::Box { .. } => Vec::new(),
        }
    }

    /// How many numbers the network puts out.
    pub fn outputs(&self) -> usize {
        match self.encoding.space() {
            Space::Box { .. } => self.encoding.width(),
            _ => self.categories().iter().sum(),
        }
    }

    /// The chosen actions, as the loss wants them.
    pub fn taken(&self, cells: CellsRef<'_>, rows: &[usize], device: &Device) -> Taken {
        let width = self.encoding.space().cells();
        match self.encoding.space() {
            Space::Box { .. } => Taken::Numbers(Box::new(self.encoding.dense(cells, rows, device))),
            _ => Taken::Categories(
                (0..width)
                    .map(|cell| {
                        rows.iter().map(|row| cells.category(row * width + cell) as u32).collect()
                    })
                    .collect(),
            ),
        }
    }

    /// The mean over rows of -log p for categories, summed over cells; of the squared error for real numbers, a mean over
    /// cells.
    pub fn loss(&self, outputs: Tensor<2>, taken: &Taken) -> Tensor<1> {
        match taken {
            Taken::Numbers(numbers) => squared_error(outputs, *numbers.clone(), None),
            Taken::Categories(cells) if cells.len() == 1 => cross_entropy(outputs, &cells[0], None),
            Taken::Categories(cells) => {
                let mut start = 0;
                let losses = self.categories().into_iter().zip(cells).map(|(n, cell)| {
                    let logits = outputs.clone().narrow(1, start, n);
                    start += n;
                    cross_entropy(logits, cell, None)
                });
                losses.reduce(|sum, loss| sum + loss).expect("an action has cells")
            }
        }
    }

    /// Draws an action for one row of outputs and appends its cells. Real numbers are the mean itself, within the bounds
    /// of the space: noise would only make an agent worse than what it learned.
    pub fn draw(&self, outputs: &[f32], rng: &mut Rng, actions: &mut Cells) {
        match (self.encoding.space(), actions) {
            (Space::Box { bounds, .. }, Cells::Float(actions)) => {
                for (cell, (&output, scale)) in
                    outputs.iter().zip(self.encoding.scaling()).enumerate()
                {
                    let number = scale.undo(output) as f32;
                    let [low, high] = match bounds {
                        Some(bounds) => bounds[cell],
                        None => [f32::NEG_INFINITY, f32::INFINITY],
                    };
                    actions.push(number.clamp(low, high));
                }
            }
            (_, actions) => {
                let mut start = 0;
                for n in self.categories() {
                    let category = draw_softmax(&outputs[start..start + n], rng);
                    start += n;
                    actions.push_category(category);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::tensor::TensorData;
    use esper_data::Seed;

    fn head(space: &Space, cells: &Cells) -> ActionHead {
        let rows = 0..cells.len() / space.cells();
        ActionHead::new(Encoding::fit(space, cells.view(), rows))
    }

    #[test]
    fn several_categories_add_their_losses() {
        let device = crate::fixtures::cpu();
        let space = Space::MultiDiscrete { nvec: vec![2, 3] };
        let actions = Cells::Byte(vec![1, 2, 0, 0]);
        let head = head(&space, &actions);
        assert_eq!(head.outputs(), 5);
        let taken = head.taken(actions.view(), &[0, 1], &device);
        let outputs = Tensor::<2>::from_data(TensorData::new(vec![0.0f32; 10], [2, 5]), &device);
        let loss: f32 = head.loss(outputs, &taken).into_scalar();
        assert!((loss - (2f32.ln() + 3f32.ln())).abs() < 1e-5);
    }

    #[test]
    fn real_actions_stay_within_their_bounds() {
        let space = Space::Box { shape: vec![2], bounds: Some(vec![[-1.0, 1.0], [-1.0, 1.0]]) };
        let actions = Cells::Float(vec![-1.0, 0.0, 1.0, 0.5]);
        let head = head(&space, &actions);
        let mut drawn = Cells::Float(Vec::new());
        head.draw(&[5.0, 0.0], &mut Seed::new(0).rng(), &mut drawn);
        assert_eq!(drawn, Cells::Float(vec![1.0, 0.25]));
    }
}
