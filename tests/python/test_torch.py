# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests libshampoo.torch.Shampoo. On the CPU, this class and libshampoo.Optimizer give bit-identical results."""
from __future__ import annotations

import copy
import doctest
import gc
import io
import pickle
import subprocess
import sys
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libshampoo

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

import libshampoo.torch  # noqa: E402
from libshampoo.torch import Shampoo  # noqa: E402

KEYS: dict[str, Any] = {"grafting": "adam", "beta2": 0.99, "precondition_frequency": 2, "max_preconditioner_dim": 16}


def make(seed: int = 0, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(20, 12), torch.nn.Tanh(), torch.nn.Linear(12, 4)).to(dtype)


def fill_grads(model: Any, step: int) -> None:
    random = torch.Generator().manual_seed(step)
    for param in model.parameters():
        param.grad = torch.randn(param.shape, generator=random).to(param.dtype)


def bits(model: Any) -> bytes:
    return b"".join(param.detach().view(torch.uint8).numpy().tobytes() for param in model.parameters() if param.dim())


def test_the_docstring_runs() -> None:
    assert doctest.testmod(libshampoo.torch).failed == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_results_are_bit_identical_to_those_with_numpy(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    model = make(dtype=getattr(torch, dtype))
    kind = libshampoo.dtypes.numpy_dtype(libshampoo.dtypes.CODES[libshampoo.dtypes.LONG_NAMES[dtype]])
    values = [param.detach().clone().view(torch.uint8).numpy().view(kind) for param in model.parameters()]
    opt = Shampoo(model.named_parameters(), lr=0.1, weight_decay=0.1, **KEYS)
    reference = libshampoo.Optimizer(values, lr=0.1, weight_decay=0.1, **KEYS)
    for step in range(5):
        fill_grads(model, step)
        opt.step()
        reference.step([param.grad.view(torch.uint8).numpy().view(kind) for param in model.parameters()])
    assert bits(model) == b"".join(value.tobytes() for value in values)
    assert opt.optimizer.plan.names == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_step_reads_and_writes_the_memory_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1)
    fill_grads(model, 1)
    seen: list[list[list[int]]] = []
    native = libshampoo._native.shampoo_optimizer_bind

    def watch(handle: Any, first: int, views: Any) -> None:
        seen.append([[0 if view is None else view.pointer for view in four] for four in views])
        native(handle, first, views)

    monkeypatch.setattr(libshampoo._native, "shampoo_optimizer_bind", watch)
    opt.step()
    wanted = [[param.data_ptr(), param.grad.data_ptr(), param.data_ptr(), 0] for param in model.parameters()]
    assert seen[0] == wanted
    assert [four[1] for four in seen[-1]] == [0] * 4, "gradients must be released"


@pytest.mark.parametrize("keys", [{"averaging": "schedule_free"}, {"weight_ema": 0.75}])
def test_eval_writes_averages_to_the_parameters_and_train_restores_them(keys: dict[str, Any]) -> None:
    model, reference = make(), make()
    opt = Shampoo(model.named_parameters(), lr=0.1, **KEYS, **keys)
    other = Shampoo(reference.named_parameters(), lr=0.1, **KEYS, **keys)
    for step in range(4):
        fill_grads(model, step)
        fill_grads(reference, step)
        opt.step()
        other.step()
        before = bits(model)
        assert before == bits(reference)
        saved = opt.state_dict()
        opt.eval()
        opt.eval()
        averages = [torch.empty_like(param) for param in reference.parameters()]
        other.optimizer.export([average.detach() for average in averages])
        for param, average in zip(model.parameters(), averages, strict=True):
            assert torch.equal(param, average)
        assert step == 0 or before != bits(model)
        for method in (opt.step, opt.state_dict, lambda: opt.load_state_dict(saved), lambda: copy.deepcopy(opt)):
            with pytest.raises(libshampoo.StateError, match=r"opt.eval\(\) was called; call opt.train\(\) first"):
                method()
        opt.train()
        opt.train()
        assert bits(model) == before


def test_eval_without_averages_does_nothing() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1, **KEYS)
    before = bits(model)
    opt.eval()
    assert bits(model) == before
    fill_grads(model, 1)
    opt.step()


def test_gradients_are_freed_by_zero_grad() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1)
    fill_grads(model, 1)
    storage = weakref.ref(model[0].weight.grad)
    opt.step()
    views = [view for view in opt.optimizer._buffers.views[1] if view is not None]
    opt.zero_grad()
    gc.collect()
    assert storage() is None and views == [] and model[0].weight.grad is None


def test_training_with_a_closure_works() -> None:
    model, inputs = make(), torch.randn(64, 20, generator=torch.Generator().manual_seed(3))
    targets = inputs[:, :4].tanh()
    opt = Shampoo(model.parameters(), lr=0.03, **KEYS)

    def closure() -> Any:
        assert torch.is_grad_enabled()
        opt.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        return loss

    losses = [opt.step(closure).item() for _ in range(60)]
    assert losses[-1] < 0.1 * losses[0]
    assert opt.step() is None
    assert all(param.requires_grad and param.is_leaf for param in model.parameters())


