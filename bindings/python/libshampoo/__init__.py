# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shampoo optimizers on arrays of NumPy, PyTorch and others with DLPack, without a copy.

``Optimizer`` steps arrays in place, or beside read-only ones gives their updates; ``plan`` tells before what it will
cost; ``KEYS`` has every hyper-parameter with its documentation. docs/python.md is the guide.
"""
from __future__ import annotations

from . import _native

_native.start(_native)  # an ImportError where the library is of another version: before anything uses it

from . import cuda, errors
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
from .log import set_log_level
from .optimizer import Optimizer
from .params import Param
from .plan import Block, Plan, plan

__all__ = [
    "KEYS", "Block", "CallableComm", "CommError", "Communicator", "DeviceError", "Error", "FileError", "Group",
    "InternalError", "InvalidError", "Key", "MpiComm", "NativeComm", "NcclComm", "NumericError", "Optimizer",
    "OutOfMemoryError", "Param", "Plan", "StateError", "UnsupportedError", "build_info", "cuda", "errors",
    "help_text", "load", "plan", "save", "set_log_level",
]  # fmt: skip

_version = _native.shampoo_version()
__version__ = f"{_version // 10000}.{_version // 100 % 100}.{_version % 100}"


def build_info() -> str:
    """Tell what the library is, as JSON: its version, compiler, BLAS and features, for logs and bug reports."""
    return _native.shampoo_build_info()
