# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Small problems in NumPy on which docs/measure/defaults.py compares the library with AdamW."""
from __future__ import annotations

import dataclasses
import pathlib
import sys
from collections.abc import Callable

import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "python_digits"))

import digits  # noqa: E402
import network  # noqa: E402

Params = dict[str, np.ndarray]
Gradient = Callable[[Params, int], Params]
Loss = Callable[[Params], float]


@dataclasses.dataclass
class Problem:
    """A training problem: the initial parameters, the gradient for the batch of a step, and the loss over all data."""

    params: Params
    gradient: Gradient
    loss: Loss


def _digits(seed: int, scale: float = 1.0) -> Problem:
    images, labels = digits.load_digits(str(EXAMPLES / "c_mlp" / "data" / "digits.bin"))
    images, labels = images[:digits.TRAIN], labels[:digits.TRAIN]
    order = np.random.default_rng(seed)
    rows = np.concatenate([order.permutation(len(images))[:1408] for _ in range(5)]).reshape(-1, 64)

    def gradient(params: Params, step: int) -> Params:
        batch = rows[step]
        grads = network.gradient(params, images[batch], labels[batch])[1]
        return {name: grad * np.float32(scale) for name, grad in grads.items()}

    return Problem(network.make(seed), gradient, lambda params: network.evaluate(params, images, labels)[0])


def _softmax(seed: int) -> Problem:
    images, labels = digits.load_digits(str(EXAMPLES / "c_mlp" / "data" / "digits.bin"))
    order = np.random.default_rng(seed)
    rows = order.integers(0, len(images), (200, 64))

    def gradient(params: Params, step: int) -> Params:
        batch = rows[step]
        back = network.loss_of(images[batch] @ params["W"], labels[batch])[1]
        return {"W": (images[batch].T @ back).astype(np.float32)}

    start = {"W": (0.01 * order.standard_normal((64, 10))).astype(np.float32)}
    return Problem(start, gradient, lambda params: network.loss_of(images @ params["W"], labels)[0])


def _regression(seed: int, shape: tuple[int, int], condition: float, is_aligned: bool = False) -> Problem:
    """Least squares for a matrix of this shape, with noisy labels. The standard deviations of the inputs along their
    principal axes are between 1 / condition and 1. If is_aligned is true, these axes are the coordinate axes. Such
    inputs suit AdamW, which scales single elements.
    """
    random, batch = np.random.default_rng(seed), 32
    inputs = random.standard_normal((2048, shape[0])) * np.logspace(0, -np.log10(condition), shape[0])
    if not is_aligned:
        inputs = inputs @ np.linalg.qr(random.standard_normal((shape[0], shape[0])))[0]
    wanted = random.standard_normal(shape)
    outputs = inputs @ wanted + 0.01 * random.standard_normal((2048, shape[1]))
    rows = random.integers(0, 2048, (200, batch))

    def gradient(params: Params, step: int) -> Params:
        x = inputs[rows[step]]
        return {"W": (x.T @ (x @ params["W"] - outputs[rows[step]]) / batch).astype(np.float32)}

    def loss(params: Params) -> float:
        return float(((inputs @ params["W"] - outputs) ** 2).sum() / 4096)

    return Problem({"W": np.zeros(shape, np.float32)}, gradient, loss)


def _low_rank(seed: int) -> Problem:
    """The mean square of W - A, with a 40x60 W that is 0 at first, and A of rank 4. The first gradient has rank 4."""
    random = np.random.default_rng(seed)
    wanted = (random.standard_normal((40, 4)) @ random.standard_normal((4, 60)) / 2).astype(np.float32)
    start = {"W": np.zeros((40, 60), np.float32)}
    return Problem(start, lambda params, _: {"W": (params["W"] - wanted) / np.float32(2400)},
                   lambda params: float(((params["W"] - wanted) ** 2).mean()))


def _linear(seed: int) -> Problem:
    """The problem in PyTorch's optimizer tests: |W x + b|^2 with a 10x5 W and a fixed x. W's gradients have rank 1."""
    random = np.random.default_rng(seed)
    x = random.standard_normal(5).astype(np.float32)
    start = {"W": random.standard_normal((10, 5)).astype(np.float32),
             "b": random.standard_normal(10).astype(np.float32)}

    def gradient(params: Params, _: int) -> Params:
        back = 2 * (params["W"] @ x + params["b"])
        return {"W": np.outer(back, x), "b": back}

    return Problem(start, gradient, lambda params: float(((params["W"] @ x + params["b"]) ** 2).sum()))


def _parabola(seed: int) -> Problem:
    """A problem of optax's tests: the squared distance to (1, -1, 1). The start is (-1, 10, 1) plus noise."""
    random = np.random.default_rng(seed)
    wanted = np.array([1, -1, 1], np.float32)
    start = np.array([-1, 10, 1], np.float32) + 0.1 * random.standard_normal(3).astype(np.float32)
    return Problem({"x": start}, lambda params, _: {"x": 2 * (params["x"] - wanted)},
                   lambda params: float(((params["x"] - wanted) ** 2).sum()))


def _rosenbrock(seed: int) -> Problem:
    random = np.random.default_rng(seed)

    def gradient(params: Params, _: int) -> Params:
        a, b = params["x"]
        return {"x": np.array([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)], np.float32)}

    def loss(params: Params) -> float:
        a, b = (float(value) for value in params["x"])
        return (1 - a) ** 2 + 100 * (b - a * a) ** 2

    return Problem({"x": (0.1 * random.standard_normal(2)).astype(np.float32)}, gradient, loss)


# Name, constructor, number of steps, and whether a parameter of the problem is a matrix with two factor matrices.
PROBLEMS: list[tuple[str, Callable[[int], Problem], int, bool]] = [
    ("digits 64-128-64-10", _digits, 110, True),
    ("the same, gradients times 1e-6", lambda seed: _digits(seed, 1e-6), 110, True),
    ("the same, gradients times 1e6", lambda seed: _digits(seed, 1e6), 110, True),
    ("softmax 64x10", _softmax, 200, True),
    ("regression 10x100, condition 10", lambda seed: _regression(seed, (10, 100), 10), 200, True),
    ("regression 10x100, condition 100", lambda seed: _regression(seed, (10, 100), 100), 200, True),
    ("the same, inputs along the axes", lambda seed: _regression(seed, (10, 100), 100, True), 200, True),
    ("regression 1000x1, condition 10", lambda seed: _regression(seed, (1000, 1), 10), 200, False),
    ("low rank 40x60", _low_rank, 200, True),
    ("rank 1, 10x5 and bias", _linear, 200, True),
    ("parabola", _parabola, 500, False),
    ("Rosenbrock", _rosenbrock, 1000, False),
]
