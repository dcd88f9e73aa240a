# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Defines the cases of data/rules: their keys, shapes and gradients. make_cases.py writes the cases."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from roots import Keys

Shapes = list[tuple[int, ...]]

# Default values of the cases, for every key that model.py or roots.py reads, and for "preset" and "root_dtype", which
# only the library reads. Numbers that multiply parameters, gradients or states, such as lr and beta1, are exact in
# float32.
BASE: Keys = {
    "preset": "shampoo_2024",
    "lr": 0.125,
    "beta1": 0.875,
    "beta2": 0.9375,
    "epsilon": 0.0,
    "root_relative_epsilon": 1e-5,
    "momentum": 0.0,
    "use_nesterov": False,
    "weight_decay": 0.0,
    "weight_decay_type": "decoupled",
    "max_preconditioner_dim": 8,
    "use_merge_dims": True,
    "merge_min_dim": 4,
    "precondition_1d": False,
    "precondition_frequency": 10,
    "refresh_growth": 0.1,
    "start_preconditioning_step": -1,
    "inverse_root_override": 2,
    "exponent_multiplier": 1.0,
    "use_bias_correction": True,
    "grafting": "none",
    "grafting_beta2": 0.96875,
    "grafting_epsilon": 1e-8,
    "initial_inverse": "zero",
    "root_method": "eigen",
    "root_order": 3,
    "root_tolerance": 1e-6,
    "root_max_iterations": 100,
    "root_dtype": "auto",
    "root_spread": False,
    "root_async": 0,
    "factor_dtype": "auto",
    "inverse_dtype": "auto",
    "filtered_grad_dtype": "auto",
    "momentum_dtype": "auto",
    "grafting_dtype": "auto",
}


class Case:
    """A sequence of steps. gradients: for each step, a dict from the position of a parameter to its gradient.

    missing: pairs (position of a parameter, the steps in which this parameter has no gradient).
    silent: pairs (position of a parameter, the steps in which its gradient is 0).
    """

    def __init__(self, name: str, dtype: str, shapes: Shapes, steps: int, *, scale: float = 1.0,
                 missing: Iterable[tuple[int, Iterable[int]]] = (), silent: Iterable[tuple[int, Iterable[int]]] = (),
                 groups: list[tuple[list[int], Keys]] | None = None,
                 lr_schedule: list[list[float]] | None = None, **keys: Any) -> None:
        self.name, self.dtype, self.steps, self.lr_schedule = name, dtype, steps, lr_schedule
        everything = list(range(len(shapes)))
        unknown = {key for own in [keys, *(k for _, k in groups or [])] for key in own} - set(BASE)
        assert not unknown, unknown
        self.groups = [(members, {**BASE, **keys, **own}) for members, own in groups or [(everything, {})]]
        numbers = np.random.RandomState(list(name.encode()))  # the same numbers in every version of NumPy
        real = np.float64 if dtype == "f64" else np.float32

        def draw(shape: tuple[int, ...]) -> np.ndarray:
            return np.asarray(numbers.normal(size=shape)).astype(real).astype(np.float64)

        self.init = [draw(shape) for shape in shapes]
        self.gradients = [{p: (scale * draw(shape)).astype(real).astype(np.float64) for p, shape in enumerate(shapes)}
                          for _ in range(steps)]
        for p, ts in silent:
            for t in ts:
                self.gradients[t - 1][p][...] = 0
        for p, ts in missing:
            for t in ts:
                del self.gradients[t - 1][p]


