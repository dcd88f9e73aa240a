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

/// Options of a plan: the device, the number of threads and the ranks. The default is one process on the CPU.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    device: Device,
    threads: usize,
    replica: (usize, usize),
    shard: (usize, usize),
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions { device: Device::Cpu, threads: 0, replica: (0, 1), shard: (0, 1) }
    }
}

impl PlanOptions {
    /// Sets the type of device of the optimizers. The device does not have to exist when the plan is created.
    pub fn device(mut self, device: Device) -> Self {
        self.device = device;
        self
    }

    /// Sets the number of threads that work on a step, including the calling thread. 0 (the default) selects the
    /// value of the key "threads".
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the number of processes that hold the same parameters, and the rank of this process among them.
    pub fn replica(mut self, rank: usize, world: usize) -> Self {
        self.replica = (rank, world);
        self
    }

    /// Sets the number of processes that hold the shards of one copy of the parameters, and the rank of this process
    /// among them.
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
        // SAFETY: this object owns the handle, and no call uses it.
        unsafe { sys::shampoo_plan_destroy(self.0.as_ptr()) }
    }
}

/// Properties of a plan that its optimizers use.
#[derive(Debug)]
pub(crate) struct PlanInfo {
    pub params: Vec<ParamInfo>,
    /// For each group, whether its config has `output=updates`.
    pub updates: Vec<bool>,
    pub device: Device,
}

fn has_updates(config: &Config) -> bool {
    config.get("output").as_deref() == Some("updates")
}

/// A plan that is not finished yet: groups and parameters can still be added.
#[derive(Debug)]
pub struct PlanBuilder {
    handle: Handle,
    info: PlanInfo,
}

// SAFETY: a plan is not bound to a thread.
unsafe impl Send for PlanBuilder {}

impl PlanBuilder {
    /// Creates a plan. The config contains the hyper-parameters of group 0 and of the whole optimizer. The plan copies
    /// the config.
    ///
    /// # Errors
    ///
    /// - [`Code::Invalid`](crate::Code::Invalid): values of the config contradict each other, or a rank is not below
    ///   the number of ranks.
    /// - [`Code::Unsupported`](crate::Code::Unsupported): the value of a key is not supported on CUDA.
    pub fn new(config: &Config, options: PlanOptions) -> Result<Self> {
        let mut handle = null_mut();
        let desc = options.desc()?;
        // SAFETY: all arguments are valid.
        check(unsafe { sys::shampoo_plan_create(&mut handle, config.as_ptr(), &desc) })?;
        let handle = Handle(NonNull::new(handle).expect("a successful call returns an object"));
        let updates = vec![has_updates(config)];
        Ok(PlanBuilder { handle, info: PlanInfo { params: Vec::new(), updates, device: options.device } })
    }

    /// Adds a parameter group: parameters that share hyper-parameters and a step counter. Returns the number of the
    /// group, which is 1 for the first group that is added.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): values of the config contradict each other, or a key of the whole
    /// optimizer is set to another value than in the plan.
    pub fn group(&mut self, config: &Config) -> Result<usize> {
        let mut group = 0;
        // SAFETY: the plan is not finished, and all arguments are valid.
        check(unsafe { sys::shampoo_plan_add_group(self.handle.0.as_ptr(), config.as_ptr(), &mut group) })?;
        self.info.updates.push(has_updates(config));
        Ok(group as usize)
    }

    /// Adds a parameter. Returns its index, which is 0 for the first parameter. A step expects the buffers of the
    /// parameters in the order of their indices.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): the name is empty or taken, or a dim, dtype, group or shard is out of
    /// range.
    pub fn param(&mut self, param: Param) -> Result<usize> {
        let name = c_string("the name of a parameter,", param.name())?;
        let desc = param.desc(&name)?;
        let mut index = 0;
        // SAFETY: desc and its name are valid during the call, and are copied.
        check(unsafe { sys::shampoo_plan_add_param(self.handle.0.as_ptr(), &desc, &mut index) })?;
        let updates = self.info.updates[param.group_number()]; // the library has checked the group
        self.info.params.push(param.info(updates));
        Ok(index as usize)
    }

