# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Exceptions: one class for each status of the library. Each class is also derived from a built-in exception."""
from __future__ import annotations

import re

#: Maps the types of numeric keys to Python's names of these types.
PYTHON_TYPES = {"f64": "float", "i64": "int"}
_ARTICLES = {"f64": "a", "i64": "an"}


class Error(Exception):
    """Base class of the errors that the library reports.

    ``status`` is the status code, such as SHAMPOO_E_STATE.
    """

    status = 0


class InvalidError(Error, ValueError):
    """An argument or the value of a key is wrong."""

    status = 1


class StateError(Error, RuntimeError):
    """The call is not possible in the current state, such as a step without gradients."""

    status = 2


class UnsupportedError(Error, NotImplementedError):
    """The call is not supported by this version, build or machine."""

    status = 3


class OutOfMemoryError(Error, MemoryError):
    """Memory or another resource of the system ran out."""

    status = 4


class NumericError(Error, FloatingPointError):
    """A step found NaN or infinity. The step has changed no parameter, and training can continue.

    If ``Optimizer.status`` raised the error, ``step`` is the number of the step that failed.
    """

    status = 5
    step: int | None = None


class CommError(Error, RuntimeError):
    """A collective failed, and the job must be restarted.

    If a communicator in Python raised an exception, ``__cause__`` is that exception.
    """

    status = 6


class DeviceError(Error, RuntimeError):
    """A GPU or its runtime failed, and the process must be restarted."""

    status = 7


class FileError(Error, OSError):
    """A file is missing, unreadable or damaged, or the disk is full."""

    status = 8


class InternalError(Error, SystemError):
    """A bug in the library. Please report it with the message and ``libshampoo.build_info()``."""

    status = 9


_BY_STATUS = {kind.status: kind for kind in Error.__subclasses__()}


def _with_python_types(text: str) -> str:
    """Replace "f64" by "float" and "i64" by "int" in a message about the value of a key."""
    return re.sub(
        r"^(key \w+: the value .* is not allowed: expected) (f64|i64): ",
        lambda found: f"{found[1]} {_ARTICLES[found[2]]} {PYTHON_TYPES[found[2]]}: ",
        text,
        flags=re.DOTALL,
    )


def from_status(status: int, text: str) -> Error:
    """Return the exception for a failed call. The native module calls this function."""
    text = _with_python_types(text)
    kind = _BY_STATUS.get(status)
    if kind is not None:
        return kind(text)
    error = Error(f"status {status}: {text}")
    error.status = status
    return error
