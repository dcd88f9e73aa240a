# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Computes inverse roots of a factor matrix in plain NumPy, for model.py."""
from __future__ import annotations

import math
from typing import Any

import numpy as np

Keys = dict[str, Any]


def norm(x: np.ndarray) -> float:
    return math.sqrt(float((x.astype(np.float64) ** 2).sum()))


def newton(a: np.ndarray, r: int, k: Keys, margins: list[float]) -> np.ndarray:
    """Return A^(-1/r), computed by the coupled inverse Newton iteration.

    Append |log(error / root_tolerance)| to margins in each iteration, where error is the largest element of |Y - I|. If
    a margin is near 0, rounding could decide when the iteration stops.
    """
    one = np.eye(len(a), dtype=a.dtype)
    z = (r + 1) / (2 * norm(a))
    x, y = z ** (1 / r) * one, z * a
    for _ in range(k["root_max_iterations"]):
        error = float(abs(y - one).max())
        margins.append(abs(math.log(error / k["root_tolerance"])))
        if error <= k["root_tolerance"]:
            break
        t = ((r + 1) * one - y) / r
        x, y = x @ t, np.linalg.matrix_power(t, r) @ y
        y = (y + y.T) / 2
    return x


def higher_order(a: np.ndarray, e: float, p: int, k: Keys, margins: list[float]) -> np.ndarray:
    """Return (A + e I)^(-1/p), computed by the coupled iteration of order root_order. margins: as for newton()."""
    one = np.eye(len(a), dtype=a.dtype)
    largest = float(abs(a).max())  # scales A, because A^4 may be out of range
    sums = [abs(np.linalg.matrix_power(a / largest, i)).sum(axis=1).max() ** (1 / i) for i in (1, 4)]
    bound = largest * float(min(sums)) + e
    ratio = (bound / e) ** (1 / p)
    c = max(1.001, (ratio * bound - e) / (ratio * bound - bound)) if ratio != 1 else 1.001
    z = (p + 1) / (c * bound)
    x, y = z ** (1 / p) * one, z * (a + e * one)
    terms = [1.0]
    for i in range(1, k["root_order"]):
        terms.append(terms[-1] * (1 + (i - 1) * p) / (i * p))
    before = math.inf
    for iteration in range(k["root_max_iterations"]):
        t = sum(b * np.linalg.matrix_power(one - y, i) for i, b in enumerate(terms if iteration else terms[:2]))
        x, y = x @ t, np.linalg.matrix_power(t, p) @ y
        y = (y + y.T) / 2
        error = float(abs(y - one).max())
        margins.append(abs(math.log(error / k["root_tolerance"])))
        if error <= k["root_tolerance"] or error > 1.2 * before or error == before:
            break
        before = error
    return x


def inverse_root(a: np.ndarray, order: int, k: Keys, margins: list[float]) -> np.ndarray:
    """Return the inverse root of a bias-corrected factor matrix. order: the order of the block."""
    n, one = len(a), np.eye(len(a), dtype=a.dtype)
    epsilon, relative = k["epsilon"], k["root_relative_epsilon"]
    if relative:
        if not a.any():
            return one
        epsilon = relative * float(np.trace(a)) / n
    override = k["inverse_root_override"]
    if isinstance(override, list):
        override = override[order] if order < len(override) else 0
    root = override or 2 * order
    if k["root_method"] == "newton":
        return newton(a + epsilon * one, root, k, margins)
    if k["root_method"] == "higher_order":
        return higher_order(a, epsilon, root, k, margins)
    l, q = np.linalg.eigh(a)
    powers = (l.astype(np.float64) - min(float(l[0]), 0.0) + epsilon) ** (-k["exponent_multiplier"] / root)
    return (q * powers.astype(a.dtype)) @ q.T
