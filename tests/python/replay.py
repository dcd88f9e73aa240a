# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Replays recorded trajectories through the Python package, as shampoo_replay does in C."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import shampoo
from tools import read_safetensors

# Field of a recorded group -> keys; tests/golden/case_config.cc has the reasons.
FIELDS = {
    "inv_root_override": ["inverse_root_override"],
    "grafting.type": ["grafting"],
    "grafting.beta2": ["grafting_beta2"],
    "grafting.epsilon": ["grafting_epsilon"],
    "precision.computation": ["computation_dtype", "root_dtype"],
    "precision.factor_matrix": ["factor_dtype"],
    "precision.inv_factor_matrix": ["inverse_dtype"],
    "precision.filtered_grad": ["filtered_grad_dtype"],
    "precision.momentum": ["momentum_dtype"],
    "precision.grafting_state": ["grafting_dtype"],
}


def keys_of(group: dict[str, Any]) -> dict[str, Any]:
    keys: dict[str, Any] = {"initial_inverse": "zero"}
    for field, value in group.items():
        members = {field: value}
        if isinstance(value, dict):
            members = {f"{field}.{name}": inner for name, inner in value.items()}
        for name, inner in members.items():
            if name in ("params", "preconditioner_dtype"):
                continue
            if name == "inv_root_override" and isinstance(inner, list) and len(inner) == 1:
                inner = [*inner, 0]
            for key in FIELDS.get(name, [name]):
                keys[key] = inner
    if group["preconditioner_dtype"] is not None:
        keys["factor_dtype"] = group["preconditioner_dtype"]
    return keys


class Replay:
    """One recorded case, step by step."""

    def __init__(self, path: Path, **options: Any) -> None:
        self.data, self.case = read_safetensors(path)
        self.params = [self.data[f"init/{p}"].copy() for p in range(len(self.case["shapes"]))]
        groups = [
            {"params": [(f"p{p}", self.params[p]) for p in group["params"]], **keys_of(group)}
            for group in self.case["groups"]
        ]
        self.opt = shampoo.Optimizer(groups, **options)
        self.steps = int(self.case["steps"])

    def step(self, t: int) -> dict[str, np.ndarray]:
        if self.case["lr_schedule"] is not None:
            for group, lr in zip(self.opt.param_groups, self.case["lr_schedule"][t - 1]):
                group["lr"] = lr
        names = [f"grad/{t}/{p}" for p in range(len(self.params))]
        self.opt.step({f"p{p}": self.data.get(name) for p, name in enumerate(names)})
        return {f"param/{t}/{p}": param.copy() for p, param in enumerate(self.params)}
