# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on handwritten digits in JAX, with Shampoo and with AdamW. README.md shows the results."""
from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import optax
from libshampoo.jax import shampoo

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_digits"))
from digits import TRAIN, batches, load_digits, read_options  # noqa: E402
from report import Curve, report, show_progress  # noqa: E402

SIZES = (64, 128, 64, 10)


def make(seed: int) -> list[dict[str, jax.Array]]:
    """Return initial parameters: weights are drawn by Glorot's rule, and biases are 0."""
    keys = jax.random.split(jax.random.key(seed), len(SIZES) - 1)
    draw = jax.nn.initializers.glorot_uniform()
    return [{"w": draw(key, shape), "b": jnp.zeros(shape[1])} for key, shape in zip(keys, zip(SIZES, SIZES[1:]))]


def scores_of(params: Any, images: jax.Array) -> jax.Array:
    """Return the scores of the ten digits for each image."""
    for layer in params[:-1]:
        images = jnp.tanh(images @ layer["w"] + layer["b"])
    return images @ params[-1]["w"] + params[-1]["b"]


def loss_of(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(scores_of(params, images), labels).mean()


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def step(tx: optax.GradientTransformation, params: Any, state: Any, images: jax.Array, labels: jax.Array) -> Any:
    """Return the new parameters and state, which reuse the memory of the arguments params and state."""
    updates, state = tx.update(jax.grad(loss_of)(params, images, labels), state, params)
    return optax.apply_updates(params, updates), state


@jax.jit
def evaluate(params: Any, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the mean loss, and the fraction of the images that are classified correctly."""
    return loss_of(params, images, labels), (scores_of(params, images).argmax(axis=1) == labels).mean()


def main() -> None:
    """Train with Shampoo and with AdamW, side by side on the same batches."""
    options = read_options(__doc__)
    images, labels = load_digits(options.data)
    schedule = optax.cosine_decay_schedule(options.lr, options.steps)
    transformations = {
        "Shampoo" if options.preset == "shampoo" else options.preset: shampoo(
            schedule,
            preset=options.preset,
            weight_decay=options.weight_decay,
        ),
        "AdamW": optax.adamw(schedule, weight_decay=options.weight_decay),
    }
    curves = {name: Curve(name) for name in transformations}
    nets = {name: make(options.seed) for name in transformations}
    states = {name: tx.init(nets[name]) for name, tx in transformations.items()}

    def add_to_curves() -> None:
        for name, curve in curves.items():
            curve.loss.append(float(evaluate(nets[name], images[:TRAIN], labels[:TRAIN])[0]))
            curve.accuracy.append(float(evaluate(nets[name], images[TRAIN:], labels[TRAIN:])[1]))

    add_to_curves()
    for number, rows, ends_epoch in batches(options):
        show_progress(number, options.steps)
        for name, tx in transformations.items():
            nets[name], states[name] = step(tx, nets[name], states[name], images[rows], labels[rows])
        if ends_epoch:
            add_to_curves()

    report(list(curves.values()), options.csv)


if __name__ == "__main__":
    main()
