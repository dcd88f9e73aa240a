# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Plans: blocks, their owners and their memory, computed before anything is allocated."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import _native
from .device import DEVICES
from .dtypes import KEY_NAMES
from .keys import check_name, make_config
from .params import Described, describe, split_groups
from .text import bytes_text, count_text


@dataclass(frozen=True)
class Block:
    """A block: a part of one parameter with its own states.

    Attributes
    ----------
    param
        Name of the parameter.
    shape, stride, offset
        Shape of the block, stride of each dimension, and offset of the first element. Strides and the offset count
        elements of the row-major flattened parameter or, if ``of_shard`` is true, elements of this rank's array.
    owner, shard_owner
        Replica rank and shard rank of the process that stores the state of the block.
    state_bytes
        Size of the state of the block in bytes.
    of_shard
        True: a block of the shard that this rank holds. False: a block of the whole parameter.
    """

    param: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    owner: int
    shard_owner: int
    state_bytes: int
    of_shard: bool


class Plan:
    """Parameters divided into blocks, with owners and sizes in bytes. Call ``libshampoo.plan`` to create a plan.

    Attributes
    ----------
    blocks : list of Block
        All blocks, in the order in which the library numbers them.
    names : list of str
        Names of the parameters, in the order in which they were passed.
    """

    def __init__(
        self,
        described: list[Described],
        group_keys: list[dict[str, Any]],
        keys: Mapping[str, Any],
        desc: _native.shampoo_plan_desc,
    ) -> None:
        for name in {name for own in [keys, *group_keys] for name in own}:
            check_name(name)
        first = make_config({**keys, **group_keys[0]})
        self.device_type = desc.device_type
        self.replica_world, self.shard_world = desc.replica_world, desc.shard_world
        self.described = described
        self.configs = [first, *(make_config({**keys, **own}) for own in group_keys[1:])]
        self.handle = _native.shampoo_plan_create(first, desc)

    def finish(self) -> Plan:
        """Add all groups except the first, add all parameters, compute the blocks, and return the plan."""
        for config in self.configs[1:]:
            _native.shampoo_plan_add_group(self.handle, config)
        for param in self.described:
            _native.shampoo_plan_add_param(self.handle, param.desc)
        _native.shampoo_plan_finish(self.handle)
        self.blocks = self._read_blocks()
        return self

    @property
    def names(self) -> list[str]:
        return [param.name for param in self.described]

    def _read_blocks(self) -> list[Block]:
        blocks = []
        info = _native.shampoo_block_info()
        for index in range(_native.shampoo_plan_block_count(self.handle)):
            _native.shampoo_plan_block(self.handle, index, info)
            shape, stride = info.shape[: info.ndim], info.stride[: info.ndim]
            name = self.described[info.param].name
            blocks.append(
                Block(
                    name,
                    shape,
                    stride,
                    info.flat_offset,
                    info.owner,
                    info.shard_owner,
                    info.state_bytes,
                    info.of_shard == 1,
                )
            )
        return blocks

    def bytes(self, what: str = "total", rank: int = -1) -> int:
        """Return the number of bytes that an optimizer with this plan allocates, or sends in a step, on a rank.

        Parameters
        ----------
        what
            For allocated bytes: "state", "workspace" or their sum, "total". For the bytes that the rank sends: "comm".
        rank
            The replica rank or, with shard_mode="gather", replica rank * number of shards + shard rank. -1: this rank.
        """
        return _native.shampoo_plan_bytes(self.handle, rank, what)

    def describe(self) -> list[str]:
        """Return one line for each parameter, with the name, dtype, shape and blocks of the parameter."""
        of_param: dict[str, Counter[str]] = {param.name: Counter() for param in self.described}
        for block in self.blocks:
            of_param[block.param]["x".join(map(str, block.shape))] += 1
        width = max(map(len, of_param))
        lines = []
        for param in self.described:
            desc = param.desc
            shape = "x".join(map(str, desc.shape[: desc.ndim])) or "scalar"
            counts = of_param[param.name].items()
            blocks = ", ".join(f"{count} of {text}" if count > 1 else text for text, count in counts) or "no elements"
            lines.append(f"{param.name:{width}}  {KEY_NAMES[desc.param_dtype]:4} {shape} -> {blocks}")
        return lines

    def __repr__(self) -> str:
        alone = self.replica_world * self.shard_world == 1
        ranks = "" if alone else f", {self.replica_world} x {self.shard_world} ranks"
        head = (
            f"{count_text(len(self.described), 'parameter')}, {count_text(len(self.blocks), 'block')}{ranks}, "
            f"state {bytes_text(self.bytes('state'))}, workspace {bytes_text(self.bytes('workspace'))}"
        )
        return "\n  ".join([f"Plan({head})", *self.describe()])


def plan_desc(
    device_type: int, threads: int, replica: tuple[int, int], shard: tuple[int, int]
) -> _native.shampoo_plan_desc:
    """Fill the struct that describes a plan. ``replica`` and ``shard`` are pairs (rank, number of ranks)."""
    desc = _native.shampoo_plan_desc()
    try:
        desc.device_type, desc.threads = device_type, operator.index(threads)
    except TypeError:
        raise TypeError(
            f"threads: the value {threads!r} is not allowed: expected an integer; 0 uses as many threads as are useful"
        ) from None
    desc.replica_rank, desc.replica_world = replica
    desc.shard_rank, desc.shard_world = shard
    return desc


def plan(
    params: Any,
    *,
    device: str = "cpu",
    threads: int = 0,
    replica: tuple[int, int] = (0, 1),
    shard: tuple[int, int] = (0, 1),
    grad_dtype: Any = None,
    out_dtype: Any = None,
    copy_dtype: Any = None,
    **keys: Any,
) -> Plan:
    """Compute the blocks, owners and memory of an optimizer without creating one.

    Parameters
    ----------
    params
        Same as for ``Optimizer``. An array can be replaced by the shape of a float32 parameter, or by an object with a
        shape and a dtype.
    device
        "cpu" or "cuda". The device does not have to exist.
    threads
        Number of threads that work on a step. 0: as many as are useful, at most one for each available processor.
    replica, shard
        Pairs (rank, number of ranks). ``replica`` refers to ranks that hold the same parameters, and ``shard`` to
        ranks that hold the shards of one copy of the parameters.
    grad_dtype, out_dtype, copy_dtype, **keys
        Same as for ``Optimizer``.

    Examples
    --------
    >>> import libshampoo
    >>> print(libshampoo.plan({"w": (4096, 1024)}).describe()[0])
    w  f32  4096x1024 -> 4 of 1024x1024
    """
    if device not in DEVICES:
        raise ValueError(f'device: {device!r}; expected "cpu" or "cuda"')
    found, group_keys = split_groups(params, grad_dtype=grad_dtype, out_dtype=out_dtype, copy_dtype=copy_dtype)
    described = [describe(name, param, group) for name, param, group in found]
    return Plan(described, group_keys, keys, plan_desc(DEVICES[device], threads, replica, shard)).finish()
