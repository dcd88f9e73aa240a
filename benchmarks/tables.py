# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes the Markdown tables of the benchmarks from their JSON."""
from __future__ import annotations

import math
import statistics
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import costs
import student

Summary = dict[str, Any]
PROBLEMS = {
    "kronecker": "Kronecker least squares", "scaled": "Kronecker least squares, gradients times 1e-6",
    "low_rank": "low rank", "rank_deficient": "rank-deficient gradients",
    "span": "movement outside of the span of the gradients",
}  # fmt: skip
RATE_HEAD = "best learning rate (rates tried)"


def number(value: float | None, digits: str = ".4f") -> str:
    """Return a number as text, or "diverged" if it is None or not finite."""
    return "diverged" if value is None or not math.isfinite(value) else format(value, digits)


def spread(values: Sequence[float | None], digits: str = ".4f") -> str:
    """Return the mean, the least and the largest value, or the number of values that are None (diverged runs)."""
    if any(value is None for value in values):
        return f"diverged in {sum(value is None for value in values)} of {len(values)}"
    known = [value for value in values if value is not None]
    return f"{statistics.fmean(known):{digits}} ({min(known):{digits}} to {max(known):{digits}})"


def with_interval(values: Sequence[float | None], digits: str = ".4f") -> str:
    """Return the mean with its 95 % confidence interval, and the least and the largest value."""
    known = [value for value in values if value is not None]
    mean, separator, rest = spread(values, digits).partition(" (")
    return f"{mean} ± {student.half_interval(known):{digits}} ({rest}" if separator else mean


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def with_notes(content: str, notes: Sequence[str]) -> str:
    """Return a table with notes below it."""
    return content + "\n\n" + textwrap.fill(" ".join(notes), 120, break_long_words=False, break_on_hyphens=False)


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds as text, such as "1 to 10"."""
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def origin(summary: Summary) -> str:
    """Return the sentence that says how the numbers of a table were made."""
    size = "" if summary["size"] == "full" else f", with the sizes of --{summary['size']}, too small for any conclusion"
    return (f"Made by `{summary['command']}` on {summary['processors']} processors ({summary['processor']}), commit "
            f"{summary['commit']}{size}.")  # fmt: skip


def grid_text(row: Summary) -> str:
    """Return the chosen learning rate, the number of rates that were tried, and their range."""
    rates = sorted(map(float, row["grid"]))
    mark = ", at an end" if row["is_at_end"] else ""
    return f"{row['rate']:g}{mark} ({len(rates)}, from {rates[0]:g} to {rates[-1]:g})"


def tuning_runs(row: Summary, seeds: Sequence[int], steps: int = 0) -> int:
    """Return the number of tuning runs of a method, for its learning rate and for its horizons (numbers of steps).

    The learning rate was tuned with runs of `steps` steps. These runs are not counted again for the horizon `steps`.
    """
    horizons = {int(horizon) for horizon in row.get("tuning_horizons", {})} - {steps}
    return (len(row["grid"]) + len(horizons)) * len(seeds)


def judging_runs(row: Summary) -> int:
    """Return the number of judging runs of a method, which give the results. Tuning runs have other seeds."""
    return sum({one["steps"]: len(one["seeds"]) for one in [row["at_t0"], *row["horizons"]]}.values())


def text_line(text: Summary) -> str:
    """Return the source of the text, and the size and the hash of each part."""
    parts = "; ".join(f"{name}: {text[name]['files']} files, {text[name]['bytes']} bytes, {text[name]['sha256']}"
                      for name in ("training", "tuning", "judging"))  # fmt: skip
    return (f"The text of the language model consists of {text['source']}. The parts of this text and the first digits "
            f"of their SHA-256: {parts}.")  # fmt: skip


def language_model(summary: Summary, others: dict[str, Summary]) -> str:
    """Return the table of the part language_model."""
    settings, cost = summary["settings"], others.get("cost")
    rows: list[list[str]] = []
    base = summary["methods"][0]
    base_seconds = costs.seconds(cost, base["name"], base["reached"]) if cost else None
    for row in summary["methods"]:
        reached = row["reached"]
        seconds = costs.seconds(cost, row["name"], reached) if cost and reached else None
        if row is base:
            steps, p = f"{reached}, the target", ""
        elif reached:
            judged = row["horizons"][-1]
            steps, p = f"{reached} ({reached / base['reached']:.2f})", f"{judged['p']:.2g}, {judged['p_welch']:.2g}"
        else:
            steps = "not reached"
            p = ", ".join(f"{one['p']:.2g} at {one['steps']}" for one in row["horizons"])
        shown = f"{seconds:.1f} ({seconds / base_seconds:.2f})" if seconds and base_seconds else ""
        tuned = tuning_runs(row, settings["tuning_seeds"], settings["steps"])
        rows.append([row["label"], with_interval(row["at_t0"]["losses"]), steps, p, shown, grid_text(row),
                     f"{tuned} + {judging_runs(row)}"])  # fmt: skip
    heads = ["method", f"loss after {settings['steps']} steps: mean ± 95 % interval (least to largest)",
             "steps to the target (relative to AdamW)", "p of the t-test, p of Welch's test",
             "seconds to the target (relative to AdamW)", RATE_HEAD, "runs: tuning + judging"]  # fmt: skip
    timed = (f"Seconds are the sum of the times of the steps to the target. `{cost['command']}` measured these times "
             f"on {cost['processor']}, commit {cost['commit']}."
             if cost else "To add seconds, run `bash benchmarks/run.sh cost`.")  # fmt: skip
    notes = [
        origin(summary),
        f"The target is {summary['target']:.4f}, the mean loss of AdamW with the seeds "
        f"{seeds_text(settings['target_seeds'])}. All methods are tuned with the seeds "
        f"{seeds_text(settings['tuning_seeds'])}. Methods other than AdamW are judged with the seeds "
        f"{seeds_text(settings['seeds'])}. The horizons (numbers of steps of a training run) are "
        f"{', '.join(map(str, summary['horizons']))}. The steps to the target are the first horizon at "
        f"which the t-test shows, with p < 0.05, that the mean loss is below the target. Both tests are one-sided. The "
        f"t-test treats the target as exact. Welch's test also includes the spread of AdamW's seeds.",
        timed, text_line(summary["text"]),
    ]  # fmt: skip
    return with_notes(table(heads, rows), notes)


def convolution(summary: Summary, others: dict[str, Summary]) -> str:
    """Return the table of the part convolution."""
    del others
    settings, images = summary["settings"], summary["images"]
    rows = [[row["label"], spread(row["errors"], ".2f"), "" if index == 0 else f"{row['p_welch']:.2g}",
             spread(row["losses"]), spread(row["training_losses"], ".2g"), grid_text(row),
             f"{tuning_runs(row, settings['tuning_seeds'])} + {len(row['losses'])}"]
            for index, row in enumerate(summary["methods"])]  # fmt: skip
    heads = ["method", "test error in %: mean (least to largest)", "p-value (error below AdamW's)", "test loss",
             "training loss", RATE_HEAD, "runs: tuning + judging"]  # fmt: skip
    note = (f"The network is trained on {images['training']} images. Learning rates are tuned on {images['tuning']} "
            f"other images, with the seeds {seeds_text(settings['tuning_seeds'])}. The results are those of another "
            f"{images['judging']} images, with the seeds {seeds_text(settings['seeds'])}. p is computed by Welch's "
            f"one-sided test.")  # fmt: skip
    return with_notes(table(heads, rows), [origin(summary), note])


def transfer(summary: Summary, others: dict[str, Summary]) -> str:
    """Return the table of the part transfer."""
    del others
    settings = summary["settings"]
    rows = []
    for rule in summary["rules"]:
        rates = [one["smooth_rate"] for one in rule["widths"].values()]
        tried = [float(rate) for one in rule["widths"].values() for rate in one["grid"]]
        rows.append([rule["label"], *[f"{one['smooth_rate']:.3g}{' (end of the grid)' if one['is_at_end'] else ''}"
                                      for one in rule["widths"].values()],
                     f"{max(rates) / min(rates):.2f}", f"{min(tried):g} to {max(tried):g}",
                     str(sum(tuning_runs(one, settings["seeds"]) for one in rule["widths"].values()))])  # fmt: skip
    heads = ["Muon with", *[f"width {width}" for width in settings["widths"]], "largest / smallest", "rates tried",
             "runs"]  # fmt: skip
    note = (f"The table shows the best learning rates for {settings['steps']} steps. For each width, "
            f"{settings['tries']} rates were tried. The column \"rates tried\" shows the smallest and the largest rate "
            "of all widths. Each best rate is at the minimum of a parabola through the losses of three rates: the best "
            "of the rates that were tried, and its two neighbors in the grid. Losses are means over the seeds "
            f"{seeds_text(settings['seeds'])}. AdamW updates embeddings, output layer and vectors with the learning "
            f"rate {settings['rest_rate']:g}.")  # fmt: skip
    return with_notes(table(heads, rows), [origin(summary), note])


def known_answers(summary: Summary, others: dict[str, Summary]) -> str:
    """Return the table of the part known_answers."""
    del others
    settings, limits = summary["settings"], summary["tolerances"]

    def cell(found: Summary) -> str:
        worst = None if None in found["distances"] else max(found["distances"])
        return f"{'pass' if found['passes'] else '**fail**'}, {number(worst, '.2g')}"

    rows = []
    for row in summary["methods"]:
        tuned = [found for found in row["problems"].values() if "grid" in found]
        judged = sum(len(found["distances"]) for name, found in row["problems"].items() if name != "span")
        rows.append([row["label"], *[cell(row["problems"][name]) for name in PROBLEMS],
                     "; ".join(grid_text(found) for found in tuned),
                     f"{sum(tuning_runs(one, settings['tuning_seeds']) for one in tuned)} + {judged}"])  # fmt: skip
    heads = ["method", *PROBLEMS.values(), "best rates of the three problems (rates tried)", "runs: tuning + judging"]
    note = (f"Each number is the largest of the runs with the seeds {seeds_text(settings['seeds'])}. The first four "
            f"numbers are distances to the answer, relative to the distance at the start. The fourth number measures "
            f"only the part of the distance that is in the span of the gradients. The fifth number is the share of the "
            f"movement of the parameters that is outside of this span, in the runs of the fourth number. The limits "
            f"are {limits['kronecker']:g} for the first number, {limits['low_rank']:g} for the third, "
            f"{limits['rank_deficient']:g} for the fourth and {limits['span']:g} for the fifth. With scaled "
            f"gradients (second number), a method passes if its mean distance over the seeds is at most "
            f"{limits['scaled']:g} times its mean distance without scaling. For each problem, {settings['tries']} "
            f"learning rates are tried with the seeds {seeds_text(settings['tuning_seeds'])}. The rate with the "
            f"smallest mean distance after {settings['steps']} steps is used. The three problems are Kronecker "
            f"least squares, low rank, and rank-deficient gradients. The rate of the first problem is also used for "
            f"the scaled gradients.")  # fmt: skip
    return with_notes(table(heads, rows), [origin(summary), note])


def cost(summary: Summary, others: dict[str, Summary]) -> str:
    """Return the table of the part cost."""
    settings, context = summary["settings"], summary["model"]["context"]
    race = others.get("language_model")
    batches = [batch for batch, _ in summary["gradients_ms"]]
    rows = []
    for row in summary["methods"]:
        shares = [f"{100 * row['update_ms'] / (row['update_ms'] + gradient):.0f} %"
                  for _, gradient in summary["gradients_ms"]]  # fmt: skip
        crossing = costs.crossing(summary, race, row["name"]) if race else None
        rows.append([row["label"], number(row["update_ms"], ".2f"),
                     f"{min(row['update_ms_of_runs']):.2f} to {max(row['update_ms_of_runs']):.2f}",
                     f"{row['state_bytes'] / summary['parameters']:.1f}", *shares, crossing or ""])  # fmt: skip
    heads = ["method", "mean update, ms", "mean update in each run, ms (least to largest)",
             "bytes of state per parameter", *[f"{batch * context} tokens" for batch in batches],
             "faster than AdamW with"]  # fmt: skip
    note = (f"All methods take turns in the runs with the seeds {seeds_text(settings['seeds'])}. For each of the "
            f"{settings['steps']} steps, the time of the update is the median over the runs. The table shows the mean "
            f"of these medians. The model has {summary['parameters']} parameters. The columns with tokens show the "
            f"share of the update in the time of a training step with this number of tokens per batch. The last column "
            f"shows the numbers of tokens per batch with which a method reaches AdamW's final loss sooner than AdamW; a "
            f"number alone is the smallest. This column is computed from the steps to this loss in the part language_model, where a batch has "
            f"{summary['model']['batch'] * context} tokens.")  # fmt: skip
    return with_notes(table(heads, rows), [origin(summary), note])


TABLES: dict[str, Callable[[Summary, dict[str, Summary]], str]] = {
    "language_model": language_model, "convolution": convolution, "transfer": transfer,
    "known_answers": known_answers, "cost": cost,
}  # fmt: skip
