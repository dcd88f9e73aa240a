# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that libshampoo.torch updates DTensors of FSDP2 as shards, and rejects all other DTensors."""
from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import libshampoo
from tools import ROOT

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")
pytest.importorskip("torch.distributed.fsdp", reason="this PyTorch has no FSDP")
if not hasattr(torch.distributed.fsdp, "fully_shard"):
    pytest.skip("this PyTorch has no fully_shard: pip install 'torch>=2.6'", allow_module_level=True)

from torch import distributed  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from libshampoo import torch_dtensor  # noqa: E402
from libshampoo.torch import Shampoo  # noqa: E402


@pytest.mark.parametrize("mode", ["local", "gather"])
@pytest.mark.parametrize(("copies", "shards"), [(1, 2), (1, 4), (2, 2)])
def test_fsdp2_is_bit_identical_to_one_process(copies: int, shards: int, mode: str, tmp_path: Path) -> None:
    if not distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    program = Path(__file__).with_name("fsdp_ranks.py")
    ranks = [subprocess.Popen([sys.executable, program, str(rank), tmp_path, str(copies), str(shards), mode],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
             for rank in range(copies * shards)]  # fmt: skip
    try:
        said = [rank.communicate(timeout=240)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0] * len(ranks), said
    passed = 9 if mode == "gather" else 8
    assert all(text.count("passed") == passed and "done" in text for text in said), said


def guide() -> list[str]:
    """Return the Python code of the section "From PyTorch" in docs/cuda.md: a program, and the function nccl_comm."""
    page = (ROOT / "docs" / "cuda.md").read_text(encoding="utf-8")
    section = page.partition("### From PyTorch")[2].partition("\n### ")[0]
    return [textwrap.dedent(code) for code in re.findall(r"^ *```python\n(.*?)^ *```", section, re.S | re.M)]


def test_the_guide_runs(tmp_path: Path) -> None:
    program = "\n".join([*guide(), "print('loss', float(loss.detach()))"])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    ranks = [subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2",
                                                             "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
             for rank in range(2)]  # fmt: skip
    try:
        said = [rank.communicate(timeout=240)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert all(float(text.rpartition("loss ")[2]) < 0.3 for text in said), said
    assert (tmp_path / "checkpoint").is_dir()


def test_the_guide_finds_the_communicator_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that nccl_comm of the guide passes PyTorch's communicator to NcclComm. NcclComm and the group are fakes."""
    program, code = guide()
    assert "Shampoo" in program
    names: dict[str, Any] = {"torch": torch}
    exec(code, names)
    calls: list[Any] = []
    ones = torch.ones
    monkeypatch.setattr(torch, "ones", lambda size, device: calls.append(device) or ones(size))
    monkeypatch.setattr(distributed, "all_reduce", lambda tensor, group: calls.append(group))
    monkeypatch.setattr(libshampoo, "NcclComm", lambda pointer, rank, world: (pointer, rank, world))
    backend = SimpleNamespace(_comm_ptr=lambda: 4096)
    group = SimpleNamespace(_get_backend=lambda device: backend, rank=lambda: 1, size=lambda: 2)
    assert names["nccl_comm"](group) == (4096, 1, 2) and calls == ["cuda", group]
    if hasattr(distributed, "ProcessGroupNCCL"):
        assert hasattr(distributed.ProcessGroupNCCL, "_comm_ptr")


class Alone(libshampoo.Communicator):
    rank, world = 0, 1

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        recv[:] = send


@pytest.fixture(params=[4])
def ranks(request: pytest.FixtureRequest) -> Iterator[int]:
    """Make this process rank 0 of a process group whose collectives do nothing."""
    distributed.init_process_group("fake", rank=0, world_size=request.param, store=FakeStore())
    yield request.param
    distributed.destroy_process_group()


def dtensor(mesh: Any, *placements: Any, local: tuple[int, ...] = (2, 3), **options: Any) -> Any:
    return torch.nn.Parameter(DTensor.from_local(torch.ones(local), mesh, placements, run_check=False, **options))


def refused(params: Any, match: str, **options: Any) -> None:
    """Check that Shampoo(params, **options) raises a ValueError whose message matches `match`."""
    with pytest.raises(ValueError, match=match):
        Shampoo(params, **options)


def test_placements_other_than_those_of_fsdp2_are_refused(ranks: int) -> None:
    line, square = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2))
    advice = r".*; expected \(Shard\(dim=0\),\) on a mesh with one dimension .* Call fully_shard"
    for mesh, placements, words in (
        (line, [Shard(1)], r"placements \(Shard\(dim=1\),\) on a mesh of shape \(4,\)"),
        (line, [Replicate()], r"placements \(Replicate\(\),\)"),
        (line, [Partial()], r"placements \(Partial\(sum\),\)"),
        (square, [Shard(0), Shard(0)], r"placements \(Shard\(dim=0\), Shard\(dim=0\)\) on a mesh of shape \(2, 2\)"),
        (square, [Shard(0), Replicate()], r"placements \(Shard\(dim=0\), Replicate\(\)\)"),
        (square, [Replicate(), Shard(1)], r"placements \(Replicate\(\), Shard\(dim=1\)\)"),
        (square, [Replicate(), Replicate()], r"placements \(Replicate\(\), Replicate\(\)\)"),
    ):
        supported = [Replicate()] * (mesh.ndim - 1) + [Shard(0)]
        params = [("first", dtensor(mesh, *supported)), ("w", dtensor(mesh, *placements))]
        refused(params, rf"parameter 'w': a DTensor with {words}{advice}")


