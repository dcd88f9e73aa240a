# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import sys
import weakref
from pathlib import Path

import libshampoo
import numpy as np
import pytest
from tools import bfloat16


def params() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {
        "layer.weight": random.standard_normal((20, 12)).astype(np.float32),
        "layer.bias": random.standard_normal(20).astype(np.float32),
    }


def minimize(opt: libshampoo.Optimizer, values: dict[str, np.ndarray], steps: int = 100) -> float:
    for _ in range(steps):
        opt.step({name: value.copy() for name, value in values.items()})
    return max(float(abs(value).max()) for value in values.values())


def test_steps_in_place() -> None:
    values = params()
    with libshampoo.Optimizer(values, lr=0.1, grafting="adam", max_preconditioner_dim=32) as opt:
        assert minimize(opt, values) < 0.2
        assert opt.stats()["steps"] == 100


@pytest.mark.parametrize("shape", ["mapping", "list", "pairs", "groups"])
def test_ways_to_give_parameters(shape: str) -> None:
    values = params()
    w, b = values.values()
    given = {
        "mapping": values,
        "list": [w, b],
        "pairs": list(values.items()),
        "groups": [{"params": {"layer.weight": w}, "lr": 0.3}, {"params": [("layer.bias", b)]}],
    }[shape]
    opt = libshampoo.Optimizer(given, lr=0.3, grafting="adam")
    names = ["param0", "param1"] if shape == "list" else list(values)
    assert opt.plan.names == names
    opt.step([w.copy(), b.copy()])
    reference = params()
    libshampoo.Optimizer(reference, lr=0.3, grafting="adam").step([w_.copy() for w_ in params().values()])
    assert w.tobytes() == reference["layer.weight"].tobytes()
    assert b.tobytes() == reference["layer.bias"].tobytes()


def test_groups_have_keys_of_their_own() -> None:
    values = params()
    groups = [{"params": {"w": values["layer.weight"]}}, {"params": {"b": values["layer.bias"]}, "lr": 0.5}]
    opt = libshampoo.Optimizer(groups, lr=0.25, max_preconditioner_dim=8)
    assert [group["lr"] for group in opt.param_groups] == [0.25, 0.5]
    assert [group.names for group in opt.param_groups] == [["w"], ["b"]]
    opt.param_groups[1]["lr"] = 0.125
    assert opt.param_groups[1]["lr"] == 0.125 and opt.lr == 0.25
    opt.lr = 1
    assert [group["lr"] for group in opt.param_groups] == [1, 1]
    assert opt.param_groups[0]["max_preconditioner_dim"] == 8
    assert opt.param_groups[0]["use_nesterov"] is False
    assert opt.param_groups[0]["grafting"] == dict(opt.param_groups[0])["grafting"]
    with pytest.raises(ValueError, match="grafting: fixed"):
        opt.param_groups[0]["grafting"] = "adam"
    with pytest.raises(KeyError):
        opt.param_groups[0]["rl"]


def test_a_bound_learning_rate_is_read_by_each_step() -> None:
    w, rate = np.ones(3, np.float32), np.zeros(1)
    opt = libshampoo.Optimizer([w], lr=1.0)
    opt.bind_scalar("lr", rate)
    opt.step([np.ones(3, np.float32)])
    assert (w == 1).all()
    rate[:] = 0.5
    opt.step()
    assert (w < 1).all()


def test_a_parameter_without_a_gradient_stays() -> None:
    values = params()
    before = values["layer.bias"].copy()
    opt = libshampoo.Optimizer(values, lr=0.1, weight_decay=0.1)
    opt.step({"layer.weight": np.ones((20, 12), np.float32)})
    opt.step([np.ones((20, 12), np.float32), None])
    assert (values["layer.bias"] == before).all()


def test_updates_outputs_and_copies() -> None:
    w, grad = np.ones((4, 3), np.float32), np.full((4, 3), 2, np.float32)
    stepped, out, copy = w.copy(), np.zeros((4, 3), np.float32), np.zeros((4, 3), np.float16)
    libshampoo.Optimizer([stepped], lr=0.1).step([grad])
    updates = libshampoo.Optimizer([w], lr=0.1, output="updates", copy_dtype=np.float16)
    with pytest.raises(ValueError, match="param0"):
        updates.step([grad])
    updates.bind(out=[out])
    updates.step([grad])
    assert (w == 1).all()
    assert (w + out == stepped).all()
    elsewhere = libshampoo.Optimizer([w], lr=0.1, copy_dtype=np.float16)
    elsewhere.bind(grads=[grad], out=[out], copy=[copy])
    elsewhere.step()
    assert (w == 1).all()
    assert (out == stepped).all()
    assert (copy == stepped.astype(np.float16)).all()
    elsewhere.bind(params=[w], out=None)
    elsewhere.step()
    assert (w != 1).all()


