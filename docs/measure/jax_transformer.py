#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares libshampoo.jax with optax.adamw on a character transformer whose layers are stacked for lax.scan.

    python3 docs/measure/jax_transformer.py [--seeds 5] [--steps 300] [--set KEY=VALUE ...]

The model has 3 layers of width 64. One optimizer trains all of its 0.18 M parameters, on the sources of Python's
standard library. The learning rate falls to 0 along half a cosine after 10 warm-up steps. AdamW's best rate is searched
among powers of 2. The printed table has a row for this rate, for twice this rate and for four times this rate. The
search and the table use the same seeds. Each cell is the mean validation loss over the seeds. Needs jax, optax and this
library's package.
"""
from __future__ import annotations

import argparse
import functools
import statistics
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import stdlib_text
from defaults import best_power

from libshampoo.jax import shampoo

LAYERS, WIDTH, HEADS, CONTEXT, BATCH = 3, 64, 4, 48, 8
Params = dict[str, Any]


def make(seed: int) -> Params:
    keys = iter(jax.random.split(jax.random.key(seed), 8))

    def draw(*shape: int, scale: float = 1.0) -> jax.Array:
        return scale * shape[-2]**-0.5 * jax.random.normal(next(keys), shape)

    residual = (2 * LAYERS)**-0.5
    return {
        "bytes": jax.random.normal(next(keys), (256, WIDTH)) * 0.1,
        "positions": jax.random.normal(next(keys), (CONTEXT, WIDTH)) * 0.1,
        "layers": {
            "norm1": jnp.ones((LAYERS, WIDTH)),
            "norm2": jnp.ones((LAYERS, WIDTH)),
            "qkv": draw(LAYERS, WIDTH, 3 * WIDTH),
            "proj": draw(LAYERS, WIDTH, WIDTH, scale=residual),
            "up": draw(LAYERS, WIDTH, 4 * WIDTH),
            "down": draw(LAYERS, 4 * WIDTH, WIDTH, scale=residual),
        },
        "norm": jnp.ones(WIDTH),
        "head": draw(WIDTH, 256),
    }


def normalize(x: jax.Array, gain: jax.Array) -> jax.Array:
    return gain * x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)


def loss(params: Params, windows: jax.Array) -> jax.Array:
    """Returns the mean cross entropy of predicting the next byte. windows has the shape [batch, CONTEXT + 1]."""
    mask = jnp.where(jnp.tril(jnp.ones((CONTEXT, CONTEXT), bool)), 0.0, -jnp.inf)

    def layer(x: jax.Array, weights: Params) -> tuple[jax.Array, None]:
        parts = (normalize(x, weights["norm1"]) @ weights["qkv"]).reshape(*x.shape[:2], 3, HEADS, WIDTH // HEADS)
        query, key, value = jnp.moveaxis(parts, 2, 0)
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * (WIDTH // HEADS)**-0.5 + mask
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value).reshape(x.shape)
        x = x + mixed @ weights["proj"]
        return x + jax.nn.gelu(normalize(x, weights["norm2"]) @ weights["up"]) @ weights["down"], None

    x = params["bytes"][windows[:, :-1]] + params["positions"]
    x, _ = jax.lax.scan(layer, x, params["layers"])
    scores = normalize(x, params["norm"]) @ params["head"]
    return optax.softmax_cross_entropy_with_integer_labels(scores, windows[:, 1:]).mean()


def cut(text: np.ndarray, starts: np.ndarray) -> np.ndarray:
    return text[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int32)


def train(texts: tuple[np.ndarray, np.ndarray], steps: int, seed: int,
          transform: Callable[[Any], optax.GradientTransformation], rate: float) -> float:
    """Returns the validation loss after the last step, or infinity if this loss is not finite."""
    schedule = optax.warmup_cosine_decay_schedule(0.1 * rate, rate, 10, steps)
    chosen, params = transform(schedule), make(seed)
    state, random = chosen.init(params), np.random.default_rng(seed)

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Params, state: Any, windows: jax.Array) -> tuple[Params, Any]:
        updates, state = chosen.update(jax.grad(loss)(params, windows), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(steps):
        params, state = step(params, state, cut(texts[0], random.integers(0, len(texts[0]) - CONTEXT, BATCH)))
    windows = cut(texts[1], np.linspace(0, len(texts[1]) - CONTEXT - 1, 512).astype(int))
    value = float(jax.jit(loss)(params, windows))
    return value if np.isfinite(value) else np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the library")
    options = parser.parse_args()
    texts = tuple(np.frombuffer(part, np.uint8) for part in stdlib_text.read_bytes(CONTEXT))
    keys = dict(text.split("=", 1) for text in options.set)

    def library(schedule: Any) -> optax.GradientTransformation:
        return shampoo(schedule, stack_dims=lambda name: 1 if "layers" in name else 0, threads=1, **keys)

    def mean(transform: Callable[[Any], optax.GradientTransformation], rate: float) -> float:
        return statistics.fmean(train(texts, options.steps, seed, transform, rate) for seed in range(options.seeds))

    adamw = functools.partial(optax.adamw, weight_decay=0.0)
    power = best_power(lambda exponent: mean(adamw, 2.0**exponent), -9, -5)
    print("| rate | AdamW | libshampoo |\n|---|---|---|")
    for rate in (2.0**power, 2.0**(power + 1), 2.0**(power + 2)):
        print(f"| {rate:.4g} | {mean(adamw, rate):.4f} | {mean(library, rate):.4f} |", flush=True)


if __name__ == "__main__":
    main()
