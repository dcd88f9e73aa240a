# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Part transfer: the best learning rate of Muon in models of several widths, for three rules that scale its updates."""
from __future__ import annotations

from typing import Any

import tuning
from context import Context
from methods import Method
from part_language_model import horizon_arguments, model_arguments
from runner import Run

PART = "transfer"
RULES = (
    Method("none", "shape_scale=none", "preset=muon shape_scale=none", 0.02, adamw_rest=True),
    Method("spectral", "shape_scale=spectral", "preset=muon shape_scale=spectral", 0.02, adamw_rest=True),
    Method("hyperball", "hyperball", "preset=muonh", 0.02, adamw_rest=True, decays=False),
)
HEAD_WIDTH = 32


def make_run(context: Context, rule: Method, width: int, rate: float, seed: int) -> Run:
    """Return the run of a rule at a width."""
    size, model, paths = context.size.transfer, context.size.language_model, context.corpus.paths
    model = model._replace(width=width, heads=max(1, width // HEAD_WIDTH))
    arguments = (*rule.arguments(rate, model.decay, size.rest_rate), *model_arguments(model),
                 *horizon_arguments(size.steps), "--seed", str(seed))  # fmt: skip
    files = (("--text", paths["training"]), ("--validation", paths["tuning"]))
    return Run(PART, label_of(rule, width), "train_language_model", arguments, files, seed, size.steps)


def label_of(rule: Method, width: int) -> str:
    """Return the name of a run in messages about progress."""
    return f"{rule.label}, width {width}"


def measure(context: Context) -> dict[str, Any]:
    """Make all runs and return the results."""
    size, runner, rows = context.size.transfer, context.runner, []
    pairs = [(rule, width) for rule in RULES for width in size.widths]
    runs = [make_run(context, rule, width, rule.usual_rate, size.seeds[0]) for rule, width in pairs]
    runner.begin(PART, {run.label: size.tries * len(size.seeds) for run in runs}, runs)
    for rule in RULES:
        searches = {}
        for width in size.widths:

            def loss(rate: float, rule: Method = rule, width: int = width) -> float:
                runs = [make_run(context, rule, width, rate, seed) for seed in size.seeds]
                return context.mean_loss(runs)

            searches[width] = tuning.search_rate(loss, rule.usual_rate, size.tries)
        rows.append({
            "name": rule.name, "label": rule.label, "options": rule.options,
            "widths": {
                width: {"rate": search.rate, "smooth_rate": tuning.smooth_best(search.losses), "grid": search.losses,
                        "is_at_end": search.is_at_end}
                for width, search in searches.items()
            },
        })  # fmt: skip
    return {**context.head(PART, size), "model": context.size.language_model._asdict(),
            "text": context.corpus.description, "rules": rows}  # fmt: skip
