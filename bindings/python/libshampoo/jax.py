# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shampoo as a gradient transformation for JAX, with the interface of optax. docs/jax.md is the guide."""
from __future__ import annotations

import functools
import inspect
import operator
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np

from .errors import InvalidError
from .keys import KEYS, make_config, read_key
from .keywords import Keywords
from .params import Param, checked_describe, param_options
from .plan import Plan
from .text import count_text
from .xla_call import Program, jax

if TYPE_CHECKING:
    from typing_extensions import Unpack

jnp = jax.numpy

__all__ = ["GradientTransformation", "Shampoo", "ShampooState", "export", "plan", "shampoo"]

#: Keys that cannot be passed to ``shampoo``, and what to do instead.
_REPLACED = {
    "lr": "use the argument learning_rate",
    "output": "leave the key out, because update always returns the values to add to the parameters",
}
_LEARNING_RATE = "a number, a scalar array or a function of the step count"
_DTYPES = ("float32", "float64", "float16", "bfloat16")
_warned: set[str] = set()
_Function = TypeVar("_Function", bound=Callable[..., Any])


class ShampooState(NamedTuple):
    """State of an optimizer: a pytree of arrays. Save it with the parameters.

    Attributes
    ----------
    count : jax.Array
        Number of steps so far. If the learning rate is a schedule, it is called with this number.
    learning_rate : jax.Array
        Learning rate of the last step. If the argument ``learning_rate`` of ``shampoo`` is a number, the next step uses
        this value, too. Replace the value to change the learning rate.
    configured_learning_rate : jax.Array
        Value of the argument ``learning_rate`` of ``shampoo`` at the last step. If the transformation of the next step
        was created with another number, that number replaces the field ``learning_rate``.
    arena : jax.Array
        State of the library, as bytes. The layout depends on the parameters, the keys and the version of the library.
    """

    count: jax.Array  # type: ignore[assignment,unused-ignore]  # this field hides tuple.count, as in optax
    learning_rate: jax.Array
    configured_learning_rate: jax.Array
    arena: jax.Array


class GradientTransformation(NamedTuple):
    """A pair of functions ``init(params)`` and ``update(grads, state, params)``, like optax.GradientTransformation."""

    init: Callable[..., ShampooState]
    update: Callable[..., tuple[Any, ShampooState]]


class _Leaf(NamedTuple):
    """One parameter: the names of the subtrees that contain it (the outermost first), its own name, and its array."""

    subtrees: tuple[str, ...]
    name: str
    array: Any


def _leaves(tree: Any) -> list[_Leaf]:
    """Return the leaves of a tree. A leaf is an array, a number, or any object with a shape and a dtype."""
    keystr, leaves = jax.tree_util.keystr, []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        array = leaf if hasattr(leaf, "shape") and hasattr(leaf, "dtype") else jnp.asarray(leaf)
        leaves.append(_Leaf(tuple(keystr(path[:end]) for end in range(len(path))), keystr(path) or "params", array))
    return leaves


def _dtype(leaf: Any) -> Any:
    return jax.dtypes.canonicalize_dtype(leaf.dtype)


def _is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


def _constant(name: str, value: Any) -> Any:
    """Check an argument that must be known when a step is compiled, and convert a 0-d array to a Python number."""
    if _is_traced(value):
        raise TypeError(
            f"{name}: the value is traced ({value}); only the learning rate can change between runs of a compiled "
            f"program. Pass a number; with optax.inject_hyperparams, also add static_args={name!r}"
        )
    if isinstance(value, (np.generic, np.ndarray, jax.Array)) and value.ndim == 0:
        return value.item()
    return value


def _constants(keys: dict[str, Any]) -> dict[str, Any]:
    """Check keyword arguments, and return those that are not None. None selects the default of a key."""
    found = {}
    for name, value in keys.items():
        if name in _REPLACED:
            raise TypeError(f"key {name}: cannot be set in libshampoo.jax; {_REPLACED[name]}")
        value = _constant(name, value)
        numeric = name in KEYS and KEYS[name].value_type in ("f64", "i64", "bool")
        if numeric and (callable(value) or hasattr(value, "shape")):
            kind = f"an array of shape {value.shape}" if hasattr(value, "shape") else "a function"
            raise TypeError(f"{name}: {kind}; expected a number. Only learning_rate can be a schedule")
        if value is not None:
            found[name] = value
    return found


