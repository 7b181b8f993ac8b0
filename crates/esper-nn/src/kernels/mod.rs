//! What the operations compute, on plain slices.
//!
//! Kernels are safe Rust that the compiler vectorises; [`kernel!`] compiles each for several instruction sets and picks
//! one at run time. Sums over rows are taken in pieces of a fixed size, which are added in order; everything else is cut between
//! rows, or between columns, where no sum is: the same input gives the same bits however many threads there are.

/// Defines a function that runs compiled for the best instruction set the machine has.
///
/// Its body is safe code; loops in it should be plain enough to vectorise, and written as loops: what goes through an
/// iterator's `for_each` or `fold` may be compiled as a function of its own, without those instructions. Products and
/// sums are only fused where the body says `mul_add`, so the result is the same on every instruction set.
macro_rules! kernel {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $(#[$attribute])*
        $visibility fn $name($($argument: $type),*) $(-> $result)? {
            #[inline(always)]
            fn body($($argument: $type),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,fma")]
                fn avx512($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($argument: $type),*) $(-> $result)? {
                    body($($argument),*)
                }
                #[allow(unsafe_code)]
                match crate::kernels::instructions() {
                    // SAFETY: the machine has these instructions; `instructions` has asked it.
                    crate::kernels::Instructions::Avx512 => return unsafe { avx512($($argument),*) },
                    // SAFETY: as above.
                    crate::kernels::Instructions::Avx2 => return unsafe { avx2($($argument),*) },
                    crate::kernels::Instructions::Baseline => {}
                }
            }
            body($($argument),*)
        }
    };
}
pub(crate) mod attention;
pub(crate) mod gemm;
pub(crate) mod lstm;
pub(crate) mod math;
pub(crate) mod memory;
pub(crate) mod norm;
pub(crate) mod rows;
pub(crate) mod softmax;
pub(crate) mod update;

use rayon::prelude::*;

use crate::threads::divides;

/// The instruction sets that kernels are compiled for.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(crate) enum Instructions {
    Avx512,
    Avx2,
    Baseline,
}

/// The best instruction set of this machine.
#[cfg(target_arch = "x86_64")]
pub(crate) fn instructions() -> Instructions {
    static BEST: std::sync::LazyLock<Instructions> = std::sync::LazyLock::new(|| {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => Instructions::Avx512,
            (true, false) => Instructions::Avx2,
            (false, _) => Instructions::Baseline,
        }
    });
    *BEST
}

/// Numbers whose sum is one piece of a larger sum. It decides the order in which they are added, and so the last bits.
const SUMMED: usize = 1 << 14;

/// Numbers that a thread is handed at least: so many that handing them over, and waking somebody up for it, costs little
/// beside the work.
const HANDED: usize = 1 << 15;

/// The rows that so many numbers fill.
fn rows_of(numbers: usize, width: usize) -> usize {
    (numbers / width.max(1)).max(1)
}

/// Calls `work(first_row, rows)` on pieces of a matrix, in parallel where there is enough of it.
pub(crate) fn for_rows<T: Send>(
    matrix: &mut [T],
    width: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    let rows = rows_of(HANDED, width);
    if matrix.len() <= 2 * rows * width || !divides() {
        return work(0, matrix);
    }
    matrix
        .par_chunks_mut(rows * width)
        .enumerate()
        .for_each(|(piece, matrix)| work(piece * rows, matrix));
}

/// As [`for_rows`], over two matrices with equally many rows.
pub(crate) fn for_rows2<T: Send, U: Send>(
    (first, first_width): (&mut [T], usize),
    (second, second_width): (&mut [U], usize),
    work: impl Fn(usize, &mut [T], &mut [U]) + Sync,
) {
    debug_assert_eq!(first.len() / first_width, second.len() / second_width);
    let rows = rows_of(HANDED, first_width.max(second_width));
    if first.len() <= 2 * rows * first_width || !divides() {
        return work(0, first, second);
    }
    first
        .par_chunks_mut(rows * first_width)
        .zip(second.par_chunks_mut(rows * second_width))
        .enumerate()
        .for_each(|(piece, (first, second))| work(piece * rows, first, second));
}

