# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Draws the pictures of the benchmarks from their JSON."""
from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import costs
from machine import ROOT

sys.path += [str(ROOT / "examples"), str(ROOT / "docs" / "measure")]
import ablation_chart  # noqa: E402
import plot  # noqa: E402

Summary = dict[str, Any]


Lines = dict[str, plot.Points]


class Row(NamedTuple):
    """A row of a chart."""

    label: str
    optimizer: str  # selects the color: "other" for AdamW, "shampoo" for all other methods
    group: str = "all"


def rows_of(summary: Summary) -> list[Row]:
    """Return a row for each method."""
    return [Row(row["label"], "other" if row["name"] == "adamw" else "shampoo") for row in summary["methods"]]


def with_infinity(values: list[float | None]) -> list[float]:
    """Return the values with infinity in place of None. The JSON has null for each number that is not finite."""
    return [math.inf if value is None else value for value in values]


def language_model(summary: Summary, others: dict[str, Summary], path: Path) -> None:
    """Draw each method's losses after the same number of steps, and its steps and seconds to AdamW's loss."""
    cost, steps = others.get("cost"), summary["settings"]["steps"]
    panels = [
        ablation_chart.Panel(f"validation loss after {steps} steps",
                             [with_infinity(row["at_t0"]["losses"]) for row in summary["methods"]], from_zero=False),
        ablation_chart.Panel("steps to AdamW's loss", [with_infinity([row["reached"]]) for row in summary["methods"]]),
    ]  # fmt: skip
    if cost:
        times = [costs.seconds(cost, row["name"], row["reached"]) if row["reached"] else None
                 for row in summary["methods"]]  # fmt: skip
        panels.append(ablation_chart.Panel("seconds to AdamW's loss", [with_infinity([time]) for time in times]))
    note = ("bar: range over the seeds; line in a bar: median; arrow: loss not reached, or value beyond the axis;"
            " dashed line: AdamW")  # fmt: skip
    ablation_chart.write(str(path), rows_of(summary), panels, note=note,
                         title="A language model: steps and seconds to AdamW's loss")  # fmt: skip
    curves(summary, cost, path.with_name("language_model_curves.svg"))


def ranges(row: Summary) -> list[tuple[int, float, float, float]]:
    """Return for each evaluation its step, and the mean, the least and the largest loss over the seeds.

    A horizon is the number of steps of a training. The evaluations are from the trainings with the shortest horizon
    that reaches the target loss or, if none does, with AdamW's horizon.
    """
    judged = row["horizons"][-1] if row["horizons"] and row["reached"] else row["at_t0"]
    found = []
    for place in zip(*judged["curves"]):
        losses = with_infinity([loss for _, loss in place])
        if all(map(math.isfinite, losses)):
            found.append((place[0][0], sum(losses) / len(losses), min(losses), max(losses)))
    return found


