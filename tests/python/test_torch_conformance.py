# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that libshampoo.torch follows conventions of torch.optim on which schedulers and checkpoints rely."""
from __future__ import annotations

import copy
import inspect
import io
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch")

from torch.optim import lr_scheduler  # noqa: E402
from torch.optim.optimizer import (  # noqa: E402
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from libshampoo.torch import Shampoo  # noqa: E402

KEYS: dict[str, Any] = {"precondition_frequency": 2, "max_preconditioner_dim": 16}


def make(seed: int = 0, dtype: Any = torch.float32) -> Any:
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)).to(dtype)


def inputs(dtype: Any = torch.float32) -> Any:
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(7)).to(dtype)


def backward(model: Any) -> Any:
    loss = model(inputs(next(model.parameters()).dtype)).square().mean()
    loss.backward()
    return loss


def train(model: Any, opt: Any, steps: int = 3) -> list[float]:
    losses = []
    for _ in range(steps):
        opt.zero_grad()
        losses.append(backward(model).item())
        opt.step()
    return losses


def assert_same(one: Any, other: Any) -> None:
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def assert_same_states(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one["state"].keys() == other["state"].keys()
    for number, entries in one["state"].items():
        assert entries.keys() == other["state"][number].keys()
        for name, value in entries.items():
            found = other["state"][number][name]
            assert value.dtype is found.dtype and torch.equal(value, found), name


@contextmanager
def no_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# --- Schedulers

SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "LambdaLR": lambda opt: lr_scheduler.LambdaLR(opt, lambda epoch: 0.9**epoch),
    "MultiplicativeLR": lambda opt: lr_scheduler.MultiplicativeLR(opt, lambda epoch: 0.8),
    "StepLR": lambda opt: lr_scheduler.StepLR(opt, 2),
    "MultiStepLR": lambda opt: lr_scheduler.MultiStepLR(opt, [1, 3]),
    "ConstantLR": lambda opt: lr_scheduler.ConstantLR(opt, 0.5, 2),
    "LinearLR": lambda opt: lr_scheduler.LinearLR(opt, 0.2, total_iters=4),
    "ExponentialLR": lambda opt: lr_scheduler.ExponentialLR(opt, 0.7),
    "PolynomialLR": lambda opt: lr_scheduler.PolynomialLR(opt, 5, 2.0),
    "CosineAnnealingLR": lambda opt: lr_scheduler.CosineAnnealingLR(opt, 4),
    "CosineAnnealingWarmRestarts": lambda opt: lr_scheduler.CosineAnnealingWarmRestarts(opt, 2, 2),
    "ReduceLROnPlateau": lambda opt: lr_scheduler.ReduceLROnPlateau(opt, patience=0),
    "CyclicLR": lambda opt: lr_scheduler.CyclicLR(opt, 0.01, 0.1, 2),
    "OneCycleLR": lambda opt: lr_scheduler.OneCycleLR(opt, 0.1, total_steps=8),
    "ChainedScheduler": lambda opt: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(opt, 0.1, 2), lr_scheduler.ExponentialLR(opt, 0.9)]
    ),
    "SequentialLR": lambda opt: lr_scheduler.SequentialLR(
        opt, [lr_scheduler.ConstantLR(opt, 0.1, 2), lr_scheduler.ExponentialLR(opt, 0.9)], [2]
    ),
}


def test_all_schedulers_are_tested() -> None:
    bases = {"LRScheduler", "_LRScheduler"}
    found = {name for name, kind in vars(lr_scheduler).items()
             if inspect.isclass(kind) and kind.__module__ == lr_scheduler.__name__ and hasattr(kind, "get_last_lr")}
    assert found - bases == set(SCHEDULERS)  # fmt: skip


