#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes the table and the picture of docs/ablation.md from the results of ablation_run.py.

python3 docs/measure/ablation_table.py out/ablation.json --svg docs/ablation_results.svg
"""
import argparse
import json
import math
import pathlib
import statistics
import sys
from collections.abc import Callable
from typing import NamedTuple

import ablation_chart
import ablation_plan as plan

NEVER = math.inf


class Row(NamedTuple):
    config: plan.Config
    rate: int
    losses: list[float]  # by seed
    accuracies: list[float]  # by seed
    steps: dict[float, list[float]]  # steps to reach each target loss, by target loss and seed
    milliseconds: float  # mean time of a step (gradient and optimizer) in the fastest run

    def seconds(self, target: float) -> list[float]:
        """Returns the seconds to a target loss for each seed. Uses the mean time of a step in the fastest run for all
        seeds, because other load on the machine only makes steps longer.
        """
        return [steps * self.milliseconds / 1e3 for steps in self.steps[target]]


def first_below(result: dict, target: float) -> float:
    """Returns the first step at which the measured training loss was at or below the target."""
    return next((look[0] for look in result["looks"] if look[3] <= target), NEVER)


def step_milliseconds(result: dict) -> float:
    step, gradient_seconds, update_seconds = result["looks"][-1][:3]
    return 1e3 * (gradient_seconds + update_seconds) / step


def make_row(config: plan.Config, results: dict[str, dict], targets: list[float]) -> Row:
    rate, missing = plan.choose_rate(config, results)
    runs = [plan.Run(config, rate, seed) for seed in plan.SEEDS]
    if missing or any(plan.key(run) not in results for run in runs):
        sys.exit(f"{config.label}: runs are missing; start ablation_run.py again")
    found = [results[plan.key(run)] for run in runs]
    return Row(config, rate, [plan.final_loss(result) for result in found],
               [100 * result["looks"][-1][4] for result in found],
               {target: [first_below(result, target) for result in found] for target in targets},
               min(step_milliseconds(result) for result in found if not result["diverged"]))


def spread(values: list[float], show: Callable[[float], str], infinite: str = "never") -> str:
    least, median, most = (show(v) if math.isfinite(v) else infinite
                           for v in (min(values), statistics.median(values), max(values)))
    return f"{median} ({least}, {most})" if math.isfinite(min(values)) else infinite


def markdown(rows: list[Row], targets: list[float]) -> list[str]:
    heads = ["configuration", "learning rate", "final training loss", "test accuracy in %", "ms of a step"]
    for target in targets:
        heads += [f"steps to {target:g}", "seconds"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [row.config.label, f"{float(plan.rate_value(row.rate)):.2g}",
                 spread(row.losses, lambda v: f"{v:.2g}", "diverged"), spread(row.accuracies, lambda v: f"{v:.1f}"),
                 f"{row.milliseconds:.1f}"]
        for target in targets:
            seconds = statistics.median(row.seconds(target))
            cells += [spread(row.steps[target], lambda v: f"{v:.0f}"), f"{seconds:.2f}" if seconds < NEVER else "never"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", help="JSON of ablation_run.py")
    parser.add_argument("--targets", type=float, nargs="+", default=[0.1, 0.02],
                        help="training losses to be reached (default: 0.1 0.02)")
    parser.add_argument("--svg", help="also draw a picture into this file")
    options = parser.parse_args()
    results = json.loads(pathlib.Path(options.results).read_text(encoding="utf-8"))
    rows = [make_row(config, results, options.targets) for config in plan.CONFIGS]
    print("\n".join(markdown(rows, options.targets)))
    if options.svg:
        last = options.targets[-1]
        panels = [ablation_chart.Panel("final training loss", [row.losses for row in rows], True)]
        panels += [ablation_chart.Panel(f"steps to loss {target:g}", [row.steps[target] for row in rows])
                   for target in options.targets]
        panels.append(ablation_chart.Panel(f"seconds to loss {last:g}", [row.seconds(last) for row in rows]))
        ablation_chart.write(options.svg, [row.config for row in rows], panels,
                             title="A small convolutional network: SGD, AdamW, and Shampoo with different settings",
                             note=f"a bar: least to largest of {len(plan.SEEDS)} seeds; a line across it: the median;"
                             " an arrow: not reached, or beyond the axis; dashed: the median of the base")


if __name__ == "__main__":
    main()
