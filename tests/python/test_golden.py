# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that recorded trajectories give bit-identical results in Python and in C."""
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from replay import Replay

from tools import TRAJECTORIES as CASES
from tools import from_environment, read_safetensors


@pytest.fixture(scope="module")
def in_c(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replay all trajectories in C. Return the folder with the parameters after each step."""
    folder = tmp_path_factory.mktemp("replay")
    tool = from_environment("SHAMPOO_REPLAY")
    subprocess.run([tool, "--threads", "2", "--out", folder, *CASES], check=True, stdout=subprocess.DEVNULL)
    return folder


def test_all_recorded_cases_are_found() -> None:
    assert len(CASES) == 217


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_trajectory_is_bit_identical_to_c(path: Path, in_c: Path) -> None:
    expected, _ = read_safetensors(in_c / path.name)
    replay = Replay(path, threads=2)
    for t in range(1, replay.steps + 1):
        for name, value in replay.step(t).items():
            assert value.shape == expected[name].shape
            assert value.tobytes() == expected.pop(name).tobytes(), f"{name} differs"
    assert not expected
