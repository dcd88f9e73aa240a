# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the arrays that the caller passes, binds them to the library's optimizer, and keeps them alive."""
from __future__ import annotations

import difflib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from . import _native
from .params import Described, flatten, is_array, is_collection

PARAM, GRAD, OUT, COPY = range(4)
ROLES = ("parameter", "gradient", "output", "copy")
FIELDS = ("param", "grad", "out", "copy")

#: Largest number of parameters for which an error lists all their names.
_FEW_NAMES = 8

#: A view or None for each parameter, all of one role.
Views = list[_native.View | None]
#: Address of the first byte, address after the last byte, role, and index of the parameter.
Range = tuple[int, int, int, int]


class Buffers:
    """Views of the arrays that are bound: for each role (param, grad, out, copy) and each parameter, a view or None.

    A view keeps the memory of its array alive. On CUDA, a step can still read an array after another array has been
    bound in its place. Replaced views are therefore kept until the next step.
    """

    def __init__(self, described: Sequence[Described], device: tuple[int, int]) -> None:
        self._index = {param.name: number for number, param in enumerate(described)}
        self._device = device
        self._labels = [[_label(role, param.name) for param in described] for role in range(len(ROLES))]
        self._dtypes = [[getattr(param.desc, f"{field}_dtype") for param in described] for field in FIELDS]
        self._shapes = [param.local_shape for param in described]
        self.views: list[Views] = [[None] * len(described) for _ in ROLES]
        self._written: list[Range] = []
        self._retired: list[Views] = []

    def check(self, role: int, views: Views) -> Views:
        """Check the views of one role, and return the views to bind.

        If a gradient on the CPU is not row-major, the returned view is a row-major copy.

        Raises
        ------
        ValueError
            If a step cannot use an array. The message names the parameter.
        """
        labels, dtypes = self._labels[role], self._dtypes[role]
        return [
            None if view is None else view.check(labels[k], dtypes[k], self._shapes[k], *self._device, role)
            for k, view in enumerate(views)
        ]

    def read(self, role: int, arrays: Any, stream: int, keeps: bool = True) -> Views:
        """Return views of the arrays of one role.

        ``arrays`` maps names to arrays, or is a sequence with an element for each parameter.

        A mapping may be nested. In a mapping of gradients, an omitted parameter has no gradient. In a mapping of
        another role, an omitted parameter keeps its array or, if ``keeps`` is false, has no array.
        """
        items: list[Any] = [None] * len(self._shapes)
        if isinstance(arrays, Mapping):
            if role != GRAD and keeps:
                items = list(self.views[role])
            named = list(flatten(arrays, ROLES[role]))
            if role == GRAD and not named:
                raise ValueError(
                    "gradients: the mapping is empty: expected the gradient of at least one parameter, by name; if "
                    "no parameter has a gradient, map the name of any parameter to None"
                )
            seen = set()
            for name, array in named:
                if name not in self._index:
                    raise ValueError(f"{_label(role, name)}: {self._unknown_name(name)}")
                if name in seen:
                    raise ValueError(
                        f"{_label(role, name)}: the mapping has this name twice, once nested and once as one string "
                        "with slashes; pass one of the two arrays"
                    )
                seen.add(name)
                items[self._index[name]] = array
        elif arrays is not None:
            if is_array(arrays):
                raise TypeError(
                    f"{ROLES[role]} arrays: a single array; expected a mapping or a sequence of arrays. Put the array "
                    "into a list"
                )
            if not is_collection(arrays):
                raise TypeError(
                    f"{ROLES[role]} arrays: the value is {arrays!r}; expected a mapping or a sequence of arrays"
                )
            items = list(arrays)
            if len(items) != len(self._shapes):
                raise ValueError(
                    f"{ROLES[role]} arrays: {len(items)}; expected {len(self._shapes)}, one for each parameter"
                )
        labels = self._labels[role]
        return self.check(
            role,
            [
                array if array is None or isinstance(array, _native.View) else _native.View(array, labels[k], stream)
                for k, array in enumerate(items)
            ],
        )

    def _unknown_name(self, name: str) -> str:
        nearest = difflib.get_close_matches(name, self._index, n=1)
        if nearest:
            hint = f"did you mean {nearest[0]!r}?"
        elif len(self._index) <= _FEW_NAMES:
            hint = f"expected one of {', '.join(map(repr, self._index))}"
        else:
            hint = "expected one of opt.plan.names"
        return f"there is no parameter with this name; {hint}"

    def check_written(self, views: list[Views], only_grads_changed: bool = False) -> list[Range]:
        """Check that the memory that a step writes is not read-only and does not overlap any other array.

        Parameters
        ----------
        views
            Views of all roles.
        only_grads_changed
            Whether the views of all roles except GRAD are already bound.

        Returns
        -------
        list of Range
            The memory that a step writes, sorted by address.
        """
        written, readers = self._written, [GRAD]
        if not only_grads_changed:
            written, readers = [], [GRAD, PARAM]
            for number, (param, out) in enumerate(zip(views[PARAM], views[OUT], strict=True)):
                if param is not None and out is param and param.readonly:
                    raise ValueError(
                        f"{self._labels[PARAM][number]}: read-only; expected a writable array, because steps write to "
                        "it. Pass a writable NumPy array and use it as the parameter from now on (in TensorFlow, call "
                        'variable.assign(array) after each step), or use output="updates"; for JAX, use libshampoo.jax'
                    )
            for role in (OUT, COPY):
                for number, view in enumerate(views[role]):
                    if view is not None and view.nbytes > 0:
                        in_place = role == OUT and _same(view, views[PARAM][number])
                        written.append(
                            (view.pointer, view.pointer + view.nbytes, PARAM if in_place else role, number)
                        )
            written.sort()
            for one, other in zip(written, written[1:]):
                if other[0] < one[1]:
                    self._raise_overlap(other, one)
        starts = [first for first, _, _, _ in written]
        for role in readers:
            for number, view in enumerate(views[role]):
                if view is None or view.nbytes == 0 or (role == PARAM and _same(view, views[OUT][number])):
                    continue
                found = (view.pointer, view.pointer + view.nbytes, role, number)
                index = bisect_right(starts, found[0])
                for near in written[max(index - 1, 0) : index + 1]:
                    if near[0] < found[1] and found[0] < near[1]:
                        self._raise_overlap(found, near)
        return written

    def _raise_overlap(self, found: Range, written: Range) -> None:
        label, other = (self._labels[role][number] for _, _, role, number in (found, written))
        raise ValueError(f"{label}: overlaps the {other}, to which a step writes; pass arrays that do not overlap")

    def bind(self, handle: _native.shampoo_optimizer, changed: Mapping[int, Views]) -> None:
        """Bind new views of the roles in ``changed``. The views of all other roles stay bound."""
        views = [changed.get(role, self.views[role]) for role in range(len(ROLES))]
        written = self.check_written(views, changed.keys() <= {GRAD})
        _native.shampoo_optimizer_bind(handle, 0, list(zip(*views, strict=True)))
        for bound in self.views:
            self.retire(bound)
        self.views, self._written = views, written

    def retire(self, views: Views) -> None:
        """Keep views that are no longer bound, because a step on CUDA can still read them."""
        if self._device[0] != _native.SHAMPOO_CPU:
            self._retired.append(views)

    def release_retired(self) -> None:
        """Release retired views. Call this after a step: each step waits until earlier steps have read their arrays."""
        self._retired.clear()

    def release(self) -> None:
        """Release all views, and with them the memory of the arrays."""
        self.views = [[None] * len(self._shapes) for _ in ROLES]
        self._written = []
        self._retired.clear()


def _label(role: int, name: str) -> str:
    """Return the name of an array in messages, such as "parameter 'w'" or "gradient of 'w'"."""
    return f"{ROLES[role]} {'of ' if role != PARAM else ''}{name!r}"


def _same(one: _native.View, other: _native.View | None) -> bool:
    return other is not None and (one.pointer, one.nbytes) == (other.pointer, other.nbytes)