def advance(scheduler: Any, epoch: int) -> None:
    if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau):
        scheduler.step(1.0 + epoch)
    else:
        scheduler.step()


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
@pytest.mark.parametrize("tensor_lr", [False, True], ids=["number", "tensor"])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_has_the_same_effect_as_on_sgd(name: str, tensor_lr: bool) -> None:
    """Checks that steps use the same lr and momentum as SGD with this scheduler, and that a run can be resumed."""
    model, twin = make(), make()

    def both(one: Any, other: Any) -> tuple[Any, Any]:
        def rate() -> Any:
            return torch.tensor(0.1) if tensor_lr else 0.1

        return (Shampoo(one.parameters(), lr=rate(), momentum=0.5, **KEYS),
                torch.optim.SGD(other.parameters(), lr=rate(), momentum=0.5))  # fmt: skip

    opt, sgd = both(model, twin)
    ours, theirs = SCHEDULERS[name](opt), SCHEDULERS[name](sgd)
    for epoch in range(6):
        train(model, opt, 1)
        for key in ("lr", "momentum"):
            assert float(opt.param_groups[0][key]) == float(sgd.param_groups[0][key])
            assert opt.optimizer.param_groups[0][key] == pytest.approx(float(sgd.param_groups[0][key]), rel=1e-6)
        sgd.step()
        advance(ours, epoch)
        advance(theirs, epoch)
        if epoch == 2:
            saved = copy.deepcopy((ours.state_dict(), opt.state_dict(), model.state_dict()))
    resumed_model = make(1)
    resumed, _ = both(resumed_model, make())
    resumed_scheduler = SCHEDULERS[name](resumed)
    resumed_scheduler.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    resumed_model.load_state_dict(saved[2])
    for epoch in range(3, 6):
        train(resumed_model, resumed, 1)
        advance(resumed_scheduler, epoch)
    assert_same(resumed_model, model)
    assert float(resumed.param_groups[0]["lr"]) == float(sgd.param_groups[0]["lr"])


@pytest.mark.parametrize("name", ["CyclicLR", "OneCycleLR"])
def test_a_momentum_of_zero_cannot_be_cycled(name: str) -> None:
    opt = Shampoo(make().parameters())
    with pytest.raises(ValueError, match="cycle_momentum"):
        SCHEDULERS[name](opt)


def test_stochastic_weight_averaging_works() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1)
    averaged, scheduler = torch.optim.swa_utils.AveragedModel(model), torch.optim.swa_utils.SWALR(opt, 0.02, 2)
    for _ in range(4):
        train(model, opt, 1)
        averaged.update_parameters(model)
        scheduler.step()
    assert opt.param_groups[0]["lr"] == pytest.approx(0.02)


def test_a_scheduler_changes_the_rates_of_two_groups() -> None:
    model = make()
    opt = Shampoo([{"params": model[0].parameters(), "lr": 0.1}, {"params": model[2].parameters()}], lr=0.01)
    scheduler = lr_scheduler.LambdaLR(opt, [lambda epoch: 0.5**epoch, lambda epoch: 2.0**epoch])
    train(model, opt, 1)
    scheduler.step()
    train(model, opt, 1)
    assert [group["lr"] for group in opt.optimizer.param_groups] == [0.05, 0.02]


# --- Steps

#: Arguments of Shampoo for the tests below, by the name of the case.
WAYS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "none": {"grafting": "none", "lr": 0.01},
    "sgd": {"grafting": "sgd"},
    "adagrad": {"grafting": "adagrad"},
    "rmsprop": {"grafting": "rmsprop"},
    "momentum": {"momentum": 0.5},
    "nesterov": {"momentum": 0.5, "use_nesterov": True},
    "decay": {"weight_decay": 0.1},
    "coupled": {"weight_decay": 0.1, "weight_decay_type": "coupled"},
    "no_filter": {"beta1": 0.0},
    "higher_order": {"root_method": "higher_order"},
    "vectors": {"precondition_1d": True},
    "threads": {"threads": 2},
    "tensor_lr": {"lr": torch.tensor(0.01)},
    "tensor_lr_1d": {"lr": torch.tensor([0.01])},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_the_loss_goes_down(way: str, dtype: Any) -> None:
    model = make(dtype=dtype)
    opt = Shampoo(model.parameters(), **{"lr": 0.01, **KEYS, **WAYS[way]})
    with no_warnings():
        losses = train(model, opt, 15)
    assert losses[-1] < 0.9 * losses[0]
    assert all(param.dtype is dtype and param.isfinite().all() for param in model.parameters())


