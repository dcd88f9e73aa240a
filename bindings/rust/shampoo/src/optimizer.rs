// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::buffers::Buffers;
use crate::comm::Comm;
use crate::error::{c_string, check, to_i32, Code, Error, Result};
use crate::executor::{describe, discard, Executor};
use crate::library::Device;
use crate::plan::{Facts, Plan};
use shampoo_sys as sys;
use std::fmt;
use std::os::raw::c_void;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// What an optimizer is made on: the CPU, one rank, the library's own memory and threads, where nothing else is said.
pub struct OptimizerBuilder<'a> {
    plan: &'a Plan,
    desc: sys::shampoo_optimizer_desc,
    comms: [Option<&'a Comm>; 2],
    executor: Option<Box<dyn Executor>>,
    allocator: Option<sys::shampoo_allocator>,
}

impl<'a> OptimizerBuilder<'a> {
    /// Which device of the plan's type, counted as CUDA does.
    pub fn device_id(mut self, id: i32) -> Self {
        self.desc.device_id = id;
        self
    }

    /// Ranks that hold the same parameters, as many as the plan says. Making the optimizer is collective then.
    pub fn replica_comm(mut self, comm: &'a Comm) -> Self {
        self.comms[0] = Some(comm);
        self
    }

    /// Ranks that hold the shards of one copy, as many as the plan says. Making the optimizer is collective then.
    pub fn shard_comm(mut self, comm: &'a Comm) -> Self {
        self.comms[1] = Some(comm);
        self
    }

    /// Where parallel work runs.
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.executor = Some(Box::new(executor));
        self
    }

    /// Where memory comes from.
    ///
    /// # Safety
    ///
    /// Its functions do what the header says of `shampoo_allocator`, on any thread.
    pub unsafe fn allocator(mut self, allocator: sys::shampoo_allocator) -> Self {
        self.allocator = Some(allocator);
        self
    }

    /// On CUDA the `cudaStream_t` in whose order the state is initialised, and in which all calls are made; NULL is the
    /// legacy default stream.
    ///
    /// # Safety
    ///
    /// It is a stream of the device, and lives until another is set or the optimizer is dropped.
    pub unsafe fn stream(mut self, stream: *mut c_void) -> Self {
        self.desc.stream = stream;
        self
    }

    /// The memory of the state: on the host, on CUDA on the device, aligned to 64 bytes.
    ///
    /// # Safety
    ///
    /// `state` is `bytes` bytes that nobody else uses until the optimizer is dropped, or another arena is bound.
    pub unsafe fn state(mut self, state: *mut c_void, bytes: usize) -> Self {
        self.desc.state = state;
        self.desc.state_bytes = bytes;
        self
    }

    /// Makes the optimizer, and initialises its state. All memory and threads are made here.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`]: a communicator has another rank or world than the plan, or plans of ranks differ.
    /// [`Code::OutOfMemory`]: the text tells the bytes. [`Code::Comm`]: a collective failed. [`Code::Unsupported`]: CUDA
    /// cannot be used here, for the reason that [`backends`](crate::backends) tells.
    pub fn build(mut self) -> Result<Optimizer> {
        let facts = Arc::clone(self.plan.facts());
        let mut handle = null_mut();
        self.desc.device_type = facts.device.code();
        self.desc.replica_comm = self.comms[0].map_or_else(null_mut, Comm::as_ptr);
        self.desc.shard_comm = self.comms[1].map_or_else(null_mut, Comm::as_ptr);
        let executor = self.executor.take().map(describe);
        if let Some(executor) = &executor {
            self.desc.executor = executor;
        }
        if let Some(allocator) = &self.allocator {
            self.desc.allocator = allocator;
        }
        // SAFETY: the plan is finished; desc and what it points to live during the call, and are copied.
        let made = check(unsafe { sys::shampoo_optimizer_create(&mut handle, self.plan.as_ptr(), &self.desc) });
        if let Err(error) = made {
            if let Some(executor) = &executor {
                discard(executor); // release is not called where the call fails
            }
            return Err(error);
        }
        let handle = NonNull::new(handle).expect("a call that succeeds has made an object");
        Ok(Optimizer {
            handle,
            bound: Vec::with_capacity(facts.params.len()),
            facts,
            stream: self.desc.stream,
        })
    }
}

