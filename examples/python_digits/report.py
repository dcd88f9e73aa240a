# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The progress line, the table, the numbers as CSV and the curves as SVG."""
from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

COLORS = ("#1f6fb4", "#d1602f")


@dataclass
class Curve:
    """Loss on the training images and accuracy on the test images, at the beginning and after each epoch."""

    name: str
    loss: list[float] = field(default_factory=list)
    accuracy: list[float] = field(default_factory=list)


def show_progress(step: int, steps: int) -> None:
    """Draw a line that stays in its place, on a terminal."""
    if sys.stderr.isatty():
        width = 40 * (step + 1) // steps
        print(f"\r[{'#' * width}{'.' * (40 - width)}] {100 * (step + 1) // steps:3d} %", end="", file=sys.stderr)
        if step + 1 == steps:
            print("\r\033[K", end="", file=sys.stderr)


def show_table(curves: list[Curve]) -> None:
    """Print an epoch in each row."""
    print("\n         training loss         test accuracy")
    print("epoch" + "".join(f"{curve.name:>11}" for curve in curves + curves))
    for epoch in range(len(curves[0].loss)):
        losses = "".join(f"{curve.loss[epoch]:11.5f}" for curve in curves)
        print(f"{epoch:5d}{losses}" + "".join(f"{100 * curve.accuracy[epoch]:9.2f} %" for curve in curves))


def write_csv(path: str, curves: list[Curve]) -> None:
    """Write all numbers of the table."""
    lines = ["epoch," + ",".join(f"{curve.name}_loss" for curve in curves) + ","
             + ",".join(f"{curve.name}_accuracy" for curve in curves)]  # fmt: skip
    for epoch in range(len(curves[0].loss)):
        row = [curve.loss[epoch] for curve in curves] + [curve.accuracy[epoch] for curve in curves]
        lines.append(",".join([str(epoch), *map(repr, row)]))
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _panel(left: int, title: str, curves: list[list[float]], names: list[str], marks: list[tuple[float, str]]) -> str:
    """Draw curves of numbers in [0, 1], where 1 is at the top."""
    parts = [f'<text x="{left}" y="24" font-weight="bold">{title}</text>',
             f'<rect x="{left}" y="40" width="320" height="240" fill="none" stroke="#888"/>']  # fmt: skip
    for height, text in marks:
        y = 280 - 240 * height
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + 320}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for number, (values, name) in enumerate(zip(curves, names)):
        places = [(left + 320 * k / max(len(values) - 1, 1), 280 - 240 * value) for k, value in enumerate(values)]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[number]}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 230}" y="{150 + 18 * number}" fill="{COLORS[number]}">{name}</text>')
    parts.append(f'<text x="{left + 160}" y="300" text-anchor="middle">epochs, 0 to {len(curves[0]) - 1}</text>')
    return "\n".join(parts)


def write_svg(path: str, curves: list[Curve]) -> None:
    """Draw the losses, by powers of ten, and the accuracies from 80 % on."""
    names = [curve.name for curve in curves]
    losses = [[min(max((math.log10(value) + 3) / 4, 0), 1) for value in curve.loss] for curve in curves]
    accuracies = [[max(5 * value - 4, 0) for value in curve.accuracy] for curve in curves]
    powers = [(k / 4, text) for k, text in enumerate(("0.001", "0.01", "0.1", "1", "10"))]
    shares = [(k / 4, f"{80 + 5 * k} %") for k in range(5)]
    drawing = "\n".join([
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 310" font-family="sans-serif" font-size="12">',
        '<rect width="800" height="310" fill="white"/>',
        _panel(56, "training loss", losses, names, powers),
        _panel(456, "test accuracy", accuracies, names, shares),
        "</svg>\n",
    ])  # fmt: skip
    Path(path).write_text(drawing, encoding="utf-8")


def report(curves: list[Curve], csv: str, svg: str) -> None:
    """Print the table, and write numbers and picture where a path is given."""
    show_table(curves)
    if csv:
        write_csv(csv, curves)
    if svg:
        write_svg(svg, curves)
