# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""libshampoo.jax: a step that is pure, compiled, in place where its state is donated, and that of the library."""
from __future__ import annotations

import gc
import os
import threading
from typing import Any

import jax
import jax.numpy as jnp
import libshampoo
import libshampoo.jax
import numpy as np
import pytest

KEYS: dict[str, Any] = {"grafting": "adam", "precondition_frequency": 2, "beta2": 0.99}
SHAPES = {"layer": {"w": (24, 17), "b": (17,)}, "scale": (), "empty": (0, 3)}


def draw(seed: int, dtype: Any = np.float32) -> Any:
    random = np.random.default_rng(seed)
    of_shape = lambda shape: jnp.asarray(np.asarray(random.standard_normal(shape), np.float32).astype(dtype))  # noqa: E731
    return jax.tree.map(of_shape, SHAPES, is_leaf=lambda leaf: isinstance(leaf, tuple))


def same(left: Any, right: Any) -> bool:
    """Whether two trees have the same bits."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def in_numpy(params: Any, rates: list[float], grads: list[Any], **keys: Any) -> list[list[np.ndarray]]:
    """Give the updates of each step by the class for NumPy."""
    leaves = [np.array(leaf) for leaf in jax.tree.leaves(params)]
    opt = libshampoo.Optimizer(leaves, output="updates", **{**KEYS, **keys})
    out = [np.zeros_like(leaf) for leaf in leaves]
    opt.bind(out=out)
    updates = []
    for rate, grad in zip(rates, grads):
        opt.lr = rate
        opt.step([np.array(leaf) for leaf in jax.tree.leaves(grad)])
        updates.append([leaf.copy() for leaf in out])
        for leaf, update in zip(leaves, out):
            leaf += update
    return updates


def test_donation_steps_in_place() -> None:
    """No copy of the state: the arena stays where it is, and XLA has no memory for another."""
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    params = draw(1)
    state = tx.init(params)
    update = jax.jit(tx.update, donate_argnums=1).lower(params, state, params).compile()
    size = state.arena.nbytes
    assert update.memory_analysis().temp_size_in_bytes < size
    assert not [line for line in update.as_text().splitlines() if f"u8[{size}]" in line and " copy(" in line]
    where = state.arena.unsafe_buffer_pointer()
    for t in range(5):
        before = state
        _, state = update(draw(t + 2), state, params)
        assert before.arena.is_deleted()
        assert state.arena.unsafe_buffer_pointer() == where


def test_a_step_is_pure() -> None:
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    params, update = draw(1), jax.jit(tx.update)
    state = tx.init(params)
    for t in range(3):
        _, state = update(draw(t + 2), state, params)
    kept = np.asarray(state.arena).tobytes()
    first = update(draw(9), state, params)
    update(draw(10), state, params)
    second = update(draw(9), state, params)
    assert np.asarray(state.arena).tobytes() == kept
    assert same(first, second)
    assert same(first, tx.update(draw(9), state, params)), "compiled, and not"


def test_a_new_state_has_no_byte_of_what_was_there_before() -> None:
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    params = {"w": jnp.ones((2, 24, 17))}
    arenas = []
    for byte in (0, 255):
        for _ in range(8):
            jax.block_until_ready([jnp.full(tx.init(params).arena.shape, byte, jnp.uint8) for _ in range(8)])
        arenas.append([np.asarray(tx.init(params).arena) for _ in range(8)])
    assert all(same(arena, arenas[0][0]) for arena in arenas[0] + arenas[1])


def test_another_learning_rate_does_not_compile_anew() -> None:
    tx = libshampoo.jax.shampoo(0.25, **KEYS)
    params, grads = draw(1), draw(2)
    update = jax.jit(tx.update)
    state = tx.init(params)
    once, _ = update(grads, state, params)
    twice, after = update(grads, state._replace(learning_rate=jnp.float32(0.5)), params)
    assert same(jax.tree.map(lambda u: 2 * u, once), twice)
    _, after = update(grads, after, params)
    assert float(after.learning_rate) == 0.5 and int(after.count) == 2
    assert update._cache_size() == 1


@pytest.mark.parametrize("kind", ["number", "schedule", "array"])
def test_learning_rates_are_those_of_the_library(kind: str) -> None:
    rates = [0.5, 0.25, 0.125, 0.0625]
    params, grads = draw(1), [draw(t + 2) for t in range(4)]
    expected = in_numpy(params, rates, grads, weight_decay=0.1)

    @jax.jit
    def step(rate: Any, grad: Any, state: Any, params: Any) -> Any:
        rate = rate if kind == "array" else (lambda count: 0.5 / 2**count) if kind == "schedule" else 7.0
        updates, state = libshampoo.jax.shampoo(rate, weight_decay=0.1, **KEYS).update(grad, state, params)
        return updates, state, jax.tree.map(jnp.add, params, updates)

    state = libshampoo.jax.shampoo(1.0, weight_decay=0.1, **KEYS).init(params)
    for t, rate in enumerate(rates):
        if kind == "number":
            state = state._replace(learning_rate=jnp.float32(rate))
        updates, state, params = step(jnp.float32(rate), grads[t], state, params)
        assert same(updates, expected[t]), f"step {t}"
        assert float(state.learning_rate) == rate
    assert step._cache_size() == 1


def test_subnormal_numbers_are_kept() -> None:
    """XLA's threads flush them to zero; the same step in C does not."""
    params = {"w": jnp.ones((6, 5))}
    grads = {"w": jnp.asarray(np.full((6, 5), 3e-40, np.float32))}
    keys = {"grafting": "sgd", "preset": "shampoo_2024"}
    (expected,) = in_numpy(params, [1.0], [grads], **keys)
    updates, _ = jax.jit(libshampoo.jax.shampoo(1.0, **{**KEYS, **keys}).update)(
        grads, libshampoo.jax.shampoo(1.0, **{**KEYS, **keys}).init(params), params
    )
    assert np.asarray(updates["w"]).any()
    assert same(updates, expected)


