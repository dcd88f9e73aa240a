# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs trainers (programs that train a model) in parallel. Runs that are in the store (store.py) are not repeated."""
from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import machine
from store import Store

# Environment variables that a run does not inherit, because they change the kernels or the threads of the BLAS.
LEFT_OUT = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS")

SHORT = 5.0  # seconds; if the estimated time of a run is not above SHORT, the time is measured instead


class Run(NamedTuple):
    """The description of a run of a trainer."""

    part: str  # part of the benchmarks, such as "language_model"
    label: str  # name of the method in messages and in the store
    program: str
    arguments: tuple[str, ...]
    files: tuple[tuple[str, Path], ...]  # options whose values are files
    seed: int
    steps: int

    @property
    def threads(self) -> int:
        """Return the number of threads of the run."""
        return int(self.arguments[self.arguments.index("--threads") + 1]) if "--threads" in self.arguments else 1

    def shortened(self, steps: int) -> Run:
        """Return the same run with fewer steps. If the trainer has no option --steps, the run still makes all steps."""
        arguments = list(self.arguments)
        if "--steps" in arguments:
            arguments[arguments.index("--steps") + 1] = str(steps)
        if "--warmup" in arguments:
            arguments[arguments.index("--warmup") + 1] = str(min(1, steps - 1))
        return self._replace(arguments=tuple(arguments), steps=steps)


def duration(seconds: float) -> str:
    """Return a duration as text."""
    if seconds < 99.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


class OnlyBudgetError(Exception):
    """Raised after the budget of a part was printed, if only budgets are requested."""


class Progress:
    """Counts runs and estimates the remaining time."""

    def __init__(self, only_budget: bool = False) -> None:
        self.only_budget = only_budget
        self.part = ""
        self.left: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.measured: dict[str, list[float]] = {}
        self.done = self.total = 0
        self.at_once = 1

    def begin(self, part: str, counts: dict[str, int], seconds: dict[str, float], at_once: int = 1) -> None:
        """Start a part and print its budget.

        counts: an upper bound on the number of runs of each label. seconds: the time of one run of each label. at_once:
        the number of runs that are made in parallel.
        """
        self.part, self.left, self.seconds, self.at_once = part, dict(counts), dict(seconds), at_once
        self.done, self.total, self.measured = 0, sum(counts.values()), {}
        print(f"\n{part}: at most {self.total} runs, {duration(self.remaining())}")
        for label, count in counts.items():
            print(f"  {label:<32} {count:>4} runs of {duration(seconds[label])}")
        sys.stdout.flush()
        if self.only_budget:
            raise OnlyBudgetError

    def remaining(self) -> float:
        """Return an upper bound on the remaining time in seconds: the time if no remaining run is in the store."""
        return sum(count * self.seconds[label] for label, count in self.left.items()) / self.at_once

    def count(self, label: str, seconds: float | None = None) -> None:
        """Count a finished run.

        If the run was not in the store, pass its seconds. The mean of all such seconds replaces the estimate.
        """
        self.done += 1
        self.left[label] = max(self.left.get(label, 0) - 1, 0)
        if seconds is not None:
            self.measured.setdefault(label, []).append(seconds)
            self.seconds[label] = sum(self.measured[label]) / len(self.measured[label])

    def finish(self, label: str) -> None:
        """Record that the method with this label needs no more runs."""
        self.left[label] = 0

    def show(self, text: str) -> None:
        """Print a line about a run. On a terminal, the line replaces the previous line."""
        line = f"[{self.part} {self.done}/{self.total}] {text}; at most {duration(self.remaining())} left"
        if sys.stdout.isatty():
            print(f"\r\033[K{line[:118]}", end="", flush=True)
        else:
            print(line, flush=True)


