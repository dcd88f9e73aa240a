#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the chart that shampoo_bench or shampoo_placement wrote with --chart.

    python3 tools/bench/draw_chart.py chart.json chart.svg

The chart has two panels side by side, with the same x values. All axes are logarithmic. No Python package is needed.
"""
from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
import plot  # noqa: E402

WIDTH, PANEL_LEFTS, PANEL_WIDTH = 1100, (70, 600), 340  # names of curves are to the right of each panel
STYLE = plot.STYLE + ".tick{font-size:11.5px}.value{font-size:12px}"


def number(value: float) -> str:
    """Return a number as text: with at most three significant digits if it is below 1000, otherwise as an integer."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def axis(values: Sequence[float], margin: float, marks: Sequence[float] = ()) -> plot.Axis:
    return plot.Axis(min(values) / margin, max(values) * margin, logarithmic=True, label=number, marks=marks)


def draw_panel(chart: dict[str, Any], panel: dict[str, Any], left: float, top: float) -> list[str]:
    solid, dashed = ([curve["name"] for curve in panel[kind]] for kind in ("curves", "dashed"))
    curves: dict[str, plot.Points] = {
        curve["name"]: list(zip(chart["x"], curve["y"])) for curve in panel["curves"] + panel["dashed"]
    }
    values = [y for points in curves.values() for _, y in points]
    drawn = plot.Panel(panel["title"], chart["x_title"], curves, axis(chart["x"], 1.02, chart["x"]), axis(values, 1.3),
                       value=lambda name, last: f"{name}: {number(last)}", dots=True, dashed=dashed, width=PANEL_WIDTH)
    return drawn.draw(left, top, dict(zip(solid, itertools.cycle(plot.COLORS))) | dict.fromkeys(dashed, "#777"))


def draw(chart: dict[str, Any]) -> str:
    parts, y = plot.heading(chart["title"], [chart["note"]])
    for left, panel in zip(PANEL_LEFTS, chart["panels"]):
        parts += draw_panel(chart, panel, left, y + 44)
    return plot.document(y + 44 + plot.PANEL_HEIGHT + 56, parts, width=WIDTH, style=STYLE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path, help="file that --chart wrote")
    parser.add_argument("svg", type=Path, help="file to write")
    options = parser.parse_args()
    options.svg.write_text(draw(json.loads(options.json.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
