#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares AdamW with libshampoo at low learning rates, on a network 64-128-64-10 for handwritten digits.

    python3 docs/measure/low_rates.py [--seeds 3] [--steps 300] [--rates 0.001 0.003 0.01 0.03]

Prints a table of training losses after the last step, averaged over the seeds. The learning rate is constant. Batches
have 128 images. Rows marked "full" use all training images in each step. Needs NumPy and this library's package.
"""
from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from defaults import AdamW, Step, library
from defaults_problems import EXAMPLES, Params, Problem, digits, network

BATCH = 128
COLUMNS: list[tuple[str, dict[str, Any]]] = [
    ("defaults", {}),
    ("`root_relative_epsilon=1e-2`", {"root_relative_epsilon": 1e-2}),
    ("`inverse_root_override=4`", {"inverse_root_override": 4}),
]


def problem(seed: int, steps: int, is_full: bool) -> Problem:
    images, labels = digits.load_digits(str(EXAMPLES / "c_mlp" / "data" / "digits.bin"))
    images, labels = images[:digits.TRAIN], labels[:digits.TRAIN]
    order = np.random.default_rng(seed)
    batches: list[np.ndarray] = []
    while len(batches) < steps:
        shuffled = order.permutation(len(images))
        batches += [shuffled] if is_full else np.split(shuffled[: len(images) // BATCH * BATCH], len(images) // BATCH)

    def gradient(params: Params, step: int) -> Params:
        return network.gradient(params, images[batches[step]], labels[batches[step]])[1]

    return Problem(network.make(seed), gradient, lambda params: network.evaluate(params, images, labels)[0])


def final_loss(made: Problem, steps: int, rate: float, make: Callable[[Params], Step]) -> float:
    step_of = make(made.params)
    for step in range(steps):
        step_of(made.gradient(made.params, step), rate)
    return made.loss(made.params)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rates", type=float, nargs="+", default=[0.001, 0.003, 0.01, 0.03])
    options = parser.parse_args()
    print("| batch | rate | AdamW | " + " | ".join(name for name, _ in COLUMNS) + " |")
    print("|---|---|---|" + "---|" * len(COLUMNS))
    for batch, is_full in ((str(BATCH), False), ("full", True)):
        for rate in options.rates:
            methods = [AdamW] + [library(keys) for _, keys in COLUMNS]
            losses = []
            for make in methods:
                runs = [final_loss(problem(seed, options.steps, is_full), options.steps, rate, make)
                        for seed in range(options.seeds)]  # fmt: skip
                losses.append(float(np.mean(runs)))
            print(f"| {batch} | {rate:g} | " + " | ".join(f"{loss:.3g}" for loss in losses) + " |", flush=True)


if __name__ == "__main__":
    main()
