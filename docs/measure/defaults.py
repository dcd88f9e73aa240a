#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares AdamW with the library on small problems, at the learning rate that is best for AdamW.

    python3 docs/measure/defaults.py [--seeds 5] [--only NAME] [--set KEY=VALUE ...]

The library trains with the preset shampoo_2024, with the default keys, and, if --set is present, with the keys of
--set. Each of these settings has a column. In a run, the rate falls to 0 along half a cosine. The script searches for
AdamW's best rate among powers of 2. The library uses the same rate. Losses are means over the seeds. The column "holds"
states whether the defaults train as well as AdamW. It contains "yes" if the loss with the defaults is lower than
AdamW's loss, or if both losses have fallen by a factor of 10^6. For problems without matrices, the loss may also be up
to 1 % above AdamW's. Times are mean times of an optimizer step on one thread, including the call from Python. Needs
NumPy and this library's package.
"""
from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from defaults_problems import PROBLEMS, Params, Problem

import libshampoo

Step = Callable[[Params, float], None]


class AdamW:
    """AdamW with betas 0.9 and 0.999, without weight decay. Updates the parameters in place."""

    def __init__(self, params: Params) -> None:
        self.params, self.count = params, 0
        self.first = {name: np.zeros_like(value) for name, value in params.items()}
        self.second = {name: np.zeros_like(value) for name, value in params.items()}

    def __call__(self, grads: Params, rate: float) -> None:
        self.count += 1
        for name, grad in grads.items():
            first, second = self.first[name], self.second[name]
            first += 0.1 * (grad - first)
            second += 0.001 * (grad * grad - second)
            size = np.sqrt(second / (1 - 0.999**self.count)) + 1e-8
            self.params[name] -= (rate / (1 - 0.9**self.count) * first / size).astype(np.float32)


def library(keys: dict[str, Any]) -> Callable[[Params], Step]:
    def make(params: Params) -> Step:
        opt = libshampoo.Optimizer(params, threads=1, **keys)

        def step(grads: Params, rate: float) -> None:
            opt.lr = rate
            opt.step(grads)

        return step

    return make


def train(problem: Problem, steps: int, rate: float, make: Callable[[Params], Step]) -> tuple[float, float]:
    """Returns the final loss and the mean seconds of an optimizer step. If the loss is not finite, returns infinity
    instead of the loss. If a step fails, returns infinity and NaN.
    """
    params = {name: value.copy() for name, value in problem.params.items()}
    step_of, seconds = make(params), 0.0
    with np.errstate(all="ignore"):
        for step in range(steps):
            grads = problem.gradient(params, step)
            began = time.perf_counter()
            try:
                step_of(grads, rate * 0.5 * (1 + math.cos(math.pi * step / steps)))
            except libshampoo.Error:
                return math.inf, math.nan
            seconds += time.perf_counter() - began
        loss = problem.loss(params)
    return (loss if math.isfinite(loss) else math.inf), seconds / steps


def mean(maker: Callable[[int], Problem], steps: int, rate: float, make: Callable[[Params], Step],
         seeds: int) -> tuple[float, float]:
    runs = [train(maker(seed), steps, rate, make) for seed in range(seeds)]
    return float(np.mean([run[0] for run in runs])), float(np.mean([run[1] for run in runs]))


def best_power(loss_at: Callable[[int], float], low: int = -8, high: int = -2) -> int:
    """Returns the exponent of the power of 2 with the lowest loss. Searches from 2^low to 2^high first. While the best
    power is at an end of the range, extends the range at this end, down to 2^-24 and up to 2^8.
    """
    losses: dict[int, float] = {}

    def at(power: int) -> float:
        if power not in losses:
            losses[power] = loss_at(power)
        return losses[power]

    while True:
        best = min(range(low, high + 1), key=at)
        if best == low and low > -24:
            low -= 2
        elif best == high and high < 8:
            high += 2
        else:
            return best


def best_rate(maker: Callable[[int], Problem], steps: int, seeds: int) -> float:
    return 2.0**best_power(lambda power: mean(maker, steps, 2.0**power, AdamW, seeds)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="measure only problems whose name contains this string")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="add a column with these keys")
    options = parser.parse_args()
    columns: list[tuple[str, dict[str, Any]]] = [("preset=shampoo_2024", {"preset": "shampoo_2024"}), ("defaults", {})]
    if options.set:
        columns.append((" ".join(options.set), dict(text.split("=", 1) for text in options.set)))
    print("| problem | rate | AdamW | " + " | ".join(f"{name} | µs per step" for name, _ in columns) + " | holds |")
    print("|---|---|---|" + "---|---|" * len(columns) + "---|")
    for name, maker, steps, has_matrix in PROBLEMS:
        if options.only not in name:
            continue
        rate = best_rate(maker, steps, options.seeds)
        adamw = mean(maker, steps, rate, AdamW, options.seeds)[0]
        cells = []
        for _, keys in columns:
            loss, seconds = mean(maker, steps, rate, library(keys), options.seeds)
            cells.append(f"{loss:.4g} | {seconds * 1e6:.0f}")
            if not keys:
                of_defaults = loss
        is_solved = max(of_defaults, adamw) < 1e-6 * maker(0).loss(maker(0).params)
        holds = is_solved or (of_defaults < adamw if has_matrix else of_defaults <= 1.01 * adamw)
        print(f"| {name} | {rate:.4g} | {adamw:.4g} | " + " | ".join(cells) + f" | {'yes' if holds else 'NO'} |", flush=True)


if __name__ == "__main__":
    main()
