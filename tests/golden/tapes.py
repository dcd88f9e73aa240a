#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Turns recorded trajectories into tapes, which a binding can replay with few lines of code.

    tapes.py --answers FOLDER --out FOLDER CASE.safetensors...

Each CASE.safetensors is a recorded trajectory. The FOLDER of --answers has the results that the program shampoo_replay
computed for these cases with libshampoo. For each case, this program writes two files. CASE.tape is a text file; a
binding executes its lines in order. One blank separates words:

    key GROUP KEY VALUE              sets a key of a group; group 0 is the group of the plan's config
    param NAME GROUP DTYPE DIM...    adds a parameter with its initial value; a scalar has no DIM; DTYPE is f32, f64,
                                     f16 or bf16
    lr GROUP VALUE                   sets the learning rate
    grad NAME                        sets the gradient of a parameter for the next step; without this line, the
                                     parameter has no gradient in that step
    step                             makes a step and removes all gradients
    expect NAME                      checks that the parameter is bit-identical to the bytes in CASE.bin

The "key" lines come first, then the "param" lines. Both are sorted by group, from 0 on. CASE.bin has the bytes of the
tensors of all lines "param", "grad" and "expect", in the order of these lines, and nothing else.
"""
from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from recorded import keys_of, read


def as_text(value: Any) -> str:
    """Return a value in the form that shampoo_config_set_str() reads."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def write_tape(path: Path, answers: Path, out: Path) -> None:
    """Write the .tape file and the .bin file of a case."""
    data, case = read(path)
    answer, _ = read(answers / path.name)
    lines: list[str] = []
    parts: list[bytes] = []

    def add(line: str, part: bytes) -> None:
        lines.append(line)
        parts.append(part)

    for number, group in enumerate(case["groups"]):
        lines += [f"key {number} {key} {as_text(value)}" for key, value in keys_of(group).items()]
    dtype = case["param_dtype"].upper()
    for number, group in enumerate(case["groups"]):
        for param in group["params"]:
            tensor = data[f"init/{param}"]
            add(" ".join(map(str, ["param", f"p{param}", number, tensor.dtype.lower(), *tensor.shape])), tensor.data)
    for step in range(1, case["steps"] + 1):
        if case["lr_schedule"] is not None:
            lines += [f"lr {number} {lr}" for number, lr in enumerate(case["lr_schedule"][step - 1])]
        for param in range(len(case["shapes"])):
            gradient = data.get(f"grad/{step}/{param}")
            if gradient is not None:
                assert gradient.dtype == dtype, path
                add(f"grad p{param}", gradient.data)
        lines.append("step")
        for param in range(len(case["shapes"])):
            add(f"expect p{param}", answer[f"param/{step}/{param}"].data)
    (out / f"{path.stem}.tape").write_text("\n".join(lines) + "\n", encoding="ascii")
    (out / f"{path.stem}.bin").write_bytes(b"".join(parts))


def main() -> None:
    """Write the tapes of all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("cases", type=Path, nargs="+")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for path in options.cases:
        write_tape(path, options.answers, options.out)


if __name__ == "__main__":
    main()
