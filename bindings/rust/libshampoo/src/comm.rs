// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::callback::{self, keep_failure, BoxError};
use crate::comm_use::InUse;
use crate::error::{c_string, check, to_i32, Error, Result};
use crate::library::start;
use libshampoo_sys as sys;
use std::os::raw::c_void;
use std::ptr::{null, null_mut, NonNull};
use std::slice;

/// Exchanges data in host memory between ranks, for example with MPI, sockets or threads.
///
/// A call of [`all_gather`](Communicator::all_gather) or [`all_to_all`](Communicator::all_to_all) is an *exchange*. All
/// ranks make the same sequence of exchanges, on the threads that call their optimizers. If an exchange or
/// [`async_error`](Communicator::async_error) returns an error or panics, the call of the optimizer fails with
/// [`Code::Comm`](crate::Code::Comm). The source of the returned [`Error`] is the communicator's error or panic
/// message, and the message of the [`Error`] quotes this source. Later steps of the optimizer fail, too.
pub trait Communicator: Send + Sync {
    /// Returns the rank of this process. [`Comm::new`] calls this method once.
    fn rank(&self) -> usize;

    /// Returns the number of ranks. [`Comm::new`] calls this method once.
    fn world(&self) -> usize;

    /// Performs an all-gather in place. `segments` consists of [`world`](Communicator::world) segments of equal size,
    /// and has the same length on all ranks. On entry, the segment whose index is this rank contains the data of this
    /// rank. On return, each segment r must contain the data of rank r.
    ///
    /// # Errors
    ///
    /// The implementation may return any error. The call of the optimizer then returns an error that contains it.
    fn all_gather(&self, segments: &mut [u8]) -> std::result::Result<(), BoxError>;

    /// Returns whether [`all_to_all`](Communicator::all_to_all) is implemented. The result must be the same on all
    /// ranks. [`Comm::new`] calls this method once.
    fn has_all_to_all(&self) -> bool {
        false
    }

    /// Sends `send_bytes[r]` bytes to each rank r, including this rank, and receives `recv_bytes[r]` bytes from rank r.
    /// In `send` and in `recv`, the data of the ranks are in the order of the ranks, without gaps. A number of bytes
    /// may be 0. This method is optional. The library only calls it if the key "shard_mode" is "gather", to exchange
    /// data between shards.
    ///
    /// # Errors
    ///
    /// The implementation may return any error. The call of the optimizer then returns an error that contains it.
    fn all_to_all(
        &self,
        send: &[u8],
        send_bytes: &[usize],
        recv: &mut [u8],
        recv_bytes: &[usize],
    ) -> std::result::Result<(), BoxError> {
        let _ = (send, send_bytes, recv, recv_bytes);
        Err("has_all_to_all() returns true, but all_to_all() is not implemented; implement all_to_all()".into())
    }

    /// Reports the failure of an earlier exchange, if the failure was detected only after that exchange had returned.
    /// This method is optional. The library calls it before each exchange.
    ///
    /// # Errors
    ///
    /// The error of the earlier exchange.
    fn async_error(&self) -> std::result::Result<(), BoxError> {
        Ok(())
    }

    /// Returns whether [`abort`](Communicator::abort) is implemented. [`Comm::new`] calls this method once.
    ///
    /// Without `abort`, an optimizer on the CPU reports a failed exchange to the other ranks in one more exchange: the
    /// next exchange of the same step or, if there is none, the first exchange of the next step. Until then, the
    /// other ranks wait.
    fn has_abort(&self) -> bool {
        false
    }

    /// Lets the other ranks fail instead of waiting for this rank in an exchange. This method is optional, and is only
    /// called if [`has_abort`](Communicator::has_abort) returns true. The library calls it at most once: after an
    /// exchange failed on this rank, after this rank received invalid data, or after this rank failed at a point where
    /// other ranks would wait for it.
    fn abort(&self) {}
}

struct User {
    communicator: Box<dyn Communicator>,
    rank: usize,
    world: usize,
}

