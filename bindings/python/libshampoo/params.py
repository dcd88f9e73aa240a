# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads the argument ``params`` of optimizers and plans, and describes each parameter to the library."""
from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Number
from typing import Any

from . import _native
from .dtypes import code_of


@dataclass
class Param:
    """A parameter with information that its array does not have.

    Parameters
    ----------
    array
        The parameter: an array of NumPy or of a package that supports DLPack. For ``libshampoo.plan``, ``array`` can
        also be a shape, or any object with a shape and a dtype.
    stack_dims
        Number of leading dimensions that only stack separate tensors: 1 for the weights of L layers in one array of
        shape (L, m, n).
    shape
        Shape of the whole parameter if the array is a shard of it.
    flat_offset
        Index of the array's first element in the row-major flattened parameter. Set it only if the array is a flat
        shard: a range of the elements of the flattened parameter.
    local_offset
        Position of the array's first element in the parameter: an index for each dimension. Set it only if the array is
        a rectangle of the parameter.
    grad_dtype, out_dtype, copy_dtype
        Dtypes of the gradient, and of the arrays ``out`` and ``copy`` of ``Optimizer.bind``. The default is the dtype
        of the parameter.
    role
        "hidden" (default), "vector", "embedding" or "head". Only parameters with the role "hidden" have factor
        matrices, unless route=off is set. A bias or a scale that is stored as a vector needs no role.
    row_splits
        Sizes of the parts if the array fuses several tensors, such as q, k and v. A single size is repeated.
    fan
        Which dimension is the output dimension: "out_in" for the first, as in PyTorch, or "in_out" for the last.
        ``row_splits`` divides this dimension. Method muon and the key "shape_scale" treat the tensor as a matrix with a
        row for each index of this dimension.
    """

    array: Any
    stack_dims: int = 0
    shape: Sequence[int] | None = None
    flat_offset: int | None = None
    local_offset: Sequence[int] | None = None
    grad_dtype: Any = None
    out_dtype: Any = None
    copy_dtype: Any = None
    role: str = "hidden"
    row_splits: int | Sequence[int] = ()
    fan: str = "out_in"


@dataclass
class Described:
    """A parameter, and the struct that describes it to the library.

    Attributes
    ----------
    local_shape
        Shape of the array, which may be a shard.
    """

    name: str
    desc: _native.shampoo_param_desc
    local_shape: tuple[int, ...]


def describe(name: str, param: Param, group: int, view: _native.View | None = None) -> Described:
    """Fill the struct that describes a parameter.

    If ``view`` is None, ``param.array`` can also be a shape, or an object with a shape and a dtype.
    """
    what = f"parameter {name!r}"
    local, dtype = (view.shape, view.dtype) if view is not None else _shape_and_dtype(param.array, what)
    whole = tuple(param.shape) if param.shape is not None else local
    if len(whole) > 8:
        raise ValueError(f"{what}: {len(whole)} dims; expected at most 8")
    desc = _native.shampoo_param_desc()
    desc.name, desc.ndim, desc.stack_dims, desc.group = name, len(whole), param.stack_dims, group
    desc.shape = whole
    desc.param_dtype = dtype
    desc.grad_dtype = code_of(param.grad_dtype, f"grad_dtype of {what}") if param.grad_dtype is not None else dtype
    desc.out_dtype = code_of(param.out_dtype, f"out_dtype of {what}") if param.out_dtype is not None else dtype
    desc.copy_dtype = code_of(param.copy_dtype, f"copy_dtype of {what}") if param.copy_dtype is not None else dtype
    desc.role, desc.fan = _code(_ROLES, "role", param.role, what), _code(_FANS, "fan", param.fan, what)
    desc.row_splits = _row_splits(param.row_splits, what)
    if param.flat_offset is not None:
        desc.shard_form, desc.flat_offset, desc.flat_count = 1, param.flat_offset, math.prod(local)
    elif param.local_offset is not None:
        desc.shard_form, desc.local_offset, desc.local_shape = 2, tuple(param.local_offset), local
    elif whole != local:
        raise ValueError(
            f"{what}: the array has shape {local}, but Param.shape is {whole}; expected equal shapes, unless the array "
            "is a shard. For a shard, set flat_offset or local_offset to the position of the array in the parameter"
        )
    return Described(name, desc, local)


_ROLES = {
    "hidden": _native.SHAMPOO_HIDDEN,
    "vector": _native.SHAMPOO_VECTOR,
    "embedding": _native.SHAMPOO_EMBEDDING,
    "head": _native.SHAMPOO_HEAD,
}
_FANS = {"out_in": _native.SHAMPOO_OUT_IN, "in_out": _native.SHAMPOO_IN_OUT}


def _row_splits(splits: int | Sequence[int], what: str) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in ((splits,) if isinstance(splits, (int, Integral)) else splits))
    except TypeError:
        raise TypeError(f"{what}: row_splits is {splits!r}; expected a sequence of integers, or one integer") from None
    if len(sizes) > 8:
        raise ValueError(f"{what}: row_splits has {len(sizes)} sizes; expected at most 8 (a single size is repeated)")
    if not all(1 <= size < 2**63 for size in sizes):
        raise ValueError(f"{what}: row_splits is {splits!r}; expected sizes from 1 to 2^63 - 1")
    return sizes


