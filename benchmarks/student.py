# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Student's t distribution and the significance tests that the benchmarks use."""
from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def beta_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by the method of Lentz."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 1000):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / c
            c = c if abs(c) > tiny else tiny
            result *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return result


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * beta_fraction(a, b, x) / a
    return 1 - front * beta_fraction(b, a, 1 - x) / b


def probability_below(t: float, degrees: float) -> float:
    """Return the probability that a variable with Student's t distribution is at most t."""
    if math.isinf(t):
        return float(t > 0)
    half = 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))
    return 1 - half if t > 0 else half


def quantile(probability: float, degrees: float) -> float:
    """Return the t at which `probability_below(t, degrees)` equals the probability."""
    low, high = -1e6, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if probability_below(middle, degrees) < probability else (low, middle)
    return (low + high) / 2


def p_below(values: Sequence[float], target: float) -> float:
    """Return the p-value of the one-sided t-test of whether the mean of the values is below a target.

    Return 1 if a value is not finite, or if there are fewer than two values.
    """
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return 1.0
    difference, deviation = statistics.fmean(values) - target, statistics.stdev(values)
    if deviation == 0:
        return float(difference >= 0)
    return probability_below(difference / (deviation / math.sqrt(len(values))), len(values) - 1)


def p_below_others(values: Sequence[float], others: Sequence[float]) -> float:
    """Return the p-value of Welch's one-sided test of whether the mean of `values` is below that of `others`."""
    if min(len(values), len(others)) < 2 or not all(map(math.isfinite, [*values, *others])):
        return 1.0
    difference = statistics.fmean(values) - statistics.fmean(others)
    first, second = statistics.variance(values) / len(values), statistics.variance(others) / len(others)
    if first + second == 0:
        return float(difference >= 0)
    degrees = (first + second) ** 2 / (first**2 / (len(values) - 1) + second**2 / (len(others) - 1))
    return probability_below(difference / math.sqrt(first + second), degrees)


def half_interval(values: Sequence[float], probability: float = 0.95) -> float:
    """Return half the width of the confidence interval of the mean."""
    if len(values) < 2:
        return math.inf
    return quantile((1 + probability) / 2, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