def of_refreshes() -> list[Case]:
    """Return cases that test when inverse roots are refreshed and when they are used."""
    late = [(0, [5, 6, 12]), (1, range(1, 10)), (2, [1, 2, 9, 11, 16, 17])]
    return [
        Case("growth_0.05", "f32", [(4, 3), (3,)], 46, precondition_frequency=20, refresh_growth=0.05,
             root_relative_epsilon=1e-3, grafting="adam"),
        Case("growth_0.1", "f64", [(4, 3)], 52, precondition_frequency=4),
        Case("growth_0.5", "f64", [(4, 3)], 40, refresh_growth=0.5, precondition_frequency=9),
        Case("growth_1", "f32", [(3, 4)], 62, refresh_growth=1.0, precondition_frequency=20, grafting="sgd"),
        Case("growth_2.5", "f64", [(3, 2)], 88, refresh_growth=2.5, precondition_frequency=50),
        Case("growth_0.3_products_rounded", "f64", [(3, 2)], 50, refresh_growth=0.3, precondition_frequency=7),
        Case("growth_absolute_epsilon", "f64", [(5, 4)], 24, root_relative_epsilon=0.0, epsilon=1e-6,
             refresh_growth=0.25, inverse_root_override=0),
        Case("start_0", "f64", [(4, 3)], 12, start_preconditioning_step=0, refresh_growth=0.5),
        Case("start_3_below_frequency", "f64", [(5, 3), (4,)], 30, start_preconditioning_step=3, refresh_growth=0.5,
             precondition_frequency=10, precondition_1d=True, grafting="adagrad", grafting_epsilon=1e-10),
        Case("start_14_above_frequency", "f32", [(4, 3), (3,)], 34, start_preconditioning_step=14, refresh_growth=0.1,
             precondition_frequency=5, grafting="rmsprop"),
        Case("start_5_without_grafting", "f64", [(5, 3)], 20, start_preconditioning_step=5, refresh_growth=0.5,
             initial_inverse="identity"),
        Case("late_gradients_zero_start", "f64", [(4, 3), (3, 5), (2, 3)], 20, missing=late, refresh_growth=0.5,
             precondition_frequency=6, grafting="sgd"),
        Case("late_gradients_identity_start", "f64", [(4, 3), (3, 2), (3,)], 20, missing=late, refresh_growth=0.5,
             precondition_frequency=6, precondition_1d=True, initial_inverse="identity"),
        Case("steps_without_any_gradient", "f64", [(4, 3)], 20, missing=[(0, [1, 2, 7, 8, 13])], refresh_growth=0.5,
             precondition_frequency=5),
        Case("spread", "f64", [(5, 4), (4, 3)], 36, root_spread=True, max_preconditioner_dim=3, refresh_growth=0.3,
             precondition_frequency=8, grafting="adam"),
        Case("spread_start_7_late", "f32", [(5, 4), (4, 3), (3,)], 32, root_spread=True, max_preconditioner_dim=3,
             start_preconditioning_step=7, refresh_growth=0.5, precondition_frequency=12, grafting="sgd",
             root_relative_epsilon=1e-3, missing=[(1, [*range(1, 12), 19])]),
        Case("spread_without_growth", "f64", [(4, 5), (3, 2)], 20, root_spread=True, max_preconditioner_dim=3,
             refresh_growth=0.0, precondition_frequency=6, grafting="rmsprop"),
        Case("async", "f64", [(4, 3), (4,)], 40, root_async=3, refresh_growth=0.2, precondition_frequency=9),
        Case("async_late_gradients", "f32", [(4, 3), (2, 3), (3,)], 32, root_async=2, refresh_growth=0.5,
             precondition_frequency=5, precondition_1d=True, grafting="adam", root_relative_epsilon=1e-3,
             missing=[(0, [3, 8, 10, 15, 17, 23]), (1, range(1, 8)), (2, [7, 9, 13, 20, 22])]),
        Case("async_without_growth", "f64", [(5, 4)], 20, root_async=2, refresh_growth=0.0, precondition_frequency=4,
             start_preconditioning_step=6, initial_inverse="identity"),
        Case("spread_async_late", "f64", [(4, 5), (3, 3), (3, 2)], 40, root_spread=True, root_async=4,
             max_preconditioner_dim=3, refresh_growth=0.25, precondition_frequency=10, grafting="sgd",
             missing=[(1, range(1, 14)), (2, [*range(20, 27), 33])]),
        Case("short_spread_async_late", "f64", [(4, 3), (3, 2)], 12, root_spread=True, root_async=2,
             max_preconditioner_dim=2, refresh_growth=1.0, precondition_frequency=5, grafting="sgd",
             missing=[(1, [1, 2, 3, 9])]),
        Case("short_two_groups", "f32", [(4, 3), (3, 2)], 10, missing=[(1, [1, 2, 6])], refresh_growth=0.5,
             groups=[([0], {"grafting": "adam", "root_relative_epsilon": 1e-3}),
                     ([1], {"precondition_frequency": 3, "start_preconditioning_step": 2, "initial_inverse": "identity",
                            "root_relative_epsilon": 1e-2})]),
        Case("two_groups_growth", "f64", [(4, 3), (3, 4), (5,)], 24, missing=[(1, [2, 3, 8]), (2, [*range(1, 6), 9])],
             groups=[([0, 2], {"grafting": "adam"}),
                     ([1], {"refresh_growth": 0.0, "precondition_frequency": 3, "root_relative_epsilon": 0.0,
                            "epsilon": 1e-8, "merge_min_dim": 0})],
             lr_schedule=[[2.0**-(t % 3), 2.0**-4] for t in range(24)]),
    ]


