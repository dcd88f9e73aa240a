# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the interface of libshampoo.tinygrad, and that its results equal those of libshampoo.Optimizer."""
from __future__ import annotations

import doctest
import gc
import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libshampoo

tinygrad = pytest.importorskip("tinygrad", reason="tinygrad is not installed: pip install tinygrad")
if shutil.which("clang") is None:
    pytest.skip("clang is not installed: tinygrad needs it for the device CPU", allow_module_level=True)

from tinygrad import Context, Tensor, TinyJit, dtypes, nn  # noqa: E402

import libshampoo.tinygrad  # noqa: E402
from libshampoo.tinygrad import Shampoo  # noqa: E402

KEYS: dict[str, Any] = {"grafting": "adam", "beta2": 0.99, "precondition_frequency": 2, "max_preconditioner_dim": 16}


@pytest.fixture(autouse=True)
def training() -> Iterator[None]:
    with Context(TRAINING=1, DEV="CPU"):
        yield


class Net:
    def __init__(self, seed: int = 0) -> None:
        Tensor.manual_seed(seed)
        self.first, self.second = nn.Linear(20, 12), nn.Linear(12, 4)

    def __call__(self, images: Any) -> Any:
        return self.second(self.first(images).tanh())


def test_the_docstring_runs() -> None:
    assert doctest.testmod(libshampoo.tinygrad).failed == 0


def address(tensor: Any) -> int:
    memory = tensor.realize().uop.buffer.as_memoryview(force_zero_copy=True)
    return int(np.frombuffer(memory, np.uint8).ctypes.data)


