# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that the code in README.md, in four guides and in docstrings runs, and that mypy finds no error."""
from __future__ import annotations

import doctest
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libshampoo
from tools import ROOT, from_environment

#: All modules except the two that need JAX. test_jax_docs.py checks these two.
MODULES = sorted(
    {path.stem for path in Path(libshampoo.__file__).parent.glob("[a-z]*.py")} - {"jax", "xla_call"}
)


#: test_tinygrad.py and test_torch.py check the docstrings of the modules for these frameworks.
FRAMEWORKS = ("tinygrad", "torch")


@pytest.mark.parametrize("name", [name for name in MODULES if name.partition("_")[0] not in FRAMEWORKS])
def test_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"libshampoo.{name}")).failed == 0


def test_the_python_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs all Python blocks of docs/python.md as one program, except blocks that import a missing package."""
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "python.md"
    names: dict[str, object] = {}
    text = page.read_text()
    count = 0
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M):
        code = "\n" * text[: block.start(1)].count("\n") + block.group(1)
        needed = re.findall(r"^(?:import|from) (\w+)", block.group(1), re.M)
        if any(importlib.util.find_spec(package) is None for package in needed):
            continue
        exec(compile(code, str(page), "exec"), names)
        count += 1
    assert count >= 5


def test_the_readme_runs() -> None:
    """Runs each Python block of README.md separately, with arrays, gradients and a model that this test defines."""
    model = None
    if importlib.util.find_spec("torch") is not None:
        import torch

        model = torch.nn.Linear(4, 3)
    count = 0
    for block in re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S | re.M):
        if any(f"libshampoo.{name}" in block and importlib.util.find_spec(name) is None for name in ("jax", "torch")):
            continue
        w1, w2 = (np.ones((4, 3), np.float32) for _ in range(2))
        names = {"w1": w1, "w2": w2, "grad1": w1.copy(), "grad2": w2.copy(), "model": model}
        exec(compile(block, "README.md", "exec"), names)
        assert ("opt.step" in block) == bool((w1 < 1).all() and (w2 < 1).all())
        count += 1
    assert count >= 1


@pytest.mark.parametrize("name", ["methods", "migration"])
def test_each_program_of_a_guide_runs(name: str) -> None:
    """Runs each Python block of the guide separately. Checks that each block changes every array of its optimizer."""
    page = ROOT / "docs" / f"{name}.md"
    text = page.read_text(encoding="utf-8")
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.S | re.M))
    assert blocks
    for block in blocks:
        names: dict[str, Any] = {}
        code = "\n" * text[: block.start(1)].count("\n") + block.group(1)
        exec(compile(code, str(page), "exec"), names)
        values = names["layers"] if "layers" in names else names["arrays"]
        assert not any((value == 1).all() for value in values.values())


def test_the_checkpoint_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the Python block and the shampoo-ckpt commands of docs/checkpoints.md on two small checkpoints."""
    pytest.importorskip("safetensors")
    monkeypatch.chdir(tmp_path)
    for folder in ("checkpoints", "other"):
        w1 = np.ones((4, 3), np.float32)
        opt = libshampoo.Optimizer({"W1": w1}, lr=0.1, grafting="adam")
        opt.step({"W1": w1.copy()})
        opt.save(folder)
    text = (ROOT / "docs" / "checkpoints.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    names: dict[str, dict[str, np.ndarray]] = {}
    exec(code, names)
    assert {"W1/0/diagonal", "W1/0/factor.0", "W1/0/grafting"} <= names["states"].keys()
    (commands,) = re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)
    tool = from_environment("SHAMPOO_CKPT")
    for line in commands.splitlines():
        name, *arguments = line.partition("#")[0].split()
        assert name == "shampoo-ckpt"
        subprocess.run([tool, *arguments], check=True, capture_output=True)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_the_error_names_a_missing_framework(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, f"libshampoo.{name}", raising=False)
    with pytest.raises(ImportError, match=f"libshampoo.{name} needs .*: pip install --upgrade {name}"):
        importlib.import_module(f"libshampoo.{name}")


def test_public_names_have_docstrings() -> None:
    for name in libshampoo.__all__:
        thing = getattr(libshampoo, name)
        assert name == "KEYS" or thing.__doc__, name


def test_mypy_finds_no_error(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
