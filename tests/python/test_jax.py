# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that steps of libshampoo.jax are pure, update donated states in place, and match libshampoo.Optimizer."""
from __future__ import annotations

import gc
import inspect
import os
import threading
import typing
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import libshampoo
import libshampoo.jax
from libshampoo.keywords import Keywords

KEYS: dict[str, Any] = {"grafting": "adam", "precondition_frequency": 2, "beta2": 0.99}
SHAPES = {"layer": {"w": (24, 17), "b": (17,)}, "scale": (), "empty": (0, 3)}


def draw(seed: int, dtype: Any = np.float32) -> Any:
    random = np.random.default_rng(seed)
    of_shape = lambda shape: jnp.asarray(np.asarray(random.standard_normal(shape), np.float32).astype(dtype))  # noqa: E731
    return jax.tree.map(of_shape, SHAPES, is_leaf=lambda leaf: isinstance(leaf, tuple))


def same(left: Any, right: Any) -> bool:
    """Return whether two trees are bit-identical."""
    pairs = zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True)
    return all(np.asarray(a).tobytes() == np.asarray(b).tobytes() for a, b in pairs)


def in_numpy(params: Any, rates: list[float], grads: list[Any], **keys: Any) -> list[list[np.ndarray]]:
    """Return the updates of each step as computed by libshampoo.Optimizer."""
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


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
@pytest.mark.parametrize("keys", [{"averaging": "gpa"}, {"weight_ema": 0.75}])
def test_averages_are_bit_identical_to_those_of_libshampoo_optimizer(dtype: Any, keys: dict[str, Any]) -> None:
    tx = libshampoo.jax.shampoo(0.1, **KEYS, **keys)
    params = draw(1, dtype)
    leaves = [np.array(leaf) for leaf in jax.tree.leaves(params)]
    opt = libshampoo.Optimizer(leaves, lr=0.1, **KEYS, **keys)
    state, update = tx.init(params), jax.jit(tx.update)
    export = jax.jit(lambda params, state: libshampoo.jax.export(tx, params, state, blend=0.75))
    averages = [np.zeros_like(leaf) for leaf in leaves]
    for t in range(4):
        updates, state = update(draw(t + 2, dtype), state, params)
        params = jax.tree.map(lambda param, change: (param + change).astype(param.dtype), params, updates)
        opt.step([np.array(leaf) for leaf in jax.tree.leaves(draw(t + 2, dtype))])
        opt.export(averages, blend=0.75)
        assert same(export(params, state), averages)
        assert same(params, leaves)
    assert not same(params, averages)


def test_an_export_needs_a_transformation_and_its_state() -> None:
    tx, params = libshampoo.jax.shampoo(0.1, weight_ema=0.5), draw(1)
    other = libshampoo.jax.GradientTransformation(lambda params: tx.init(params), lambda *args: tx.update(*args))
    with pytest.raises(TypeError, match="tx is not a transformation of libshampoo.jax.shampoo"):
        libshampoo.jax.export(other, params, tx.init(params))
    with pytest.raises(ValueError, match="export: the arena of the state has shape"):
        libshampoo.jax.export(tx, {"w": params["layer"]["w"]}, tx.init(params))


def test_a_step_with_a_donated_state_works_in_place() -> None:
    """Checks that the arena is not copied: it keeps its address, and XLA has no buffer for a second arena."""
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
    assert same(first, tx.update(draw(9), state, params)), "the compiled step must give bit-identical results"


def test_a_new_state_has_no_uninitialized_bytes() -> None:
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    params = {"w": jnp.ones((2, 24, 17))}
    arenas = []
    for byte in (0, 255):
        for _ in range(8):
            jax.block_until_ready([jnp.full(tx.init(params).arena.shape, byte, jnp.uint8) for _ in range(8)])
        arenas.append([np.asarray(tx.init(params).arena) for _ in range(8)])
    assert all(same(arena, arenas[0][0]) for arena in arenas[0] + arenas[1])


def test_changing_the_learning_rate_does_not_recompile() -> None:
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


