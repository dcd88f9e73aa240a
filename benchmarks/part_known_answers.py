# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Part known_answers: problems whose answer is known. trainers/problems.h describes them."""
from __future__ import annotations

from typing import Any

import tuning
from context import Context, chosen, loss_of, mean
from methods import Method
from runner import Run

PART = "known_answers"
# Limits of the distance to the answer, relative to the distance at the start. A method passes if its distance is at
# most the limit with every seed.
TOLERANCES = {"kronecker": 0.1, "low_rank": 0.01, "rank_deficient": 0.01}
SCALE = "1e-6"  # factor of the gradients in the runs with scaled gradients
# A method passes with scaled gradients if its mean distance is at most SCALED_FACTOR times the mean distance without
# scaling.
SCALED_FACTOR = 1.1
OUTSIDE = 0.01  # largest allowed result of problem_outside() in trainers/problems.h


def make_run(context: Context, method: Method, problem: str, rate: float, seed: int, scale: str = "1") -> Run:
    """Return the run of a method on a problem."""
    steps = context.size.known_answers.steps
    arguments = (*method.arguments(rate, 0, 0), "--problem", problem, "--scale", scale,
                 "--steps", str(steps), "--seed", str(seed))  # fmt: skip
    return Run(PART, method.label, "solve_problem", arguments, (), seed, steps)


def solve(context: Context, method: Method) -> dict[str, Any]:
    """Make all runs of a method and return its results."""
    size, runner = context.size.known_answers, context.runner
    row: dict[str, Any] = {"name": method.name, "label": method.label, "options": method.options, "problems": {}}
    for problem, tolerance in TOLERANCES.items():

        def tuning_loss(rate: float, problem: str = problem) -> float:
            runs = [make_run(context, method, problem, rate, seed) for seed in size.tuning_seeds]
            return context.mean_loss(runs)

        search = tuning.search_rate(tuning_loss, method.usual_rate, size.tries, size.factor)
        results = runner.results([make_run(context, method, problem, search.rate, seed) for seed in size.seeds])
        distances = [loss_of(result) for result in results]
        row["problems"][problem] = {
            "rate": search.rate, "grid": search.losses, "is_at_end": search.is_at_end, "distances": distances,
            "passes": max(distances) <= tolerance,
        }  # fmt: skip
        if problem == "kronecker":
            runs = [make_run(context, method, problem, search.rate, seed, SCALE) for seed in size.seeds]
            scaled = [loss_of(result) for result in runner.results(runs)]
            row["problems"]["scaled"] = {"rate": search.rate, "distances": scaled,
                                         "passes": mean(scaled) <= SCALED_FACTOR * mean(distances)}  # fmt: skip
        if problem == "rank_deficient":
            outside = [float("inf") if result["outside"] is None else result["outside"] for result in results]
            row["problems"]["span"] = {"rate": search.rate, "distances": outside, "passes": max(outside) <= OUTSIDE}
    return row


def measure(context: Context) -> dict[str, Any]:
    """Make all runs and return the results."""
    size, runner = context.size.known_answers, context.runner
    methods = [method.alone for method in chosen(size.methods)]
    count = len(TOLERANCES) * (size.tries * len(size.tuning_seeds) + len(size.seeds)) + len(size.seeds)
    runs = [make_run(context, method, "kronecker", method.usual_rate, size.tuning_seeds[0]) for method in methods]
    runner.begin(PART, {method.label: count for method in methods}, runs)
    tolerances = {**TOLERANCES, "scaled": SCALED_FACTOR, "span": OUTSIDE}
    rows = [solve(context, method) for method in methods]
    return {**context.head(PART, size), "tolerances": tolerances, "methods": rows}