def of_epsilon() -> list[Case]:
    """Return cases that test inverse roots with a relative epsilon."""
    silent = [(0, range(1, 8)), (1, range(1, 17)), (3, [1])]
    of_zeros = {"shapes": [(4, 3), (3, 3), (5, 2), (4,)], "steps": 16, "silent": silent, "refresh_growth": 0.5,
                "precondition_frequency": 4, "precondition_1d": True, "root_relative_epsilon": 1e-3}
    return [
        Case("zeros_eigen", "f32", **of_zeros, grafting="adam"),
        Case("zeros_newton", "f64", **of_zeros, root_method="newton", root_tolerance=0.03, beta2=1.0),
        Case("zeros_higher_order", "f64", **of_zeros, root_method="higher_order", root_tolerance=0.03,
             initial_inverse="identity"),
        Case("newton", "f64", [(5, 4), (6,)], 20, root_method="newton", root_relative_epsilon=1e-4, root_tolerance=0.02,
             refresh_growth=0.3),
        Case("newton_root_4", "f32", [(5, 4)], 20, root_method="newton", root_relative_epsilon=1e-2,
             inverse_root_override=0, root_tolerance=0.02, refresh_growth=0.3, grafting="adam"),
        Case("higher_order", "f64", [(5, 4), (6,)], 20, root_method="higher_order", root_relative_epsilon=1e-4,
             root_tolerance=0.02, refresh_growth=0.3),
        Case("higher_order_5", "f32", [(5, 4)], 20, root_method="higher_order", root_order=5,
             root_relative_epsilon=1e-2, root_tolerance=0.02, refresh_growth=0.3, grafting="sgd"),
        # Without grafting, the direction of a matrix grows if its gradient shrinks, so lr is scaled with the gradient.
        Case("scaled_1e-6", "f32", [(6, 4), (3, 2)], 20, scale=1e-6, refresh_growth=0.5, lr=2.0**-22),
        Case("scaled_1e6", "f32", [(6, 4), (3, 2)], 20, scale=1e6, refresh_growth=0.5, lr=2.0**16),
        Case("scaled_1e-6_newton", "f32", [(6, 4)], 16, scale=1e-6, refresh_growth=0.5, root_method="newton",
             root_relative_epsilon=1e-2, root_tolerance=0.02, grafting="adam"),
        Case("scaled_1e6_higher_order", "f32", [(6, 4)], 16, scale=1e6, refresh_growth=0.5,
             root_method="higher_order", root_relative_epsilon=1e-2, root_tolerance=0.03, grafting="sgd", lr=2.0**-22),
        Case("rank_1", "f64", [(6, 1), (1, 4), (5,)], 16, refresh_growth=0.5, use_merge_dims=False,
             precondition_1d=True, grafting="sgd", root_relative_epsilon=1e-4),
        Case("relative_epsilon_1", "f64", [(5, 4)], 16, root_relative_epsilon=1.0, refresh_growth=0.5),
        Case("root_3_multiplier_0.75", "f64", [(5, 4)], 16, inverse_root_override=3, exponent_multiplier=0.75,
             refresh_growth=0.5),
        Case("root_by_order", "f64", [(4,), (4, 3), (2, 3, 2), (2, 2, 2, 2)], 14, inverse_root_override=[0, 2, 4, 2],
             refresh_growth=0.5, use_merge_dims=False, precondition_1d=True),
    ]


