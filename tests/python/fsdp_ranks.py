# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs one rank of test_torch_fsdp.py, which trains with FSDP2 over gloo.

    fsdp_ranks.py RANK FOLDER COPIES SHARDS MODE

There are COPIES copies of the model, each in SHARDS shards. MODE is the value of the key shard_mode. All ranks have the
same batches, so that the averaged gradients are bit-identical to those of one process. With shard_mode=gather, the
trained parameters must be bit-identical to those of the unsharded model. With shard_mode=local, they must be
bit-identical to those of an optimizer that has each shard as a parameter.
"""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import distributed
from torch.distributed.checkpoint import state_dict as dcp_state
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate

from libshampoo.torch import ProcessGroupComm, Shampoo

KEYS: dict[str, Any] = {"lr": 0.05, "precondition_frequency": 2, "max_preconditioner_dim": 8, "weight_decay": 0.1}
STEPS = 6


def make() -> Any:
    """Return a model whose parameters have 13 or 5 rows, so that shards differ in size.

    With 4 shards, one shard has no row of the last layer.
    """
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(12, 13), torch.nn.Tanh(), torch.nn.Linear(13, 5))


def shard(model: Any, mesh: Any) -> Any:
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def backward(model: Any, step: int) -> float:
    inputs = torch.randn(16, 12, generator=torch.Generator().manual_seed(step))
    model.zero_grad()
    loss = (model(inputs) - inputs[:, :5].sin()).square().mean()
    loss.backward()
    return float(loss.detach())


class Reference:
    """Trains the same model in one process, without FSDP.

    If ``pieces`` is above 1, each parameter is divided into at most ``pieces`` shards. These shards are then the
    parameters of the optimizer.
    """

    def __init__(self, pieces: int) -> None:
        self.model = make()
        self.params = [*self.model.parameters()]
        self.pieces = [[torch.nn.Parameter(chunk.clone()) for chunk in param.detach().chunk(pieces)]
                       for param in self.params] if pieces > 1 else None  # fmt: skip
        stepped = self.params if self.pieces is None else [piece for chunks in self.pieces for piece in chunks]
        self.opt = Shampoo(stepped, **KEYS)

    def step(self, step: int) -> float:
        loss = backward(self.model, step)
        if self.pieces is not None:
            for param, chunks in zip(self.params, self.pieces):
                for piece, grad in zip(chunks, param.grad.chunk(len(chunks))):
                    piece.grad = grad.clone()
        self.opt.step()
        if self.pieces is not None:
            for param, chunks in zip(self.params, self.pieces):
                param.data.copy_(torch.cat([chunk.detach() for chunk in chunks]))
        return loss


def check(name: str, condition: bool) -> None:
    assert condition, name
    print("passed", name, flush=True)


def same(model: Any, reference: Any) -> bool:
    pairs = zip(model.parameters(), reference.parameters())
    return all(torch.equal(param.full_tensor(), other) for param, other in pairs)


def main() -> None:
    rank, copies, shards = (int(sys.argv[number]) for number in (1, 3, 4))
    folder, mode = Path(sys.argv[2]), sys.argv[5]
    torch.set_num_threads(1)
    meeting = f"file://{folder}/meeting"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=copies * shards)
    if copies == 1:
        mesh = init_device_mesh("cpu", (shards,))
    else:
        mesh = init_device_mesh("cpu", (copies, shards), mesh_dim_names=("copies", "shards"))
    model = shard(make(), mesh)
    assert all(isinstance(param, DTensor) for param in model.parameters())
    opt = Shampoo(model.named_parameters(), shard_mode=mode, **KEYS)
    check("the plan has all parameter names", opt.optimizer.plan.names == ["0.weight", "0.bias", "2.weight", "2.bias"])
    check("each copy owns some blocks", len({block.owner for block in opt.optimizer.plan.blocks}) == copies)
    reference = Reference(shards if mode == "local" else 1)
    exchanges = []
    all_to_all = distributed.all_to_all_single
    distributed.all_to_all_single = lambda *args, **options: (exchanges.append(1), all_to_all(*args, **options))
    losses = []
    for step in range(STEPS):
        loss, expected = backward(model, step), reference.step(step)
        opt.step()
        losses.append(loss)
        assert loss == expected, (step, loss, expected)
        assert same(model, reference.model), step
    distributed.all_to_all_single = all_to_all
    check("each step calls all-to-all twice with shard_mode=gather, and never with shard_mode=local",
          len(exchanges) == (2 * STEPS if mode == "gather" else 0))
    check(f"the loss falls from {losses[0]} to {losses[-1]}", losses[-1] < 0.6 * losses[0])
    check("the state has the number of steps", float(opt.state[next(model.parameters())]["step"]) == STEPS)

    opt.optimizer.save(folder / "checkpoint", world=ProcessGroupComm())
    again = shard(make(), mesh)
    for param, saved in zip(again.parameters(), model.parameters()):
        param.to_local().detach().copy_(saved.to_local().detach())
    again_opt = Shampoo(again.named_parameters(), shard_mode=mode, **KEYS)
    again_opt.optimizer.load(folder / "checkpoint", world=ProcessGroupComm())
    backward(again, STEPS)
    again_opt.step()
    backward(model, STEPS)
    opt.step()
    reference.step(STEPS)
    check("training continues from a checkpoint", same(again, reference.model) and same(model, reference.model))
    if mode == "gather":
        alone = make()
        alone_opt = Shampoo(alone.named_parameters(), **KEYS)
        alone_opt.optimizer.load(folder / "checkpoint")
        check("one process loads the checkpoint", float(alone_opt.state[alone[0].weight]["step"]) == STEPS)

    def state_of_pytorch() -> Any:
        return dcp_state.get_optimizer_state_dict(model, opt)

    for call in (opt.state_dict, lambda: opt.load_state_dict({}), state_of_pytorch):
        try:
            call()
        except RuntimeError as error:
            assert "the parameters are DTensors" in str(error) and "optimizer.save(directory)" in str(error), error
        else:
            raise AssertionError("expected an error, because state dicts of PyTorch are not supported")
    check("state dicts of PyTorch are rejected", True)

    # The gradient that is set below is the result of a collective that may still be running.
    weight = model[0].weight
    whole = DTensor.from_local(torch.ones(weight.shape), mesh, [Replicate()] * mesh.ndim, run_check=False)
    before = weight.full_tensor()
    model.zero_grad()
    weight.grad = whole.redistribute(mesh, weight.placements, async_op=True)
    opt.step()
    check("only the parameter with a gradient changes", not torch.equal(weight.full_tensor(), before)
          and torch.equal(model[2].weight.full_tensor(), reference.model[2].weight))  # fmt: skip
    distributed.barrier()
    distributed.destroy_process_group()
    print("done")


if __name__ == "__main__":
    main()
