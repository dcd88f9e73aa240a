# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Computes the seconds of training runs from the results of `cost`, the part of the benchmarks that times steps."""
from __future__ import annotations

import statistics
from typing import Any

Summary = dict[str, Any]


def row_of(summary: Summary, name: str) -> Summary | None:
    """Return the row of a method, or None if there is none."""
    return next((row for row in summary["methods"] if row["name"] == name), None)


def update_seconds(cost: Summary, name: str, steps: int) -> float | None:
    """Return the seconds that the updates of a method take in a training run of `steps` steps.

    Return None if `cost` has no times of the method. The time of a step after the last measured one is estimated as
    the mean of the second half of the measured times.
    """
    row = row_of(cost, name)
    if row is None or not row["update_ms_of_steps"]:
        return None
    times = row["update_ms_of_steps"]
    late = statistics.fmean(times[len(times) // 2 :])
    return float(1e-3 * (sum(times[:steps]) + late * max(0, steps - len(times))))


def _points(cost: Summary) -> list[tuple[int, float]]:
    """Return the measured times of computing a gradient: pairs (tokens per batch, ms)."""
    return [(batch * cost["model"]["context"], time) for batch, time in cost["gradients_ms"]]


def gradient_ms(cost: Summary, tokens: float) -> float:
    """Return the time in ms that computing a gradient takes.

    The time is interpolated linearly between the measured numbers of tokens per batch, and extrapolated beyond them.
    """
    points = _points(cost)
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        if tokens <= x1 or (x1, y1) == points[-1]:
            return y0 + (y1 - y0) * (tokens - x0) / (x1 - x0)
    return points[0][1]


def seconds(cost: Summary, name: str, steps: int, tokens: float | None = None) -> float | None:
    """Return the seconds of a training run, or None if `cost` has no times of the method.

    `tokens` is the number of tokens per batch; None selects the number in the part `language_model`.
    """
    updates = update_seconds(cost, name, steps)
    gradient = cost["gradient_ms"] if tokens is None else gradient_ms(cost, tokens)
    return None if updates is None else updates + 1e-3 * gradient * steps


def crossing(cost: Summary, race: Summary, name: str) -> str | None:
    """Return text that says with how many tokens per batch a method reaches AdamW's loss in less time than AdamW.

    `race` has the results of the part `language_model`. Return None for AdamW and for a method without results.
    """
    row, base = row_of(race, name), race["methods"][0]
    if row is None or row is base:
        return None
    if row["reached"] is None:
        return "never: target not reached"
    own = update_seconds(cost, name, row["reached"])
    other = update_seconds(cost, base["name"], base["reached"])
    if own is None or other is None:
        return None
    saved = base["reached"] - row["reached"]
    if saved <= 0 and own >= other:
        return "never"
    if saved == 0:
        return "any number of tokens"
    limit = 1e3 * (own - other) / saved  # time of a gradient, in ms, at which both methods take equally long
    points = _points(cost)
    fewest, most = points[0], points[-1]
    if saved < 0:  # more steps, but less time for all updates: the method is faster if gradients take little time
        if limit <= fewest[1]:
            return f"not from {fewest[0]} tokens, the fewest measured"
        if limit > most[1]:
            return f"up to {most[0]} tokens, the most measured"
        return f"below {_tokens_at(points, limit)} tokens"
    if limit <= fewest[1]:
        return f"{fewest[0]} tokens, the fewest measured"
    return f"more than {most[0]} tokens" if limit > most[1] else f"{_tokens_at(points, limit)} tokens"


def _tokens_at(points: list[tuple[int, float]], time: float) -> int:
    """Return the number of tokens per batch at which a gradient takes `time` ms, by linear interpolation.

    `points` has pairs (tokens per batch, ms). `time` must be within the times of the points.
    """
    (x0, y0), (x1, y1) = next(pair for pair in zip(points, points[1:]) if pair[1][1] >= time)
    return round(x0 + (x1 - x0) * (time - y0) / (y1 - y0))