@pytest.mark.parametrize("kind", ["number", "schedule", "traced"])
def test_learning_rates_have_the_same_effect_as_in_libshampoo_optimizer(kind: str) -> None:
    rates = [0.5, 0.25, 0.125, 0.0625]
    params, grads = draw(1), [draw(t + 2) for t in range(4)]
    expected = in_numpy(params, rates, grads, weight_decay=0.1)

    @jax.jit
    def step(rate: Any, grad: Any, state: Any, params: Any) -> Any:
        rate = rate if kind == "traced" else (lambda count: 0.5 / 2**count) if kind == "schedule" else 7.0
        updates, state = libshampoo.jax.shampoo(rate, weight_decay=0.1, **KEYS).update(grad, state, params)
        return updates, state, jax.tree.map(jnp.add, params, updates)

    state = libshampoo.jax.shampoo(7.0, weight_decay=0.1, **KEYS).init(params)
    for t, rate in enumerate(rates):
        if kind == "number":
            state = state._replace(learning_rate=jnp.float32(rate))
        elif kind == "traced":  # the rate in the state has no effect
            state = state._replace(learning_rate=jnp.float32(9), configured_learning_rate=jnp.float32(rate))
        updates, state, params = step(jnp.float32(rate), grads[t], state, params)
        assert same(updates, expected[t]), f"step {t}"
        assert float(state.learning_rate) == rate
    assert step._cache_size() == 1


@pytest.mark.parametrize("rate", [0.25, lambda count: 0.25], ids=["number", "schedule"])
def test_a_state_keeps_its_dtypes_in_a_process_with_float64(rate: Any) -> None:
    """jax.lax.scan needs a step that keeps the dtypes of the state. Here, float64 is enabled after init."""
    params, grads, tx = draw(1), draw(2), libshampoo.jax.shampoo(rate, **KEYS)
    state = tx.init(params)
    jax.config.update("jax_enable_x64", True)
    try:
        after, _ = jax.lax.scan(lambda state, _: (tx.update(grads, state, params)[1], None), state, length=2)
    finally:
        jax.config.update("jax_enable_x64", False)
    assert [leaf.dtype for leaf in after] == [leaf.dtype for leaf in state]
    assert after.learning_rate == 0.25 and after.count == 2


@pytest.mark.parametrize("make", [float, np.float32, np.array, jnp.float32, jnp.array], ids=lambda make: make.__name__)
@pytest.mark.parametrize("compiled", [True, False])
def test_a_learning_rate_in_the_state_replaces_a_number_of_any_type(make: Any, compiled: bool) -> None:
    """Checks that a step uses the rate that was changed last: the rate in the state, or the argument of shampoo()."""
    params, grads = draw(1), draw(2)
    expected = [libshampoo.jax.shampoo(rate, **KEYS) for rate in (0.5, 0.25, 0.125)]
    expected = [tx.update(grads, tx.init(params), params)[0] for tx in expected]
    first, other = (libshampoo.jax.shampoo(make(rate), **KEYS) for rate in (0.5, 0.125))
    update, update_of_other = (jax.jit(tx.update) if compiled else tx.update for tx in (first, other))
    state = first.init(params)
    assert same(update(grads, state, params)[0], expected[0])
    changed = state._replace(learning_rate=jnp.float32(0.25))
    updates, after = update(grads, changed, params)
    assert same(updates, expected[1]) and float(after.learning_rate) == 0.25
    assert float(update(grads, after, params)[1].learning_rate) == 0.25, "the rate in the state must not change"
    updates, resumed = update_of_other(grads, changed, params)
    assert same(updates, expected[2]), "a run that is resumed with another rate must use that rate"
    assert float(update_of_other(grads, resumed, params)[1].learning_rate) == 0.125


@pytest.mark.parametrize("rate", [0.1, lambda count: 0.1 / (count + 1.0)], ids=["number", "schedule"])
@pytest.mark.parametrize("compiled", [True, False])
def test_a_state_is_donated_as_a_whole(rate: Any, compiled: bool) -> None:
    """Checks that a state can be donated. JAX cannot donate a state that contains an array twice."""
    tx = libshampoo.jax.shampoo(rate, **KEYS)
    params = draw(1)
    state = jax.jit(tx.init)(params) if compiled else tx.init(params)
    donating = jax.jit(tx.update, donate_argnums=1)
    for t in range(3):
        if not compiled:
            _, state = tx.update(draw(t + 2), state, params)
        _, state = donating(draw(t + 2), state, params)
    assert int(state.count) == (3 if compiled else 6) and donating._cache_size() == 1


