# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Names of dtypes: the codes of the library, its names in keys, and those of NumPy and others."""
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
#: "f32" of "float32", and so on.
LONG_NAMES = {name: KEY_NAMES[code] for code, name in NUMPY_NAMES.items()}
_ALL_NAMES = {**CODES, **{name: code for code, name in NUMPY_NAMES.items()}}


def name_of(dtype: Any) -> str:
    """Give the plain name of a dtype: "float32" for ``numpy.float32``, its dtype, ``torch.float32`` or "float32"."""
    if isinstance(dtype, str):
        return dtype
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]


def code_of(dtype: Any, what: str) -> int:
    """Give the code of a floating-point dtype in any spelling.

    Parameters
    ----------
    dtype
        "f32", "float32", ``numpy.float32``, ``ml_dtypes.bfloat16``, ``torch.float32``, ...
    what
        How the message names it.

    Raises
    ------
    ValueError
        It is none of float32, float64, float16 and bfloat16.
    """
    code = _ALL_NAMES.get(name_of(dtype))
    if code is None or code in (_native.SHAMPOO_I32, _native.SHAMPOO_I64):
        raise ValueError(f"{what}: dtype {name_of(dtype)}: float32, float64, float16 or bfloat16 is expected")
    return code


def numpy_dtype(code: int) -> Any:
    """Give NumPy's dtype of a code; for bfloat16 that of ml_dtypes, or without it uint16 with the same bits."""
    import numpy

    if code != _native.SHAMPOO_BF16:
        return numpy.dtype(NUMPY_NAMES[code])
    try:
        import ml_dtypes
    except ImportError:
        return numpy.dtype("uint16")
    return numpy.dtype(ml_dtypes.bfloat16)
