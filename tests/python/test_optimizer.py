# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of optimizers in the Python package: groups, keys, plans, states, logs and errors."""
from __future__ import annotations

import copy
import gc
import logging
import os
import pickle
import re
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import libshampoo
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


def test_a_step_updates_parameters_in_place() -> None:
    values = params()
    with libshampoo.Optimizer(values, lr=0.1, grafting="adam", max_preconditioner_dim=32) as opt:
        assert minimize(opt, values) < 0.2
        assert opt.stats()["steps"] == 100


@pytest.mark.parametrize("form", ["mapping", "list", "pairs", "groups"])
def test_parameters_can_be_passed_in_several_forms(form: str) -> None:
    values = params()
    w, b = values.values()
    passed = {
        "mapping": values,
        "list": [w, b],
        "pairs": list(values.items()),
        "groups": [{"params": {"layer.weight": w}, "lr": 0.3}, {"params": [("layer.bias", b)]}],
    }[form]
    opt = libshampoo.Optimizer(passed, lr=0.3, grafting="adam")
    names = ["param0", "param1"] if form == "list" else list(values)
    assert opt.plan.names == names
    opt.step([w.copy(), b.copy()])
    reference = params()
    libshampoo.Optimizer(reference, lr=0.3, grafting="adam").step([w_.copy() for w_ in params().values()])
    assert w.tobytes() == reference["layer.weight"].tobytes()
    assert b.tobytes() == reference["layer.bias"].tobytes()


def test_groups_have_their_own_values_of_keys() -> None:
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
    with pytest.raises(KeyError, match='there is no key "learning_rate": use lr'):
        opt.param_groups[0]["learning_rate"]
    with pytest.raises(KeyError, match="use lr"):
        opt.param_groups[0]["learning_rate"] = 1
    assert "learning_rate" not in opt.param_groups[0]
    with pytest.raises(KeyError, match="there is no key 3; expected a string"):
        opt.param_groups[0][3]  # type: ignore[index]


def test_keys_that_can_be_changed_are_attributes_for_all_groups() -> None:
    values = params()
    groups = [{"params": {name: value}} for name, value in values.items()]
    opt = libshampoo.Optimizer(groups, root_relative_epsilon=0, epsilon=1e-9, momentum=0.5)
    for name, key in libshampoo.KEYS.items():
        if not key.changeable or name in ("shampoo_beta", "adam_lr"):
            continue
        value = 0.25 if name != "root_relative_epsilon" else 0.0
        setattr(opt, name, value)
        assert [group[name] for group in opt.param_groups] == [value, value], name
        assert getattr(opt, name) == value
    # The loop skips shampoo_beta and adam_lr, because method shampoo does not read these two keys.
    soap = libshampoo.Optimizer(params(), method="soap")
    soap.shampoo_beta = 0.5
    assert soap.shampoo_beta == 0.5
    muon = libshampoo.Optimizer(params(), method="muon")
    muon.adam_lr = 0.5
    assert muon.adam_lr == 0.5
    with pytest.raises(ValueError, match="weight_decay"):
        opt.weight_decay = -1
    with pytest.raises(TypeError, match="key weight_decay: the value 'much' is not allowed: expected a number: >= 0"):
        opt.weight_decay = "much"


def test_an_attribute_is_set_in_all_groups_or_in_none() -> None:
    groups = [{"params": {"wide": np.ones(3)}, "lr": 0.1}, {"params": {"narrow": np.ones(3, np.float32)}, "lr": 0.2}]
    opt = libshampoo.Optimizer(groups)
    with pytest.raises(ValueError, match="key lr: the value 1e.300 is not allowed with computation_dtype=f32"):
        opt.lr = 1e300
    assert [group["lr"] for group in opt.param_groups] == [0.1, 0.2]


def test_unknown_attributes_are_rejected() -> None:
    opt: Any = libshampoo.Optimizer(params())
    with pytest.raises(AttributeError, match='there is no key "learning_rate": use lr'):
        opt.learning_rate = 5
    with pytest.raises(AttributeError, match='there is no key "beta9": did you mean beta1'):
        opt.beta9 = 7
    with pytest.raises(AttributeError, match="an Optimizer has no attribute 'remark'"):
        opt.remark = "mine"
    with pytest.raises(AttributeError, match="key grafting: fixed when the optimizer is created"):
        opt.grafting = "sgd"
    with pytest.raises(AttributeError):
        opt.param_groups = []
    with pytest.raises(AttributeError, match=r'has no attribute .grafting.: .* param_groups\[0\]\["grafting"\]'):
        opt.grafting  # noqa: B018
    with pytest.raises(AttributeError, match="has no attribute 'learning_rate'$"):
        opt.learning_rate  # noqa: B018
    opt.step([None, None])