def test_steps_use_the_values_that_schedulers_write_to_param_groups() -> None:
    model, twin = make(), make()
    opt = Shampoo(
        [{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters(), "weight_decay": 0.5}],
        lr=0.2, **KEYS,
    )  # fmt: skip
    assert [(group["lr"], group["weight_decay"]) for group in opt.param_groups] == [(0.1, 0.0), (0.2, 0.5)]
    assert opt.param_groups[0]["grafting"] == "adam" and opt.param_groups[0]["momentum"] == 0.0
    assert (opt.defaults["lr"], opt.defaults["weight_decay"]) == (0.2, 0.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, gamma=0.5)
    by_hand = libshampoo.Optimizer(
        [{"params": [p.detach() for p in twin[0].parameters()], "lr": 0.1},
         {"params": [p.detach() for p in twin[2].parameters()], "weight_decay": 0.5}], lr=0.2, **KEYS,
    )  # fmt: skip
    for step in range(4):
        fill_grads(model, step)
        opt.step()
        by_hand.step([param.grad for param in model.parameters()])
        scheduler.step()
        for group, lr in zip(by_hand.param_groups, (0.1, 0.2)):
            group["lr"] = lr * 0.5 ** (step + 1)
        opt.param_groups[1]["weight_decay"] = by_hand.param_groups[1]["weight_decay"] = 0.25
    assert opt.optimizer.param_groups[1]["weight_decay"] == 0.25
    assert bits(model) == bits(twin)


def test_each_step_reads_a_learning_rate_tensor() -> None:
    model, twin = make(), make()
    rate = torch.tensor(0.5)
    opt, other = Shampoo(model.parameters(), lr=rate), Shampoo(twin.parameters(), lr=0.5)
    for step in range(3):
        fill_grads(model, step)
        fill_grads(twin, step)
        opt.step()
        other.step()
        rate.fill_(0.25)
        other.param_groups[0]["lr"] = 0.25
    assert opt.param_groups[0]["lr"] is rate
    assert bits(model) == bits(twin)


def test_wrong_keys_and_changes_of_fixed_keys_are_rejected() -> None:
    model = make()
    with pytest.raises(TypeError, match='"graftin": did you mean grafting'):
        Shampoo(model.parameters(), graftin="adam")
    for name in ("foreach", "fused", "capturable", "differentiable", "betas", "eps"):
        with pytest.raises(TypeError, match=f"Shampoo: {name} is an option of PyTorch's own optimizers; "):
            Shampoo(model.parameters(), **{name: True})
        with pytest.raises(TypeError, match=f"param_group: {name} is an option"):
            Shampoo([{"params": model.parameters(), name: True}])
    opt = Shampoo(model.parameters(), **KEYS)
    fill_grads(model, 1)
    before = bits(model)
    for key, value in (("grafting", "sgd"), ("max_preconditioner_dim", 8), ("root_method", "higher_order")):
        saved = dict(opt.param_groups[0])
        opt.param_groups[0][key] = value
        with pytest.raises(ValueError, match=f"{key}: fixed"):
            opt.step()
        opt.param_groups[0] = saved
    opt.param_groups[0]["lr"] = -1.0
    with pytest.raises(ValueError, match="lr"):
        opt.step()
    assert bits(model) == before


@pytest.mark.parametrize("name", ["OneCycleLR", "CyclicLR"])
def test_cycling_a_momentum_of_zero_is_rejected(name: str) -> None:
    def schedule(opt: Any, **options: Any) -> Any:
        kind = getattr(torch.optim.lr_scheduler, name)
        return kind(opt, 0.1, total_steps=10, **options) if name == "OneCycleLR" else kind(opt, 0.01, 0.1, **options)

    model = make()
    opt = Shampoo(model.parameters(), **KEYS)
    with pytest.raises(ValueError, match="cycle_momentum"):  # PyTorch raises this error
        schedule(opt)
    opt.param_groups[0]["momentum"] = 0.9
    fill_grads(model, 1)
    before = bits(model)
    with pytest.raises(RuntimeError, match="momentum of group 0 is 0.9, .* pass cycle_momentum=False"):
        opt.step()
    assert bits(model) == before
    opt.param_groups[0]["momentum"] = 0.0
    scheduler = schedule(opt, cycle_momentum=False)
    opt.step()
    scheduler.step()
    other = Shampoo(model.parameters(), momentum=0.5, **KEYS)
    scheduler = schedule(other)
    other.step()
    assert other.optimizer.param_groups[0]["momentum"] == other.param_groups[0]["momentum"] != 0.5


