# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds a device by its name, and converts CUDA streams for DLPack."""
from __future__ import annotations

from . import _native, cuda
from .errors import UnsupportedError

DEVICES = {"cpu": _native.SHAMPOO_CPU, "cuda": _native.SHAMPOO_CUDA}


def find_device(device: str | None, first: _native.View | None) -> tuple[int, int]:
    """Return the type and number of the named device.

    If the name is None, return the first parameter's device. If the name has no number, use the number of the first
    parameter's device.
    """
    assert first is not None
    if device is None:
        found = first.device_type, first.device_id
    else:
        kind, _, number = device.partition(":")
        if kind not in DEVICES or not (number or "0").isdecimal():
            raise ValueError(f'device: {device!r}; expected "cpu", "cuda" or a numbered device such as "cuda:1"')
        found = DEVICES[kind], int(number or first.device_id)
    if found[0] == _native.SHAMPOO_CUDA:
        cuda.load()
        if text := cuda.unavailable_reason():
            raise UnsupportedError(f"CUDA cannot be used: {text}")
    return found


def dlpack_stream(stream: int) -> int:
    """Convert a CUDA stream for DLPack, in which the legacy default stream is 1 instead of 0."""
    return stream or 1
