# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of communicators that a Python program provides: subclasses of Communicator, functions, and mpi4py."""
from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_threads import PATIENCE, Pair, in_threads

import libshampoo


def model() -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.standard_normal(shape).astype(np.float32) for shape in ((12, 8), (12,), (5, 12))]


def steps(opt: libshampoo.Optimizer, values: list[np.ndarray], whole: list[np.ndarray], cut: Any = None) -> None:
    for t in range(4):
        gradients = [np.sin(value + t).astype(np.float32) for value in whole]
        opt.step(gradients if cut is None else [cut(gradient) for gradient in gradients])


def trained(**options: Any) -> list[np.ndarray]:
    values = model()
    steps(libshampoo.Optimizer(values, lr=0.1, grafting="adam", max_preconditioner_dim=8, **options), values, model())
    return values


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return [value.tobytes() for value in one] == [value.tobytes() for value in other]


def test_ranks_with_python_communicators_are_bit_identical_to_one_rank() -> None:
    pair = Pair(threading.Barrier(1))
    for values in in_threads(lambda rank: trained(comm=pair.rank(rank)), 2):
        assert same(values, trained())


class Threads(Pair):
    """Two ranks whose communicators also support all-to-all."""

    def rank(self, rank: int) -> Any:
        comm: Any = super().rank(rank)

        def all_to_all(send: memoryview, send_bytes: list[int], recv: memoryview, recv_bytes: list[int]) -> None:
            self.slots[rank] = (bytes(send), send_bytes)  # type: ignore[call-overload]
            self.own.wait(PATIENCE)
            parts = []
            for sent, counts in self.slots:  # type: ignore[misc]
                first = sum(counts[:rank])  # type: ignore[has-type]
                parts.append(sent[first : first + counts[rank]])  # type: ignore[has-type]
            assert [len(part) for part in parts] == recv_bytes
            recv[:] = b"".join(parts)
            self.own.wait(PATIENCE)

        comm.all_to_all = all_to_all
        return comm


