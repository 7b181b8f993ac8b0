//! Numbers as people read them.

use esper::methods::esper::Leakage;

/// A whole number with separators: 1,000,000.
pub fn count(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with up to three decimals: 1, 0.5, -2.167; a small one by its first two digits: 4.2e-4.
pub fn number(value: f64) -> String {
    if (1e-9..5e-4).contains(&value.abs()) {
        return format!("{value:.1e}");
    }
    let fixed = format!("{value:.3}");
    let trimmed = fixed.trim_end_matches('0').trim_end_matches('.');
    if trimmed == "-0" { "0".to_owned() } else { trimmed.to_owned() }
}

/// A share: 5%, 0.5%.
pub fn percent(share: f64) -> String {
    format!("{}%", number(100.0 * share))
}

/// A leak as a share of what there is to tell, with its standard error.
pub fn leaked(leakage: &Leakage) -> String {
    // Adding nothing turns -0 into 0.
    let tenths = leakage.share().map(|share| (1000.0 * share).round() / 10.0 + 0.0);
    let [mean, stderr] = tenths;
    format!("{mean:.1}% ± {stderr:.1}%")
}

/// How many, in words: 1 seed, 3 seeds.
pub fn plural(number: usize, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([7, 1234, 1_000_000].map(count), ["7", "1,234", "1,000,000"].map(str::to_owned));
        assert_eq!(
            [1.0, 0.5, -2.1666, 0.00042, -1e-12, 0.0].map(number),
            ["1", "0.5", "-2.167", "4.2e-4", "0", "0"].map(str::to_owned)
        );
    }
}
