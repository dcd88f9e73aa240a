# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the charts of docs/ablation.md and benchmarks/: a row for each configuration, a panel for each quantity."""
from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
import plot  # noqa: E402

WIDTH, ROW, GAP = 1040, 22, 10
LEFT, PANELS, BETWEEN = 262, 760, 36  # start of the panels, their total width, and the distance between two panels
STYLE = plot.STYLE + ".tick{font-size:11.5px}.row{font-size:12.5px}"


class Row(Protocol):
    """A row of the chart. Rows with the same group are close together, unless the group is empty."""

    @property
    def group(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def optimizer(self) -> str: ...


class Panel(NamedTuple):
    title: str
    values: list[list[float]]  # by configuration and seed; infinity if a target loss was not reached
    logarithmic: bool = False
    from_zero: bool = True  # whether a linear axis begins at 0; if not, it begins just below the least value


def axis_of(panel: Panel) -> plot.Axis:
    finite = [v for values in panel.values for v in values if math.isfinite(v)]
    if panel.logarithmic:
        # The axis ends at 1, because a larger final loss is a failure.
        return plot.Axis(10 ** (math.floor(2 * math.log10(min(finite))) / 2), 1.0, True)
    # The medians limit the axis, so that a single slow configuration does not compress the others.
    medians = [m for m in (statistics.median(values) for values in panel.values) if math.isfinite(m)]
    most = min(max(finite), (2.5 if panel.from_zero else 1.2) * statistics.median(medians))
    return plot.Axis(0.0 if panel.from_zero else min(finite) - 0.05 * (most - min(finite)), most)


def row_places(configs: Sequence[Row], top: float) -> list[float]:
    """Returns the middle of each row. There is a gap between groups."""
    places, y = [], top + ROW
    for i, config in enumerate(configs):
        if i > 0 and (config.group != configs[i - 1].group or not config.group):
            y += GAP
        places.append(y)
        y += ROW
    return places


def draw_panel(panel: Panel, left: float, right: float, top: float, colors: Sequence[str],
               places: Sequence[float]) -> list[str]:
    """Draws the values of each row. Values beyond the end of the axis are left out; a triangle marks their row."""
    axis, bottom = axis_of(panel), places[-1] + ROW

    def pixel(value: float) -> float:
        return left + (right - left) * min(max(axis.place(value), 0.0), 1.0)

    parts = [plot.text(left, top - 14, panel.title, 'class="head"')]
    for tick in axis.ticks(6):
        parts.append(plot.line(pixel(tick), top, pixel(tick), bottom, 'stroke="#e6e6e6"'))
        parts.append(plot.text(pixel(tick), bottom + 18, axis.label(tick), 'class="tick" text-anchor="middle"'))
    parts.append(plot.line(left, bottom, right, bottom, 'stroke="#555"'))
    base = statistics.median(panel.values[0])
    if base <= axis.most:
        parts.append(plot.line(pixel(base), top, pixel(base), bottom, 'stroke="#999" stroke-dasharray="5 4"'))
    for values, color, y in zip(panel.values, colors, places):
        median, range_look = statistics.median(values), f'stroke="{color}" stroke-width="7" stroke-opacity="0.35"'
        parts.append(plot.line(pixel(min(values)), y, pixel(max(values)), y, range_look))
        parts += [f'<circle cx="{pixel(v):.1f}" cy="{y:.1f}" r="2" fill="{color}" fill-opacity="0.7"/>'
                  for v in values if v <= axis.most]
        if median <= axis.most:
            parts.append(plot.line(pixel(median), y - 8, pixel(median), y + 8, f'stroke="{color}" stroke-width="3"'))
        if max(values) > axis.most:
            parts.append(f'<path d="M{right + 1:.1f},{y - 5:.1f} l9,5 l-9,5 z" fill="{color}"/>')
    return parts


def write(path: str, configs: Sequence[Row], panels: Sequence[Panel], *, title: str, note: str) -> None:
    parts, y = plot.heading(title, [note])
    top = y + 44
    places = row_places(configs, top)
    colors = [plot.COLORS[0 if config.optimizer == "shampoo" else 1] for config in configs]
    for config, color, y in zip(configs, colors, places):
        attributes = f'class="row" text-anchor="end" style="fill:{color}"'
        parts.append(plot.text(LEFT - 14, y + 4.5, config.label, attributes))
    width = (PANELS + BETWEEN) / len(panels) - BETWEEN
    for i, panel in enumerate(panels):
        left = LEFT + i * (width + BETWEEN)
        parts += draw_panel(panel, left, left + width, top, colors, places)
    Path(path).write_text(plot.document(places[-1] + ROW + 34, parts, width=WIDTH, style=STYLE), encoding="utf-8")