/// As [`for_rows`], over three matrices with equally many rows.
pub(crate) fn for_rows3<T: Send>(
    [(a, a_width), (b, b_width), (c, c_width)]: [(&mut [T], usize); 3],
    work: impl Fn(usize, [&mut [T]; 3]) + Sync,
) {
    let rows = rows_of(HANDED, a_width.max(b_width).max(c_width));
    if a.len() <= 2 * rows * a_width || !divides() {
        return work(0, [a, b, c]);
    }
    a.par_chunks_mut(rows * a_width)
        .zip(b.par_chunks_mut(rows * b_width))
        .zip(c.par_chunks_mut(rows * c_width))
        .enumerate()
        .for_each(|(piece, ((a, b), c))| work(piece * rows, [a, b, c]));
}

/// Sums `add(first_row, rows, &mut sums)` over pieces of `rows` rows, pieces in parallel, their sums added in order.
pub(crate) fn sum_rows(
    rows: usize,
    width: usize,
    sums: usize,
    add: impl Fn(usize, usize, &mut [f32]) + Sync,
) -> Vec<f32> {
    let piece = rows_of(SUMMED, width);
    if rows <= piece {
        let mut total = vec![0.0; sums];
        add(0, rows, &mut total);
        return total;
    }
    let partial = |first: usize| {
        let mut partial = vec![0.0; sums];
        add(first, piece.min(rows - first), &mut partial);
        partial
    };
    let partials: Vec<Vec<f32>> = match divides() {
        true => {
            let pieces = (0..rows).into_par_iter().step_by(piece).with_min_len(HANDED / SUMMED);
            pieces.map(partial).collect()
        }
        false => (0..rows).step_by(piece).map(partial).collect(),
    };
    let mut total = vec![0.0f64; sums];
    for partial in partials {
        total.iter_mut().zip(partial).for_each(|(total, part)| *total += f64::from(part));
    }
    total.into_iter().map(|total| total as f32).collect()
}

/// Calls `work` on every item, in parallel where there is somebody to share it with; an item is a lot of work.
pub(crate) fn for_each<T: Send>(items: Vec<T>, work: impl Fn(T) + Sync + Send) {
    match divides() {
        true => items.into_par_iter().for_each(work),
        false => items.into_iter().for_each(work),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_every_row_once() {
        for (rows, width) in [(1, 1), (1, 7), (333, 1000), (9999, 33), (200_000, 2)] {
            let mut matrix = vec![0u32; rows * width];
            for_rows(&mut matrix, width, |first, piece| {
                for (row, values) in piece.chunks_exact_mut(width).enumerate() {
                    values.iter_mut().for_each(|value| *value += 1 + (first + row) as u32);
                }
            });
            let right = matrix
                .chunks(width)
                .enumerate()
                .all(|(row, values)| values.iter().all(|&value| value == 1 + row as u32));
            assert!(right, "{rows} x {width}");
        }
    }

    #[test]
    fn sums_do_not_depend_on_threads() {
        let values: Vec<f32> = (0..1_000_000).map(|i| ((i * 7919_i64) % 1000) as f32).collect();
        let sum = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let add = |first: usize, rows: usize, sums: &mut [f32]| {
                sums[0] += values[first..first + rows].iter().sum::<f32>();
            };
            pool.install(|| sum_rows(values.len(), 1, 1, add))
        };
        // Whole numbers: nothing is rounded before the end.
        let exact: f64 = values.iter().map(|&value| f64::from(value)).sum();
        assert!([1, 2, 3].into_iter().all(|threads| sum(threads) == [exact as f32]));
    }
}