/// A Shampoo optimizer, which steps the caller's slices where they are.
///
/// It holds the state, and no buffer: [`step`](Optimizer::step) borrows parameters and gradients for the time of the
/// call. One optimizer is used by one thread at a time, not always the same one:
///
/// ```compile_fail,E0277
/// fn shared<T: Sync>() {}
/// shared::<shampoo::Optimizer>();
/// ```
///
/// ```
/// fn moved<T: Send>() {}
/// moved::<shampoo::Optimizer>();
/// ```
///
/// Make it after a fork, not before: its threads do not live on in a child.
pub struct Optimizer {
    handle: NonNull<sys::shampoo_optimizer>,
    facts: Arc<Facts>,
    bound: Vec<sys::shampoo_buffers>,
    stream: *mut c_void,
}

// SAFETY: an optimizer belongs to no thread; communicators and executors in it are Send and Sync.
unsafe impl Send for Optimizer {}

impl Optimizer {
    /// Makes an optimizer of one rank on the plan's device.
    ///
    /// # Errors
    ///
    /// As of [`OptimizerBuilder::build`].
    pub fn new(plan: &Plan) -> Result<Self> {
        Optimizer::builder(plan).build()
    }

    /// Begins an optimizer with communicators, or with threads and memory of the caller.
    pub fn builder(plan: &Plan) -> OptimizerBuilder<'_> {
        let desc = sys::shampoo_optimizer_desc::new();
        OptimizerBuilder {
            plan,
            desc,
            comms: [None, None],
            executor: None,
            allocator: None,
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::shampoo_optimizer {
        self.handle.as_ptr()
    }

    pub(crate) fn stream(&self) -> *mut c_void {
        self.stream
    }

    /// Makes one step: reads parameters and gradients, and writes parameters. `buffers` has one for each parameter, in
    /// the order of the plan; nothing of it is used after the call.
    ///
    /// ```
    /// # use shampoo::{Buffers, Config, Optimizer, Param, Place, PlanBuilder};
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
    /// # Ok::<(), shampoo::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Code::Numeric`]: a gradient is not finite, or a state would overflow; nothing has changed, and training may go
    /// on. [`Code::Invalid`]: a buffer has another length or dtype than its parameter, or ranks differ.
    /// [`Code::Comm`]: a collective failed, in this step or an earlier one. [`Code::State`]: the optimizer is on CUDA,
    /// where [`bind_raw`](Optimizer::bind_raw) takes addresses of the device.
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
            self.bound.push(buffers.addresses(param, self.facts.updates)?);
        }
        // SAFETY: what is bound is borrowed during this call, and no later step uses it: each binds all parameters.
        unsafe {
            check(sys::shampoo_optimizer_bind(
                self.as_ptr(),
                0,
                self.bound.len() as i32,
                self.bound.as_ptr(),
            ))?;
            check(sys::shampoo_optimizer_step(self.as_ptr(), null_mut()))
        }
    }

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
        check(sys::shampoo_optimizer_bind(
            self.as_ptr(),
            first,
            count,
            buffers.as_ptr(),
        ))
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
        check(sys::shampoo_optimizer_bind_scalar(
            self.as_ptr(),
            group,
            key.as_ptr(),
            dtype,
            value.cast(),
        ))
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
    /// [`Code::Invalid`]: it is out of range; nothing has changed.
    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        (0..self.facts.groups).try_for_each(|group| self.set(group, "lr", lr))
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
        formatter
            .debug_struct("Optimizer")
            .field("device", &self.facts.device)
            .field("params", &names)
            .finish()
    }
}
