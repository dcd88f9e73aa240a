#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Writes the cases of data/rules: trajectories of the NumPy model of the update rules (model.py), with tolerances.

    make_cases.py FOLDER           writes all cases
    make_cases.py --check FOLDER   computes all cases again and compares them with the files

The recorded results are computed in float64. To measure the effect of rounding, eight other runs compute in the dtype
of the parameters. In these runs, each input is perturbed by up to twice the machine epsilon times its value. Before the
root of a factor matrix is computed, the matrix is perturbed by up to a bound on the backward error of an eigensolver.
The atol of a case is the larger of two numbers:

- four times the largest difference between a result of these runs and the recorded result;
- 1e-12 (f64) or 1e-6 (f32) times the largest distance of a parameter from its initial value.
"""
from __future__ import annotations

import argparse
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
from cases import Case, cases
from model import Group

REAL = {"f64": np.float64, "f32": np.float32}
ROUNDED = 8  # number of runs that measure the effect of rounding
SHARP = 1e-3  # upper limit of atol, relative to the largest change of a parameter
# Least tolerance of --check, relative to the largest element of a tensor. Results differ if NumPy uses another BLAS.
SAME = 1e-12
# Least allowed value of |log(error / root_tolerance)| in a coupled iteration (roots.py). For smaller values, rounding
# could decide when the iteration stops.
MARGIN = {"f64": 1e-4, "f32": 0.05}


class Exact:
    """A run in float64, without perturbations."""

    real: type = np.float64

    def of_input(self, x: np.ndarray) -> np.ndarray:
        return x

    def of_factor(self, a: np.ndarray) -> np.ndarray:
        return a


class Rounded(Exact):
    """A run in the dtype of the case. Its inputs and factor matrices are perturbed, to imitate rounding errors."""

    def __init__(self, case: Case, number: int) -> None:
        self.real, self.eps = REAL[case.dtype], float(np.finfo(REAL[case.dtype]).eps)
        self.numbers = np.random.RandomState([number, *case.name.encode()])

    def of_input(self, x: np.ndarray) -> np.ndarray:
        return x * (1 + self.eps * self.numbers.uniform(-2, 2, x.shape))

    def of_factor(self, a: np.ndarray) -> np.ndarray:
        # Imitates the backward error of an eigensolver in this dtype, because NumPy's eigensolver computes in float64.
        moved = np.tril(self.numbers.uniform(-1, 1, a.shape))
        return a + (len(a) * self.eps * abs(a).max() * (moved + np.tril(moved, -1).T)).astype(a.dtype)


def run(case: Case, how: Exact) -> tuple[dict[str, np.ndarray], float]:
    """Return the parameters after each step, and the smallest margin of all coupled iterations (see MARGIN)."""
    weights = {p: np.array(how.of_input(x), how.real) for p, x in enumerate(case.init)}
    groups = [Group(keys, {p: weights[p] for p in members}, case.steps, how.of_factor) for members, keys in case.groups]
    found = {}
    for t, of_step in enumerate(case.gradients, 1):
        gradients = {p: np.array(how.of_input(g), how.real) for p, g in of_step.items()}
        for number, group in enumerate(groups):
            if case.lr_schedule is not None:
                group.lr = case.lr_schedule[t - 1][number]
            group.step({p: g for p, g in gradients.items() if p in case.groups[number][0]})
        found.update({f"param/{t}/{p}": w.astype(np.float64) for p, w in weights.items()})
    return found, min((m for group in groups for m in group.margins), default=math.inf)


def tolerance(case: Case, exact: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the tolerance of a case, computed from the measured effect of rounding."""
    runs = [run(case, Rounded(case, number))[0] for number in range(ROUNDED)]
    noise = max(float(abs(other[name] - x).max(initial=0)) for other in runs for name, x in exact.items())
    change = max(float(abs(x - case.init[int(name.split("/")[2])]).max(initial=0)) for name, x in exact.items())
    atol = max(4 * noise, (1e-12 if case.dtype == "f64" else 1e-6) * change)
    if atol > SHARP * change:
        raise SystemExit(f"{case.name}: atol is {atol / change:.1e} of the largest change: expected at most {SHARP}")
    return {"rtol": 8 * float(np.finfo(REAL[case.dtype]).eps), "atol": atol}


