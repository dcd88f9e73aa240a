# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shampoo with the interface of tinygrad.nn.optim, for tensors on tinygrad's CPU device."""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

try:
    from tinygrad import Device, Tensor, dtypes
    from tinygrad.engine.realize import capturing
    from tinygrad.helpers import TRAINING
    from tinygrad.nn.optim import Optimizer as TinygradOptimizer
except ImportError as error:
    raise ImportError(
        f"libshampoo.tinygrad needs tinygrad 0.14 or later: pip install --upgrade tinygrad ({error})", name="tinygrad"
    ) from error

from .dtypes import CODES, numpy_dtype
from .errors import StateError, UnsupportedError
from .optimizer import Optimizer

__all__ = ["Shampoo"]

_DTYPES = {
    dtypes.float32: CODES["f32"], dtypes.float64: CODES["f64"],
    dtypes.float16: CODES["f16"], dtypes.bfloat16: CODES["bf16"],
}  # fmt: skip


def _check(tensor: Any, what: str) -> Any:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{what}: {type(tensor).__name__}; expected a Tensor of tinygrad")
    if tensor.device != "CPU":
        raise ValueError(f"{what}: on {tensor.device}; expected tinygrad's device CPU. To make CPU the default "
                         'device, set the environment variable DEV=CPU or use Context(DEV="CPU")')  # fmt: skip
    if tensor.dtype not in _DTYPES:
        raise ValueError(f"{what}: {tensor.dtype}; expected float32, float64, float16 or bfloat16")
    return tensor


def _memory(tensor: Any, what: str) -> tuple[Any, Any]:
    """Return the memory of a realized tensor as a NumPy array, and the buffer that keeps the memory alive."""
    kind = numpy_dtype(_DTYPES[tensor.dtype])
    if math.prod(tensor.shape) == 0:
        return np.empty(tensor.shape, kind), None
    if kind == np.uint16:
        raise UnsupportedError(f"{what}: bfloat16 needs the package ml_dtypes; pip install ml_dtypes")
    buffer = tensor.uop.buffer.ensure_allocated()
    return np.frombuffer(buffer.as_memoryview(force_zero_copy=True), kind).reshape(tensor.shape), buffer


def _to_tensor(array: Any) -> Any:
    """Copy an array into a tensor. An array of uint16 contains the bits of bfloat16."""
    if array.dtype.name not in ("bfloat16", "uint16"):
        return Tensor(array.copy(), device="CPU")
    # This function computes nothing in bfloat16, because tinygrad uses clang, and clang 14 does not support bfloat16.
    tensor = Tensor.empty(*array.shape, dtype=dtypes.bfloat16, device="CPU")
    memory = tensor.uop.buffer.ensure_allocated().as_memoryview(force_zero_copy=True)
    memory[:] = np.ascontiguousarray(array).tobytes()
    return tensor


def _to_array(value: Any) -> Any:
    if isinstance(value, Tensor) and value.dtype == dtypes.bfloat16:
        buffer = value.to("CPU").contiguous().realize().uop.buffer.ensure_allocated()
        return np.frombuffer(buffer.as_memoryview(), numpy_dtype(CODES["bf16"])).reshape(value.shape)
    return value.numpy() if isinstance(value, Tensor) else value