def _check_learning_rate(rate: Any) -> Any:
    """Check a learning rate, and return it. It must be a function, a number or an array with one element.

    The value must be in the range of the key lr, unless ``rate`` is a function or is traced.
    """
    is_number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    is_scalar = hasattr(rate, "dtype") and np.size(rate) == 1 and jnp.isrealobj(rate) and rate.dtype != bool
    if not callable(rate) and not is_number and not is_scalar:
        raise TypeError(f"learning_rate: {rate!r}; expected {_LEARNING_RATE}")
    if not callable(rate) and not _is_traced(rate):
        try:
            make_config({"lr": float(np.asarray(rate).item())})
        except InvalidError as error:
            raise InvalidError(str(error).replace("key lr:", "learning_rate:", 1)) from None
    return rate


def _warn_about_stacks(leaves: Sequence[_Leaf]) -> None:
    """Warn about subtrees that look like stacked layers. docs/jax.md describes the rule."""
    subtrees: dict[str, list[_Leaf]] = {}
    for leaf in leaves:
        for subtree in leaf.subtrees:
            subtrees.setdefault(subtree, []).append(leaf)
    reported: list[str] = []
    for subtree, inside in subtrees.items():  # a subtree comes before the subtrees that it contains
        shapes = [tuple(leaf.array.shape) for leaf in inside]
        if any(subtree.startswith(outer) for outer in reported) or len({shape[:1] for shape in shapes}) != 1:
            continue
        layers = shapes[0][0] if shapes[0] else 0
        stacked_vector = any(len(shape) == 2 and shape[1] > 1 for shape in shapes)
        stacked_matrix = [leaf for leaf in inside if len(leaf.array.shape) > 2]
        if layers < 2 or not stacked_vector or not stacked_matrix:
            continue
        reported.append(subtree)
        first = stacked_matrix[0]
        # If other parameters are not stacked, stack_dims=1 would be wrong for them.
        stack_dims = "1" if len(inside) == len(leaves) else f"lambda name: name.startswith({subtree!r})"
        text = (
            f"libshampoo.jax: the {len(inside)} parameters {f'under {subtree} ' if subtree else ''}look like "
            f"{layers} stacked layers, as jax.lax.scan and jax.vmap use them ({first.name} has shape "
            f"{tuple(first.array.shape)}), and are preconditioned across layers. Pass "
            f"stack_dims={stack_dims}. If these parameters are not stacked layers, pass stack_dims=0"
        )
        if text not in _warned:
            warnings.warn(text, UserWarning, stacklevel=4)
            _warned.add(text)