@pytest.mark.parametrize("way", WAYS)
def test_maximize_equals_a_step_of_the_negated_objective(way: str) -> None:
    model, twin = make(), make()
    keys = {"lr": 0.01, **KEYS, **WAYS[way]}
    opt, other = Shampoo(model.parameters(), maximize=True, **keys), Shampoo(twin.parameters(), **keys)
    for _ in range(4):
        for net, optimizer, sign in ((model, opt, 1), (twin, other, -1)):
            optimizer.zero_grad()
            (sign * net(inputs()).square().mean()).backward()
            optimizer.step()
    assert_same(model, twin)


@pytest.mark.parametrize("way", WAYS)
def test_zero_gradients_without_decay_change_no_parameters(way: str) -> None:
    model, twin = make(), make()
    opt = Shampoo(model.parameters(), **{"lr": 0.01, **KEYS, **WAYS[way], "weight_decay": 0.0})
    for param in model.parameters():
        param.grad = torch.zeros_like(param)
    opt.step()
    assert_same(model, twin)


def test_a_step_without_gradients_changes_nothing() -> None:
    model, twin = make(), make()
    opt = Shampoo(model.parameters(), weight_decay=0.5)
    opt.step()
    assert_same(model, twin)
    assert opt.state[model[0].weight]["step"] == 0


def test_frozen_parameters_do_not_change() -> None:
    model, twin = make(), make()
    model[0].requires_grad_(False)
    opt = Shampoo(model.parameters(), lr=0.1)
    train(model, opt)
    assert_same(model[0], twin[0])
    assert not torch.equal(model[2].weight, twin[2].weight)


@pytest.mark.parametrize("set_to_none", [True, False])
def test_zero_grad_removes_gradients_or_sets_them_to_zero(set_to_none: bool) -> None:
    model = make()
    opt = Shampoo(model.parameters())
    backward(model)
    opt.step()
    opt.zero_grad(set_to_none)
    assert all(param.grad is None if set_to_none else not param.grad.any() for param in model.parameters())


def test_a_step_returns_the_loss_of_its_closure() -> None:
    model, twin = make(), make()
    opt, other = Shampoo(model.parameters(), lr=0.1), Shampoo(twin.parameters(), lr=0.1)

    def closure() -> Any:
        opt.zero_grad()
        return backward(model)

    with torch.no_grad():
        losses = [opt.step(closure=closure).item() for _ in range(3)]
    assert losses == train(twin, other)
    assert_same(model, twin)


def test_an_error_in_a_closure_passes_through() -> None:
    model, twin = make(), make()
    opt = Shampoo(model.parameters())

    def closure() -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        opt.step(closure)
    assert_same(model, twin)


def test_steps_in_the_hooks_of_backward_equal_one_step_of_all_parameters() -> None:
    model, twin = make(), make()
    for param in model.parameters():
        own = Shampoo([param], lr=0.1)

        def hook(param: Any, own: Any = own) -> None:
            own.step()
            own.zero_grad()

        param.register_post_accumulate_grad_hook(hook)
    backward(model)
    whole = Shampoo(twin.parameters(), lr=0.1)
    train(twin, whole, 1)
    assert_same(model, twin)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (2, 3, 4), (1, 5, 1), (2, 2, 2, 2, 2)], ids=str)
def test_tensors_of_all_shapes_are_updated(shape: tuple[int, ...]) -> None:
    param = torch.nn.Parameter(torch.ones(shape))
    opt = Shampoo([param], lr=0.1)
    for _ in range(3):
        param.grad = param.detach().clone()
        opt.step()
    assert param.shape == shape and (param < 1).all()
    again = Shampoo([param], lr=0.1)
    again.load_state_dict(opt.state_dict())
    assert_same_states(again.state_dict(), opt.state_dict())


def test_the_profiler_shows_steps_under_pytorchs_name() -> None:
    model = make()
    opt = Shampoo(model.parameters())
    backward(model)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        opt.step()
    assert [event.key for event in profile.events() if "Optimizer.step" in event.key] == ["Optimizer.step#Shampoo.step"]


