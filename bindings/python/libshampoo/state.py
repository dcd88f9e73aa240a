# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The state of an optimizer as arrays by their names."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from . import _native
from .dtypes import NUMPY_NAMES, numpy_dtype


def _entries(handle: _native.shampoo_optimizer) -> Iterator[tuple[int, str, tuple[int, ...], int]]:
    entry = _native.shampoo_state_entry()
    for index in range(_native.shampoo_state_count(handle)):
        _native.shampoo_state_describe(handle, index, entry)
        yield index, entry.key, entry.shape[: entry.ndim], entry.dtype


def read(handle: _native.shampoo_optimizer, stream: int) -> dict[str, Any]:
    """Copy every entry into an array of NumPy."""
    import numpy

    found = {}
    for index, key, shape, dtype in _entries(handle):
        array = numpy.empty(shape, numpy_dtype(dtype))
        _native.shampoo_state_read(
            handle, index, 0, array.size, array.ctypes.data, array.nbytes, _native.SHAMPOO_CPU, stream or None
        )
        found[key] = array
    return found


def write(handle: _native.shampoo_optimizer, entries: Mapping[str, Any], stream: int) -> None:
    """Write every entry, after all of them have been looked at."""
    import numpy

    wanted = list(_entries(handle))
    names = {key for _, key, _, _ in wanted}
    for key in entries:
        if key not in names:
            raise ValueError(f"state {key!r}: the optimizer has no such entry")
    arrays = []
    for _, key, shape, dtype in wanted:
        if key not in entries:
            raise ValueError(f"state {key!r} is missing")
        array = numpy.ascontiguousarray(entries[key]).reshape(numpy.shape(entries[key]))
        if array.shape != shape:
            raise ValueError(f"state {key!r}: shape {array.shape}, and the optimizer has {shape}")
        bits = dtype == _native.SHAMPOO_BF16 and array.dtype == numpy.uint16  # of a process without ml_dtypes
        if array.dtype != numpy_dtype(dtype) and str(array.dtype) != NUMPY_NAMES[dtype] and not bits:
            raise ValueError(f"state {key!r}: dtype {array.dtype}, and the optimizer has {NUMPY_NAMES[dtype]}")
        arrays.append(array)
    for (index, _, _, _), array in zip(wanted, arrays, strict=True):
        _native.shampoo_state_write(
            handle, index, 0, array.size, array.ctypes.data, array.nbytes, _native.SHAMPOO_CPU, stream or None
        )
