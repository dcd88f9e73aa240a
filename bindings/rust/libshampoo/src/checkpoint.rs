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
    let text = text.ok_or_else(|| Error::invalid(format!("directory {directory:?} is not UTF-8, as it must be")))?;
    let directory = c_string("directory", text)?;
    let handles: Vec<_> = optimizers.iter().map(|optimizer| optimizer.as_ptr()).collect();
    let count = to_i32("count", handles.len())?;
    let stream = optimizers.first().map_or_else(null_mut, |optimizer| optimizer.stream);
    let comms = optimizers.iter().flat_map(|optimizer| &optimizer.in_use);
    let in_use = distinct(comms.chain(world.map(Comm::in_use)));
    let _using = CommUse::begin(&in_use)?;
    let world = world.map_or_else(null_mut, Comm::as_ptr);
    // SAFETY: the optimizers are borrowed mutably, each once, and the rest lives during the call.
    check(unsafe { function(handles.as_ptr(), count, world, directory.as_ptr(), stream) })
}

/// Saves the states of all optimizers of this rank, and those of all other ranks, as one checkpoint: safetensors files
/// with an index. It can be loaded by any other number of ranks. Parameters are the caller's to save. Collective over
/// `world`, the communicator of all ranks of the job; None: there is one.
///
/// # Errors
///
/// [`Code::Io`](crate::Code::Io): a file could not be written; the text names it. Checkpoints that were there are whole.
pub fn save(optimizers: &mut [&mut Optimizer], world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
    call(sys::shampoo_save, optimizers, world, directory.as_ref())
}

/// Loads the last checkpoint of a directory into optimizers, together on all ranks those of all its parameters.
/// Hyper-parameters are those of the optimizer that loads. Collective over `world`, as [`save`].
///
/// # Errors
///
/// [`Code::Io`](crate::Code::Io): there is no checkpoint, or a file is damaged. [`Code::Invalid`](crate::Code::Invalid):
/// it is of other parameters, dtypes, grafting or blocks. The optimizers are as they were.
pub fn load(optimizers: &mut [&mut Optimizer], world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
    call(sys::shampoo_load, optimizers, world, directory.as_ref())
}

impl Optimizer {
    /// Saves the state of all ranks as a checkpoint, as [`save`](crate::save) does of several optimizers.
    ///
    /// # Errors
    ///
    /// As of [`save`](crate::save).
    pub fn save(&mut self, world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
        save(&mut [self], world, directory)
    }

    /// Loads the last checkpoint of a directory, as [`load`](crate::load) does into several optimizers.
    ///
    /// # Errors
    ///
    /// As of [`load`](crate::load).
    pub fn load(&mut self, world: Option<&Comm>, directory: impl AsRef<Path>) -> Result<()> {
        load(&mut [self], world, directory)
    }
}