    /// Declares which part of a parameter another shard rank holds. This is only needed with `shard_mode=gather`, if
    /// the library cannot infer the parts of all ranks. `shampoo_plan_add_shard` in the C header describes which shards
    /// the library infers. All ranks must declare the same shards.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): the parameter or rank is out of range, or the shard is not inside the
    /// parameter.
    pub fn shard(&mut self, param: usize, shard_rank: usize, shard: &Shard) -> Result<()> {
        let who = format!("shard of parameter {param}:");
        let ndim = self.info.params.get(param).map(|param| param.ndim);
        let ndim = ndim.ok_or_else(|| {
            Error::invalid(format!(
                "{who} expected an index below {}, the number of parameters",
                self.info.params.len()
            ))
        })?;
        let mut desc = sys::shampoo_param_desc::new();
        shard.fill(&mut desc, &who, ndim)?;
        let (index, rank) = (to_i32("parameter", param)?, to_i32("shard rank", shard_rank)?);
        // SAFETY: the library only reads the fields of the shard.
        check(unsafe { sys::shampoo_plan_add_shard(self.handle.0.as_ptr(), index, rank, &desc) })
    }

    /// Computes the blocks, owners and memory.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): for example, a block is too large, or the value of a key is out of
    /// range for the "computation_dtype" of a parameter.
    pub fn finish(self) -> Result<Plan> {
        // SAFETY: the plan is not finished.
        check(unsafe { sys::shampoo_plan_finish(self.handle.0.as_ptr()) })?;
        Ok(Plan { handle: self.handle, info: Arc::new(self.info) })
    }
}

/// A block: a part of a parameter with its own states.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Block {
    /// Index of its parameter.
    pub param: usize,
    /// Replica rank of the process that stores its state and computes its update.
    pub owner: usize,
    /// Shard rank of the same process.
    pub shard_owner: usize,
    /// True for a block of this rank's shard, false for a block of the whole parameter.
    pub of_shard: bool,
    /// Shape after merging and splitting. If dim k has a factor matrix, the matrix is `shape[k]` x `shape[k]`.
    pub shape: Vec<usize>,
    /// Stride of each dim, in elements of the flattened parameter or, if `of_shard`, of this rank's buffer.
    pub stride: Vec<usize>,
    /// Index of its first element in the flattened parameter or, if `of_shard`, in this rank's buffer.
    pub flat_offset: usize,
    /// Size of its state in bytes.
    pub state_bytes: usize,
}

/// A finished plan: blocks, their owners and sizes in bytes. It needs no device, and any number of threads can read it.
#[derive(Debug)]
pub struct Plan {
    handle: Handle,
    info: Arc<PlanInfo>,
}

// SAFETY: any number of threads can read a finished plan.
unsafe impl Send for Plan {}
unsafe impl Sync for Plan {}

impl Plan {
    pub(crate) fn as_ptr(&self) -> *const sys::shampoo_plan {
        self.handle.0.as_ptr()
    }

    pub(crate) fn info(&self) -> &Arc<PlanInfo> {
        &self.info
    }

    /// Returns all blocks, ordered by parameter.
    ///
    /// # Errors
    ///
    /// [`Code::OutOfMemory`](crate::Code::OutOfMemory): memory ran out.
    pub fn blocks(&self) -> Result<Vec<Block>> {
        let mut count = 0;
        // SAFETY: the plan is finished.
        check(unsafe { sys::shampoo_plan_block_count(self.as_ptr(), &mut count) })?;
        (0..count)
            .map(|index| {
                let mut info = sys::shampoo_block_info::new();
                // SAFETY: info has a valid size.
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

    /// Returns a number of bytes, which `what` selects: "state", "workspace" or "total" for the memory that an
    /// optimizer allocates on this rank, and "comm" for the data that this rank sends in a step.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): `what` is unknown.
    pub fn bytes(&self, what: &str) -> Result<usize> {
        self.bytes_of(-1, what)
    }

    /// Returns the number of bytes for another rank, like [`bytes`](Plan::bytes). `rank` is the replica rank.
    /// With `shard_mode=gather`, `rank` is replica rank * shard world + shard rank instead.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): `what` is unknown, or the rank is out of range.
    pub fn bytes_on(&self, rank: usize, what: &str) -> Result<usize> {
        self.bytes_of(to_i32("rank", rank)?, what)
    }

    fn bytes_of(&self, rank: i32, what: &str) -> Result<usize> {
        let what = c_string("the argument what,", what)?;
        let mut bytes = 0;
        // SAFETY: all arguments are valid.
        check(unsafe { sys::shampoo_plan_bytes(self.as_ptr(), rank, what.as_ptr(), &mut bytes) })?;
        Ok(bytes as usize)
    }

    /// Returns the number of parameters, which is also the number of [`Buffers`](crate::Buffers) that a step expects.
    pub fn param_count(&self) -> usize {
        self.info.params.len()
    }

    /// Returns the number of parameter groups.
    pub fn group_count(&self) -> usize {
        self.info.updates.len()
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
