// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::config::Config;
use crate::error::{c_string, check, to_i32, Error, Result};
use crate::library::Device;
use crate::param::{Param, ParamInfo, Shard};
use libshampoo_sys as sys;
use std::fmt;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// Where a plan is to be carried out: one process, on the CPU, where nothing else is said.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    device: Device,
    threads: usize,
    replica: (usize, usize),
    shard: (usize, usize),
}

impl Default for Place {
    fn default() -> Self {
        Place { device: Device::Cpu, threads: 0, replica: (0, 1), shard: (0, 1) }
    }
}

impl Place {
    /// The device that byte counts are for, and that optimizers are made on.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Threads that work on a step, the caller's among them; 0: as the key "threads" says.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// This process among those that hold the same parameters.
    pub fn replica(mut self, rank: usize, world: usize) -> Self {
        self.replica = (rank, world);
        self
    }

    /// This process among those that hold the shards of one copy.
    pub fn shard(mut self, rank: usize, world: usize) -> Self {
        self.shard = (rank, world);
        self
    }

    fn desc(&self) -> Result<sys::shampoo_plan_desc> {
        let mut desc = sys::shampoo_plan_desc::new();
        desc.device_type = self.device.code();
        desc.threads = to_i32("threads", self.threads)?;
        desc.replica_rank = to_i32("replica rank", self.replica.0)?;
        desc.replica_world = to_i32("replica world", self.replica.1)?;
        desc.shard_rank = to_i32("shard rank", self.shard.0)?;
        desc.shard_world = to_i32("shard world", self.shard.1)?;
        Ok(desc)
    }
}

#[derive(Debug)]
struct Handle(NonNull<sys::shampoo_plan>);

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it any more.
        unsafe { sys::shampoo_plan_destroy(self.0.as_ptr()) }
    }
}

/// What the optimizers of a plan need to know of it.
#[derive(Debug)]
pub(crate) struct Facts {
    pub params: Vec<ParamInfo>,
    /// Of each group, whether a step gives what is to be added to its parameters, and leaves them (key "output").
    pub updates: Vec<bool>,
    pub device: Device,
}

fn gives_updates(config: &Config) -> bool {
    config.get("output").as_deref() == Some("updates")
}

/// A plan that is being filled with groups and parameters.
#[derive(Debug)]
pub struct PlanBuilder {
    handle: Handle,
    facts: Facts,
}

// SAFETY: a plan belongs to no thread.
unsafe impl Send for PlanBuilder {}

impl PlanBuilder {
    /// Begins a plan. The config has the hyper-parameters of group 0 and of the optimizer as a whole; its values are
    /// copied.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): values of the config contradict each other, or a rank is not below its
    /// world. [`Code::Unsupported`](crate::Code::Unsupported): a key has a value that does not work on CUDA.
    pub fn new(config: &Config, place: Place) -> Result<Self> {
        let mut handle = null_mut();
        let desc = place.desc()?;
        // SAFETY: all are what the function asks for.
        check(unsafe { sys::shampoo_plan_create(&mut handle, config.as_ptr(), &desc) })?;
        let handle = Handle(NonNull::new(handle).expect("a call that succeeds has made an object"));
        let updates = vec![gives_updates(config)];
        Ok(PlanBuilder { handle, facts: Facts { params: Vec::new(), updates, device: place.device } })
    }

    /// Adds a parameter group: parameters that share hyper-parameters and a step counter. Gives its number, from 1 on.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): values of the config contradict each other, or a key of the whole
    /// optimizer differs from the plan's.
    pub fn group(&mut self, config: &Config) -> Result<usize> {
        let mut group = 0;
        // SAFETY: the plan is not finished, and the other two are what the function asks for.
        check(unsafe { sys::shampoo_plan_add_group(self.handle.0.as_ptr(), config.as_ptr(), &mut group) })?;
        self.facts.updates.push(gives_updates(config));
        Ok(group as usize)
    }

    /// Adds a parameter. Gives its index, from 0 on: the place of its buffers in a step.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): the name is empty or taken; a dim, dtype, group or shard is out of
    /// range.
    pub fn param(&mut self, param: Param) -> Result<usize> {
        let name = c_string("the name of a parameter,", param.name())?;
        let desc = param.desc(&name)?;
        let mut index = 0;
        // SAFETY: desc and its name live during the call, and are copied.
        check(unsafe { sys::shampoo_plan_add_param(self.handle.0.as_ptr(), &desc, &mut index) })?;
        let updates = self.facts.updates[param.group_number()]; // the library has refused a group that is not there
        self.facts.params.push(param.info(updates));
        Ok(index as usize)
    }