def test_dtypes() -> None:
    params, grads = draw(1, jnp.bfloat16), draw(2, jnp.float32)
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    updates, _ = jax.jit(tx.update)(grads, tx.init(params), params)
    assert {leaf.dtype for leaf in jax.tree.leaves(updates)} == {jnp.dtype(jnp.float32)}
    narrow = libshampoo.jax.shampoo(0.1, update_dtype=jnp.bfloat16, **KEYS)
    rounded, _ = jax.jit(narrow.update)(grads, narrow.init(params), params)
    assert same(rounded, jax.tree.map(lambda u: u.astype(jnp.bfloat16), updates))


def test_a_parameter_without_a_gradient_stays() -> None:
    tx = libshampoo.jax.shampoo(0.1, weight_decay=0.1, **KEYS)
    params, grads = draw(1), draw(2)
    grads["layer"]["b"] = None
    update = jax.jit(tx.update)
    updates, state = update(grads, tx.init(params), params)
    assert not np.asarray(updates["layer"]["b"]).any() and np.asarray(updates["layer"]["w"]).any()
    nothing = jax.tree.map(lambda _: None, params)
    updates, after = update(nothing, state, params)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(updates))
    assert same(after.arena, state.arena)


def test_transformations_of_jax() -> None:
    keys = {**KEYS, "precondition_frequency": 1}  # the first step asks for blocks
    tx = libshampoo.jax.shampoo(0.1, **keys)
    params, grads = ({"w": jnp.stack([draw(s)["layer"]["w"] for s in seeds])} for seeds in ((1, 2), (3, 4)))
    alone = [({"w": grads["w"][k]}, {"w": params["w"][k]}) for k in range(2)]
    expected = [tx.update(grad, tx.init(param), param)[0]["w"] for grad, param in alone]
    updates, _ = jax.jit(jax.vmap(tx.update))(grads, jax.vmap(tx.init)(params), params)
    assert same(updates["w"], jnp.stack(expected))
    stacked = libshampoo.jax.shampoo(0.1, stack_dims=lambda name: 1 if "w" in name else 0, **keys)
    updates, _ = stacked.update(grads, stacked.init(params), params)
    assert same(updates["w"], jnp.stack(expected))

    def body(carry: Any, _: Any) -> Any:
        updates, state = tx.update(grads, carry[1], carry[0])
        return (jax.tree.map(jnp.add, carry[0], updates), state), updates

    looped = jax.jit(lambda carry: jax.lax.scan(body, carry, None, length=3)[0])((params, tx.init(params)))
    stepped = (params, tx.init(params))
    for _ in range(3):
        stepped = body(stepped, None)[0]
    assert same(looped, stepped)
    assert jax.eval_shape(tx.init, params).arena.shape == tx.init(params).arena.shape


