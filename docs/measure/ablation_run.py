#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs the ablation of docs/ablation.md with the trainer of examples/c_conv, one run after another.

    python3 docs/measure/ablation_run.py --trainer build/c_conv/train_conv --results out/ablation.json

First, the script searches for the best learning rate of every configuration, with two seeds. Then it trains each
configuration with five other seeds. It stores every run in the file of results, so after an interruption,
the next call makes only the missing runs. Use --again after measuring on a busy machine: this option repeats the
training with the five seeds, and keeps the faster result of each run. Needs only Python 3.9.
ablation_table.py reads the file of results.
"""
import argparse
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import ablation_plan as plan

DIVERGED = 2  # exit status of train_conv


def environment() -> dict[str, str]:
    """Returns an environment in which OpenBLAS uses one thread and chooses the kernels for this CPU."""
    chosen = {name: value for name, value in os.environ.items()
              if name not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    return {**chosen, "OPENBLAS_NUM_THREADS": "1"}


def train(trainer: str, data: str, run: plan.Run) -> dict:
    """Returns whether the run diverged ("diverged"), and its evaluations ("looks"). An evaluation is a list: the step,
    the seconds spent so far on gradients, the seconds spent so far on updates, the training loss, the test accuracy.
    """
    with tempfile.TemporaryDirectory() as folder:
        numbers = pathlib.Path(folder, "run.csv")
        command = [trainer, "--data", data, "--csv", str(numbers), "--threads", "1"] + plan.arguments(run)
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
        if done.returncode not in (0, DIVERGED):
            sys.exit(f"{' '.join(command)}\nended with status {done.returncode}: {done.stderr.strip()}")
        with numbers.open(encoding="utf-8") as file:
            rows = list(csv.reader(file))[1:]
    return {"diverged": done.returncode == DIVERGED, "looks": [[int(row[0])] + [float(v) for v in row[1:]]
                                                              for row in rows]}


def faster(old: dict, new: dict) -> dict:
    """Returns the faster of two results of the same run. Exits if the results differ in more than the times."""
    if [look[3:] for look in old["looks"]] != [look[3:] for look in new["looks"]]:
        sys.exit("a repeated run has other losses or accuracies: use a new file for each libshampoo, BLAS and CPU")
    return min(old, new, key=lambda result: sum(result["looks"][-1][1:3]))


class Ablation:
    def __init__(self, options: argparse.Namespace):
        self.trainer, self.data = options.trainer, options.data
        self.path = pathlib.Path(options.results)
        self.results: dict[str, dict] = {}
        if self.path.exists():
            self.results = json.loads(self.path.read_text(encoding="utf-8"))
        self.made, self.start = 0, time.monotonic()

    def save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = self.path.with_suffix(".new")
        whole.write_text(json.dumps(self.results), encoding="utf-8")
        whole.replace(self.path)  # after an interruption, the file has all old or all new contents

    def make(self, run: plan.Run, left: int) -> None:
        result = train(self.trainer, self.data, run)
        if plan.key(run) in self.results and not result["diverged"]:
            result = faster(self.results[plan.key(run)], result)
        self.results[plan.key(run)] = result
        self.save()
        self.made += 1
        mean = (time.monotonic() - self.start) / self.made
        line = (f"about {left - 1} runs left, {mean * (left - 1) / 60:.1f} minutes; {run.config.label}, rate"
                f" {plan.rate_value(run.rate)}, seed {run.seed}: {plan.final_loss(result):.2g}")
        print(f"\r\033[K{line[:118]}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n",
              flush=True)

    def final_runs(self) -> list[plan.Run]:
        """Returns the runs with the best rates, ordered by seed, so that a temporary load of the machine slows all configurations."""
        rates = {config: plan.choose_rate(config, self.results)[0] for config in plan.CONFIGS}
        return [plan.Run(config, rates[config], seed) for seed in plan.SEEDS for config in plan.CONFIGS]

    def search(self) -> None:
        finals = len(plan.SEEDS) * len(plan.CONFIGS)
        while True:
            missing = [run for config in plan.CONFIGS for run in plan.choose_rate(config, self.results)[1]]
            if not missing:
                return
            for i, run in enumerate(missing):
                self.make(run, len(missing) - i + finals)

    def measure(self, again: bool) -> None:
        missing = [run for run in self.final_runs() if again or plan.key(run) not in self.results]
        for i, run in enumerate(missing):
            self.make(run, len(missing) - i)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--trainer", required=True, help="path of the program train_conv")
    parser.add_argument("--data", default=str(root / "examples/c_mlp/data/digits.bin"), help="file with the images")
    parser.add_argument("--results", required=True, help="JSON file with all runs; new runs are added")
    parser.add_argument("--again", action="store_true",
                        help="repeat the training with the five seeds, and keep the faster result of each run")
    options = parser.parse_args()
    ablation = Ablation(options)
    ablation.search()
    ablation.measure(options.again)
    print(f"\n{ablation.made} runs in {(time.monotonic() - ablation.start) / 60:.1f} minutes: {options.results}")


if __name__ == "__main__":
    main()
