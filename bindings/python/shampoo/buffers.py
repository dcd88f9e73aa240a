# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Buffers of an optimizer: arrays of the caller, checked and kept alive, and bound to the library."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .params import Described

ROLES = ("parameter", "gradient", "output", "copy")


class Buffers:
    """What is bound of each parameter: views of its param, grad, out and copy, each or None.

    A view keeps the memory of its array. Those that were bound before live until the step after: on CUDA that is when
    the step that reads them is known to be done.
    """

    def __init__(self, described: Sequence[Described], device: tuple[int, int]) -> None:
        self._index = {param.name: number for number, param in enumerate(described)}
        self._device = device
        self._labels = [[f"{role} of {param.name!r}" if role != "parameter" else f"parameter {param.name!r}"
                         for param in described] for role in ROLES]
        self._dtypes = [[getattr(param.desc, f"{field}_dtype") for param in described]
                        for field in ("param", "grad", "out", "copy")]
        self._shapes = [param.local_shape for param in described]
        self.views: list[list[_native.View | None]] = [[None] * len(described) for _ in ROLES]
        self._earlier: Any = None

    def read(self, role: int, arrays: Any, stream: int) -> list[_native.View | None]:
        """Look at arrays of one role: a mapping by name, where what is missing is None, or a sequence of all."""
        found: list[_native.View | None] = [None] * len(self._shapes)
        if arrays is None:
            return found
        items = self._by_name(role, arrays) if isinstance(arrays, Mapping) else list(enumerate(arrays))
        if not isinstance(arrays, Mapping) and len(items) != len(found):
            raise ValueError(f"{len(items)} arrays for the role {ROLES[role]}, and there are {len(found)} parameters")
        labels, dtypes = self._labels[role], self._dtypes[role]
        for number, array in items:
            if array is None:
                continue
            view = _native.View(array, labels[number], stream)
            view.check(labels[number], dtypes[number], self._shapes[number], *self._device, role != 1)
            found[number] = view
        return found

    def _by_name(self, role: int, arrays: Mapping[str, Any]) -> list[tuple[int, Any]]:
        for name in arrays:
            if name not in self._index:
                raise ValueError(f"{ROLES[role]} of {name!r}: there is no parameter of this name")
        return [(self._index[name], array) for name, array in arrays.items()]

    def bind(self, handle: _native.shampoo_optimizer, changed: Mapping[int, list[_native.View | None]]) -> None:
        """Bind the roles that are given anew; the others stay."""
        views = [changed.get(role, self.views[role]) for role in range(len(ROLES))]
        _native.shampoo_optimizer_bind(handle, 0, list(zip(*views)))
        self._earlier = self.views
        self.views = views

    def release(self) -> None:
        """Let go of all memory."""
        self.views = [[None] * len(self._shapes) for _ in ROLES]
        self._earlier = None