    /// Tells what another shard rank holds of a parameter, where "shard_mode" is gather and the cut is none of the
    /// regular ones.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): the parameter or rank is out of range, or the shard is not within the
    /// parameter.
    pub fn shard(&mut self, param: usize, shard_rank: usize, shard: &Shard) -> Result<()> {
        let who = format!("shard of parameter {param}:");
        let ndim = self.facts.params.get(param).map(|param| param.ndim);
        let ndim = ndim.ok_or_else(|| Error::invalid(format!("{who} there are {}", self.facts.params.len())))?;
        let mut desc = sys::shampoo_param_desc::new();
        shard.fill(&mut desc, &who, ndim)?;
        let (index, rank) = (to_i32("parameter", param)?, to_i32("shard rank", shard_rank)?);
        // SAFETY: of desc what tells of a shard is read.
        check(unsafe { sys::shampoo_plan_add_shard(self.handle.0.as_ptr(), index, rank, &desc) })
    }

    /// Works out blocks, owners and bytes.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): a block is too large, or a number of a config cannot be held by the
    /// arithmetic of a parameter; the error names both.
    pub fn finish(self) -> Result<Plan> {
        // SAFETY: the plan is not finished.
        check(unsafe { sys::shampoo_plan_finish(self.handle.0.as_ptr()) })?;
        Ok(Plan { handle: self.handle, facts: Arc::new(self.facts) })
    }
}

/// One preconditioned block of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// Index of the parameter that it is a part of.
    pub param: usize,
    /// Replica rank that keeps its state and computes its update.
    pub owner: usize,
    /// Shard rank that keeps it.
    pub shard_owner: usize,
    /// Whether it is a block of this rank's shard, which is less than the parameter.
    pub of_shard: bool,
    /// Shape in elements, after merging and splitting; factor k is `shape[k]` x `shape[k]`.
    pub shape: Vec<usize>,
    /// From one index to the next along each dim, in elements.
    pub stride: Vec<usize>,
    /// First element, counted in the same way.
    pub flat_offset: usize,
    /// Bytes of its state.
    pub state_bytes: usize,
}

/// Parameters cut into blocks, with owners and byte counts. It needs no device, and any number of threads read it.
#[derive(Debug)]
pub struct Plan {
    handle: Handle,
    facts: Arc<Facts>,
}

// SAFETY: a finished plan is read by any number of threads.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Plan {
    pub(crate) fn as_ptr(&self) -> *const sys::shampoo_plan {
        self.handle.0.as_ptr()
    }

    pub(crate) fn facts(&self) -> &Arc<Facts> {
        &self.facts
    }

    /// Describes all blocks, by parameter.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfMemory`](crate::Code::OutOfMemory).
    pub fn blocks(&self) -> Result<Vec<Block>> {
        let mut count = 0;
        // SAFETY: the plan is finished.
        check(unsafe { sys::shampoo_plan_block_count(self.as_ptr(), &mut count) })?;
        (0..count)
            .map(|index| {
                let mut info = sys::shampoo_block_info::new();
                // SAFETY: info has its size.
                check(unsafe { sys::shampoo_plan_block(self.as_ptr(), index, &mut info) })?;
                let dims = |values: [i64; 8]| values[..info.ndim as usize].iter().map(|dim| *dim as usize).collect();
                Ok(Block {
                    param: info.param as usize,
                    owner: info.owner as usize,
                    shard_owner: info.shard_owner as usize,
                    of_shard: info.of_shard == 1,
                    shape: dims(info.shape),
                    stride: dims(info.stride),
                    flat_offset: info.flat_offset as usize,
                    state_bytes: info.state_bytes as usize,
                })
            })
            .collect()
    }

    /// Bytes that an optimizer will allocate on this rank. `what` is "state", "workspace", "total", or "comm", what it
    /// sends in a step.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): `what` is none of these.
    pub fn bytes(&self, what: &str) -> Result<usize> {
        self.bytes_of(-1, what)
    }

    /// The same of another rank: replica rank, or with "shard_mode" gather replica rank * shard world + shard rank.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): `what` is none of these, or the rank is out of range.
    pub fn bytes_on(&self, rank: usize, what: &str) -> Result<usize> {
        self.bytes_of(to_i32("rank", rank)?, what)
    }

    fn bytes_of(&self, rank: i32, what: &str) -> Result<usize> {
        let what = c_string("bytes of", what)?;
        let mut bytes = 0;
        // SAFETY: all are what the function asks for.
        check(unsafe { sys::shampoo_plan_bytes(self.as_ptr(), rank, what.as_ptr(), &mut bytes) })?;
        Ok(bytes as usize)
    }

    /// Number of parameters, and so of buffers of a step.
    pub fn param_count(&self) -> usize {
        self.facts.params.len()
    }

    /// Number of parameter groups.
    pub fn group_count(&self) -> usize {
        self.facts.updates.len()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.blocks().map_or(0, |blocks| blocks.len());
        let (state, workspace) = (self.bytes("state").unwrap_or(0), self.bytes("workspace").unwrap_or(0));
        write!(
            formatter,
            "{} parameters, {blocks} blocks, state {} KiB, workspace {} KiB",
            self.param_count(),
            state / 1024,
            workspace / 1024
        )
    }
}
