// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// What takes addresses, on the host and on a device: the compiler cannot look behind them.

use crate::comm_use::CommUse;
#[cfg(doc)]
use crate::error::Code;
use crate::error::{c_string, check, to_i32, Result};
use crate::optimizer::Optimizer;
#[cfg(doc)]
use crate::plan::Plan;
use libshampoo_sys as sys;
use std::os::raw::c_void;

impl Optimizer {
    /// Says where parameters from `first` on are, for [`step_raw`](Optimizer::step_raw); on CUDA by addresses of the
    /// device. It holds until they are bound anew.
    ///
    /// # Safety
    ///
    /// Until then, or until the optimizer is dropped, each address is memory of the parameter's elements, which nobody
    /// else uses during a step (on CUDA: but in the order of the stream).
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: a parameter is out of range, or an address is missing, misaligned, or overlaps another.
    pub unsafe fn bind_raw(&mut self, first: usize, buffers: &[sys::shampoo_buffers]) -> Result<()> {
        let (first, count) = (to_i32("first", first)?, to_i32("count", buffers.len())?);
        check(sys::shampoo_optimizer_bind(self.as_ptr(), first, count, buffers.as_ptr()))
    }

    /// Makes one step with what was bound by [`bind_raw`](Optimizer::bind_raw); on CUDA it is put into the stream.
    ///
    /// # Safety
    ///
    /// What is bound is still what `bind_raw` says. After a [`step`](Optimizer::step) nothing is bound that may be
    /// used: bind all parameters again.
    ///
    /// # Errors
    ///
    /// As of [`step`](Optimizer::step). On CUDA a step that is refused tells so by the next call, or by
    /// [`status`](Optimizer::status). [`Code::State`]: a parameter has never been bound.
    pub unsafe fn step_raw(&mut self) -> Result<()> {
        let _using = CommUse::begin(&self.in_use)?;
        check(sys::shampoo_optimizer_step(self.as_ptr(), self.stream))
    }

    /// Sets the `cudaStream_t` in which further calls are made.
    ///
    /// # Safety
    ///
    /// It is a stream of the device, and lives until another is set or the optimizer is dropped.
    pub unsafe fn set_stream(&mut self, stream: *mut c_void) {
        self.stream = stream;
    }

    /// Steps from one arena of state into another, so that a step is a pure function; both NULL: back to the arena that
    /// the optimizer was made with. `shampoo_optimizer_bind_state` in the header tells more.
    ///
    /// # Safety
    ///
    /// Both have the bytes that [`Plan::bytes`] gives for "state", `state_in` those of an optimizer of an equal plan, and
    /// nobody else uses them, until others are bound or the optimizer is dropped.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: one of the two is NULL, misaligned, or they overlap in part.
    pub unsafe fn bind_state(&mut self, state_in: *const c_void, state_out: *mut c_void) -> Result<()> {
        check(sys::shampoo_optimizer_bind_state(self.as_ptr(), state_in, state_out))
    }

    /// Has every step read "lr" or "gradient_scale" of a group from a number in memory, on CUDA of the device; NULL: no
    /// more.
    ///
    /// # Safety
    ///
    /// `value` is a number of `T`, which lives, and changes only between steps, until another is bound or the optimizer
    /// is dropped.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such group, the key is another, or `T` is neither `f32` nor `f64`.
    pub unsafe fn bind_scalar<T: crate::Element>(&mut self, group: usize, key: &str, value: *const T) -> Result<()> {
        let (group, key) = (to_i32("group", group)?, c_string("key", key)?);
        let dtype = T::DTYPE.code();
        check(sys::shampoo_optimizer_bind_scalar(self.as_ptr(), group, key.as_ptr(), dtype, value.cast()))
    }
}
