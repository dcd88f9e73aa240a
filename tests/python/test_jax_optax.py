# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""libshampoo.jax as a part of optax."""
from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import libshampoo.jax
import numpy as np
import optax
import pytest

KEYS: dict[str, Any] = {"grafting": "adam", "precondition_frequency": 2, "beta2": 0.99}
RANDOM = np.random.default_rng(1)
PARAMS, GRADS = ({"w": jnp.asarray(RANDOM.standard_normal((9, 7)), jnp.float32), "b": jnp.ones(7)} for _ in range(2))


def train(tx: Any, steps: int = 4, **changed: Any) -> Any:
    """Give the parameters, the state, and how often the step was compiled."""

    @jax.jit
    def step(params: Any, state: Any) -> Any:
        updates, state = tx.update(GRADS, state, params)
        return optax.apply_updates(params, updates), state

    params, state = PARAMS, tx.init(PARAMS)
    if changed:
        state = optax.tree_utils.tree_set(state, **changed)
    for _ in range(steps):
        params, state = step(params, state)
    return params, state, step._cache_size()


def same(left: Any, right: Any) -> bool:
    return all(np.asarray(left[name]).tobytes() == np.asarray(right[name]).tobytes() for name in PARAMS)


def test_in_a_chain() -> None:
    clipped = train(optax.chain(optax.clip_by_global_norm(1e6), libshampoo.jax.shampoo(0.1, **KEYS)))
    assert same(clipped[0], train(libshampoo.jax.shampoo(0.1, **KEYS))[0])


def test_groups() -> None:
    make = libshampoo.jax.shampoo
    groups = {"decay": make(0.1, weight_decay=0.5, **KEYS), "rest": make(0.1, **KEYS)}
    found, _, _ = train(optax.multi_transform(groups, {"w": "decay", "b": "rest"}))
    decayed, plain = (train(tx)[0] for tx in groups.values())
    assert same(found, {"w": decayed["w"], "b": plain["b"]}) and not same(decayed, plain)


def test_learning_rates() -> None:
    schedule = optax.linear_schedule(0.5, 0.0, 4)
    scheduled = train(libshampoo.jax.shampoo(schedule, **KEYS))
    inject = optax.inject_hyperparams(lambda learning_rate: libshampoo.jax.shampoo(learning_rate, **KEYS))
    injected = train(inject(schedule))
    assert same(scheduled[0], injected[0])
    assert scheduled[2] == injected[2] == 1
    frozen = train(optax.chain(libshampoo.jax.shampoo(0.1, **KEYS)), learning_rate=jnp.float32(0))
    assert same(frozen[0], PARAMS)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_gradients_of_several_steps(dtype: Any) -> None:
    params, grads = ({name: leaf.astype(dtype) for name, leaf in tree.items()} for tree in (PARAMS, GRADS))
    tx = optax.MultiSteps(libshampoo.jax.shampoo(0.1, **KEYS), 2)
    state, update = tx.init(params), jax.jit(tx.update)
    for t in range(4):
        updates, state = update(grads, state, params)
        assert bool(np.asarray(updates["w"]).any()) == (t % 2 == 1)
