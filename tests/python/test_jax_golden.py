# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that recorded trajectories (sequences of steps) give bit-identical results in compiled JAX code and in C."""
from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded import keys_of

from tools import TRAJECTORIES as CASES
from tools import from_environment, read_safetensors

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
import libshampoo.jax  # noqa: E402


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replay all trajectories in C. Return the folder with the parameters after each step."""
    folder = tmp_path_factory.mktemp("replay")
    tool = from_environment("SHAMPOO_REPLAY")
    subprocess.run([tool, "--threads", "2", "--out", folder, *CASES], check=True, stdout=subprocess.DEVNULL)
    return folder


class Group:
    """A parameter group with a compiled transformation of its own. Each step donates the state."""

    def __init__(self, group: dict[str, Any], data: dict[str, np.ndarray]) -> None:
        keys = keys_of(group)
        self.names = [str(p) for p in group["params"]]
        self.tx = libshampoo.jax.shampoo(keys.pop("lr"), threads=2, **keys)
        self.params = {name: jax.numpy.asarray(data[f"init/{name}"]) for name in self.names}
        self.state = self.tx.init(self.params)
        self.update = jax.jit(self.tx.update, donate_argnums=1)

    def step(self, grads: Any) -> None:
        updates, self.state = self.update(grads, self.state, self.params)
        # This is the formula of optax.apply_updates.
        self.params = jax.tree.map(lambda p, u: (p + u).astype(p.dtype), self.params, updates)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_trajectory_is_bit_identical_to_c(path: Path, in_c: Path) -> None:
    expected, _ = read_safetensors(in_c / path.name)
    data, case = read_safetensors(path)
    groups = [Group(group, data) for group in case["groups"]]
    for t in range(1, int(case["steps"]) + 1):
        for number, group in enumerate(groups):
            if case["lr_schedule"] is not None:
                rate = np.float64(case["lr_schedule"][t - 1][number])
                group.state = group.state._replace(learning_rate=jax.numpy.asarray(rate))
            group.step({name: data.get(f"grad/{t}/{name}") for name in group.names})
            for name, value in group.params.items():
                found, wanted = np.asarray(value), expected.pop(f"param/{t}/{name}")
                assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
                assert found.tobytes() == wanted.tobytes(), f"step {t}: parameter {name} differs"
    assert not expected