def test_the_error_for_an_invalid_parameter_names_the_parameter() -> None:
    with pytest.raises(ValueError, match=r"parameter 'w': its strides \(1, 4\)"):
        Shampoo([("w", torch.ones(3, 4).t())])
    with pytest.raises(ValueError, match=r"parameter 'param0': its strides \(8, 2\)"):
        Shampoo([torch.ones(3, 8)[:, ::2]])
    lazy = torch.nn.parameter.UninitializedParameter()
    convolution = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    with pytest.raises(ValueError, match=r"'weight': .* model.to\(memory_format=torch.contiguous_format\)"):
        Shampoo(convolution.named_parameters())
    with pytest.raises(ValueError, match="parameter 'weight': not initialized yet"):
        Shampoo([("weight", lazy)])
    with pytest.raises(ValueError, match=r"^lr: a tensor of shape \(0,\)"):
        Shampoo([torch.ones(3)], lr=torch.tensor([]))
    with pytest.raises(ValueError, match="^lr: None"):
        Shampoo([torch.ones(3)], lr=None)
    with pytest.raises(TypeError, match="sets"):
        Shampoo([{"params": {torch.ones(3)}}])
    with pytest.raises(ValueError, match="parameter 'w': on device meta"):
        Shampoo([("w", torch.ones(3, device="meta"))])
    with pytest.raises(ValueError, match="parameter 'w': dtype"):
        Shampoo([("w", torch.ones(3, dtype=torch.complex64))])
    with pytest.raises(ValueError, match="param1.*overlaps the parameter"):
        weight = torch.ones(3)
        Shampoo([weight, weight.view(3)])
    with pytest.raises(ValueError, match="names"):
        Shampoo([("w", torch.ones(3)), torch.ones(3)])
    with pytest.raises(ValueError, match="empty"):
        Shampoo([])
    with pytest.raises(ValueError, match="non-leaf"):
        Shampoo([torch.ones(3, requires_grad=True) * 2])


def test_the_error_for_an_invalid_gradient_names_the_parameter() -> None:
    weight, table = torch.nn.Parameter(torch.ones(4, 3)), torch.nn.Embedding(5, 3, sparse=True)
    opt = Shampoo([("w", weight), ("table", table.weight)])
    before = table.weight.detach().clone()
    weight.grad = torch.ones(4, 3)
    table(torch.tensor([1, 2])).sum().backward()
    with pytest.raises(ValueError, match="gradient of 'table': layout torch.sparse_coo"):
        opt.step()
    table.weight.grad = torch.view_as_complex(torch.ones(5, 3, 2)).conj().imag
    with pytest.raises(ValueError, match="gradient of 'table': "):
        opt.step()
    table.weight.grad = torch.full((5, 3), torch.nan)
    with pytest.raises(FloatingPointError, match="table"):
        opt.step()
    assert (weight == 1).all() and (table.weight == before).all()


def test_a_negated_view_is_rejected() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    opt = Shampoo([weight])
    weight.grad = torch.tensor([1 + 1j]).conj().imag
    with pytest.raises(ValueError, match="gradient of 'param0': a negated view"):
        opt.step()


def test_a_state_belongs_to_the_parameter_with_the_longest_matching_name() -> None:
    opt = Shampoo([("w", torch.ones(3)), ("w/0", torch.ones(2))], precondition_1d=True)
    state = opt.state_dict()["state"]
    assert [state[number]["0/factor.0"].shape for number in range(2)] == [(3, 3), (2, 2)]
    assert set(state[0]) == set(state[1])


def test_parameters_without_a_gradient_do_not_change() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1, weight_decay=0.5)
    before = bits(model)
    opt.step()
    assert bits(model) == before and opt.optimizer.stats()["steps"] == 0
    frozen = [param.detach().clone() for param in model[2].parameters()]
    fill_grads(model, 1)
    model[2].zero_grad()
    opt.step()
    assert all((a == b).all() for a, b in zip(frozen, model[2].parameters()))
    assert bits(model) != before


def groups(model: Any) -> list[dict[str, Any]]:
    return [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.3}]


def test_training_continues_bit_identically_from_a_loaded_state() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        states = {"factor_dtype": torch.bfloat16} if dtype is torch.float32 else {}
        if states or dtype is torch.bfloat16:
            pytest.importorskip("ml_dtypes")
        model = make(dtype=dtype)
        opt = Shampoo(groups(model), lr=0.1, momentum=0.5, **KEYS, **states)
        for step in range(3):
            fill_grads(model, step)
            opt.step()
        opt.param_groups[1]["lr"] = 0.7
        file = io.BytesIO()
        torch.save([model.state_dict(), opt.state_dict()], file)
        file.seek(0)
        saved_model, saved = torch.load(file, weights_only=True)
        assert saved["param_groups"][0]["params"] == [0, 1] and saved["state"][0]["step"] == 3
        if states:
            assert saved["state"][0]["0/factor.0"].dtype is torch.bfloat16
        assert saved["state"][0]["0/factor.0"].shape == (12, 12)
        assert saved["state"][2]["0/momentum"].dtype is torch.float32
        other_model = make(seed=5, dtype=dtype)
        other_model.load_state_dict(saved_model)
        other = Shampoo(groups(other_model), lr=0.1, momentum=0.5, **KEYS, **states)
        other.load_state_dict(saved)
        again = other.state_dict()
        assert all(
            torch.equal(value, again["state"][number][name]) and value.dtype is again["state"][number][name].dtype
            for number, entries in saved["state"].items() for name, value in entries.items()
        )  # fmt: skip
        for step in range(3, 6):
            for net, optimizer in ((model, opt), (other_model, other)):
                fill_grads(net, step)
                optimizer.step()
        assert bits(model) == bits(other_model)
        assert other.param_groups[1]["lr"] == 0.7


