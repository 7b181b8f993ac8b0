//! Distributions over actions: what a network has to put out, what that is worth, and how to draw from it.

use burn::tensor::{Tensor, activation};
use esper_data::{Cells, CellsRef, Rng, Space, draw_softmax};
use esper_nn::{Device, cross_entropy, squared_error};
use rand::RngExt;
use rand_distr::StandardNormal;
use serde::{Deserialize, Serialize};

use crate::features::Encoding;

/// A distribution over the actions of a space, given by the outputs of a network.
///
/// Categories get logits; several of them are independent of each other given the network's input. Real numbers are
/// Gaussian, independent of each other: the network puts out their means and, squashed, the logarithms of their standard
/// deviations, both in standardised units. What is drawn beyond the bounds of the space is moved to them; where it has none, to the
/// lowest or the highest number of the data: nobody knows what lies beyond.
///
/// Beside the distribution there is a plain *reconstruction* of an action: logits again, or means alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ActionHead {
    encoding: Encoding,
}

/// The logarithms of the least and the greatest deviation, in units of the deviation that actions have in all of the data.
/// Players that draw nothing would have none at all, and a density without limit.
pub(crate) const LOG_DEVIATIONS: [f64; 2] = [-5.0, 1.0];

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
    pub fn categories(&self) -> Vec<usize> {
        match self.encoding.space() {
            Space::Discrete { n } => vec![*n as usize],
            Space::MultiDiscrete { nvec } => nvec.iter().map(|&n| n as usize).collect(),
            space @ Space::MultiBinary { .. } => vec![2; space.cells()],
            // Nobody acts in a mixture of numbers and categories: data and policies with one are refused.
            Space::Box { .. } | Space::Tuple { .. } => Vec::new(),
        }
    }

    /// How many numbers the network puts out.
    pub fn outputs(&self) -> usize {
        match self.encoding.space() {
            Space::Box { .. } => 2 * self.encoding.width(),
            _ => self.reconstruction_outputs(),
        }
    }

    /// How many numbers a network puts out that reconstructs actions.
    pub fn reconstruction_outputs(&self) -> usize {
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

    /// Negative log-likelihood: the mean over rows of -log p, summed over cells. Of real numbers in standardised units, and
    /// without the constant.
    pub fn loss(&self, outputs: Tensor<2>, taken: &Taken) -> Tensor<1> {
        match taken {
            Taken::Numbers(numbers) => {
                let cells = self.encoding.width();
                let mean = outputs.clone().narrow(1, 0, cells);
                let log_deviation = log_deviation(outputs.narrow(1, cells, cells));
                let distance = (*numbers.clone() - mean) / log_deviation.clone().exp();
                (distance.square() * 0.5 + log_deviation).sum_dim(1).mean()
            }
            Taken::Categories(_) => self.reconstruction_loss(outputs, taken),
        }
    }

    /// The mean over rows of -log p for categories, summed over cells; of the squared error for real numbers, a mean over
    /// cells.
    pub fn reconstruction_loss(&self, outputs: Tensor<2>, taken: &Taken) -> Tensor<1> {
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

    /// Appends what is expected of an action for one row of outputs: the probabilities of all categories of every cell, or the
    /// means of real numbers, moved to the bounds of the space.
    pub(crate) fn expected(&self, outputs: &[f32], expected: &mut Vec<f32>) {
        if let Space::Box { .. } = self.encoding.space() {
            for (cell, (mean, scale)) in outputs.iter().zip(self.encoding.scaling()).enumerate() {
                let [low, high] = self.limits(cell);
                expected.push((scale.undo(*mean) as f32).clamp(low, high));
            }
            return;
        }
        self.probabilities(outputs, expected);
    }

    /// The lowest and the highest number that a cell of real numbers may have: the bounds of the space, or where it has none what
    /// was seen in the data. Without limits where neither is known.
    pub fn limits(&self, cell: usize) -> [f32; 2] {
        let bounds = match self.encoding.space() {
            Space::Box { bounds: Some(bounds), .. } => bounds.get(cell),
            _ => self.encoding.ranges().get(cell).filter(|[low, high]| low <= high),
        };
        bounds.copied().unwrap_or([f32::NEG_INFINITY, f32::INFINITY])
    }

    /// Draws an action for one row of outputs and appends its cells.
    pub fn draw(&self, outputs: &[f32], rng: &mut Rng, actions: &mut Cells) {
        let normal = |mean: f32, spread: f32, rng: &mut Rng| {
            let [low, high] = LOG_DEVIATIONS.map(|bound| bound as f32);
            let deviation = (low + (spread.tanh() + 1.0) / 2.0 * (high - low)).exp();
            mean + deviation * rng.sample::<f32, _>(StandardNormal)
        };
        self.each_cell(outputs, actions, rng, normal, draw_softmax);
    }

    /// The most probable action for one row of outputs, the first of equals: appends its cells. Of real numbers it is the mean.
    pub fn most_probable(&self, outputs: &[f32], actions: &mut Cells) {
        let highest = |logits: &[f32], _: &mut ()| {
            (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap_or(0)
        };
        self.each_cell(outputs, actions, &mut (), |mean, _, ()| mean, highest);
    }

    /// Appends an action cell by cell: numbers by their mean and spread, in standardised units, categories by their logits.
    fn each_cell<S>(
        &self,
        outputs: &[f32],
        actions: &mut Cells,
        state: &mut S,
        number: impl Fn(f32, f32, &mut S) -> f32,
        category: impl Fn(&[f32], &mut S) -> usize,
    ) {
        match (self.encoding.space(), actions) {
            (Space::Box { .. }, Cells::Float(actions)) => {
                let (means, spreads) = outputs.split_at(self.encoding.width());
                let numbers = means.iter().zip(spreads).zip(self.encoding.scaling());
                for (cell, ((mean, spread), scale)) in numbers.enumerate() {
                    let chosen = number(*mean, *spread, state);
                    let [low, high] = self.limits(cell);
                    actions.push((scale.undo(chosen) as f32).clamp(low, high));
                }
            }
            (_, actions) => {
                let mut rest = outputs;
                for n in self.categories() {
                    let (logits, others) = rest.split_at(n);
                    rest = others;
                    actions.push_category(category(logits, state));
                }
            }
        }
    }

    /// Probabilities of all categories of every cell, cell after cell, for rows of outputs: appended, `[rows, outputs]`. Nothing
    /// for real numbers.
    pub fn probabilities(&self, outputs: &[f32], probabilities: &mut Vec<f32>) {
        let categories = self.categories();
        if categories.is_empty() {
            return;
        }
        let first = probabilities.len();
        probabilities.extend_from_slice(outputs);
        let mut rest = &mut probabilities[first..];
        while !rest.is_empty() {
            for &n in &categories {
                let (own, others) = rest.split_at_mut(n);
                rest = others;
                softmax(own);
            }
        }
    }
}

/// Softmax: turns logits into probabilities.
pub(crate) fn softmax(logits: &mut [f32]) {
    let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|logit| *logit = (*logit - highest).exp());
    let total: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|weight| *weight /= total);
}