@pytest.mark.parametrize("kind", [Pair, Threads])
def test_gathered_shards_are_bit_identical_to_one_rank(kind: type[Pair]) -> None:
    pair = kind(threading.Barrier(1))

    def run(rank: int) -> list[np.ndarray]:
        def cut(value: np.ndarray) -> np.ndarray:
            each = -(-value.size // 2)
            return value.reshape(-1)[rank * each : (rank + 1) * each].copy()

        parts = [cut(value) for value in model()]
        params = [
            libshampoo.Param(part, shape=value.shape, flat_offset=rank * -(-value.size // 2))
            for part, value in zip(parts, model())
        ]
        opt = libshampoo.Optimizer(
            params, lr=0.1, grafting="adam", max_preconditioner_dim=8, shard_mode="gather", shard_comm=pair.rank(rank)
        )
        steps(opt, parts, model(), cut)
        return parts

    first, second = in_threads(run, 2)
    whole = [np.concatenate(pieces) for pieces in zip(first, second)]
    assert same(whole, trained())


def test_an_exception_in_a_communicator_becomes_an_error_of_the_step() -> None:
    opts: list[Any] = [None, None]
    pair = Pair(threading.Barrier(1))
    ready = threading.Barrier(2)

    class Fails(libshampoo.Communicator):
        def __init__(self, comm: libshampoo.Communicator) -> None:
            self.comm, self.rank, self.world, self.aborted = comm, comm.rank, comm.world, 0

        def all_gather(self, send: memoryview, recv: memoryview) -> None:
            if pair.stepping:
                raise KeyError("the network is gone")
            self.comm.all_gather(send, recv)

        def abort(self) -> None:
            self.aborted += 1

    def run(rank: int) -> Any:
        comm = Fails(pair.rank(rank))
        opts[rank] = libshampoo.Optimizer([np.ones(4, np.float32)], comm=comm, threads=1)
        ready.wait(PATIENCE)
        pair.stepping = True
        with pytest.raises(libshampoo.CommError, match="tear the job down") as error:
            opts[rank].step([np.ones(4, np.float32)])
        assert isinstance(error.value.__cause__, KeyError)
        assert comm.aborted == 1
        with pytest.raises(libshampoo.CommError) as again:
            opts[rank].step()
        assert again.value.__cause__ is None
        return True

    assert in_threads(run, 2) == [True, True]


def test_a_plan_that_fails_on_one_rank_ends_the_wait_of_the_other_rank() -> None:
    pair = Pair(threading.Barrier(1))

    def run(rank: int) -> str:
        # row_splits divides the 6 columns into two parts of 3 columns. Rank 0 has only one column of the second part,
        # and its plan fails because a part needs at least two columns.
        columns = (4, 2)[rank]
        part = libshampoo.Param(np.ones((4, columns), np.float32), shape=(4, 6), local_offset=(0, 4 * rank),
                                row_splits=3, fan="in_out")  # fmt: skip
        with pytest.raises(libshampoo.Error) as error:
            libshampoo.Optimizer({"w": part}, shard_comm=pair.rank(rank), threads=1)
        return str(error.value)

    first, second = in_threads(run, 2)
    assert "has one column" in first
    assert "plan" in second


def test_without_abort_the_next_step_of_a_failed_rank_ends_the_wait_of_the_other_rank() -> None:
    pair = Pair(threading.Barrier(1))

    class FailsOnce(libshampoo.Communicator):
        failing = False

        def __init__(self, comm: libshampoo.Communicator) -> None:
            self.comm, self.rank, self.world = comm, comm.rank, comm.world

        def all_gather(self, send: memoryview, recv: memoryview) -> None:
            if self.failing:
                self.failing = False
                raise KeyError("the network is gone")
            self.comm.all_gather(send, recv)

    def run(rank: int) -> libshampoo.CommError:
        comm = FailsOnce(pair.rank(rank))
        opt = libshampoo.Optimizer([np.ones(4, np.float32)], comm=comm, threads=1)
        comm.failing = rank == 1
        with pytest.raises(libshampoo.CommError) as error:  # rank 0 waits in this step until rank 1 steps again
            opt.step([np.ones(4, np.float32)])
        if rank == 1:
            with pytest.raises(libshampoo.CommError):
                opt.step([np.ones(4, np.float32)])
        return error.value

    waiting, failed = in_threads(run, 2)
    assert isinstance(failed.__cause__, KeyError)
    assert "rank 1: a collective or a CUDA call failed before" in str(waiting)


def test_a_communicator_is_released_with_its_optimizer() -> None:
    class Alone(libshampoo.Communicator):
        def all_gather(self, send: memoryview, recv: memoryview) -> None:
            recv[:] = send

    comm, shards = Alone(), Alone()
    kept = [weakref.ref(comm), weakref.ref(shards)]
    opt = libshampoo.Optimizer([np.ones(4, np.float32)], comm=comm, shard_comm=shards)
    opt.step([np.ones(4, np.float32)])
    del comm, shards
    gc.collect()
    assert all(ref() is not None for ref in kept), "the optimizer must keep its communicators alive"
    opt.close()
    gc.collect()
    assert not any(ref() is not None for ref in kept)
    comm = Alone()
    comm.world = 2
    kept = [weakref.ref(comm)]
    with pytest.raises(libshampoo.CommError):
        comm.all_gather = lambda send, recv: 1 / 0  # type: ignore[assignment]
        libshampoo.Optimizer([np.ones(4, np.float32)], comm=comm)
    comm.all_gather = None  # type: ignore[assignment, method-assign]
    del comm
    gc.collect()
    assert kept[0]() is None


def test_buffers_of_an_exchange_are_released_after_it() -> None:
    kept: list[memoryview] = []

    def keeps(send: memoryview, recv: memoryview) -> None:
        kept.extend((send, recv))
        raise RuntimeError("enough")

    with pytest.raises(libshampoo.CommError):
        libshampoo.Optimizer([np.ones(4, np.float32)], comm=libshampoo.CallableComm(keeps, 0, 2), threads=1)
    for memory in kept:
        with pytest.raises(ValueError, match="released"):
            memory[0]


@pytest.mark.parametrize("keep", [lambda memory: memory[:], lambda memory: np.frombuffer(memory, np.uint8)])
@pytest.mark.parametrize("which", ["send", "recv"])
def test_an_exchange_fails_if_a_view_of_its_buffers_is_kept(keep: Any, which: str) -> None:
    kept = []

    class Keeps(libshampoo.Communicator):
        def all_gather(self, send: memoryview, recv: memoryview) -> None:
            recv[:] = send
            kept.append(keep({"send": send, "recv": recv}[which]))

    with pytest.raises(libshampoo.CommError) as error:
        libshampoo.Optimizer([np.ones(4, np.float32)], comm=Keeps()).step([np.ones(4, np.float32)])
    assert isinstance(error.value.__cause__, BufferError)
    assert str(error.value.__cause__).startswith(f"{which}: a slice of this memory, or an array that shares")


def test_a_communicator_may_have_other_attributes() -> None:
    """Checks that an attribute ``ops`` is used as an address only if the communicator is a ``NativeComm``."""
    class Counts(libshampoo.Communicator):
        ops = 0

        def all_gather(self, send: memoryview, recv: memoryview) -> None:
            recv[:] = send
            self.ops += 1

    comm = Counts()
    libshampoo.Optimizer([np.ones(4, np.float32)], comm=comm).step([np.ones(4, np.float32)])
    assert comm.ops > 0


@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt, SystemExit])
def test_library_calls_in_abort_do_not_replace_the_cause(kind: type[BaseException]) -> None:
    """Checks that the exception of all_gather is reported, although abort() calls the library."""
    class Fails(libshampoo.Communicator):
        world = 2
        aborted = 0

        def all_gather(self, send: memoryview, recv: memoryview) -> None:
            raise kind("here")

        def abort(self) -> None:
            libshampoo.plan({"w": (4, 4)})
            self.aborted += 1

    comm = Fails()
    with pytest.raises(libshampoo.CommError if kind is KeyError else kind) as error:
        libshampoo.Optimizer([np.ones(4, np.float32)], comm=comm)
    assert comm.aborted == 1
    assert isinstance(error.value.__cause__ if kind is KeyError else error.value, kind)


def test_invalid_communicators_are_rejected() -> None:
    with pytest.raises(TypeError, match="int is not a communicator"):
        libshampoo.Optimizer([np.ones(4, np.float32)], comm=3)
    with pytest.raises(ValueError, match="rank"):
        libshampoo.Optimizer([np.ones(4, np.float32)], comm=libshampoo.CallableComm(print, 2, 2))  # type: ignore[arg-type]


MPI_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from mpi4py import MPI
import libshampoo
from test_comm import model, same, steps, trained
world = MPI.COMM_WORLD
assert world.size == 2
assert same(trained(comm=world), trained())
libshampoo.MpiComm.largest = 64  # so that each message is sent in many pieces
assert same(trained(comm=world), trained())
values = model()
half = -(-values[0].size // 2)
part = values[0].reshape(-1)[world.rank * half:(world.rank + 1) * half].copy()
param = libshampoo.Param(part, shape=values[0].shape, flat_offset=world.rank * half)
opt = libshampoo.Optimizer([param], lr=0.1, grafting="adam", max_preconditioner_dim=8, shard_mode="gather",
                        shard_comm=world)
steps(opt, [part], values[:1], lambda g: g.reshape(-1)[world.rank * half:(world.rank + 1) * half].copy())
whole = np.concatenate(world.allgather(part))
assert whole.tobytes() == trained()[0].tobytes()
opt.save(sys.argv[2])
opt.load(sys.argv[2])
(duplicate,) = [comm._comm for comm in opt._comms]
opt.close()
assert duplicate == MPI.COMM_NULL
print("rank", world.rank, "done")
"""


def test_mpi4py_ranks_are_bit_identical_to_one_rank(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    launcher = shutil.which("mpiexec")
    if launcher is None:
        pytest.skip("there is no mpiexec")
    done = subprocess.run(
        [launcher, "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, "-c", MPI_PROGRAM,
         str(Path(__file__).parent), str(tmp_path / "checkpoint")],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("done") == 2
