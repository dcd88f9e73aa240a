# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of addresses, streams and the lifetime of arrays on the fake CUDA, which runs on the CPU."""
from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from test_threads import PATIENCE, Pair, in_threads

import libshampoo
from tools import from_environment

#: With this value of `epsilon`, the inverse roots on the CPU and on CUDA differ little.
KEYS = {"lr": 0.1, "grafting": "adam", "epsilon": 1e-3, "use_merge_dims": False}


class Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]  # fmt: skip


Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]


#: Keeps each exported tensor alive until the consumer of its DLPack capsule calls the deleter.
exported: dict[int, Any] = {}
delete = Deleter(lambda address: exported.pop(address) and None)
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Cuda:
    """The functions of the CUDA runtime that the tests need."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> None:
        assert getattr(self.library, name)(*arguments) == 0, name

    def stream(self) -> int:
        made = ctypes.c_void_p()
        self.call("cudaStreamCreate", ctypes.byref(made))
        assert made.value is not None
        return made.value


class OnDevice:
    """A device array that supports only DLPack."""

    def __init__(self, cuda: Cuda, values: np.ndarray, strides: tuple[int, ...] | None = None) -> None:
        self.cuda, self.streams = cuda, []  # type: ignore[var-annotated]
        self.strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        self.like, self.address = np.empty_like(values), ctypes.c_void_p()
        cuda.call("cudaMalloc", ctypes.byref(self.address), ctypes.c_size_t(values.nbytes))
        cuda.call("cudaMemcpy", self.address, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(values.nbytes), 1)

    def read(self) -> np.ndarray:
        self.cuda.call("cudaDeviceSynchronize")
        size = ctypes.c_size_t(self.like.nbytes)
        self.cuda.call("cudaMemcpy", ctypes.c_void_p(self.like.ctypes.data), self.address, size, 2)
        return self.like.copy()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2, 0)

    def __dlpack__(self, stream: Any = None) -> Any:
        self.streams.append(stream)
        managed = Managed()
        managed.tensor = Tensor(self.address.value, Device(2, 0), self.like.ndim, 2, 32, 1)
        managed.tensor.shape = (ctypes.c_int64 * self.like.ndim)(*self.like.shape)
        managed.tensor.strides = None if self.strides is None else ctypes.addressof(self.strides)
        managed.deleter = delete
        exported[ctypes.addressof(managed)] = (self, managed)
        return new_capsule(ctypes.addressof(managed), b"dltensor", None)


@pytest.fixture(scope="module")
def cuda() -> Cuda:
    path = str(from_environment("SHAMPOO_CUDA_FAKE"))
    libshampoo.cuda.load(path)
    assert libshampoo.cuda.unavailable_reason() == ""
    return Cuda(path)


def on_cpu(w: np.ndarray, grad: np.ndarray) -> np.ndarray:
    w = w.copy()
    opt = libshampoo.Optimizer([w], **KEYS)
    for _ in range(3):
        opt.step([grad])
    return w


def test_steps_run_on_a_stream(cuda: Cuda) -> None:
    random = np.random.default_rng(1)
    w, grad = (random.standard_normal((6, 4)).astype(np.float32) for _ in range(2))
    param, gradient, stream = OnDevice(cuda, w), OnDevice(cuda, grad), cuda.stream()
    opt = libshampoo.Optimizer([param], **KEYS)
    assert "cuda:0" in repr(opt)
    assert opt._buffers.views[0][0].pointer == param.address.value
    for _ in range(3):
        opt.step([gradient], stream=stream)
    assert opt.status() is None
    for key, value in opt.state_dict(stream=stream).items():
        assert value.tobytes() == opt.state_dict()[key].tobytes()
    opt.load_state_dict(opt.state_dict(stream=stream), stream=stream)
    assert gradient.streams == [stream] * 3
    assert param.streams == [1], "expected 1, DLPack's number of the legacy default stream"
    np.testing.assert_allclose(param.read(), on_cpu(w, grad), rtol=1e-4, atol=1e-6)
    opt.close()


class OnHost(libshampoo.Communicator):
    """The communicator of one rank (a thread). ``all_gather`` copies device memory through host memory."""

    device_type = libshampoo._native.SHAMPOO_CUDA

    def __init__(self, cuda: Cuda, rank: int, parts: list[bytes], barrier: threading.Barrier) -> None:
        self.cuda, self.rank, self.world, self.parts, self.barrier = cuda, rank, len(parts), parts, barrier

    def all_gather(self, send: int, recv: int, size: int, stream: int) -> None:  # type: ignore[override]
        own = ctypes.create_string_buffer(size)
        self.cuda.call("cudaStreamSynchronize", ctypes.c_void_p(stream))
        self.cuda.call("cudaMemcpy", own, ctypes.c_void_p(send), ctypes.c_size_t(size), 2)
        self.parts[self.rank] = own.raw
        self.barrier.wait(PATIENCE)
        everything = b"".join(self.parts)
        self.barrier.wait(PATIENCE)
        self.cuda.call("cudaMemcpy", ctypes.c_void_p(recv), everything, ctypes.c_size_t(len(everything)), 1)


@pytest.mark.parametrize("takes_device_memory", [True, False])
def test_shards_are_updated_on_the_device(cuda: Cuda, takes_device_memory: bool) -> None:
    """Each rank updates some rows of the parameter, as with the DTensors of FSDP2 in libshampoo.torch."""
    random = np.random.default_rng(2)
    w, grad = (random.standard_normal((5, 4)).astype(np.float32) for _ in range(2))
    parts, barrier = [b"", b""], threading.Barrier(2)
    through_host = Pair(barrier)
    rows = [slice(0, 3), slice(3, 5)]

    def run(rank: int) -> np.ndarray:
        stream, param = cuda.stream(), OnDevice(cuda, w[rows[rank]])
        gradient = OnDevice(cuda, grad[rows[rank]])
        described = libshampoo.Param(param, shape=w.shape, local_offset=(rows[rank].start, 0))
        comm = OnHost(cuda, rank, parts, barrier) if takes_device_memory else through_host.rank(rank)
        opt = libshampoo.Optimizer({"w": described}, shard_comm=comm, stream=stream, **KEYS)
        assert all(block.of_shard for block in opt.plan.blocks)
        for _ in range(3):
            opt.step([gradient], stream=stream)
        opt.status()
        found = param.read()
        barrier.wait(PATIENCE)
        opt.close()
        return found

    for rank, found in enumerate(in_threads(run, 2)):
        assert isinstance(found, np.ndarray), found
        np.testing.assert_allclose(found, on_cpu(w[rows[rank]], grad[rows[rank]]), rtol=1e-4, atol=1e-6)


def test_a_gradient_lives_until_its_step_is_done(cuda: Cuda) -> None:
    param = OnDevice(cuda, np.ones(4, np.float32))
    opt = libshampoo.Optimizer([param], lr=0.1)
    gradients = [OnDevice(cuda, np.ones(4, np.float32)) for _ in range(3)]
    kept = [weakref.ref(gradient) for gradient in gradients]
    lives = []
    while gradients:
        opt.step([gradients.pop(0)])
        gc.collect()
        lives.append([gradient() is not None for gradient in kept])
    # After this call, no gradient is bound, but the last step may still read the last gradient.
    opt.bind(grads=None)
    gc.collect()
    lives.append([gradient() is not None for gradient in kept])
    assert lives[0][0] and lives[1][1]
    assert lives[2] == [False, False, True]
    assert lives[3] == [False, False, True]
    opt.close()
    gc.collect()
    assert not any(gradient() is not None for gradient in kept)


def test_the_call_after_a_rejected_step_reports_it(cuda: Cuda) -> None:
    opt = libshampoo.Optimizer({"w": OnDevice(cuda, np.ones(4, np.float32))})
    opt.step([OnDevice(cuda, np.full(4, np.nan, np.float32))])
    with pytest.raises(FloatingPointError, match='"w"') as error:
        opt.status()
    assert error.value.step == 1
    opt.close()


def test_a_bound_learning_rate_lives_until_its_step_is_done(cuda: Cuda) -> None:
    opt = libshampoo.Optimizer([OnDevice(cuda, np.ones(4, np.float32))], lr=0.1)
    rate, stream = OnDevice(cuda, np.full(1, 0.5, np.float32)), cuda.stream()
    kept = weakref.ref(rate)
    opt.bind_scalar("lr", rate, stream=stream)
    assert rate.streams == [stream]
    opt.step([OnDevice(cuda, np.ones(4, np.float32))], stream=stream)
    del rate
    opt.bind_scalar("lr", None)
    gc.collect()
    assert kept() is not None, "the step may still be reading the learning rate"
    opt.step(stream=stream)
    gc.collect()
    assert kept() is None
    opt.close()


def test_gradients_that_are_not_row_major_are_rejected(cuda: Cuda) -> None:
    """Gradients that are not row-major are copied only on the CPU."""
    ones = np.ones((4, 3), np.float32)
    param = OnDevice(cuda, ones)
    opt = libshampoo.Optimizer({"w": param}, **KEYS)
    with pytest.raises(ValueError, match="gradient of 'w': its strides .* it is on cuda: pass a contiguous copy"):
        opt.step({"w": OnDevice(cuda, ones, (1, 4))})
    opt.step({"w": OnDevice(cuda, ones, (3, 1))})
    assert (param.read() < 1).all()


def test_arrays_on_another_device_are_rejected(cuda: Cuda) -> None:
    opt = libshampoo.Optimizer({"w": OnDevice(cuda, np.ones(4, np.float32))})
    with pytest.raises(ValueError, match="gradient of 'w': on cpu:0; expected cuda:0, the device of the optimizer"):
        opt.step([np.ones(4, np.float32)])
    with pytest.raises(ValueError, match="parameter 'w': on cpu:0"):
        libshampoo.Optimizer({"w": np.ones(4, np.float32)}, device="cuda")
    other = libshampoo.Optimizer({"w": np.ones(4, np.float32)})
    with pytest.raises(ValueError, match="gradient of 'w': on cuda:0; expected cpu:0, the device of the optimizer"):
        other.step([OnDevice(cuda, np.ones(4, np.float32))])