class Shampoo(TinygradOptimizer):
    """A Shampoo optimizer with the interface of tinygrad.nn.optim.

    Steps update parameters and read gradients in place, on tinygrad's device CPU. ``step()`` realizes parameters and
    gradients, and runs the step immediately. Before you call ``step()``, realize everything that needs the old
    parameters, such as a loss to print. A step cannot be part of a TinyJit. The function that computes the gradients
    can be a TinyJit if it realizes and returns the gradients.

    Parameters
    ----------
    params
        Tensors, or a mapping from names to tensors. ``nn.state.get_state_dict(model)`` returns such a mapping. Tensors
        whose attribute ``is_param`` is false are left out. The names appear in messages and in the state.
    lr
        Learning rate. ``opt.lr`` is a tensor with this value; ``opt.lr.assign(...)`` changes the value.
    comm
        Same as for ``libshampoo.Optimizer``.
    threads
        Number of threads that work on a step. 0: as many as are useful, at most one for each available processor.
    **keys
        Same as for ``libshampoo.Optimizer``. ``libshampoo.KEYS`` lists all keys.

    Attributes
    ----------
    optimizer : libshampoo.Optimizer
        The underlying optimizer, with ``plan``, ``param_groups``, ``stats()``, ``save()`` and ``load()``.

    Examples
    --------
    >>> from tinygrad import Context, Tensor
    >>> from libshampoo.tinygrad import Shampoo
    >>> w = Tensor([[3.0, -4.0], [1.0, 2.0]]).realize()
    >>> opt = Shampoo([w], lr=0.1, grafting="adam")
    >>> with Context(TRAINING=1):
    ...     for _ in range(100):
    ...         opt.zero_grad()
    ...         loss = w.square().sum().backward()
    ...         opt.step()
    >>> bool(abs(w.numpy()).max() < 0.2)
    True
    """

    def __init__(self, params: Any, lr: float = 0.01, *, comm: Any = None, threads: int = 0, **keys: Any) -> None:
        named = params if isinstance(params, Mapping) else {}
        params = list(params.values()) if named else list(params)
        for number, param in enumerate(params):
            if not isinstance(param, Tensor):
                where = list(named)[number] if named else number
                raise TypeError(f"params[{where!r}] is {type(param).__name__}; expected a Tensor of tinygrad")
        super().__init__(params, lr, fused=False)
        names = {id(param): name for name, param in reversed(list(named.items()))}
        self._names = [names.get(id(param), f"param{number}") for number, param in enumerate(self.params)]
        arrays, self._buffers = self._read_params()
        self.optimizer = Optimizer(
            list(zip(self._names, arrays, strict=True)), comm=comm, threads=threads, lr=lr, **keys
        )
        self._pointers = [array.ctypes.data for array in arrays]
        self._rate: tuple[Any, Any] = (None, None)

    def _read_params(self) -> tuple[list[Any], list[Any]]:
        for name, param in zip(self._names, self.params, strict=True):
            _check(param, f"parameter {name!r}")
        Tensor.realize(*self.params)
        Device["CPU"].synchronize()
        for name, param in zip(self._names, self.params, strict=True):
            if not param.uop.has_buffer_identity() or param.uop.buffer.size != math.prod(param.shape):
                raise ValueError(f"parameter {name!r}: a view of another tensor; expected a tensor with its own "
                                 "memory. Call param.replace(param.clone().realize())")  # fmt: skip
        return self._read(self.params, "parameter {!r}")

    def _read_grads(self) -> tuple[list[Any], list[Any]]:
        grads = [param.grad for param in self.params]
        for name, grad in zip(self._names, grads, strict=True):
            if not _check(grad, f"gradient of {name!r}").uop.is_realized:
                grad.replace(grad.contiguous())  # computes the gradient once, in row-major order
        Tensor.realize(*grads)
        # A realized gradient that is not row-major is copied, not replaced: a TinyJit may write to that gradient again.
        dense = [grad.contiguous() for grad in grads]
        Tensor.realize(*dense)
        Device["CPU"].synchronize()
        return self._read(dense, "gradient of {!r}")

    def _read(self, tensors: list[Any], label: str) -> tuple[list[Any], list[Any]]:
        found = [_memory(tensor, label.format(name)) for name, tensor in zip(self._names, tensors, strict=True)]
        return [array for array, _ in found], [buffer for _, buffer in found]

    def _bind_rate(self) -> None:
        """Bind the tensor ``self.lr`` to the key lr. If the user has assigned a number to ``self.lr``, set the key."""
        if not isinstance(self.lr, Tensor):
            self.optimizer.bind_scalar("lr", None)
            self.optimizer.lr = float(self.lr)
            self._rate = (None, None)
            return
        self.lr.replace(self.lr.contiguous()).realize()
        array, buffer = _memory(_check(self.lr, "lr"), "lr")
        if buffer is not self._rate[1]:
            self.optimizer.bind_scalar("lr", array)
            self._rate = (array, buffer)

    def step(self) -> None:
        """Run one step.

        Raises
        ------
        RuntimeError
            If a parameter has no gradient, tinygrad is not in training mode, or a TinyJit captures the call.
        ValueError
            If a parameter or gradient is on another device than CPU, or a parameter is a view of another tensor. The
            message names the parameter.
        FloatingPointError
            If a gradient is not finite, a state would overflow, or the call reports such an error of an earlier step.
            With one rank, parameters and state have not changed.
        """
        if capturing:
            raise StateError("step: called inside a TinyJit, which would not repeat the step; return the gradients "
                             "from the TinyJit, and call step outside of the TinyJit")  # fmt: skip
        if not TRAINING:
            raise StateError("step: tinygrad is not in training mode; call step inside Context(TRAINING=1)")
        for name, param in zip(self._names, self.params, strict=True):
            if param.grad is None:
                raise StateError(f"step: parameter {name!r} has no gradient; call backward() first, on a loss that "
                                 "depends on the parameter")  # fmt: skip
        grads, kept = self._read_grads()
        arrays, self._buffers = self._read_params()
        pointers = [array.ctypes.data for array in arrays]
        if pointers != self._pointers:  # for example after tinygrad's load_state_dict(), which calls replace()
            self.optimizer.bind(params=arrays)
            self._pointers = pointers
        self._bind_rate()
        try:
            self.optimizer.step(grads)
        finally:
            self.optimizer.bind(grads=None)  # so that zero_grad() frees the gradients
            kept.clear()

    def schedule_step(self) -> NoReturn:
        """Raise an error, because a step does not consist of tensors that could be realized later."""
        raise UnsupportedError("schedule_step: a step of Shampoo runs immediately; realize the loss, then call step()")

    def state_dict(self) -> dict[str, Any]:
        """Copy the state into tensors by name, for ``nn.state.safe_save``."""
        return {name: _to_tensor(array) for name, array in self.optimizer.state_dict().items()}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state that ``state_dict`` returned. Hyper-parameters do not change.

        Raises
        ------
        ValueError
            If an entry is missing, unknown, or has the wrong shape or dtype. The state has not changed.
        """
        self.optimizer.load_state_dict({name: _to_array(value) for name, value in state_dict.items()})

    def _asdict(self) -> NoReturn:  # without this method, nn.state.get_state_dict() would return a part of the state
        raise TypeError("nn.state cannot read the state of a Shampoo optimizer; use its state_dict()")