def test_a_subclass_has_attributes_of_its_own() -> None:
    class Scheduled(libshampoo.Optimizer):
        beta9 = 0.5
        grafting = "declared"

        def __init__(self, *args: Any, **options: Any) -> None:
            self.rates = [0.5, 0.25]
            super().__init__(*args, **options)
            self.remark = "mine"

        def step(self, *args: Any, **options: Any) -> None:
            self.lr = self.rates.pop(0)
            super().step(*args, **options)

    opt: Any = Scheduled(params())
    opt.step([None, None])
    opt.beta9, opt.grafting = 0.75, "own"
    assert (opt.lr, opt.remark, opt.beta9, opt.grafting) == (0.5, "mine", 0.75, "own")
    with pytest.raises(AttributeError, match="key root_method: fixed"):
        opt.root_method = "newton"


def test_shampoo_is_another_name_of_the_optimizer() -> None:
    assert libshampoo.Shampoo is libshampoo.Optimizer
    names = set(dir(libshampoo))
    assert {"Optimizer", "Shampoo", "Param", "plan", "KEYS", "__version__"} <= names
    assert not names & {"annotations", "buffers", "groups", "keys", "params", "state", "text", "log", "dtypes"}
    assert set(libshampoo.__all__) <= names


def test_a_bound_learning_rate_is_read_by_each_step() -> None:
    w, rate = np.ones(3, np.float32), np.zeros(1)
    opt = libshampoo.Optimizer([w], lr=1.0)
    opt.bind_scalar("lr", rate)
    opt.step([np.ones(3, np.float32)])
    assert (w == 1).all()
    rate[:] = 0.5
    opt.step()
    assert (w < 1).all()


def test_a_parameter_without_a_gradient_does_not_change() -> None:
    values = params()
    before = values["layer.bias"].copy()
    opt = libshampoo.Optimizer(values, lr=0.1, weight_decay=0.1)
    opt.step({"layer.weight": np.ones((20, 12), np.float32)})
    opt.step([np.ones((20, 12), np.float32), None])
    assert (values["layer.bias"] == before).all()


def test_a_step_writes_updates_outputs_and_copies() -> None:
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


def test_averages_are_exported_to_other_arrays() -> None:
    values = params()
    opt = libshampoo.Optimizer(values, method="sgd", lr=0.5, weight_ema=0.75)
    expected = {}
    for step in range(3):
        opt.step({name: np.full_like(value, step) for name, value in values.items()})
        for name, value in values.items():
            expected[name] = value.copy() if step == 0 else 0.75 * expected[name] + 0.25 * value
    before = {name: value.copy() for name, value in values.items()}
    averages = {name: np.full_like(value, np.nan) for name, value in values.items()}
    opt.export(averages)
    for name, value in averages.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-6)
    half = np.empty_like(values["layer.bias"])
    opt.export({"layer.bias": half}, blend=0.5)
    np.testing.assert_allclose(half, (values["layer.bias"] + expected["layer.bias"]) / 2, atol=1e-6)
    opt.export([None, half])
    assert half.tobytes() == averages["layer.bias"].tobytes()
    assert all(value.tobytes() == before[name].tobytes() for name, value in values.items())


def test_an_export_to_a_wrong_array_is_rejected() -> None:
    values = params()
    opt = libshampoo.Optimizer(values, weight_ema=0.75)
    with pytest.raises(ValueError, match=r"weights\[1\] overlaps the parameter \"layer.bias\""):
        opt.export({"layer.bias": values["layer.bias"]})
    with pytest.raises(ValueError, match="output of 'layer.bias': "):
        opt.export({"layer.bias": np.zeros(3, np.float32)})
    fixed = np.zeros_like(values["layer.bias"])
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="output of 'layer.bias': read-only"):
        opt.export({"layer.bias": fixed})
    with pytest.raises(ValueError, match=r"blend is 2: expected a number in \[0, 1\]"):
        opt.export([None, None], blend=2)