class _Shampoo:
    """The functions of a transformation, and a ``Program`` (see xla_call.py) for each set of shapes and dtypes."""

    def __init__(
        self,
        learning_rate: Any,
        stack_dims: int | Callable[[str], int] | None,
        describe: Callable[[str], Mapping[str, Any]] | None,
        update_dtype: Any,
        threads: int | None,
        keys: dict[str, Any],
    ) -> None:
        self._options_of = checked_describe(describe)
        self._learning_rate, self._update_dtype = _check_learning_rate(learning_rate), update_dtype
        self._stack_dims, self._threads = _constant("stack_dims", stack_dims), _constant("threads", threads) or 0
        self._keys = _constants(keys)
        computation = str(read_key(make_config(self._keys), "computation_dtype"))
        self._computation_dtype = {"f32": "float32", "f64": "float64"}.get(computation)
        self._programs: dict[Any, Program] = {}

    def _out_dtype(self, name: str, param: Any) -> Any:
        wanted = self._update_dtype
        if callable(wanted) and not isinstance(wanted, type):  # jnp.bfloat16 is a type
            wanted = wanted(name)
        if isinstance(wanted, str) and wanted == "params":
            return _dtype(param)
        if wanted is None:
            # The dtype of the arithmetic. With computation_dtype=auto, it depends on the dtype of the parameter.
            wanted = self._computation_dtype or ("float64" if _dtype(param) == jnp.float64 else "float32")
        try:
            dtype = jax.dtypes.canonicalize_dtype(wanted)
        except TypeError:
            dtype = None
        if dtype is None or dtype.name not in _DTYPES:
            raise ValueError(
                f'update_dtype: {wanted!r} for {name}; expected {", ".join(_DTYPES)}, "params" or None'
            )
        return dtype

    def _program(self, params: Sequence[_Leaf], grad_dtypes: Sequence[Any]) -> Program:
        dtypes = [(_dtype(leaf.array), grad, self._out_dtype(*leaf[1:])) for leaf, grad in zip(params, grad_dtypes)]
        key = tuple((leaf.name, leaf.array.shape, *kinds) for leaf, kinds in zip(params, dtypes))
        if key not in self._programs:
            if self._stack_dims is None:
                _warn_about_stacks(params)
            described = [
                (leaf.name, self._describe(leaf.name, leaf.array.shape, *kinds)) for leaf, kinds in zip(params, dtypes)
            ]
            self._programs[key] = Program(described, self._threads, {**self._keys, "output": "updates"})
        return self._programs[key]

    def plan(self, params: Any) -> Plan:
        leaves = _leaves(params)
        if not leaves:
            raise ValueError("params: there are no parameters; expected at least one")
        return self._program(leaves, [_dtype(leaf.array) for leaf in leaves]).plan

    def _describe(self, name: str, shape: tuple[int, ...], dtype: Any, grad: Any, out: Any) -> Param:
        wanted = self._stack_dims(name) if callable(self._stack_dims) else self._stack_dims
        try:
            stack_dims = operator.index(0 if wanted is None else wanted)
        except TypeError:
            raise TypeError(f"stack_dims: {wanted!r} for {name}; expected an integer number of dimensions") from None
        if not 0 <= stack_dims <= len(shape):
            raise ValueError(
                f"stack_dims: {stack_dims} for {name}, which has {count_text(len(shape), 'dimension')}; expected at "
                f"least 0 and at most {len(shape)}. If only some parameters are stacked, pass a function "
                "that takes the name of a parameter and returns its stack_dims"
            )
        options = param_options(self._options_of, name)
        return Param(jax.ShapeDtypeStruct(shape, dtype), stack_dims, **options, grad_dtype=grad, out_dtype=out)

    def _next_learning_rates(self, count: jax.Array, state: ShampooState | None) -> tuple[jax.Array, jax.Array]:
        """Return ``learning_rate`` and ``configured_learning_rate`` of the next state. The step uses the former."""
        current = self._learning_rate(count) if callable(self._learning_rate) else self._learning_rate
        configured = rate = _as_learning_rate(current)
        if state is not None:
            last, before = map(_as_learning_rate, (state.learning_rate, state.configured_learning_rate))
            if not callable(self._learning_rate) and not _is_traced(current):
                # The configured rates are compared as float32, because a state may come from a process without float64.
                rate = jnp.where(configured.astype(jnp.float32) == before.astype(jnp.float32), last, rate)
            # A state keeps its dtypes, as jax.lax.scan requires.
            rate, configured = rate.astype(last.dtype), configured.astype(before.dtype)
        return rate, jnp.copy(configured)  # copied: a donated state must not contain one buffer twice

    def init(self, params: Any) -> ShampooState:
        leaves = _leaves(params)
        count = jnp.zeros((), jnp.int32)
        if leaves:
            arena = self._program(leaves, [_dtype(leaf.array) for leaf in leaves]).init()
        else:
            arena = jnp.zeros((0,), jnp.uint8)
        return ShampooState(count, *self._next_learning_rates(count, None), arena)

    def update(
        self, grads: Any, state: ShampooState, params: Any = None, **extra_args: Any
    ) -> tuple[Any, ShampooState]:
        """Return the updates and the next state. Extra arguments, such as ``value``, are ignored, as in optax."""
        if params is None:
            raise ValueError("update: params is missing; call update(grads, state, params)")
        structure: Any = jax.tree_util.tree_structure(params)
        leaves = _leaves(params)
        try:
            flat_grads = structure.flatten_up_to(grads)
        except (TypeError, ValueError) as error:
            raise ValueError(f"update: the gradients do not have the structure of the parameters: {error}") from error
        arrays = [jnp.asarray(leaf.array) for leaf in leaves]
        gradients = [None if grad is None else jnp.asarray(grad) for grad in flat_grads]
        for leaf, grad in zip(leaves, gradients):
            if grad is not None and grad.shape != leaf.array.shape:
                raise ValueError(f"gradient of {leaf.name!r}: shape {grad.shape}; expected {leaf.array.shape}")
        grad_dtypes = [array.dtype if grad is None else grad.dtype for array, grad in zip(arrays, gradients)]
        program = self._program(leaves, grad_dtypes) if leaves else None
        _check_arena("update", state, program)
        rate, configured = self._next_learning_rates(state.count, state)
        arena = jnp.asarray(state.arena)
        updates: list[jax.Array] = []
        if program is not None:
            out_dtypes = [self._out_dtype(leaf.name, array) for leaf, array in zip(leaves, arrays)]
            arena, updates = program.step(rate, arena, arrays, gradients, out_dtypes)
        return structure.unflatten(updates), ShampooState(state.count + 1, rate, configured, arena)


    def export(self, params: Any, state: ShampooState, blend: float) -> Any:
        leaves = _leaves(params)
        if not leaves:
            return params
        program = self._program(leaves, [_dtype(leaf.array) for leaf in leaves])
        _check_arena("export", state, program)
        arrays = [jnp.asarray(leaf.array) for leaf in leaves]
        dtypes = [self._out_dtype(leaf.name, array) for leaf, array in zip(leaves, arrays)]
        weights = program.export(blend, jnp.asarray(state.arena), arrays, dtypes)
        structure: Any = jax.tree_util.tree_structure(params)
        return structure.unflatten(weight.astype(array.dtype) for weight, array in zip(weights, arrays))


