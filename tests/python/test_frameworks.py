# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that each Python program in docs/frameworks.md trains, if its framework is installed."""
from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tools import ROOT

PAGE = ROOT / "docs" / "frameworks.md"

#: The largest loss that a trained program may have. The loss of predicting 0, the mean square of the targets, is about
#: 0.9.
HIGHEST_LOSS = 0.3


def programs() -> tuple[str, dict[str, str]]:
    """Return the code that makes the data for all programs, and a mapping from section titles to programs."""
    data, *sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.M)
    found = {}
    for section in sections:
        blocks = re.findall(r"^```python\n(.*?)^```", section, re.S | re.M)
        if blocks:
            found[section.split("\n", 1)[0]] = "\n".join(blocks)
    return "\n".join(re.findall(r"^```python\n(.*?)^```", data, re.S | re.M)), found


DATA, PROGRAMS = programs()


def missing_packages(program: str) -> list[str]:
    names = sorted(set(re.findall(r"^(?:import|from) (\w+)", program, re.M)))
    return [name for name in names if importlib.util.find_spec(name) is None]


def test_every_framework_of_the_table_has_a_program() -> None:
    table = re.findall(r"^\| \[([^\]]+)\]", PAGE.read_text(encoding="utf-8"), re.M)
    assert [name for name in table if name not in PROGRAMS] == ["C: llm.c"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_program_trains(name: str, tmp_path: Path) -> None:
    program = PROGRAMS[name]
    missing = missing_packages(program)
    if missing:
        pytest.skip(f"{name}: {', '.join(missing)} is not installed")
    report = "\nprint('loss', float(loss))\n" if re.search(r"\bloss\b", program) else ""
    path = tmp_path / "program.py"
    path.write_text(f"{DATA}\n{program}{report}", encoding="utf-8")
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    if report:
        loss = float(re.findall(r"^loss (\S+)$", done.stdout, re.M)[-1])
        assert np.isfinite(loss) and loss < HIGHEST_LOSS, loss