def test_tensor_parallel_layers_under_fsdp2_are_refused(ranks: int) -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    model = torch.nn.Sequential(torch.nn.Linear(8, 8))
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    assert any("StridedShard" in type(placement).__name__ for placement in model[0].weight.placements)
    refused(model.named_parameters(), r"parameter '0.weight': a DTensor with placements .*_StridedShard.*fully_shard")


def test_parameters_that_are_divided_in_different_ways_are_refused(ranks: int) -> None:
    line = init_device_mesh("cpu", (4,))
    square = init_device_mesh("cpu", (2, 2))
    whole = torch.nn.Parameter(torch.ones(3))
    for params in ([("w", dtensor(line, Shard(0))), ("b", whole)], [("b", whole), ("w", dtensor(line, Shard(0)))]):
        refused(params, "parameter 'b': not a DTensor, but parameter 'w' is a DTensor .*; call fully_shard")
    params = [("w", dtensor(line, Shard(0))), ("v", dtensor(square, Replicate(), Shard(0)))]
    refused(params, "parameter 'v': a DTensor on the mesh .*, but parameter 'w' is on .* optimizer for each mesh")
    uneven = dtensor(line, Shard(0), shape=torch.Size([10, 3]), stride=(3, 1))  # torch.chunk gives 3 rows to rank 0
    refused([("w", uneven)], r"parameter 'w': rank 0 of 4 holds a part of shape \(2, 3\), .*expected .* \(3, 3\)")
    elsewhere = DeviceMesh("cpu", [2, 3])  # does not contain this rank, which is 0
    refused([("w", dtensor(elsewhere, Shard(0)))], "parameter 'w': this rank is not in the mesh")


def test_devices_and_communicators_are_checked(ranks: int) -> None:
    line = init_device_mesh("cpu", (4,))
    params = [("w", dtensor(line, Shard(0)))]
    nowhere = DTensor.from_local(torch.ones(2, 3, device="meta"), line, [Shard(0)], run_check=False)
    refused([("w", torch.nn.Parameter(nowhere))], "parameter 'w': on device meta; expected the CPU or CUDA")
    refused(params, r"shard_comm: the communicator has rank 0 of 1, .* rank 0 of 4 in dimension 0", shard_comm=Alone())
    pair = distributed.new_group([0, 1])
    refused(params, r"shard_comm: the communicator has rank 0 of 2, but this process is rank 0 of 4", shard_comm=pair)
    square = init_device_mesh("cpu", (2, 2))
    refused([("w", dtensor(square, Replicate(), Shard(0)))], r"comm: rank 0 of 1, but .* rank 0 of 2 in dimension 0",
            comm=Alone())  # fmt: skip
    shards = torch_dtensor.find([param for _, param in params], ["w"])
    assert shards is not None

    def connect(passed: Any) -> Any:
        return torch_dtensor.communicator(shards, "shard_comm", passed, torch.device("cuda", 0))

    with pytest.raises(ValueError, match=r"local tensors are on cuda:0 .*=libshampoo.NcclComm\(pointer, 0, 4\)"):
        connect(None)
    nccl = libshampoo.NativeComm(0, 0, 4)
    assert connect(nccl) is nccl and connect(distributed.group.WORLD) is distributed.group.WORLD


