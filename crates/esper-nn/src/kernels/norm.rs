//! Batch and layer normalisation, forward and backward.

use super::memory::Buffer;
use super::{for_rows, for_rows2, sum_rows};

/// Keeps a division by a standard deviation finite; PyTorch's value.
pub(crate) const EPSILON: f32 = 1e-5;

/// What batch normalisation uses of a batch, one value a column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnStatistics {
    pub(crate) mean: Vec<f32>,
    /// The variance with the count as divisor.
    pub(crate) variance: Vec<f32>,
}

/// The mean and variance of every column.
pub(crate) fn column_statistics(input: &[f32], width: usize) -> ColumnStatistics {
    kernel! {
        fn piece(sums: &mut [f32], rows: &[f32], shift: &[f32]) {
            let width = shift.len();
            let (sums, squares) = sums.split_at_mut(width);
            let squares = &mut squares[..width];
            for row in rows.chunks_exact(width) {
                for column in 0..width {
                    let deviation = row[column] - shift[column];
                    sums[column] += deviation;
                    squares[column] = deviation.mul_add(deviation, squares[column]);
                }
            }
        }
    }
    let rows = input.len() / width;
    // Deviations from the first row instead of from zero: sums of squares then do not cancel.
    let shift = &input[..width];
    let sums = sum_rows(rows, width, 2 * width, |first, rows, sums| {
        piece(sums, &input[first * width..(first + rows) * width], shift);
    });
    let (sums, squares) = sums.split_at(width);
    let count = rows as f32;
    let mean = sums.iter().zip(shift).map(|(sum, shift)| sum / count + shift).collect();
    let variance = sums
        .iter()
        .zip(squares)
        .map(|(sum, square)| (square / count - (sum / count).powi(2)).max(0.0))
        .collect();
    ColumnStatistics { mean, variance }
}

/// `y = gamma · (x - mean) / √(variance + ε) + beta`, column by column, cut at zero if asked to.
pub(crate) fn batch_norm(
    input: &[f32],
    statistics: &ColumnStatistics,
    gamma: &[f32],
    beta: &[f32],
    relu: bool,
) -> Buffer {
    kernel! {
        fn piece(output: &mut [f32], input: &[f32], scale: &[f32], offset: &[f32], floor: f32) {
            let width = scale.len();
            let offset = &offset[..width];
            for (output, input) in output.chunks_exact_mut(width).zip(input.chunks_exact(width)) {
                for column in 0..width {
                    let value = input[column].mul_add(scale[column], offset[column]);
                    output[column] = if value < floor { floor } else { value };
                }
            }
        }
    }
    let width = gamma.len();
    let floor = if relu { 0.0 } else { f32::NEG_INFINITY };
    let (scale, offset) = scale_and_offset(statistics, gamma, beta);
    let mut output = Buffer::any(input.len());
    for_rows(&mut output, width, |first, output| {
        piece(output, &input[first * width..], &scale, &offset, floor);
    });
    output
}

/// The normalisation as one multiplication and one addition a value.
fn scale_and_offset(
    statistics: &ColumnStatistics,
    gamma: &[f32],
    beta: &[f32],
) -> (Vec<f32>, Vec<f32>) {
    let scale: Vec<f32> = gamma
        .iter()
        .zip(&statistics.variance)
        .map(|(gamma, variance)| gamma / (variance + EPSILON).sqrt())
        .collect();
    let offset = beta
        .iter()
        .zip(&statistics.mean)
        .zip(&scale)
        .map(|((beta, mean), scale)| (-mean).mul_add(*scale, *beta))
        .collect();
    (scale, offset)
}

/// Gradients of a normalisation's own parameters.
pub(crate) struct NormGradients {
    pub(crate) gamma: Vec<f32>,
    pub(crate) beta: Vec<f32>,
}

