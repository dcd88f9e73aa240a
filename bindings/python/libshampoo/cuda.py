# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Loads the CUDA backend (the plugin libshampoo_cuda.so), and loads NVIDIA's libraries from packages of PyPI."""
from __future__ import annotations

import functools
import os
import re
import sys
from pathlib import Path

from . import _native

#: Libraries that the plugin needs directly or indirectly. A library follows the libraries on which it depends.
_LIBRARIES = ("nvJitLink", "cublasLt", "cublas", "cusparse", "cusolver")


def _plugin() -> Path | None:
    plugin = Path(__file__).parent / "libshampoo_cuda.so"
    return plugin if plugin.exists() else None


def folders() -> list[Path]:
    """Return the folders with the libraries of installed nvidia-* packages, in the order of sys.path."""
    found: list[Path] = []
    for entry in sys.path:
        root = Path(entry or ".") / "nvidia"
        if root.is_dir():
            found.extend(sorted(root.glob("*/lib")))
    return found


@functools.cache
def _major(plugin: Path) -> str | None:
    """Return the major version of a plugin's cuBLAS (it equals that of CUDA), or None if the plugin needs no cuBLAS."""
    needed = re.search(rb"libcublas\.so\.(\d+)\0", plugin.read_bytes())
    return needed.group(1).decode() if needed is not None else None


def preload(plugin: Path) -> list[Path]:
    """Load NVIDIA's libraries for a plugin from installed packages of PyPI.

    A file that the process has already loaded is not loaded again. If no package contains a library, the dynamic linker
    later searches the system for it.

    Returns
    -------
    list of Path
        The files that could be loaded, including those that were already loaded.
    """
    major = _major(plugin)
    if major is None:
        return []
    loaded = []
    matching = [folder for folder in folders() if _has_version(folder, major)]
    for library in _LIBRARIES:
        for folder in matching:
            # Some libraries have their own version numbers: cuSOLVER of CUDA 13 is libcusolver.so.12.
            for path in sorted(folder.glob(f"lib{library}.so.*")):
                if _native.preload(path):
                    loaded.append(path)
    return loaded


def _has_version(folder: Path, major: str) -> bool:
    """Return whether the libraries in a folder belong to a major version of CUDA.

    Libraries in nvidia/cu13/lib belong to version 13. Libraries in folders without a version, such as
    nvidia/cublas/lib, belong to version 12.
    """
    package = folder.parent.name
    return package == f"cu{major}" if re.fullmatch(r"cu\d+", package) else major == "12"


def load(path: str | os.PathLike[str] | None = None) -> None:
    """Load the CUDA backend, unless it is already loaded. An optimizer on CUDA loads the backend automatically.

    Parameters
    ----------
    path
        Path of libshampoo_cuda.so. None: the file in this package or, if the package does not contain the file, the
        file that the dynamic linker finds.

    Raises
    ------
    NotImplementedError
        If the backend or a library that it needs cannot be found.
    """
    plugin = Path(os.fsdecode(path)) if path is not None else _plugin()
    if plugin is not None and plugin.is_file():
        preload(plugin)
    _native.shampoo_backend_load(str(plugin) if path is not None else "cuda")


def unavailable_reason() -> str:
    """Return a sentence that explains why CUDA cannot be used, or "" if CUDA can be used."""
    plugin = _plugin()
    if plugin is not None:
        preload(plugin)
    info = _native.shampoo_backend_info()
    _native.shampoo_backend_describe(1, info)
    return str(info.unavailable_reason)
