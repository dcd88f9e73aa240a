# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each status of the library, each also one of Python's own."""
from __future__ import annotations

import re

#: Python's names of the number types of keys.
PYTHON_TYPES = {"f64": "float", "i64": "int"}
_ARTICLES = {"f64": "a", "i64": "an"}


class Error(Exception):
    """What a call of the library failed with. ``status`` is its code, such as ``_native.SHAMPOO_E_STATE``."""

    status = 0


class InvalidError(Error, ValueError):
    """An argument or a value of a key is wrong: fix the call."""

    status = 1


class StateError(Error, RuntimeError):
    """The call is right and the moment is wrong, such as a step before gradients are there."""

    status = 2


class UnsupportedError(Error, NotImplementedError):
    """Another version, build or machine may do it: not the one that runs."""

    status = 3


class OutOfMemoryError(Error, MemoryError):
    """Memory or another resource of the system ran out: free some, or ask for less."""

    status = 4


class NumericError(Error, FloatingPointError):
    """NaN or infinity was met; the step has changed nothing, and training may go on.

    ``step`` is the number of that step, where ``Optimizer.status`` has told of it.
    """

    status = 5
    step: int | None = None


class CommError(Error, RuntimeError):
    """A collective failed: tear the job down. ``__cause__`` is the exception of a communicator in Python."""

    status = 6


class DeviceError(Error, RuntimeError):
    """A GPU or its runtime failed: end the process."""

    status = 7


class FileError(Error, OSError):
    """A file is missing, unreadable or damaged, or the disk is full."""

    status = 8


class InternalError(Error, SystemError):
    """A bug of the library: please report it, with this text and ``libshampoo.build_info()``."""

    status = 9


_BY_STATUS = {kind.status: kind for kind in Error.__subclasses__()}


def _with_python_types(text: str) -> str:
    """Replace the library's name of a number type in the message about the value of a key."""
    return re.sub(
        r"^(key \w+: the value .* is not allowed: expected) (f64|i64), ",
        lambda found: f"{found[1]} {_ARTICLES[found[2]]} {PYTHON_TYPES[found[2]]}, ",
        text,
        flags=re.DOTALL,
    )


def from_status(status: int, text: str) -> Error:
    """Make the exception of a failed call; the native module calls it."""
    text = _with_python_types(text)
    kind = _BY_STATUS.get(status)
    if kind is not None:
        return kind(text)
    error = Error(f"status {status}: {text}")
    error.status = status
    return error
