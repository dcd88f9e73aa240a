# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Creates a folder with everything that the commands of a page of the documentation need.

The folder contains a copy of the repository (clone), a home folder, a Python environment, and the folder `root`, into
which commands with sudo install files.
"""
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

STANDINS = Path(__file__).resolve().parent / "standins"
#: Environment variables of the caller that the commands of a page do not get.
REMOVED = ("CMAKE_PREFIX_PATH", "DESTDIR", "LD_LIBRARY_PATH", "LD_PRELOAD", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE",
          "PKG_CONFIG_PATH", "PYTHONPATH", "VIRTUAL_ENV")  # fmt: skip


class Machine:
    def __init__(self, folder: Path):
        self.folder = folder
        self.clone, self.home, self.root, self.venv = (folder / name for name in ("clone", "home", "root", "venv"))

    def make(self, source: Path) -> None:
        """Creates the folder again, but keeps build/ of the clone, because compiling the library takes minutes."""
        for old in (self.home, self.root, self.venv):
            shutil.rmtree(old, ignore_errors=True)
        for new in (self.clone, self.home, self.root):
            new.mkdir(parents=True, exist_ok=True)
        self.copy(source)
        for cache in (self.clone / "build").glob("*/CMakeCache.txt"):
            cache.unlink()  # CMake's cache contains the options of an earlier run
        self.make_venv()

    def copy(self, source: Path) -> None:
        said = subprocess.run(["git", "-C", source, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                              stdout=subprocess.PIPE, check=True).stdout.decode()
        names = {name for name in said.split("\0") if name and (source / name).exists()}
        for entry in self.clone.iterdir():
            if entry.name != "build":
                self.remove_others(entry, names)
        for name in names:
            here, there = source / name, self.clone / name
            # Unchanged files keep their modification time, so they are not compiled again.
            if there.is_file() and there.read_bytes() == here.read_bytes():
                continue
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, there)

    def remove_others(self, entry: Path, names) -> None:
        if entry.is_dir() and not entry.is_symlink():
            for inner in entry.iterdir():
                self.remove_others(inner, names)
            if not any(entry.iterdir()):
                entry.rmdir()
        elif str(entry.relative_to(self.clone)) not in names or entry.is_symlink():
            entry.unlink()

    def make_venv(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", self.venv], check=True)
        (site,) = self.venv.glob("lib/python*/site-packages")
        # If sys.executable is in a virtual environment, --system-site-packages does not include the packages of that
        # environment. Therefore the .pth file adds the folder of these packages.
        (site / "of_the_tests.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")

    def environment(self, cargo: str) -> dict:
        own = {name: value for name, value in os.environ.items() if name not in REMOVED}
        path = [str(STANDINS), str(self.venv / "bin")] + ([str(Path(cargo).parent)] if cargo else [])
        return {
            **own, "LC_ALL": "C.UTF-8", "HOME": str(self.home), "SHELL_ROOT": str(self.root), "PATH": ":".join([*path, own["PATH"]]),
            # All builds use the caller's compiler cache, although HOME is not the caller's home folder.
            "CCACHE_DIR": cache_of_ccache(), "CCACHE_BASEDIR": str(self.folder), "CCACHE_NOHASHDIR": "1",
            "CMAKE_BUILD_PARALLEL_LEVEL": own.get("CMAKE_BUILD_PARALLEL_LEVEL", "2"),
            # pip downloads nothing. PIP_NO_BUILD_ISOLATION=0 makes pip build with the installed packages.
            "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "CARGO_NET_OFFLINE": "true",
            "CARGO_HOME": str(self.home / ".cargo"),
            "SKBUILD_BUILD_DIR": str(self.clone / "build/python"),
            "CMAKE_C_COMPILER_LAUNCHER": "ccache", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
            # Open MPI may run as root, as in a container, and may start more processes than there are cores.
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        }  # fmt: skip


def cache_of_ccache() -> str:
    said = subprocess.run(["ccache", "--get-config", "cache_dir"], stdout=subprocess.PIPE, check=True)
    return said.stdout.decode().strip()
