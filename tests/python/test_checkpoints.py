# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that Python and C read each other's checkpoints, and that the package safetensors reads checkpoints, too."""
from __future__ import annotations

import json
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from replay import Replay

import libshampoo
from tools import DATA, from_environment, read_safetensors


def cases() -> list[Path]:
    found = sorted(DATA.glob("*.safetensors"))
    return [*found[::20], *[path for path in found if path.stem.startswith("bf16_")][:2]]


def write_params(path: Path, params: dict[str, np.ndarray]) -> None:
    """Write a parameter file like those that the test program shampoo_replay stores next to its checkpoints."""
    names = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
    head, body = {}, b""
    for name, value in params.items():
        first = len(body)
        body += value.tobytes()
        head[name] = {"dtype": names[str(value.dtype)], "shape": list(value.shape), "data_offsets": [first, len(body)]}
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_a_checkpoint_saved_in_c_loads_in_python(path: Path, tmp_path: Path) -> None:
    tool = from_environment("SHAMPOO_REPLAY")
    saved, out = tmp_path / "saved", tmp_path / "out"
    saved.mkdir()
    out.mkdir()
    subprocess.run([tool, "--save-every", saved, "--out", out, path], check=True, stdout=subprocess.DEVNULL)
    expected, _ = read_safetensors(out / path.name)
    for t in range(1, Replay(path).steps):
        resumed = Replay(path)
        for p, param in enumerate(resumed.params):
            param[...] = expected[f"param/{t}/{p}"]
        resumed.opt.load(saved / path.stem / str(t))
        for name, value in resumed.step(t + 1).items():
            assert value.tobytes() == expected[name].tobytes()


@pytest.mark.parametrize("path", cases(), ids=lambda path: path.stem)
def test_a_checkpoint_saved_in_python_loads_in_c(path: Path, tmp_path: Path) -> None:
    tool = from_environment("SHAMPOO_REPLAY")
    saved, out = tmp_path / "saved", tmp_path / "out"
    out.mkdir()
    replay = Replay(path)
    expected = {}
    for t in range(1, replay.steps + 1):
        params = replay.step(t)
        expected.update(params)
        if t < replay.steps:
            folder = saved / path.stem
            folder.mkdir(parents=True, exist_ok=True)
            replay.opt.save(folder / str(t))
            write_params(folder / f"{t}.safetensors", params)
    subprocess.run([tool, "--resume-from", saved, "--out", out, path], check=True, stdout=subprocess.DEVNULL)
    resumed, _ = read_safetensors(out / path.name)
    for name, value in resumed.items():
        assert value.tobytes() == expected[name].tobytes()


def test_safetensors_reads_a_checkpoint(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    w = np.ones((8, 4), np.float32)
    opt = libshampoo.Optimizer({"w": w}, grafting="adam", use_merge_dims=False)
    opt.step([np.full((8, 4), 2, np.float32)])
    opt.save(tmp_path)
    opened: dict[str, np.ndarray] = {}
    for path in tmp_path.rglob("*.safetensors"):
        opened.update(safetensors.load_file(path))
    grafting = [value for name, value in opened.items() if "grafting" in name]
    assert len(grafting) == 1 and grafting[0].tobytes() == opt.state_dict()["w/0/grafting"].tobytes()
    safetensors.save_file(opt.state_dict(), tmp_path / "state")
    opt.load_state_dict(safetensors.load_file(tmp_path / "state"))


def test_several_optimizers_are_saved_as_one_checkpoint(tmp_path: Path) -> None:
    opts = [libshampoo.Optimizer({name: np.ones(4, np.float32)}) for name in ("one", "two")]
    for opt in opts:
        opt.step([np.ones(4, np.float32)])
    libshampoo.save(opts, tmp_path)
    fresh = [libshampoo.Optimizer({name: np.ones(4, np.float32)}) for name in ("one", "two")]
    libshampoo.load(fresh, tmp_path)
    assert all(opt.state_dict()["group.0/step"] == 1 for opt in fresh)
    with pytest.raises(ValueError):
        opts[0].load(tmp_path)
