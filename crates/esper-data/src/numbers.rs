//! Mean and standard deviation, the same wherever the project reports them.

/// Mean of some numbers and their squared distances from it.
///
/// Sums are taken in order, so the same numbers give the same bits. Of no numbers, everything is zero.
///
/// ```
/// use esper_data::Moments;
///
/// let moments = Moments::of([1.0, 2.0, 3.0, 4.0].into_iter());
/// assert_eq!(moments.mean, 2.5);
/// assert_eq!(moments.population_std(), 1.25f64.sqrt());
/// assert_eq!(moments.sample_std(), (5.0f64 / 3.0).sqrt());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many numbers there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Sum of squares: of the distances from the mean.
    pub squares: f64,
}

impl Moments {
    /// The moments of some numbers, which are gone through twice: for the mean, then for the distances from it.
    pub fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count();
        if count == 0 {
            return Moments::default();
        }
        let mean = values.clone().sum::<f64>() / count as f64;
        let squares = values.map(|value| (value - mean).powi(2)).sum();
        Moments { count, mean, squares }
    }

    /// Standard deviation of a whole population: squares are divided by `count`.
    pub fn population_std(&self) -> f64 {
        (self.squares / self.count.max(1) as f64).sqrt()
    }

    /// Standard deviation of a sample: squares are divided by `count - 1`. Zero for fewer than two numbers.
    pub fn sample_std(&self) -> f64 {
        self.sample_variance().sqrt()
    }

    /// Standard error of the mean. Zero for fewer than two numbers.
    pub fn standard_error(&self) -> f64 {
        (self.sample_variance() / self.count.max(1) as f64).sqrt()
    }

    fn sample_variance(&self) -> f64 {
        self.squares / self.count.saturating_sub(1).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Moments {
        Moments::of(values.iter().copied())
    }

    #[test]
    fn the_textbook_values() {
        let moments = of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((moments.count, moments.mean, moments.squares), (8, 5.0, 32.0));
        assert_eq!(moments.population_std(), 2.0);
        assert_eq!(moments.sample_std(), (32.0f64 / 7.0).sqrt());
        assert_eq!(moments.standard_error(), (32.0f64 / 7.0 / 8.0).sqrt());
    }

    #[test]
    fn one_number_or_none_does_not_deviate() {
        for values in [&[][..], &[-3.5]] {
            let moments = of(values);
            assert_eq!(moments.mean, values.iter().sum::<f64>());
            assert_eq!((moments.population_std(), moments.sample_std()), (0.0, 0.0));
            assert_eq!(moments.standard_error(), 0.0);
        }
    }
}