def of_all_else() -> list[Case]:
    """Return cases that test orders, merging, dtypes and decays. In all cases, the intervals between refreshes grow."""
    return [
        Case("order_1", "f32", [(5,), (1,), ()], 20, precondition_1d=True, refresh_growth=0.5, grafting="adam",
             root_relative_epsilon=1e-3),
        Case("order_1_by_grafting_alone", "f64", [(5,), (3, 1), (), (4, 3)], 16, refresh_growth=0.5,
             use_merge_dims=False, grafting="adam"),
        Case("order_1_without_grafting", "f64", [(7,), (5, 1)], 16, refresh_growth=0.5,
             root_relative_epsilon=1e-3),
        Case("order_3", "f64", [(3, 4, 2)], 20, use_merge_dims=False, refresh_growth=0.5, grafting="adam"),
        Case("order_4", "f32", [(2, 3, 2, 2)], 20, use_merge_dims=False, refresh_growth=0.5, grafting="sgd",
             inverse_root_override=0),
        Case("merged", "f64", [(3, 4, 2, 2), (5, 2, 3), (2, 2), (4, 1, 5)], 11, refresh_growth=0.5,
             max_preconditioner_dim=12, merge_min_dim=4, grafting="adam", root_relative_epsilon=1e-4),
        Case("merged_and_split", "f32", [(6, 3, 3), (2, 3, 5)], 12, refresh_growth=0.5, max_preconditioner_dim=5,
             merge_min_dim=3, grafting="adam"),
        Case("factors_f16", "f64", [(5, 4), (4,)], 20, refresh_growth=0.5, factor_dtype="f16", root_async=2,
             precondition_frequency=6),
        Case("factors_bf16", "f32", [(5, 4)], 20, refresh_growth=0.5, factor_dtype="bf16", inverse_dtype="bf16",
             grafting="adam", root_relative_epsilon=1e-3),
        Case("states_bf16", "f64", [(5, 4)], 20, refresh_growth=0.5, factor_dtype="bf16", inverse_dtype="f16",
             filtered_grad_dtype="bf16", momentum_dtype="bf16", grafting_dtype="bf16", momentum=0.5, grafting="adam",
             root_spread=True, max_preconditioner_dim=3),
        Case("sums", "f32", [(5, 4), (3, 3)], 20, refresh_growth=0.5, beta2=1.0, grafting="adagrad",
             grafting_epsilon=1e-10, root_relative_epsilon=1e-3),
        Case("no_bias_correction", "f64", [(5, 4)], 20, refresh_growth=0.5, use_bias_correction=False, beta1=0.0),
        Case("coupled_decay", "f32", [(5, 4), (4,)], 16, refresh_growth=0.5, weight_decay=0.0625,
             weight_decay_type="coupled", grafting="adam", root_relative_epsilon=1e-3),
        Case("decoupled_decay_momentum", "f32", [(5, 4), (4,)], 16, refresh_growth=0.5, weight_decay=0.0625,
             momentum=0.75, grafting="adam", root_async=1, root_relative_epsilon=1e-3),
        Case("nesterov_growth", "f64", [(5, 4)], 20, refresh_growth=0.5, momentum=0.75, use_nesterov=True,
             grafting="rmsprop"),
    ]


def at_random() -> list[Case]:
    """Return cases with random combinations of keys."""
    found = []
    # With these seeds, no iteration of newton or higher_order has an error close to root_tolerance. If an error were
    # close to root_tolerance, rounding could change the number of iterations, and make_cases.py would reject the case.
    for number in (0, 3, 4, 5, 6, 7, 10, 11, 12, 14):
        draw = np.random.RandomState(1000 + number)

        def one_of(*choices: Any) -> Any:
            return choices[draw.randint(len(choices))]

        frequency, steps = int(draw.randint(2, 10)), 18
        shapes: Shapes = [one_of((5, 4), (4, 3), (3, 3)), one_of((4,), (2, 3)), one_of((2, 3, 2), (2, 2, 1, 3))]
        method = one_of("eigen", "eigen", "newton", "higher_order")
        is_eigen = method == "eigen"
        first = int(draw.randint(2, 9))
        keys = {
            "precondition_frequency": frequency,
            "refresh_growth": one_of(0.05, 0.1, 0.5, 1.0, 2.5),
            "start_preconditioning_step": one_of(-1, 1, frequency // 2, frequency + 3),
            "root_spread": one_of(False, True),
            "root_async": int(draw.randint(frequency)) if draw.randint(2) else 0,
            "grafting": one_of("none", "sgd", "adagrad", "rmsprop", "adam"),
            "initial_inverse": one_of("zero", "identity"),
            "inverse_root_override": one_of(0, 2, 2, [0, 2, 2, 4, 2]),
            "root_method": method,
            "root_relative_epsilon": one_of(1e-4, 1e-3) if is_eigen else one_of(1e-2, 1e-3),
            "root_tolerance": 0.02,
            "root_order": one_of(2, 3, 4),
            "max_preconditioner_dim": one_of(3, 4, 8, 24),
            "use_merge_dims": one_of(False, True, True),
            "merge_min_dim": one_of(0, 3, 4),
            "precondition_1d": one_of(False, True),
            "beta1": one_of(0.0, 0.875),
            "beta2": one_of(0.9375, 0.96875, 1.0),
            "momentum": one_of(0.0, 0.5),
            "use_nesterov": one_of(False, True),
            "weight_decay": one_of(0.0, 0.03125),
            "weight_decay_type": one_of("coupled", "decoupled"),
            "use_bias_correction": one_of(True, True, False),
        }
        missing = [(0, [first + 3, first + 4]), (1, [*range(1, first)])]
        found.append(Case(f"random_{number:02}", one_of("f64", "f32"), shapes, steps, missing=missing, **keys))
    return found


def cases() -> list[Case]:
    return [*of_refreshes(), *of_epsilon(), *of_all_else(), *at_random()]