def random(shape: Any, seed: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_results_are_bit_identical_to_those_with_numpy(dtype: str) -> None:
    values = [random((20, 12), 1, dtype), random((20,), 2, dtype)]
    params = {"w": Tensor(values[0]), "b": Tensor(values[1])}
    opt = Shampoo(params, lr=0.125, weight_decay=0.1, **KEYS)
    reference = libshampoo.Optimizer(values, lr=0.125, weight_decay=0.1, **KEYS)
    assert opt.optimizer.plan.names == ["w", "b"]
    for step in range(4):
        grads = [random(value.shape, 10 + step, dtype) for value in values]
        for param, grad in zip(params.values(), grads):
            param.grad = Tensor(grad)
        opt.step()
        reference.step(grads)
    assert all(param.numpy().tobytes() == value.tobytes() for param, value in zip(params.values(), values))


def test_bfloat16_tensors_are_updated() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    value, grad = random((4, 3), 1).astype(ml_dtypes.bfloat16), random((4, 3), 2).astype(ml_dtypes.bfloat16)
    param = libshampoo.tinygrad._to_tensor(value)
    opt = Shampoo([param], lr=0.125)
    param.grad = libshampoo.tinygrad._to_tensor(grad)
    opt.step()
    libshampoo.Optimizer([value], lr=0.125).step([grad])
    assert bytes(param.uop.buffer.as_memoryview()) == value.tobytes()


def test_a_step_reads_and_writes_the_memory_of_the_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net()
    opt = Shampoo(nn.state.get_state_dict(net), lr=0.1)
    places = [address(param) for param in opt.params]
    seen: list[list[list[int]]] = []
    native = libshampoo._native.shampoo_optimizer_bind

    def watch(handle: Any, first: int, views: Any) -> None:
        seen.append([[0 if view is None else view.pointer for view in four] for four in views])
        native(handle, first, views)

    monkeypatch.setattr(libshampoo._native, "shampoo_optimizer_bind", watch)
    net(Tensor.ones(3, 20)).square().sum().backward()
    opt.step()
    grads = [address(param.grad) for param in opt.params]
    assert seen[0] == [[place, grad, place, 0] for place, grad in zip(places, grads)]
    assert [four[1] for four in seen[-1]] == [0] * 4, "gradients must be released"
    assert [address(param) for param in opt.params] == places
    assert opt.optimizer._scalars[0, "lr"].pointer == address(opt.lr)
    buffer = weakref.ref(opt.params[0].grad.uop.buffer)
    opt.zero_grad()
    gc.collect()
    assert buffer() is None


def test_training_works() -> None:
    net, images = Net(), Tensor(random((64, 20), 3))
    targets = images[:, :4].tanh().realize()
    opt = Shampoo(nn.state.get_parameters(net), lr=0.03, **KEYS)
    assert isinstance(opt, nn.optim.Optimizer)
    losses = []
    for _ in range(40):
        opt.zero_grad()
        loss = (net(images) - targets).square().mean()
        loss.backward()
        losses.append(loss.item())
        opt.step()
    assert losses[-1] < 0.1 * losses[0]


def test_gradients_can_come_from_a_jit() -> None:
    nets = [Net(), Net()]
    batches = [Tensor(random((8, 20), seed)).realize() for seed in range(5)]
    opts = [Shampoo(nn.state.get_parameters(net), lr=0.125, **KEYS) for net in nets]

    def compute(net: Any, opt: Any, images: Any) -> Any:
        opt.zero_grad()
        loss = net(images).square().mean().backward()
        return [tensor.realize() for tensor in (loss, *(param.grad for param in opt.params))]

    fast = TinyJit(lambda images: compute(nets[1], opts[1], images))
    for images in batches:
        compute(nets[0], opts[0], images)
        fast(images)
        for opt in opts:
            opt.step()
    for one, other in zip(*(opt.params for opt in opts)):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(opts[1].params[0].numpy(), nn.state.get_parameters(Net())[0].numpy())


def test_a_step_in_a_jit_is_rejected() -> None:
    param = Tensor.ones(4).contiguous().realize()
    opt = Shampoo([param], lr=0.1)

    @TinyJit
    def step(images: Any) -> Any:
        opt.zero_grad()
        loss = (param * images).sum().backward()
        opt.step()
        return loss.realize()

    step(Tensor.ones(4).contiguous().realize())
    with pytest.raises(RuntimeError, match="TinyJit"):
        step(Tensor.ones(4).contiguous().realize())
    with pytest.raises(NotImplementedError, match="schedule_step"):
        opt.schedule_step()
    with pytest.raises(NotImplementedError, match="schedule_step"):
        nn.optim.OptimizerGroup(opt).step()


def test_the_learning_rate_can_be_set_as_a_tensor_or_a_number() -> None:
    param, twin = Tensor.ones(4).contiguous(), np.ones(4, np.float32)
    opt, other = Shampoo([param], lr=0.5), libshampoo.Optimizer([twin], lr=0.5)
    rates: list[Any] = [0.5, 0.25, 0.125, 0.0625]
    for number, rate in enumerate(rates):
        if number == 1:
            opt.lr.assign(Tensor([rate]))
        elif number == 2:
            opt.lr = Tensor([rate])
        elif number == 3:
            opt.lr = rate
        other.lr = rate
        param.grad = Tensor(random((4,), number))
        opt.step()
        other.step([random((4,), number)])
        assert param.numpy().tobytes() == twin.tobytes(), number


def test_parameters_whose_memory_was_replaced_are_updated() -> None:
    params = [Tensor(random((4, 3), 1)), Tensor(random((4, 3), 1))]
    opts = [Shampoo([param], lr=0.125) for param in params]
    for step in range(3):
        for param, opt in zip(params, opts):
            param.grad = Tensor(random((4, 3), 5 + step))
            opt.step()
        params[0].replace(params[0].clone().realize())
        params[1].assign(params[1] * 1)
    assert params[0].numpy().tobytes() == params[1].numpy().tobytes()


def test_views_are_rejected_and_constants_become_arrays() -> None:
    base = Tensor(random((4, 6), 1)).realize()
    with pytest.raises(ValueError, match="parameter 'w': a view"):
        Shampoo({"w": base.T})
    with pytest.raises(ValueError, match="parameter 'w': a view"):
        Shampoo({"w": base[1:]})
    with pytest.raises(ValueError, match="param1.*overlaps the parameter"):
        Shampoo([base, base.reshape(24)])
    zeros = Tensor.zeros(4, 3)  # a constant has no memory; Shampoo turns it into an array
    opt = Shampoo([zeros], lr=0.5)
    zeros.grad = Tensor.ones(3, 4).contiguous().realize().T
    opt.step()
    twin = np.zeros((4, 3), np.float32)
    libshampoo.Optimizer([twin], lr=0.5).step([np.ones((4, 3), np.float32)])
    assert zeros.numpy().tobytes() == twin.tobytes()
    buffers = [zeros, Tensor.ones(3).is_param_(False)]
    assert Shampoo(buffers).params == [zeros]


def test_wrong_calls_are_rejected() -> None:
    with pytest.raises(TypeError, match='"graftin": did you mean grafting'):
        Shampoo([Tensor.ones(3)], graftin="adam")
    with pytest.raises(TypeError, match=r"params\[0\] is list"):
        Shampoo([[1.0]])
    with pytest.raises(ValueError, match="parameter 'w': on PYTHON"):
        Shampoo({"w": Tensor.ones(3, device="PYTHON")})
    with pytest.raises(ValueError, match=r"parameter 'w': on \('CPU', 'CPU:1'\)"):
        Shampoo({"w": Tensor.ones(4).shard(("CPU", "CPU:1"), 0)})
    with pytest.raises(ValueError, match=r"parameter 'w': dtypes\.int"):
        Shampoo({"w": Tensor.ones(3, dtype=dtypes.int)})
    param = Tensor.ones(3).contiguous()
    opt = Shampoo({"w": param}, lr=0.1)
    with pytest.raises(RuntimeError, match="'w' has no gradient"):
        opt.step()
    param.grad = Tensor.ones(3, dtype=dtypes.float64)
    with pytest.raises(ValueError, match="gradient of 'w': dtype float64"):
        opt.step()
    param.grad = Tensor([1.0, float("nan"), 1.0])
    with pytest.raises(FloatingPointError, match="w"):
        opt.step()
    param.grad = Tensor.ones(3)
    with Context(TRAINING=0), pytest.raises(RuntimeError, match="TRAINING"):
        opt.step()
    assert (param.numpy() == 1).all()


def test_training_continues_bit_identically_from_a_loaded_state(tmp_path: Path) -> None:
    pytest.importorskip("ml_dtypes")
    more = {"factor_dtype": "bf16", "momentum": 0.5, **KEYS}
    params = [Tensor(random((8, 6), 1)), Tensor(random((8, 6), 1))]
    opts = [Shampoo({"w": param}, lr=0.125, **more) for param in params]

    def step(number: int, seed: int) -> None:
        params[number].grad = Tensor(random((8, 6), seed))
        opts[number].step()

    for seed in range(3):
        step(0, seed)
    state = opts[0].state_dict()
    assert state["group.0/step"].item() == 3 and state["w/0/factor.0"].dtype == dtypes.bfloat16
    nn.state.safe_save(state, str(tmp_path / "state"))
    params[1].assign(params[0]).realize()
    opts[1].load_state_dict(nn.state.safe_load(str(tmp_path / "state")))
    for seed in range(3, 6):
        for number in range(2):
            step(number, seed)
    assert params[0].numpy().tobytes() == params[1].numpy().tobytes()
    with pytest.raises(ValueError, match="'w/0/momentum' is missing"):
        opts[1].load_state_dict({name: value for name, value in state.items() if name != "w/0/momentum"})
    with pytest.raises(TypeError, match="state_dict"):
        nn.state.get_state_dict(opts[0])
