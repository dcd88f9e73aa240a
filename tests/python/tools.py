# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Helpers that several Python tests share."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recorded

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "golden" / "data" / "trajectory"
# Recorded trajectories (sequences of steps). The reference implementation computed those in DATA. The NumPy model
# tests/golden/rules/model.py computed the others.
TRAJECTORIES = sorted([*DATA.glob("*.safetensors"), *(DATA.parent / "rules").glob("*.safetensors")])


def from_environment(name: str) -> Path:
    """Return the path in the environment variable `name`, which ctest sets."""
    if name not in os.environ:
        pytest.skip(f"{name} is not set; ctest sets it")
    return Path(os.environ[name])


def bfloat16() -> Any:
    return pytest.importorskip("ml_dtypes").bfloat16


def read_safetensors(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the tensors of a recorded file, without conversion, and the settings of the recorded case."""
    kinds = {"F64": "f8", "F32": "f4", "F16": "f2", "I64": "i8", "I32": "i4"}
    tensors, case = recorded.read(path)
    found = {}
    for name, tensor in tensors.items():
        dtype = bfloat16() if tensor.dtype == "BF16" else kinds[tensor.dtype]
        found[name] = np.frombuffer(tensor.data, dtype).reshape(tensor.shape)
    return found, case


class OnlyDlpack:
    """An array that can be read only through DLPack, like an array of a package that NumPy does not know."""

    def __init__(self, array: np.ndarray, device: tuple[int, int] = (1, 0)) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        try:
            return self.array.__dlpack__(**options)
        except TypeError:  # NumPy 1 does not accept all options
            return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device


class OldDlpack(OnlyDlpack):
    """An array of a package whose ``__dlpack__`` has only the argument ``stream``, as in early versions of DLPack."""

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()
