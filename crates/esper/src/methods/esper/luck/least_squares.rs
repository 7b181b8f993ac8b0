//! Ordinary least squares: the linear function of features that is nearest to some numbers.

/// Sums over rows: products of features, and of features with numbers. A constant is one more feature.
pub(super) struct LeastSquares {
    width: usize,
    /// Lower triangle, row after row: `[width + 1, width + 1]`.
    products: Vec<f64>,
    with_numbers: Vec<f64>,
    rows: usize,
}

/// A linear function.
pub(super) struct Weights {
    of_features: Vec<f64>,
    constant: f64,
}

impl Weights {
    pub(super) fn apply(&self, row: &[f32]) -> f64 {
        let weighted = row.iter().zip(&self.of_features).map(|(x, weight)| f64::from(*x) * weight);
        self.constant + weighted.sum::<f64>()
    }
}

/// Rows whose products are added up with single precision.
const BLOCK: usize = 256;

/// Ridge regression: by how much of the mean square of features they are kept from standing for each other.
const RIDGE: f64 = 1e-4;

/// With fewer rows than this for each feature nothing is put right but the mean.
const ROWS_A_FEATURE: usize = 20;

impl LeastSquares {
    pub(super) fn new(width: usize) -> Self {
        let size = width + 1;
        LeastSquares {
            width,
            products: vec![0.0; size * size],
            with_numbers: vec![0.0; size],
            rows: 0,
        }
    }

    /// Adds rows of features, with a number each.
    pub(super) fn add(&mut self, features: &[f32], numbers: &[f64]) {
        let (width, size) = (self.width, self.width + 1);
        let mut block = vec![0.0f32; size * size];
        let mut row = vec![1.0f32; size];
        for (rows, numbers) in features.chunks(BLOCK * width).zip(numbers.chunks(BLOCK)) {
            block.fill(0.0);
            for (of_row, &number) in rows.chunks_exact(width).zip(numbers) {
                row[..width].copy_from_slice(of_row);
                for (at, &x) in row.iter().enumerate() {
                    let sums = &mut block[at * size..at * size + at + 1];
                    for (sum, &y) in sums.iter_mut().zip(&row) {
                        *sum += x * y;
                    }
                    self.with_numbers[at] += f64::from(x) * number;
                }
            }
            for (sum, of_block) in self.products.iter_mut().zip(&block) {
                *sum += f64::from(*of_block);
            }
            self.rows += numbers.len();
        }
    }

    /// Normal equations, by Cholesky's decomposition.
    pub(super) fn solve(self) -> Weights {
        let LeastSquares { width, products: mut factor, with_numbers, rows } = self;
        let size = width + 1;
        let mean = with_numbers[width] / rows.max(1) as f64;
        let only_mean = Weights { of_features: vec![0.0; width], constant: mean };
        if rows < ROWS_A_FEATURE * width {
            return only_mean;
        }
        let trace: f64 = (0..width).map(|at| factor[at * size + at]).sum();
        let ridge = RIDGE * trace / width as f64;
        for row in 0..size {
            for column in 0..=row {
                let mut sum = factor[row * size + column];
                if row == column && row < width {
                    sum += ridge;
                }
                for at in 0..column {
                    sum -= factor[row * size + at] * factor[column * size + at];
                }
                factor[row * size + column] = match row == column {
                    true if sum <= 0.0 => return only_mean,
                    true => sum.sqrt(),
                    false => sum / factor[column * size + column],
                };
            }
        }
        let mut solved = with_numbers;
        for row in 0..size {
            for at in 0..row {
                solved[row] -= factor[row * size + at] * solved[at];
            }
            solved[row] /= factor[row * size + row];
        }
        for row in (0..size).rev() {
            for at in row + 1..size {
                solved[row] -= factor[at * size + row] * solved[at];
            }
            solved[row] /= factor[row * size + row];
        }
        let constant = solved[width];
        solved.truncate(width);
        Weights { of_features: solved, constant }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esper_data::Seed;
    use rand::RngExt;

    /// 3 x - 2 y + 1, with a third feature that is the sum of both.
    #[test]
    fn a_linear_function_is_found() {
        let mut rng = Seed::new(0).rng();
        let mut sums = LeastSquares::new(3);
        let (mut features, mut numbers) = (Vec::new(), Vec::new());
        for _ in 0..1_000 {
            let (x, y) = (rng.random_range(-1.0..1.0f32), rng.random_range(0.0..2.0f32));
            features.extend([x, y, x + y]);
            numbers.push(f64::from(3.0 * x - 2.0 * y) + 1.0);
        }
        sums.add(&features, &numbers);
        let weights = sums.solve();
        for (row, number) in features.chunks_exact(3).zip(&numbers) {
            assert!((weights.apply(row) - number).abs() < 2e-3);
        }
    }

    /// What is known of too few rows is their mean.
    #[test]
    fn few_rows_say_the_mean() {
        let mut sums = LeastSquares::new(2);
        sums.add(&[1.0, 0.0, 0.0, 1.0], &[1.0, 3.0]);
        assert_eq!(sums.solve().apply(&[1.0, 0.0]), 2.0);
    }
}