/// The backward pass of [`batch_norm`] with the statistics of the batch itself: turns the gradient of the output into that
/// of the input, in place. With `relu`, `output` tells where it cut.
pub(crate) fn batch_norm_backward(
    gradient: &mut [f32],
    input: &[f32],
    output: &[f32],
    statistics: &ColumnStatistics,
    gamma: &[f32],
    relu: bool,
) -> NormGradients {
    kernel! {
        fn sum_piece(sums: &mut [f32], gradient: &[f32], input: &[f32], output: &[f32], mean: &[f32], cut: f32) {
            let width = mean.len();
            let (sums, products) = sums.split_at_mut(width);
            let products = &mut products[..width];
            let rows = gradient.chunks_exact(width).zip(input.chunks_exact(width));
            for ((gradient, input), output) in rows.zip(output.chunks_exact(width)) {
                for column in 0..width {
                    let g = if output[column] > cut { gradient[column] } else { 0.0 };
                    sums[column] += g;
                    products[column] = g.mul_add(input[column] - mean[column], products[column]);
                }
            }
        }
    }
    kernel! {
        fn apply_piece(gradient: &mut [f32], input: &[f32], output: &[f32], a: &[f32], b: &[f32], c: &[f32], cut: f32) {
            let width = a.len();
            let (b, c) = (&b[..width], &c[..width]);
            let rows = gradient.chunks_exact_mut(width).zip(input.chunks_exact(width));
            for ((gradient, input), output) in rows.zip(output.chunks_exact(width)) {
                for column in 0..width {
                    let g = if output[column] > cut { gradient[column] } else { 0.0 };
                    gradient[column] = a[column].mul_add(g, b[column].mul_add(input[column], c[column]));
                }
            }
        }
    }
    let width = gamma.len();
    let rows = input.len() / width;
    let cut = if relu { 0.0 } else { f32::NEG_INFINITY };
    let mean = &statistics.mean;

    // Σ dy and Σ dy · (x - mean): over σ, the gradients of beta and gamma.
    let sums = sum_rows(rows, width, 2 * width, |first, rows, sums| {
        let range = first * width..(first + rows) * width;
        sum_piece(sums, &gradient[range.clone()], &input[range.clone()], &output[range], mean, cut);
    });
    let (beta_gradient, products) = sums.split_at(width);

    // dx = gamma / σ · (dy - mean(dy) - x̂ · mean(dy · x̂)), as a · dy + b · x + c.
    let count = rows as f32;
    let (mut a, mut b, mut c) = (vec![0.0; width], vec![0.0; width], vec![0.0; width]);
    let mut gamma_gradient = vec![0.0; width];
    for column in 0..width {
        let inverse = 1.0 / (statistics.variance[column] + EPSILON).sqrt();
        let scale = gamma[column] * inverse;
        gamma_gradient[column] = products[column] * inverse;
        let slope = gamma_gradient[column] / count * inverse;
        a[column] = scale;
        b[column] = -scale * slope;
        c[column] = scale * (slope * mean[column] - beta_gradient[column] / count);
    }
    for_rows(gradient, width, |first, gradient| {
        let (input, output) = (&input[first * width..], &output[first * width..]);
        apply_piece(gradient, input, output, &a, &b, &c, cut);
    });
    NormGradients { gamma: gamma_gradient, beta: beta_gradient.to_vec() }
}

/// Sums terms sixteen at a time, which vectorises where a plain sum would not.
#[inline(always)]
pub(crate) fn lane_sum(values: &[f32], term: impl Fn(usize, f32) -> f32) -> f32 {
    const LANES: usize = 16;
    let mut lanes = [0.0; LANES];
    let (whole, last) = values.as_chunks::<LANES>();
    for (chunk, values) in whole.iter().enumerate() {
        for lane in 0..LANES {
            lanes[lane] += term(chunk * LANES + lane, values[lane]);
        }
    }
    let mut rest = -0.0;
    for (at, &value) in last.iter().enumerate() {
        rest += term(whole.len() * LANES + at, value);
    }
    let mut sum = -0.0;
    for lane in lanes {
        sum += lane;
    }
    sum + rest
}

