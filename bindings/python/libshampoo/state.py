# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the state of an optimizer as a dictionary of NumPy arrays by name. Each array is an *entry*."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from . import _native
from .dtypes import NUMPY_NAMES, numpy_dtype


class Entry(NamedTuple):
    """Description of one array of the state. ``key`` is its name, and ``dtype`` is a code such as SHAMPOO_F32."""

    number: int
    key: str
    shape: tuple[int, ...]
    dtype: int


def entries(handle: _native.shampoo_optimizer) -> Iterator[Entry]:
    """Yield the descriptions of all entries of the state."""
    entry = _native.shampoo_state_entry()
    for index in range(_native.shampoo_state_count(handle)):
        _native.shampoo_state_describe(handle, index, entry)
        yield Entry(index, entry.key, entry.shape[: entry.ndim], entry.dtype)


def read_entry(handle: _native.shampoo_optimizer, entry: Entry, stream: int) -> Any:
    """Copy one entry into a NumPy array."""
    import numpy

    array = numpy.empty(entry.shape, numpy_dtype(entry.dtype))
    _native.shampoo_state_read(
        handle, entry.number, 0, array.size, array.ctypes.data, array.nbytes, _native.SHAMPOO_CPU, stream or None
    )
    return array


def write_entry(handle: _native.shampoo_optimizer, entry: Entry, array: Any, stream: int) -> None:
    """Write one entry. ``array`` must be an array that ``check_entry`` has returned."""
    _native.shampoo_state_write(
        handle, entry.number, 0, array.size, array.ctypes.data, array.nbytes, _native.SHAMPOO_CPU, stream or None
    )


def check_entry(entry: Entry, value: Any) -> Any:
    """Return a value as a contiguous array. Raise ValueError if its shape or dtype differs from that of the entry."""
    import numpy

    array = numpy.ascontiguousarray(value).reshape(numpy.shape(value))
    if array.shape != entry.shape:
        raise ValueError(f"state {entry.key!r}: shape {array.shape}; expected {entry.shape}")
    # Without the package ml_dtypes, an array in bfloat16 has the dtype uint16.
    bits = entry.dtype == _native.SHAMPOO_BF16 and array.dtype == numpy.uint16
    if array.dtype != numpy_dtype(entry.dtype) and str(array.dtype) != NUMPY_NAMES[entry.dtype] and not bits:
        raise ValueError(f"state {entry.key!r}: dtype {array.dtype}; expected {NUMPY_NAMES[entry.dtype]}")
    return array


def read(handle: _native.shampoo_optimizer, stream: int) -> dict[str, Any]:
    """Copy all entries into NumPy arrays."""
    return {entry.key: read_entry(handle, entry, stream) for entry in entries(handle)}


def write(handle: _native.shampoo_optimizer, values: Mapping[str, Any], stream: int) -> None:
    """Check all values, then write them. If a check fails, the state has not changed."""
    wanted = list(entries(handle))
    names = {entry.key for entry in wanted}
    for key in values:
        if key not in names:
            raise ValueError(
                f"state {key!r}: the optimizer has no such entry; expected the state of an optimizer with the same "
                "parameters and hyper-parameters"
            )
    arrays = []
    for entry in wanted:
        if entry.key not in values:
            raise ValueError(
                f"state {entry.key!r} is missing; expected the state of an optimizer with the same parameters and "
                "hyper-parameters"
            )
        arrays.append(check_entry(entry, values[entry.key]))
    for entry, array in zip(wanted, arrays, strict=True):
        write_entry(handle, entry, array, stream)
