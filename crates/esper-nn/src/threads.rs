//! Whether kernels divide their work among the threads of the pool.

use std::cell::Cell;

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs something whose kernels stay on this thread. That is for work which is divided up already, and for times when the
/// other threads have to wait for a core; what comes out is the same to the last bit.
///
/// ```
/// assert_eq!(esper_nn::alone(|| 1 + 1), 2);
/// ```
pub fn alone<T>(work: impl FnOnce() -> T) -> T {
    /// Puts things back also when the work panics.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _before = Before(ALONE.replace(true));
    work()
}

/// Two pieces of work, on a thread each where there is anybody to share them with; the kernels of each stay on its thread.
/// That is less waiting for each other than dividing every kernel; what comes out is the same to the last bit.
///
/// ```
/// assert_eq!(esper_nn::both(|| 1 + 1, || "two"), (2, "two"));
/// ```
pub fn both<A: Send, B: Send>(
    one: impl FnOnce() -> A + Send,
    other: impl FnOnce() -> B + Send,
) -> (A, B) {
    match divides() {
        true => rayon::join(|| alone(one), || alone(other)),
        false => (one(), other()),
    }
}

/// Whether there is anybody to share work with.
pub(crate) fn divides() -> bool {
    !ALONE.get() && rayon::current_num_threads() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_is_for_as_long_as_the_work_takes() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        pool.install(|| {
            assert!(divides());
            alone(|| {
                assert!(!divides());
                alone(|| ());
                assert!(!divides());
            });
            assert!(std::panic::catch_unwind(|| alone(|| panic!("it fails"))).is_err());
            assert!(divides());
        });
    }
}
