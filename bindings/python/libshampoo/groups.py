# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Parameter groups: mappings in which a program reads hyper-parameters and changes them between steps."""
from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from contextlib import AbstractContextManager

from . import _native
from .errors import InvalidError, StateError
from .handle import HasHandle
from .keys import KEYS, fixed_key, read_key, to_number, unknown_key
from .text import count_text

Value = float | int | bool | str


class Group(MutableMapping[str, Value]):
    """Hyper-parameters of one group, as a mapping: ``opt.param_groups[0]["lr"] = 0.1``.

    ``libshampoo.KEYS[name].changeable`` is true if a key can be changed between steps.

    Attributes
    ----------
    names : list of str
        Names of the parameters of the group.
    """

    def __init__(self, optimizer: HasHandle, number: int, config: _native.shampoo_config, names: list[str]) -> None:
        # A weak reference, because a cycle would keep an unused optimizer alive until the garbage collector runs.
        self._optimizer, self._number, self._config = weakref.ref(optimizer), number, config
        self.names = names

    def _using(self) -> AbstractContextManager[_native.shampoo_optimizer]:
        optimizer = self._optimizer()
        if optimizer is None:
            raise StateError("the optimizer of this group was deleted; keep a reference to the optimizer")
        return optimizer._using()

    @property
    def step(self) -> int:
        """Step counter of the group. Loading a checkpoint restores the counter. Use it to resume a schedule."""
        with self._using() as handle:
            return int(_native.shampoo_optimizer_stat(handle, f"step.{self._number}"))

    def __getitem__(self, name: str) -> Value:
        if name not in KEYS:
            raise KeyError(unknown_key(name))
        kind = KEYS[name].value_type
        if kind not in ("f64", "i64", "bool"):
            return read_key(self._config, name)
        with self._using() as handle:
            try:
                value = _native.shampoo_optimizer_get(handle, self._number, name)
            except InvalidError:  # "auto": the number depends on the block, or the method does not read the key
                return "auto"
        return bool(value) if kind == "bool" else int(value) if kind == "i64" else value

    def __setitem__(self, name: str, value: Value) -> None:
        if name not in KEYS:
            raise KeyError(unknown_key(name))
        if not KEYS[name].changeable:
            raise ValueError(fixed_key(name))
        number = to_number(name, value)
        with self._using() as handle:
            _native.shampoo_optimizer_set(handle, self._number, name, number)

    def __delitem__(self, name: str) -> None:
        raise TypeError(f"key {name}: keys of a group cannot be deleted; assign a value instead")

    def __iter__(self) -> Iterator[str]:
        return iter(KEYS)

    def __len__(self) -> int:
        return len(KEYS)

    def __repr__(self) -> str:
        try:
            shown = [f"{name}={self[name]}" for name in ("lr", "grafting", "precondition_frequency")]
            values = ", ".join([*shown, "..."])
        except StateError as error:  # for example, the optimizer is closed or in use by another call
            values = str(error)
        return f"Group({count_text(len(self.names), 'parameter')}, {values})"