def _check_arena(function: str, state: ShampooState, program: Program | None) -> None:
    state_bytes = program.state_bytes if program is not None else 0
    if state.arena.shape != (state_bytes,):
        raise ValueError(
            f"{function}: the arena of the state has shape {state.arena.shape}, but these parameters and keys need "
            f"shape ({state_bytes},); create a new state with init"
        )


def _as_learning_rate(rate: Any) -> jax.Array:
    rate = jnp.asarray(rate)
    as_array: jax.Array = rate.astype(rate.dtype if rate.dtype == jnp.float64 else jnp.float32).reshape(())
    return as_array


def _with_keys(function: _Function) -> _Function:
    """In the signature and annotations of a function, replace ``**keys`` by one argument for each key (default None).

    ``optax.inject_hyperparams``, interactive shells and ``typing.get_type_hints`` read signatures or annotations.
    """
    signature = inspect.signature(function)
    parameters = [param for param in signature.parameters.values() if param.kind is not param.VAR_KEYWORD]
    known = {*_REPLACED, *signature.parameters}
    for name in KEYS:
        if name not in known:
            annotation = Keywords.__annotations__.get(name, "Any")
            annotation = getattr(annotation, "__forward_arg__", annotation)
            keyword = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            parameters.append(keyword)
    function.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {param.name: param.annotation for param in parameters}
    function.__annotations__["return"] = signature.return_annotation
    return function


def _with_learning_rate(function: _Function) -> _Function:
    """Make a function raise an error that explains ``learning_rate`` if this argument is missing."""

    @functools.wraps(function)
    def checked(*args: Any, **keys: Any) -> Any:
        if not args and "learning_rate" not in keys:
            hint = "; pass lr as learning_rate" if "lr" in keys else ""
            raise TypeError(f"shampoo: the argument learning_rate is missing; expected {_LEARNING_RATE}{hint}")
        return function(*args, **keys)

    return cast("_Function", checked)