def tensors_and_settings(case: Case) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the input tensors and the settings of a case, without results and tolerance."""
    tensors = {f"init/{p}": x.astype(REAL[case.dtype]) for p, x in enumerate(case.init)}
    for t, of_step in enumerate(case.gradients, 1):
        tensors.update({f"grad/{t}/{p}": g.astype(REAL[case.dtype]) for p, g in of_step.items()})
    return tensors, {
        "format": 1,
        "suite": "trajectory",
        "source": "tests/golden/rules",
        "name": case.name,
        "steps": case.steps,
        "param_dtype": case.dtype,
        "shapes": [list(x.shape) for x in case.init],
        "groups": [{"params": members, "keys": keys} for members, keys in case.groups],
        "lr_schedule": case.lr_schedule,
    }


def make(case: Case) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the tensors, including the results, and the metadata of a case."""
    exact, margin = run(case, Exact())
    if margin < MARGIN[case.dtype]:
        raise SystemExit(f"{case.name}: an error of an iteration is too close to root_tolerance ({margin:.1e})")
    tensors, settings = tensors_and_settings(case)
    return {**tensors, **exact}, {**settings, "tolerance": tolerance(case, exact)}


def store(path: Path, tensors: dict[str, np.ndarray], case: dict[str, Any]) -> None:
    head: dict[str, Any] = {"__metadata__": {"case": json.dumps(case)}}
    body = b""
    for name, x in tensors.items():
        data = np.ascontiguousarray(x).tobytes()
        dtype = "F64" if x.dtype == np.float64 else "F32"
        head[name] = {"dtype": dtype, "shape": list(x.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    head = json.loads(data[8 : 8 + length])
    case = json.loads(head.pop("__metadata__")["case"])
    tensors = {}
    for name, entry in head.items():
        first, last = entry["data_offsets"]
        dtype = np.float64 if entry["dtype"] == "F64" else np.float32
        tensors[name] = np.frombuffer(data[8 + length + first : 8 + length + last], dtype).reshape(entry["shape"])
    return tensors, case


def differences(case: Case, path: Path) -> list[str]:
    """Compute a case again, and return the differences between the case and its file."""
    if not path.exists():
        return ["no file"]
    tensors, settings = make(case)
    there, settings_there = load(path)
    found = []
    # Rounding errors depend on the BLAS, so the new atol may differ from the recorded one by a factor of up to 4.
    wanted, kept = settings.pop("tolerance"), settings_there.pop("tolerance")
    if kept["rtol"] != wanted["rtol"] or not wanted["atol"] / 4 <= kept["atol"] <= 4 * wanted["atol"]:
        found.append(f"tolerance {kept}, not {wanted}")
    if settings != settings_there or list(tensors) != list(there):
        found.append("the settings or the names of the tensors differ")
        return found
    # The results are computed in float64, so the atol of the case is scaled to the precision of float64.
    rounding = kept["atol"] * float(np.finfo(np.float64).eps / np.finfo(REAL[case.dtype]).eps)
    for name, x in tensors.items():
        allowed = max(SAME * float(abs(x).max(initial=0)), rounding) if name.startswith("param/") else 0
        if x.dtype != there[name].dtype or not (abs(x - there[name]) <= allowed).all():
            found.append(f"{name} differs")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    if not options.check:
        options.folder.mkdir(parents=True, exist_ok=True)
        for case in cases():
            store(options.folder / f"{case.name}.safetensors", *make(case))
        return 0
    failed = 0
    names = [case.name for case in cases()]
    for stray in sorted(path.stem for path in options.folder.glob("*.safetensors") if path.stem not in names):
        print(f"FAIL {stray}: no such case")
        failed += 1
    for case in cases():
        found = differences(case, options.folder / f"{case.name}.safetensors")
        failed += bool(found)
        if found:
            print(f"FAIL {case.name}:", "; ".join(found[:4]))
    print(f"{len(names)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
