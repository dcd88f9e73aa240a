# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures the speedup if several optimizers run in Python threads at the same time instead of one after another.

    PYTHONPATH=build/release/bindings/python python3 tools/bench/python_threads.py [--size N] [--steps N] [--threads N]

--threads is the number of optimizers, and of Python threads. Each optimizer computes only on the thread that calls it
(key threads=1). If steps held the GIL, the speedup would be 1.0.
"""
from __future__ import annotations

import argparse
import threading
import time

import numpy as np

import libshampoo


def main() -> None:
    """Time the optimizers one after another and at the same time, and print the speedup."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256, help="rows and columns of each parameter")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    random = np.random.default_rng(1)
    grad = random.standard_normal((options.size, options.size)).astype(np.float32)
    opts = [
        libshampoo.Optimizer([np.zeros_like(grad)], lr=0.01, grafting="adam", threads=1, precondition_frequency=5)
        for _ in range(options.threads)
    ]
    for opt in opts:
        opt.bind(grads=[grad])
        opt.step()

    def train(opt: libshampoo.Optimizer) -> None:
        for _ in range(options.steps):
            opt.step()

    begin = time.perf_counter()
    for opt in opts:
        train(opt)
    one_by_one = time.perf_counter() - begin
    threads = [threading.Thread(target=train, args=(opt,)) for opt in opts]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    at_once = time.perf_counter() - begin
    print(f"{options.threads} optimizers, {options.steps} steps of {options.size}x{options.size} each: one by one "
          f"{one_by_one:.3f} s, at once {at_once:.3f} s, {one_by_one / at_once:.2f} times as fast")  # fmt: skip


if __name__ == "__main__":
    main()
