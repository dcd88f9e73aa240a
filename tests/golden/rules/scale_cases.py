#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes cases with gradients scaled by powers of two and learning rates that compensate for the scale.

    scale_cases.py FOLDER

A factor matrix scales with the square of the gradient. If the epsilon is relative and the factor matrix scales by a
power of 2^r, the inverse r-th root of the factor matrix scales by a power of two. The direction then scales by a power
of two, and the learning rate is scaled by the inverse of that power. Replays of FOLDER/as_is, FOLDER/up and FOLDER/down
must therefore write equal files.
"""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from cases import Case, Shapes
from make_cases import store, tensors_and_settings


def cases(power: int) -> list[Case]:
    """Return the cases with gradients scaled by 2^(power * exponent of the case)."""

    def case(name: str, dtype: str, exponent: int, shapes: Shapes, steps: int, by: float = 1.0, **keys: Any) -> Case:
        """Return a case. If the gradients are multiplied by s, the direction is multiplied by s**by."""
        scale = 2.0 ** (power * exponent)
        own = {"refresh_growth": 0.5, "precondition_frequency": 4, "lr": 0.125 / scale**by, **keys}
        return Case(name, dtype, shapes, steps, scale=scale, **own)

    # If inverse_root_override is 2 and the gradient of a matrix is multiplied by s, both inverse roots are multiplied
    # by 1 / s, and the direction by s / s^2.
    matrix: dict[str, Any] = {"by": -1.0}
    iterated: dict[str, Any] = {"root_relative_epsilon": 1e-2, "root_tolerance": 0.02, "grafting": "sgd"}
    return [
        case("eigen", "f32", 41, [(5, 4), (3, 3)], 12, **matrix),
        case("eigen_f64", "f64", 101, [(5, 4)], 12, **matrix, momentum=0.5),
        case("eigen_grafted", "f32", 41, [(5, 4), (6,), (2, 3, 2)], 12, grafting="sgd", precondition_1d=True,
             use_merge_dims=False),
        case("eigen_large", "f32", 41, [(40, 36)], 3, **matrix, max_preconditioner_dim=64),
        case("factors_bf16", "f32", 41, [(5, 4)], 12, **matrix, factor_dtype="bf16", beta2=1.0),
        case("roots_in_f64", "f32", 41, [(5, 4)], 12, **matrix, root_async=1, root_dtype="f64"),
        case("order_3", "f32", 21, [(2, 3, 2)], 12, by=-2.0, use_merge_dims=False),
        case("scalars", "f32", 41, [(1,), (4, 3)], 12, grafting="sgd", precondition_1d=True, max_preconditioner_dim=2,
             root_spread=True),
        case("root_4", "f32", 40, [(5, 4)], 12, by=0.0, inverse_root_override=0),
        case("root_4_by_multiplier", "f64", 200, [(5, 4)], 12, by=0.0, inverse_root_override=3,
             exponent_multiplier=0.75),
        case("newton", "f32", 41, [(5, 4)], 12, root_method="newton", **iterated),
        case("newton_root_3", "f64", 60, [(5, 4)], 12, root_method="newton", inverse_root_override=3, **iterated),
        case("higher_order", "f32", 41, [(5, 4)], 12, root_method="higher_order", **iterated),
        case("higher_order_root_4", "f32", 40, [(5, 4)], 12, root_method="higher_order", inverse_root_override=0,
             **iterated),
    ]


def main(folder: Path) -> None:
    for name, power in (("as_is", 0), ("up", 1), ("down", -1)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for case in cases(power):
            store(folder / name / f"{case.name}.safetensors", *tensors_and_settings(case))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
