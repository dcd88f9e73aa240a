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

/// Options of a new optimizer. By default, the optimizer is for one rank, and the library provides memory and threads.
pub struct OptimizerBuilder<'a> {
    plan: &'a Plan,
    desc: sys::shampoo_optimizer_desc,
    comms: [Option<&'a Comm>; 2],
    executor: Option<Box<dyn Executor>>,
    allocator: Option<sys::shampoo_allocator>,
}

impl Optimizer {
    /// Creates an optimizer for one rank on the plan's device.
    ///
    /// # Errors
    ///
    /// The same as for [`OptimizerBuilder::build`].
    pub fn new(plan: &Plan) -> Result<Self> {
        Optimizer::builder(plan).build()
    }

    /// Returns a builder for an optimizer with communicators, or with threads or memory of the caller.
    pub fn builder(plan: &Plan) -> OptimizerBuilder<'_> {
        OptimizerBuilder::new(plan)
    }
}

impl<'a> OptimizerBuilder<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let desc = sys::shampoo_optimizer_desc::new();
        OptimizerBuilder { plan, desc, comms: [None, None], executor: None, allocator: None }
    }

    /// Sets the index of the CUDA device. On the CPU it must be 0.
    pub fn device_id(mut self, id: i32) -> Self {
        self.desc.device_id = id;
        self
    }

    /// Sets the communicator of the ranks that hold the same parameters. It must have as many ranks as the plan has
    /// replicas. With a communicator, [`build`](OptimizerBuilder::build) is collective.
    pub fn replica_comm(mut self, comm: &'a Comm) -> Self {
        self.comms[0] = Some(comm);
        self
    }

    /// Sets the communicator of the ranks that hold the shards of one copy of the parameters. It must have as many
    /// ranks as the plan has shards. With a communicator, [`build`](OptimizerBuilder::build) is collective.
    pub fn shard_comm(mut self, comm: &'a Comm) -> Self {
        self.comms[1] = Some(comm);
        self
    }

    /// Sets the executor that runs parallel work instead of the library's threads.
    pub fn executor(mut self, executor: impl Executor + 'static) -> Self {
        self.executor = Some(Box::new(executor));
        self
    }

    /// Sets the allocator for the arena of the state and for the workspace, which includes the exchange buffers. Small
    /// tables stay on the library's heap.
    ///
    /// # Safety
    ///
    /// The functions of `allocator` must meet the requirements of `shampoo_allocator` in the C header, whichever thread
    /// calls them.
    pub unsafe fn allocator(mut self, allocator: sys::shampoo_allocator) -> Self {
        self.allocator = Some(allocator);
        self
    }

    /// Sets the `cudaStream_t` on which the state is initialized and on which later calls run. NULL is the legacy
    /// default stream.
    ///
    /// # Safety
    ///
    /// `stream` must be a stream of the device, and exist until another stream is set or the optimizer is dropped.
    pub unsafe fn stream(mut self, stream: *mut c_void) -> Self {
        self.desc.stream = stream;
        self
    }

    /// Sets the memory for the state of the optimizer. It must be aligned to 64 bytes. On CUDA, it must be memory of
    /// the device.
    ///
    /// # Safety
    ///
    /// `state` must point to `bytes` bytes that no other code uses until the optimizer is dropped or another arena is
    /// bound.
    pub unsafe fn state(mut self, state: *mut c_void, bytes: usize) -> Self {
        self.desc.state = state;
        self.desc.state_bytes = bytes;
        self
    }

    /// Creates the optimizer, and initializes its state. This call allocates all memory and starts all threads.
    ///
    /// # Errors
    ///
    /// - [`Code::Invalid`]: the rank or the number of ranks in a communicator differs from that in the plan, or the
    ///   plans of two ranks differ.
    /// - [`Code::OutOfMemory`]: memory or threads ran out; the message has the requested number of bytes or threads.
    /// - [`Code::Comm`]: a collective failed.
    /// - [`Code::Unsupported`]: CUDA cannot be used; [`backends`](crate::backends) reports the reason.
    /// - [`Code::State`]: a communicator is in use by another call.
    pub fn build(mut self) -> Result<Optimizer> {
        let info = Arc::clone(self.plan.info());
        let in_use = distinct(self.comms.iter().flatten().map(|comm| comm.in_use()));
        let using = CommUse::begin(&in_use)?;
        let mut handle = null_mut();
        self.desc.device_type = info.device.code();
        self.desc.replica_comm = self.comms[0].map_or_else(null_mut, Comm::as_ptr);
        self.desc.shard_comm = self.comms[1].map_or_else(null_mut, Comm::as_ptr);
        let executor = self.executor.take().map(describe);
        if let Some(executor) = &executor {
            self.desc.executor = executor;
        }
        if let Some(allocator) = &self.allocator {
            self.desc.allocator = allocator;
        }
        // SAFETY: the plan is finished. The call copies desc and the structs to which desc points.
        let result = check(unsafe { sys::shampoo_optimizer_create(&mut handle, self.plan.as_ptr(), &self.desc) });
        if let Err(error) = result {
            if let Some(executor) = &executor {
                discard(executor); // the library does not call release after a failure
            }
            return Err(error);
        }
        drop(using);
        Ok(Optimizer::own(handle, info, in_use, self.desc.stream))
    }
}
