# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of results of language_model.py."""
import json
import math
import pathlib
import statistics
from typing import Any


def read(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def label(run: dict[str, Any]) -> str:
    return " ".join([run["method"]] + [f"{name}={value}" for name, value in sorted(run["settings"].items())])


def losses(records: list[dict]) -> list[float]:
    return [record["result"].get("loss", math.inf) for record in records]


def row(records: list[dict], tuning: list[int]) -> list[Any]:
    """Returns the cells of a row, which summarizes runs that differ only in rate and seed.

    Chooses the rate whose runs with a seed in `tuning` have the lowest mean loss. If no run has such a seed, chooses
    the rate of the first record. The cells have the losses and the lowest times of the runs with this rate.
    """
    by_rate: dict[float, list[dict]] = {}
    for record in records:
        by_rate.setdefault(record["run"]["rate"], []).append(record)
    tuned = {rate: statistics.fmean(losses(found)) for rate, group in by_rate.items()
             if (found := [record for record in group if record["run"]["seed"] in tuning])}
    best = min(tuned, key=tuned.__getitem__) if tuned else next(iter(by_rate))
    unseen = [record for record in by_rate[best] if record["run"]["seed"] not in tuning]
    found = losses(unseen)
    timed = [record["result"] for record in by_rate[best] if "step_ms" in record["result"]]
    return [label(records[0]["run"]), records[0]["run"]["steps"], best,
            f"{tuned[best]:.4f}" if tuned else "", f"{statistics.fmean(found):.4f}" if found else "",
            f"{min(found):.3f} to {max(found):.3f} ({len(found)})" if found else "",
            *[f"{min(result[name] for result in timed):.1f}" if timed else ""
              for name in ("optimizer_ms", "optimizer_mean_ms", "step_ms")]]


def show(path: pathlib.Path, tuning: list[int]) -> None:
    configs: dict[str, list[dict]] = {}
    for record in read(path):
        run = {name: value for name, value in record["run"].items() if name not in ("rate", "seed")}
        configs.setdefault(json.dumps(run, sort_keys=True), []).append(record)
    rows = [row(records, tuning) for records in configs.values()]
    print("| method | steps | rate | loss, tuning seeds | loss, unseen seeds | range of losses (seeds) | "
          "optimizer, median ms | optimizer, mean ms | whole step, median ms |")
    print("|---|---|---|---|---|---|---|---|---|")
    for cells in sorted(rows, key=lambda cells: (cells[1], cells[4] or cells[3])):
        print("| " + " | ".join(str(cell) for cell in cells) + " |")