# --- Hooks


def test_step_hooks_run_in_order_and_change_arguments() -> None:
    model = make()
    opt = Shampoo(model.parameters())
    seen: list[str] = []

    def replace(optimizer: Any, args: Any, kwargs: Any) -> Any:
        seen.append("pre")
        return (args[0], lambda: seen.append("closure") or 5), kwargs

    handles = [
        opt.register_step_pre_hook(replace),
        opt.register_step_post_hook(lambda *_: seen.append("post")),
        register_optimizer_step_pre_hook(lambda *_: seen.append("global pre")),
        register_optimizer_step_post_hook(lambda *_: seen.append("global post")),
    ]
    assert opt.step() == 5
    for handle in handles:
        handle.remove()
    opt.step()
    assert seen == ["global pre", "pre", "closure", "post", "global post"]


def test_hooks_run_once_around_the_step_of_a_subclass() -> None:
    class Scheduled(Shampoo):
        def step(self, closure: Any = None) -> Any:
            seen.append("step")
            return super().step(closure)

    class Renamed(Shampoo):
        pass

    seen: list[str] = []
    for kind, expected in ((Scheduled, ["pre", "step", "post"]), (Renamed, ["pre", "post"])):
        model = make()
        opt = kind(model.parameters())
        opt.register_step_pre_hook(lambda *_: seen.append("pre"))
        opt.register_step_post_hook(lambda *_: seen.append("post"))
        for _ in range(2):
            seen.clear()
            train(model, opt, 1)
            assert seen == expected


def test_state_dict_hooks_are_called() -> None:
    model = make()
    opt = Shampoo(model.parameters())
    train(model, opt)
    seen: list[str] = []
    opt.register_state_dict_pre_hook(lambda _: seen.append("save pre"))
    opt.register_state_dict_post_hook(lambda _, state: {**state, "more": seen.append("save post")})
    opt.register_load_state_dict_pre_hook(lambda _, state: seen.append("load pre"))
    opt.register_load_state_dict_post_hook(lambda _: seen.append("load post"))
    state = opt.state_dict()
    assert "more" in state
    opt.load_state_dict(state)
    assert seen == ["save pre", "save post", "load pre", "load post"]


def test_a_hook_changes_the_state_before_it_is_loaded() -> None:
    model = make()
    opt = Shampoo(model.parameters())
    train(model, opt)

    def forget(_: Any, state: dict[str, Any]) -> dict[str, Any]:
        zeros = {number: {name: torch.zeros_like(value) for name, value in entries.items()}
                 for number, entries in state["state"].items()}  # fmt: skip
        return {**state, "state": zeros}

    hook = opt.register_load_state_dict_pre_hook(forget)
    opt.load_state_dict(opt.state_dict())
    hook.remove()
    assert not any(value.any() for entries in opt.state_dict()["state"].values() for value in entries.values())


# --- State


@pytest.mark.parametrize("way", WAYS)
def test_training_continues_bit_identically_from_a_saved_state(way: str) -> None:
    model = make()
    opt = Shampoo(model.parameters(), **{"lr": 0.01, **KEYS, **copy.deepcopy(WAYS[way])})
    train(model, opt)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other_model = make(1)
    other = Shampoo(other_model.parameters(), **{"lr": 0.01, **KEYS, **copy.deepcopy(WAYS[way])})
    other_model.load_state_dict(saved["model"])
    with no_warnings():
        other.load_state_dict(saved["opt"])
    assert_same_states(other.state_dict(), opt.state_dict())
    assert train(model, opt) == train(other_model, other)
    assert_same(model, other_model)


@pytest.mark.parametrize("way", WAYS)
def test_a_deep_copy_continues_bit_identically(way: str) -> None:
    model = make()
    opt = Shampoo(model.named_parameters(), **{"lr": 0.01, **KEYS, **copy.deepcopy(WAYS[way])})
    train(model, opt)
    with no_warnings():
        other_model, other = copy.deepcopy((model, opt))
    assert_same_states(other.state_dict(), opt.state_dict())
    assert train(model, opt) == train(other_model, other)
    assert_same(model, other_model)
    assert type(other) is type(opt) and repr(other) == repr(opt)


