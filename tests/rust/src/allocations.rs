// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Checks that `Optimizer::step` allocates no memory in Rust, and therefore does not copy the slices of the caller.

use crate::tools::{gradients, model, optimizer};
use libshampoo::Buffers;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Number of bytes that this thread has allocated so far.
    static BYTES: Cell<usize> = Cell::new(0);
}

struct Counting;

// SAFETY: forwards every call to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size()));
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        System.dealloc(pointer, layout)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_step_allocates_no_memory() {
    let (mut values, mut grads) = (model(), gradients(&model(), 0));
    let places: Vec<_> = values.iter().zip(&grads).map(|(value, grad)| (value.as_ptr(), grad.as_ptr())).collect();
    let before = values.clone();
    let mut opt = optimizer();
    {
        let both = values.iter_mut().zip(&mut grads);
        let mut buffers: Vec<_> = both.map(|(value, grad)| Buffers::new(value).with_grad_mut(grad)).collect();
        let bytes = BYTES.with(Cell::get);
        opt.step(&mut buffers).unwrap();
        opt.step(&mut buffers).unwrap();
        assert_eq!(BYTES.with(Cell::get), bytes, "a step has allocated memory");
        for (buffers, (value, grad)) in buffers.iter_mut().zip(&places) {
            assert_eq!(buffers.param::<f32>().unwrap().as_ptr(), *value);
            assert_eq!(buffers.grad_mut::<f32>().unwrap().as_ptr(), *grad);
        }
    }
    assert_ne!(values, before);
}
