// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::buffers::Buffers;
use crate::comm_use::{CommUse, InUse};
use crate::error::{c_string, check, to_i32, Code, Error, Result};
use crate::library::Device;
use crate::plan::Facts;
use libshampoo_sys as sys;
use std::fmt;
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// A Shampoo optimizer, which steps the caller's slices where they are.
///
/// It holds the state, and no buffer: [`step`](Optimizer::step) borrows parameters and gradients for the time of the
/// call. One optimizer is used by one thread at a time, not always the same one:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<libshampoo::Optimizer>();
/// ```
///
/// ```
/// fn moved<T: Send>() {}
/// moved::<libshampoo::Optimizer>();
/// ```
///
/// Make it after a fork, not before: its threads do not live on in a child.
pub struct Optimizer {
    handle: NonNull<sys::shampoo_optimizer>,
    facts: Arc<Facts>,
    bound: Vec<sys::shampoo_buffers>,
    pub(crate) in_use: Vec<InUse>,
    pub(crate) stream: *mut c_void,
}

// SAFETY: an optimizer belongs to no thread; communicators and executors in it are Send and Sync.
unsafe impl Send for Optimizer {}

impl Optimizer {
    /// Takes over what the library has made.
    pub(crate) fn own(
        handle: *mut sys::shampoo_optimizer,
        facts: Arc<Facts>,
        in_use: Vec<InUse>,
        stream: *mut c_void,
    ) -> Self {
        let handle = NonNull::new(handle).expect("a call that succeeds has made an object");
        Optimizer { handle, bound: Vec::with_capacity(facts.params.len()), facts, in_use, stream }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::shampoo_optimizer {
        self.handle.as_ptr()
    }

    /// Makes one step: reads parameters and gradients, and writes parameters. `buffers` has one for each parameter, in
    /// the order of the plan; nothing of it is used after the call.
    ///
    /// ```
    /// # use libshampoo::{Buffers, Config, Optimizer, Param, Place, PlanBuilder};
    /// let mut config = Config::new()?;
    /// config.set("lr", 0.5)?.set("grafting", "adam")?;
    /// let mut plan = PlanBuilder::new(&config, Place::default())?;
    /// plan.param(Param::new("w", &[4, 3]))?;
    /// let mut opt = Optimizer::new(&plan.finish()?)?;
    ///
    /// let mut w = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0];
    /// for _ in 0..200 {
    ///     let gradient = w; // of half the squared norm
    ///     opt.step(&mut [Buffers::new(&mut w).with_grad(&gradient)])?;
    /// }
    /// assert!(w.iter().all(|value| value.abs() < 0.1));
    /// # Ok::<(), libshampoo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Code::Numeric`]: a gradient is not finite, or a state would overflow; nothing has changed, and training may go
    /// on. [`Code::Invalid`]: a buffer has another length or dtype than its parameter, or ranks differ.
    /// [`Code::Comm`]: a collective failed, in this step or an earlier one. [`Code::State`]: the optimizer is on CUDA,
    /// where [`bind_raw`](Optimizer::bind_raw) takes addresses of the device; or a communicator is in use by another
    /// call.
    pub fn step(&mut self, buffers: &mut [Buffers<'_>]) -> Result<()> {
        if self.facts.device != Device::Cpu {
            let what = "step: the optimizer is on CUDA, and slices are memory of the host: bind_raw() and step_raw()";
            return Err(Error::new(Code::State, what));
        }
        if buffers.len() != self.facts.params.len() {
            return Err(Error::invalid(format!(
                "step: {} buffers are given, and the plan has {} parameters: give one for each, in their order",
                buffers.len(),
                self.facts.params.len()
            )));
        }
        self.bound.clear();
        for (param, buffers) in self.facts.params.iter().zip(buffers) {
            self.bound.push(buffers.addresses(param)?);
        }
        let _using = CommUse::begin(&self.in_use)?;
        // SAFETY: what is bound is borrowed during this call, and no later step uses it: each binds all parameters.
        unsafe {
            check(sys::shampoo_optimizer_bind(self.as_ptr(), 0, self.bound.len() as i32, self.bound.as_ptr()))?;
            check(sys::shampoo_optimizer_step(self.as_ptr(), null_mut()))
        }
    }

    /// Changes a hyper-parameter of a group from the next step on: one whose [`Key`](crate::Key) is changeable.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such group or key, it is fixed, or the value is out of range. [`Code::State`]:
    /// "beta1" or "momentum" is 0 in the plan, so that it has no state.
    pub fn set(&mut self, group: usize, key: &str, value: f64) -> Result<()> {
        let (group, key) = (to_i32("group", group)?, c_string("key", key)?);
        // SAFETY: key is a C string.
        check(unsafe { sys::shampoo_optimizer_set(self.as_ptr(), group, key.as_ptr(), value) })
    }

    /// Changes the learning rate of all groups from the next step on.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: it is out of range, or of that of the arithmetic of a group; nothing has changed.
    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        let groups = 0..self.facts.updates.len();
        let before = groups.map(|group| self.get(group, "lr")).collect::<Result<Vec<f64>>>()?;
        for group in 0..before.len() {
            if let Err(error) = self.set(group, "lr", lr) {
                for (earlier, value) in before[..group].iter().enumerate() {
                    self.set(earlier, "lr", *value)?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Gives a number of a group: a hyper-parameter of type "f64", "i64" or "bool" (0 or 1), worked out where it was
    /// "auto".
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such group or key, or it has no number to give.
    pub fn get(&self, group: usize, key: &str) -> Result<f64> {
        let (group, key) = (to_i32("group", group)?, c_string("key", key)?);
        let mut value = 0.0;
        // SAFETY: key is a C string, and value a place for the result.
        check(unsafe { sys::shampoo_optimizer_get(self.as_ptr(), group, key.as_ptr(), &mut value) })?;
        Ok(value)
    }

    /// Gives a counter since the optimizer was made, such as "steps" or "root_computed"; `shampoo_optimizer_stat` in the
    /// header has them all.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such counter.
    pub fn stat(&self, key: &str) -> Result<f64> {
        let key = c_string("key", key)?;
        let mut value = 0.0;
        // SAFETY: key is a C string, and value a place for the result.
        check(unsafe { sys::shampoo_optimizer_stat(self.as_ptr(), key.as_ptr(), &mut value) })?;
        Ok(value)
    }

    /// Tells what steps on CUDA have found since it was told last; on the CPU there is never anything. With `wait` it
    /// waits for all steps so far.
    ///
    /// # Errors
    ///
    /// As of [`step`](Optimizer::step); [`Error::step`] is the number of the step that was refused.
    pub fn status(&mut self, wait: bool) -> Result<()> {
        let _using = CommUse::begin(&self.in_use)?;
        let mut step = 0;
        // SAFETY: step is a place for the result.
        check(unsafe { sys::shampoo_optimizer_status(self.as_ptr(), wait.into(), &mut step) })
            .map_err(|error| error.at_step(step))
    }
}

impl Drop for Optimizer {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it any more.
        unsafe { sys::shampoo_optimizer_destroy(self.as_ptr()) }
    }
}

impl fmt::Debug for Optimizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.facts.params.iter().map(|param| param.name.as_str()).collect();
        formatter.debug_struct("Optimizer").field("device", &self.facts.device).field("params", &names).finish()
    }
}
