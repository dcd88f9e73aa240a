# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on handwritten digits in JAX, with Shampoo and with AdamW; README.md tells what comes out."""
from __future__ import annotations

import argparse
import functools
import struct
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from shampoo.jax import shampoo

sys.path.append(str(Path(__file__).resolve().parents[1] / "python_digits"))
from report import Curve, show_progress, show_table, write_csv, write_svg  # noqa: E402

TRAIN = 1437  # four fifths of the 1797 images; the others are for the test
SIZES = (64, 128, 64, 10)


def load_digits(path: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Give images with pixels from 0 to 1, and labels: of a file as examples/c_mlp has it, or of scikit-learn."""
    if path is not None:
        text = Path(path).read_bytes()
        train, test = struct.unpack_from("<HH", text, 8)
        rows = np.frombuffer(text, np.uint8, (train + test) * 65, 12).reshape(-1, 65)
    else:
        from sklearn import datasets

        digits = datasets.load_digits()
        rows = np.concatenate([digits.data, digits.target[:, None]], axis=1).astype(np.uint8)
        rows = rows[np.random.default_rng(1).permutation(len(rows))]
    return rows[:, :64].astype(np.float32) / np.float32(16), rows[:, 64].astype(np.int32)


def make(seed: int) -> list[dict[str, jax.Array]]:
    """Make weights by Glorot's rule, and biases of 0."""
    keys = jax.random.split(jax.random.key(seed), len(SIZES) - 1)
    draw = jax.nn.initializers.glorot_uniform()
    return [{"w": draw(key, shape), "b": jnp.zeros(shape[1])} for key, shape in zip(keys, zip(SIZES, SIZES[1:]))]


def scores_of(params: Any, images: jax.Array) -> jax.Array:
    """Give the scores of the ten digits."""
    for layer in params[:-1]:
        images = jnp.tanh(images @ layer["w"] + layer["b"])
    return images @ params[-1]["w"] + params[-1]["b"]


def loss_of(params: Any, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Give the mean cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(scores_of(params, images), labels).mean()


@functools.partial(jax.jit, static_argnums=0, donate_argnums=(1, 2))
def step(tx: optax.GradientTransformation, params: Any, state: Any, images: jax.Array, labels: jax.Array) -> Any:
    """Make one step, in the memory of the parameters and the state that are given."""
    updates, state = tx.update(jax.grad(loss_of)(params, images, labels), state, params)
    return optax.apply_updates(params, updates), state


@jax.jit
def evaluate(params: Any, images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Give the loss, and the share of images that are recognized."""
    return loss_of(params, images, labels), (scores_of(params, images).argmax(axis=1) == labels).mean()


def main() -> None:
    """Train both, side by side on the same batches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a file with the images; without it they come from scikit-learn")
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--weight-decay", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", default="curves.csv", help="where the numbers go; empty: nowhere")
    parser.add_argument("--svg", default="curves.svg", help="where the picture goes; empty: nowhere")
    options = parser.parse_args()

    images, labels = load_digits(options.data)
    per_epoch = TRAIN // options.batch
    steps = options.epochs * per_epoch
    schedule = optax.cosine_decay_schedule(options.lr, steps)
    transformations = {
        "Shampoo": shampoo(
            schedule,
            weight_decay=options.weight_decay,
            beta2=0.99,
            epsilon=1e-6,
            grafting="adam",
            precondition_frequency=10,
            max_preconditioner_dim=128,
        ),
        "AdamW": optax.adamw(schedule, weight_decay=options.weight_decay),
    }
    curves = {name: Curve(name) for name in transformations}
    nets = {name: make(options.seed) for name in transformations}
    states = {name: tx.init(nets[name]) for name, tx in transformations.items()}

    def look() -> None:
        for name, curve in curves.items():
            curve.loss.append(float(evaluate(nets[name], images[:TRAIN], labels[:TRAIN])[0]))
            curve.accuracy.append(float(evaluate(nets[name], images[TRAIN:], labels[TRAIN:])[1]))

    random = np.random.default_rng(options.seed)
    look()
    for number in range(steps):
        show_progress(number, steps)
        if number % per_epoch == 0:
            order = random.permutation(TRAIN)
        rows = order[number % per_epoch * options.batch :][: options.batch]
        for name, tx in transformations.items():
            nets[name], states[name] = step(tx, nets[name], states[name], images[rows], labels[rows])
        if (number + 1) % per_epoch == 0:
            look()

    found = list(curves.values())
    show_table(found)
    if options.csv:
        write_csv(options.csv, found)
    if options.svg:
        write_svg(options.svg, found)


if __name__ == "__main__":
    main()
