# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Part `cost`: the time of a step with each method. In each run, all methods train, and take turns step by step."""
from __future__ import annotations

import statistics
from typing import Any

from context import Context, chosen
from part_language_model import horizon_arguments, model_arguments
from runner import Run

PART = "cost"
LABEL = "all methods"


def make_run(context: Context, seed: int) -> Run:
    """Return a run in which all methods take turns step by step."""
    size, model, paths = context.size.cost, context.size.language_model, context.corpus.paths
    methods = chosen(size.methods)
    optimizers = [word for method in methods
                  for word in method.arguments(method.usual_rate, model.decay, methods[0].usual_rate)]  # fmt: skip
    arguments = (*optimizers, *model_arguments(model), *horizon_arguments(size.steps), "--times", "--batches",
                 ",".join(map(str, size.batches)), "--seed", str(seed))  # fmt: skip
    files = (("--text", paths["training"]), ("--validation", paths["tuning"]))
    return Run(PART, LABEL, "train_language_model", arguments, files, seed, size.steps)


def medians(columns: list[list[float]]) -> list[float]:
    """Return, for each index, the median of the numbers at this index in several lists of the same length."""
    return [round(statistics.median(values), 4) for values in zip(*columns)]


def measure(context: Context) -> dict[str, Any]:
    """Make all runs and return the results."""
    size, model, runner = context.size.cost, context.size.language_model, context.runner
    runs = [make_run(context, seed) for seed in size.seeds]
    runner.progress.begin(PART, {LABEL: len(runs)}, {LABEL: runner.seconds_of(runs[0])})
    results = [runner.result(run) for run in runs]
    rows = []
    for index, method in enumerate(chosen(size.methods)):
        found = [result["methods"][index] for result in results]
        updates = medians([one["update_ms_of_steps"] for one in found])
        rows.append({
            "name": method.name, "label": method.label, "options": method.options,
            "update_ms": statistics.fmean(updates) if updates else None, "update_ms_of_steps": updates,
            "update_ms_of_runs": [one["update_ms"] for one in found], "state_bytes": found[0]["state_bytes"],
        })  # fmt: skip
    gradients = [[batch, statistics.median(result["batches"][i][1] for result in results)]
                 for i, batch in enumerate(size.batches)]  # fmt: skip
    return {**context.head(PART, size), "model": model._asdict(), "parameters": results[0]["parameters"],
            "text": context.corpus.description, "gradients_ms": gradients,
            "gradient_ms": statistics.median(one["gradient_ms"] for result in results for one in result["methods"]),
            "methods": rows}  # fmt: skip
