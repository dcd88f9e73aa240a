# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Chooses learning rates and horizons (numbers of training steps), only from the losses of tuning runs."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Search(NamedTuple):
    """The result of a search on a grid of learning rates."""

    rate: float
    losses: dict[float, float]  # by learning rate
    is_at_end: bool  # whether the best rate is the smallest or the largest of the grid, or all rates diverged


def grid_rate(usual: float, index: int, factor: float = 2**0.5) -> float:
    """Return a learning rate of the grid, rounded to four significant digits."""
    return float(f"{usual * factor**index:.4g}")


def search_rate(loss: Callable[[float], float], usual: float, tries: int, factor: float = 2**0.5) -> Search:
    """Return the best of `tries` neighboring learning rates.

    The grid begins with the usual rate and its two neighbors. It grows at the end where the best rate is or, if the
    best rate is at neither end, at the end with the lower loss.
    """
    found: dict[int, float] = {}
    low = high = 0
    found[0] = loss(grid_rate(usual, 0, factor))
    while len(found) < tries:
        best = min(found, key=lambda index: (found[index], index))
        if len(found) == 1:
            low, add = -1, -1
        elif len(found) == 2 or best == high:
            high, add = high + 1, high + 1
        elif best == low or found[low] <= found[high]:
            low, add = low - 1, low - 1
        else:
            high, add = high + 1, high + 1
        found[add] = loss(grid_rate(usual, add, factor))
    best = min(found, key=lambda index: (found[index], index))
    losses = {grid_rate(usual, index, factor): found[index] for index in sorted(found)}
    return Search(grid_rate(usual, best, factor), losses, best in (low, high) or not math.isfinite(found[best]))


def candidate_horizons(loss: Callable[[int], float], target: float, ladder: Sequence[int], most: int = 3) -> list[int]:
    """Return at most `most` horizons to be judged, the shortest first.

    The ladder is the list of all horizons, in ascending order. Bisection finds the first candidate: the shortest
    horizon whose tuning loss is at most the target. The next longer horizons follow. The list is empty if the
    longest horizon of the ladder does not reach the target.
    """
    first, last = 0, len(ladder) - 1
    if not loss(ladder[last]) <= target:
        return []
    while first < last:
        middle = (first + last) // 2
        if loss(ladder[middle]) <= target:
            last = middle
        else:
            first = middle + 1
    return list(ladder[first : first + most])


def most_horizon_runs(ladder: Sequence[int]) -> int:
    """Return an upper bound on the number of calls of loss() in candidate_horizons()."""
    return 1 + math.ceil(math.log2(len(ladder))) if len(ladder) > 1 else 1


def smooth_best(losses: dict[float, float]) -> float:
    """Return the rate at the minimum of the parabola through the losses of the best rate and its two neighbors.

    The parabola is a function of the logarithm of the rate. Return the best rate itself if it is at an end of the grid,
    if a neighbor diverged, or if the three losses are equal.
    """
    rates = sorted(losses)
    best = min(range(len(rates)), key=lambda i: (losses[rates[i]], i))
    if best in (0, len(rates) - 1):
        return rates[best]
    left, middle, right = (losses[rates[best + i]] for i in (-1, 0, 1))
    bend = left - 2 * middle + right
    if not math.isfinite(bend) or bend <= 0:
        return rates[best]
    step = math.log(rates[best + 1] / rates[best])
    return rates[best] * math.exp(step * 0.5 * (left - right) / bend)