def test_a_deep_copy_of_the_optimizer_alone_has_parameters_of_its_own() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1)
    train(model, opt)
    other = copy.deepcopy(opt)
    before = model[0].weight.detach().clone()
    for param in other.param_groups[0]["params"]:
        param.grad = torch.ones_like(param)
    other.step()
    assert torch.equal(model[0].weight, before)
    assert not torch.equal(other.param_groups[0]["params"][0], before)


def test_a_state_dict_does_not_change_with_later_steps() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1)
    train(model, opt)
    state = opt.state_dict()
    kept = copy.deepcopy(state)
    train(model, opt)
    assert_same_states(state, kept)


def test_state_dicts_identify_parameters_by_index_and_list_their_names() -> None:
    model = make()
    state = Shampoo(model.named_parameters()).state_dict()
    assert state["param_groups"][0]["params"] == [0, 1, 2, 3] and list(state["state"]) == [0, 1, 2, 3]
    assert state["param_groups"][0]["param_names"] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_state_without_newer_options_loads() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1)
    train(model, opt)
    state = opt.state_dict()
    del state["param_groups"][0]["maximize"]
    opt.load_state_dict(state)
    train(model, opt)


def test_hyper_parameters_are_loaded() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.1)
    train(model, opt)
    state = opt.state_dict()
    state["param_groups"][0].update(lr=0.025, weight_decay=0.5, maximize=True)
    opt.load_state_dict(state)
    train(model, opt, 1)
    known = opt.optimizer.param_groups[0]
    assert (known["lr"], known["weight_decay"], known["gradient_scale"]) == (0.025, 0.5, -1.0)


def test_every_parameter_has_a_state() -> None:
    model = make()
    opt = Shampoo(model.parameters(), **KEYS)
    train(model, opt)
    assert len(opt.state) == 4 and bool(opt.state)
    for param, entries in opt.state.items():
        assert len(entries) > 0 and entries["step"] == 3
        assert all(isinstance(value, torch.Tensor) and value.device == param.device for value in entries.values())
    total = sum(value.numel() for entries in opt.state.values() for value in entries.values())
    assert total > sum(param.numel() for param in model.parameters())


# --- Groups


def test_groups_use_defaults_and_their_own_values() -> None:
    model = make()
    groups = [{"params": model[0].parameters()}, {"params": model[2].weight, "lr": 0.5}, {"params": [model[2].bias]}]
    opt = Shampoo(groups, lr=0.1, weight_decay=0.2)
    assert [group["lr"] for group in opt.param_groups] == [0.1, 0.5, 0.1]
    assert [len(group["params"]) for group in opt.param_groups] == [2, 1, 1]
    assert all(group["weight_decay"] == 0.2 and group["maximize"] is False for group in opt.param_groups)
    assert opt.defaults["lr"] == 0.1 and opt.defaults["weight_decay"] == 0.2


def test_a_rate_of_zero_freezes_its_group() -> None:
    model, twin = make(), make()
    opt = Shampoo([{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}], lr=0.1)
    train(model, opt)
    assert_same(model[0], twin[0])
    assert not torch.equal(model[2].weight, twin[2].weight)