/// Calls a method of the communicator. Returns 0 if the method succeeds, and 1 if it returns an error or panics.
fn guard(call: impl FnOnce() -> std::result::Result<(), BoxError>) -> i32 {
    let failure = match callback::run(call) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panicked) => panicked.into(),
    };
    keep_failure(failure);
    1
}

/// Returns memory of the library as a slice. If `count` is 0, `start` may be an invalid address.
unsafe fn bytes<'a>(start: *const c_void, count: usize) -> &'a [u8] {
    if count == 0 {
        return &[];
    }
    slice::from_raw_parts(start.cast(), count)
}

unsafe fn bytes_mut<'a>(start: *mut c_void, count: usize) -> &'a mut [u8] {
    if count == 0 {
        return &mut [];
    }
    slice::from_raw_parts_mut(start.cast(), count)
}

unsafe extern "C" fn all_gather(
    user: *mut c_void,
    send: *const c_void,
    recv: *mut c_void,
    bytes_per_rank: usize,
    _stream: *mut c_void,
) -> i32 {
    let user = &*user.cast::<User>();
    let own = recv.cast::<u8>().add(user.rank * bytes_per_rank);
    if own as *const c_void != send {
        std::ptr::copy_nonoverlapping(send.cast::<u8>(), own, bytes_per_rank);
    }
    // send may be a part of recv. Two slices must not overlap, so from here on only recv is used.
    guard(|| user.communicator.all_gather(bytes_mut(recv, user.world * bytes_per_rank)))
}

unsafe extern "C" fn all_to_all(
    user: *mut c_void,
    send: *const c_void,
    send_bytes: *const usize,
    recv: *mut c_void,
    recv_bytes: *const usize,
    _stream: *mut c_void,
) -> i32 {
    let user = &*user.cast::<User>();
    let send_bytes = slice::from_raw_parts(send_bytes, user.world);
    let recv_bytes = slice::from_raw_parts(recv_bytes, user.world);
    let send = bytes(send, send_bytes.iter().sum());
    let recv = bytes_mut(recv, recv_bytes.iter().sum());
    guard(|| user.communicator.all_to_all(send, send_bytes, recv, recv_bytes))
}

unsafe extern "C" fn async_error(user: *mut c_void) -> i32 {
    let user = &*user.cast::<User>();
    guard(|| user.communicator.async_error())
}

unsafe extern "C" fn abort(user: *mut c_void) {
    let user = &*user.cast::<User>();
    // The library call in progress reports the failure that made it call abort(). A panic of abort() is not reported.
    let _ = callback::run(|| user.communicator.abort());
}

unsafe extern "C" fn release(user: *mut c_void) {
    let _ = callback::run(|| drop(Box::from_raw(user.cast::<User>())));
}

/// A reference to a communicator of the library. Optimizers keep separate references, so a `Comm` can be dropped before
/// the optimizers that use the communicator. The [`Communicator`] is dropped after its last use.
///
/// Only one call at a time can use a communicator, even if several optimizers share it. Meanwhile, any other call that
/// needs the communicator fails with [`Code::State`](crate::Code::State). This applies to calls on other threads, and
/// to calls in methods of the [`Communicator`].
#[derive(Debug)]
pub struct Comm {
    handle: NonNull<sys::shampoo_comm>,
    in_use: InUse,
}

// SAFETY: a Comm is not bound to a thread. A Communicator is Send and Sync. The contract of from_ops requires that the
// C functions can run on any thread.
unsafe impl Send for Comm {}
unsafe impl Sync for Comm {}

