// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::comm::Comm;
use crate::comm_use::{distinct, CommUse};
use crate::error::{c_string, check, to_i32, Error, Result};
use crate::optimizer::Optimizer;
use libshampoo_sys as sys;
use std::os::raw::{c_char, c_void};
use std::path::Path;
use std::ptr::null_mut;

type Call = unsafe extern "C" fn(
    *const *mut sys::shampoo_optimizer,
    i32,
    *mut sys::shampoo_comm,
    *const c_char,
    *mut c_void,
) -> sys::shampoo_status;

fn call(function: Call, optimizers: &mut [&mut Optimizer], world: Option<&Comm>, directory: &Path) -> Result<()> {
    let text = directory.to_str();
    let text = text.ok_or_else(|| Error::invalid(format!("directory {directory:?}: expected a path in UTF-8")))?;
    let directory = c_string("directory", text)?;
    let handles: Vec<_> = optimizers.iter().map(|optimizer| optimizer.as_ptr()).collect();
    let count = to_i32("count", handles.len())?;
    let stream = optimizers.first().map_or_else(null_mut, |optimizer| optimizer.stream);
    let comms = optimizers.iter().flat_map(|optimizer| &optimizer.in_use);
    let in_use = distinct(comms.chain(world.map(Comm::in_use)));
    let _using = CommUse::begin(&in_use)?;
    let world = world.map_or_else(null_mut, Comm::as_ptr);
    // SAFETY: each optimizer is borrowed mutably, so no handle occurs twice. The other arguments live during the call.
    check(unsafe { function(handles.as_ptr(), count, world, directory.as_ptr(), stream) })
}

/// Saves the states of the optimizers of all ranks as one checkpoint: safetensors files with an index. Any number of
/// ranks can load the checkpoint, but with `shard_mode=local` the number of shards must be the same. Parameters are not
/// saved.
///
/// `optimizers` contains the optimizers of this rank. The call is collective over `world`, the communicator of all
/// ranks of the job. Pass None if there is only one rank.
///
/// # Errors
///
/// [`Code::Io`](crate::Code::Io): a file could not be written; the message names the file. Earlier checkpoints are not
/// affected.
pub fn save(optimizers: &mut [&mut Optimizer], world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
    call(sys::shampoo_save, optimizers, world, directory.as_ref())
}

/// Loads the last checkpoint of a directory. The optimizers of all ranks together must have all parameters of the
/// checkpoint. Hyper-parameters do not change. The call is collective over `world`, as for [`save`].
///
/// # Errors
///
/// If the load fails before it has begun to write states, the optimizers have not changed. docs/checkpoints.md
/// describes later failures.
///
/// - [`Code::Io`](crate::Code::Io): there is no checkpoint, or a file is missing or damaged.
/// - [`Code::Invalid`](crate::Code::Invalid): the checkpoint does not match the optimizers, for example in parameters,
///   dtypes, method, grafting or blocks.
pub fn load(optimizers: &mut [&mut Optimizer], world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
    call(sys::shampoo_load, optimizers, world, directory.as_ref())
}

impl Optimizer {
    /// Saves a checkpoint: calls [`save`](crate::save) with this optimizer as the only optimizer of this rank.
    ///
    /// # Errors
    ///
    /// The same as for [`save`](crate::save).
    pub fn save(&mut self, world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
        save(&mut [self], world, directory)
    }

    /// Loads a checkpoint: calls [`load`](crate::load) with this optimizer as the only optimizer of this rank.
    ///
    /// # Errors
    ///
    /// The same as for [`load`](crate::load).
    pub fn load(&mut self, world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
        load(&mut [self], world, directory)
    }
}
