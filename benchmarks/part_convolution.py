# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Part convolution: a convolutional network that learns from 300 digits and is tested on other digits."""
from __future__ import annotations

from typing import Any

import digits
import student
import tuning
from context import Context, chosen, loss_of
from methods import Method
from runner import Run

PART = "convolution"


class Contest:
    """The runs of this part. `rest_rate` is the learning rate of AdamW in methods whose `adamw_rest` is true."""

    def __init__(self, context: Context) -> None:
        self.context, self.size = context, context.size.convolution
        self.paths = digits.write_parts(context.data / "digits")
        self.rest_rate = chosen(["adamw"])[0].usual_rate

    def run(self, method: Method, rate: float, seed: int, is_judging: bool) -> Run:
        """Return a run. If is_judging is true, the test images are those for judging, otherwise those for tuning."""
        size = self.size
        arguments = (*method.arguments(rate, size.decay, self.rest_rate), "--epochs", str(size.epochs), "--batch",
                     str(size.batch), "--seed", str(seed))  # fmt: skip
        files = (("--data", self.paths["judging" if is_judging else "tuning"]),)
        steps = size.epochs * (digits.TRAINING // size.batch)
        return Run(PART, method.label, "train_convolution", arguments, files, seed, steps)

    def tuning_loss(self, method: Method, rate: float) -> float:
        """Return the mean loss of runs with the tuning seeds. The loss is measured on the images for tuning."""
        runs = [self.run(method, rate, seed, False) for seed in self.size.tuning_seeds]
        return self.context.mean_loss(runs)

    def begin(self) -> None:
        """Print for each method an upper bound on the number of runs, and the seconds of one run."""
        size, runner = self.size, self.context.runner
        methods = chosen(size.methods)
        count = size.tries * len(size.tuning_seeds) + len(size.seeds)
        runs = [self.run(method, method.usual_rate, size.tuning_seeds[0], False) for method in methods]
        runner.begin(PART, {method.label: count for method in methods}, runs)


def measure(context: Context) -> dict[str, Any]:
    """Make all runs and return the results."""
    contest = Contest(context)
    contest.begin()
    size, rows = contest.size, []
    for method in chosen(size.methods):

        def loss(rate: float, method: Method = method) -> float:
            return contest.tuning_loss(method, rate)

        search = tuning.search_rate(loss, method.usual_rate, size.tries, size.factor)
        if method.name == "adamw":
            contest.rest_rate = search.rate
        results = context.runner.results([contest.run(method, search.rate, seed, True) for seed in size.seeds])
        rows.append({
            "name": method.name, "label": method.label, "options": method.options,
            "rest": "".join(method.arguments(0, size.decay, contest.rest_rate)[3:]), "rate": search.rate,
            "grid": search.losses, "is_at_end": search.is_at_end, "tries": len(search.losses),
            "losses": [loss_of(result) for result in results],
            "errors": [100 * (1 - result["accuracy"]) if loss_of(result) < float("inf") else 100 for result in results],
            "training_losses": [result["training_loss"] for result in results],
            "state_bytes": results[0]["state_bytes"],
        })  # fmt: skip
        rows[-1]["p_welch"] = student.p_below_others(rows[-1]["errors"], rows[0]["errors"])
        context.runner.progress.finish(method.label)
    counts = {"training": digits.TRAINING, "tuning": digits.TUNING,
              "judging": len(digits.read_images()) - digits.TRAINING - digits.TUNING}  # fmt: skip
    return {**context.head(PART, size), "images": counts, "methods": rows}