def test_wrong_states_are_rejected_and_change_nothing() -> None:
    model = make()
    opt = Shampoo(model.named_parameters(), lr=0.1, precondition_1d=True, **KEYS)
    fill_grads(model, 1)
    opt.step()
    saved = opt.state_dict()

    def broken(change: Any) -> dict[str, Any]:
        state = copy.deepcopy(saved)
        change(state)
        return state

    def rejects(match: str, state: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=match):
            opt.load_state_dict(state)
        after = opt.state_dict()
        assert all(torch.equal(value, after["state"][k][name]) for k in range(4)
                   for name, value in saved["state"][k].items())  # fmt: skip

    rejects("'0.bias/0/factor.0' is missing", broken(lambda state: state["state"][1].pop("0/factor.0")))
    rejects("no such entry", broken(lambda state: state["state"][1].update({"0/more": torch.ones(1)})))
    rejects("shape", broken(lambda state: state["state"][1].update({"0/factor.0": torch.ones(1)})))
    rejects("of '2.bias': step is 7", broken(lambda state: state["state"][3].update({"step": torch.tensor(7)})))
    rejects("key grafting is 'sgd'", broken(lambda state: state["param_groups"][0].update(grafting="sgd")))
    rejects("groups", broken(lambda state: state["param_groups"].append(dict(params=[]))))
    # `opt` was created without use_nesterov, so use_nesterov has its default, False.
    rejects("key use_nesterov is True, but the optimizer was created with False, and this key cannot change",
            broken(lambda state: state["param_groups"][0].update(use_nesterov=True)))  # fmt: skip
    for value in (-1.0, torch.tensor(float("nan"))):
        rejects("key lr: the value", broken(lambda state, value=value: state["param_groups"][0].update(lr=value)))
    assert opt.param_groups[0]["lr"] == 0.1
    fill_grads(model, 2)
    opt.step()


def test_describe_sets_roles_and_row_splits() -> None:
    tensors = [("embed", torch.ones(6, 4)), ("qkv", torch.ones(9, 5))]
    options = {"embed": {"role": "embedding"}, "qkv": {"row_splits": (4, 2, 3)}}
    opt = libshampoo.torch.Shampoo(tensors, describe=lambda name: options[name])
    blocks = [(block.param, block.shape) for block in opt.optimizer.plan.blocks]
    assert blocks == [("embed", (6, 4)), ("qkv", (4, 5)), ("qkv", (2, 5)), ("qkv", (3, 5))]
    assert not any(key.startswith("embed/0/factor") for key in opt.optimizer.state_dict())
    for other in (copy.deepcopy(opt), pickle.loads(pickle.dumps(opt))):
        assert [(block.param, block.shape) for block in other.optimizer.plan.blocks] == blocks
    options["qkv"] = {}  # has no effect, because describe was already called for qkv
    options["head"] = {}
    opt.add_param_group({"params": [("head", torch.ones(3, 2))]})
    assert [(block.param, block.shape) for block in opt.optimizer.plan.blocks][:4] == blocks


@pytest.mark.parametrize("method", ["shampoo", "soap", "kl_shampoo", "muon", "sign", "adam", "adagrad", "rmsprop", "sgd"])
def test_the_state_of_each_method_can_be_loaded(method: str) -> None:
    param = torch.ones(4, 3, requires_grad=True)
    opt = libshampoo.torch.Shampoo([param], method=method)
    for _ in range(3):
        param.grad = torch.full_like(param, 0.5)
        opt.step()
    opt.load_state_dict(opt.state_dict())


def test_a_group_can_be_empty() -> None:
    def make_opt(model: Any) -> Any:
        return Shampoo([{"params": model.parameters()}, {"params": [], "weight_decay": 0.5}], lr=0.1)

    model, twin = make(), make()
    opt, other = make_opt(model), make_opt(twin)
    fill_grads(model, 1)
    opt.step()
    other.load_state_dict(opt.state_dict())
    twin.load_state_dict(model.state_dict())
    for net, optimizer in ((model, opt), (twin, other)):
        fill_grads(net, 2)
        optimizer.step()
    assert bits(model) == bits(twin)
    assert copy.deepcopy(other).param_groups[1]["weight_decay"] == 0.5


