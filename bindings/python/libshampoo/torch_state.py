# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Implements ``opt.state`` of PyTorch: each parameter has a mapping from the names of its states to tensors."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any

import torch

from . import _native
from .dtypes import numpy_dtype
from .optimizer import Optimizer
from .state import Entry, check_entry, entries, read_entry, write_entry

FLOATS = {
    _native.SHAMPOO_F32: torch.float32,
    _native.SHAMPOO_F64: torch.float64,
    _native.SHAMPOO_F16: torch.float16,
    _native.SHAMPOO_BF16: torch.bfloat16,
}


def to_tensor(array: Any) -> Any:
    """Convert a NumPy array to a tensor that shares its memory. An array of uint16 contains the bits of bfloat16."""
    if array.dtype.name in ("bfloat16", "uint16"):
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def to_array(value: Any) -> Any:
    """Convert a tensor to a NumPy array, without a copy if possible. Return other values unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu().contiguous()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(numpy_dtype(_native.SHAMPOO_BF16))
    return tensor.numpy()


def cast(value: Any, entry: Entry) -> Any:
    """Cast a floating-point tensor to the dtype of a floating-point entry. Then convert the value with to_array()."""
    wanted = FLOATS.get(entry.dtype)
    if isinstance(value, torch.Tensor) and value.is_floating_point() and wanted not in (None, value.dtype):
        result = value.to(wanted)
        if not torch.equal(result.isfinite(), value.isfinite()):
            raise ValueError(
                f"state {entry.key!r}: an element of the {value.dtype} tensor is out of the range of {wanted}, the "
                "optimizer's dtype for this state; create the optimizer with a wider dtype for this state"
            )
        value = result
    return to_array(value)


class Entries:
    """The entries (arrays, see state.py) of an optimizer's state, grouped by parameter.

    An entry that belongs to a group, such as the step count, is listed for each parameter of the group.

    Parameters
    ----------
    optimizer
        Optimizer that owns the state.
    names
        Names of all parameters.
    groups
        For each group, the indices of its parameters in ``names``.
    stream
        Function that returns the CUDA stream on which values are copied.
    """

    def __init__(
        self, optimizer: Optimizer, names: Sequence[str], groups: Sequence[Sequence[int]], stream: Callable[[], int]
    ) -> None:
        self._optimizer, self._stream = optimizer, stream
        self.by_param: list[dict[str, Entry]] = [{} for _ in names]
        self._unowned: list[Entry] = []  # entries of groups without parameters
        numbers = {name: number for number, name in enumerate(names)}
        with optimizer._using() as handle:
            found = list(entries(handle))
        for entry in found:  # entries of groups, such as "group.0/step"
            owner, *rest = entry.key.rsplit("/", 2)
            if len(rest) == 1:
                group = groups[int(owner.rpartition(".")[2])]
                for number in group:
                    self.by_param[number][rest[0]] = entry
                if len(group) == 0:
                    self._unowned.append(entry)
        for entry in found:  # entries of blocks, such as "layer.weight/0/factor.0"; parameter names may have slashes
            owner, *rest = entry.key.rsplit("/", 2)
            if len(rest) == 2:
                self.by_param[numbers[owner]]["/".join(rest)] = entry

    def read(self, number: int, name: str) -> Any:
        """Copy one entry of a parameter into a tensor."""
        entry = self.by_param[number][name]
        with self._optimizer._using() as handle:
            return to_tensor(read_entry(handle, entry, self._stream()))

    def read_all(self, number: int) -> dict[str, Any]:
        """Copy all entries of a parameter into tensors."""
        return {name: self.read(number, name) for name in self.by_param[number]}

    def read_unowned(self) -> dict[str, Any]:
        """Return copies of the entries of groups without parameters, as arrays by name."""
        with self._optimizer._using() as handle:
            return {entry.key: read_entry(handle, entry, self._stream()) for entry in self._unowned}

    def write(self, number: int, values: Mapping[str, Any]) -> None:
        """Check the values of some entries of a parameter, then write them."""
        found = []
        for name, value in values.items():
            entry = self.by_param[number].get(name)
            if entry is None:
                raise ValueError(
                    f"state {name!r} of parameter {number}: the optimizer has no such entry; expected one of "
                    f"{', '.join(self.by_param[number])}"
                )
            found.append((entry, check_entry(entry, cast(value, entry))))
        with self._optimizer._using() as handle:
            for entry, array in found:
                write_entry(handle, entry, array, self._stream())


class _Live(MutableMapping[str, Any]):
    """The entries of one parameter. Each access to an item reads the optimizer's state or writes to it."""

    def __init__(self, entries: Entries, number: int) -> None:
        self._entries, self._number = entries, number

    def __getitem__(self, name: str) -> Any:
        return self._entries.read(self._number, name)

    def __setitem__(self, name: str, value: Any) -> None:
        self._entries.write(self._number, {name: value})

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"state {name!r} cannot be deleted; make a new optimizer to start with a fresh state")

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries.by_param[self._number])

    def __len__(self) -> int:
        return len(self._entries.by_param[self._number])


class ParamState(MutableMapping[str, Any]):
    """The state of one parameter, ``opt.state[param]``: tensors by name, such as ``"step"``.

    Reading an item copies its current value from the optimizer. Assigning to an item writes the value to the optimizer.
    Changing a tensor that was read changes only that copy.

    Parameters
    ----------
    values
        A ``_Live`` object, which accesses the state of an optimizer, or a mapping, or pairs (name, tensor). A mapping
        or pairs are copied to a dict, and the new object then belongs to no optimizer. Some tools create such a
        copy to move tensors to another device.
    """

    def __init__(self, values: Mapping[str, Any] | Iterable[tuple[str, Any]] = ()) -> None:
        self._values: MutableMapping[str, Any] = values if isinstance(values, _Live) else dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return any(name == known for known in self._values)  # without reading the value

    def __repr__(self) -> str:
        return f"ParamState({', '.join(self._values)})"

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # a copy is a plain dict


class States(MutableMapping[Any, ParamState]):
    """``opt.state``: the state of each parameter.

    Assigning a mapping to ``opt.state[param]`` writes the values of the mapping to the optimizer.
    """

    def __init__(self, params: Sequence[Any], entries: Entries) -> None:
        self._numbers = {param: number for number, param in enumerate(params)}
        self._entries = entries

    def __getitem__(self, param: Any) -> ParamState:
        return ParamState(_Live(self._entries, self._numbers[param]))

    def __setitem__(self, param: Any, values: Mapping[str, Any]) -> None:
        self._entries.write(self._numbers[param], values)

    def __delitem__(self, param: Any) -> None:
        raise TypeError("the state of a parameter cannot be deleted; make a new optimizer to start with a fresh state")

    def __contains__(self, param: object) -> bool:
        return param in self._numbers

    def __iter__(self) -> Iterator[Any]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def __repr__(self) -> str:
        return f"States({len(self)} parameters)"

    def __reduce__(self) -> Any:
        return dict, ({param: dict(self[param]) for param in self},)