def test_errors_for_the_options_of_adam_name_their_counterparts() -> None:
    betas = "beta1 for the first value, and grafting_beta2 .* or beta2"
    for name, words in (("betas", betas), ("eps", "grafting_epsilon .* or epsilon")):
        with pytest.raises(TypeError, match=f'there is no key "{name}": use {words}'):
            libshampoo.Optimizer(params(), **{name: 0.9})


def test_the_error_for_an_unknown_key_suggests_a_similar_one() -> None:
    with pytest.raises(TypeError, match='"graftin": did you mean grafting[?] libshampoo.KEYS has'):
        libshampoo.Optimizer(params(), graftin="adam")
    with pytest.raises(TypeError, match='"l": did you mean lr'):
        libshampoo.Optimizer([{"params": params(), "l": 1}])
    for name in ("update_freq", "precondition_every", "preconditioning_compute_steps"):
        with pytest.raises(TypeError, match=f'there is no key "{name}": use precondition_frequency'):
            libshampoo.Optimizer(params(), **{name: 10})
    for name in ("foo", "kw"):
        with pytest.raises(TypeError, match=f'there is no key "{name}"; libshampoo.KEYS has all keys'):
            libshampoo.Optimizer(params(), **{name: 10})


def test_the_error_for_a_value_of_the_wrong_type_names_its_key() -> None:
    def schedule(count: int) -> float:
        return 0.1

    with pytest.raises(TypeError, match=r"key lr: .* for a schedule set opt\.lr before each step \(libshampoo\.jax"):
        libshampoo.Optimizer(params(), lr=schedule)
    with pytest.raises(TypeError, match=r"key weight_decay: .* for a schedule set opt\.weight_decay before each step$"):
        libshampoo.Optimizer(params(), weight_decay=schedule)
    with pytest.raises(TypeError, match=r"key lr: .* for a schedule set opt\.lr"):
        libshampoo.Optimizer(params()).lr = schedule
    with pytest.raises(TypeError, match="key lr: the value None is not allowed: expected a number: >= 0; to use the default"):
        libshampoo.Optimizer(params(), lr=None)
    for name, value in (("lr", [1, 2]), ("momentum", np.ones(0)), ("use_nesterov", None), ("grafting", None),
                        ("grafting", schedule), ("precondition_frequency", None), ("beta1", {})):  # fmt: skip
        with pytest.raises(TypeError, match=f"key {name}: the value .* is not allowed: expected "):
            libshampoo.Optimizer(params(), **{name: value})
    for threads in (None, "all", 1.5):
        with pytest.raises(TypeError, match="threads: the value .* is not allowed: expected an integer"):
            libshampoo.Optimizer(params(), threads=threads)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match='key grafting: .* did you mean adam[?]'):
        libshampoo.Optimizer(params(), grafting="AdamW")
    opt = libshampoo.Optimizer(params(), epsilon=None, factor_dtype=None)  # the defaults are "auto"
    assert opt.param_groups[0]["factor_dtype"] == "auto"


def test_an_empty_mapping_of_gradients_is_rejected() -> None:
    opt = libshampoo.Optimizer(params())
    for empty in ({}, {"layer": {}}):
        with pytest.raises(ValueError, match="gradients: the mapping is empty: expected the gradient of at least one"):
            opt.step(empty)
        with pytest.raises(ValueError, match="the mapping is empty"):
            opt.bind(grads=empty)
    with pytest.raises(ValueError, match="gradient arrays: 0; expected 2, one for each parameter"):
        opt.step([])
    opt.step([None, None])
    opt.step({"layer.weight": None})
    opt.bind(grads=None)
    assert opt.stats()["steps"] == 2


def test_a_number_or_a_string_in_place_of_arrays_is_rejected() -> None:
    opt = libshampoo.Optimizer(params())
    for value in (3, "abc", b"abc"):
        with pytest.raises(TypeError, match=f"gradient arrays: the value is {value!r}; expected a mapping or"):
            opt.step(value)
    for wrong, kind in ((3, "int"), ([{"params": 3}], "int"), ("abc", "str"), ([{"params": "abc"}], "str")):
        with pytest.raises(TypeError, match=f"params: {kind}; expected a mapping, a sequence of arrays, or groups"):
            libshampoo.Optimizer(wrong)


