// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::comm::Comm;
use crate::comm_use::{distinct, CommUse};
#[cfg(doc)]
use crate::error::Code;
use crate::error::{check, Result};
use crate::executor::{describe, discard, Executor};
use crate::optimizer::Optimizer;
use crate::plan::Plan;
use libshampoo_sys as sys;
use std::os::raw::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// What an optimizer is made on: the CPU, one rank, the library's own memory and threads, where nothing else is said.
pub struct OptimizerBuilder<'a> {
    plan: &'a Plan,
    desc: sys::shampoo_optimizer_desc,
    comms: [Option<&'a Comm>; 2],
    executor: Option<Box<dyn Executor>>,
    allocator: Option<sys::shampoo_allocator>,
}

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
        OptimizerBuilder::new(plan)
    }
}

impl<'a> OptimizerBuilder<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let desc = sys::shampoo_optimizer_desc::new();
        OptimizerBuilder { plan, desc, comms: [None, None], executor: None, allocator: None }
    }

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
    /// cannot be used here, for the reason that [`backends`](crate::backends) tells. [`Code::State`]: a communicator is in
    /// use by another call.
    pub fn build(mut self) -> Result<Optimizer> {
        let facts = Arc::clone(self.plan.facts());
        let in_use = distinct(self.comms.iter().flatten().map(|comm| comm.in_use()));
        let using = CommUse::begin(&in_use)?;
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
        drop(using);
        Ok(Optimizer::own(handle, facts, in_use, self.desc.stream))
    }
}
