// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::error::{Code, Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// A flag that says whether a call uses a communicator. All optimizers with the same communicator share the flag.
pub(crate) type InUse = Arc<AtomicBool>;

/// Marks communicators as used by one call, until this object is dropped. Two calls, on two threads or one inside the
/// other, must not use a communicator at the same time: the calls would share the buffers of the communicator and mix
/// their exchanges.
pub(crate) struct CommUse<'a>(&'a [InUse]);

impl<'a> CommUse<'a> {
    /// Marks communicators as used. `comms` must not contain duplicates. If a communicator is already in use, fails and
    /// marks none.
    pub fn begin(comms: &'a [InUse]) -> Result<Self> {
        for (index, comm) in comms.iter().enumerate() {
            if comm.swap(true, Ordering::Acquire) {
                drop(CommUse(&comms[..index]));
                let what = "the communicator is in use by another call, of this or another optimizer; make the calls \
                            one after another, in the same order on all ranks, or use a separate communicator for each \
                            optimizer";
                return Err(Error::new(Code::State, what));
            }
        }
        Ok(CommUse(comms))
    }
}

impl Drop for CommUse<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|comm| comm.store(false, Ordering::Release));
    }
}

/// Returns each flag of `comms` once.
pub(crate) fn distinct<'a>(comms: impl IntoIterator<Item = &'a InUse>) -> Vec<InUse> {
    let mut found: Vec<InUse> = Vec::new();
    for comm in comms {
        if !found.iter().any(|other| Arc::ptr_eq(other, comm)) {
            found.push(Arc::clone(comm));
        }
    }
    found
}
