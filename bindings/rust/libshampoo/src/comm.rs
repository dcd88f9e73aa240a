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

/// Ranks that share the work, over memory of the host: MPI, sockets, threads.
///
/// Every rank makes the same sequence of calls with the same sizes, each on the thread that is inside a call with its
/// optimizer. A call that fails, by an error or by a panic, makes the call of the optimizer fail with
/// [`Code::Comm`](crate::Code::Comm), whose text and source tell of it; the optimizer then cannot go on.
pub trait Communicator: Send + Sync {
    /// This process among the ranks. Asked once.
    fn rank(&self) -> usize;

    /// Number of ranks. Asked once.
    fn world(&self) -> usize;

    /// All-gather in place: `segments` are [`world`](Communicator::world) segments of equal size, of which that of this
    /// rank is filled. Fills the others, segment r from rank r.
    ///
    /// # Errors
    ///
    /// Anything that is to be told.
    fn all_gather(&self, segments: &mut [u8]) -> std::result::Result<(), BoxError>;

    /// Whether there is an [`all_to_all`](Communicator::all_to_all): the same on all ranks. Asked once.
    fn has_all_to_all(&self) -> bool {
        false
    }

    /// Optional, for shards with "shard_mode" gather: sends `send_bytes[r]` bytes to each rank r, this one included,
    /// and receives `recv_bytes[r]` from it. What goes to or comes from rank 0 is first, then that of rank 1, and so on,
    /// without gaps; a number may be 0.
    ///
    /// # Errors
    ///
    /// Anything that is to be told.
    fn all_to_all(
        &self,
        send: &[u8],
        send_bytes: &[usize],
        recv: &mut [u8],
        recv_bytes: &[usize],
    ) -> std::result::Result<(), BoxError> {
        let _ = (send, send_bytes, recv, recv_bytes);
        Err("the communicator has no all_to_all".into())
    }

    /// Optional: asks for a failure that came later than the call that caused it. Asked before each collective.
    ///
    /// # Errors
    ///
    /// Anything that is to be told.
    fn async_error(&self) -> std::result::Result<(), BoxError> {
        Ok(())
    }

    /// Optional: makes collectives of other ranks that wait for this one fail. Called once, after one failed here.
    fn abort(&self) {}
}

struct User {
    communicator: Box<dyn Communicator>,
    rank: usize,
    world: usize,
}

/// Calls a function of the communicator; 0, or 1 where it failed.
fn guard(call: impl FnOnce() -> std::result::Result<(), BoxError>) -> i32 {
    // What a panic leaves behind in the communicator is not used any more: a collective that fails is for good.
    let failure = match callback::run(call) {
        Ok(Ok(())) => return 0,
        Ok(Err(failure)) => failure,
        Err(panicked) => panicked.into(),
    };
    keep_failure(failure);
    1
}

/// Looks at memory of the library; of 0 bytes the address may be anything.
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
    // From here on send, which may be a part of recv, is not looked at: slices of both could not be had.
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
    // The failure that led here is what is told.
    let _ = callback::run(|| user.communicator.abort());
}

unsafe extern "C" fn release(user: *mut c_void) {
    let _ = callback::run(|| drop(Box::from_raw(user.cast::<User>())));
}

/// A communicator of the library. Optimizers made with it keep it: it may be dropped before them. The
/// [`Communicator`] in it is dropped after the last use.
///
/// One call at a time uses it: a call of an optimizer during that of another with the same communicator, on another
/// thread or by the [`Communicator`] itself, is [`Code::State`](crate::Code::State).
#[derive(Debug)]
pub struct Comm {
    handle: NonNull<sys::shampoo_comm>,
    in_use: InUse,
}

// SAFETY: it belongs to no thread, and what it calls is Send and Sync (or is promised to be, where it was made unsafely).
unsafe impl Send for Comm {}
unsafe impl Sync for Comm {}