def test_a_tree_without_parameters_is_allowed() -> None:
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    for tree in ({}, (), {"layer": {}, "other": []}):
        for init, update in ((tx.init, tx.update), (jax.jit(tx.init), jax.jit(tx.update))):
            state = init(tree)
            assert state.arena.shape == (0,) and state.arena.dtype == jnp.uint8
            updates, state = update(tree, state, tree)
            assert jax.tree.structure(updates) == jax.tree.structure(tree)
            assert int(state.count) == 1 and state.arena.shape == (0,)


def test_update_ignores_extra_arguments() -> None:
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    params = draw(1)
    expected = tx.update(params, tx.init(params), params)
    assert same(tx.update(params, tx.init(params), params, value=1.0, grad=None), expected)


def test_subnormal_numbers_are_kept() -> None:
    """Checks that a step keeps subnormal numbers, although XLA's threads flush such numbers to zero."""
    params = {"w": jnp.ones((6, 5))}
    grads = {"w": jnp.asarray(np.full((6, 5), 3e-40, np.float32))}
    keys = {"grafting": "sgd", "preset": "shampoo_2024"}
    (expected,) = in_numpy(params, [1.0], [grads], **keys)
    updates, _ = jax.jit(libshampoo.jax.shampoo(1.0, **{**KEYS, **keys}).update)(
        grads, libshampoo.jax.shampoo(1.0, **{**KEYS, **keys}).init(params), params
    )
    assert np.asarray(updates["w"]).any()
    assert same(updates, expected)


def test_parameters_gradients_and_updates_can_have_different_dtypes() -> None:
    params, grads = draw(1, jnp.bfloat16), draw(2, jnp.float32)
    tx = libshampoo.jax.shampoo(0.1, **KEYS)
    updates, _ = jax.jit(tx.update)(grads, tx.init(params), params)
    assert {leaf.dtype for leaf in jax.tree.leaves(updates)} == {jnp.dtype(jnp.float32)}
    narrow = libshampoo.jax.shampoo(0.1, update_dtype=jnp.bfloat16, **KEYS)
    rounded, _ = jax.jit(narrow.update)(grads, narrow.init(params), params)
    assert same(rounded, jax.tree.map(lambda u: u.astype(jnp.bfloat16), updates))


def test_updates_have_the_dtypes_that_update_dtype_chooses() -> None:
    params, grads = draw(1), draw(2)
    params["layer"]["w"] = params["layer"]["w"].astype(jnp.bfloat16)
    params["scale"] = params["scale"].astype(jnp.float16)

    def updates(update_dtype: Any) -> Any:
        tx = libshampoo.jax.shampoo(0.1, update_dtype=update_dtype, **KEYS)
        return jax.jit(tx.update)(grads, tx.init(params), params)[0]

    def same_dtypes(tree: Any, other: Any) -> bool:
        return [leaf.dtype for leaf in jax.tree.leaves(tree)] == [leaf.dtype for leaf in jax.tree.leaves(other)]

    def cast(tree: Any, like: Any) -> Any:
        return jax.tree.map(lambda leaf, other: leaf.astype(other.dtype), tree, like)

    arithmetic = updates(None)
    assert {leaf.dtype for leaf in jax.tree.leaves(arithmetic)} == {jnp.dtype(jnp.float32)}
    assert same(updates("params"), cast(arithmetic, params))
    assert same_dtypes(updates("params"), params)
    of_name = updates(lambda name: "params" if "'w'" in name else jnp.float16 if "'b'" in name else None)
    found = {name: of_name["layer"][name].dtype.name for name in "wb"} | {"scale": of_name["scale"].dtype.name}
    assert found == {"w": "bfloat16", "b": "float16", "scale": "float32"}


