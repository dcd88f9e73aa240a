#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the curves in the CSV file of an example as an SVG file. Needs only Python.

    python3 plot.py curves.csv curves.svg --title "Handwritten digits" --note "batch 64, seed 1"

If the columns are "run", "step", "seconds" and "validation_loss", the script draws the validation loss by steps and by
seconds. If the columns are "epoch" and, for each run, "NAME_train_loss" and "NAME_test_accuracy", it draws the training
loss and the test accuracy by epochs. A curve ends before its first value that is not finite.
"""
from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

WIDTH = 880  # about the width of a page on GitHub, so that GitHub does not scale the text
PANEL_LEFTS, PANEL_WIDTH, PANEL_HEIGHT = (52, 496), 316, 268
NAMES = {"shampoo": "Shampoo", "adamw": "AdamW"}
# Color-blind people can distinguish these colors. AdamW always has the second color.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#56b4e9", "#cc79a7", "#e69f00", "#000000", "#882255", "#999933", "#44aa99")
STYLE = ("text{font-family:'DejaVu Sans',Verdana,Arial,sans-serif;font-size:13px;fill:#222}.tick,.note{fill:#555}"
         ".title{font-size:18px;font-weight:bold}.head{font-size:14px;font-weight:bold}"
         ".value{font-weight:bold}")  # fmt: skip

Points = Sequence["tuple[float, float]"]


def text(x: float, y: float, content: str, attributes: str = "") -> str:
    """Return a text element. `content` is SVG: it may contain other elements."""
    return f'<text x="{x:.1f}" y="{y:.1f}" {attributes}>{content}</text>'


def line(x1: float, y1: float, x2: float, y2: float, attributes: str) -> str:
    """Return a line element."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {attributes}/>'


