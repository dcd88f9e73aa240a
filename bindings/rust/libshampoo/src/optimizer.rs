// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::buffers::Buffers;
use crate::comm_use::{CommUse, InUse};
use crate::config::Config;
use crate::error::{c_string, check, to_i32, Code, Error, Result};
use crate::library::Device;
use crate::param::Param;
use crate::plan::{PlanBuilder, PlanInfo, PlanOptions};
use libshampoo_sys as sys;
use std::fmt;
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// A Shampoo optimizer, which updates the caller's slices in place.
///
/// It owns the state but no buffers: [`step`](Optimizer::step) borrows parameters and gradients during the call. An
/// optimizer is `Send`, but not `Sync`: it can move to another thread, and only one thread at a time can use it.
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
/// Create optimizers after a fork, not before it: threads that an optimizer has started do not exist in a child
/// process.
pub struct Optimizer {
    handle: NonNull<sys::shampoo_optimizer>,
    info: Arc<PlanInfo>,
    bound: Vec<sys::shampoo_buffers>,
    pub(crate) in_use: Vec<InUse>,
    pub(crate) stream: *mut c_void,
}

// SAFETY: an optimizer is not bound to a thread; its communicators and executor are Send and Sync.
unsafe impl Send for Optimizer {}

impl Optimizer {
    /// Takes ownership of a new handle.
    pub(crate) fn own(
        handle: *mut sys::shampoo_optimizer,
        info: Arc<PlanInfo>,
        in_use: Vec<InUse>,
        stream: *mut c_void,
    ) -> Self {
        let handle = NonNull::new(handle).expect("a successful call returns an object");
        Optimizer { handle, bound: Vec::with_capacity(info.params.len()), info, in_use, stream }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::shampoo_optimizer {
        self.handle.as_ptr()
    }

    /// Creates an optimizer for one rank on the CPU, from parameters and options such as "lr=0.1 weight_decay=0.01".
    /// [`Config::parse`](crate::Config::parse) describes the options; "" selects the defaults.
    ///
    /// ```
    /// # use libshampoo::{Buffers, Optimizer, Param};
    /// let mut opt = Optimizer::create("lr=0.1", [Param::new("w", &[2, 3]), Param::new("b", &[3])])?;
    /// let (mut w, mut b) = ([1.0f32; 6], [0.0f32; 3]);
    /// let (w_grad, b_grad) = ([0.5f32; 6], [0.5f32; 3]);
    /// opt.step(&mut [Buffers::new(&mut w).with_grad(&w_grad), Buffers::new(&mut b).with_grad(&b_grad)])?;
    /// assert!(w[0] < 1.0 && b[0] < 0.0);
    /// # Ok::<(), libshampoo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Code::Invalid`]: an option or a parameter is wrong.
    /// - [`Code::OutOfMemory`]: memory or threads ran out.
    pub fn create(options: &str, params: impl IntoIterator<Item = Param>) -> Result<Self> {
        let mut config = Config::new()?;
        config.parse(options)?;
        let mut plan = PlanBuilder::new(&config, PlanOptions::default())?;
        for param in params {
            plan.param(param)?;
        }
        Optimizer::new(&plan.finish()?)
    }

    /// Runs one step: reads gradients, and updates parameters. `buffers` has an element for each parameter, in the
    /// order of the plan. The optimizer does not use the buffers after the call.
    ///
    /// ```
    /// # use libshampoo::{Buffers, Config, Optimizer, Param, PlanOptions, PlanBuilder};
    /// let mut config = Config::new()?;
    /// config.set("lr", 0.5)?.set("grafting", "adam")?;
    /// let mut plan = PlanBuilder::new(&config, PlanOptions::default())?;
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
    /// - [`Code::Numeric`]: a gradient is not finite, or a state would overflow. Parameters have not changed, and with
    ///   one rank, the state has not changed either. Training can continue.
    /// - [`Code::Invalid`]: a buffer does not have the length or dtype of its parameter, a key has different values on
    ///   different ranks, or a gradient is missing on some ranks only.
    /// - [`Code::Comm`]: a collective failed, in this step or an earlier one.
    /// - [`Code::State`]: a communicator is in use by another call, the optimizer is on CUDA, or there is a cause that
    ///   the C header lists for `shampoo_optimizer_step`. On CUDA, use [`bind_raw`](Optimizer::bind_raw) and
    ///   [`step_raw`](Optimizer::step_raw).
    pub fn step(&mut self, buffers: &mut [Buffers<'_>]) -> Result<()> {
        self.read_addresses("step", buffers)?;
        let _using = CommUse::begin(&self.in_use)?;
        // SAFETY: the bound memory is borrowed during this call. A later call of this function binds all parameters
        // again. step_raw and export_raw bind nothing: they require that their caller has bound valid memory.
        unsafe {
            check(sys::shampoo_optimizer_bind(self.as_ptr(), 0, self.bound.len() as i32, self.bound.as_ptr()))?;
            check(sys::shampoo_optimizer_step(self.as_ptr(), null_mut()))
        }
    }

    /// Writes averages of the parameters, for evaluation and for use after training, to the memory that
    /// [`Buffers::with_out`] has set. Nothing is written for parameters without such memory. The result is
    /// (1 - `blend`) * parameter + `blend` * average. The keys "averaging" and "weight_ema" select the average;
    /// parameters of groups without an average are copied. The parameters and the state do not change.
    ///
    /// ```
    /// # use libshampoo::{Buffers, Optimizer, Param};
    /// let mut opt = Optimizer::create("weight_ema=0.9", [Param::new("w", &[4])])?;
    /// let (mut w, mut average) = ([1.0f32; 4], [0.0f32; 4]);
    /// opt.step(&mut [Buffers::new(&mut w).with_grad(&[0.5f32; 4])])?;
    /// opt.export(1.0, &mut [Buffers::read_only(&w).with_out(&mut average)])?;
    /// assert_eq!(average, w); // after step 1, the average is equal to the parameter
    /// # Ok::<(), libshampoo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// - [`Code::Invalid`]: `blend` is not in [0, 1], or a buffer does not match its parameter.
    /// - [`Code::Comm`]: a collective failed, in this call or an earlier one.
    /// - [`Code::State`]: another rank makes a step instead of an export, a communicator is in use by another call, or
    ///   the optimizer is on CUDA. On CUDA, use [`export_raw`](Optimizer::export_raw).
    pub fn export(&mut self, blend: f64, buffers: &mut [Buffers<'_>]) -> Result<()> {
        let weights: Vec<*mut c_void> = buffers.iter().map(Buffers::out_address).collect();
        self.read_addresses("export", buffers)?;
        let _using = CommUse::begin(&self.in_use)?;
        let count = self.bound.len() as i32;
        // SAFETY: as in step(). read_addresses() has checked the memory to which the averages are written.
        unsafe {
            check(sys::shampoo_optimizer_bind(self.as_ptr(), 0, count, self.bound.as_ptr()))?;
            check(sys::shampoo_optimizer_export(self.as_ptr(), blend, count, weights.as_ptr()))
        }
    }

    /// Stores the addresses of the buffers in `self.bound`.
    fn read_addresses(&mut self, call: &str, buffers: &mut [Buffers<'_>]) -> Result<()> {
        if self.info.device != Device::Cpu {
            return Err(Error::new(
                Code::State,
                format!(
                    "{call}: the optimizer is on CUDA, and slices are in host memory; use bind_raw() and {call}_raw()"
                ),
            ));
        }
        if buffers.len() != self.info.params.len() {
            return Err(Error::invalid(format!(
                "{call}: {} buffers; expected {}, one for each parameter, in the order of the plan",
                buffers.len(),
                self.info.params.len()
            )));
        }
        self.bound.clear();
        for (param, buffers) in self.info.params.iter().zip(buffers) {
            self.bound.push(buffers.addresses(param)?);
        }
        Ok(())
    }

    /// Changes a hyper-parameter of a group, starting with the next step. The [`Key`](crate::Key) of the
    /// hyper-parameter must be `changeable`.
    ///
    /// # Errors
    ///
    /// - [`Code::Invalid`]: there is no such group or key, the key cannot be changed, or the value is out of range.
    /// - [`Code::State`]: the key is "beta1" or "momentum", and is 0 in the plan, which therefore has no state for it.
    pub fn set(&mut self, group: usize, key: &str, value: f64) -> Result<()> {
        let (group, key) = (to_i32("group", group)?, c_string("key", key)?);
        // SAFETY: key is a C string.
        check(unsafe { sys::shampoo_optimizer_set(self.as_ptr(), group, key.as_ptr(), value) })
    }

    /// Changes the learning rate of all groups, starting with the next step.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: the value is outside the range of "lr", or too large for the "computation_dtype" of a group.
    /// No group changes.
    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        let groups = 0..self.info.updates.len();
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

    /// Returns a hyper-parameter of a group. The type of its key must be "f64", "i64" or "bool" (0 or 1). If the value
    /// is "auto", returns the number that the library uses.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such group or key, or the value is not a single number.
    pub fn get(&self, group: usize, key: &str) -> Result<f64> {
        let (group, key) = (to_i32("group", group)?, c_string("key", key)?);
        let mut value = 0.0;
        // SAFETY: key is a C string, and value can receive the result.
        check(unsafe { sys::shampoo_optimizer_get(self.as_ptr(), group, key.as_ptr(), &mut value) })?;
        Ok(value)
    }

    /// Returns a counter, such as "steps" or "root_computed". `shampoo_optimizer_stat` in the C header lists all
    /// counters. Most of them start at 0 when the optimizer is created.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: there is no such counter.
    pub fn stat(&self, key: &str) -> Result<f64> {
        let key = c_string("key", key)?;
        let mut value = 0.0;
        // SAFETY: key is a C string, and value can receive the result.
        check(unsafe { sys::shampoo_optimizer_stat(self.as_ptr(), key.as_ptr(), &mut value) })?;
        Ok(value)
    }

    /// Reports the first error that a step on CUDA has caused and that no earlier call has reported. On the CPU, there
    /// is nothing to report. If `wait` is true, waits until all enqueued steps have finished. With several ranks on
    /// CUDA, all ranks must call `status`, and the call always waits.
    ///
    /// # Errors
    ///
    /// The same as for [`step`](Optimizer::step); [`Error::step`] is the number of the step that failed.
    pub fn status(&mut self, wait: bool) -> Result<()> {
        let _using = CommUse::begin(&self.in_use)?;
        let mut step = 0;
        // SAFETY: step can receive the result.
        check(unsafe { sys::shampoo_optimizer_status(self.as_ptr(), wait.into(), &mut step) })
            .map_err(|error| error.at_step(step))
    }
}

impl Drop for Optimizer {
    fn drop(&mut self) {
        // SAFETY: this object owns the handle, and no call uses it.
        unsafe { sys::shampoo_optimizer_destroy(self.as_ptr()) }
    }
}

impl fmt::Debug for Optimizer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.info.params.iter().map(|param| param.name.as_str()).collect();
        formatter.debug_struct("Optimizer").field("device", &self.info.device).field("params", &names).finish()
    }
}