def test_the_signature_has_every_key() -> None:
    """Editors and optax.inject_hyperparams read the signature."""
    replaced = {"lr", "output"}
    for function, first in ((libshampoo.jax.shampoo, "learning_rate"), (libshampoo.jax.plan, "params")):
        parameters = inspect.signature(function).parameters
        own = [first, "stack_dims", "describe", "update_dtype", "threads"]
        assert list(parameters)[:5] == own
        assert set(parameters) == {*own, *libshampoo.KEYS} - replaced
        assert all(parameter.kind is parameter.KEYWORD_ONLY for name, parameter in parameters.items() if name != first)
        assert all(parameter.default is None for name, parameter in parameters.items() if name != first)
        hints = typing.get_type_hints(function)
        assert list(hints) == [*parameters, "return"] and hints["beta1"] == float | str | None
    types = {"f64": "float | str | None", "i64": "int | None", "bool": "bool | None", "choice": "str | None",
             "dtype": "Any", "list": "int | str | Sequence[int] | None",
             "text": "str | Sequence[Sequence[float]] | None"}  # fmt: skip
    expected = {name: types[key.value_type] for name, key in libshampoo.KEYS.items()}
    for name in ("threads", *replaced):
        expected.pop(name)
    assert {name: kind.__forward_arg__ for name, kind in Keywords.__annotations__.items()} == expected
    assert libshampoo.jax.Shampoo is libshampoo.jax.shampoo


def test_the_value_none_selects_the_default_of_a_key() -> None:
    params, nothing = draw(1), {name: None for name in Keywords.__annotations__}
    expected = libshampoo.jax.plan(params, preset="shampoo_2024")
    found = libshampoo.jax.plan(params, **{**nothing, "preset": "shampoo_2024"})
    assert repr(found) == repr(expected)
    states = [libshampoo.jax.shampoo(0.1, **keys).init(params) for keys in (nothing, {})]
    assert same(*states)


def test_keys_take_scalar_arrays() -> None:
    params, grads = draw(1), draw(2)
    keys = {"weight_decay": 0.5, "precondition_frequency": 2, "use_merge_dims": False, "beta2": 0.75}
    expected = libshampoo.jax.shampoo(0.1, **keys)
    expected = expected.update(grads, expected.init(params), params)
    for make in (np.array, jnp.array):
        tx = libshampoo.jax.shampoo(0.1, **{name: make(value) for name, value in keys.items()})
        assert same(tx.update(grads, tx.init(params), params), expected)
        stacked = libshampoo.jax.plan({"w": jnp.ones((3, 8, 4))}, stack_dims=make(1), threads=make(1))
        assert len(stacked.blocks) == 3


def test_describe_sets_roles_and_row_splits() -> None:
    params = {"embed": jnp.ones((40, 8)), "qkv": jnp.ones((8, 24)), "out": jnp.ones((8, 8))}
    options = {"['embed']": {"role": "embedding"}, "['qkv']": {"row_splits": (8,), "fan": "in_out"}}
    describe = lambda name: options.get(name, {})  # noqa: E731
    found = libshampoo.jax.plan(params, describe=describe, preset="soap")
    shapes = [(block.param, block.shape) for block in found.blocks]
    assert shapes == [("['embed']", (40, 8)), ("['out']", (8, 8))] + [("['qkv']", (8, 8))] * 3
    # A compiled step must use ``describe``, too, otherwise the state would have the wrong size.
    tx = libshampoo.jax.shampoo(0.1, describe=describe, preset="soap")
    state = tx.init(params)
    assert state.arena.shape == (found.bytes("state"),)
    jax.jit(tx.update)(params, state, params)
    with pytest.raises(TypeError, match="describe: .* the option 'rows' for .*expected role, row_splits or fan"):
        libshampoo.jax.plan(params, describe=lambda name: {"rows": 1})
    with pytest.raises(TypeError, match="describe: .* returned None for .*expected a mapping"):
        libshampoo.jax.plan(params, describe=lambda name: None)


@pytest.mark.parametrize("name", ["weight_decay", "precondition_frequency", "use_merge_dims", "stack_dims", "threads"])
def test_the_error_for_a_traced_value_names_its_key(name: str) -> None:
    words = f"{name}: the value is traced .*only the learning rate can change.*static_args='{name}'"
    with pytest.raises(TypeError, match=words):
        jax.jit(lambda value: libshampoo.jax.shampoo(0.1, **{name: value}).init(draw(1)))(1)