/// From what a network puts out to logarithms of deviations: squashed into their range, so that gradients lead back from its
/// ends.
fn log_deviation(outputs: Tensor<2>) -> Tensor<2> {
    let [low, high] = LOG_DEVIATIONS;
    (activation::tanh(outputs) + 1.0) * ((high - low) / 2.0) + low
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

    fn unit_box() -> Space {
        Space::Box { shape: vec![2], bounds: Some(vec![[-1.0, 1.0], [-1.0, 1.0]]) }
    }

    #[test]
    fn real_actions_stay_within_their_bounds() {
        let actions = Cells::Float(vec![-1.0, 0.0, 1.0, 0.5]);
        let head = head(&unit_box(), &actions);
        assert_eq!((head.outputs(), head.reconstruction_outputs()), (4, 2));
        let (mut drawn, mut rng) = (Cells::Float(Vec::new()), Seed::new(0).rng());
        (0..1_000).for_each(|_| head.draw(&[1.0, 0.0, 0.3, 0.3], &mut rng, &mut drawn));
        unit_box().check(drawn.view()).unwrap();
        let at_bound = (0..1_000).filter(|at| drawn.view().number(2 * at) == 1.0).count();
        // The mean is at the bound: half of the draws are beyond it.
        assert!((450..550).contains(&at_bound), "{at_bound}");
    }

    /// Nobody gave less than 0.5 or more than 1.5: no policy does, however far its mean is. Bounds that are declared say what may be
    /// done, whatever was done.
    #[test]
    fn real_actions_without_bounds_stay_within_what_was_done() {
        let done = Cells::Float(vec![0.5, 1.5]);
        for (bounds, right) in [(None, [0.5, 1.5]), (Some(vec![[-9.0, 9.0]]), [-9.0, 9.0])] {
            let head = head(&Space::Box { shape: vec![1], bounds }, &done);
            assert_eq!(head.limits(0), right);
            let (mut drawn, mut rng) = (Cells::Float(Vec::new()), Seed::new(0).rng());
            (0..100).for_each(|at| head.draw(&[at as f32 - 50.0, 1.0], &mut rng, &mut drawn));
            let numbers: Vec<f32> = (0..100).map(|at| drawn.view().number(at)).collect();
            assert!(numbers.iter().all(|number| (right[0]..=right[1]).contains(number)));
            assert_eq!((numbers[0], numbers[99]), (right[0], right[1]));
            let (mut greedy, mut expected) = (Cells::Float(Vec::new()), Vec::new());
            head.most_probable(&[99.0, 0.0], &mut greedy);
            head.expected(&[99.0, 0.0], &mut expected);
            assert_eq!((greedy.view().number(0), expected[0]), (right[1], right[1]));
        }
    }

    /// Odds of 3 to 1 and of 1 to 1: probabilities add up cell by cell, the likelier category is the greedy one, the first of equals.
    #[test]
    fn probabilities_and_the_most_probable_action_follow_from_logits() {
        let head = head(&Space::MultiDiscrete { nvec: vec![2, 3] }, &Cells::Byte(vec![0, 0]));
        let row = [0.0, 3f32.ln(), 0.0, 0.0, 0.0];
        let mut found = Vec::new();
        head.probabilities(&[row, row].concat(), &mut found);
        let third = 1.0 / 3.0;
        for (found, right) in found.iter().zip([0.25, 0.75, third, third, third].repeat(2)) {
            assert!((found - right).abs() < 1e-6, "{found} is not {right}");
        }
        assert_eq!(found.len(), 10);
        let mut greedy = Cells::Byte(Vec::new());
        head.most_probable(&row, &mut greedy);
        assert_eq!(greedy, Cells::Byte(vec![1, 0]));
        // Actions are 3 ± 2 in the data: the mean is one deviation above.
        let real = Space::Box { shape: vec![1], bounds: None };
        let real = self::head(&real, &Cells::Float(vec![1.0, 5.0]));
        let mut greedy = Cells::Float(Vec::new());
        real.most_probable(&[1.0, 0.4], &mut greedy);
        assert_eq!(greedy, Cells::Float(vec![5.0]));
        let mut none = Vec::new();
        real.probabilities(&[1.0, 0.4], &mut none);
        assert!(none.is_empty());
    }

    /// Draws have the mean and the deviation that the loss is lowest at: for a Gaussian, -log p is 1/2 + log σ on average.
    #[test]
    fn real_actions_are_drawn_from_the_distribution_of_the_loss() {
        let space = Space::Box { shape: vec![1], bounds: Some(vec![[-1e3, 1e3]]) };
        let spread = Cells::Float(vec![1.0, 5.0]);
        let head = head(&space, &spread);
        let outputs = [0.5, 0.4f32];
        let (mut drawn, mut rng) = (Cells::Float(Vec::new()), Seed::new(1).rng());
        let count = 20_000;
        (0..count).for_each(|_| head.draw(&outputs, &mut rng, &mut drawn));
        let numbers = (0..count).map(|at| f64::from(drawn.view().number(at)));
        let moments = esper_data::Moments::of(numbers);
        // Actions are 3 ± 2 in the data.
        let log_deviation = -5.0 + (0.4f64.tanh() + 1.0) / 2.0 * 6.0;
        assert!((moments.mean - (3.0 + 2.0 * 0.5)).abs() < 0.02, "{}", moments.mean);
        let deviation = moments.population_std() / 2.0;
        assert!((deviation.ln() - log_deviation).abs() < 0.02, "{deviation}");
        let device = crate::fixtures::cpu();
        let rows: Vec<usize> = (0..count).collect();
        let taken = head.taken(drawn.view(), &rows, &device);
        let tensor = TensorData::new(outputs.repeat(count), [count, 2]);
        let loss: f32 = head.loss(Tensor::from_data(tensor, &device), &taken).into_scalar();
        assert!((f64::from(loss) - (0.5 + log_deviation)).abs() < 0.02, "{loss}");
    }
}
