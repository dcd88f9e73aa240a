# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shampoo optimizers for arrays of NumPy, PyTorch and other packages that support DLPack.

``Optimizer``, also named ``Shampoo``, updates arrays in place, or computes updates for read-only arrays. ``plan``
predicts blocks and memory before an optimizer is created. ``KEYS`` lists all hyper-parameters with their documentation.
docs/python.md is the guide.
"""
from __future__ import annotations

from . import _native

_native.start(_native)  # must be the first call: raises ImportError if library and package differ in version

from . import cuda, errors
from . import log as _log  # noqa: F401  this import forwards log messages to the module logging
from .checkpoint import load, save
from .comm import CallableComm, Communicator, MpiComm, NativeComm, NcclComm
from .errors import (
    CommError,
    DeviceError,
    Error,
    FileError,
    InternalError,
    InvalidError,
    NumericError,
    OutOfMemoryError,
    StateError,
    UnsupportedError,
)
from .groups import Group
from .keys import KEYS, Key, help_text
from .optimizer import Optimizer
from .params import Param
from .plan import Block, Plan, plan

__all__ = [
    "KEYS", "Block", "CallableComm", "CommError", "Communicator", "DeviceError", "Error", "FileError", "Group",
    "InternalError", "InvalidError", "Key", "MpiComm", "NativeComm", "NcclComm", "NumericError", "Optimizer",
    "OutOfMemoryError", "Param", "Plan", "Shampoo", "StateError", "UnsupportedError", "build_info", "cuda", "errors",
    "help_text", "load", "plan", "save",
]  # fmt: skip

#: Alias of Optimizer: the optimizers in libshampoo.torch and libshampoo.tinygrad have this name, too.
Shampoo = Optimizer

_version = _native.shampoo_version()
__version__ = f"{_version // 10000}.{_version // 100 % 100}.{_version % 100}"


def build_info() -> str:
    """Describe the library as JSON: its version, compiler, BLAS and features, for logs and bug reports."""
    return _native.shampoo_build_info()


def __dir__() -> list[str]:
    """List the public names and the adapter modules that have been imported."""
    return sorted([*__all__, "__version__", *(name for name in ("jax", "tinygrad", "torch") if name in globals())])
