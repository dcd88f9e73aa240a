# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of libshampoo.jax in combination with optax."""
from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import libshampoo.jax

KEYS: dict[str, Any] = {"grafting": "adam", "precondition_frequency": 2, "beta2": 0.99}
RANDOM = np.random.default_rng(1)
PARAMS, GRADS = ({"w": jnp.asarray(RANDOM.standard_normal((9, 7)), jnp.float32), "b": jnp.ones(7)} for _ in range(2))


def train(tx: Any, steps: int = 4, **changed: Any) -> Any:
    """Train, after setting the fields ``changed`` of the state. Return parameters, state and number of compilations."""

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


def test_a_chain_can_contain_shampoo() -> None:
    clipped = train(optax.chain(optax.clip_by_global_norm(1e6), libshampoo.jax.shampoo(0.1, **KEYS)))
    assert same(clipped[0], train(libshampoo.jax.shampoo(0.1, **KEYS))[0])


def test_groups_can_have_different_keys() -> None:
    make = libshampoo.jax.shampoo
    groups = {"decay": make(0.1, weight_decay=0.5, **KEYS), "rest": make(0.1, **KEYS)}
    found, _, _ = train(optax.multi_transform(groups, {"w": "decay", "b": "rest"}))
    decayed, plain = (train(tx)[0] for tx in groups.values())
    assert same(found, {"w": decayed["w"], "b": plain["b"]}) and not same(decayed, plain)


def test_schedules_and_injected_rates_have_the_same_effect() -> None:
    schedule = optax.linear_schedule(0.5, 0.0, 4)
    scheduled = train(libshampoo.jax.shampoo(schedule, **KEYS))
    inject = optax.inject_hyperparams(lambda learning_rate: libshampoo.jax.shampoo(learning_rate, **KEYS))
    injected = train(inject(schedule))
    assert same(scheduled[0], injected[0])
    assert scheduled[2] == injected[2] == 1
    frozen = train(optax.chain(libshampoo.jax.shampoo(0.1, **KEYS)), learning_rate=jnp.float32(0))
    assert same(frozen[0], PARAMS)


def test_a_group_can_be_empty() -> None:
    """Covers a label without parameters, a mask that selects none, and a state in which tree.map_params finds none."""
    make = libshampoo.jax.shampoo
    alone = make(0.1, **KEYS)
    groups = {"used": alone, "unused": make(0.2, **KEYS)}
    assert same(train(optax.multi_transform(groups, {"w": "used", "b": "used"}))[0], train(alone)[0])
    masked = optax.masked(alone, {"w": False, "b": False})
    updates, _ = jax.jit(masked.update)(GRADS, masked.init(PARAMS), PARAMS)
    assert same(updates, GRADS)
    state = alone.init(PARAMS)
    mapped = optax.tree.map_params(alone, lambda leaf: leaf + 1, state)
    assert jax.tree.all(jax.tree.map(np.array_equal, mapped, state))


def test_inject_hyperparams_sets_keys() -> None:
    inject, schedule = optax.inject_hyperparams, optax.linear_schedule(0.5, 0.0, 4)
    for rate in (0.1, schedule):
        expected = train(libshampoo.jax.shampoo(rate, **KEYS))
        injected = inject(libshampoo.jax.shampoo, static_args=("beta2", "precondition_frequency"))
        found = train(injected(learning_rate=rate, **KEYS))
        assert same(found[0], expected[0]) and found[2] == 1
    plain = inject(libshampoo.jax.shampoo)(learning_rate=0.1, grafting="adam")
    assert same(train(plain)[0], train(libshampoo.jax.shampoo(0.1, grafting="adam"))[0])
    with pytest.raises(TypeError, match="weight_decay: the value is traced.*static_args='weight_decay'"):
        train(inject(libshampoo.jax.shampoo)(learning_rate=0.1, weight_decay=0.5))
    tx = inject(libshampoo.jax.shampoo)(learning_rate=0.1, weight_decay=0.5)  # outside jit, the value is not traced
    expected = libshampoo.jax.shampoo(0.1, weight_decay=0.5)
    updates, _ = tx.update(GRADS, tx.init(PARAMS), PARAMS)
    assert same(updates, expected.update(GRADS, expected.init(PARAMS), PARAMS)[0])


@pytest.mark.parametrize("compiled", [True, False])
def test_an_injected_learning_rate_can_be_changed(compiled: bool) -> None:
    tx = optax.inject_hyperparams(libshampoo.jax.shampoo)(learning_rate=0.5)
    update = jax.jit(tx.update) if compiled else tx.update
    state = tx.init(PARAMS)
    once, _ = update(GRADS, state, PARAMS)
    state.hyperparams["learning_rate"] = jnp.float32(0.25)
    half, after = update(GRADS, state, PARAMS)
    assert same(jax.tree.map(lambda leaf: leaf / 2, once), half)
    assert float(after.inner_state.learning_rate) == 0.25
    falling = optax.inject_hyperparams(libshampoo.jax.shampoo)(learning_rate=optax.linear_schedule(0.5, 0.0, 4))
    update, state = jax.jit(falling.update) if compiled else falling.update, falling.init(PARAMS)
    rates = []
    for _ in range(4):
        _, state = update(GRADS, state, PARAMS)
        rates.append(float(state.inner_state.learning_rate))
    assert rates == [0.5, 0.375, 0.25, 0.125]


def test_updates_with_the_dtypes_of_the_parameters_work_in_lax_cond() -> None:
    """Checks update_dtype="params" in optax.apply_if_finite, which uses lax.cond.

    lax.cond needs updates with the dtypes of the gradients. Here, gradients have the dtypes of the parameters. Without
    update_dtype, all updates would be float32.
    """
    params, grads = ({**tree, "w": tree["w"].astype(jnp.bfloat16)} for tree in (PARAMS, GRADS))
    tx = optax.apply_if_finite(libshampoo.jax.shampoo(0.1, update_dtype="params", **KEYS), 3)
    updates, state = jax.jit(tx.update)(grads, tx.init(params), params)
    assert updates["w"].dtype == jnp.bfloat16 and updates["b"].dtype == jnp.float32
    with pytest.raises(TypeError, match="float32.*bfloat16"):
        alone = optax.apply_if_finite(libshampoo.jax.shampoo(0.1, **KEYS), 3)
        alone.update(grads, alone.init(params), params)
    broken = {**grads, "b": grads["b"].at[0].set(jnp.nan)}
    updates, after = jax.jit(tx.update)(broken, state, params)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(updates))
    assert np.array_equal(after.inner_state.arena, state.inner_state.arena)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_gradients_of_several_steps_can_be_accumulated(dtype: Any) -> None:
    params, grads = ({name: leaf.astype(dtype) for name, leaf in tree.items()} for tree in (PARAMS, GRADS))
    tx = optax.MultiSteps(libshampoo.jax.shampoo(0.1, **KEYS), 2)
    state, update = tx.init(params), jax.jit(tx.update)
    for t in range(4):
        updates, state = update(grads, state, params)
        assert bool(np.asarray(updates["w"]).any()) == (t % 2 == 1)
