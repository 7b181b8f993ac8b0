//! Means and how sure one can be of them; draws.

use esper_data::Rng;
use rand::RngExt;

/// The mean of some values and its standard error; zero error for a single one.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, (squares / (count - 1.0).max(1.0) / count).sqrt())
}

/// A draw from the normal distribution, by Box and Muller.
pub(crate) fn normal(rng: &mut Rng) -> f32 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    (radius * (2.0 * std::f64::consts::PI * rng.random::<f64>()).cos()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_shrink_with_the_root_of_the_count() {
        let (mean, stderr) = mean_and_error(&[1.0, 3.0, 1.0, 3.0]);
        assert_eq!(mean, 2.0);
        assert!((stderr - (4.0f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert_eq!(mean_and_error(&[5.0]), (5.0, 0.0));
        assert_eq!(mean_and_error(&[]), (0.0, 0.0));
    }
}