def test_layers_can_be_unfrozen_while_a_scheduler_runs() -> None:
    model = make()
    opt = Shampoo(model[2].parameters(), lr=0.1)
    scheduler = lr_scheduler.StepLR(opt, 1)
    train(model, opt, 1)
    scheduler.step()
    opt.add_param_group({"params": model[0].parameters(), "initial_lr": 0.1, "lr": 0.05})
    losses = train(model, opt, 5)
    scheduler.step()
    assert losses[-1] < losses[0]
    assert [int(opt.state[layer.weight]["step"]) for layer in (model[2], model[0])] == [6, 5]


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no parameters": (lambda: Shampoo([]), ValueError, "empty"),
    "a tensor": (lambda: Shampoo(torch.ones(3)), TypeError, "iterable"),
    "a set": (lambda: Shampoo([{"params": {torch.ones(3)}}]), TypeError, "sets"),
    "a number": (lambda: Shampoo([3]), TypeError, "can only optimize Tensors"),
    "a non-leaf": (lambda: Shampoo([torch.ones(3, requires_grad=True) * 2]), ValueError, "non-leaf"),
    "complex": (lambda: Shampoo([torch.ones(3, dtype=torch.complex64)]), ValueError, "'param0': dtype complex64"),
    "integers": (lambda: Shampoo([torch.ones(3, dtype=torch.int32)]), ValueError, "'param0': dtype int32"),
    "sparse": (lambda: Shampoo([torch.ones(3, 3).to_sparse()]), ValueError, "layout torch.sparse_coo"),
    "a parameter in two groups": (lambda: twice(), ValueError, "more than one parameter group"),
    "device meta": (lambda: Shampoo([torch.ones(3, device="meta")]), ValueError, "on device meta"),
    "lr below 0": (lambda: Shampoo([torch.ones(3)], lr=-1.0), ValueError, "key lr: the value -1"),
    "lr nan": (lambda: Shampoo([torch.ones(3)], lr=float("nan")), ValueError, "key lr"),
    "lr of shape 2": (lambda: Shampoo([torch.ones(3)], lr=torch.ones(2)), ValueError, r"lr: a tensor of shape \(2,\)"),
    "lr None": (lambda: Shampoo([torch.ones(3)], lr=None), ValueError, "lr: None"),
    "momentum": (lambda: Shampoo([torch.ones(3)], momentum=1.5), ValueError, "key momentum: the value 1.5"),
    "weight decay": (lambda: Shampoo([torch.ones(3)], weight_decay=-0.1), ValueError, "key weight_decay"),
    "betas": (lambda: Shampoo([torch.ones(3)], betas=(0.9, 0.99)), TypeError, "betas .* pass beta1 and grafting_beta2"),
    "eps": (lambda: Shampoo([torch.ones(3)], eps=1e-8), TypeError, "eps .* pass grafting_epsilon,"),
    "foreach": (lambda: Shampoo([torch.ones(3)], foreach=True), TypeError, "foreach .* leave it out"),
    "fused": (lambda: Shampoo([torch.ones(3)], fused=True), TypeError, "fused .* leave it out"),
    "capturable": (lambda: Shampoo([torch.ones(3)], capturable=True), TypeError, "capturable .* docs/cuda.md"),
    "differentiable": (lambda: Shampoo([torch.ones(3)], differentiable=True), TypeError, "differentiable .* leave it"),
    "an unknown key": (lambda: Shampoo([torch.ones(3)], wieght_decay=0.1), TypeError, "did you mean weight_decay"),
    "uninitialized": (lambda: Shampoo([torch.nn.UninitializedParameter()]), ValueError, "'param0': not initialized"),
    "channels_last": (lambda: channels_last(), ValueError, "'weight': .*torch.contiguous_format"),
    "two parameters in the same memory": (lambda: same_memory(), ValueError, "overlaps"),
}


def twice() -> Any:
    weight = torch.ones(3)
    return Shampoo([{"params": [weight]}, {"params": [weight]}])


def same_memory() -> Any:
    weight = torch.ones(3)
    return Shampoo([weight, weight.view(3)])


def channels_last() -> Any:
    return Shampoo(torch.nn.Conv2d(2, 3, 3).to(memory_format=torch.channels_last).named_parameters())


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_rejected(what: str) -> None:
    call, kind, match = WRONG[what]
    with pytest.raises(kind, match=match):
        call()


# --- Mixed precision, clipping, compiled code