def test_a_process_group_needs_a_backend_for_the_cpu(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    line = init_device_mesh("cpu", (4,))
    monkeypatch.setattr(distributed, "get_backend_config", lambda group: "cuda:nccl")
    refused([("w", dtensor(line, Shard(0)))], "shard_comm: a process group with the backend cuda:nccl; expected .*gloo")
    refused([torch.ones(3)], "comm: a process group with the backend cuda:nccl; .* pass a libshampoo.NcclComm",
            comm=distributed.group.WORLD)  # fmt: skip


@pytest.mark.parametrize("ranks", [1], indirect=True)
def test_wrong_gradients_added_groups_and_state_dict_are_rejected_with_dtensors(ranks: int) -> None:
    line = init_device_mesh("cpu", (1,))
    param = dtensor(line, Shard(0))
    opt = Shampoo([("w", param)], lr=0.5, shard_comm=Alone())
    before = param.to_local().detach().clone()
    param.grad = DTensor.from_local(torch.ones(2, 3), line, [Partial()], run_check=False)
    with pytest.raises(ValueError, match=r"gradient of 'w': a DTensor with placements \(Partial.*grad.redistribute"):
        opt.step()
    param.grad = param.grad.redistribute(line, [Replicate()])
    with pytest.raises(ValueError, match=r"gradient of 'w': a DTensor with placements \(Replicate"):
        opt.step()
    assert torch.equal(param.to_local(), before)
    param.grad = param.grad.redistribute(line, param.placements)
    opt.step()
    assert not torch.equal(param.to_local(), before)
    with pytest.raises(RuntimeError, match="add_param_group: .* or with DTensor parameters, cannot take more"):
        opt.add_param_group({"params": [dtensor(line, Shard(0))]})
    with pytest.raises(RuntimeError, match=r"state_dict: the parameters are DTensors.*optimizer.save\(directory\)"):
        opt.state_dict()
    plain = torch.nn.Parameter(torch.ones(2, 3))
    plain_opt = Shampoo([plain])
    with pytest.raises(ValueError, match="parameter 'param0': not a DTensor, but parameter 'param1' is a DTensor"):
        plain_opt.add_param_group({"params": [dtensor(line, Shard(0))]})
    assert len(plain_opt.param_groups) == 1
    with pytest.raises(ValueError, match="gradient of 'p': a DTensor, and the parameter is not a DTensor"):
        torch_dtensor.check_grad(param.grad, plain, "gradient of 'p'")


@pytest.mark.parametrize("ranks", [1], indirect=True)
def test_steps_are_in_place(ranks: int) -> None:
    line = init_device_mesh("cpu", (1,))
    param = dtensor(line, Shard(0), local=(6, 3))
    address = param.to_local().data_ptr()
    opt = Shampoo([("w", param)], lr=0.5, shard_comm=Alone())
    param.grad = DTensor.from_local(torch.ones(6, 3), line, [Shard(0)], run_check=False)
    version = param._version
    opt.step()
    assert param.to_local().data_ptr() == address and bool((param.to_local() < 1).all())
    assert param._version > version
    param._local_tensor = torch.ones(6, 3)  # FSDP2 replaces this tensor when Module.to() is called
    assert param.to_local().data_ptr() != address
    opt.step()
    assert bool((param.to_local() < 1).all())