#: Shapes of the parameters of 6 stacked layers.
LAYERS = {"attention": {"w": (6, 16, 48), "b": (6, 48)}, "scale": (6, 16), "gate": (6,)}
#: Trees of shapes in which no layers are stacked, such as those of convolutions.
CONVOLUTIONS: dict[str, Any] = {
    "images": {"one": {"w": (3, 3, 3, 16), "b": (16,)}, "two": {"w": (3, 3, 16, 32), "b": (32,)}},
    "images without biases": {"one": (3, 3, 3, 16), "two": (3, 3, 16, 32), "three": (3, 3, 32, 64)},
    "images of three channels": {"w": (3, 3, 16, 3), "b": (3,)},
    "equinox": {"one": {"w": (16, 3, 5), "b": (16, 1)}, "two": {"w": (16, 16, 5, 5), "b": (16, 1, 1)}},
    "heads": {"q": {"w": (16, 4, 8), "b": (4, 8)}, "out": {"w": (4, 8, 16), "b": (16,)}, "mlp": (16, 64), "n": (16,)},
    "a matrix and a vector": {"w": (6, 16), "b": (6,)},
    "one layer": {"w": (1, 16, 48), "b": (1, 48)},
    "nothing in common": {"w": (6, 16, 48), "b": (7, 48)},
}


def shapes(tree: Any) -> Any:
    is_shape = lambda leaf: isinstance(leaf, tuple)  # noqa: E731
    return jax.tree.map(lambda shape: jax.ShapeDtypeStruct(shape, jnp.float32), tree, is_leaf=is_shape)


def test_stacked_layers_without_stack_dims_cause_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libshampoo.jax, "_warned", set())
    params = shapes({"embedding": (100, 16), "layers": LAYERS, "more": {"layers": {"w": (2, 9, 9), "b": (2, 9)}}})
    tx = libshampoo.jax.shampoo(0.1)
    with pytest.warns(UserWarning) as caught:
        tx.init(params)
    texts = [str(warning.message) for warning in caught]
    assert len(texts) == 2
    assert "the 4 parameters under ['layers'] look like 6 stacked layers" in texts[0]
    assert "['layers']['attention']['w'] has shape (6, 16, 48)" in texts[0]
    assert "the 2 parameters under ['more'] look like 2 stacked layers" in texts[1]
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tx.init(params)  # after the first call, the same tree causes no warning
        libshampoo.jax.shampoo(0.2).init(params)
        other = shapes({"embedding": (200, 16), "layers": LAYERS})
        for stack_dims in (0, 1, lambda name: name.startswith("['layers']")):
            libshampoo.jax.shampoo(0.1, stack_dims=stack_dims).init(other)
            libshampoo.jax.plan(other, stack_dims=stack_dims)
        libshampoo.jax._warned.clear()
        # The warning recommends a function: stack_dims=1 would also turn each row of the embedding into a vector.
        with pytest.raises(UserWarning, match=r"Pass stack_dims=lambda name: name.startswith\(\"\['layers'\]\"\)\."):
            libshampoo.jax.plan(other)
    with pytest.warns(UserWarning, match=r"the 2 parameters look like 6 .* Pass stack_dims=1\. If .* stack_dims=0"):
        libshampoo.jax.plan(shapes(LAYERS["attention"]))
    with pytest.warns(UserWarning, match=r"the 4 parameters look like 6 .* Pass stack_dims=1\. If .* stack_dims=0"):
        libshampoo.jax.plan(shapes({"layers": LAYERS}))


@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_tensors_that_are_not_stacked_cause_no_warning(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libshampoo.jax, "_warned", set())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        libshampoo.jax.shampoo(0.1).init(shapes(CONVOLUTIONS[kind]))


def test_a_parameter_without_a_gradient_does_not_change() -> None:
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


def test_vmap_scan_and_eval_shape_work() -> None:
    keys = {**KEYS, "precondition_frequency": 1}  # every step computes inverse roots
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