def test_a_gradient_scaler_skips_the_step_of_an_infinite_gradient() -> None:
    model, twin = make(), make()
    opt = Shampoo(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(model(inputs()).sum() * float("inf")).backward()
    scaler.step(opt)
    scaler.update()
    assert_same(model, twin)
    assert scaler.get_scale() == 2.0 and opt.state[model[0].weight]["step"] == 0
    opt.zero_grad()
    scaler.scale(model(inputs()).square().mean()).backward()
    scaler.unscale_(opt)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    scaler.step(opt)
    scaler.update()
    train(twin, Shampoo(twin.parameters(), lr=0.1), 1)
    assert_same(model, twin)


def test_autocast_works() -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.02)
    losses = []
    for _ in range(10):
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(inputs()).square().mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("clip", ["clip_grad_norm_", "clip_grad_value_"])
def test_the_loss_goes_down_with_clipped_gradients(clip: str) -> None:
    model = make()
    opt = Shampoo(model.parameters(), lr=0.02)
    losses = []
    for _ in range(10):
        opt.zero_grad()
        losses.append(backward(model).item())
        getattr(torch.nn.utils, clip)(model.parameters(), 0.1)
        opt.step()
    assert losses[-1] < losses[0]


def test_gradients_in_channels_last_layout_are_read() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(3, 4, 3)
    opt = Shampoo(layer.parameters(), lr=0.05)
    images = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    before = layer.weight.detach().clone()
    layer(images).square().mean().backward()
    layer.weight.grad = layer.weight.grad.contiguous(memory_format=torch.channels_last)
    opt.step()
    assert not torch.equal(layer.weight, before)


COMPILE = """
import sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "The .grad attribute")  # compiled steps of torch.optim.SGD cause this warning, too
import torch, libshampoo.torch
from test_torch_conformance import backward, make, train, assert_same
for number in range(2):
    model, twin = make(), make()
    opt, other = (libshampoo.torch.Shampoo(net.parameters(), lr=0.01) for net in (model, twin))
    compiled = torch.compile(lambda: opt.step(), backend=sys.argv[1])
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    for step in range(3):
        opt.zero_grad()
        backward(model)
        compiled()
        scheduler.step()
        train(twin, other, 1)
        other.param_groups[0]["lr"] *= 0.9
    assert_same(model, twin)
    assert opt.state[model[0].weight]["step"] == 3

    def whole():
        opt.zero_grad()
        loss = model(torch.ones(2, 6)).square().mean()
        loss.backward()
        opt.step()
        return loss

    whole_compiled = torch.compile(whole, backend=sys.argv[1])
    losses = [whole_compiled().item() for _ in range(6)]
    assert losses[-1] < losses[0], losses
    assert opt.state[model[0].weight]["step"] == 9
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_steps_work_in_compiled_code(backend: str) -> None:
    ran = subprocess.run([sys.executable, "-c", COMPILE, backend], capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr


# --- Several processes and distributed checkpoints


RANKS = """
import os, sys, torch
from pathlib import Path
from torch.distributed.checkpoint import state_dict as dcp_state
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from libshampoo.torch import Shampoo
from test_torch_conformance import KEYS, assert_same, assert_same_states, make

torch.set_num_threads(1)
rank, folder = int(sys.argv[1]), sys.argv[2]
torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
generator = torch.Generator().manual_seed(3)
batches = [torch.randn(8, 6, generator=generator) for _ in range(9)]

def run(net, opt, batches, ranks=True):
    for batch in batches:
        opt.zero_grad()
        if ranks:
            net(batch[rank::2]).square().mean().backward()
        else:  # averages the gradients of both ranks, like DistributedDataParallel
            for part in (batch[0::2], batch[1::2]):
                (net(part).square().mean() / 2).backward()
        opt.step()

def check(name, condition):
    assert condition, name
    print("passed", name, flush=True)

def close(one, other):
    return all(torch.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(one.parameters(), other.parameters()))

reference = make()
reference_opt = Shampoo(reference.parameters(), lr=0.01, **KEYS)
run(reference, reference_opt, batches[:3], ranks=False)