@_with_learning_rate
@_with_keys
def shampoo(
    learning_rate: Any,
    *,
    stack_dims: int | Callable[[str], int] | None = None,
    describe: Callable[[str], Mapping[str, Any]] | None = None,
    update_dtype: Any = None,
    threads: int | None = None,
    **keys: Unpack[Keywords],
) -> GradientTransformation:
    """Return a gradient transformation, for use alone or in an optax chain.

    ``update`` is pure. It returns the updates, which are already multiplied by the negative learning rate, and the next
    state. Compile a step and donate the state (``jax.jit(step, donate_argnums=...)``): the step then updates the state
    in place. If the gradient of a parameter is None, the update of this parameter is zero, and its states do not
    change, except that ``weight_ema`` and ``averaging="schedule_free"`` can change its average. A tree without
    parameters is accepted. Extra arguments of ``update`` are ignored.

    Parameters
    ----------
    learning_rate
        A number, a scalar array, or a function of the number of steps so far, such as an optax schedule. If the
        argument is a number or an array that is not traced, you can change the learning rate in the state (field
        ``learning_rate`` of ``ShampooState``). Neither this change, nor a schedule, nor a traced
        array causes a recompilation.
    stack_dims
        Number of leading dimensions of a parameter that only stack separate tensors: 1 for the weights of layers that
        ``jax.lax.scan`` iterates over. Pass one number for all parameters, or a function that takes the name of
        a parameter and returns the number for this parameter. ``jax.tree_util.keystr`` makes the names. None: 0, with a
        warning if parameters look like stacked layers.
    describe
        A function that takes the name of a parameter, and returns a mapping with the options ``role``, ``row_splits``
        and ``fan`` of ``libshampoo.Param``: ``lambda name: {"role": "embedding"} if "embed" in name else {}``.
    update_dtype
        Dtype of the updates: a dtype, None, "params", or a function that takes the name of a parameter and returns one
        of these. None selects the dtype of the arithmetic, so that ``optax.apply_updates`` rounds 16-bit parameters
        only once. By default, the dtype of the arithmetic is float64 for float64 parameters, otherwise float32 (key
        ``computation_dtype``). With "params", each update has the dtype of its parameter.
    threads
        Number of threads that work on a step. None: as many as are useful, at most one for each available processor.
    **keys
        Hyper-parameters such as ``grafting`` and ``weight_decay``. ``libshampoo.KEYS`` lists them with their
        documentation. None means the default.

    Raises
    ------
    TypeError
        If a keyword is not a key, or the value of a key is traced.
    ValueError
        If a value is out of range, or parameters, gradients and state do not match.

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
    transformation = _Shampoo(learning_rate, stack_dims, describe, update_dtype, threads, dict(keys))
    return GradientTransformation(transformation.init, transformation.update)


#: Alias of ``shampoo``, because the optimizer is called Shampoo in all modules of the package.
Shampoo = shampoo


@_with_keys
def plan(
    params: Any,
    *,
    stack_dims: int | Callable[[str], int] | None = None,
    describe: Callable[[str], Mapping[str, Any]] | None = None,
    update_dtype: Any = None,
    threads: int | None = None,
    **keys: Unpack[Keywords],
) -> Plan:
    """Compute the blocks and the memory that ``shampoo`` needs on the CPU with the same arguments.

    Parameters
    ----------
    params
        A pytree of arrays, or of objects with a shape and a dtype, such as the result of ``jax.eval_shape(init, key)``.
    stack_dims, describe, update_dtype, threads, **keys
        Same as for ``shampoo``. A plan has no learning rate.

    Examples
    --------
    >>> import jax
    >>> from libshampoo.jax import plan
    >>> params = {"layer": {"w": jax.ShapeDtypeStruct((2048, 1024), "float32")}}
    >>> print(plan(params).describe()[0])
    ['layer']['w']  f32  2048x1024 -> 2 of 1024x1024
    """
    if "learning_rate" in keys or "lr" in keys:
        raise TypeError("a plan does not depend on the learning rate; leave it out")
    return _Shampoo(0.0, stack_dims, describe, update_dtype, threads, dict(keys)).plan(params)


def export(tx: GradientTransformation, params: Any, state: ShampooState, *, blend: float = 1.0) -> Any:
    """Return averages of the parameters, for evaluation and for use after training.

    The keys ``averaging`` and ``weight_ema`` of ``shampoo`` select the average. If neither key is set, the function
    returns the parameters. It runs only on the CPU.

    Parameters
    ----------
    tx
        The transformation that ``shampoo`` returned.
    params, state
        The parameters and the state after an update.
    blend
        A number in [0, 1]: the result is (1 - blend) * parameter + blend * average, in the dtype of the parameter.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> from libshampoo.jax import export, shampoo
    >>> tx = shampoo(0.1, weight_ema=0.9)
    >>> params = {"w": jnp.ones((4, 3))}
    >>> updates, state = tx.update(params, tx.init(params), params)
    >>> params = jax.tree.map(jnp.add, params, updates)
    >>> bool((export(tx, params, state)["w"] == params["w"]).all())  # after step 1, the average is equal to w
    True
    """
    transformation = getattr(tx.update, "__self__", None)
    if not isinstance(transformation, _Shampoo):
        raise TypeError("export: tx is not a transformation of libshampoo.jax.shampoo; for an optax chain, pass the "
                        "transformation that shampoo returned, and the state of that transformation")  # fmt: skip
    return transformation.export(params, state, float(_constant("blend", blend)))
