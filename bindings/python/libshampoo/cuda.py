# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""CUDA: finds the libraries of NVIDIA that packages of PyPI have brought, and loads the library's own plugin."""
from __future__ import annotations

import functools
import os
import re
import sys
from pathlib import Path

from . import _native

#: What the plugin needs, and what that needs, in an order in which each finds the others.
_LIBRARIES = ("nvJitLink", "cublasLt", "cublas", "cusparse", "cusolver")


def _plugin() -> Path | None:
    beside = Path(__file__).parent / "libshampoo_cuda.so"
    return beside if beside.exists() else None


def folders() -> list[Path]:
    """Give the folders of libraries in packages named nvidia-*, in the order of sys.path."""
    found: list[Path] = []
    for entry in sys.path:
        root = Path(entry or ".") / "nvidia"
        if root.is_dir():
            found.extend(sorted(root.glob("*/lib")))
    return found


@functools.cache
def _major(plugin: Path) -> str | None:
    """Tell which version of cuBLAS a plugin names."""
    needed = re.search(rb"libcublas\.so\.(\d+)\0", plugin.read_bytes())
    return needed.group(1).decode() if needed is not None else None


def preload(plugin: Path) -> list[Path]:
    """Load the libraries of NVIDIA that a plugin names, from packages of PyPI where they are there.

    What the process has loaded already is not loaded again, and what is in no package the system finds or does not.
    """
    major = _major(plugin)
    if major is None:
        return []
    loaded = []
    places = [folder for folder in folders() if _is_of(folder, major)]
    for library in _LIBRARIES:
        for folder in places:
            # Some count by themselves: cuSOLVER of CUDA 13 is libcusolver.so.12.
            for path in sorted(folder.glob(f"lib{library}.so.*")):
                if _native.preload(path):
                    loaded.append(path)
    return loaded


def _is_of(folder: Path, major: str) -> bool:
    """Whether libraries of this version of CUDA are in a folder: nvidia/cu13/lib, or of CUDA 12 nvidia/cublas/lib."""
    package = folder.parent.name
    return package == f"cu{major}" if re.fullmatch(r"cu\d+", package) else major == "12"


def load(path: str | os.PathLike[str] | None = None) -> None:
    """Load the backend for CUDA, once per process. An optimizer on CUDA does it by itself.

    Parameters
    ----------
    path
        Of libshampoo_cuda.so; None: beside this package, or as the system finds it.

    Raises
    ------
    NotImplementedError
        It is not there, or a library that it needs.
    """
    plugin = Path(os.fsdecode(path)) if path is not None else _plugin()
    if plugin is not None and plugin.is_file():
        preload(plugin)
    _native.shampoo_backend_load(str(plugin) if path is not None else "cuda")


def unavailable_reason() -> str:
    """Tell why CUDA cannot be used here, in a sentence; "" where it can."""
    plugin = _plugin()
    if plugin is not None:
        preload(plugin)
    info = _native.shampoo_backend_info()
    _native.shampoo_backend_describe(1, info)
    return str(info.unavailable_reason)
