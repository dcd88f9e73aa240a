# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The class Context, and functions that several parts of the benchmarks (part_*.py) use."""
from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import machine
from corpus import Corpus
from methods import Method, by_name
from runner import Run, Runner
from sizes import Size


class Context:
    """What every part of the benchmarks needs: runner, sizes, folders, and the text of the language model."""

    def __init__(self, runner: Runner, size: Size, results: Path, data: Path, texts: list[Path]) -> None:
        self.runner, self.size, self.results, self.data, self.texts = runner, size, results, data, texts
        self.known_corpus: Corpus | None = None

    @property
    def corpus(self) -> Corpus:
        """Return the text of the language model. The first use reads the files of the text."""
        if self.known_corpus is None:
            self.known_corpus = Corpus(self.data / "text", self.texts)
        return self.known_corpus

    def mean_loss(self, runs: Sequence[Run]) -> float:
        """Return the mean loss of runs, or infinity if one of the runs diverged."""
        return mean(map(loss_of, self.runner.results(runs)))

    def head(self, part: str, size: Any) -> dict[str, Any]:
        """Return the entries with which every file of results begins."""
        return {"part": part, "command": f"bash benchmarks/run.sh {part}", "size": self.size.name,
                "commit": self.runner.commit, "processor": self.runner.processor,
                "processors": machine.processor_count(), "settings": size._asdict()}  # fmt: skip

    def write(self, summary: dict[str, Any]) -> None:
        """Write the results of a part to its JSON file."""
        self.results.mkdir(parents=True, exist_ok=True)
        path = self.results / f"{summary['part']}.json"
        whole = path.with_suffix(".new")
        whole.write_text(json_text(plain(summary)), encoding="utf-8")
        whole.replace(path)


def json_text(summary: dict[str, Any]) -> str:
    """Return JSON with one line for each value. A list of objects has one line for each object instead."""
    lines = []
    for name, value in summary.items():
        text = json.dumps(value)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n  " + ",\n  ".join(map(json.dumps, value)) + "\n ]"
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def plain(value: Any) -> Any:
    """Return a copy of a value for JSON, in which None replaces numbers that are not finite."""
    if isinstance(value, dict):
        return {str(name): plain(content) for name, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(content) for content in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def chosen(names: Iterable[str]) -> list[Method]:
    """Return the methods with these names."""
    return [by_name(name) for name in names]


def single(result: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of the method in the result of a run of one method.

    The trainer of the language model puts them into the list "methods". The other trainers have no such list.
    """
    return result["methods"][0] if "methods" in result else result


def loss_of(result: dict[str, Any]) -> float:
    """Return the loss of a run of one method, or infinity if the run diverged."""
    result = single(result)
    loss = result["validation_loss"]
    return math.inf if result["diverged"] or loss is None else loss


def mean(values: Iterable[float]) -> float:
    """Return the mean, or infinity if a value is not finite."""
    listed = list(values)
    return statistics.fmean(listed) if all(map(math.isfinite, listed)) else math.inf