def test_state_dict_hooks_see_the_states_of_all_parameters() -> None:
    model = make()
    opt = Shampoo(model.parameters(), **KEYS)
    seen: list[str] = []
    opt.register_step_pre_hook(lambda *_: seen.append("before"))
    opt.register_step_post_hook(lambda *_: seen.append("after"))
    opt.register_state_dict_post_hook(lambda _, state: seen.append(f"{len(state['state'])} parameters"))

    def halve(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        entries = {number: {name: value.clone() for name, value in entries.items()}
                   for number, entries in state["state"].items()}  # fmt: skip
        entries[0]["0/filtered_grad"] /= 2
        return {**state, "state": entries}

    opt.register_load_state_dict_pre_hook(halve)
    fill_grads(model, 1)
    opt.step()
    state = opt.state_dict()
    opt.load_state_dict(state)
    assert torch.equal(opt.state_dict()["state"][0]["0/filtered_grad"], state["state"][0]["0/filtered_grad"] / 2)
    assert seen == ["before", "after", "4 parameters", "4 parameters"]


def test_parameters_that_were_moved_in_memory_are_updated() -> None:
    model, twin = make(), make()
    opt, other = Shampoo(model.parameters(), lr=0.1), Shampoo(twin.parameters(), lr=0.1)
    for step in range(3):
        fill_grads(model, step)
        fill_grads(twin, step)
        opt.step()
        other.step()
        for param in model.parameters():
            param.data = param.data.clone()
    assert bits(model) == bits(twin)
    model[0].weight.grad = None
    model[0].weight.data = model[0].weight.data.double()
    with pytest.raises(ValueError, match="parameter 'param0': dtype float64"):
        opt.step()


def test_a_parameter_whose_strides_changed_is_rejected() -> None:
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    opt = Shampoo([weight], lr=0.1)
    weight.data = weight.data.t()  # changes the strides, but not the address
    weight.grad = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"'param0': its strides \(1, 2\)"):
        opt.step()
    assert not weight.any()


def test_autograd_detects_that_a_step_has_changed_a_parameter() -> None:
    weight = torch.nn.Parameter(torch.ones(3))
    opt = Shampoo([weight], lr=0.1)
    loss = (weight * weight).sum()
    weight.grad = torch.ones(3)
    opt.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_an_added_group_starts_at_step_0_and_changes_no_other_state() -> None:
    model, twin = make(), make()
    opt = Shampoo(model[0].named_parameters(), lr=0.1, momentum=0.5, **KEYS)
    reference = Shampoo(twin[0].named_parameters(), lr=0.1, momentum=0.5, **KEYS)
    for step in range(3):
        fill_grads(model, step)
        fill_grads(twin, step)
        opt.step()
        reference.step()
    opt.param_groups[0].update(lr=0.2, momentum=0.0)
    reference.param_groups[0].update(lr=0.2, momentum=0.0)
    before = opt.state_dict()["state"]
    last = [("last.weight", model[2].weight), ("last.bias", model[2].bias)]
    opt.add_param_group({"params": last, "weight_decay": 0.1})
    assert opt.param_groups[0]["lr"] == 0.2 and opt.param_groups[0]["momentum"] == 0.0
    added = {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.1, "grafting": "adam"}
    assert {name: opt.param_groups[1][name] for name in added} == added
    after = opt.state_dict()["state"]
    assert all(torch.equal(value, after[k][name]) for k in before for name, value in before[k].items())
    assert (after[0]["step"], after[2]["step"]) == (3, 0)
    late = Shampoo(twin[2].parameters(), lr=0.1, momentum=0.5, weight_decay=0.1, **KEYS)
    for step in range(3, 7):
        fill_grads(model, step)
        fill_grads(twin, step)
        opt.step()
        reference.step()
        late.step()
    assert bits(model) == bits(twin)
    assert (opt.state[model[0].weight]["step"], opt.state[model[2].weight]["step"]) == (7, 4)
    assert opt.optimizer.plan.names == ["weight", "bias", "last.weight", "last.bias"]
    again = Shampoo([{"params": model[0].named_parameters()}], lr=0.1, momentum=0.5, **KEYS)
    again.add_param_group({"params": model[2].named_parameters("last"), "weight_decay": 0.1})
    again.load_state_dict(opt.state_dict())
    assert again.state[model[2].weight]["step"] == 4


def test_a_rejected_group_changes_nothing() -> None:
    model = make()
    opt = Shampoo(model[0].parameters(), **KEYS)
    fill_grads(model, 1)
    opt.step()
    saved, made = opt.state_dict(), opt.optimizer
    for group, match in (
        ({"params": [model[0].weight]}, "more than one parameter group"),
        ({"params": [torch.nn.Parameter(torch.ones(3, 4).t())]}, "parameter 'param2': its strides"),
        ({"params": [torch.nn.Parameter(torch.ones(3))], "lr": -1.0}, "lr"),
        ({"params": [("w", torch.nn.Parameter(torch.ones(3)))]}, "with/without names|taken"),
    ):
        if "names" in match and not hasattr(torch.optim.Optimizer, "_process_value_according_to_param_policy"):
            continue
        with pytest.raises(ValueError, match=match):
            opt.add_param_group(group)
        assert len(opt.param_groups) == 1 and opt.optimizer is made
    with pytest.raises(TypeError, match="dictionary"):
        opt.add_param_group([torch.nn.Parameter(torch.ones(3))])
    again = opt.state_dict()
    assert torch.equal(again["state"][0]["0/factor.0"], saved["state"][0]["0/factor.0"])
    opt.step()


