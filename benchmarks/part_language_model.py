# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Part language_model: how many steps each method needs to reach the loss of AdamW."""
from __future__ import annotations

from typing import Any

import student
import tuning
from context import Context, chosen, loss_of, mean, single
from methods import Method
from runner import Run
from sizes import LanguageModel

PART = "language_model"


def model_arguments(size: LanguageModel) -> list[str]:
    """Return the arguments that set the sizes of model, batch and evaluation, and the number of threads."""
    names = ("batch", "context", "width", "heads", "layers", "windows", "threads")
    return [word for name in names for word in (f"--{name}", str(getattr(size, name)))]


def horizon_arguments(steps: int) -> list[str]:
    """Return the arguments for a training of `steps` steps. The first tenth of the steps is the warmup."""
    return ["--steps", str(steps), "--warmup", str(steps // 10)]


class Race:
    """The runs of this part. A horizon is the number of steps of a training, and T0 is the horizon `size.steps`.

    Some methods do not update all parameters. AdamW then updates the others, with the learning rate `rest_rate`.
    """

    def __init__(self, context: Context) -> None:
        self.context, self.size = context, context.size.language_model
        self.rest_rate = chosen(["adamw"])[0].usual_rate
        self.ladder = sorted({max(2, round(self.size.steps * part)) for part in self.size.ladder})

    def run(self, method: Method, rate: float, seed: int, steps: int, is_judging: bool) -> Run:
        """Return a run. Its validation files are those for judging if is_judging is true, or else those for tuning."""
        size, paths = self.size, self.context.corpus.paths
        arguments = [*method.arguments(rate, size.decay, self.rest_rate), *model_arguments(size),
                     *horizon_arguments(steps), "--seed", str(seed)]  # fmt: skip
        if is_judging:
            arguments += ["--every", str(max(1, steps // size.points))]
        files = (("--text", paths["training"]), ("--validation", paths["judging" if is_judging else "tuning"]))
        return Run(PART, method.label, "train_language_model", tuple(arguments), files, seed, steps)

    def tuning_loss(self, method: Method, rate: float, steps: int) -> float:
        """Return the mean loss of runs with the tuning seeds. The loss is measured on the tuning files."""
        runs = [self.run(method, rate, seed, steps, False) for seed in self.size.tuning_seeds]
        return self.context.mean_loss(runs)

    def judge(self, method: Method, rate: float, steps: int, seeds: tuple[int, ...]) -> list[dict[str, Any]]:
        """Return the results of runs with these seeds, measured on the judging files. Tuning uses other seeds."""
        return self.context.runner.results([self.run(method, rate, seed, steps, True) for seed in seeds])

    def most_runs(self, method: Method) -> int:
        """Return an upper bound on the number of runs of a method."""
        size = self.size
        count = size.tries * len(size.tuning_seeds)
        if method.name == "adamw":
            return count + len(size.target_seeds)
        # A method is judged at the horizon T0, and at up to three horizons from tuning.candidate_horizons().
        return count + tuning.most_horizon_runs(self.ladder) * len(size.tuning_seeds) + 4 * len(size.seeds)

    def begin(self) -> None:
        """Print for each method an upper bound on the number of runs, and the seconds of one run."""
        methods, runner = chosen(self.size.methods), self.context.runner
        runs = [self.run(method, method.usual_rate, self.size.tuning_seeds[0], self.size.steps, False)
                for method in methods]  # fmt: skip
        runner.begin(PART, {method.label: self.most_runs(method) for method in methods}, runs)


def tune(race: Race, method: Method) -> tuning.Search:
    """Search for the best learning rate at the horizon T0."""
    return tuning.search_rate(lambda rate: race.tuning_loss(method, rate, race.size.steps), method.usual_rate,
                              race.size.tries)  # fmt: skip


def losses_row(results: list[dict[str, Any]], steps: int, seeds: tuple[int, ...]) -> dict[str, Any]:
    """Return horizon and seeds of runs, the losses and loss curves in the order of the seeds, and the mean loss."""
    losses = [loss_of(result) for result in results]
    return {"steps": steps, "seeds": seeds, "losses": losses, "mean": mean(losses),
            "curves": [single(result)["curve"] for result in results]}  # fmt: skip


def method_row(method: Method, search: tuning.Search, race: Race) -> dict[str, Any]:
    """Return the entries of a method's row that describe the method and the search for its learning rate."""
    rest = method.arguments(0, race.size.decay, race.rest_rate)[3:]
    return {"name": method.name, "label": method.label, "options": method.options, "rest": "".join(rest),
            "rate": search.rate, "grid": search.losses, "is_at_end": search.is_at_end, "tries": len(search.losses)}


def compete(race: Race, method: Method, search: tuning.Search, tuning_target: float,
            baseline: list[float]) -> dict[str, Any]:  # fmt: skip
    """Return the row of a method, with the shortest candidate whose mean loss is significantly below the target.

    The candidates are the horizons from tuning.candidate_horizons(). The target is the mean of `baseline`, the losses
    of AdamW. `tuning_target` is AdamW's mean loss in tuning runs.
    """
    size, target = race.size, mean(baseline)
    row = method_row(method, search, race)
    found: dict[int, float] = {}

    def horizon_loss(steps: int) -> float:
        found[steps] = race.tuning_loss(method, search.rate, steps)
        return found[steps]

    candidates = tuning.candidate_horizons(horizon_loss, tuning_target, race.ladder)
    row["tuning_horizons"] = found
    row["at_t0"] = losses_row(race.judge(method, search.rate, size.steps, size.seeds), size.steps, size.seeds)
    row["horizons"], row["reached"] = [], None
    for steps in candidates:
        judged = losses_row(race.judge(method, search.rate, steps, size.seeds), steps, size.seeds)
        judged["p"] = student.p_below(judged["losses"], target)
        judged["p_welch"] = student.p_below_others(judged["losses"], baseline)
        row["horizons"].append(judged)
        if judged["p"] < 0.05:
            row["reached"] = steps
            break
    race.context.runner.progress.finish(method.label)
    return row


def measure(context: Context) -> dict[str, Any]:
    """Make all runs and return the results."""
    race = Race(context)
    race.begin()
    size = race.size
    methods = chosen(size.methods)
    adamw = methods[0]
    search = tune(race, adamw)
    race.rest_rate = search.rate
    judged = losses_row(race.judge(adamw, search.rate, size.steps, size.target_seeds), size.steps, size.target_seeds)
    rows = [{**method_row(adamw, search, race), "at_t0": judged, "horizons": [], "tuning_horizons": {},
             "reached": size.steps}]  # fmt: skip
    context.runner.progress.finish(adamw.label)
    for method in methods[1:]:
        rows.append(compete(race, method, tune(race, method), search.losses[search.rate], judged["losses"]))
    return {**context.head(PART, size), "text": context.corpus.description, "target": judged["mean"],
            "tuning_target": search.losses[search.rate], "horizons": race.ladder, "methods": rows}  # fmt: skip
