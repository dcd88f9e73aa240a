# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Replays recorded trajectories with the Python package, as the program shampoo_replay does with the C API."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from recorded import keys_of

import libshampoo
from tools import read_safetensors


class Replay:
    """Replays a recorded trajectory. Call step() once for each step."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.data, self.case = read_safetensors(path)
        self.params = [self.data[f"init/{p}"].copy() for p in range(len(self.case["shapes"]))]
        groups = [
            {"params": [(f"p{p}", self.params[p]) for p in group["params"]], **keys_of(group)}
            for group in self.case["groups"]
        ]
        self.opt = libshampoo.Optimizer(groups, **options)
        self.steps = int(self.case["steps"])

    def step(self, t: int) -> dict[str, np.ndarray]:
        """Make step t, counted from 1, and return a dict that maps names in recorded files to the new parameters."""
        if self.case["lr_schedule"] is not None:
            for group, lr in zip(self.opt.param_groups, self.case["lr_schedule"][t - 1]):
                group["lr"] = lr
        names = [f"grad/{t}/{p}" for p in range(len(self.params))]
        self.opt.step({f"p{p}": self.data.get(name) for p, name in enumerate(names)})
        return {f"param/{t}/{p}": param.copy() for p, param in enumerate(self.params)}