def curves(summary: Summary, cost: Summary | None, path: Path) -> None:
    """Draw the validation losses that ranges() returns for each method, by steps and by seconds."""
    rows = {row["label"]: (row["name"], ranges(row)) for row in summary["methods"]}
    late = [most for _, points in rows.values() for _, _, _, most in points[len(points) // 3 :]]
    if not late:
        return
    least = min(low for _, points in rows.values() for _, _, low, _ in points)
    axis = plot.Axis(least - 0.02, max(late) + 0.02, label="{:.2f}".format)
    panels = []
    for title, unit in (("Validation loss by steps", "step"), ("Validation loss by time of training", "seconds")):
        if unit == "seconds" and not cost:
            continue
        lines: Lines = {}
        bands: dict[str, tuple[plot.Points, plot.Points]] = {}
        for label, (name, points) in rows.items():
            places = [float(step) if unit == "step" or not cost else costs.seconds(cost, name, step) or 0.0
                      for step, _, _, _ in points]  # fmt: skip
            lines[label] = [(x, mean) for x, (_, mean, _, _) in zip(places, points)]
            bands[label] = ([(x, low) for x, (_, _, low, _) in zip(places, points)],
                            [(x, high) for x, (_, _, _, high) in zip(places, points)])  # fmt: skip
        end = max(points[-1][0] for points in lines.values() if points)
        panels.append(plot.Panel(title, unit, lines, plot.Axis(0, end), axis, bands=bands,
                                 reference=[(0.0, summary["target"]), (end, summary["target"])]))  # fmt: skip
    notes = ["A line shows the shortest training that reaches AdamW's final loss (dashed line) or, if none does, a"
             " training of AdamW's length",
             "Lines are means over the seeds, and areas are ranges over the seeds"]  # fmt: skip
    path.write_text(plot.picture(panels, "A language model", notes), encoding="utf-8")


def convolution(summary: Summary, others: dict[str, Summary], path: Path) -> None:
    """Draw test errors and losses."""
    del others
    panels = [ablation_chart.Panel("test error in %", [row["errors"] for row in summary["methods"]]),
              ablation_chart.Panel("test loss", [with_infinity(row["losses"])
                                                 for row in summary["methods"]])]  # fmt: skip
    note = (f"a bar: least to largest of {len(summary['settings']['seeds'])} seeds; a line across it: the median; an"
            " arrow: beyond the axis; dashed: AdamW")  # fmt: skip
    ablation_chart.write(str(path), rows_of(summary), panels, note=note,
                         title="A convolutional network that learns from 300 digits")  # fmt: skip


def transfer(summary: Summary, others: dict[str, Summary], path: Path) -> None:
    """Draw the best learning rate of each width, and the excess loss of each width.

    The excess loss of a width is its loss at the rate that is best for the narrowest model, minus its lowest loss.
    """
    del others
    rates: Lines = {}
    excess: Lines = {}
    for rule in summary["rules"]:
        widths = list(rule["widths"].items())
        rates[rule["label"]] = [(float(width), one["smooth_rate"]) for width, one in widths]
        narrow = str(widths[0][1]["rate"])
        excess[rule["label"]] = [
            (float(width), one["grid"][narrow] - min(value for value in one["grid"].values() if value is not None))
            for width, one in widths if one["grid"].get(narrow) is not None
        ]  # fmt: skip
    values = [rate for points in rates.values() for _, rate in points]
    losses = [loss for points in excess.values() for _, loss in points]
    ends = summary["settings"]["widths"]
    x = plot.Axis(ends[0] / 1.1, ends[-1] * 1.1, logarithmic=True)
    panels = [plot.Panel("Best learning rate", "width", rates, x,
                         plot.Axis(min(values) / 1.5, max(values) * 1.5, logarithmic=True), dots=True),
              plot.Panel("Excess loss at the narrowest model's best rate", "width", excess, x,
                         plot.Axis(0, max(*losses, 0.005) * 1.1), dots=True)]  # fmt: skip
    path.write_text(plot.picture(panels, "Learning rates of Muon over the width of the model"), encoding="utf-8")


def relative_seconds(cost: Summary, race: Summary, name: str) -> list[tuple[float, float]]:
    """Return pairs (tokens per batch, seconds to the target relative to AdamW), or [] if the target is not reached."""
    row, base = costs.row_of(race, name), race["methods"][0]
    points: list[tuple[float, float]] = []
    if row is None or row["reached"] is None:
        return points
    for batch, _ in cost["gradients_ms"]:
        tokens = batch * cost["model"]["context"]
        own = costs.seconds(cost, name, row["reached"], tokens)
        other = costs.seconds(cost, base["name"], base["reached"], tokens)
        if own and other:
            points.append((tokens, own / other))
    return points


def cost(summary: Summary, others: dict[str, Summary], path: Path) -> None:
    """Draw two numbers by tokens per batch: the update's share of a step, and the result of relative_seconds()."""
    context, race = summary["model"]["context"], others.get("language_model")
    shares: Lines = {}
    relative: Lines = {}
    for row in summary["methods"]:
        shares[row["label"]] = [(batch * context, 100 * row["update_ms"] / (row["update_ms"] + gradient))
                                for batch, gradient in summary["gradients_ms"]]  # fmt: skip
        relative[row["label"]] = relative_seconds(summary, race, row["name"]) if race else []
    tokens = [batch * context for batch, _ in summary["gradients_ms"]]
    x = plot.Axis(tokens[0], tokens[-1], logarithmic=True)
    panels = [plot.Panel("Share of the update in a step, in %", "tokens per batch", shares, x, plot.Axis(0, 100))]
    ratios = [ratio for points in relative.values() for _, ratio in points]
    if ratios:
        equal = [(tokens[0], 1.0), (tokens[-1], 1.0)]
        panels.append(plot.Panel("Seconds to AdamW's loss, relative to AdamW", "tokens per batch", relative, x,
                                 plot.Axis(0, min(max(ratios), 4.0)), reference=equal))  # fmt: skip
    path.write_text(plot.picture(panels, "The cost of a step"), encoding="utf-8")


PICTURES: dict[str, Callable[[Summary, dict[str, Summary], Path], None]] = {
    "language_model": language_model, "convolution": convolution, "transfer": transfer, "cost": cost,
}  # fmt: skip
