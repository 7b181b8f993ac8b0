//! Matrix products, by faer.
//!
//! Its own way of using several threads has them meet at barriers that spin: whenever one of them has to wait for a core,
//! all do. So a product is cut into pieces that any thread can take, each computed by one; a thread that finds nobody
//! else free does all of them. An element is summed up in the same order in any piece, so the result does not depend on
//! where the cuts are, nor on the number of threads (a test holds it to that).

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::threads::divides;

/// Multiplications of a piece, at most about twice this: a tenth of a millisecond, against which handing it over is
/// nothing. Smaller products stay on one thread.
const PIECE: usize = 1 << 22;

/// Columns or rows that half of something has at least, about. Where faer falls back on the crate `gemm`, products with no
/// more than 64 of both are summed up in another order than larger ones: no cut makes one.
const COLUMNS: usize = 192;
const ROWS: usize = 96;

/// The kernels' own pieces have 24 columns (AVX2) or lanes of 16 (AVX-512), and 4 rows: cuts between them waste little.
const KERNEL_COLUMNS: usize = 48;
const KERNEL_ROWS: usize = 4;

/// A matrix to read: rows of a slice, or their transpose.
#[derive(Clone, Copy)]
pub(crate) struct Matrix<'a>(MatRef<'a, f32>);

impl<'a> Matrix<'a> {
    /// The rows of a slice: `[slice.len() / columns, columns]`.
    pub(crate) fn rows(slice: &'a [f32], columns: usize) -> Self {
        Matrix(MatRef::from_row_major_slice(slice, slice.len() / columns, columns))
    }

    /// Rows that stand `stride` apart in a slice.
    pub(crate) fn strided(slice: &'a [f32], rows: usize, columns: usize, stride: usize) -> Self {
        Matrix(MatRef::from_row_major_slice_with_stride(slice, rows, columns, stride))
    }

    /// The transpose.
    pub(crate) fn t(self) -> Self {
        Matrix(self.0.transpose())
    }
}

/// What becomes of the values that are in the result already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Into {
    /// They are replaced.
    Replace,
    /// The product is added to them.
    Add,
}

/// `result = a · b`, or `result += a · b`; the result's rows fill the slice.
pub(crate) fn multiply(result: &mut [f32], into: Into, a: Matrix<'_>, b: Matrix<'_>) {
    let (rows, columns) = (a.0.nrows(), b.0.ncols());
    let result = MatMut::from_row_major_slice_mut(result, rows, columns);
    if divides() {
        in_pieces(result, into, a, b);
    } else {
        product(result, into, a, b);
    }
}

/// Halves a product until its pieces are small. Across the columns first: then no piece packs what another does.
fn in_pieces(result: MatMut<'_, f32>, into: Into, a: Matrix<'_>, b: Matrix<'_>) {
    let (rows, columns) = (result.nrows(), result.ncols());
    let halve = |count: usize, multiple: usize| (count / 2).next_multiple_of(multiple);
    if rows * columns * a.0.ncols() < 2 * PIECE {
        product(result, into, a, b);
    } else if columns >= 2 * COLUMNS {
        let at = halve(columns, KERNEL_COLUMNS);
        let (left, right) = result.split_at_col_mut(at);
        let (b_left, b_right) = b.0.split_at_col(at);
        rayon::join(
            || in_pieces(left, into, a, Matrix(b_left)),
            || in_pieces(right, into, a, Matrix(b_right)),
        );
    } else if rows >= 2 * ROWS {
        let at = halve(rows, KERNEL_ROWS);
        let (top, bottom) = result.split_at_row_mut(at);
        let (a_top, a_bottom) = a.0.split_at_row(at);
        rayon::join(
            || in_pieces(top, into, Matrix(a_top), b),
            || in_pieces(bottom, into, Matrix(a_bottom), b),
        );
    } else {
        product(result, into, a, b);
    }
}

/// As [`multiply`], on one thread, into rows that stand `stride` apart.
pub(crate) fn multiply_strided(
    result: &mut [f32],
    stride: usize,
    into: Into,
    a: Matrix<'_>,
    b: Matrix<'_>,
) {
    let (rows, columns) = (a.0.nrows(), b.0.ncols());
    // Rows as the columns of a transpose: faer 0.24's constructor for strided mutable rows lays them out as columns.
    let result = MatMut::from_column_major_slice_with_stride_mut(result, columns, rows, stride);
    product(result.transpose_mut(), into, a, b);
}

fn product(result: MatMut<'_, f32>, into: Into, a: Matrix<'_>, b: Matrix<'_>) {
    let accumulate = match into {
        Into::Replace => Accum::Replace,
        Into::Add => Accum::Add,
    };
    matmul(result, accumulate, a.0, b.0, 1.0, Par::Seq);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::math::uniform;

    fn random(len: usize, key: u64) -> Vec<f32> {
        (0..len).map(|i| uniform(key, i as u32) - 0.5).collect()
    }

    /// Every other block of columns, the others left alone.
    #[test]
    fn strided_rows_are_written_in_place() {
        let (m, n, k) = (5, 3, 4);
        let (a, b) = (random(m * 2 * k, 1), random(k * n, 2));
        let mut strided = vec![7.0; m * 2 * n - n];
        let a_matrix = Matrix::strided(&a, m, k, 2 * k);
        multiply_strided(&mut strided, 2 * n, Into::Replace, a_matrix, Matrix::rows(&b, n));
        for (at, &value) in strided.iter().enumerate() {
            let (i, j) = (at / (2 * n), at % (2 * n));
            if j >= n {
                assert_eq!(value, 7.0);
            } else {
                let exact: f32 = (0..k).map(|p| a[i * 2 * k + p] * b[p * n + j]).sum();
                assert!((value - exact).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn products_are_right_and_do_not_depend_on_threads() {
        let sizes = [
            (1, 1, 1),
            (1, 512, 512),
            (7, 5, 3),
            (100, 512, 85),
            (301, 130, 700),
            (100, 512, 700),
            (3000, 7, 600),
            (512, 7, 10_000),
        ];
        for (key, (m, n, k)) in sizes.into_iter().enumerate() {
            let (a, b) = (random(m * k, key as u64), random(k * n, 99 + key as u64));
            let at: Vec<f32> = (0..k * m).map(|i| a[i % m * k + i / m]).collect();
            let bt: Vec<f32> = (0..n * k).map(|i| b[i % k * n + i / k]).collect();
            let variants = [
                (Matrix::rows(&a, k), Matrix::rows(&b, n)),
                (Matrix::rows(&at, m).t(), Matrix::rows(&b, n)),
                (Matrix::rows(&a, k), Matrix::rows(&bt, k).t()),
            ];
            for (a_matrix, b_matrix) in variants {
                let with = |threads: usize| {
                    let pool =
                        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let mut c = vec![1.0; m * n];
                    pool.install(|| multiply(&mut c, Into::Add, a_matrix, b_matrix));
                    c
                };
                let c = with(1);
                assert!(c == with(2) && c == with(3), "{m} x {n} x {k} depends on threads");
                for (at, &value) in c.iter().enumerate() {
                    let (i, j) = (at / n, at % n);
                    let exact: f64 =
                        (0..k).map(|p| f64::from(a[i * k + p]) * f64::from(b[p * n + j])).sum();
                    assert!((f64::from(value) - 1.0 - exact).abs() < 1e-3, "{m} x {n} x {k}");
                }
            }
        }
    }
}