def test_threads_step_at_the_same_time() -> None:
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


def test_the_linear_algebra_and_environment_of_jax_do_not_change() -> None:
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


STACKED = r"stack_dims: 2 for \['v'\], which has 1 dimension; expected at least 0 and at most 1. .* a function that takes"


def test_errors_name_the_argument_and_its_value() -> None:
    make, params = libshampoo.jax.shampoo, draw(1)
    tx = make(0.1, **KEYS)
    state = tx.init(params)
    for rejected, kind, words in [
        (lambda: make(0.1, beta9=1), TypeError, "did you mean beta[12][?] libshampoo.KEYS has all"),
        (lambda: make(0.1, b1=0.9), TypeError, '"b1": use beta1'),
        (lambda: make(0.1, lr=1), TypeError, "learning_rate"),
        (lambda: make(0.1, output="params"), TypeError, "output"),
        (lambda: make(0.1, beta2=7), ValueError, "beta2"),
        (lambda: make(None), TypeError, "learning_rate: None; expected a number"),
        (lambda: make("fast"), TypeError, "learning_rate: 'fast'; expected a number"),
        (lambda: make(jnp.ones(3)), TypeError, "learning_rate: .*; expected a number"),
        (lambda: make(lr=0.1), TypeError, "learning_rate is missing; expected .*; pass lr as learning_rate$"),
        (lambda: make(), TypeError, "learning_rate is missing; expected a number, .* or a function of the step count$"),
        (lambda: make(-0.1), ValueError, "^learning_rate: the value -0.1 is not allowed: expected a float: >= 0$"),
        (lambda: make(jnp.float32(-0.5)), ValueError, "learning_rate: the value -0.5 is not allowed"),
        (lambda: make(np.array([-0.5])), ValueError, "learning_rate: the value -0.5 is not allowed"),
        (lambda: make(float("nan")), ValueError, "learning_rate: the value nan is not allowed"),
        (lambda: make(0.1, weight_decay=np.ones(2)), TypeError, r"weight_decay: an array of shape \(2,\); expected a"),
        (lambda: make(0.1, beta1=lambda count: 0.9), TypeError, "beta1: a function; expected .* Only learning_rate"),
        (lambda: make(0.1, stack_dims="1").init(params), TypeError, "stack_dims: '1' for .*; expected an integer"),
        (lambda: make(0.1, stack_dims=2).init({"v": jnp.ones(3)}), ValueError, STACKED),
        (lambda: libshampoo.jax.plan({"v": jnp.ones(3)}, stack_dims=lambda name: 2), ValueError, STACKED),
        (lambda: libshampoo.jax.plan({"v": jnp.ones(3)}, stack_dims=-1), ValueError, "stack_dims: -1 .*at least 0 and at most 1"),
        (lambda: make(0.1, update_dtype="int8").init(params), ValueError, "update_dtype: 'int8' for .*; expected fl"),
        (lambda: make(0.1, update_dtype="parms").init(params), ValueError, "update_dtype: 'parms' for .*; expected"),
        (lambda: libshampoo.jax.plan({}), ValueError, "no parameter"),
        (lambda: tx.update({"w": 1.0}, tx.init({}), {}), ValueError, "structure of the parameters"),
        (lambda: tx.update({}, state, {}), ValueError, "create a new state with init"),
        (lambda: tx.init({"k": jnp.arange(3)}), ValueError, r"\['k'\].*int32"),
        (lambda: tx.update(params, state), ValueError, "params is missing"),
        (lambda: tx.update(params["layer"], state, params), ValueError, "structure of the parameters"),
        (lambda: tx.update({**params, "scale": {"a": 1.0}}, state, params), (TypeError, ValueError), "."),
        (lambda: tx.update(jax.tree.map(lambda p: p[None], params), state, params), ValueError, "gradient of .*shape"),
        (lambda: tx.update(params["layer"], state, params["layer"]), ValueError, "create a new state with init"),
    ]:
        with pytest.raises(kind, match=words):
            rejected()


def test_a_plan_of_a_pytree_equals_the_plan_of_the_transformation() -> None:
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


def test_the_error_of_a_step_contains_the_message_of_the_library() -> None:
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
