#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_trajectories.py LIBSHAMPOO_SO: checks that steps compute roots with the iteration that root_method names.

The library and the simple implementation below, which share no code, compute the same trajectories in float64. Their
parameters are compared after every step. Most trajectories have a loose root_tolerance. The iteration then stops about
a percent away from the root, so only the same iteration, stopped at the same point, gives the same parameters. Finally,
the script changes the constants of the iterations below, one at a time. Each change must make at least one trajectory
differ from that of the library, which shows that the test can fail.
"""
from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

TOLERANCE = 1e-11  # largest relative error of a parameter; ill-conditioned factor matrices amplify rounding errors
VISIBLE = 1e-6  # if a constant is changed, parameters of at least one trajectory must differ by more than this
MARGIN = 1e-9  # least distance of an iteration's error from root_tolerance, so that rounding cannot decide when to stop


# ----------------------------------------------------------------------------------------------------------------------
# The iterations
# ----------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Constants:
    """The constants of newton() and higher_order(): numbers in formulas, multipliers (normally 1), and flags.

    Each flag selects between the right formula (the default) and a wrong one.
    """

    epsilon: float = 1.0
    tolerance: float = 1.0
    z_root_plus_1: float = 1.0
    z_two: float = 2.0
    z_exponent: float = 1.0
    step_root_plus_1: float = 1.0
    step_divisor: float = 1.0
    c_floor: float = 1.001
    c_without_epsilon: bool = False
    lambda_before_epsilon: bool = False
    lambda_is_norm: bool = False
    epsilon_floor: float = 1e-16
    epsilon_is_absolute: bool = False
    newton_start: bool = True
    series: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 1.0)


EXACT = Constants()


class StoppingMargin:
    """The smallest distance, over all checks whether to stop, between the error of an iteration and its tolerance."""

    def __init__(self) -> None:
        self.smallest = math.inf

    def within(self, error: float, tolerance: float) -> bool:
        self.smallest = min(self.smallest, abs(error - tolerance))
        return error <= tolerance


def symmetric(y: np.ndarray) -> np.ndarray:
    """Return Y without its asymmetric rounding errors, which would grow with every product."""
    return (y + y.T) / 2


def distance_from_identity(y: np.ndarray) -> float:
    return float(np.abs(y - np.eye(len(y))).max())


def newton(a: np.ndarray, r: int, s: Settings, k: Constants, margin: StoppingMargin) -> np.ndarray:
    identity = np.eye(len(a))
    a = a + k.epsilon * s.epsilon * identity
    z = k.z_root_plus_1 * (r + 1) / (k.z_two * np.sqrt((a * a).sum()))
    x = z ** (k.z_exponent / r) * identity
    y = z * a
    for _ in range(s.root_max_iterations):
        if margin.within(distance_from_identity(y), k.tolerance * s.root_tolerance):
            break
        t = (k.step_root_plus_1 * (r + 1) * identity - y) / (k.step_divisor * r)
        x = x @ t
        y = symmetric(np.linalg.matrix_power(t, r) @ y)
    return x


def row_sum_norm(a: np.ndarray) -> np.float64:
    return np.abs(a).sum(axis=1).max()


def higher_order(a: np.ndarray, p: int, s: Settings, k: Constants, margin: StoppingMargin) -> np.ndarray:
    identity = np.eye(len(a))
    bound = row_sum_norm(a)
    if not k.lambda_is_norm:
        bound = min(bound, row_sum_norm(np.linalg.matrix_power(a, 4)) ** 0.25)
    e = max(k.epsilon * s.epsilon * (1.0 if k.epsilon_is_absolute else bound), k.epsilon_floor)
    a = a + e * identity
    if not k.lambda_before_epsilon:
        bound += e
    ratio = (bound / e) ** (1 / p) if bound > 0 else 1.0
    c = k.c_floor
    if ratio != 1:
        c = max(c, (ratio * bound - (0.0 if k.c_without_epsilon else e)) / (ratio * bound - bound))
    z = k.z_root_plus_1 * (p + 1) / (c * bound)
    x = z ** (k.z_exponent / p) * identity
    y = z * a

    series = [1.0]
    for i in range(1, s.root_order):
        series.append(series[-1] * (1 + (i - 1) * p) / (i * p))
    series = [b * change for b, change in zip(series, k.series)]

    error = distance_from_identity(y)
    for iteration in range(s.root_max_iterations):
        if iteration == 0 and k.newton_start:
            t = (k.step_root_plus_1 * (p + 1) * identity - y) / (k.step_divisor * p)
        elif margin.within(error, k.tolerance * s.root_tolerance):
            break
        else:
            t = series[-1] * identity
            for b in reversed(series[:-1]):
                t = b * identity + (identity - y) @ t
        x = x @ t
        y = symmetric(np.linalg.matrix_power(t, p) @ y)
        before, error = error, distance_from_identity(y)
        if iteration > 0 and (error > 1.2 * before or error == before):
            break
    return x


# ----------------------------------------------------------------------------------------------------------------------
# The step
# ----------------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Settings:
    """The keys that the trajectories use. The defaults are those of preset=shampoo_2024, except for initial_inverse."""

    root_method: str
    lr: float = 0.01
    beta1: float = 0.9
    beta2: float = 1.0
    epsilon: float = 1e-12
    momentum: float = 0.0
    use_nesterov: bool = False
    weight_decay: float = 0.0
    weight_decay_type: str = "decoupled"
    max_preconditioner_dim: int = 1024
    use_merge_dims: bool = True
    precondition_frequency: int = 1
    start_preconditioning_step: int = -1
    inverse_root_override: str = "0"
    use_bias_correction: bool = True
    grafting: str = "none"
    grafting_beta2: float = math.nan  # NaN represents the value "auto"
    grafting_epsilon: float = math.nan  # NaN represents the value "auto"
    initial_inverse: str = "identity"
    root_order: int = 3
    root_tolerance: float = 1e-6
    root_max_iterations: int = 100
    threads: int = 0

    @property
    def start(self) -> int:
        first = self.start_preconditioning_step
        return self.precondition_frequency if first == -1 else max(first, 1)

    def root(self, order: int) -> int:
        override = [int(part) for part in self.inverse_root_override.split(",")]
        if len(override) == 1:
            override *= order + 1
        return (override[order] if order < len(override) else 0) or 2 * order

    def second_moment_decay(self) -> float:
        if self.grafting == "adagrad":
            return 1.0
        default = 0.99 if self.grafting == "rmsprop" else 0.999
        return default if math.isnan(self.grafting_beta2) else self.grafting_beta2

    def second_moment_epsilon(self) -> float:
        default = 1e-10 if self.grafting == "adagrad" else 1e-8
        return default if math.isnan(self.grafting_epsilon) else self.grafting_epsilon


def contract(tensor: np.ndarray, matrices: Iterable[np.ndarray]) -> np.ndarray:
    """Multiply the tensor along each of its dims by the matrix of that dim."""
    for dim, matrix in enumerate(matrices):
        tensor = np.moveaxis(np.tensordot(tensor, matrix, axes=(dim, 0)), -1, dim)
    return tensor


def norm(tensor: np.ndarray) -> float:
    return float(np.sqrt((tensor * tensor).sum()))


def merged_shape(shape: tuple[int, ...], s: Settings) -> list[int]:
    if not s.use_merge_dims:
        return list(shape)
    merged: list[int] = []
    for dim in (d for d in shape if d != 1):
        if merged and merged[-1] * dim <= s.max_preconditioner_dim:
            merged[-1] *= dim
        else:
            merged.append(dim)
    return merged or [1]


class Block:
    """The state and the step of a block."""

    def __init__(self, weight: np.ndarray, s: Settings, constants: Constants, margin: StoppingMargin) -> None:
        self.weight = weight  # a view of the parameter, which step() updates
        self.settings = s
        self.constants = constants
        self.margin = margin
        self.factors = [np.zeros((n, n)) for n in weight.shape]
        self.inverses = [np.eye(n) if s.initial_inverse == "identity" else np.zeros((n, n)) for n in weight.shape]
        self.filtered = np.zeros(weight.shape)
        self.second_moment = np.zeros(weight.shape)
        self.momentum = np.zeros(weight.shape)
        self.roots_computed = 0

    def refresh(self, t: int) -> None:
        s = self.settings
        iteration = {"newton": newton, "higher_order": higher_order}[s.root_method]
        correction = 1 - s.beta2**t if s.use_bias_correction and s.beta2 < 1 else 1.0
        root = s.root(self.weight.ndim)
        for dim, factor in enumerate(self.factors):
            self.inverses[dim] = iteration(factor / correction, root, s, self.constants, self.margin)
            self.roots_computed += 1

    def graft(self, h: np.ndarray, t: int) -> np.ndarray:
        s = self.settings
        if s.grafting == "sgd":
            return h
        decay = s.second_moment_decay()
        correction = 1 - decay**t if s.grafting == "adam" and decay < 1 else 1.0
        return h / (np.sqrt(self.second_moment / correction) + s.second_moment_epsilon())

    def step(self, g: np.ndarray, t: int) -> None:
        s = self.settings
        if s.weight_decay_type == "coupled":
            g = g + s.weight_decay * self.weight
        for dim, factor in enumerate(self.factors):
            others = [d for d in range(g.ndim) if d != dim]
            gained = np.tensordot(g, g, axes=(others, others))
            self.factors[dim] = s.beta2 * factor + (1.0 if s.beta2 == 1 else 1 - s.beta2) * gained
        if s.grafting in ("adagrad", "rmsprop", "adam"):
            decay = s.second_moment_decay()
            self.second_moment = decay * self.second_moment + (1.0 if decay == 1 else 1 - decay) * g * g
        if t == s.start or (t > s.start and t % s.precondition_frequency == 0):
            self.refresh(t)

        h = g
        if s.beta1 != 0:
            self.filtered = s.beta1 * self.filtered + (1 - s.beta1) * g
            h = self.filtered / (1 - s.beta1**t) if s.use_bias_correction else self.filtered
        if t < s.start and s.grafting != "none":
            p = self.graft(h, t)
        else:
            p = contract(h, self.inverses)
            if t >= s.start and s.grafting != "none":
                p = p * (norm(self.graft(h, t)) / (norm(p) + 1e-16))
        if s.weight_decay_type == "decoupled":
            p = p + s.weight_decay * self.weight
        if s.momentum != 0:
            self.momentum = s.momentum * self.momentum + p
            p = p + s.momentum * self.momentum if s.use_nesterov else self.momentum
        self.weight -= s.lr * p


@dataclasses.dataclass
class Trajectory:
    name: str
    settings: dict[str, Any]
    shapes: list[tuple[int, ...]]
    gradient_scale: float = 1.0  # the random gradients are multiplied by this number
    silent_steps: int = 0  # all gradients of the first silent_steps steps are 0
    steps: int = 8

    def data(self) -> tuple[list[np.ndarray], list[list[np.ndarray]]]:
        """Return the initial parameters, and the gradients of each step. Every call returns the same numbers."""
        numbers = np.random.RandomState(list(self.name.encode()))  # gives the same numbers in every version of NumPy
        weights = [numbers.normal(size=shape) for shape in self.shapes]
        gradients = [[self.gradient_scale * numbers.normal(size=shape) for shape in self.shapes]
                     for _ in range(self.steps)]
        for silent in gradients[:self.silent_steps]:
            for gradient in silent:
                gradient[...] = 0
        return weights, gradients


@dataclasses.dataclass
class Result:
    """The parameters after each step, the number of computed roots, and the value StoppingMargin.smallest."""

    parameters: list[list[np.ndarray]]
    roots_computed: int
    margin: float = math.inf

    def distance(self, other: Result) -> float:
        """Return the largest relative error max |W - V| / max |V|, or infinity if any W or V is not finite.

        W is the parameter in `self`, and V is the same parameter in `other` after the same step.
        """

        def relative(w: np.ndarray, v: np.ndarray) -> float:
            return float(np.abs(w - v).max() / np.abs(v).max()) if np.isfinite(w + v).all() else math.inf

        return max(relative(w, v) for mine, others in zip(self.parameters, other.parameters)
                   for w, v in zip(mine, others))


def compute(trajectory: Trajectory, constants: Constants = EXACT) -> Result:
    s = Settings(**trajectory.settings)
    margin = StoppingMargin()
    weights, gradients = trajectory.data()
    blocks: list[tuple[int, list[int], tuple[slice, ...], Block]] = []
    for index, weight in enumerate(weights):
        shape = merged_shape(weight.shape, s)
        chunks = [-(-n // s.max_preconditioner_dim) for n in shape]
        for position in np.ndindex(*chunks):
            where = tuple(slice(i * s.max_preconditioner_dim, (i + 1) * s.max_preconditioner_dim) for i in position)
            blocks.append((index, shape, where, Block(weight.reshape(shape)[where], s, constants, margin)))
    parameters = []
    with np.errstate(all="ignore"):  # with changed constants, an iteration may diverge
        for t, gradient in enumerate(gradients, 1):
            for index, shape, where, block in blocks:
                block.step(gradient[index].reshape(shape)[where], t)
            parameters.append([weight.copy() for weight in weights])
    return Result(parameters, sum(block.roots_computed for *_, block in blocks), margin.smallest)


# ----------------------------------------------------------------------------------------------------------------------
# The library
# ----------------------------------------------------------------------------------------------------------------------

SHAMPOO_CPU = 1
SHAMPOO_F64 = 2
COUNTERS = ("root_computed", "root_newton", "root_higher_order", "root_scalar", "root_diagonal", "root_eigen",
            "root_retried", "root_reused")


class SizedStruct(ctypes.Structure):
    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=ctypes.sizeof(self), **fields)


class ParamDesc(SizedStruct):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("ndim", ctypes.c_int32),
                ("stack_dims", ctypes.c_int32), ("shape", ctypes.c_int64 * 8), ("param_dtype", ctypes.c_int32),
                ("grad_dtype", ctypes.c_int32), ("group", ctypes.c_int32), ("shard_form", ctypes.c_int32),
                ("flat_offset", ctypes.c_int64), ("flat_count", ctypes.c_int64), ("local_offset", ctypes.c_int64 * 8),
                ("local_shape", ctypes.c_int64 * 8), ("out_dtype", ctypes.c_int32), ("copy_dtype", ctypes.c_int32),
                ("role", ctypes.c_int32), ("fan", ctypes.c_int32), ("row_splits", ctypes.c_int64 * 8)]


class PlanDesc(SizedStruct):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device_type", ctypes.c_int32), ("threads", ctypes.c_int32),
                ("replica_rank", ctypes.c_int32), ("replica_world", ctypes.c_int32), ("shard_rank", ctypes.c_int32),
                ("shard_world", ctypes.c_int32)]


class OptimizerDesc(SizedStruct):
    _fields_ = [("struct_size", ctypes.c_size_t), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("replica_comm", ctypes.c_void_p), ("shard_comm", ctypes.c_void_p), ("allocator", ctypes.c_void_p),
                ("executor", ctypes.c_void_p), ("stream", ctypes.c_void_p), ("state", ctypes.c_void_p),
                ("state_bytes", ctypes.c_size_t)]


class Buffers(SizedStruct):
    _fields_ = [("struct_size", ctypes.c_size_t), ("param", ctypes.c_void_p), ("grad", ctypes.c_void_p),
                ("out", ctypes.c_void_p), ("copy", ctypes.c_void_p)]


class Library:
    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)
        self.library.shampoo_last_error.restype = ctypes.c_char_p

    def call(self, function: str, *arguments: Any) -> None:
        if getattr(self.library, function)(*arguments) != 0:
            raise RuntimeError(f"{function}: {self.library.shampoo_last_error().decode()}")

    def replay(self, trajectory: Trajectory) -> tuple[Result, dict[str, int]]:
        """Return the results of the library and the statistics of its optimizer."""
        config, plan, optimizer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        weights, gradients = trajectory.data()
        try:
            self.call("shampoo_config_create", ctypes.byref(config))
            self.call("shampoo_config_set_str", config, b"preset", b"shampoo_2024")
            self.call("shampoo_config_set_str", config, b"initial_inverse", b"identity")
            for key, value in trajectory.settings.items():
                text = str(value).lower() if isinstance(value, bool) else str(value)
                self.call("shampoo_config_set_str", config, key.encode(), text.encode())
            self.call("shampoo_plan_create", ctypes.byref(plan), config,
                      ctypes.byref(PlanDesc(device_type=SHAMPOO_CPU, replica_world=1, shard_world=1)))
            for index, weight in enumerate(weights):
                shape = (ctypes.c_int64 * 8)(*weight.shape)
                param = ParamDesc(name=f"parameter{index}".encode(), ndim=weight.ndim, shape=shape,
                                  param_dtype=SHAMPOO_F64, grad_dtype=SHAMPOO_F64)
                self.call("shampoo_plan_add_param", plan, ctypes.byref(param), None)
            self.call("shampoo_plan_finish", plan)
            self.call("shampoo_optimizer_create", ctypes.byref(optimizer), plan,
                      ctypes.byref(OptimizerDesc(device_type=SHAMPOO_CPU)))
            parameters = []
            for gradient in gradients:
                for index, (weight, grad) in enumerate(zip(weights, gradient)):
                    buffers = Buffers(param=weight.ctypes.data, grad=grad.ctypes.data, out=weight.ctypes.data)
                    self.call("shampoo_optimizer_bind", optimizer, index, 1, ctypes.byref(buffers))
                self.call("shampoo_optimizer_step", optimizer, None)
                parameters.append([weight.copy() for weight in weights])
            counters = {key: self.counter(optimizer, key) for key in COUNTERS}
            return Result(parameters, counters["root_computed"]), counters
        finally:
            self.library.shampoo_optimizer_destroy(optimizer)
            self.library.shampoo_plan_destroy(plan)
            self.library.shampoo_config_destroy(config)

    def counter(self, optimizer: ctypes.c_void_p, key: str) -> int:
        value = ctypes.c_double()
        self.call("shampoo_optimizer_stat", optimizer, key.encode(), ctypes.byref(value))
        return int(value.value)


# ----------------------------------------------------------------------------------------------------------------------
# The trajectories
# ----------------------------------------------------------------------------------------------------------------------


def trajectories() -> list[Trajectory]:
    def case(method: str, name: str, shapes: list[tuple[int, ...]], scale: float = 1.0, silent_steps: int = 0,
             **settings: Any) -> Trajectory:
        settings = {"root_method": method, "lr": 0.1, "use_merge_dims": False, **settings}
        return Trajectory(f"{method}.{name}", settings, shapes, scale, silent_steps)

    newton_case = functools.partial(case, "newton")
    higher_order_case = functools.partial(case, "higher_order")
    return [
        newton_case("matrix", [(5, 6)], epsilon=1e-4, root_tolerance=0.03),
        newton_case("vector", [(7,)], epsilon=1e-3, root_tolerance=0.05, beta1=0.0, beta2=0.95,
                    precondition_frequency=2),
        newton_case("order_3", [(3, 4, 5)], epsilon=1e-5, root_tolerance=0.02, beta2=0.9, grafting="adam",
                    weight_decay=0.05),
        newton_case("blocks", [(12, 4)], epsilon=1e-4, root_tolerance=0.04, max_preconditioner_dim=4,
                    precondition_frequency=3, grafting="adagrad", threads=2),
        newton_case("merged", [(3, 4, 5)], epsilon=1e-3, root_tolerance=0.05, use_merge_dims=True,
                    max_preconditioner_dim=12, inverse_root_override="3", momentum=0.8, beta2=0.99,
                    use_bias_correction=False),
        newton_case("override_list", [(7,), (5, 6), (3, 4, 5)], epsilon=1e-3, root_tolerance=0.03, beta2=0.9,
                    inverse_root_override="0,1,3"),
        newton_case("late_start", [(6, 5), (4,)], epsilon=1e-5, root_tolerance=0.05, start_preconditioning_step=4,
                    precondition_frequency=3, grafting="sgd", weight_decay=0.1, weight_decay_type="coupled"),
        newton_case("tight", [(5, 6)], scale=3.0, epsilon=1e-6, beta1=0.95, beta2=0.999, grafting="adam",
                    grafting_beta2=0.95, grafting_epsilon=1e-3),
        newton_case("rank_deficient", [(5, 6)], scale=3.0, epsilon=1e-6, use_merge_dims=True),
        newton_case("nesterov", [(4, 9)], scale=0.1, epsilon=1e-6, root_tolerance=0.02, momentum=0.9,
                    use_nesterov=True, weight_decay=0.02, initial_inverse="zero", start_preconditioning_step=3,
                    precondition_frequency=2, inverse_root_override="2"),
        newton_case("scalars", [(5,), (5, 5)], scale=2.0, epsilon=1e-3, root_tolerance=0.03, max_preconditioner_dim=4,
                    grafting="rmsprop", grafting_beta2=0.9, beta2=0.8, use_bias_correction=False),
        higher_order_case("matrix", [(5, 6)], scale=2.0, epsilon=1e-4, root_tolerance=0.05),
        higher_order_case("vector", [(7,)], scale=0.5, epsilon=1e-3, root_tolerance=0.05, root_order=2, beta1=0.0,
                          beta2=0.95, precondition_frequency=2),
        higher_order_case("order_3", [(3, 4, 5)], epsilon=1e-5, root_tolerance=0.03, root_order=4, beta2=0.9,
                          grafting="adam", weight_decay=0.05),
        higher_order_case("blocks", [(12, 4), (5, 5)], epsilon=1e-6, root_tolerance=0.05, root_order=5,
                          max_preconditioner_dim=4, precondition_frequency=3, grafting="adagrad", threads=2),
        higher_order_case("merged", [(3, 4, 5)], scale=3.0, epsilon=1e-3, root_tolerance=0.05, root_order=4,
                          use_merge_dims=True, max_preconditioner_dim=12, inverse_root_override="3", momentum=0.8,
                          beta2=0.99, use_bias_correction=False),
        # epsilon is so small that c has its least value, 1.001, when higher_order() computes the root for shape (7,).
        higher_order_case("override_list", [(7,), (5, 6), (3, 4, 5)], epsilon=1e-4, root_tolerance=0.04, beta2=0.9,
                          inverse_root_override="0,1,3"),
        higher_order_case("late_start", [(6, 5), (4,)], epsilon=1e-5, root_tolerance=0.05, root_order=5, grafting="sgd",
                          start_preconditioning_step=4, precondition_frequency=3, weight_decay=0.1,
                          weight_decay_type="coupled"),
        higher_order_case("tight", [(5, 6)], scale=3.0, epsilon=1e-6, root_order=4, beta1=0.95, beta2=0.999,
                          grafting="adam", grafting_beta2=0.95, grafting_epsilon=1e-3),
        higher_order_case("nesterov", [(4, 9)], scale=0.1, epsilon=1e-4, root_tolerance=0.02, root_order=2,
                          momentum=0.9, use_nesterov=True, weight_decay=0.02, initial_inverse="zero",
                          start_preconditioning_step=3, precondition_frequency=2, inverse_root_override="2"),
        # The refresh of step 2 computes the roots of factor matrices that are 0, to which only 1e-16 I is added. Step 3
        # multiplies its filtered gradient by these roots.
        higher_order_case("silence", [(5,)], silent_steps=2, lr=1e-4, epsilon=1e-3, root_tolerance=0.05, beta2=0.8,
                          max_preconditioner_dim=4, precondition_frequency=2, inverse_root_override="4",
                          use_bias_correction=False),
    ]


def changes() -> list[tuple[str, str, Constants]]:
    """Return tuples (method, name of the change, constants). In each tuple, exactly one constant is wrong.

    In the names, r is the argument r of newton() and the argument p of higher_order(). lambda is the variable `bound`
    of higher_order(). |A| is the Frobenius norm, and ||A|| is row_sum_norm().
    """

    def changed(**fields: Any) -> Constants:
        return dataclasses.replace(EXACT, **fields)

    both = [
        ("epsilon", changed(epsilon=1.01)),
        ("root_tolerance / 10", changed(tolerance=0.1)),
        ("r + 1 of z", changed(z_root_plus_1=1.01)),
        ("1 / r of z^(1/r)", changed(z_exponent=1.01)),
        ("r + 1 of the Newton step", changed(step_root_plus_1=1.01)),
        ("divisor r of the Newton step", changed(step_divisor=1.01)),
    ]
    of_newton = [("2 of 2 |A|", changed(z_two=2.02))]
    of_higher_order = [
        ("1.001 -> 1.002", changed(c_floor=1.002)),
        ("c without the term -e", changed(c_without_epsilon=True)),
        ("lambda not updated", changed(lambda_before_epsilon=True)),
        ("||A|| for lambda", changed(lambda_is_norm=True)),
        ("1e-16", changed(epsilon_floor=1.01e-16)),
        ("epsilon absolute", changed(epsilon_is_absolute=True)),
        ("no Newton step at the start", changed(newton_start=False)),
    ]
    for i in range(len(EXACT.series)):
        series = tuple(1.01 if i == j else 1.0 for j in range(len(EXACT.series)))
        of_higher_order.append((f"b_{i} of the series", changed(series=series)))
    return [(method, name, constants) for method, own in (("newton", of_newton), ("higher_order", of_higher_order))
            for name, constants in both + own]


def main(path: str) -> int:
    library = Library(path)
    passed = failed = 0
    replayed: list[tuple[Trajectory, Result]] = []
    for trajectory in trajectories():
        got, counters = library.replay(trajectory)
        want = compute(trajectory)
        replayed.append((trajectory, got))
        distance = got.distance(want)
        problems = []
        if distance > TOLERANCE:
            problems.append(f"the error is above {TOLERANCE:g}")
        if want.margin < MARGIN:
            problems.append(f"an error is within {want.margin:.1e} of root_tolerance: choose other settings")
        expected = {key: 0 for key in COUNTERS}
        expected["root_computed"] = expected["root_" + trajectory.settings["root_method"]] = want.roots_computed
        if counters != expected or want.roots_computed == 0:
            problems.append(f"statistics are {counters}: expected {expected}, with at least one root")
        print(f"{'FAILED' if problems else 'passed'} {trajectory.name}: worst relative error {distance:.1e}, "
              f"{counters['root_computed']} roots", *problems, sep="; ")
        failed += bool(problems)
        passed += not problems

    for method, name, constants in changes():
        distances = [compute(trajectory, constants).distance(got)
                     for trajectory, got in replayed if trajectory.settings["root_method"] == method]
        seen = [distance for distance in distances if distance > VISIBLE]
        print(f"{'passed' if seen else 'FAILED'} {method}, wrong constant ({name}): {len(seen)} of {len(distances)} "
              f"trajectories differ, by up to {max(distances):.1e}")
        failed += not seen
        passed += bool(seen)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
