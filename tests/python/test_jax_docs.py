# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that the code in docs/jax.md runs and prints the output that the page shows. Digits may differ."""
from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import sys
from pathlib import Path

import pytest

import libshampoo.jax
import libshampoo.xla_call
from tools import ROOT

PAGE = ROOT / "docs" / "jax.md"


def without_digits(text: str) -> str:
    return re.sub(r"\d", "#", text.strip())


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text()
    names: dict[str, object] = {}
    printed = ""
    count = 0
    for block in re.finditer(r"^```(python|text)\n(.*?)^```", text, re.S | re.M):
        kind, content = block.groups()
        if kind == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile("\n" * text[: block.start(2)].count("\n") + content, str(PAGE), "exec"), names)
            printed = output.getvalue()
        else:
            assert without_digits(printed) == without_digits(content)
            count += 1
        if os.environ.get("SHAMPOO_SHOW_DOCS"):
            sys.__stdout__.write(f"{kind}\n{printed if kind == 'python' else ''}")
    assert count == 6


def test_docstrings_run() -> None:
    for module in (libshampoo.jax, libshampoo.xla_call):
        assert doctest.testmod(module).failed == 0
    for name in libshampoo.jax.__all__:
        assert getattr(libshampoo.jax, name).__doc__, name