def test_mappings_can_be_nested() -> None:
    w, b, v = (np.ones(shape, np.float32) for shape in ((4, 3), (4,), (3,)))
    opt = libshampoo.Optimizer({"layer": {"w": w, "b": b}, "head": {"deep": {"v": v}}}, lr=0.5)
    assert opt.plan.names == ["layer/w", "layer/b", "head/deep/v"]
    opt.step({"layer": {"w": np.ones((4, 3), np.float32)}, "head": {"deep": {"v": np.ones(3, np.float32)}}})
    assert (w < 1).all() and (v < 1).all() and (b == 1).all()
    opt.step({"layer/b": np.ones(4, np.float32)})
    assert (b < 1).all()
    assert any(key.startswith("layer/w/0/") for key in opt.state_dict())
    assert libshampoo.plan({"layer": {"w": (4, 3)}}).names == ["layer/w"]
    groups = libshampoo.Optimizer([{"params": {"layer": {"w": w}}}, {"params": [("head", {"v": v})], "lr": 0.5}])
    assert groups.plan.names == ["layer/w", "head/v"]
    with pytest.raises(ValueError, match='"a/b": the name is taken'):
        libshampoo.Optimizer({"a/b": w, "a": {"b": v}})
    with pytest.raises(ValueError, match="gradient of 'layer/x': there is no parameter with this name"):
        opt.step({"layer": {"x": b}})
    with pytest.raises(ValueError, match="gradient of 'layer/b': the mapping has this name twice, once nested"):
        opt.step({"layer/b": b, "layer": {"b": b + 1}})
    with pytest.raises(TypeError, match="the name 7 is not a string"):
        opt.step({"layer": {7: b}})
    with pytest.raises(TypeError, match=r'params\[1\] is a mapping; .* groups, .* "params"'):
        libshampoo.Optimizer([w, {"b": b}])


def test_lists_can_be_nested_in_mappings() -> None:
    """``model.parameters()`` of MLX returns a mapping that contains lists."""
    first, second, bias = (np.ones(shape, np.float32) for shape in ((4, 3), (3, 4), (3,)))
    opt = libshampoo.Optimizer({"layers": [{"w": first}, {}, {"w": second}], "rest": (bias, [bias.copy()])}, lr=0.5)
    assert opt.plan.names == ["layers/0/w", "layers/2/w", "rest/0", "rest/1/0"]
    grads = {"layers": [{"w": np.ones_like(first)}, {}, {"w": None}], "rest": [np.ones_like(bias), [None]]}
    opt.step(grads)
    assert (first < 1).all() and (second == 1).all() and (bias < 1).all()
    opt.step({"layers/2/w": np.ones((3, 4), np.float32)})
    assert (second < 1).all()
    assert libshampoo.plan({"layers": [{"w": (4, 3)}, {"w": [3, 4]}], "scale": ()}).names == [
        "layers/0/w", "layers/1/w", "scale",
    ]  # fmt: skip
    with pytest.raises(TypeError, match="parameter 'b': list is not an array"):
        libshampoo.Optimizer({"b": [0.0, 1.0]})


