//! Tensors whose memory goes back to the pool when they are dropped.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use burn_std::{AccessError, AccessPolicy, AllocationController, AllocationProperty, Bytes};

use crate::kernels::memory::Buffer;

/// The numbers of a buffer as the bytes of a tensor, without a copy.
pub(crate) fn bytes(buffer: Buffer) -> Bytes {
    let len = size_of_val::<[f32]>(&buffer);
    // SAFETY: the first `len` bytes of the controller's memory are the numbers of the buffer, all of them initialised.
    unsafe { Bytes::from_controller(Box::new(Pooled(buffer)), len) }
}

struct Pooled(Buffer);

impl AllocationController for Pooled {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(
        &mut self,
        _: AccessPolicy,
    ) -> Result<&mut [MaybeUninit<u8>], AccessError> {
        let numbers: &mut [f32] = &mut self.0;
        let (start, len) = (numbers.as_mut_ptr(), size_of_val(numbers));
        // SAFETY: the same memory, borrowed as long, as bytes, which need no alignment; the caller promises to write only
        // initialised ones, and any four of those are a float.
        Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), len) })
    }

    fn memory(&self, _: AccessPolicy) -> Result<&[MaybeUninit<u8>], AccessError> {
        let numbers: &[f32] = &self.0;
        // SAFETY: the same memory, borrowed as long, as bytes, which need no alignment and may be read as they are.
        Ok(unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) })
    }
}
