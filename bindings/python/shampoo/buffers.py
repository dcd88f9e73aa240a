# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Buffers of an optimizer: arrays of the caller, checked and kept alive, and bound to the library."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .params import Described, is_array

PARAM, GRAD, OUT, COPY = range(4)
ROLES = ("parameter", "gradient", "output", "copy")
FIELDS = ("param", "grad", "out", "copy")

#: Of one role, one for each parameter.
Views = list[_native.View | None]


class Buffers:
    """What is bound of each parameter: views of its param, grad, out and copy, each or None.

    A view keeps the memory of its array. On CUDA, where a step may still be reading what was bound before, those live
    until the step after it has been made.
    """

    def __init__(self, described: Sequence[Described], device: tuple[int, int]) -> None:
        self._index = {param.name: number for number, param in enumerate(described)}
        self._device = device
        self._labels = [[f"{role} {'of ' if role != 'parameter' else ''}{param.name!r}" for param in described]
                        for role in ROLES]  # fmt: skip
        self._dtypes = [[getattr(param.desc, f"{field}_dtype") for param in described] for field in FIELDS]
        self._shapes = [param.local_shape for param in described]
        self.views: list[Views] = [[None] * len(described) for _ in ROLES]
        self._retired: list[list[Views]] = []

    def check(self, role: int, views: Views) -> Views:
        """Refuse a view that a step cannot take; the message names the parameter."""
        labels, dtypes = self._labels[role], self._dtypes[role]
        for number, view in enumerate(views):
            if view is not None:
                view.check(labels[number], dtypes[number], self._shapes[number], *self._device, role != GRAD)
        return views

    def read(self, role: int, arrays: Any, stream: int) -> Views:
        """Look at arrays of one role: a mapping by name, where what is missing is None, or a sequence of all."""
        items: list[Any] = [None] * len(self._shapes)
        if isinstance(arrays, Mapping):
            for name, array in arrays.items():
                if name not in self._index:
                    raise ValueError(f"{ROLES[role]} of {name!r}: there is no parameter of this name")
                items[self._index[name]] = array
        elif arrays is not None:
            if is_array(arrays):
                raise TypeError(f"{ROLES[role]}: a mapping or a sequence is expected; put a single array into a list")
            items = list(arrays)
            if len(items) != len(self._shapes):
                raise ValueError(f"{ROLES[role]}: {len(items)} arrays, and there are {len(self._shapes)} parameters")
        labels = self._labels[role]
        return self.check(
            role,
            [None if array is None else _native.View(array, labels[k], stream) for k, array in enumerate(items)],
        )

    def bind(self, handle: _native.shampoo_optimizer, changed: Mapping[int, Views]) -> None:
        """Bind the roles that are given anew; the others stay."""
        views = [changed.get(role, self.views[role]) for role in range(len(ROLES))]
        _native.shampoo_optimizer_bind(handle, 0, list(zip(*views, strict=True)))
        if self._device[0] != _native.SHAMPOO_CPU:
            self._retired.append(self.views)
        self.views = views

    def stepped(self) -> None:
        """Let go of what was bound before the step that has just been made: the one that read it is done."""
        self._retired.clear()

    def release(self) -> None:
        """Let go of all memory."""
        self.views = [[None] * len(self._shapes) for _ in ROLES]
        self._retired.clear()


def refuse_twins(described: Sequence[Described], views: Views) -> None:
    """Refuse parameters that are the same memory, which would be stepped twice."""
    seen: dict[int, str] = {}
    for param, view in zip(described, views, strict=True):
        if view is not None and 0 not in view.shape:
            other = seen.setdefault(view.pointer, param.name)
            if other != param.name:
                raise ValueError(f"parameter {param.name!r}: the same memory as {other!r}, stepped twice")
