# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Identifies the processors of this machine, and the commit of the measured sources."""
from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The measured sources: the library, the trainers, and the sources that the trainers share with the examples.
MEASURED = ("core", "capi", "cmake", "CMakeLists.txt", "benchmarks/trainers", "benchmarks/CMakeLists.txt",
            "examples/common", "examples/c_conv", "examples/c_transformer", "examples/c_mlp/data",
            ":(exclude)*.md", ":(exclude)*.svg", ":(exclude)*.csv")  # fmt: skip


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def processor_count() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))


def git(*arguments: str) -> str:
    """Run git and return its output, or "" if git fails."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> str:
    """Return the last commit that changed a measured source, with a hash of uncommitted changes if there are any."""
    found = git("log", "-1", "--format=%h", "--abbrev=12", "--", *MEASURED)
    if not found:
        return "unknown"
    changes = git("diff", "HEAD", "--", *MEASURED)
    return f"{found}+{hashlib.sha256(changes.encode()).hexdigest()[:8]}" if changes else found
