# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Computes the steps of method shampoo in plain NumPy, for the cases of data/rules. Shares no code with the library.

The dict of keys must contain all keys, because this file has no defaults. Arrays of states have the dtype of the
weights, even if stored() rounds their elements to another dtype.
make_cases.py uses weights in float64 for the recorded results, and in the dtype of the case to measure rounding errors.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from roots import Keys, inverse_root, norm


def refreshes(k: Keys) -> Iterator[tuple[int, int]]:
    """Yield (step, current interval between refreshes) for the steps at which a group refreshes its roots."""
    frequency, growth, t = k["precondition_frequency"], k["refresh_growth"], k["start_preconditioning_step"]
    if t == -1:
        t = 1 if growth else frequency
    t = max(t, 1)
    while True:
        interval = max(1, min(frequency, math.floor(growth * t))) if growth else frequency
        yield t, interval
        # If refresh_growth is 0 and root_spread is false, the next refresh is at a multiple of the frequency.
        t += interval if growth or k["root_spread"] else frequency - t % frequency


def schedule(k: Keys, phase: int, steps: int) -> dict[int, bool]:
    """For each step in which the roots of a block are due, return whether root_async may delay their use.

    phase: the phase of the block (see Group).
    """
    found = {}
    for t, interval in refreshes(k):
        if t > steps:
            return found
        due = t + (phase * interval // k["precondition_frequency"] if k["root_spread"] else 0)
        found[due] = 0 < k["root_async"] < interval


def merged(shape: tuple[int, ...], k: Keys) -> list[int]:
    """Return the dims of a tensor after merging."""
    if not k["use_merge_dims"]:
        return list(shape) or [1]
    dims = [n for n in shape if n != 1] or [1]
    most, least = k["max_preconditioner_dim"], k["merge_min_dim"]
    i = 0 if least == 0 else len(dims) - 2
    while 0 <= i < len(dims) - 1:
        a, b = dims[i], dims[i + 1]
        if a * b <= most and (least == 0 or (min(a, b) < least and len(dims) > 2)):
            dims[i : i + 2] = [a * b]
            i -= 0 if least == 0 else 1
        else:
            i += 1 if least == 0 else -1
    return dims


def stored(x: np.ndarray, dtype: str) -> np.ndarray:
    """Return a state, rounded to the dtype in which it is kept between steps."""
    if dtype == "f16":
        return x.astype(np.float16).astype(x.dtype)
    if dtype == "bf16":
        mantissa, exponent = np.frexp(x)
        return np.ldexp(np.rint(mantissa * 256) / 256, exponent)
    return x  # auto: the dtype of the arithmetic


Root = Callable[[np.ndarray, int], np.ndarray]


class Block:
    """The states and the step of a block. `weight` is a view of the elements of the block in the parameter."""

    def __init__(self, weight: np.ndarray, has_factors: bool, k: Keys, root: Root) -> None:
        self.weight, self.has_factors, self.k, self.root = weight, has_factors, k, root
        dims = weight.shape if has_factors else ()
        self.cost = sum(n**3 for n in dims)
        self.factors = [np.zeros((n, n), weight.dtype) for n in dims]
        self.roots = [(k["initial_inverse"] == "identity") * np.eye(n, dtype=weight.dtype) for n in dims]
        self.filtered, self.moment, self.momentum = (np.zeros_like(weight) for _ in range(3))
        self.has_roots = False
        self.pending: tuple[int, list[np.ndarray]] | None = None  # step and factor matrices of a snapshot
        self.schedule: dict[int, bool] = {}

    def refresh(self, t: int) -> None:
        """Take a snapshot of the factor matrices if roots are due. Use the roots of a snapshot at once or
        root_async steps later.
        """
        if t in self.schedule:
            defers_use = self.has_roots and self.pending is None and self.schedule[t]
            self.pending = (t, list(self.factors))
            if not defers_use:
                self.use_pending()
        elif self.pending is not None and t >= self.pending[0] + self.k["root_async"]:
            self.use_pending()

    def use_pending(self) -> None:
        k, (taken, factors) = self.k, self.pending
        c = 1 - k["beta2"] ** taken if k["use_bias_correction"] and k["beta2"] < 1 else 1.0
        self.roots = [self.root(f / c, self.weight.ndim) for f in factors]
        self.has_roots, self.pending = True, None

    def graft(self, h: np.ndarray, t: int) -> np.ndarray:
        k = self.k
        if k["grafting"] == "sgd":
            return h
        corrects = k["grafting"] == "adam" and k["grafting_beta2"] < 1
        c = 1 - k["grafting_beta2"] ** t if corrects else 1.0
        return h / (np.sqrt(self.moment / c) + k["grafting_epsilon"])

    def direction(self, h: np.ndarray, t: int) -> np.ndarray:
        k, grafts = self.k, self.k["grafting"] != "none"
        if not self.has_factors or t < min(self.schedule, default=math.inf):
            return self.graft(h, t) if grafts else h * (k["initial_inverse"] == "identity")
        p = h
        for dim, root in enumerate(self.roots):
            p = np.moveaxis(np.tensordot(p, root, axes=(dim, 0)), -1, dim)
        guard = 1e-37 if k["root_relative_epsilon"] else 1e-16
        return p * (norm(self.graft(h, t)) / (norm(p) + guard)) if grafts else p

    def step(self, g: np.ndarray, t: int, lr: float) -> None:
        k, w = self.k, self.weight
        if k["weight_decay_type"] == "coupled":
            g = g + k["weight_decay"] * w
        for dim, factor in enumerate(self.factors):
            others = [d for d in range(g.ndim) if d != dim]
            gained = np.tensordot(g, g, axes=(others, others))
            self.factors[dim] = k["beta2"] * factor + (1.0 if k["beta2"] == 1 else 1 - k["beta2"]) * gained
        decay = 1.0 if k["grafting"] == "adagrad" else k["grafting_beta2"]
        self.moment = decay * self.moment + (1.0 if decay == 1 else 1 - decay) * g * g
        self.refresh(t)

        self.filtered = k["beta1"] * self.filtered + (1 - k["beta1"]) * g
        p = self.direction(self.filtered / (1 - k["beta1"] ** t) if k["use_bias_correction"] else self.filtered, t)
        if k["weight_decay_type"] == "decoupled":
            p = p + k["weight_decay"] * w
        self.momentum = k["momentum"] * self.momentum + p
        p = p + k["momentum"] * self.momentum if k["use_nesterov"] else self.momentum
        w -= lr * p
        self.factors = [stored(f, k["factor_dtype"]) for f in self.factors]
        self.roots = [stored(x, k["inverse_dtype"]) for x in self.roots]
        self.filtered = stored(self.filtered, k["filtered_grad_dtype"])
        self.momentum = stored(self.momentum, k["momentum_dtype"])
        self.moment = stored(self.moment, k["grafting_dtype"])


class Group:
    """Parameters with the same keys.

    weights: {index of a parameter: its array}; step() changes the arrays in place. move: perturbs a factor matrix
    before its root is computed.
    """

    def __init__(self, k: Keys, weights: dict[int, np.ndarray], steps: int, move: Callable = lambda a: a) -> None:
        self.k, self.t, self.lr = k, 0, k["lr"]
        self.margins: list[float] = []

        def root(a: np.ndarray, order: int) -> np.ndarray:
            return inverse_root(move(a), order, k, self.margins)

        self.blocks: list[tuple[int, list[int], tuple[slice, ...], Block]] = []
        most = k["max_preconditioner_dim"]
        for p, weight in weights.items():
            shape = merged(weight.shape, k)
            has_factors = k["precondition_1d"] or k["grafting"] == "none" or sum(n > 1 for n in weight.shape) > 1
            for position in np.ndindex(*(-(-n // most) for n in shape)):
                part = tuple(slice(i * most, (i + 1) * most) for i in position)
                view = weight.reshape(shape)[part]
                self.blocks.append((p, shape, part, Block(view, has_factors, k, root)))
        # With root_spread, the phase of a block delays its refreshes. Blocks are assigned to phases one after another:
        # the most expensive block first, each block to the phase with the least total cost.
        load = [0] * min(k["precondition_frequency"], len(self.blocks))
        for block in sorted((b for *_, b in self.blocks), key=lambda b: -b.cost):
            phase = load.index(min(load))
            load[phase] += block.cost
            block.schedule = schedule(k, phase, steps)

    def step(self, gradients: dict[int, np.ndarray]) -> None:
        """Make a step with these gradients. If there are none, the step counter of the group does not advance."""
        self.t += bool(gradients)
        for p, shape, part, block in self.blocks:
            if p in gradients:
                block.step(gradients[p].reshape(shape)[part], self.t, self.lr)