impl Comm {
    /// Creates a communicator that calls an implementation in Rust.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): `rank()` is not below `world()`.
    ///
    /// # Panics
    ///
    /// Panics if `rank`, `world`, `has_all_to_all` or `has_abort` of the communicator panics.
    pub fn new(communicator: impl Communicator + 'static) -> Result<Self> {
        start()?;
        let (rank, world) = (communicator.rank(), communicator.world());
        if rank >= world {
            return Err(Error::invalid(format!(
                "rank() of the communicator is {rank}: expected less than world(), which is {world}"
            )));
        }
        let mut ops = sys::shampoo_comm_ops::new();
        ops.rank = to_i32("rank", rank)?;
        ops.world = to_i32("world", world)?;
        ops.all_gather = Some(all_gather);
        ops.all_to_all = if communicator.has_all_to_all() { Some(all_to_all) } else { None };
        ops.async_error = Some(async_error);
        // The library reports a failure in one more exchange only if there is no abort callback. With an abort
        // callback that does nothing, the other ranks would keep waiting.
        ops.abort = if communicator.has_abort() { Some(abort) } else { None };
        ops.release = Some(release);
        let user = Box::into_raw(Box::new(User { communicator: Box::new(communicator), rank, world }));
        ops.user = user.cast();
        // SAFETY: the functions take a User, which lives until release is called.
        unsafe { Comm::from_ops(&ops) }.map_err(|error| {
            // SAFETY: the library does not call release after a failure.
            drop(unsafe { Box::from_raw(user) });
            error
        })
    }

    /// Creates a communicator that calls C functions, such as those of `shampoo_mpi_ops()`, on host memory or GPU
    /// memory.
    ///
    /// # Safety
    ///
    /// The functions must meet the requirements of `shampoo_comm_ops` in the C header, whichever thread calls them. The
    /// object to which `user` points must exist until `release` is called. If `from_ops` fails, `release` is not
    /// called.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): `all_gather` is missing, or `rank` is not below `world`.
    pub unsafe fn from_ops(ops: &sys::shampoo_comm_ops) -> Result<Self> {
        start()?;
        let mut handle = null_mut();
        check(sys::shampoo_comm_from_ops(&mut handle, ops))?;
        Ok(Comm::own(handle))
    }

    /// Creates a communicator for an `ncclComm_t`. `libnccl` is the path or the soname of the file from which the
    /// process has loaded NCCL; None means libnccl.so.2.
    ///
    /// # Safety
    ///
    /// `nccl_comm` must be an `ncclComm_t`. It must exist until the result and all optimizers that use the result have
    /// been dropped.
    ///
    /// # Errors
    ///
    /// [`Code::State`](crate::Code::State): the process has not loaded NCCL from this file.
    pub unsafe fn from_nccl(nccl_comm: *mut c_void, libnccl: Option<&str>) -> Result<Self> {
        start()?;
        let path = libnccl.map(|path| c_string("libnccl", path)).transpose()?;
        let mut handle = null_mut();
        let path = path.as_ref().map_or_else(null, |path| path.as_ptr());
        check(sys::shampoo_comm_from_nccl(&mut handle, nccl_comm, path))?;
        Ok(Comm::own(handle))
    }

    fn own(handle: *mut sys::shampoo_comm) -> Self {
        let handle = NonNull::new(handle).expect("a successful call returns an object");
        Comm { handle, in_use: InUse::default() }
    }

    pub(crate) fn in_use(&self) -> &InUse {
        &self.in_use
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::shampoo_comm {
        self.handle.as_ptr()
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        // SAFETY: this object owns one reference, and optimizers own separate ones.
        unsafe { sys::shampoo_comm_destroy(self.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    struct ChecksSegments;

    impl Communicator for ChecksSegments {
        fn rank(&self) -> usize {
            1
        }

        fn world(&self) -> usize {
            3
        }

        fn all_gather(&self, segments: &mut [u8]) -> std::result::Result<(), BoxError> {
            assert_eq!(segments, [0, 0, 7, 8, 0, 0]);
            Ok(())
        }
    }

    #[test]
    fn all_gather_copies_send_into_the_segment_of_its_rank() {
        let mut user = User { communicator: Box::new(ChecksSegments), rank: 1, world: 3 };
        let user = &mut user as *mut User as *mut c_void;
        let (send, mut recv) = ([7u8, 8], [0u8; 6]);
        // SAFETY: the memory has three segments of 2 bytes.
        let result = unsafe { all_gather(user, send.as_ptr().cast(), recv.as_mut_ptr().cast(), 2, null_mut()) };
        assert_eq!(result, 0);
        // Now send is a part of recv.
        let own = recv[2..].as_ptr();
        // SAFETY: as above.
        let result = unsafe { all_gather(user, own.cast(), recv.as_mut_ptr().cast(), 2, null_mut()) };
        assert_eq!(result, 0);
    }
}
