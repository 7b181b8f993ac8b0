//! Elementary functions that vectorise: straight-line code without calls, so that a loop over them becomes SIMD.
//!
//! Accurate to a few units in the last place on the range a network uses; tests compare them with the standard library's.

/// e^x, for x clamped to ±87, beyond which a float overflows.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Adding and taking away 1.5 · 2^23 rounds to the nearest integer, which then stands in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 87.0);
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // x = n · ln 2 + r, with ln 2 in two parts so that nothing is lost.
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = 1.987_569_2e-4f32
        .mul_add(r, 1.398_199_9e-3)
        .mul_add(r, 8.333_452e-3)
        .mul_add(r, 4.166_579_6e-2)
        .mul_add(r, 1.666_666_5e-1)
        .mul_add(r, 0.5);
    let y = (p * r).mul_add(r, r) + 1.0;
    // y · 2^n by adding n to the exponent.
    f32::from_bits(y.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// Zero in place of what is far too small to count beside anything. Below 1e-38 numbers are subnormal, and some processors take a
/// hundred times as long for a product of one; a network that has learned something for certain would be full of them.
#[inline(always)]
pub(crate) fn flushed(x: f32) -> f32 {
    if x.abs() < 1e-25 { 0.0 } else { x }
}

/// The weight e^x in a softmax, for x ≤ 0: zero where it is far too small to count beside 1, the highest.
#[inline(always)]
pub(crate) fn softmax_weight(x: f32) -> f32 {
    if x < -46.0 { 0.0 } else { exp(x) }
}

/// The natural logarithm of a positive, normal number.
#[inline(always)]
pub(crate) fn ln(x: f32) -> f32 {
    let bits = x.to_bits();
    // m in [√½, √2) and e with x = m · 2^e.
    let e = (bits.wrapping_sub(0x3f35_04f3) as i32) >> 23;
    let m = f32::from_bits(bits.wrapping_sub((e << 23) as u32)) - 1.0;
    let e = e as f32;
    let z = m * m;
    let p = 7.037_683_6e-2f32
        .mul_add(m, -1.151_461e-1)
        .mul_add(m, 1.167_699_9e-1)
        .mul_add(m, -1.242_014_1e-1)
        .mul_add(m, 1.424_932_3e-1)
        .mul_add(m, -1.666_805_8e-1)
        .mul_add(m, 2.000_071_5e-1)
        .mul_add(m, -2.499_999_4e-1)
        .mul_add(m, 0.333_333_3);
    let y = (p * m).mul_add(z, e * -2.121_944_4e-4);
    e.mul_add(0.693_359_4, m + (-0.5f32).mul_add(z, y))
}

/// 1 / (1 + e^-x).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    2.0 / (1.0 + exp(-2.0 * x)) - 1.0
}

/// A number in (0, 1) that looks random, decided by a key and an index: noise that any thread can make anywhere.
#[inline(always)]
pub(crate) fn uniform(key: u64, index: u32) -> f32 {
    let mut x = index.wrapping_mul(0x9e37_79b9) ^ key as u32;
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b) ^ (key >> 32) as u32;
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^= x >> 16;
    ((x >> 8) as f32 + 0.5) * (1.0 / 16_777_216.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(ours: f32, exact: f64, relative: f64, absolute: f64) -> bool {
        (f64::from(ours) - exact).abs() <= relative * exact.abs() + absolute
    }

    #[test]
    fn functions_agree_with_the_standard_library() {
        for i in -20_000..=20_000 {
            let x = i as f32 / 500.0;
            let exact = f64::from(x);
            assert!(close(exp(x), exact.exp(), 3e-7, 0.0), "exp {x}");
            assert!(close(sigmoid(x), 1.0 / (1.0 + (-exact).exp()), 4e-7, 0.0), "sigmoid {x}");
            assert!(close(tanh(x), exact.tanh(), 2e-7, 1e-7), "tanh {x}");
            let positive = (x / 4.0).exp();
            assert!(close(ln(positive), f64::from(positive).ln(), 2e-7, 1e-7), "ln {positive}");
        }
    }

    /// Nothing subnormal is left, and nothing that counts is lost.
    #[test]
    fn what_does_not_count_is_zero() {
        assert_eq!([1e-26, -1e-40, 0.0].map(flushed), [0.0; 3]);
        assert_eq!([1e-24, -3.0].map(flushed), [1e-24, -3.0]);
        assert_eq!((softmax_weight(-50.0), softmax_weight(0.0)), (0.0, 1.0));
        assert!(softmax_weight(-46.0) * f32::EPSILON > f32::MIN_POSITIVE);
    }

    #[test]
    fn exp_does_not_overflow() {
        assert!(exp(1e30).is_finite() && exp(-1e30) >= 0.0);
        assert_eq!(sigmoid(-1e30).max(0.0), sigmoid(-1e30));
        assert!(sigmoid(1e30) <= 1.0 && tanh(1e30) <= 1.0 && tanh(-1e30) >= -1.0);
    }

    #[test]
    fn uniform_numbers_are_uniform() {
        for key in [0, 1, u64::MAX, 0x1234_5678_9abc_def0] {
            let count = 100_000;
            let draws: Vec<f64> = (0..count).map(|i| f64::from(uniform(key, i))).collect();
            let mean = draws.iter().sum::<f64>() / f64::from(count);
            let variance = draws.iter().map(|u| (u - 0.5).powi(2)).sum::<f64>() / f64::from(count);
            assert!(draws.iter().all(|&u| u > 0.0 && u < 1.0));
            assert!((mean - 0.5).abs() < 0.005, "{key}: mean {mean}");
            assert!((variance - 1.0 / 12.0).abs() < 0.002, "{key}: variance {variance}");
            let lag = draws.windows(2).map(|w| (w[0] - 0.5) * (w[1] - 0.5)).sum::<f64>();
            assert!((lag / f64::from(count)).abs() < 0.001, "{key}: neighbours");
        }
    }
}
