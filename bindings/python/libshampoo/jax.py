# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shampoo as a gradient transformation for JAX, in the manner of optax. docs/jax.md is the guide."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .keys import make_config, read_key
from .params import Param
from .plan import Plan
from .xla_call import Program, jax

jnp = jax.numpy

__all__ = ["GradientTransformation", "ShampooState", "plan", "shampoo"]


class ShampooState(NamedTuple):
    """All that an optimizer remembers: a pytree of arrays, to be kept with the parameters.

    Attributes
    ----------
    count : jax.Array
        Steps made: what a schedule is asked with.
    learning_rate : jax.Array
        Of the last step; of the next one, too, where ``shampoo`` was given a number. Another can be put in its place.
    arena : jax.Array
        State of the library, as bytes. What they mean depends on the parameters and keys, and the version.
    """

    count: jax.Array
    learning_rate: jax.Array
    arena: jax.Array


class GradientTransformation(NamedTuple):
    """``init(params)`` and ``update(grads, state, params)``: for optax one of its own."""

    init: Callable[..., ShampooState]
    update: Callable[..., tuple[Any, ShampooState]]


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    """Give names and leaves; what is no array yet is told by its shape and dtype."""
    found = jax.tree_util.tree_flatten_with_path(tree)[0]
    if not found:
        raise ValueError("params: there is no parameter")
    leaves = [leaf if hasattr(leaf, "shape") and hasattr(leaf, "dtype") else jnp.asarray(leaf) for _, leaf in found]
    return [(jax.tree_util.keystr(path) or "params", leaf) for (path, _), leaf in zip(found, leaves)]


