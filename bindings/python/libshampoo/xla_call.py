# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Steps as XLA custom calls: compiled programs call handlers (C++ functions), which call the library without Python."""
from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import _native
from .params import Param
from .plan import plan

INIT, STEP, EXPORT = "shampoo_init", "shampoo_step", "shampoo_export"
_LIBRARY = Path(__file__).with_name("_xla_handlers.so")

try:
    import jax as jax  # libshampoo.jax imports it from here
    import jax.ffi
except ImportError as error:
    _again = "" if _LIBRARY.exists() else ", then build libshampoo again, because this build was made without jaxlib"
    raise ImportError(f"libshampoo.jax needs jax 0.6 or later: pip install --upgrade jax{_again}") from error


def _jaxlib_api_version() -> int:
    """Return the version of XLA's foreign function interface in the installed jaxlib: major * 1000 + minor."""
    text = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text(encoding="utf-8")
    numbers = re.findall(r"^#define XLA_FFI_API_(?:MAJOR|MINOR) (\d+)", text, re.MULTILINE)
    return int(numbers[0]) * 1000 + int(numbers[1])


def check_version(compiled: int, running: int) -> None:
    """Raise ImportError if the installed jaxlib cannot call the compiled handlers.

    XLA would not start if handlers that it cannot call were registered.
    """
    if compiled // 1000 == running // 1000 and compiled <= running:
        return
    names = [f"{number // 1000}.{number % 1000}" for number in (compiled, running)]
    raise ImportError(
        f"libshampoo.jax was compiled for version {names[0]} of XLA's foreign function interface, but the interface of "
        f"jaxlib {version('jaxlib')} has version {names[1]}: install a jaxlib with version {names[0]} of the "
        "interface or a later minor version, or build libshampoo again with the installed jaxlib"
    )


def _load() -> ctypes.CDLL:
    if not _LIBRARY.exists():
        raise ImportError(
            "this build of libshampoo was made without jaxlib and does not contain libshampoo.jax. jax is installed "
            "now; build libshampoo again (in its source: pip install --force-reinstall --no-deps --no-cache-dir .)"
        )
    library = ctypes.CDLL(str(_LIBRARY))
    check_version(library.ShampooXlaApiVersion(), _jaxlib_api_version())
    for platform, suffix in (("cpu", "Cpu"), ("CUDA", "Cuda")):
        for name, handler in ((INIT, "ShampooXlaInit"), (STEP, "ShampooXlaStep")):
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(library[handler + suffix]), platform=platform)
    jax.ffi.register_ffi_target(EXPORT, jax.ffi.pycapsule(library["ShampooXlaExportCpu"]), platform="cpu")
    return library


_library = _load()


class Program:
    """A plan, and a string from which the handlers create an optimizer when they first need it.

    Attributes
    ----------
    text : str
        String that describes the plan completely, except for the device.
    plan : Plan
        The plan.
    state_bytes : int
        Size of the arena in bytes.
    """

    def __init__(self, params: Sequence[tuple[str, Param]], threads: int, keys: Mapping[str, Any]) -> None:
        self.plan = plan(list(params), threads=threads, **keys)
        lines = [f"threads {threads}"]
        lines += [f"key {name} {_native.shampoo_config_get(self.plan.configs[0], name)}" for name in sorted(keys)]
        for param in self.plan.described:
            desc = param.desc
            shape = desc.shape[: desc.ndim]
            numbers = (desc.stack_dims, desc.role, desc.fan, *desc.row_splits, desc.param_dtype, desc.grad_dtype,
                       desc.out_dtype, desc.ndim, *shape)  # fmt: skip
            lines.append(f"param {' '.join(map(str, numbers))} {desc.name}")
        self.text = "\n".join(lines)
        self.state_bytes = self.plan.bytes("state")
        encoded = self.text.encode()
        _library.ShampooXlaRetain(encoded)
        weakref.finalize(self, _library.ShampooXlaRelease, encoded).atexit = False

    def init(self) -> jax.Array:
        """Return a new arena that contains the initial state."""
        arena = jax.ShapeDtypeStruct((self.state_bytes,), jax.numpy.uint8)
        return jax.ffi.ffi_call(INIT, arena, vmap_method="sequential")(plan=self.text)

    def step(
        self,
        learning_rate: jax.Array,
        arena: jax.Array,
        params: Sequence[jax.Array],
        grads: Sequence[jax.Array | None],
        update_dtypes: Sequence[Any],
    ) -> tuple[jax.Array, list[jax.Array]]:
        """Return the next arena and the updates. A donated ``arena`` gives its memory to the next arena."""
        results = [jax.ShapeDtypeStruct(arena.shape, arena.dtype)]
        results += [jax.ShapeDtypeStruct(param.shape, dtype) for param, dtype in zip(params, update_dtypes)]
        present = [grad for grad in grads if grad is not None]
        call = jax.ffi.ffi_call(STEP, results, input_output_aliases={1: 0}, vmap_method="sequential")
        flags = "".join("0" if grad is None else "1" for grad in grads)
        next_arena, *updates = call(learning_rate, arena, *params, *present, plan=self.text, has_grad=flags)
        return next_arena, updates

    def export(
        self, blend: float, arena: jax.Array, params: Sequence[jax.Array], dtypes: Sequence[Any]
    ) -> list[jax.Array]:
        """Return the averages as arrays of ``dtypes``. ``blend`` is the argument of ``shampoo_optimizer_export``."""
        results = [jax.ShapeDtypeStruct(param.shape, dtype) for param, dtype in zip(params, dtypes)]
        call = jax.ffi.ffi_call(EXPORT, results, vmap_method="sequential")
        return list(call(arena, *params, plan=self.text, blend=np.float64(blend)))
