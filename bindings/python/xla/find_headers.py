# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Print the folder with the headers of the installed jaxlib, or an empty line if there are none."""
from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path


def find() -> str:
    """Return the folder of the headers, or an empty string if this interpreter finds none."""
    spec = importlib.util.find_spec("jaxlib")
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        if Path(location, "include", "xla", "ffi", "api", "ffi.h").exists():
            return str(Path(location, "include"))
    return ""


found = find()
if not found and "PYTHONPATH" in os.environ and not sys.flags.ignore_environment:
    # In an isolated build, pip sets PYTHONPATH to hide the packages of the environment. The build can still use the
    # headers of the environment's jaxlib, because it runs no Python code of jaxlib. With -E, Python ignores PYTHONPATH.
    command = [sys.executable, "-E", __file__]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
print(found)
