// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

// Methods of Optimizer that take addresses of memory of the host or of a device. They are unsafe, because the compiler
// cannot check addresses.

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
    /// Binds the memory of consecutive parameters, from index `first` on, for [`step_raw`](Optimizer::step_raw) and
    /// [`export_raw`](Optimizer::export_raw). On CUDA, the memory is on the device. The memory of a parameter stays
    /// bound until other memory is bound for this parameter.
    ///
    /// # Safety
    ///
    /// Each address must point to the elements of its parameter until other memory is bound for the parameter or the
    /// optimizer is dropped. No other code may use this memory during a step or an export. On CUDA, work that is
    /// enqueued in the same stream may use the memory.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: a parameter is out of range, an address is missing or misaligned, or a buffer that a step
    /// writes overlaps another buffer of its parameter.
    pub unsafe fn bind_raw(&mut self, first: usize, buffers: &[sys::shampoo_buffers]) -> Result<()> {
        let (first, count) = (to_i32("first", first)?, to_i32("count", buffers.len())?);
        check(sys::shampoo_optimizer_bind(self.as_ptr(), first, count, buffers.as_ptr()))
    }

    /// Runs one step with the memory from [`bind_raw`](Optimizer::bind_raw). On CUDA, the step is enqueued in the
    /// stream.
    ///
    /// # Safety
    ///
    /// The bound memory must still meet the requirements of `bind_raw`. [`step`](Optimizer::step) and
    /// [`export`](Optimizer::export) bind other memory, so bind all parameters again after a call of these methods.
    ///
    /// # Errors
    ///
    /// The same as for [`step`](Optimizer::step), but [`Code::State`] has these causes: a parameter has not been bound,
    /// a communicator is in use by another call, or there is another cause that the C header lists for
    /// `shampoo_optimizer_step`. On CUDA, a later call, such as [`status`](Optimizer::status), returns errors that the
    /// device detects.
    pub unsafe fn step_raw(&mut self) -> Result<()> {
        let _using = CommUse::begin(&self.in_use)?;
        check(sys::shampoo_optimizer_step(self.as_ptr(), self.stream))
    }

    /// Writes averages of the parameters, as [`export`](Optimizer::export) does. For each parameter of the plan,
    /// `weights` has an address, or NULL to skip the parameter. On CUDA, the addresses are on the device, and the work
    /// is enqueued in the stream of the last call. If the ranks exchange data, the call waits until the work is done.
    ///
    /// # Safety
    ///
    /// The bound memory must still meet the requirements of `bind_raw`. Each address that is not NULL must point to
    /// memory for all elements of the parameter that this rank holds. This memory must not overlap the parameter. On
    /// CUDA, the stream of the last call must still exist.
    ///
    /// # Errors
    ///
    /// - [`Code::Invalid`]: `blend` is not in [0, 1], the length of `weights` is not the number of parameters, or an
    ///   address is misaligned.
    /// - [`Code::State`]: a parameter has not been bound, another rank makes a step instead of an export, the stream is
    ///   being captured, or a communicator is in use by another call.
    /// - [`Code::Comm`]: a collective failed, in this call or an earlier one.
    pub unsafe fn export_raw(&mut self, blend: f64, weights: &[*mut c_void]) -> Result<()> {
        let _using = CommUse::begin(&self.in_use)?;
        let count = to_i32("weights", weights.len())?;
        check(sys::shampoo_optimizer_export(self.as_ptr(), blend, count, weights.as_ptr()))
    }

    /// Sets the `cudaStream_t` on which later calls run.
    ///
    /// # Safety
    ///
    /// `stream` must be a stream of the device, and exist until another stream is set or the optimizer is dropped.
    pub unsafe fn set_stream(&mut self, stream: *mut c_void) {
        self.stream = stream;
    }

    /// Sets the arenas from which steps read the state and to which they write it, so that a step can be a pure
    /// function. If both are NULL, steps use the arena of the optimizer again. See `shampoo_optimizer_bind_state` in
    /// the C header.
    ///
    /// # Safety
    ///
    /// Arenas that are not NULL must have the size that [`Plan::bytes`] returns for "state". `state_in` must contain
    /// the state of an optimizer with an equal plan. No other code may use the arenas until other arenas are bound or
    /// the optimizer is dropped.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: only one address is NULL, an arena is misaligned, or the arenas partly overlap.
    pub unsafe fn bind_state(&mut self, state_in: *const c_void, state_out: *mut c_void) -> Result<()> {
        check(sys::shampoo_optimizer_bind_state(self.as_ptr(), state_in, state_out))
    }

    /// Makes each step read "lr", "beta1", "weight_decay" or "gradient_scale" of a group from a number in memory. On
    /// CUDA, the number is in device memory. "beta1" must be above 0 in the plan. If `value` is NULL, steps no longer
    /// read memory: they use the number that was read last (CPU) or the value that was set last (CUDA).
    ///
    /// # Safety
    ///
    /// `value` must be NULL, or point to a number of type `T` until another address is bound or the optimizer is
    /// dropped. The number may only change between steps.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such group, the key is not supported, `T` is neither `f32` nor `f64`, or `value`
    /// is misaligned (on CUDA).
    pub unsafe fn bind_scalar<T: crate::Element>(&mut self, group: usize, key: &str, value: *const T) -> Result<()> {
        let (group, key) = (to_i32("group", group)?, c_string("key", key)?);
        let dtype = T::DTYPE.code();
        check(sys::shampoo_optimizer_bind_scalar(self.as_ptr(), group, key.as_ptr(), dtype, value.cast()))
    }
}