def test_unknown_keys_are_refused_with_a_near_one() -> None:
    with pytest.raises(TypeError, match='"graftin": did you mean grafting[?] libshampoo.KEYS has'):
        libshampoo.Optimizer(params(), graftin="adam")
    with pytest.raises(TypeError, match='"l": did you mean lr'):
        libshampoo.Optimizer([{"params": params(), "l": 1}])


def test_values_of_keys() -> None:
    opt = libshampoo.Optimizer(
        params(), factor_dtype=np.float64, use_nesterov=True, momentum=0.5, inverse_root_override=[0, 2, 4], threads=1
    )
    group = opt.param_groups[0]
    assert (group["factor_dtype"], group["use_nesterov"], group["inverse_root_override"]) == ("f64", True, "0,2,4")


def test_the_table_of_keys_is_that_of_the_library() -> None:
    assert libshampoo.KEYS["lr"].changeable and not libshampoo.KEYS["grafting"].changeable
    assert all(key.doc and key.default for key in libshampoo.KEYS.values())
    assert "Learning rate" in libshampoo.help_text("lr")
    assert libshampoo.help_text().count("\n") == 2 * len(libshampoo.KEYS) - 1


def test_exceptions_are_of_pythons_classes() -> None:
    values = params()
    opt = libshampoo.Optimizer(values)
    with pytest.raises(RuntimeError, match="no gradients yet"):
        opt.step()
    bad = {name: np.full_like(value, np.nan) for name, value in values.items()}
    before = {name: value.copy() for name, value in values.items()}
    with pytest.raises(FloatingPointError, match=r"layer\.weight"):
        opt.step(bad)
    assert all((values[name] == before[name]).all() for name in values)
    with pytest.raises(ValueError, match="lr"):
        libshampoo.Optimizer(values, lr=-1)
    with pytest.raises(OSError, match="/nowhere"):
        opt.load("/nowhere")
    kinds = [ValueError, RuntimeError, NotImplementedError, MemoryError, FloatingPointError, RuntimeError, RuntimeError,
             OSError, SystemError]  # fmt: skip
    assert len(kinds) == len(libshampoo.Error.__subclasses__())
    for status, kind in enumerate(kinds, 1):
        error = libshampoo.errors.from_status(status, "text")
        assert isinstance(error, kind) and isinstance(error, libshampoo.Error) and error.status == status
    assert libshampoo.errors.from_status(99, "text").status == 99


def test_a_closed_optimizer_says_so() -> None:
    opt = libshampoo.Optimizer(params())
    opt.close()
    opt.close()
    assert repr(opt) == "Optimizer(closed)"
    with pytest.raises(RuntimeError, match="closed"):
        opt.step()


def test_what_has_ended_ends_once() -> None:
    opt = libshampoo.Optimizer(params())
    for function in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="an optimizer cannot be"):
            function(opt)
    twin = object.__new__(libshampoo.Optimizer)
    twin.__dict__.update(opt.__dict__)
    opt.close()
    twin.close()
    config = libshampoo._native.shampoo_config_create()
    libshampoo._native.shampoo_config_destroy(config)
    libshampoo._native.shampoo_config_destroy(config)
    assert libshampoo._native.shampoo_config_get(config, "lr") is None, "nothing is left in it"


def test_it_ends_with_its_last_name() -> None:
    array = np.ones(4, np.float32)
    opt = libshampoo.Optimizer({"w": array})
    kept, group, uses = weakref.ref(opt), opt.param_groups[0], sys.getrefcount(array)
    gc.disable()
    try:
        del opt
        assert kept() is None, "a cycle holds it until the collector runs"
    finally:
        gc.enable()
    assert sys.getrefcount(array) < uses
    with pytest.raises(RuntimeError, match="gone"):
        group["lr"]


def test_names_shapes_and_values_of_other_kinds() -> None:
    with pytest.raises(TypeError, match="the name 7 is no string"):
        libshampoo.Optimizer({7: np.ones(3, np.float32)})
    assert libshampoo.plan({"w": (np.int64(4), 3)}).blocks[0].shape == libshampoo.plan({"w": (4, 3)}).blocks[0].shape
    opt = libshampoo.Optimizer(
        params(), use_nesterov=np.True_, momentum=np.float32(0.5), precondition_frequency=10.0,
        max_preconditioner_dim=np.int64(8), inverse_root_override=np.array([0, 2, 4]), threads=1,
    )  # fmt: skip
    group = opt.param_groups[0]
    assert group["use_nesterov"] is True and group["precondition_frequency"] == 10
    assert group["max_preconditioner_dim"] == 8 and group["inverse_root_override"] == "0,2,4"
    for key, value in (("precondition_frequency", 2.5), ("inverse_root_override", (0, 2.5))):
        with pytest.raises(ValueError, match=key):
            libshampoo.Optimizer(params(), **{key: value})