def copies(model: Any, opt: Any) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save((model, opt), file)
    file.seek(0)
    return {
        "deepcopy": copy.deepcopy((model, opt)),
        "pickle": pickle.loads(pickle.dumps((model, opt))),
        "save": torch.load(file, weights_only=False),
    }


@pytest.mark.parametrize("way", ["deepcopy", "pickle", "save"])
def test_copies_of_an_optimizer_continue_bit_identically(way: str) -> None:
    model = make()
    opt = Shampoo(groups(model), lr=torch.tensor(0.1), momentum=0.5, **KEYS)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    for step in range(3):
        fill_grads(model, step)
        opt.step()
    scheduler.step()
    opt.add_param_group({"params": [torch.nn.Parameter(torch.ones(3, 2))]})
    other_model, other = copies(model, opt)[way]
    params = [*other_model.parameters()]
    held = [param for group in other.param_groups for param in group["params"]]
    assert all(param is own for param, own in zip(params, held)) and len(held) == 5
    assert params[0] is not model[0].weight and other.optimizer is not opt.optimizer
    assert other.param_groups[1]["lr"] == 0.15 and other.defaults.keys() == opt.defaults.keys()
    for step in range(3, 6):
        for net, optimizer in ((model, opt), (other_model, other)):
            fill_grads(net, step)
            optimizer.step()
    assert bits(model) == bits(other_model)
    assert torch.equal(opt.state[model[0].weight]["0/factor.0"], other.state[params[0]]["0/factor.0"])
    assert "lr: 0.01" in repr(Shampoo(make().parameters()))


class Alone(libshampoo.Communicator):
    rank, world = 0, 1

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        recv[:] = send


def test_an_optimizer_with_a_communicator_cannot_be_copied_or_get_a_new_group() -> None:
    opt = Shampoo(make().parameters(), comm=Alone())
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="with comm or shard_comm cannot be copied or pickled"):
            copied(opt)
    with pytest.raises(RuntimeError, match="add_param_group: an optimizer with comm or shard_comm"):
        opt.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))]})
    assert len(opt.param_groups) == 1


def test_opt_state_reads_and_writes_the_state_of_a_parameter() -> None:
    model = make()
    opt = Shampoo(model.parameters(), **KEYS)
    weight = model[0].weight
    state = opt.state[weight]
    assert state["step"] == 0 and len(opt.state) == 4 and list(opt.state) == [*model.parameters()]
    fill_grads(model, 1)
    opt.step()
    saved = opt.state_dict()["state"][0]
    assert state["step"] == 1 and len(state) == len(saved) > 3 and set(state) == set(saved)
    assert all(isinstance(value, torch.Tensor) and torch.equal(value, saved[name]) for name, value in state.items())
    assert "step" in state and "more" not in state and weight in opt.state and torch.ones(1) not in opt.state
    state["0/filtered_grad"].zero_()  # changes only a copy of the state
    assert torch.equal(state["0/filtered_grad"], saved["0/filtered_grad"])
    state["0/filtered_grad"] = torch.zeros_like(saved["0/filtered_grad"])
    assert not state["0/filtered_grad"].any()
    opt.state[weight] = saved
    assert torch.equal(state["0/filtered_grad"], saved["0/filtered_grad"])
    # Some trainers move a state to a device with an assignment of this form.
    opt.state[weight] = type(state)(OrderedDict((name, value.to("cpu")) for name, value in state.items()))
    assert opt.state[weight]["step"] == 1 and copy.deepcopy(state)["step"] == 1
    with pytest.raises(ValueError, match="no such entry; expected one of step"):
        state["more"] = 1
    with pytest.raises(ValueError, match="shape"):
        state["0/filtered_grad"] = torch.ones(1)
    with pytest.raises(TypeError, match="make a new optimizer"):
        del state["step"]
    with pytest.raises(TypeError, match="make a new optimizer"):
        opt.state.clear()
    with pytest.raises(RuntimeError, match="make a new optimizer"):
        opt.state = {}
    assert torch.equal(state["0/filtered_grad"], saved["0/filtered_grad"]) and "ParamState(step" in repr(state)


def test_an_optimizer_is_destroyed_with_its_last_reference() -> None:
    opt = Shampoo(make().parameters())
    kept = weakref.ref(opt.optimizer)
    assert len(opt.state) == 4
    gc.disable()
    try:
        del opt
        assert kept() is None
    finally:
        gc.enable()


def test_gradients_of_any_strides_are_read() -> None:
    model, twin = make(), make()
    opt, other = Shampoo(model.parameters(), lr=0.1), Shampoo(twin.parameters(), lr=0.1)
    fill_grads(twin, 1)
    model[0].weight.grad = twin[0].weight.grad.t().contiguous().t()
    model[0].bias.grad = torch.ones(1).expand(12)
    twin[0].bias.grad = torch.ones(12)
    model[2].weight.grad = torch.stack([twin[2].weight.grad] * 2, -1)[..., 0]
    model[2].bias.grad = twin[2].bias.grad
    assert not model[0].weight.grad.is_contiguous() and not model[2].weight.grad.is_contiguous()
    opt.step()
    other.step()
    assert bits(model) == bits(twin)


