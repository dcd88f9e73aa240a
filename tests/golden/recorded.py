# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Reads recorded cases from their files and maps their groups to keys of the library."""
from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any, NamedTuple

# Maps fields of a recorded group to the keys that they set. A field that is not listed has the name of its key.
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
    """Return the keys of the library, with Python values, for an entry of "groups" in a case."""
    if "keys" in group:
        recorded = {key: value for key, value in group["keys"].items() if key != "ignored_dims"}
        if recorded.get("kl_cap") == "inf":
            recorded["kl_cap"] = 0
        return recorded
    keys: dict[str, Any] = {"preset": "shampoo_2024"}
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


class Tensor(NamedTuple):
    """The dtype, the shape and the bytes of a tensor in a file."""

    dtype: str
    shape: list[int]
    data: bytes


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the case of a file. In a file with results, such as those of shampoo_replay, the case is
    empty.
    """
    text = path.read_bytes()
    (length,) = struct.unpack_from("<Q", text)
    head = json.loads(text[8 : 8 + length])
    case = json.loads(head.pop("__metadata__", {}).get("case", "{}"))
    body = text[8 + length :]
    tensors = {}
    for name, entry in head.items():
        first, last = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], entry["shape"], body[first:last])
    return tensors, case