def test_paths_may_be_of_any_kind(tmp_path: Path) -> None:
    opt = libshampoo.Optimizer(params())
    opt.step([np.ones_like(value) for value in params().values()])
    opt.save(os.fsencode(tmp_path))
    opt.load(tmp_path)
    assert opt.status() is None
    with pytest.raises(NotImplementedError):
        libshampoo.cuda.load(os.fsencode(tmp_path / "nothing"))


@pytest.mark.parametrize("level", [logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG])
def test_levels_of_logging(level: int, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    monkeypatch.setattr(libshampoo._native, "shampoo_set_log", lambda callback, most: told.append(most))
    libshampoo.set_log_level(level)
    libshampoo.set_log_level(3 - (level - logging.DEBUG) // 10)
    assert told[0] == told[1]


def test_repr_needs_no_lock() -> None:
    opt = libshampoo.Optimizer(params())
    with opt._using():
        assert "Optimizer(in use, cpu, " in repr(opt)


def test_repr_shows_blocks() -> None:
    text = repr(libshampoo.Optimizer(params(), max_preconditioner_dim=8, lr=0.5))
    assert "lr=0.5, cpu" in text
    assert "layer.weight  f32  20x12 -> 2 of 8x8, 2 of 8x4, 4x8, 4x4" in text
    assert "layer.bias    f32  20 -> 2 of 8, 4" in text


def test_a_plan_tells_memory_blocks_and_owners() -> None:
    plan = libshampoo.plan({"w": (64, 32), "b": np.zeros(64, np.float16)}, max_preconditioner_dim=32, replica=(1, 2))
    assert [(block.param, block.shape) for block in plan.blocks] == [("w", (32, 32))] * 2 + [("b", (32,))] * 2
    assert {block.owner for block in plan.blocks} == {0, 1}
    assert plan.bytes("total", 0) == plan.bytes("state", 0) + plan.bytes("workspace", 0)
    assert plan.bytes("state") == plan.bytes("state", 1)
    assert "2 x 1 ranks" in repr(plan)
    assert "Plan(1 parameter, 1 block, state " in repr(libshampoo.plan({"w": (3, 2)}))
    stacked = libshampoo.plan({"w": libshampoo.Param((3, 8, 4), stack_dims=1)}, use_merge_dims=False)
    assert [block.shape for block in stacked.blocks] == [(8, 4)] * 3
    shard = libshampoo.plan({"w": libshampoo.Param((4, 4), shape=(8, 4), local_offset=(4, 0))}, shard=(1, 2))
    assert shard.blocks[0].shape == (4, 4)


def test_bfloat16_comes_back_without_ml_dtypes() -> None:
    kind = bfloat16()
    opt = libshampoo.Optimizer({"w": np.ones((4, 3), kind)}, momentum=0.9, momentum_dtype="bf16", factor_dtype="bf16")
    opt.step([np.full((4, 3), 2, kind)])
    entries = opt.state_dict()
    assert any(value.dtype == kind for value in entries.values())
    plain = {name: value.view(np.uint16) if value.dtype == kind else value for name, value in entries.items()}
    other = libshampoo.Optimizer({"w": np.ones((4, 3), kind)}, momentum=0.9, momentum_dtype="bf16", factor_dtype="bf16")
    other.load_state_dict(plain)
    assert {name: value.tobytes() for name, value in other.state_dict().items()} == {
        name: value.tobytes() for name, value in entries.items()
    }


def test_warnings_go_to_logging(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "libshampoo"):
        libshampoo.plan(params(), use_nesterov=True)
    assert "nesterov" in caplog.text


def test_state_comes_back() -> None:
    values = params()
    opt = libshampoo.Optimizer(values, lr=0.1, grafting="adam", use_merge_dims=False)
    minimize(opt, values, 3)
    state = opt.state_dict()
    assert state["group.0/step"] == 3
    assert opt.param_groups[0].step == 3
    assert state["layer.weight/0/factor.0"].shape == (20, 20)
    other_values = {name: value.copy() for name, value in values.items()}
    other = libshampoo.Optimizer(other_values, lr=0.1, grafting="adam", use_merge_dims=False)
    other.load_state_dict(state)
    minimize(opt, values, 2)
    minimize(other, other_values, 2)
    assert all(values[name].tobytes() == other_values[name].tobytes() for name in values)
    for broken in ({}, {**state, "more": np.zeros(1)}, {**state, "group.0/step": np.zeros(2, np.int64)},
                   {**state, "group.0/step": np.array(3.0)}):  # fmt: skip
        with pytest.raises(ValueError, match="state '"):
            other.load_state_dict(broken)
