# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The sizes of the benchmarks. The tests of the long tier use the size "quick", those of the short tier "smoke".

Tuning chooses learning rates and numbers of steps. Judging measures the results of this choice, with other seeds.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from methods import METHODS

ALL = tuple(method.name for method in METHODS)


class LanguageModel(NamedTuple):
    """Sizes of the part language_model."""

    steps: int = 300  # the horizon T0 in README.md; the target is AdamW's loss after T0 steps
    # Horizons (numbers of steps) at which a method may reach the target, as multiples of `steps`.
    ladder: tuple[float, ...] = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.9, 1.0, 1.1, 1.25)
    batch: int = 12
    context: int = 128
    width: int = 96
    heads: int = 3
    layers: int = 3
    windows: int = 256  # number of sequences of the validation text that an evaluation uses
    decay: float = 0.1  # weight decay
    tries: int = 7  # number of learning rates that the tuning of a method tries
    tuning_seeds: tuple[int, ...] = (101, 102)
    target_seeds: tuple[int, ...] = tuple(range(1, 11))  # of AdamW's judging runs, whose mean loss is the target
    seeds: tuple[int, ...] = tuple(range(11, 16))  # of the judging runs of all other methods
    points: int = 10  # approximate number of evaluations in a judging run
    methods: tuple[str, ...] = ALL
    threads: int = 2


class Convolution(NamedTuple):
    """Sizes of the part convolution."""

    epochs: int = 40
    batch: int = 50
    decay: float = 1e-4
    tries: int = 7
    factor: float = 2.0  # ratio of neighboring learning rates of the grid
    tuning_seeds: tuple[int, ...] = (101, 102, 103, 104, 105)
    seeds: tuple[int, ...] = tuple(range(1, 11))
    methods: tuple[str, ...] = ALL


class Transfer(NamedTuple):
    """Sizes of the part transfer, which tunes learning rates for several widths."""

    widths: tuple[int, ...] = (64, 96, 128, 192, 256)
    steps: int = 200
    tries: int = 7
    seeds: tuple[int, ...] = (101, 102)
    rest_rate: float = 0.004  # learning rate of AdamW, for the parameters that Muon does not update


class KnownAnswers(NamedTuple):
    """Sizes of the part known_answers."""

    steps: int = 1000
    tries: int = 11
    factor: float = 2.0
    tuning_seeds: tuple[int, ...] = (101, 102)
    seeds: tuple[int, ...] = tuple(range(1, 6))
    methods: tuple[str, ...] = ALL


class Cost(NamedTuple):
    """Sizes of the part cost, which measures the times of steps."""

    steps: int = 300
    batches: tuple[int, ...] = (1, 2, 4, 8, 12, 24, 48)
    seeds: tuple[int, ...] = (1, 2, 3)  # there is one run for each seed, in which all methods take turns
    methods: tuple[str, ...] = ALL


class Size(NamedTuple):
    """The sizes of all parts."""

    name: str = "full"
    language_model: LanguageModel = LanguageModel()
    convolution: Convolution = Convolution()
    transfer: Transfer = Transfer()
    known_answers: KnownAnswers = KnownAnswers()
    cost: Cost = Cost()


def small(steps: int, methods: tuple[str, ...], **model: Any) -> dict[str, Any]:
    """Return arguments of LanguageModel for a small model and few runs."""
    return {"steps": steps, "batch": 4, "context": 32, "width": 48, "heads": 2, "layers": 1, "windows": 16, "tries": 2,
            "tuning_seeds": (101,), "target_seeds": (1, 2), "seeds": (11, 12), "ladder": (0.5, 1.0), "points": 2,
            "methods": methods, **model}  # fmt: skip


SOME = ("adamw", "muon", "shampoo")
SIZES = {
    "full": Size(),
    "quick": Size(
        "quick",
        LanguageModel(**small(40, ALL, ladder=(0.5, 0.75, 1.0), tries=3)),
        Convolution(epochs=2, tries=3, tuning_seeds=(101,), seeds=(1, 2)),
        Transfer(widths=(48, 64), steps=20, tries=3, seeds=(101,)),
        KnownAnswers(steps=100, tries=4, tuning_seeds=(101,), seeds=(1, 2)),
        Cost(steps=10, batches=(1, 4, 16), seeds=(1,)),
    ),
    "smoke": Size(
        "smoke",
        LanguageModel(**small(10, SOME)),
        Convolution(epochs=1, tries=2, tuning_seeds=(101,), seeds=(1, 2), methods=SOME),
        Transfer(widths=(48, 64), steps=4, tries=2, seeds=(101,)),
        KnownAnswers(steps=20, tries=2, tuning_seeds=(101,), seeds=(1, 2), methods=SOME),
        Cost(steps=3, batches=(1, 2), seeds=(1,), methods=SOME),
    ),
}