/// `y = gamma · (x - mean) / √(variance + ε) + beta`, row by row, cut at zero if asked to. Also returns mean and 1 / σ of
/// every row, in turn.
pub(crate) fn layer_norm(
    input: &[f32],
    gamma: &[f32],
    beta: &[f32],
    relu: bool,
) -> (Buffer, Vec<f32>) {
    kernel! {
        fn piece(output: &mut [f32], statistics: &mut [f32], input: &[f32], gamma: &[f32], beta: &[f32], floor: f32) {
            let width = gamma.len();
            let beta = &beta[..width];
            let rows = output.chunks_exact_mut(width).zip(input.chunks_exact(width));
            for ((output, input), statistics) in rows.zip(statistics.chunks_exact_mut(2)) {
                let mean = lane_sum(input, |_, value| value) / width as f32;
                let squares = lane_sum(input, |_, value| (value - mean) * (value - mean));
                let inverse = 1.0 / (squares / width as f32 + EPSILON).sqrt();
                statistics.copy_from_slice(&[mean, inverse]);
                for column in 0..width {
                    let normal = (input[column] - mean) * inverse;
                    let value = gamma[column].mul_add(normal, beta[column]);
                    output[column] = if value < floor { floor } else { value };
                }
            }
        }
    }
    let width = gamma.len();
    let floor = if relu { 0.0 } else { f32::NEG_INFINITY };
    let mut output = Buffer::any(input.len());
    let mut statistics = vec![0.0; 2 * (input.len() / width)];
    for_rows2((&mut output, width), (&mut statistics, 2), |first, output, statistics| {
        piece(output, statistics, &input[first * width..], gamma, beta, floor);
    });
    (output, statistics)
}

/// The backward pass of [`layer_norm`]: turns the gradient of the output into that of the input, in place.
pub(crate) fn layer_norm_backward(
    gradient: &mut [f32],
    input: &[f32],
    statistics: &[f32],
    gamma: &[f32],
) -> NormGradients {
    kernel! {
        fn sum_piece(sums: &mut [f32], gradient: &[f32], input: &[f32], statistics: &[f32], width: usize) {
            let (sums, products) = sums.split_at_mut(width);
            let products = &mut products[..width];
            let rows = gradient.chunks_exact(width).zip(input.chunks_exact(width));
            for ((gradient, input), statistics) in rows.zip(statistics.chunks_exact(2)) {
                let (mean, inverse) = (statistics[0], statistics[1]);
                for column in 0..width {
                    let normal = (input[column] - mean) * inverse;
                    sums[column] += gradient[column];
                    products[column] = gradient[column].mul_add(normal, products[column]);
                }
            }
        }
    }
    kernel! {
        fn apply_piece(gradient: &mut [f32], input: &[f32], statistics: &[f32], gamma: &[f32]) {
            let width = gamma.len();
            let rows = gradient.chunks_exact_mut(width).zip(input.chunks_exact(width));
            for ((gradient, input), statistics) in rows.zip(statistics.chunks_exact(2)) {
                let (mean, inverse) = (statistics[0], statistics[1]);
                // With g = dy · gamma: dx = (g - mean(g) - x̂ · mean(g · x̂)) / σ.
                let count = width as f32;
                let mean_g = lane_sum(gradient, |at, value| value * gamma[at]) / count;
                let mean_gx = lane_sum(gradient, |at, value| {
                    value * gamma[at] * ((input[at] - mean) * inverse)
                }) / count;
                for column in 0..width {
                    let normal = (input[column] - mean) * inverse;
                    let g = gradient[column] * gamma[column];
                    gradient[column] = (g - mean_g - normal * mean_gx) * inverse;
                }
            }
        }
    }
    let width = gamma.len();
    let rows = input.len() / width;
    let sums = sum_rows(rows, width, 2 * width, |first, rows, sums| {
        let range = first * width..(first + rows) * width;
        let (gradient, input) = (&gradient[range.clone()], &input[range]);
        sum_piece(sums, gradient, input, &statistics[2 * first..], width);
    });
    let (beta, gamma_gradient) = sums.split_at(width);
    for_rows(gradient, width, |first, gradient| {
        apply_piece(gradient, &input[first * width..], &statistics[2 * first..], gamma);
    });
    NormGradients { gamma: gamma_gradient.to_vec(), beta: beta.to_vec() }
}
