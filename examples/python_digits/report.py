# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shows the progress line, prints the table of results, and writes the results to a CSV file."""
from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Curve:
    """Training loss and test accuracy of one optimizer, at the start and after each epoch."""

    name: str
    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)


def show_progress(step: int, steps: int) -> None:
    """Show the progress line if stderr is a terminal."""
    if sys.stderr.isatty():
        width = 40 * (step + 1) // steps
        print(f"\r[{'#' * width}{'.' * (40 - width)}] {100 * (step + 1) // steps:3d} %", end="", file=sys.stderr)
        if step + 1 == steps:
            print("\r\033[K", end="", file=sys.stderr)


def show_table(curves: list[Curve]) -> None:
    """Print a table with a row for each epoch."""
    print("\n         training loss         test accuracy")
    print("epoch" + "".join(f"{curve.name:>11}" for curve in curves + curves))
    for epoch in range(len(curves[0].loss)):
        losses = "".join(f"{curve.loss[epoch]:11.5f}" for curve in curves)
        print(f"{epoch:5d}{losses}" + "".join(f"{100 * curve.accuracy[epoch]:9.2f} %" for curve in curves))


def write_csv(path: str, curves: list[Curve]) -> None:
    """Write the numbers of the table to a CSV file."""
    names = [curve.name.lower() for curve in curves]
    columns = [f"{name}_{kind}" for kind in ("train_loss", "test_accuracy") for name in names]
    lines = [",".join(["epoch", *columns])]
    for epoch in range(len(curves[0].loss)):
        row = [curve.loss[epoch] for curve in curves] + [curve.accuracy[epoch] for curve in curves]
        lines.append(",".join([str(epoch), *map(repr, row)]))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def report(curves: list[Curve], csv: str) -> None:
    """Print the table. Unless the path `csv` is empty, also write the table to this file."""
    show_table(curves)
    if csv:
        write_csv(csv, curves)