def _dtype(leaf: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(leaf.dtype)


class _Shampoo:
    """The two functions of a transformation, and a program for every structure of parameters they have met."""

    def __init__(
        self,
        learning_rate: Any,
        stack_dims: int | Callable[[str], int],
        update_dtype: Any,
        threads: int,
        keys: dict[str, Any],
    ) -> None:
        self._learning_rate, self._stack_dims, self._update_dtype = learning_rate, stack_dims, update_dtype
        self._threads, self._keys = threads, keys
        computation = str(read_key(make_config(keys), "computation_dtype"))
        self._computation_dtype = {"f32": "float32", "f64": "float64"}.get(computation)
        self._programs: dict[Any, Program] = {}

    def _out_dtype(self, param: Any) -> Any:
        wanted = self._update_dtype
        if wanted is None:
            # That of the arithmetic, as in the library where computation_dtype is auto.
            wanted = self._computation_dtype or ("float64" if _dtype(param) == jnp.float64 else "float32")
        return jax.dtypes.canonicalize_dtype(wanted)

    def _program(self, params: Sequence[tuple[str, Any]], grad_dtypes: Sequence[Any]) -> Program:
        dtypes = [(_dtype(param), grad, self._out_dtype(param)) for (_, param), grad in zip(params, grad_dtypes)]
        key = tuple((name, param.shape, *kinds) for (name, param), kinds in zip(params, dtypes))
        if key not in self._programs:
            described = [
                (name, self._describe(name, param.shape, *kinds)) for (name, param), kinds in zip(params, dtypes)
            ]
            self._programs[key] = Program(described, self._threads, {**self._keys, "output": "updates"})
        return self._programs[key]

    def plan(self, params: Any) -> Plan:
        leaves = _leaves(params)
        return self._program(leaves, [_dtype(leaf) for _, leaf in leaves]).plan

    def _describe(self, name: str, shape: tuple[int, ...], dtype: Any, grad: Any, out: Any) -> Param:
        stack_dims = self._stack_dims(name) if callable(self._stack_dims) else self._stack_dims
        array = jax.ShapeDtypeStruct(shape, dtype)
        return Param(array, stack_dims=min(stack_dims, len(shape)), grad_dtype=grad, out_dtype=out)

    def _next_learning_rate(self, count: jax.Array, kept: Any) -> jax.Array:
        rate = self._learning_rate
        if callable(rate):
            rate = rate(count)
        elif isinstance(rate, (int, float)) and kept is not None:
            rate = kept
        rate = jnp.asarray(rate)
        return rate.astype(rate.dtype if rate.dtype == jnp.float64 else jnp.float32).reshape(())

    def init(self, params: Any) -> ShampooState:
        leaves = _leaves(params)
        count = jnp.zeros((), jnp.int32)
        arena = self._program(leaves, [_dtype(leaf) for _, leaf in leaves]).init()
        return ShampooState(count, self._next_learning_rate(count, None), arena)

    def update(self, grads: Any, state: ShampooState, params: Any = None) -> tuple[Any, ShampooState]:
        if params is None:
            raise ValueError("update: the parameters are needed, too: update(grads, state, params)")
        structure: Any = jax.tree_util.tree_structure(params)
        leaves = _leaves(params)
        try:
            given = structure.flatten_up_to(grads)
        except (TypeError, ValueError) as error:
            raise ValueError(f"update: the gradients are not of the structure of the parameters: {error}") from error
        arrays = [jnp.asarray(leaf) for _, leaf in leaves]
        gradients = [None if grad is None else jnp.asarray(grad) for grad in given]
        for (name, leaf), grad in zip(leaves, gradients):
            if grad is not None and grad.shape != leaf.shape:
                raise ValueError(f"gradient of {name!r}: shape {grad.shape}, and the parameter has {leaf.shape}")
        grad_dtypes = [array.dtype if grad is None else grad.dtype for array, grad in zip(arrays, gradients)]
        program = self._program(leaves, grad_dtypes)
        if state.arena.shape != (program.state_bytes,):
            raise ValueError(
                f"update: the state has {state.arena.shape} bytes, and that of these parameters and keys has "
                f"{program.state_bytes}: it is of others, make it anew with init"
            )
        rate = self._next_learning_rate(state.count, state.learning_rate)
        out_dtypes = [self._out_dtype(array) for array in arrays]
        arena, updates = program.step(rate, jnp.asarray(state.arena), arrays, gradients, out_dtypes)
        return structure.unflatten(updates), ShampooState(state.count + 1, rate, arena)


def shampoo(
    learning_rate: Any,
    *,
    stack_dims: int | Callable[[str], int] = 0,
    update_dtype: Any = None,
    threads: int = 0,
    **keys: Any,
) -> GradientTransformation:
    """Make a gradient transformation, for use alone or in a chain of optax.

    ``update`` is pure: it gives the updates, which already are times the negative learning rate, and the next state.
    Compile it, and donate the state (``jax.jit(step, donate_argnums=...)``): then a step works in place. Where the leaf
    of a gradient is None the parameter stays as it is, and so does its state; its update is zero.

    Parameters
    ----------
    learning_rate
        A number, which is kept in the state and can be changed there; an array, or a tracer; or a function of the
        number of steps made, such as a schedule of optax. Another value never compiles anew.
    stack_dims
        How many leading dims of a parameter only stack separate tensors: 1 for the weights of layers that a
        ``jax.lax.scan`` goes through. A number for all, or a function of the name as ``jax.tree_util.keystr`` gives it.
    update_dtype
        Dtype of updates; by default that of the arithmetic: float64 for parameters of float64, else float32. So
        parameters of 16 bits are rounded once, when ``optax.apply_updates`` has added.
    threads
        That work on a step; 0: as many processors as the process may use.
    **keys
        Hyper-parameters: ``grafting``, ``weight_decay``, ...; ``libshampoo.KEYS`` has them with their documentation.

    Raises
    ------
    TypeError
        There is no such key.
    ValueError
        A value is out of range, or parameters, gradients and state do not fit together.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from libshampoo.jax import shampoo
    >>> tx = shampoo(0.5, grafting="adam")
    >>> params = {"w": jnp.ones((4, 3))}  # minimize |w|^2 / 2
    >>> state, update = tx.init(params), jax.jit(tx.update)
    >>> for _ in range(100):
    ...     updates, state = update(params, state, params)
    ...     params = jax.tree.map(jnp.add, params, updates)
    >>> bool(abs(params["w"]).max() < 1e-2)
    True
    """
    _check_keys(keys)
    made = _Shampoo(learning_rate, stack_dims, update_dtype, threads, keys)
    return GradientTransformation(made.init, made.update)


def plan(
    params: Any,
    *,
    stack_dims: int | Callable[[str], int] = 0,
    update_dtype: Any = None,
    threads: int = 0,
    **keys: Any,
) -> Plan:
    """Work out what ``shampoo`` of the same keys makes of parameters: blocks, and memory on the CPU.

    Parameters
    ----------
    params
        A pytree of arrays, or of what has a shape and a dtype: ``jax.eval_shape(init, key)`` is enough.
    stack_dims, update_dtype, threads, **keys
        As of ``shampoo``, without its learning rate.

    Examples
    --------
    >>> import jax
    >>> from libshampoo.jax import plan
    >>> params = {"layer": {"w": jax.ShapeDtypeStruct((2048, 1024), "float32")}}
    >>> print(plan(params).describe()[0])
    ['layer']['w']  f32  2048x1024 -> 2 of 1024x1024
    """
    if "learning_rate" in keys or "lr" in keys:
        raise TypeError("a plan does not depend on the learning rate: leave it out")
    _check_keys(keys)
    return _Shampoo(0.0, stack_dims, update_dtype, threads, keys).plan(params)


def _check_keys(keys: dict[str, Any]) -> None:
    for name, instead in (("lr", "learning_rate"), ("output", "the default: an update is what is to be added")):
        if name in keys:
            raise TypeError(f"the key {name!r} cannot be set here: use {instead}")
