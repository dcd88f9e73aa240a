# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the trainers of the benchmarks. It computes losses from its arguments with a formula.

Each run appends its arguments as a line to the file that the environment variable FAKE_LOG names. If FAKE_KILL_AFTER is
N, the run that writes the N-th line kills the benchmark.
"""
import json
import math
import os
import re
import signal
import sys
import time

# For each method, a number with two uses: the steps that the method needs relative to AdamW, and the milliseconds that
# an update takes. A slower method has a larger number.
SPEEDS = {"preset=adamw": 1.0, "preset=muon": 0.4, "preset=shampoo": 2.0}


def values(name: str) -> list[str]:
    """Return all values of an option."""
    return [sys.argv[i + 1] for i, word in enumerate(sys.argv) if word == name]


def result(options: str, steps: int, seed: int) -> dict:
    """Compute the result of a method."""
    rate = float(re.search(r"lr=([\d.e+-]+)", options).group(1))
    speed = SPEEDS.get(options.split()[0], 1.5)
    loss = 1 + 50 * speed / steps + 0.1 * math.log(rate / 0.005) ** 2 + 0.001 * (seed * 7919 % 13)
    return {"diverged": False, "steps": steps, "validation_loss": loss, "training_loss": loss, "accuracy": 1 / loss,
            "outside": 0.0, "state_bytes": 8, "update_ms": speed, "gradient_ms": 4.0, "curve": [[steps, loss]],
            "update_ms_of_steps": [speed] * steps}  # fmt: skip


def main() -> None:
    """Log the arguments, kill the benchmark if FAKE_KILL_AFTER requests it, and print the results."""
    with open(os.environ["FAKE_LOG"], "a+", encoding="utf-8") as log:
        log.write(json.dumps(sys.argv[1:]) + "\n")
        log.seek(0)
        count = len(log.readlines())
    if count == int(os.environ.get("FAKE_KILL_AFTER", "0")):
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(0.1)
    steps, seed = int((values("--steps") or ["6"])[0]), int(values("--seed")[0])
    methods = [result(options, steps, seed) for options in values("--optimizer")]
    if os.path.basename(sys.argv[0]) == "train_language_model":
        batches = [[int(batch), float(batch)] for batch in (values("--batches") or [""])[0].split(",") if batch]
        print(json.dumps({"version": "0", "parameters": 4, "methods": methods, "batches": batches}))
    else:
        print(json.dumps(methods[0]))


if __name__ == "__main__":
    main()
