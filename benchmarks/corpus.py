# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Divides the files of the language model's text into parts for training, tuning and judging."""
from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine import ROOT

sys.path.append(str(ROOT / "docs" / "measure"))
import stdlib_text  # noqa: E402

PARTS = ("training", "tuning", "judging")
PERIOD = 20  # of 20 files, one is for tuning, one for judging, and 18 for training


def part_of(index: int, period: int) -> str:
    """Return which part contains file `index`. Of `period` (>= 3) files, one is for judging and one for tuning."""
    return {0: "judging", period // 2: "tuning"}.get(index % period, "training")


def split_files(files: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the files of each part."""
    if len(files) < len(PARTS):
        raise SystemExit(
            f"--text: {len(files)} files; expected at least {len(PARTS)}, one each for {', '.join(PARTS)}"
        )
    period = min(PERIOD, len(files))
    parts: dict[str, list[Path]] = {name: [] for name in PARTS}
    for index, path in enumerate(files):
        parts[part_of(index, period)].append(path)
    return parts


class Corpus:
    """A text in three files, one for each part, and the description of these parts for reports."""

    def __init__(self, folder: Path, files: Sequence[Path]) -> None:
        """Write the parts into the folder. If `files` is empty, use the sources of Python's standard library."""
        self.paths: dict[str, Path] = {}
        self.description: dict[str, Any] = {
            "source": "--text files" if files else f"sources of the standard library of Python {sys.version.split()[0]}"
        }
        folder.mkdir(parents=True, exist_ok=True)
        for name, members in split_files(sorted(files) or stdlib_text.source_files()).items():
            content = b"\n".join(path.read_bytes() for path in members)
            digest = hashlib.sha256(content).hexdigest()[:16]
            path = folder / f"{name}-{digest}.txt"
            if not path.exists():
                path.write_bytes(content)
            self.paths[name] = path
            self.description[name] = {"files": len(members), "bytes": len(content), "sha256": digest}