def document(height: float, parts: Iterable[str], *, width: float = WIDTH, style: str = STYLE) -> str:
    """Return an SVG document with a white background."""
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{style}</style>\n'
    return "\n".join([head + '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])


def heading(title: str, notes: Sequence[str] = ()) -> tuple[list[str], float]:
    """Return the elements of the title and the notes, and the y coordinate of their lower end."""
    parts, y = [], 8.0
    if title:
        parts.append(text(16, y + 20, escape(title), 'class="title"'))
        y += 30
    for note in notes:
        parts.append(text(16, y + 16, escape(note), 'class="note"'))
        y += 19
    return parts, y


@dataclass
class Axis:
    """The range of values that a panel shows in one direction."""

    least: float
    most: float
    logarithmic: bool = False
    label: Callable[[float], str] = "{:g}".format
    marks: Sequence[float] = ()  # the values of ticks; if empty, ticks() chooses round values

    def place(self, value: float) -> float:
        """Return the position of a value on the axis: 0 for `least`, 1 for `most`."""
        if self.logarithmic:
            return math.log(max(value, 1e-300) / self.least) / math.log(self.most / self.least)
        return (value - self.least) / (self.most - self.least)

    def ticks(self, intervals: int = 7) -> Sequence[float]:
        """Return `marks`. If `marks` is empty, return round values: at most intervals + 1 of them on a linear axis."""
        if self.marks:
            return self.marks
        if not self.logarithmic:
            step = round_step((self.most - self.least) / intervals)
            first, last = math.ceil(self.least / step - 1e-9), math.floor(self.most / step + 1e-9)
            return [step * i for i in range(first, last + 1)]
        first, last = math.floor(math.log10(self.least)), math.ceil(math.log10(self.most))
        skip = math.ceil((last - first) / 9)
        digits = (1, 2, 5) if 3 * (last - first) < 2 * intervals - 1 else (1,)
        values = [digit * 10.0**e for e in range(first, last + 1, skip) for digit in digits]
        return [value for value in values if self.least * (1 - 1e-9) <= value <= self.most * (1 + 1e-9)]


@dataclass
class Panel:
    """A chart: two axes, and curves with names."""

    title: str
    x_title: str
    curves: dict[str, Points]
    x: Axis
    y: Axis
    value: Callable[[str, float], str] | None = None  # returns the text at a curve's end, from name and last value
    dots: bool = False  # whether each point has a dot
    reference: Points = field(default_factory=list)  # a gray dashed curve without a name
    bands: dict[str, tuple[Points, Points]] = field(default_factory=dict)  # by curve name: edges of a shaded range
    dashed: Sequence[str] = ()  # names of the curves that are drawn dashed
    width: float = PANEL_WIDTH

    def pixel(self, left: float, top: float, point: tuple[float, float]) -> tuple[float, float]:
        """Return the pixel of a point."""
        return left + self.width * self.x.place(point[0]), top + PANEL_HEIGHT * (1 - self.y.place(point[1]))

    def draw(self, left: float, top: float, colors: dict[str, str]) -> list[str]:
        """Return the elements of the panel, whose frame begins at (left, top)."""
        right, bottom = left + self.width, top + PANEL_HEIGHT
        parts = [text(left, top - 14, self.title, 'class="head"')]
        for tick in self.y.ticks():
            y = bottom - PANEL_HEIGHT * self.y.place(tick)
            parts.append(line(left, y, right, y, 'stroke="#e6e6e6"'))
            parts.append(text(left - 8, y + 4.5, self.y.label(tick), 'class="tick" text-anchor="end"'))
        for tick in self.x.ticks():
            x = left + self.width * self.x.place(tick)
            parts.append(line(x, bottom, x, bottom + 5, 'stroke="#555"'))
            parts.append(text(x, bottom + 20, self.x.label(tick), 'class="tick" text-anchor="middle"'))
        parts.append(line(left, bottom, right, bottom, 'stroke="#555"'))
        parts.append(text((left + right) / 2, bottom + 42, self.x_title, 'text-anchor="middle"'))
        frame = f'<rect x="{left}" y="{top - 1:g}" width="{self.width + 1}" height="{PANEL_HEIGHT + 2}"/>'
        parts.append(f'<clipPath id="frame{left}">{frame}</clipPath><g clip-path="url(#frame{left})">')
        if self.reference:
            parts.append(polyline([self.pixel(left, top, p) for p in self.reference], "#999", 'stroke-dasharray="5 4"'))
        for name, (lower, upper) in self.bands.items():
            places = " ".join(f"{x:.1f},{y:.1f}" for x, y in
                              (self.pixel(left, top, p) for p in [*lower, *reversed(upper)]))  # fmt: skip
            parts.append(f'<polygon points="{places}" fill="{colors[name]}" fill-opacity="0.15"/>')
        ends, dots = [], []
        for name in reversed(self.curves):  # the first curve is drawn last, on top
            points = finite(self.curves[name])
            if not points:
                continue
            pixels = [self.pixel(left, top, p) for p in points]
            parts.append(polyline(pixels, colors[name], 'stroke-dasharray="5 4"' if name in self.dashed else ""))
            if self.dots:
                dots += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{colors[name]}"/>' for x, y in pixels]
            if self.value:
                x, y = pixels[-1]
                ends.append((min(max(y, top), bottom), x, colors[name], self.value(name, points[-1][1])))
        return [*parts, "</g>", *dots, *draw_ends(sorted(ends), bottom)]


def draw_ends(ends: list[tuple[float, float, str, str]], bottom: float) -> list[str]:
    """Return a dot and a text for the end of each curve. Texts that would overlap are moved apart."""
    places = [y for y, *_ in ends]
    for _ in range(50):
        for i in range(len(places) - 1):
            overlap = 16 - (places[i + 1] - places[i])
            if overlap > 0:
                places[i] -= overlap / 2
                places[i + 1] += overlap / 2
    limit = bottom - 5  # texts must not cover the ticks of the x axis
    for i in reversed(range(len(places))):
        places[i] = min(places[i], limit)
        limit = places[i] - 16
    parts = []
    for place, (y, x, color, content) in zip(places, ends):
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{color}"/>')
        for look in ('stroke="#fff" stroke-width="4"', f'style="fill:{color}"'):  # a white outline, then the text
            parts.append(text(x + 8, place + 4.5, escape(content), f'class="value" {look}'))
    return parts


def finite(points: Points) -> Points:
    """Return the points before the first point whose y is not finite."""
    for i, point in enumerate(points):
        if not math.isfinite(point[1]):
            return points[:i]
    return points


def polyline(pixels: Points, color: str, attributes: str = "") -> str:
    """Return a curve."""
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in pixels)
    look = f'stroke="{color}" stroke-width="2" stroke-linejoin="round" {attributes}'
    return f'<polyline fill="none" {look} points="{places}"/>'


def round_step(least: float) -> float:
    """Return the smallest number that is 1, 2 or 5 times a power of ten and not below `least`."""
    decade = 10.0 ** math.floor(math.log10(least))
    return next(decade * digit for digit in (1, 2, 5, 10) if decade * digit >= least * (1 - 1e-9))


def power(value: float) -> str:
    """Return the label of a power of ten."""
    return "10" + str(round(math.log10(value))).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def picture(panels: Sequence[Panel], title: str = "", notes: Sequence[str] = ()) -> str:
    """Return an SVG: title, notes, legend, and two panels side by side. Both panels must have the same curve names."""
    parts, y = heading(title, notes)
    names = panels[0].curves
    others = [color for color in COLORS if "AdamW" not in names or color != COLORS[1]]
    colors = dict(zip((name for name in names if name != "AdamW"), others * len(names)))
    colors = {name: colors.get(name, COLORS[1]) for name in names}
    x, y = 16.0, y + 22
    for name, color in colors.items():
        if x > WIDTH - 60 - 8.5 * len(name):
            x, y = 16.0, y + 20
        parts.append(line(x, y - 4.5, x + 24, y - 4.5, f'stroke="{color}" stroke-width="3"'))
        parts.append(text(x + 31, y, escape(name)))
        x += 60 + 8.5 * len(name)
    top = y + 44
    for left, panel in zip(PANEL_LEFTS, panels):
        parts += panel.draw(left, top, colors)
    return document(top + PANEL_HEIGHT + 56, parts)


def by_runs(rows: list[dict[str, str]]) -> list[Panel]:
    """Return two panels: the validation loss by steps, and by seconds."""
    losses: dict[str, list[dict[str, float]]] = {row["run"]: [] for row in rows}
    for row in rows:
        losses[row["run"]].append({name: float(row[name]) for name in ("step", "seconds", "validation_loss")})
    values, late, most = [], [], 0
    for run in losses.values():
        run_values = [v for _, v in finite([(0, point["validation_loss"]) for point in run])]
        values += run_values
        most = max(most, len(run_values))
        late += run_values[len(run_values) // 10 :]  # leaves out the first tenth, where losses fall fast
    if most < 2:
        raise ValueError("no run has two finite losses")
    step = round_step((max(late) - min(values)) / 7 or 1)
    loss = Axis(step * math.floor(min(values) / step), step * math.ceil(max(late) / step))
    panels = []
    for column, title in (("step", "Validation loss by steps"), ("seconds", "Validation loss by time of training")):
        curves: dict[str, Points] = {
            name: [(p[column], p["validation_loss"]) for p in run] for name, run in losses.items()}  # fmt: skip
        end = max(points[-1][0] for points in curves.values())
        panels.append(Panel(title, column, curves, Axis(0, end), loss, lambda _, loss: f"{loss:.4f}"))
    return panels


def by_epochs(rows: list[dict[str, str]]) -> list[Panel]:
    """Return two panels: the training loss on a logarithmic axis, and the test accuracy."""
    table: list[dict[str, Points]] = []
    for kind, scale in (("_train_loss", 1), ("_test_accuracy", 100)):
        columns = [name for name in rows[0] if name.endswith(kind)]
        table.append({NAMES.get(name[: -len(kind)], name[: -len(kind)]): [(int(row["epoch"]), scale * float(row[name]))
                      for row in rows] for name in columns})  # fmt: skip
    losses, accuracies = table
    values = [max(y, 1e-9) for points in losses.values() for _, y in finite(points)]
    if not values or len(rows) < 2:
        raise ValueError("no run has two finite losses")
    least = 0.8 * min(values)
    decade = 10.0 ** math.floor(math.log10(least))
    bottom = max(decade * digit for digit in (1, 2, 5) if decade * digit <= least)
    loss = Axis(bottom, max(5.0, *values), logarithmic=True)
    # The accuracies of the first epochs may be below the frame, because the end of the training matters most.
    later = [y for points in accuracies.values() for _, y in points[1:]]
    last = min(points[-1][1] for points in accuracies.values())
    accuracy = Axis(math.floor(min(max(min(later), last - 7), 99)), 100)
    epochs = Axis(0, int(rows[-1]["epoch"]))
    return [Panel("Training loss", "epoch", losses, epochs, loss, lambda _, value: f"{value:#.2g}"),
            Panel("Test accuracy in %", "epoch", accuracies, epochs, accuracy, lambda _, value: f"{value:.2f}")]  # fmt: skip


def read_panels(path: Path) -> list[Panel]:
    """Read a CSV file of an example, and return its two panels."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        names, rows = reader.fieldnames or [], list(reader)
    if not rows:
        raise ValueError("no rows")
    for number, row in enumerate(rows, 1):
        found = sum(value is not None for value in row.values())
        if found != len(names):
            raise ValueError(f"row {number} has {found} of {len(names)} columns")
    if {"run", "step", "seconds", "validation_loss"} <= set(names):
        return by_runs(rows)
    if "epoch" in names and all(any(name.endswith(end) for name in names) for end in ("_train_loss", "_test_accuracy")):
        return by_epochs(rows)
    raise ValueError(f"unknown columns: {', '.join(names)}; expected run, step, seconds and validation_loss, or epoch,"
                     " NAME_train_loss and NAME_test_accuracy")  # fmt: skip


def main() -> None:
    """Read the CSV and write the SVG."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path, help="CSV file that an example wrote")
    parser.add_argument("svg", type=Path, help="SVG file to write")
    parser.add_argument("--title", default="", help="title above the panels")
    parser.add_argument("--note", action="append", default=[], help="line below the title; may be repeated")
    options = parser.parse_args()
    try:
        options.svg.write_text(picture(read_panels(options.csv), options.title, options.note), encoding="utf-8")
    except OSError as error:
        sys.exit(f"plot.py: {error.filename}: {error.strerror}")
    except ValueError as error:
        sys.exit(f"plot.py: {options.csv}: {error}")


if __name__ == "__main__":
    main()
