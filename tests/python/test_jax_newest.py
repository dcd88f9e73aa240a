# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of libshampoo.jax with Python 3.13 and the newest jax, in a new virtual environment."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from test_wheel import build_environment, run, stripped_library

from tools import ROOT

PACKAGES = ["jax", "optax", "pytest", "ml_dtypes", "threadpoolctl"]
SUITES = ["test_jax.py", "test_jax_optax.py", "test_jax_process.py", "test_jax_docs.py"]


def find_python() -> str:
    """Return the path of a python3.13 that runs. A shim of pyenv fails if pyenv has selected another version."""
    found = [shutil.which("python3.13"), *sorted(Path.home().glob(".pyenv/versions/3.13.*/bin/python3.13"))]
    for python in found:
        if python is not None and subprocess.run([python, "-c", "import venv"], capture_output=True).returncode == 0:
            return str(python)
    pytest.skip("there is no python3.13")


def test_the_tests_pass_with_the_newest_jax(tmp_path: Path) -> None:
    run([find_python(), "-m", "venv", tmp_path / "venv"])
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    install = [*map(str, pip), "install", "-q", *PACKAGES]
    done = subprocess.run(install, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        pytest.skip(f"pip could not install {' '.join(PACKAGES)}: {done.stdout[-500:]}")
    # PYTHONPATH is removed, because it could add packages that are not in the virtual environment. During the build,
    # pip hides the packages of the environment. bindings/python/xla/find_headers.py must still find jaxlib there.
    environment = {name: value for name, value in build_environment().items() if name != "PYTHONPATH"}
    run([*pip, "install", "-q", "--no-deps", ROOT, "--config-settings", f"build-dir={tmp_path}/build",
         "--config-settings", f"cmake.define.SHAMPOO_PREBUILT={stripped_library(tmp_path)}"],
        env=environment, cwd=tmp_path)  # fmt: skip
    tests = ROOT / "tests" / "python"
    environment["PYTHONPATH"] = os.pathsep.join([str(tests), str(ROOT / "tests" / "golden")])
    versions = "import sys, jax, libshampoo.jax; print(sys.version.split()[0], jax.__version__, libshampoo.__file__)"
    said = run([python, "-c", versions], env=environment, cwd=tmp_path)
    assert str(tmp_path) in said
    print(said)
    print(run([python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *(tests / suite for suite in SUITES)],
              env=environment, cwd=tmp_path)[-2000:])  # fmt: skip