def test_threads_step_at_once() -> None:
    tx = libshampoo.jax.shampoo(0.1, threads=2, **KEYS)
    params = draw(1)
    update = jax.jit(tx.update).lower(params, tx.init(params), params).compile()

    def train(seed: int) -> Any:
        state = tx.init(params)
        for t in range(30):
            updates, state = update(draw(100 * seed + t), state, params)
        return updates, state

    expected = [train(seed) for seed in range(3)]
    found: list[Any] = [None] * 3
    threads = [threading.Thread(target=lambda k: found.__setitem__(k, train(k)), args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert same(found, expected)


def test_an_executable_outlives_its_transformation() -> None:
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    params = draw(1)
    state = tx.init(params)
    expected = tx.update(params, state, params)
    update = jax.jit(tx.update).lower(params, state, params).compile()
    del tx
    gc.collect()
    assert same(update(params, state, params), expected)


def test_jaxs_linear_algebra_and_the_environment_are_left_alone() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    a = jnp.asarray(np.random.default_rng(1).standard_normal((96, 96)), jnp.float32)

    def results() -> Any:
        return a @ a, jnp.linalg.eigh(a + a.T), jnp.linalg.qr(a), jnp.linalg.svd(a)

    before, environment = results(), dict(os.environ)
    libraries = threadpoolctl.threadpool_info()
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    state = tx.init(a)
    for _ in range(3):
        _, state = tx.update(a, state, a)
        assert same(results(), before)
    assert threadpoolctl.threadpool_info() == libraries
    assert dict(os.environ) == environment


def test_errors() -> None:
    make, params = libshampoo.jax.shampoo, draw(1)
    tx = make(0.1, **KEYS)
    state = tx.init(params)
    for refused, kind, words in [
        (lambda: make(0.1, beta3=1), TypeError, "did you mean beta[12][?] libshampoo.KEYS has all"),
        (lambda: make(0.1, b1=0.9), TypeError, '"b1": it is beta1 here'),
        (lambda: make(0.1, lr=1), TypeError, "learning_rate"),
        (lambda: make(0.1, output="params"), TypeError, "output"),
        (lambda: make(0.1, beta2=7), ValueError, "beta2"),
        (lambda: tx.init({}), ValueError, "no parameter"),
        (lambda: tx.init({"k": jnp.arange(3)}), ValueError, r"\['k'\].*int32"),
        (lambda: tx.update(params, state), ValueError, "parameters are needed"),
        (lambda: tx.update(params["layer"], state, params), ValueError, "structure of the parameters"),
        (lambda: tx.update({**params, "scale": {"a": 1.0}}, state, params), (TypeError, ValueError), "."),
        (lambda: tx.update(jax.tree.map(lambda p: p[None], params), state, params), ValueError, "gradient of .*shape"),
        (lambda: tx.update(params["layer"], state, params["layer"]), ValueError, "it is of others"),
    ]:
        with pytest.raises(kind, match=words):
            refused()


def test_a_plan_of_a_pytree_is_that_of_the_transformation() -> None:
    params = draw(1)
    shapes = jax.eval_shape(lambda: draw(1))
    plan = libshampoo.jax.plan(shapes, **KEYS)
    assert plan.names == [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(params)[0]]
    assert (plan.bytes("state"),) == libshampoo.jax.shampoo(0.1, **KEYS).init(params).arena.shape
    stacked = libshampoo.jax.plan({"w": jnp.ones((3, 8, 4))}, stack_dims=1, use_merge_dims=False)
    assert [block.shape for block in stacked.blocks] == [(8, 4)] * 3
    for name in ("lr", "learning_rate"):
        with pytest.raises(TypeError, match="does not depend on the learning rate"):
            libshampoo.jax.plan(params, **{name: 1})
    with pytest.raises(TypeError, match="output"):
        libshampoo.jax.plan(params, output="params")


def test_failures_of_a_step_have_the_librarys_text() -> None:
    params = draw(1)
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    update, state = jax.jit(tx.update), tx.init(params)
    broken = draw(2)
    broken["layer"]["w"] = broken["layer"]["w"].at[1, 2].set(jnp.nan)
    words = r"libshampoo: the gradient of .*\['layer'\]\['w'\].* has NaN at element 19.*donated"
    with pytest.raises(Exception, match=words):
        jax.block_until_ready(update(broken, state, params))
    with pytest.raises(Exception, match=r"libshampoo: .*lr.*donated"):
        jax.block_until_ready(update(params, state._replace(learning_rate=jnp.float32(jnp.inf)), params))
    kept, _ = update(params, state, params)
    assert same(kept, libshampoo.jax.shampoo(0.1, **KEYS).update(params, state, params)[0])
    skipping = libshampoo.jax.shampoo(0.1, on_nonfinite="skip_step", **KEYS)
    updates, after = jax.jit(skipping.update)(broken, skipping.init(params), params)
    assert not any(np.asarray(leaf).any() for leaf in jax.tree.leaves(updates))
    assert same(after.arena, skipping.init(params).arena)