for name, options in (("without comm", {}), ("with comm", {"comm": torch.distributed.group.WORLD})):
    model = make()
    parallel = DistributedDataParallel(model)
    opt = Shampoo(parallel.parameters(), lr=0.01, **options, **KEYS)
    run(parallel, opt, batches[:3])
    check(f"ddp {name}: parameters are close to those of one process", close(model, reference))
    parts = [torch.zeros_like(model[0].weight) for _ in range(2)]
    torch.distributed.all_gather(parts, model[0].weight.detach())
    check(f"ddp {name}: both ranks have equal weights", torch.equal(*parts))
    again = make()
    again.load_state_dict(model.state_dict())
    again_parallel = DistributedDataParallel(again)
    again_opt = Shampoo(again_parallel.parameters(), lr=0.01, **options, **KEYS)
    again_opt.load_state_dict(opt.state_dict())
    run(parallel, opt, batches[3:6])
    run(again_parallel, again_opt, batches[3:6])
    assert_same(model, again)
    check(f"ddp {name}: training continues bit-identically from a loaded state", True)
    saved = dcp_state.get_optimizer_state_dict(parallel, opt)
    check(f"ddp {name}: the distributed state dict has the right step", saved["state"]["0.weight"]["step"] == 6)

model = make()
parallel = DistributedDataParallel(model)
zero = ZeroRedundancyOptimizer(parallel.parameters(), optimizer_class=Shampoo, lr=0.01, **KEYS)
run(parallel, zero, batches[:3])
check("ZeRO: parameters are close to those of one process", close(model, reference))
zero.consolidate_state_dict(to=0)
shared = [zero.state_dict() if rank == 0 else None]
torch.distributed.broadcast_object_list(shared, 0)
check("ZeRO: the consolidated state dict has all parameters", sorted(shared[0]["state"]) == [0, 1, 2, 3])
again = make()
again.load_state_dict(model.state_dict())
again_parallel = DistributedDataParallel(again)
again_zero = ZeroRedundancyOptimizer(again_parallel.parameters(), optimizer_class=Shampoo, lr=0.01, **KEYS)
again_zero.load_state_dict(shared[0])
run(parallel, zero, batches[3:6])
run(again_parallel, again_zero, batches[3:6])
assert_same(model, again)
check("ZeRO: training continues bit-identically from a loaded state", True)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
print("done")
"""


def test_two_processes_step_together(tmp_path: Path) -> None:
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    ranks = [subprocess.Popen([sys.executable, "-c", RANKS, str(rank), str(tmp_path)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) for rank in range(2)]  # fmt: skip
    try:
        said = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert [rank.returncode for rank in ranks] == [0, 0], said
    assert [text.count("passed") for text in said] == [11, 11] and "done" in said[0], said


@pytest.mark.parametrize("flatten", [False, True])
def test_distributed_state_dicts_are_supported(flatten: bool) -> None:
    dcp = pytest.importorskip("torch.distributed.checkpoint.state_dict")
    options = dcp.StateDictOptions(flatten_optimizer_state_dict=flatten)
    model, other_model = make(), make(1)
    opt, other = Shampoo(model.parameters(), lr=0.1, **KEYS), Shampoo(other_model.parameters(), lr=0.2, **KEYS)
    train(model, opt)
    saved = dcp.get_optimizer_state_dict(model, opt, options=options)
    dcp.set_model_state_dict(other_model, dcp.get_model_state_dict(model))
    dcp.set_optimizer_state_dict(other_model, other, saved, options=options)
    assert_same_states(other.state_dict(), opt.state_dict())
    assert other.param_groups[0]["lr"] == 0.1
    train(model, opt)
    train(other_model, other)
    assert_same(model, other_model)


def test_distributed_checkpoints_can_be_saved_in_files(tmp_path: Path) -> None:
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    dcp = pytest.importorskip("torch.distributed.checkpoint.state_dict")
    model, other_model = make(), make(1)
    opt, other = Shampoo(model.parameters(), lr=0.1, **KEYS), Shampoo(other_model.parameters(), lr=0.1, **KEYS)
    train(model, opt)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that there is only one process
        checkpoint.save({"opt": dcp.get_optimizer_state_dict(model, opt)}, checkpoint_id=str(tmp_path / "ckpt"))
        target = {"opt": dcp.get_optimizer_state_dict(other_model, other)}
        checkpoint.load(target, checkpoint_id=str(tmp_path / "ckpt"))
    dcp.set_optimizer_state_dict(other_model, other, target["opt"])
    assert_same_states(other.state_dict(), opt.state_dict())
