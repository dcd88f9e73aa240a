# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Converts dtypes between codes of the library, names in keys, and names of NumPy and other packages."""
from __future__ import annotations

from typing import Any

from . import _native

CODES = {
    "f32": _native.SHAMPOO_F32,
    "f64": _native.SHAMPOO_F64,
    "f16": _native.SHAMPOO_F16,
    "bf16": _native.SHAMPOO_BF16,
    "i32": _native.SHAMPOO_I32,
    "i64": _native.SHAMPOO_I64,
}
KEY_NAMES = {code: name for name, code in CODES.items()}
NUMPY_NAMES = {
    _native.SHAMPOO_F32: "float32",
    _native.SHAMPOO_F64: "float64",
    _native.SHAMPOO_F16: "float16",
    _native.SHAMPOO_BF16: "bfloat16",
    _native.SHAMPOO_I32: "int32",
    _native.SHAMPOO_I64: "int64",
}
#: Maps NumPy's name of each dtype to the name in keys, for example "float32" to "f32".
LONG_NAMES = {name: KEY_NAMES[code] for code, name in NUMPY_NAMES.items()}
_ALL_NAMES = {**CODES, **{name: code for code, name in NUMPY_NAMES.items()}}


def name_of(dtype: Any) -> str:
    """Return the plain name of a dtype, such as "float32" for ``numpy.float32``, ``torch.float32`` or "float32"."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


def code_of(dtype: Any, what: str) -> int:
    """Return the code of a floating-point dtype.

    Parameters
    ----------
    dtype
        "f32", "float32", ``numpy.float32``, ``ml_dtypes.bfloat16``, ``torch.float32``, ...
    what
        Name of the argument in the error message.

    Raises
    ------
    ValueError
        If the dtype is not float32, float64, float16 or bfloat16.
    """
    code = _ALL_NAMES.get(name_of(dtype))
    if code is None or code in (_native.SHAMPOO_I32, _native.SHAMPOO_I64):
        raise ValueError(f"{what}: dtype {name_of(dtype)}; expected float32, float64, float16 or bfloat16")
    return code


def numpy_dtype(code: int) -> Any:
    """Return NumPy's dtype for a code. For bfloat16, return uint16 if the package ml_dtypes is not installed."""
    import numpy

    if code != _native.SHAMPOO_BF16:
        return numpy.dtype(NUMPY_NAMES[code])
    try:
        import ml_dtypes
    except ImportError:
        return numpy.dtype("uint16")
    return numpy.dtype(ml_dtypes.bfloat16)
