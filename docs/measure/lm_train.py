# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains one run of language_model.py, and measures its losses and times."""
import json
import math
import statistics
import time
from typing import Any, NamedTuple

import lm_data
import lm_methods
import torch


class Run(NamedTuple):
    method: str
    settings: dict[str, Any]  # only the keys that the option --set sets
    steps: int
    rate: float
    seed: int
    rest_rate: float  # learning rate of AdamW for embeddings, head and vectors
    batch: int
    context: int
    layers: int
    width: int
    heads: int

    def key(self) -> str:
        """Returns a string that identifies a run and does not depend on the order of its settings."""
        return json.dumps(self._asdict(), sort_keys=True)


WARM_UP = 10  # steps
VALIDATION_BATCHES = 32


def rate_factor(step: int, steps: int) -> float:
    """Returns the factor for all learning rates in a step: a linear warm-up times half a cosine from 1 toward 0."""
    return min(1.0, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / steps))


def clock(threads: int) -> float:
    """Returns a time in seconds. With one thread, this is CPU time, which hardly depends on other processes."""
    return time.process_time() if threads == 1 else time.perf_counter()


@torch.no_grad()
def validation_loss(model: lm_data.Gpt, text: torch.Tensor, run: Run) -> float:
    """Returns the mean loss over evenly spaced windows of the text. The windows do not depend on the seed."""
    starts = torch.linspace(0, len(text) - run.context - 1, VALIDATION_BATCHES * run.batch).long()
    return statistics.fmean(float(model.loss(*lm_data.cut(text, part, run.context)))
                            for part in starts.chunk(VALIDATION_BATCHES))


def train(run: Run, soap: str, log_every: int, texts: tuple[torch.Tensor, torch.Tensor]) -> dict[str, Any]:
    torch.manual_seed(run.seed)
    threads = torch.get_num_threads()
    batches = torch.Generator().manual_seed(run.seed)
    model = lm_data.Gpt(run.layers, run.width, run.heads, run.context)
    optimizers = lm_methods.make_optimizers(run.method, run.settings, run.rate, run.rest_rate, soap,
                                            *model.split())
    rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    losses: list[float] = []
    curve: list[tuple[int, float]] = []
    whole: list[float] = []
    alone: list[float] = []
    for step in range(run.steps):
        start = clock(threads)
        starts = torch.randint(len(texts[0]) - run.context, (run.batch,), generator=batches)
        loss = model.loss(*lm_data.cut(texts[0], starts, run.context))
        loss.backward()
        for optimizer, rate in zip(optimizers, rates):
            optimizer.param_groups[0]["lr"] = rate * rate_factor(step, run.steps)
        before = clock(threads)
        optimizers[0].step()
        after = clock(threads)
        optimizers[1].step()
        for optimizer in optimizers:
            optimizer.zero_grad()
        whole.append(clock(threads) - start)
        alone.append(after - before)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            return {"diverged": step + 1}
        if (step + 1) % log_every == 0:
            curve.append((step + 1, round(statistics.fmean(losses[-log_every:]), 4)))
    return {"loss": round(validation_loss(model, texts[1], run), 5), "curve": curve,
            "optimizer_ms": round(1e3 * statistics.median(alone), 3),
            "optimizer_mean_ms": round(1e3 * statistics.fmean(alone), 3),
            "step_ms": round(1e3 * statistics.median(whole), 3)}
