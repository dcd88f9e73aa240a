# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Communicators: objects through which ranks exchange data, with mpi4py, NCCL, Python functions or C functions."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from . import _native


class Communicator:
    """Base class of communicators. A subclass implements ``all_gather``.

    The methods run on the thread that calls the optimizer, and this thread holds the GIL. A call of ``all_gather`` or
    ``all_to_all`` is an *exchange*. If an exchange or ``async_error`` raises an exception, the call of the optimizer
    raises ``libshampoo.CommError``, whose cause is that exception. KeyboardInterrupt and SystemExit are raised
    unchanged.

    A subclass may have these methods, too:

    - ``all_to_all(send, send_bytes, recv, recv_bytes)``, for shard_mode="gather";
    - ``async_error()``, which raises an exception if an earlier exchange failed after its call had returned;
    - ``abort()``, which lets the other ranks fail instead of waiting for this rank in an exchange. Without ``abort``,
      an optimizer on the CPU reports a failed exchange to the other ranks in one more exchange: the next exchange of
      the step that failed or, if there is none, the first exchange of the next step. Until then, the other ranks wait.

    Attributes
    ----------
    rank, world
        Rank of this process, and number of ranks.
    device_type
        Device whose memory the methods use. With SHAMPOO_CPU, the default, the methods receive memoryviews. An
        optimizer on CUDA then copies through the host and waits in each exchange. With SHAMPOO_CUDA, the methods
        receive addresses, and the stream as the last argument: ``all_gather(send, recv, bytes_per_rank, stream)``. Only
        optimizers on CUDA accept a communicator with SHAMPOO_CUDA.
    """

    rank = 0
    world = 1
    device_type = _native.SHAMPOO_CPU

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        """Send ``send`` to all ranks, and store the data of rank r in part r of ``recv``.

        ``send`` may be this rank's part of ``recv``. ``send`` and ``recv`` are valid only during the call. If a slice
        of ``send`` or ``recv``, or an array that shares memory with one of them, still exists after the call, the
        exchange fails.
        """
        raise NotImplementedError