def test_gradients_can_have_another_dtype_than_their_parameters() -> None:
    model, twin = make(), make()
    opt = Shampoo(model.parameters(), lr=0.1, grad_dtype=torch.bfloat16)
    other = Shampoo(twin.parameters(), lr=0.1)
    assert len(copy.deepcopy(opt).state) == 4
    fill_grads(twin, 1)
    for param, of_twin in zip(model.parameters(), twin.parameters()):
        grad = of_twin.grad.bfloat16()
        of_twin.grad = grad.float()
        if not hasattr(param, "grad_dtype"):
            pytest.skip("this PyTorch has no Tensor.grad_dtype")
        param.grad_dtype = torch.bfloat16
        param.grad = grad
    opt.step()
    other.step()
    assert bits(model) == bits(twin)
    by_attribute = Shampoo(model.parameters(), lr=0.1)
    by_attribute.step()
    twin[0].weight.grad_dtype = None
    twin[0].weight.grad = twin[0].weight.grad.bfloat16()
    with pytest.raises(ValueError, match="gradient of 'param0': .*Pass grad_dtype=torch.bfloat16 to Shampoo"):
        other.step()


@pytest.mark.parametrize("dtype", ["float32", "f32", np.float32, torch.float32])
def test_grad_dtype_accepts_several_spellings(dtype: Any) -> None:
    model, twin = make(), make()
    opt, other = Shampoo(model.parameters(), grad_dtype=dtype), Shampoo(twin.parameters())
    for net, optimizer in ((model, opt), (twin, other)):
        fill_grads(net, 1)
        optimizer.step()
    assert bits(model) == bits(twin)


def test_an_unknown_grad_dtype_is_rejected() -> None:
    with pytest.raises(ValueError, match="grad_dtype: dtype int32; expected float32, float64, float16 or bfloat16"):
        Shampoo(make().parameters(), grad_dtype=torch.int32)


@pytest.mark.parametrize("decay", ["coupled", "decoupled"])
def test_maximize_negates_the_gradient(decay: str) -> None:
    model, twin = make(), make()
    keys = {"lr": 0.1, "weight_decay": 0.1, "weight_decay_type": decay, "gradient_scale": 2.0, **KEYS}
    opt, other = Shampoo(model.parameters(), maximize=True, **keys), Shampoo(twin.parameters(), **keys)
    for step in range(3):
        fill_grads(model, step)
        fill_grads(twin, step)
        for param in twin.parameters():
            param.grad.neg_()
        opt.step()
        other.step()
    assert bits(model) == bits(twin)
    assert opt.param_groups[0]["gradient_scale"] == 2.0 and opt.optimizer.param_groups[0]["gradient_scale"] == -2.0
    opt.param_groups[0]["maximize"] = False
    for net, optimizer in ((model, opt), (twin, other)):
        fill_grads(net, 5)
        optimizer.step()
    assert bits(model) == bits(twin)
    mixed = Shampoo([{"params": model[0].parameters()}, {"params": model[2].parameters(), "maximize": True}])
    mixed.step()
    assert [group["gradient_scale"] for group in mixed.optimizer.param_groups] == [1.0, -1.0]


def test_states_of_other_dtypes_are_loaded_and_states_of_other_optimizers_are_rejected() -> None:
    model = make()
    fill_grads(model, 1)
    adam = torch.optim.Adam(model.parameters())
    adam.step()
    opt = Shampoo(model.parameters(), lr=0.1, **KEYS)
    with pytest.raises(ValueError, match="state: saved by another kind of optimizer, .* have betas, eps, amsgrad"):
        opt.load_state_dict(adam.state_dict())
    with pytest.raises(ValueError, match="state: saved by another kind of optimizer"):
        opt.load_state_dict(torch.optim.SGD(model.parameters(), 0.1).state_dict())
    opt.step()
    saved = opt.state_dict()
    wide = Shampoo(make(dtype=torch.float64).parameters(), lr=0.1, **KEYS)
    wide.load_state_dict(saved)
    found = wide.state_dict()["state"]
    assert found[0]["0/factor.0"].dtype is torch.float64 and found[0]["step"] == 1
    assert all(torch.equal(value.to(found[k][name].dtype), found[k][name])
               for k in range(4) for name, value in saved["state"][k].items())  # fmt: skip
    saved["state"][0]["0/factor.0"] = torch.full((12, 12), 1e300, dtype=torch.float64)
    with pytest.raises(ValueError, match="is out of the range of torch.float32"):
        opt.load_state_dict(saved)
    assert torch.equal(opt.state_dict()["state"][0]["0/factor.0"], found[0]["0/factor.0"].float())