class Runner:
    """Makes runs and stores them."""

    def __init__(self, trainers: Path, store: Store, only_budget: bool = False) -> None:
        self.trainers, self.store, self.progress = trainers, store, Progress(only_budget)
        self.commit, self.processor = machine.commit(), machine.processor()
        self.hashes: dict[Path, str] = {}
        self.lock = threading.Lock()

    def hash_of(self, path: Path) -> str:
        """Return a hash of a file."""
        if path not in self.hashes:
            self.hashes[path] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        return self.hashes[path]

    def settings(self, run: Run) -> dict[str, Any]:
        """Return everything on which the result of a run depends."""
        return {
            "part": run.part, "method": run.label, "program": run.program, "arguments": list(run.arguments),
            "files": {option: self.hash_of(path) for option, path in run.files}, "seed": run.seed, "steps": run.steps,
            "commit": self.commit, "processor": self.processor,
        }  # fmt: skip

    def execute(self, run: Run) -> tuple[dict[str, Any], float]:
        """Make a run. Return its result and its time in seconds."""
        command = [str(self.trainers / run.program), *run.arguments]
        for option, path in run.files:
            command += [option, str(path)]
        environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        start = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            quoted = " ".join(f"'{word}'" if " " in word else word for word in command)
            raise SystemExit(f"\n{quoted}\nended with status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout), time.monotonic() - start

    def record(self, run: Run) -> dict[str, Any]:
        """Return the record of a run. If it is not in the store, make the run first."""
        settings = self.settings(run)
        found = self.store.find(settings)
        if found is None:
            finished = self.execute(run)
            with self.lock:
                found = self.store.add(settings, *finished)
        return found

    def begin(self, part: str, counts: dict[str, int], runs: Sequence[Run]) -> None:
        """Start a part and print its budget.

        counts: an upper bound on the number of runs of each label. runs: one run of each label.
        """
        self.progress.begin(part, counts, {run.label: self.seconds_of(run) for run in runs},
                            self.at_once(runs[0]))  # fmt: skip

    def result(self, run: Run) -> dict[str, Any]:
        """Return the result of a run and count the run. If the run is not in the store, make it first."""
        is_new = self.store.find(self.settings(run)) is None
        record = self.record(run)
        result: dict[str, Any] = record["result"]
        with self.lock:
            self.progress.count(run.label, record["seconds"] if is_new else None)
            if is_new:
                loss = result.get("validation_loss", result.get("methods", [{}])[0].get("validation_loss"))
                shown = "" if loss is None else f": {loss:.5g}"
                steps = f", {run.steps} steps" if run.steps else ""
                self.progress.show(f"{run.label}, seed {run.seed}{steps}{shown}, {duration(record['seconds'])}")
        return result

    def results(self, runs: Sequence[Run]) -> list[dict[str, Any]]:
        """Return the results of runs. Make the runs that are not in the store, in parallel."""
        with ThreadPoolExecutor(self.at_once(runs[0])) as pool:
            return list(pool.map(self.result, runs))

    @staticmethod
    def at_once(run: Run) -> int:
        """Return how many such runs can be made in parallel if each of their threads has its own core."""
        return max(1, machine.processor_count() // run.threads)

    def seconds_of(self, run: Run, fraction: float = 0.1) -> float:
        """Return the seconds of a run: estimated if the run is long and new, otherwise measured.

        If the run is not in the store and its trainer has the option --steps, two shorter runs give an estimate. An
        estimate above SHORT is returned. A smaller estimate is not used, because starting the trainer takes most of a
        short run. In all other cases, the function makes the run if it is not in the store, and returns its measured
        seconds.
        """
        if self.store.find(self.settings(run)) is None and "--steps" in run.arguments:
            few, more = run.shortened(2), run.shortened(max(4, round(run.steps * fraction)))
            start, later = (float(self.record(short)["seconds"]) for short in (few, more))
            estimate = start + max(later - start, 0) * (run.steps - few.steps) / (more.steps - few.steps)
            if estimate > SHORT:
                return estimate
        return float(self.record(run)["seconds"])

    def repeat(self, part: str, files: Sequence[Path], count: int) -> int:
        """Repeat at most `count` stored runs of a part.

        Choose only runs of the current commit and processor whose files are all in `files`. Return the number of runs
        whose new losses differ from the stored losses.
        """
        known = {self.hash_of(path): path for path in files}
        records = [
            record for record in self.store.records.values()
            if record["settings"]["part"] == part and record["settings"]["commit"] == self.commit
            and record["settings"]["processor"] == self.processor
            and all(digest in known for digest in record["settings"]["files"].values())
        ]  # fmt: skip
        step = max(1, len(records) // count)
        failures = 0
        for record in records[::step][:count]:
            kept = record["settings"]
            run = Run(part, kept["method"], kept["program"], tuple(kept["arguments"]),
                      tuple((option, known[digest]) for option, digest in kept["files"].items()), kept["seed"],
                      kept["steps"])  # fmt: skip
            new = losses(self.execute(run)[0])
            same = new == losses(record["result"])
            failures += not same
            found = "the losses of the stored run" if same else "LOSSES DIFFER FROM THE STORED RUN"
            print(f"{part}: {run.label}, seed {run.seed}: {found}", flush=True)
        return failures


def losses(result: dict[str, Any]) -> list[Any]:
    """Return the losses, accuracies and curves of a result, without its times."""
    found = [result.get(name) for name in ("validation_loss", "training_loss", "accuracy", "outside", "curve")]
    return found + [losses(method) for method in result.get("methods", [])]