impl Comm {
    /// Makes a communicator of one in Rust.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): the rank is not below the world.
    ///
    /// # Panics
    ///
    /// Where the communicator does when it is asked for its rank or world.
    pub fn new(communicator: impl Communicator + 'static) -> Result<Self> {
        start()?;
        let (rank, world) = (communicator.rank(), communicator.world());
        if rank >= world {
            return Err(Error::invalid(format!("communicator: rank {rank} is not below its world, {world}")));
        }
        let mut ops = sys::shampoo_comm_ops::new();
        ops.rank = to_i32("rank", rank)?;
        ops.world = to_i32("world", world)?;
        ops.all_gather = Some(all_gather);
        ops.all_to_all = if communicator.has_all_to_all() { Some(all_to_all) } else { None };
        ops.async_error = Some(async_error);
        ops.abort = Some(abort);
        ops.release = Some(release);
        let user = Box::into_raw(Box::new(User { communicator: Box::new(communicator), rank, world }));
        ops.user = user.cast();
        // SAFETY: the functions take a User, which lives until release is called.
        unsafe { Comm::from_ops(&ops) }.map_err(|error| {
            // SAFETY: release is not called where the call fails.
            drop(unsafe { Box::from_raw(user) });
            error
        })
    }

    /// Makes a communicator of functions in C, such as `shampoo_mpi_ops()` fills, of memory of the host or of a GPU.
    ///
    /// # Safety
    ///
    /// The functions do what the header says of `shampoo_comm_ops`, with what `user` points to, on any thread; it lives
    /// until `release` is called, which is not where this fails.
    ///
    /// # Errors
    ///
    /// [`Code::Invalid`](crate::Code::Invalid): `all_gather` is missing, or the rank is not below the world.
    pub unsafe fn from_ops(ops: &sys::shampoo_comm_ops) -> Result<Self> {
        start()?;
        let mut handle = null_mut();
        check(sys::shampoo_comm_from_ops(&mut handle, ops))?;
        Ok(Comm::own(handle))
    }

    /// Makes a communicator of an `ncclComm_t`, through the copy of NCCL that the process has loaded from `libnccl`;
    /// None: from libnccl.so.2.
    ///
    /// # Safety
    ///
    /// `nccl_comm` is an `ncclComm_t` that lives as long as the result and optimizers made with it.
    ///
    /// # Errors
    ///
    /// [`Code::State`](crate::Code::State): the process has not loaded NCCL by this name.
    pub unsafe fn from_nccl(nccl_comm: *mut c_void, libnccl: Option<&str>) -> Result<Self> {
        start()?;
        let path = libnccl.map(|path| c_string("libnccl", path)).transpose()?;
        let mut handle = null_mut();
        let path = path.as_ref().map_or_else(null, |path| path.as_ptr());
        check(sys::shampoo_comm_from_nccl(&mut handle, nccl_comm, path))?;
        Ok(Comm::own(handle))
    }

    fn own(handle: *mut sys::shampoo_comm) -> Self {
        let handle = NonNull::new(handle).expect("a call that succeeds has made an object");
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
        // SAFETY: this hold is ours; optimizers have theirs.
        unsafe { sys::shampoo_comm_destroy(self.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::null_mut;

    struct Sees;

    impl Communicator for Sees {
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
    fn what_is_sent_from_elsewhere_is_put_into_its_place() {
        let mut user = User { communicator: Box::new(Sees), rank: 1, world: 3 };
        let user = &mut user as *mut User as *mut c_void;
        let (send, mut recv) = ([7u8, 8], [0u8; 6]);
        // SAFETY: the memory is that of three segments of 2 bytes.
        let result = unsafe { all_gather(user, send.as_ptr().cast(), recv.as_mut_ptr().cast(), 2, null_mut()) };
        assert_eq!(result, 0);
        // In place.
        let own = recv[2..].as_ptr();
        // SAFETY: as above.
        let result = unsafe { all_gather(user, own.cast(), recv.as_mut_ptr().cast(), 2, null_mut()) };
        assert_eq!(result, 0);
    }
}
