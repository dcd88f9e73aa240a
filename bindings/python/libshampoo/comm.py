# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Communicators: ranks that share the work, over mpi4py, NCCL or functions of Python."""
from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from . import _native


class Communicator:
    """Ranks that an optimizer works with; a subclass brings the all-gather.

    An exception in one of the functions makes the step fail on all ranks with ``libshampoo.CommError``, whose cause it
    is; KeyboardInterrupt and SystemExit are raised as they are. They are called with the GIL, on the thread that is
    inside the step.

    Optional functions that a subclass may have: ``all_to_all(send, send_bytes, recv, recv_bytes)``, for
    shard_mode="gather"; ``async_error()``, which raises what failed meanwhile; ``abort()``, which makes the
    collectives of other ranks fail.

    Attributes
    ----------
    rank, world
        This process among the ranks, and their number.
    device_type
        What memory the functions take: that of the CPU, or of CUDA. There they get addresses in place of memoryviews,
        and at the end the stream: ``all_gather(send, recv, bytes_per_rank, stream)``.
    """

    rank = 0
    world = 1
    device_type = _native.SHAMPOO_CPU

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        """Fill recv, whose part r is what rank r has sent. send may be this rank's part of recv.

        Both end with the call: nothing may look at them afterwards. Where a slice or an array of them is kept, the
        exchange fails.
        """
        raise NotImplementedError


class CallableComm(Communicator):
    """A communicator of one function.

    Parameters
    ----------
    all_gather
        As of ``Communicator``.
    rank, world
        This process among the ranks, and their number.
    """

    def __init__(self, all_gather: Callable[[memoryview, memoryview], None], rank: int, world: int) -> None:
        self.rank, self.world = rank, world
        self._function = all_gather

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        self._function(send, recv)


class MpiComm(Communicator):
    """A communicator of mpi4py, which is duplicated. Collective over it.

    The duplicate lives until ``close``, which is collective, too. An optimizer that was given a communicator of mpi4py
    closes what it made of it when it is closed itself; where it is only dropped, the duplicate lasts until MPI ends.

    Where a collective fails the job is aborted, as the other ranks could be reached in no other way.

    Parameters
    ----------
    comm
        An intracommunicator.
    """

    #: The most bytes of one message: counts of MPI are int.
    largest = 2**31 - 1

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self._mpi = MPI
        self._comm = comm.Dup()
        self.rank, self.world = comm.Get_rank(), comm.Get_size()

    def close(self) -> None:
        """Free the duplicate, after all that was made with it; it can be called again."""
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
            # The next rank's slice lies a whole segment further on.
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
        # The job may not live to see the error of the optimizer, and MPI does not say why it is ended.
        print(f"libshampoo: rank {self.rank} of {self.world}: an exchange failed, the job is aborted", file=sys.stderr)
        sys.stderr.flush()
        self._comm.Abort(1)


class NativeComm:
    """A communicator of functions in C, which are called without the GIL.

    Parameters
    ----------
    ops
        Address of a shampoo_comm_ops of this version, such as shampoo_mpi_ops() fills; it is copied. What its user
        points to must live until its release is called.
    rank, world
        Those in it.
    """

    def __init__(self, ops: int, rank: int, world: int) -> None:
        self.ops, self.rank, self.world = ops, rank, world


class NcclComm:
    """A communicator of NCCL, through the copy of NCCL that the process has loaded.

    Parameters
    ----------
    pointer
        Address of the ncclComm_t, which must live as long as optimizers that were made with it.
    rank, world
        This process among its ranks, and their number.
    library
        The file from which NCCL was loaded, or its soname; None: libnccl.so.2.
    """

    def __init__(self, pointer: int, rank: int, world: int, library: str | os.PathLike[str] | None = None) -> None:
        self.rank, self.world = rank, world
        self.handle = _native.shampoo_comm_from_nccl(pointer, None if library is None else os.fsdecode(library))


def wrap(comm: Any) -> tuple[Any, list[MpiComm]]:
    """Give what ``connect`` takes, and what is to be closed in the end: of a communicator of mpi4py its duplicate."""
    if hasattr(comm, "Allgather") and hasattr(comm, "Get_rank"):
        made = MpiComm(comm)
        return made, [made]
    return comm, []


def connect(comm: Any) -> tuple[_native.shampoo_comm | None, tuple[int, int]]:
    """Make a communicator of the library.

    Parameters
    ----------
    comm
        None, a ``Communicator`` or what has its attributes, a ``NativeComm`` or ``NcclComm``;
        or what this function gave before, whose rank is not asked for.

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
        raise TypeError(f"{type(comm).__name__} is no communicator: it has no all_gather(send, recv)")
    return _native.shampoo_comm_from_ops(comm), (comm.rank, comm.world)
