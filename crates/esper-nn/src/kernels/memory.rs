//! Memory for results, used again and again.
//!
//! A training step makes and drops the same large arrays every time. Given back to the system they would have to be
//! cleared and mapped anew, which measured a fifth of a step; so they are kept in a pool instead.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

/// Arrays below this size are left to the allocator, which keeps those itself.
const SMALL: usize = 1 << 14;

/// Numbers the pool may hold at most: half a gigabyte.
const MOST: usize = 1 << 27;

/// An array of floats whose memory goes back to the pool.
pub(crate) struct Buffer {
    /// At least `len` long; all of it has been written at some time.
    memory: Vec<f32>,
    len: usize,
}

impl Buffer {
    /// An array with any numbers in it, for results that overwrite all of them.
    pub(crate) fn any(len: usize) -> Self {
        let memory = POOL.lock().unwrap_or_else(PoisonError::into_inner).take(len);
        // A little more than asked for, so that the next batch, of another length, fits too.
        let memory =
            memory.unwrap_or_else(|| vec![0.0; if len < SMALL { len } else { len + len / 8 }]);
        Buffer { memory, len }
    }

    /// An array of zeros.
    pub(crate) fn zeros(len: usize) -> Self {
        let mut buffer = Buffer::any(len);
        buffer.fill(0.0);
        buffer
    }

    /// A copy of these numbers.
    pub(crate) fn copy_of(values: &[f32]) -> Self {
        let mut buffer = Buffer::any(values.len());
        buffer.copy_from_slice(values);
        buffer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        POOL.lock().unwrap_or_else(PoisonError::into_inner).put(memory);
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &self.memory[..self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.memory[..self.len]
    }
}

impl Clone for Buffer {
    fn clone(&self) -> Self {
        Buffer::copy_of(self)
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({})", self.len)
    }
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: Vec::new(), size: 0 });

struct Pool {
    /// Arrays that nobody uses, the shortest first.
    free: Vec<Vec<f32>>,
    /// Numbers in all of them.
    size: usize,
}

impl Pool {
    /// The shortest array that is long enough, unless it is far too long.
    fn take(&mut self, len: usize) -> Option<Vec<f32>> {
        if len < SMALL {
            return None;
        }
        let at = self.free.partition_point(|memory| memory.len() < len);
        if self.free.get(at)?.len() > 2 * len {
            return None;
        }
        let memory = self.free.remove(at);
        self.size -= memory.len();
        Some(memory)
    }

    fn put(&mut self, memory: Vec<f32>) {
        if memory.len() < SMALL || self.size + memory.len() > MOST {
            return;
        }
        self.size += memory.len();
        let at = self.free.partition_point(|other| other.len() < memory.len());
        self.free.insert(at, memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again() {
        let mut pool = Pool { free: Vec::new(), size: 0 };
        assert!(pool.take(SMALL).is_none());
        pool.put(vec![1.0; 3 * SMALL]);
        pool.put(vec![2.0; SMALL]);
        assert_eq!(pool.take(SMALL).map(|memory| memory.len()), Some(SMALL), "the shortest");
        assert!(pool.take(SMALL).is_none(), "three times too long");
        assert_eq!(pool.take(2 * SMALL).map(|memory| memory.len()), Some(3 * SMALL));
        assert_eq!(pool.size, 0);
        pool.put(vec![0.0; 10]);
        assert!(pool.free.is_empty(), "small arrays are not kept");
    }

    #[test]
    fn buffers_have_the_length_asked_for() {
        for len in [0, 1, SMALL, 3 * SMALL] {
            assert_eq!(Buffer::any(len).len(), len);
            assert!(Buffer::zeros(len).iter().all(|&value| value == 0.0));
        }
        assert_eq!(&*Buffer::copy_of(&[1.0, 2.0]), &[1.0, 2.0]);
    }
}