def test_the_error_for_an_unknown_gradient_suggests_a_similar_name() -> None:
    def arrays(names: list[str]) -> dict[str, np.ndarray]:
        return {name: np.ones(3, np.float32) for name in names}

    opt = libshampoo.Optimizer({"l1": {"w": np.ones(3, np.float32)}, "head": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="gradient of 'l1.w': there is no .* this name; did you mean 'l1/w'[?]"):
        opt.step(arrays(["l1.w"]))
    with pytest.raises(ValueError, match="gradient of 'X': .* this name; expected one of 'l1/w', 'head'$"):
        opt.step(arrays(["X"]))
    many = libshampoo.Optimizer(arrays([f"layer{number}" for number in range(20)]))
    with pytest.raises(ValueError, match="gradient of 'X': .* this name; expected one of opt.plan.names$"):
        many.step(arrays(["X"]))


def test_the_error_for_a_gradient_of_another_dtype_suggests_a_conversion() -> None:
    opt = libshampoo.Optimizer([np.ones(3, np.float32)])
    words = r'gradient .* grad_dtype="float64", or convert the gradient: grad\.astype\(numpy\.float32\)$'
    with pytest.raises(ValueError, match=words):
        opt.step([np.ones(3)])
    with pytest.raises(ValueError, match=r'output .* out_dtype="float64"$'):
        opt.bind(out=[np.ones(3)])


def test_messages_name_python_types() -> None:
    for keys, words in (
        ({"lr": -1}, "key lr: the value -1 is not allowed: expected a float: >= 0"),
        ({"precondition_frequency": 0}, 'key precondition_frequency: the value "0" is not allowed: expected an int: '),
    ):
        with pytest.raises(ValueError, match=words):
            libshampoo.Optimizer(params(), **keys)
    opt = libshampoo.Optimizer(params())
    with pytest.raises(ValueError, match="key lr: the value -1 is not allowed: expected a float: >= 0"):
        opt.lr = -1
    assert "(float, >= 0" in libshampoo.help_text("lr")
    assert "(int, " in libshampoo.help_text("precondition_frequency")


def test_param_groups_return_the_values_of_keys() -> None:
    opt = libshampoo.Optimizer(
        params(), factor_dtype=np.float64, use_nesterov=True, momentum=0.5, inverse_root_override=[0, 2, 4], threads=1
    )
    group = opt.param_groups[0]
    assert (group["factor_dtype"], group["use_nesterov"], group["inverse_root_override"]) == ("f64", True, "0,2,4")


def test_the_table_of_keys_and_the_help_text_describe_all_keys() -> None:
    assert libshampoo.KEYS["lr"].changeable and not libshampoo.KEYS["grafting"].changeable
    assert all(key.doc and key.default for key in libshampoo.KEYS.values())
    assert "Learning rate" in libshampoo.help_text("lr")
    assert libshampoo.help_text().count("\n") == 2 * sum(not key.for_replay for key in libshampoo.KEYS.values()) - 1


def test_exceptions_are_derived_from_built_in_ones() -> None:
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


def test_a_step_of_a_closed_optimizer_is_rejected() -> None:
    opt = libshampoo.Optimizer(params())
    opt.close()
    opt.close()
    assert repr(opt) == "Optimizer(closed)"
    with pytest.raises(RuntimeError, match="closed"):
        opt.step()


def test_an_object_is_destroyed_once() -> None:
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
    assert libshampoo._native.shampoo_config_get(config, "lr") is None, "the handle must be cleared"


def test_an_optimizer_is_destroyed_with_its_last_reference() -> None:
    array = np.ones(4, np.float32)
    opt = libshampoo.Optimizer({"w": array})
    kept, group, uses = weakref.ref(opt), opt.param_groups[0], sys.getrefcount(array)
    gc.disable()
    try:
        del opt
        assert kept() is None, "a reference cycle keeps the optimizer alive until the garbage collector runs"
    finally:
        gc.enable()
    assert sys.getrefcount(array) < uses
    message = "the optimizer of this group was deleted; keep a reference to the optimizer"
    with pytest.raises(RuntimeError, match=message):
        group["lr"]


def test_a_group_has_a_repr_after_its_optimizer_was_deleted() -> None:
    groups = libshampoo.Optimizer(params(), lr=0.5).param_groups
    message = "the optimizer of this group was deleted; keep a reference to the optimizer"
    assert repr(groups) == f"[Group(2 parameters, {message})]"
    opt = libshampoo.Optimizer(params(), lr=0.5)
    assert repr(opt.param_groups[0]).startswith("Group(2 parameters, lr=0.5, ")
    opt.close()
    assert re.fullmatch(r"Group\(2 parameters, .*closed.*\)", repr(opt.param_groups[0]))


def test_values_can_be_numpy_scalars_and_names_must_be_strings() -> None:
    with pytest.raises(TypeError, match="the name 7 is not a string"):
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


def test_paths_can_be_bytes_or_path_objects(tmp_path: Path) -> None:
    opt = libshampoo.Optimizer(params())
    opt.step([np.ones_like(value) for value in params().values()])
    opt.save(os.fsencode(tmp_path))
    opt.load(tmp_path)
    assert opt.status() is None
    with pytest.raises(NotImplementedError):
        libshampoo.cuda.load(os.fsencode(tmp_path / "nothing"))


def test_repr_needs_no_lock() -> None:
    opt = libshampoo.Optimizer(params())
    with opt._using():
        assert "Optimizer(lr unavailable, cpu, " in repr(opt)


def test_repr_shows_blocks() -> None:
    text = repr(libshampoo.Optimizer(params(), max_preconditioner_dim=8, lr=0.5))
    assert "lr=0.5, cpu" in text
    assert "layer.weight  f32  20x12 -> 2 of 8x8, 2 of 8x4, 4x8, 4x4" in text
    assert "layer.bias    f32  20 -> 2 of 8, 4" in text


def test_a_plan_describes_blocks_owners_and_memory() -> None:
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


def test_roles_and_row_splits_describe_a_parameter() -> None:
    table = np.ones((6, 4), np.float32)
    for role, factors in (("hidden", 2), ("vector", 0), ("embedding", 0), ("head", 0)):
        opt = libshampoo.Optimizer({"w": libshampoo.Param(table, role=role)})
        assert sum("/factor." in key for key in opt.state_dict()) == factors, role
    rows = libshampoo.plan({"w": libshampoo.Param((9, 5), row_splits=(4, 2, 3))})
    assert [block.shape for block in rows.blocks] == [(4, 5), (2, 5), (3, 5)]
    repeated = libshampoo.plan({"w": libshampoo.Param((9, 5), row_splits=np.int64(3))})  # type: ignore[arg-type]
    assert [block.shape for block in repeated.blocks] == [(3, 5)] * 3
    heads = libshampoo.plan({"w": libshampoo.Param((5, 6), row_splits=[2], fan="in_out")})
    assert [(block.shape, block.stride, block.offset) for block in heads.blocks] == [
        ((5, 2), (6, 1), 0), ((5, 2), (6, 1), 2), ((5, 2), (6, 1), 4)]  # fmt: skip
    with pytest.raises(ValueError, match="'w': role is 'table'; expected one of hidden, vector, embedding, head"):
        libshampoo.plan({"w": libshampoo.Param((2, 2), role="table")})
    with pytest.raises(ValueError, match="'w': fan is 'in'; expected one of out_in, in_out"):
        libshampoo.plan({"w": libshampoo.Param((2, 2), fan="in")})
    with pytest.raises(ValueError, match="'w': row_splits has 9 sizes; expected at most 8"):
        libshampoo.plan({"w": libshampoo.Param((9, 2), row_splits=[1] * 9)})
    with pytest.raises(libshampoo.InvalidError, match=r"row_splits is \(4, 4\): expected sizes whose sum is 9"):
        libshampoo.plan({"w": libshampoo.Param((9, 2), row_splits=[4, 4])})


def test_the_offset_of_a_block_counts_from_the_start_of_its_flat_shard() -> None:
    whole = libshampoo.plan({"w": (8, 4)}).blocks[0]
    assert (whole.of_shard, whole.shape, whole.stride, whole.offset) == (False, (8, 4), (4, 1), 0)
    flat = libshampoo.Param((16,), shape=(8, 4), flat_offset=16)
    (block,) = libshampoo.plan({"w": flat}, shard=(1, 2)).blocks
    assert (block.of_shard, block.shape, block.stride, block.offset) == (True, (4, 4), (4, 1), 0)


def test_a_bfloat16_state_can_be_loaded_from_a_uint16_array() -> None:
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


def test_messages_go_to_logging(caplog: pytest.LogCaptureFixture) -> None:
    """Checks that ``logging`` filters messages by level, and that a % in a message is not treated as a format."""
    with caplog.at_level(logging.WARNING, "libshampoo"):
        libshampoo.Optimizer(params(), use_nesterov=True)
    assert "nesterov" in caplog.text and {record.levelno for record in caplog.records} == {logging.WARNING}
    caplog.clear()
    with caplog.at_level(logging.INFO, "libshampoo"):
        opt = libshampoo.Optimizer({"100 %s %d": np.ones((40, 20), np.float32)}, track_root_residuals=True)
        for _ in range(30):
            opt.step([np.random.default_rng(1).standard_normal((40, 20)).astype(np.float32)])
    assert caplog.records and {record.levelno for record in caplog.records} == {logging.INFO}
    assert all(record.args == () and record.msg == record.getMessage() for record in caplog.records)
    assert "100 %s %d" in caplog.text
    caplog.clear()
    with caplog.at_level(logging.ERROR, "libshampoo"):
        libshampoo.Optimizer(params(), use_nesterov=True)
    assert not caplog.records


def test_an_ordinary_step_logs_no_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logging takes the GIL, even for a message that is not shown. An ordinary step must therefore log no message."""
    opt = libshampoo.Optimizer(params())
    found: list[str] = []
    monkeypatch.setattr(libshampoo.log._logger, "log", lambda level, message: found.append(message))
    libshampoo.Optimizer(params())
    assert len(found) == 1  # logged when the second optimizer was created
    for _ in range(50):
        opt.step(list(params().values()))
    assert len(found) == 1


def test_training_continues_bit_identically_from_a_loaded_state() -> None:
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