class CallableComm(Communicator):
    """A communicator that calls a Python function for each exchange.

    Parameters
    ----------
    all_gather
        Function with the arguments of ``Communicator.all_gather``.
    rank, world
        Rank of this process, and number of ranks.
    """

    def __init__(self, all_gather: Callable[[memoryview, memoryview], None], rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self._function = all_gather

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        self._function(send, recv)


class MpiComm(Communicator):
    """A duplicate of a communicator of mpi4py. Creating an ``MpiComm`` is collective.

    ``close``, which is also collective, frees the duplicate. If a communicator of mpi4py is passed to an optimizer, the
    optimizer creates an ``MpiComm``, and ``Optimizer.close`` closes the ``MpiComm``. If the optimizer is deleted
    without a call of ``close``, the duplicate exists until MPI is finalized.

    If an exchange fails, ``abort`` ends the whole job, because MPI has no other way to make the other ranks fail.

    Parameters
    ----------
    comm
        An intracommunicator of mpi4py.
    """

    #: Largest number of bytes in one message. MPI counts have the type int, so they cannot be larger.
    largest = 2**31 - 1

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm.Dup()
        self.rank, self.world = comm.Get_rank(), comm.Get_size()

    def close(self) -> None:
        """Free the duplicate. Close all optimizers that use it before this call. A second call has no effect."""
        comm, self._comm = self._comm, None
        if comm is not None and not self._mpi.Is_finalized():
            comm.Free()

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        mpi, size = self._mpi, len(send)
        in_place = _native.same_address(send, recv[self.rank * size : (self.rank + 1) * size])
        slice_size = max(self.largest // self.world, 1)
        if size <= slice_size:
            self._comm.Allgather(mpi.IN_PLACE if in_place else [send, mpi.BYTE], [recv, mpi.BYTE])
            return
        for first in range(0, size, slice_size):
            count = min(slice_size, size - first)
            # In recv, the slice of rank r + 1 starts `size` bytes after the slice of rank r.
            plain = mpi.BYTE.Create_contiguous(count)
            spaced = plain.Create_resized(0, size).Commit()
            source = mpi.IN_PLACE if in_place else [send[first : first + count], count, mpi.BYTE]
            self._comm.Allgather(source, [recv[first:], 1, spaced])
            spaced.Free()
            plain.Free()

    def all_to_all(self, send: memoryview, send_bytes: list[int], recv: memoryview, recv_bytes: list[int]) -> None:
        requests = []
        for buffer, counts, begin in ((recv, recv_bytes, self._comm.Irecv), (send, send_bytes, self._comm.Isend)):
            offset = 0
            for peer, count in enumerate(counts):
                for first in range(0, count, self.largest):
                    last = min(first + self.largest, count)
                    requests.append(begin([buffer[offset + first : offset + last], self._mpi.BYTE], peer, 23))
                offset += count
        self._mpi.Request.Waitall(requests)

    def abort(self) -> None:
        # MPI does not print the reason, and the job may end before the optimizer can raise its error.
        print(f"libshampoo: rank {self.rank} of {self.world}: an exchange failed; the job is aborted", file=sys.stderr)
        sys.stderr.flush()
        self._comm.Abort(1)


class NativeComm:
    """A communicator that calls C functions, and does not hold the GIL during these calls.

    Parameters
    ----------
    ops
        Address of a struct ``shampoo_comm_ops`` of this version of the library. The function ``shampoo_mpi_ops()`` in
        shampoo_mpi.h can fill the struct. The struct is copied. The object to which the field ``user`` points must
        exist until the library calls the function ``release`` of the struct.
    rank, world
        The values of the fields ``rank`` and ``world`` of the struct.
    """

    def __init__(self, ops: int, rank: int, world: int) -> None:
        self.ops, self.rank, self.world = ops, rank, world


class NcclComm:
    """A communicator of NCCL. Its exchanges call the copy of NCCL that the process has loaded.

    Parameters
    ----------
    pointer
        Address of the ``ncclComm_t``, which must exist as long as this object or an optimizer that uses it exists.
    rank, world
        Rank of this process, and number of ranks.
    library
        File from which NCCL was loaded, or its soname. None: libnccl.so.2.
    """

    def __init__(self, pointer: int, rank: int, world: int, library: str | os.PathLike[str] | None = None) -> None:
        self.rank, self.world = rank, world
        self.handle = _native.shampoo_comm_from_nccl(pointer, None if library is None else os.fsdecode(library))


def wrap(comm: Any) -> tuple[Any, list[MpiComm]]:
    """Return a communicator for ``connect``. If ``comm`` is from mpi4py, the result is a duplicate.

    Returns
    -------
    communicator, list of duplicates
        The caller must close the duplicates.
    """
    if hasattr(comm, "Allgather") and hasattr(comm, "Get_rank"):
        duplicate = MpiComm(comm)
        return duplicate, [duplicate]
    return comm, []


def connect(comm: Any) -> tuple[_native.shampoo_comm | None, tuple[int, int]]:
    """Create the library's handle of a communicator.

    Parameters
    ----------
    comm
        None, a ``Communicator`` or an object with the same attributes, a ``NativeComm`` or a ``NcclComm``. A handle
        that this function has returned before is also accepted. The pair (rank, world) is then (0, 1); ignore it.

    Returns
    -------
    handle, (rank, world)
    """
    if comm is None:
        return None, (0, 1)
    if isinstance(comm, NcclComm):
        return comm.handle, (comm.rank, comm.world)
    if isinstance(comm, _native.shampoo_comm):
        return comm, (0, 1)
    if isinstance(comm, NativeComm):
        return _native.shampoo_comm_from_ops(comm.ops), (comm.rank, comm.world)
    if not callable(getattr(comm, "all_gather", None)):
        raise TypeError(
            f"{type(comm).__name__} is not a communicator: it has no method all_gather(send, recv); expected a "
            "communicator of mpi4py, or a Communicator, NativeComm or NcclComm of libshampoo"
        )
    return _native.shampoo_comm_from_ops(comm), (comm.rank, comm.world)
