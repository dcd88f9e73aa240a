# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs optax's tests of optimizers on ``libshampoo.jax.shampoo`` instead of the optimizers of optax.

The tests are those of the installed optax, unchanged. optax generates them from lists of optimizers and their
arguments. This file replaces these lists before the test classes are defined. docs/verification.md has the numbers of
passed and failed tests.
"""
from __future__ import annotations

import ast
import importlib.util
import os
import re
import types
import unittest
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"  # for the sharding tests; jax reads it at startup

import jax
import pytest

for package in ("absl", "sklearn"):
    pytest.importorskip(package)
contrib: Any = pytest.importorskip("optax.contrib")
shampoo: Any = pytest.importorskip("libshampoo.jax").shampoo

#: Arguments of ``shampoo``. update_dtype is "params", because optax expects updates to have the parameters' dtype.
SETTINGS: list[dict[str, Any]] = [
    {"learning_rate": 0.1, "update_dtype": "params"},
    {"learning_rate": 0.01, "update_dtype": "params", "grafting": "sgd"},
    {"learning_rate": 0.1, "update_dtype": "params", "preset": "shampoo_2024", "grafting": "adam"},
]
#: With reduce_on_plateau and a learning rate of 0.1, neither ``shampoo`` nor ``optax.adam`` reaches the minimum.
SLOWER = {"learning_rate": 0.01, "update_dtype": "params"}
WRAPPED = [
    {"opt_kwargs": SETTINGS[0], "wrapper_name": "mechanize", "wrapper_kwargs": {"weight_decay": 0.0}},
    {"opt_kwargs": SETTINGS[0], "wrapper_name": "schedule_free", "wrapper_kwargs": {"learning_rate": 0.1}},
    {"opt_kwargs": SLOWER, "wrapper_name": "reduce_on_plateau", "wrapper_kwargs": {}},
]


def load(name: str, **replaced: Any) -> types.ModuleType:
    """Import the test module ``name``, and set the variables in ``replaced`` before its first class is defined."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        pytest.skip(f"{name} is not installed")
    with open(spec.origin, encoding="utf-8") as file:
        body = ast.parse(file.read()).body
    first = next(number for number, node in enumerate(body) if isinstance(node, ast.ClassDef))
    module = types.ModuleType(f"{name}_with_shampoo")
    exec(compile(ast.Module(body[:first], []), spec.origin, "exec"), module.__dict__)
    for name, value in replaced.items():
        assert hasattr(module, name), f"{spec.origin} has no {name}"
        setattr(module, name, value)
    exec(compile(ast.Module(body[first:], []), spec.origin, "exec"), module.__dict__)
    return module


def run(cases: type[unittest.TestCase], left_out: str = "nothing") -> tuple[dict[str, str], int]:
    """Run the tests of a class, except those whose name contains ``left_out``.

    Return the outcomes of the tests that were not skipped, and the number of skipped tests. The outcome of a test is
    the text of its failures, or "" if it passed.
    """
    loaded = unittest.defaultTestLoader.loadTestsFromTestCase(cases)
    suite = unittest.TestSuite(test for test in loaded if left_out not in test.id())
    outcomes = {test.id(): "" for test in suite}
    result = unittest.TestResult()
    suite.run(result)
    for test, text in [*result.failures, *result.errors]:
        outcomes[getattr(test, "test_case", test).id()] += text  # a failed subtest is a failure of its test
    for test, _ in result.skipped:
        outcomes.pop(getattr(test, "test_case", test).id(), None)
    return outcomes, len(result.skipped)


def check(cases: type[unittest.TestCase], passed: int, skipped: int, expected: dict[str, tuple[int, str]],
          left_out: str = "nothing") -> None:  # fmt: skip
    """Run the tests of a class. Check how many pass and how many are skipped, and check which tests fail.

    ``expected`` maps a regular expression to the number of failed tests whose names match, and to a string that each
    of these failures contains. No other test may fail.
    """
    outcomes, found_skipped = run(cases, left_out)
    failed = {name: text for name, text in outcomes.items() if text}
    print(f"{cases.__name__}: {len(outcomes) - len(failed)} passed, {len(failed)} failed, {found_skipped} skipped")
    for words, (count, reason) in expected.items():
        texts = [failed.pop(name) for name in list(failed) if re.search(words, name)]
        assert len(texts) == count, words
        assert all(reason in text for text in texts), words
    assert not failed, "\n".join(f"{name}\n{text[-2000:]}" for name, text in failed.items())
    assert (len(outcomes) - sum(count for count, _ in expected.values()), found_skipped) == (passed, skipped)


def test_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that only tests with complex parameters fail. test_explicit_dtype is left out."""
    optimizers = [{"opt_name": "shampoo", "opt_kwargs": setting} for setting in SETTINGS]
    module = load("optax._src.alias_test", _OPTIMIZERS_UNDER_TEST=optimizers)
    monkeypatch.setattr(module.alias, "shampoo", shampoo, raising=False)
    expected = {"complex": (4 * len(SETTINGS), "expected float32, float64, float16 or bfloat16")}
    check(module.AliasTest, 36, 0, expected, left_out="test_explicit_dtype")


def test_contrib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that only one test fails: the test of extra arguments with reduce_on_plateau.

    reduce_on_plateau needs the loss. The test of optax passes the loss only if the optimizer is sgd or momo.
    """
    alone = {"wrapper_name": None, "wrapper_kwargs": None}
    main = [{"opt_kwargs": setting, **alone} for setting in SETTINGS] + WRAPPED
    main = [{"opt_name": "shampoo", **case} for case in main]
    module = load(
        "optax.contrib._common_test", _MAIN_OPTIMIZERS_UNDER_TEST=tuple(main), _ALL_OPTIMIZERS_UNDER_TEST=tuple(main)
    )
    monkeypatch.setattr(contrib, "shampoo", shampoo, raising=False)
    reason = "missing 1 required keyword-only argument: 'value'"
    expected = {r"accept_extra_args.*'reduce_on_plateau'.*wrap=True": (1, reason)}
    check(module.ContribTest, 88, 7, expected)


def test_sharding(monkeypatch: pytest.MonkeyPatch) -> None:
    assert jax.device_count() == 8
    optimizers = {f"shampoo{number}": shampoo(**setting) for number, setting in enumerate(SETTINGS)}
    module = load("optax._src.sharding_test", OPTIMIZERS=optimizers)
    monkeypatch.setattr(jax, "__version__", "9")  # the tests compare versions as strings, and "0.10" < "0.7"
    check(module.ShardingTest, 9, 0, {}, left_out="test_microbatch")
