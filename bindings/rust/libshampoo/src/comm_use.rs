// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::error::{Code, Error, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Whether a call uses a communicator. All optimizers that were made with it share one.
pub(crate) type InUse = Arc<AtomicBool>;

/// One call's use of communicators, until it is dropped. The library has memory of its own in each of them, and ranks
/// meet in the order of calls: two calls at once, on two threads or one inside the other, are refused.
pub(crate) struct CommUse<'a>(&'a [InUse]);

impl<'a> CommUse<'a> {
    /// Begins to use distinct communicators: all of them or, where one is in use, none.
    pub fn begin(comms: &'a [InUse]) -> Result<Self> {
        for (index, comm) in comms.iter().enumerate() {
            if comm.swap(true, Ordering::Acquire) {
                drop(CommUse(&comms[..index]));
                let what = "the communicator is in use by another call, of this or another optimizer: have them make \
                            their calls one after another, in the same order on all ranks, or give each a communicator \
                            of its own";
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

/// Each communicator once.
pub(crate) fn distinct<'a>(comms: impl IntoIterator<Item = &'a InUse>) -> Vec<InUse> {
    let mut found: Vec<InUse> = Vec::new();
    for comm in comms {
        if !found.iter().any(|other| Arc::ptr_eq(other, comm)) {
            found.push(Arc::clone(comm));
        }
    }
    found
}
