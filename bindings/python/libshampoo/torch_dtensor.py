# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds which rows of each parameter this rank holds, if parameters are DTensors of PyTorch, as with FSDP2."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

_EXPECTED = (
    "expected (Shard(dim=0),) on a mesh with one dimension (FSDP), or (Replicate(), Shard(dim=0)) on a mesh with two "
    "(HSDP). Call fully_shard with its default placements, or give the local tensors to libshampoo.Optimizer, "
    "each as a libshampoo.Param with shape and local_offset"
)


def is_dtensor(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor. The check avoids the slow import of torch.distributed.tensor."""
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def local(tensor: Any) -> Any:
    """Return the part of a tensor that this rank holds: the whole tensor, unless it is a DTensor."""
    if not is_dtensor(tensor):
        return tensor
    with torch.no_grad():
        part = tensor.to_local()
    return part.wait() if hasattr(part, "wait") else part  # a collective may still be computing the part


def _layout(tensor: Any) -> str:
    return f"placements {tuple(tensor.placements)} on a mesh of shape {tuple(tensor.device_mesh.shape)}"


def _is_supported(placements: Sequence[Any]) -> bool:
    """Return whether the placements are those of FSDP or HSDP. _StridedShard (tensor parallelism) is unsupported."""
    names = [type(placement).__name__ for placement in placements]
    return names in (["Shard"], ["Replicate", "Shard"]) and placements[-1].dim == 0


def _rows(rows: int, rank: int, world: int) -> tuple[int, int]:
    """Return the first row and the number of rows (possibly 0) of a rank. torch.chunk divides rows in the same way."""
    size = -(-rows // world)
    first = min(rows, rank * size)
    return first, min(size, rows - first)


@dataclass(frozen=True)
class Shards:
    """Describes how the parameters of an optimizer are divided among ranks.

    Attributes
    ----------
    mesh
        The device mesh of all parameters. Its last dimension connects the ranks that hold the shards of one copy. If it
        has two dimensions, the first one connects the ranks that hold the same shard of different copies.
    """

    mesh: Any

    @property
    def dims(self) -> dict[str, int]:
        """For each communicator argument of Shampoo, the dimension of the mesh that connects its ranks."""
        return {"shard_comm": 0} if self.mesh.ndim == 1 else {"comm": 0, "shard_comm": 1}

    def rank_and_world(self, argument: str) -> tuple[int, int]:
        """Return this process's rank and the number of ranks, in the mesh dimension of a communicator argument."""
        dim = self.dims[argument]
        return int(self.mesh.get_coordinate()[dim]), int(self.mesh.size(dim))

    def offset(self, tensor: Any, what: str) -> tuple[int, ...]:
        """Return the index, in the DTensor, of the first element that this rank holds.

        Raise ValueError if the local part has an unexpected shape.
        """
        rank, world = self.rank_and_world("shard_comm")
        first, count = _rows(tensor.shape[0], rank, world)
        expected, found = (count, *tensor.shape[1:]), tuple(local(tensor).shape)
        if found != expected:
            raise ValueError(
                f"{what}: rank {rank} of {world} holds a part of shape {found}, and the DTensor of shape "
                f"{tuple(tensor.shape)} has {_layout(tensor)}; expected a part of shape {expected}, because the rows "
                "must be divided in the same way as by torch.chunk. Create the DTensor with fully_shard or "
                "distribute_tensor"
            )
        return (first, *[0] * (tensor.ndim - 1))


def find(params: Sequence[Any], names: Sequence[str]) -> Shards | None:
    """Return how the parameters are divided, or None if they are not DTensors.

    Raises
    ------
    ValueError
        If a placement is not supported, if only some parameters are DTensors, if the parameters are on different
        meshes, or if this rank is not in the mesh.
    """
    first: int | None = None
    for number, (param, name) in enumerate(zip(params, names, strict=True)):
        if is_dtensor(param) and not _is_supported(param.placements):
            raise ValueError(f"parameter {name!r}: a DTensor with {_layout(param)}; {_EXPECTED}")
        if first is None and is_dtensor(param):
            first = number
    if first is None:
        return None
    mesh = params[first].device_mesh
    for param, name in zip(params, names, strict=True):
        if not is_dtensor(param):
            raise ValueError(
                f"parameter {name!r}: not a DTensor, but parameter {names[first]!r} is a DTensor with "
                f"{_layout(params[first])}; call fully_shard on the module that contains {name!r}, or create a "
                "separate optimizer for the parameters that are not DTensors"
            )
        if param.device_mesh != mesh:
            raise ValueError(
                f"parameter {name!r}: a DTensor on the mesh {param.device_mesh}, but parameter {names[first]!r} is on "
                f"the mesh {mesh}; create a separate optimizer for each mesh"
            )
    if mesh.get_coordinate() is None:
        raise ValueError(
            f"parameter {names[first]!r}: this rank is not in the mesh {mesh} of the DTensor; create the optimizer "
            "only on the ranks of the mesh"
        )
    return Shards(mesh)


def check_grad(grad: Any, param: Any, what: str) -> Any:
    """Return the local part of a gradient. Raise ValueError if the gradient is not divided like its parameter."""
    if is_dtensor(grad) != is_dtensor(param):
        kinds = ["a DTensor" if is_dtensor(tensor) else "not a DTensor" for tensor in (grad, param)]
        raise ValueError(f"{what}: {kinds[0]}, and the parameter is {kinds[1]}; assign a gradient of the same kind")
    if not is_dtensor(grad):
        return grad
    if tuple(grad.placements) != tuple(param.placements) or grad.device_mesh != param.device_mesh:
        raise ValueError(
            f"{what}: a DTensor with placements {tuple(grad.placements)} on the mesh {grad.device_mesh}, and the "
            f"parameter has placements {tuple(param.placements)} on the mesh {param.device_mesh}; expected the same "
            "placements and mesh. If only the placements differ, assign param.grad = "
            "param.grad.redistribute(placements=param.placements) before the step"
        )
    return local(grad)


def communicator(shards: Shards, argument: str, passed: Any, device: Any) -> Any:
    """Return the communicator of an optimizer for one dimension of the mesh.

    Parameters
    ----------
    argument
        "comm" or "shard_comm", the name of the argument of Shampoo.
    passed
        Value of this argument. It is returned, unless it is None and the mesh has a dimension for this argument. In
        that case, the process group of the dimension is returned.
    device
        Device of the local tensors.

    Raises
    ------
    ValueError
        If the rank and the size of `passed` are not those of this process in the mesh dimension, or if `passed` is
        None and the parameters or the mesh are not on the CPU.
    """
    if argument not in shards.dims:
        return passed
    rank, world = shards.rank_and_world(argument)
    if passed is None:
        if device.type != "cpu" or shards.mesh.device_type != "cpu":
            raise ValueError(
                f"{argument}: the parameters are DTensors whose local tensors are on {device} and whose mesh is for "
                f"{shards.mesh.device_type}; expected cpu for both, unless {argument} is passed. Pass a process group "
                f"with gloo as {argument} or, for parameters on CUDA, {argument}=libshampoo.NcclComm(pointer, {rank}, "
                f"{world}), as docs/cuda.md describes"
            )
        return shards.mesh.get_group(shards.dims[argument])
    if isinstance(passed, torch.distributed.ProcessGroup):
        found = (passed.rank(), passed.size())
    elif hasattr(passed, "Get_rank"):  # a communicator of mpi4py
        found = (passed.Get_rank(), passed.Get_size())
    else:
        found = (getattr(passed, "rank", rank), getattr(passed, "world", world))
    if found != (rank, world):
        raise ValueError(
            f"{argument}: the communicator has rank {found[0]} of {found[1]}, but this process is rank {rank} of "
            f"{world} in dimension {shards.dims[argument]} of the parameters' mesh {shards.mesh}; pass a communicator "
            f"of the ranks of this dimension or, if the parameters and the mesh are on the CPU, leave out {argument}"
        )
    return passed