COMPILE = """
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "The .grad attribute")  # compiled steps of torch.optim.SGD cause this warning, too
import torch, libshampoo.torch
torch.manual_seed(0)
inputs = torch.randn(4, 5)
for number in range(3):
    model = torch.nn.Linear(5, 3)
    opt = libshampoo.torch.Shampoo(model.parameters(), lr=torch.tensor(0.01))
    compiled = torch.compile(lambda: opt.step(), backend="eager")
    for _ in range(3):
        opt.zero_grad()
        model(inputs).square().sum().backward()
        compiled()
    assert opt.optimizer.stats()["steps"] == 3

    @torch.compile(backend="eager")
    def train():
        opt.zero_grad()
        loss = model(inputs).square().sum()
        loss.backward()
        opt.step()
        return loss

    losses = [train().item() for _ in range(5)]
    assert losses[-1] < losses[0] and opt.optimizer.stats()["steps"] == 8
"""


def test_several_optimizers_can_have_compiled_steps() -> None:
    ran = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr


def test_gradient_scalers_work() -> None:
    model, twin = make(), make()
    opt, other = Shampoo(model.parameters(), lr=0.1), Shampoo(twin.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    images = torch.ones(2, 20)
    scaler.scale(model(images).sum()).backward()
    scaler.step(opt)
    scaler.update()
    twin(images).sum().backward()
    other.step()
    assert bits(model) == bits(twin)


def test_getting_or_setting_a_distributed_state_dict_runs_no_step() -> None:
    state_dicts = pytest.importorskip("torch.distributed.checkpoint.state_dict")
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1, **KEYS)
    fill_grads(model, 1)
    opt.step()
    before = opt.state_dict()["state"][0]
    saved = state_dicts.get_optimizer_state_dict(model, opt)
    assert torch.equal(saved["state"]["0.weight"]["0/factor.0"], before["0/factor.0"])
    assert saved["state"]["0.weight"]["step"] == 1
    fresh_model = make()
    fresh = Shampoo(fresh_model.parameters(), lr=0.1, **KEYS)
    assert state_dicts.get_optimizer_state_dict(fresh_model, fresh)["state"]["0.weight"]["step"] == 0
    state_dicts.set_optimizer_state_dict(fresh_model, fresh, saved)
    assert torch.equal(fresh.state_dict()["state"][0]["0/factor.0"], before["0/factor.0"])


def test_the_blas_and_threads_of_pytorch_do_not_change() -> None:
    torch.manual_seed(0)
    matrix = torch.randn(200, 200)
    before = torch.get_num_threads(), torch.get_num_interop_threads(), torch.__config__.parallel_info()
    product, values = matrix @ matrix, torch.linalg.eigvalsh(matrix + matrix.T)
    param = torch.nn.Parameter(torch.randn(96, 96))
    opt = Shampoo([param], lr=0.1, threads=2)
    for _ in range(3):
        param.grad = param.detach().clone()
        opt.step()
        assert torch.equal(matrix @ matrix, product)
        assert torch.equal(torch.linalg.eigvalsh(matrix + matrix.T), values)
    assert before == (torch.get_num_threads(), torch.get_num_interop_threads(), torch.__config__.parallel_info())


RANK = """
import sys, torch, libshampoo.torch
torch.set_num_threads(1)
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.Linear(20, 12)
opt = libshampoo.torch.Shampoo(model.parameters(), lr=0.1, grafting="adam", max_preconditioner_dim=8,
                            comm=torch.distributed.group.WORLD)
assert {block.owner for block in opt.optimizer.plan.blocks} == {0, 1}
for step in range(4):
    for param in model.parameters():
        param.grad = torch.full_like(param, step + 1.0) + param.detach()
    opt.step()
torch.save(model.state_dict(), f"{folder}/{rank}")
"""


def test_a_process_group_serves_as_a_communicator(tmp_path: Path) -> None:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) for rank in range(2)]  # fmt: skip
    said = [rank.communicate(timeout=120)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 12)
    opt = Shampoo(model.parameters(), lr=0.1, grafting="adam", max_preconditioner_dim=8)
    for step in range(4):
        for param in model.parameters():
            param.grad = torch.full_like(param, step + 1.0) + param.detach()
        opt.step()
    for rank in range(2):
        found = torch.load(tmp_path / str(rank), weights_only=True)
        assert all(torch.equal(found[name], value) for name, value in model.state_dict().items())


def test_a_model_on_cuda_is_trained() -> None:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    model, twin = make().cuda(), make()
    stream = torch.cuda.Stream()
    opt, other = Shampoo(model.parameters(), lr=0.1, **KEYS), Shampoo(twin.parameters(), lr=0.1, **KEYS)
    for step in range(5):
        fill_grads(twin, step)
        with torch.cuda.stream(stream):
            for param, of_cpu in zip(model.parameters(), twin.parameters()):
                param.grad = of_cpu.grad.cuda()
            opt.step()
        other.step()
    torch.cuda.synchronize()
    assert all(np.allclose(a.detach().cpu(), b.detach(), rtol=1e-3, atol=1e-5)
               for a, b in zip(model.parameters(), twin.parameters()))  # fmt: skip
