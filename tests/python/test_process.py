# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of a process that uses the package: its memory, its exit, and its other libraries, such as BLAS and CUDA."""
from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import libshampoo
from tools import ROOT


def resident() -> int:
    """Return the resident memory of the process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def use_one_optimizer(w: np.ndarray, grad: np.ndarray) -> None:
    opt = libshampoo.Optimizer({"w": w}, lr=0.1, grafting="adam", threads=1)
    opt.step({"w": grad})
    opt.close()


def test_memory_does_not_grow_over_10000_optimizers() -> None:
    w, grad = np.ones((3, 2), np.float32), np.ones((3, 2), np.float32)
    for _ in range(2000):
        use_one_optimizer(w, grad)
    gc.collect()
    before, objects, references = resident(), sys.getallocatedblocks(), sys.getrefcount(w)
    for _ in range(10000):
        use_one_optimizer(w, grad)
    gc.collect()
    # For each optimizer, 100 bytes and a tenth of a Python object are allowed, because Python's free lists may grow.
    assert resident() - before < 1_000_000
    assert sys.getallocatedblocks() - objects < 1000
    assert sys.getrefcount(w) == references


BLAS_PROGRAM = """
import json, sys
import numpy as np
try:
    import scipy.linalg
except ImportError:
    scipy = None
import threadpoolctl
random = np.random.default_rng(1)
a = random.standard_normal((200, 200))
before = threadpoolctl.threadpool_info()
product, values = a @ a, np.linalg.eigvalsh(a + a.T)
import libshampoo
opt = libshampoo.Optimizer([w := random.standard_normal((96, 96)).astype(np.float32)], lr=0.1)
for _ in range(3):
    opt.step([w.copy()])
    assert (a @ a).tobytes() == product.tobytes()
    assert np.linalg.eigvalsh(a + a.T).tobytes() == values.tobytes()
    if scipy is not None:
        scipy.linalg.eigh(a + a.T)
files = [info["filepath"] for info in before]
after = [info for info in threadpoolctl.threadpool_info() if info["filepath"] in files]
assert json.dumps(before) == json.dumps(after), (before, after)
assert len(before) >= 1
print("the other BLAS libraries:", [info["filepath"] for info in before])
"""


def test_the_blas_of_numpy_does_not_change() -> None:
    pytest.importorskip("threadpoolctl")
    subprocess.run([sys.executable, "-c", BLAS_PROGRAM], check=True, timeout=120)


def test_a_library_of_another_version_is_rejected(tmp_path: Path) -> None:
    """LD_PRELOAD loads another library first. That library has all functions and reports the version 0.7.3."""
    compiler = shutil.which("cc")
    assert compiler is not None
    source = tmp_path / "other.c"
    names = (ROOT / "tests" / "capi" / "exports.txt").read_text().split()
    functions = [f"int {name}(void) {{ return {703 if name == 'shampoo_version' else 0}; }}" for name in names
                 if name.startswith("shampoo_")]  # fmt: skip
    source.write_text("\n".join(functions))
    script = tmp_path / "map"
    script.write_text("SHAMPOO_0 { global: shampoo_*; };\n")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", f"-Wl,--version-script={script}", "-Wl,-soname,libshampoo.so.0", source,
         "-o", tmp_path / "libshampoo.so.0"],
        check=True,
    )  # fmt: skip
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path)}
    # With LD_LIBRARY_PATH, the package still loads its own library.
    subprocess.run([sys.executable, "-c", "import libshampoo"], env=environment, check=True)
    environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "libshampoo.so.0")}
    done = subprocess.run([sys.executable, "-c", "import libshampoo"], env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert f"ImportError: this Python package was compiled for libshampoo {libshampoo.__version__}" in done.stderr
    assert "version 0.7.3" in done.stderr


def test_build_info_has_the_version_of_the_package() -> None:
    assert json.loads(libshampoo.build_info())["version"] == libshampoo.__version__


def make_nvidia(folder: Path, name: str, version: int) -> Path:
    """Compile a substitute for NVIDIA's library ``name``, with one function. Return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    file = f"lib{name}.so.{version}"
    source = folder / "source.c"
    source.write_text(f"int {name}_here(void) {{ return 1; }}")
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{file}", source, "-o", folder / file], check=True)
    return folder / file


@pytest.mark.parametrize(("major", "folders"), [(99, ("cu99", "cu99")), (12, ("cublas", "cusolver"))])
def test_libraries_of_nvidia_are_found_in_packages(major: int, folders: tuple[str, str], tmp_path: Path) -> None:
    """``plugin`` links substitutes for cuBLAS and cuSOLVER. Their folders are named as in NVIDIA's PyPI packages."""
    site = tmp_path / "site"
    libraries = [
        make_nvidia(site / "nvidia" / folder / "lib", name, version)
        for folder, name, version in zip(folders, ("cublas", "cusolver"), (major, major - 1))
    ]
    make_nvidia(site / "nvidia" / "cu98" / "lib", "cublas", 98)
    source, plugin = tmp_path / "plugin.c", tmp_path / "libshampoo_cuda.so"
    source.write_text("int cublas_here(void), cusolver_here(void);\n"
                      "int used(void) { return cublas_here() + cusolver_here(); }")  # fmt: skip
    subprocess.run(["cc", "-shared", "-fPIC", source, *libraries, "-o", plugin], check=True)
    program = "\n".join([
        "import sys, libshampoo",
        "sys.path[:0] = sys.argv[2:]",
        "print(*libshampoo.cuda.preload(libshampoo.cuda.Path(sys.argv[1])), sep='\\n')",
        "libshampoo.cuda.load(sys.argv[1])",
    ])  # fmt: skip
    lost = subprocess.run([sys.executable, "-c", program, plugin], capture_output=True, text=True)
    found = subprocess.run([sys.executable, "-c", program, plugin, site], capture_output=True, text=True)
    assert "UnsupportedError" in lost.stderr and "cannot be loaded" in lost.stderr
    assert found.stdout.split() == [str(path) for path in libraries]
    # All libraries that ``plugin`` needs were found. Loading fails later, when the interface of ``plugin`` is checked.
    assert "UnsupportedError" in found.stderr and "is not a CUDA backend" in found.stderr


EXIT_PROGRAM = """
import sys, numpy, libshampoo
opt = libshampoo.Optimizer({"w": numpy.ones((4, 3), numpy.float32)}, threads=2)
opt.step({"w": numpy.ones((4, 3), numpy.float32)})
keep = getattr(sys.modules[sys.argv[1]], "__dict__", None)
keep["kept"] = opt
"""


@pytest.mark.parametrize("module", ["__main__", "numpy", "builtins", "sys", "libshampoo.optimizer", "threading"])
def test_an_optimizer_that_lives_until_exit_is_silent(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", EXIT_PROGRAM, module], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_creating_an_optimizer_on_cuda_fails_if_cuda_is_unavailable() -> None:
    text = libshampoo.cuda.unavailable_reason()
    if text:
        with pytest.raises(NotImplementedError):
            libshampoo.Optimizer([np.ones(3, np.float32)], device="cuda")