def _code(codes: Mapping[str, int], field: str, value: str, what: str) -> int:
    if not isinstance(value, str) or value not in codes:
        raise ValueError(f"{what}: {field} is {value!r}; expected one of {', '.join(codes)}")
    return codes[value]


def _shape_and_dtype(array: Any, what: str) -> tuple[tuple[int, ...], int]:
    if isinstance(array, (tuple, list)) and all(isinstance(extent, Integral) for extent in array):
        return tuple(map(operator.index, array)), _native.SHAMPOO_F32
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise TypeError(
            f"{what}: {type(array).__name__}; expected a shape (a tuple or list of integers), or an object with a "
            "shape and a dtype"
        )
    return tuple(int(extent) for extent in array.shape), code_of(array.dtype, what)


def checked_describe(describe: Any) -> Callable[[str], Mapping[str, Any]] | None:
    """Return the argument ``describe`` of an optimizer. Raise TypeError if it is neither None nor a function."""
    if describe is not None and not callable(describe):
        raise TypeError(f"describe: {describe!r}; expected a function that takes the name of a parameter")
    return describe  # type: ignore[no-any-return]


def param_options(describe: Callable[[str], Mapping[str, Any]] | None, name: str) -> Mapping[str, Any]:
    """Return the options that the function ``describe`` returns for a parameter, or {} if ``describe`` is None."""
    options = describe(name) if describe is not None else {}
    if not isinstance(options, Mapping):
        raise TypeError(
            f"describe: the function returned {options!r} for {name!r}; expected a mapping, such as "
            '{"role": "embedding"} or {}'
        )
    for option in options:
        if option not in ("role", "row_splits", "fan"):
            raise TypeError(
                f"describe: the function returned the option {option!r} for {name!r}; expected role, row_splits or fan"
            )
    return options


def is_array(item: Any) -> bool:
    """Return whether an object is an array that an optimizer accepts."""
    return hasattr(item, "__array_struct__") or hasattr(item, "__dlpack__")


def is_collection(item: Any) -> bool:
    """Return whether an object is iterable and is neither a mapping nor an array nor a string."""
    if is_array(item) or isinstance(item, (Mapping, str, bytes)):
        return False
    try:
        iter(item)
    except TypeError:
        return False
    return True


def _is_named(item: Any) -> bool:
    return isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str)


def _is_sequence_of_arrays(item: Any) -> bool:
    # A sequence of numbers is a shape: libshampoo.plan accepts the shape of a parameter instead of its array.
    return isinstance(item, (list, tuple)) and not all(isinstance(element, Number) for element in item)


def flatten(arrays: Mapping[Any, Any], what: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the names and arrays of a mapping, which can contain other mappings, lists and tuples.

    The name of an array consists of all keys and indices that lead to it, such as "layers/0/weight".
    """
    for name, item in arrays.items():
        if not isinstance(name, str):
            raise TypeError(f"{what}: the name {name!r} is not a string")
        if _is_sequence_of_arrays(item):
            item = {str(index): element for index, element in enumerate(item)}
        if isinstance(item, Mapping):
            yield from flatten(item, what, f"{prefix}{name}/")
        else:
            yield prefix + name, item


def _named(params: Any, first: int) -> Iterator[tuple[str, Any]]:
    """Yield (name, array) for each parameter. An unnamed parameter at index k is named "param<first + k>"."""
    if isinstance(params, Mapping):
        yield from flatten(params, "params")
        return
    if not is_collection(params):
        raise TypeError(
            f"params: {type(params).__name__}; expected a mapping, a sequence of arrays, or groups. Put a single array "
            "into a list"
        )
    for number, item in enumerate(params, first):
        if isinstance(item, Mapping):
            raise TypeError(
                f"params[{number - first}] is a mapping; expected an array or a pair (name, array). Pass "
                'one mapping of all parameters, or a sequence of groups, in which each item is a dict with "params"'
            )
        if _is_named(item):
            yield from flatten({item[0]: item[1]}, "params")
        else:
            yield f"param{number}", item


def split_groups(params: Any, **dtypes: Any) -> tuple[list[tuple[str, Param, int]], list[dict[str, Any]]]:
    """Split ``params`` into parameters and groups.

    Parameters
    ----------
    params
        The argument ``params`` of ``Optimizer``.
    **dtypes
        Defaults of the fields grad_dtype, out_dtype and copy_dtype of each ``Param``.

    Returns
    -------
    list of (name, Param, group), list of dict
        The parameters in their order, and the keys that each group sets.
    """
    groups: Any = list(params) if is_collection(params) else params
    if not isinstance(groups, list) or not groups or not all(isinstance(g, Mapping) and "params" in g for g in groups):
        groups = [{"params": groups}]
    found: list[tuple[str, Param, int]] = []
    for number, group in enumerate(groups):
        for name, item in _named(group["params"], len(found)):
            param = replace(item) if isinstance(item, Param) else Param(item)
            for field, dtype in dtypes.items():
                if getattr(param, field) is None:
                    setattr(param, field, dtype)
            found.append((name, param, number))
    if not found:
        raise ValueError("params: there are no parameters; expected at least one")
    return found, [{key: value for key, value in group.items() if key != "params"} for group in groups]
