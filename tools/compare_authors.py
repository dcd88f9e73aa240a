#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares SOAP, KL-Shampoo, Muon and NorMuon of libshampoo with code that their authors or PyTorch published.

libshampoo and the published code get the same float32 parameters and gradients, and use the same number of threads.
The script prints the difference between the parameters of libshampoo and those of the published code after one interval
of 10 steps. With SOAP and KL-Shampoo, precondition_frequency is also 10. Rounding errors alone cause some difference;
in SOAP and KL-Shampoo, eigenvectors with close eigenvalues amplify these errors. Therefore the script also prints the
difference between two runs of the published code. One of these runs gets gradients that are changed by at most one
rounding error of float32. Both differences are relative to the change of the parameters in these steps. Finally, the
script prints the time of a step: the mean over the steps of the fastest interval. The first interval does not count. In
each interval, all optimizers run one after another.

Requires NumPy, PyTorch, libshampoo's Python package, and copies of the authors' code:

    git clone https://github.com/nikhilvyas/SOAP
    git clone https://github.com/yorkerlin/KL-Methods
    git clone https://github.com/zichongli5/NorMuon
    python3 tools/compare_authors.py --soap SOAP/soap.py --kl KL-Methods/optim/kl_opt.py \\
        --muon --normuon NorMuon/normuon.py

The published code of Muon is torch.optim.Muon. The published code of KL-Shampoo, Muon and NorMuon casts to bfloat16 for
products. The script compares libshampoo with runs of this code without the casts, in float32. It also measures the
times of KL-Shampoo and Muon with the casts.
"""
from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import time
import unittest.mock
from pathlib import Path
from typing import Any

import libshampoo
import numpy as np
import torch

FREQUENCY = 10

# Keys with which libshampoo uses the update rules of the authors' SOAP and KL-Shampoo.
SOAP_RULES = {
    "method": "soap", "lr": 3e-3, "epsilon": 1e-8, "relative_epsilon": 0, "weight_decay": 0.01,
    "weight_decay_type": "decoupled_after", "basis_method": "qr", "basis_transport": "permute",
    "max_preconditioner_dim": 10000, "skip_dim_size": 10000,
}  # fmt: skip
KL_RULES = {
    "method": "kl_shampoo", "lr": 1e-4, "epsilon": 1e-8, "weight_decay": 0.01, "weight_decay_type": "decoupled_after",
    "kl_init": 0.1,
    "basis_method": "qr", "basis_sort": "none", "basis_transport": "none", "precondition_1d": True,
    "max_preconditioner_dim": 10000, "skip_dim_size": 10000,
}  # fmt: skip

# Keys with which libshampoo uses the update rules of torch.optim.Muon and of the authors' NorMuon.
MUON_RULES = {
    "method": "muon", "route": "off", "lr": 1e-3, "beta1": 0.95, "use_nesterov": True, "ns_coefficients": "jordan",
    "ns_steps": 5, "shape_scale": "muon", "weight_decay": 0.1, "weight_decay_type": "decoupled",
}  # fmt: skip
NORMUON_RULES = {**MUON_RULES, "lr": 0.02, "second_moment": "row", "beta2": 0.95, "epsilon": 1e-10}


def load_class(path: Path, name: str) -> Any:
    """Import a Python file and return one of its classes."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path}: expected a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


class Ours:
    """An optimizer of libshampoo. Its parameters are copies of `start`."""

    def __init__(self, start: list[np.ndarray], threads: int, keys: dict[str, Any]) -> None:
        self.params = [value.copy() for value in start]
        self.optimizer = libshampoo.Optimizer(self.params, threads=threads, **keys)

    def step(self, grads: list[np.ndarray]) -> None:
        self.optimizer.step(grads)

    def values(self) -> list[np.ndarray]:
        return self.params


class Theirs:
    """A published optimizer. Its steps may overwrite the gradients."""

    def __init__(self, start: list[np.ndarray], make: Any, **options: Any) -> None:
        self.params = [torch.nn.Parameter(torch.from_numpy(value.copy())) for value in start]
        with contextlib.redirect_stdout(io.StringIO()):
            self.optimizer = make(self.params, **options)

    def step(self, grads: list[np.ndarray]) -> None:
        for param, grad in zip(self.params, grads):
            param.grad = torch.from_numpy(grad)
        self.optimizer.step()

    def values(self) -> list[np.ndarray]:
        return [param.detach().numpy() for param in self.params]


class TheirsInFloat32(Theirs):
    """A published optimizer that runs in float32: its casts to bfloat16 have no effect."""

    def step(self, grads: list[np.ndarray]) -> None:
        replace = unittest.mock.patch.object
        with replace(torch.Tensor, "bfloat16", torch.Tensor.clone), replace(torch, "bfloat16", torch.float32):
            super().step(grads)


def drift(first: Any, second: Any, start: list[np.ndarray]) -> float:
    """Return the norm of `first` - `second`, divided by the norm of the change of `second` since `start`."""
    differences = [np.linalg.norm(a - b) for a, b in zip(first.values(), second.values())]
    changes = [np.linalg.norm(a - b) for a, b in zip(second.values(), start)]
    return float(np.linalg.norm(differences) / np.linalg.norm(changes))


def perturbed(grads: list[np.ndarray], random: np.random.Generator) -> list[np.ndarray]:
    """Return gradients whose elements are changed by at most one rounding error of float32."""
    signs = [random.integers(-1, 2, value.shape).astype(np.float32) for value in grads]
    return [value + value * sign * np.float32(2**-24) for value, sign in zip(grads, signs)]


def compare(
    name: str, ours: dict[str, Any], theirs: dict[str, Any], control: Any, start: list[np.ndarray], args: Any
) -> None:
    """Print the results of one method. The first of `ours` must use the update rules of the first of `theirs`.

    `control` is a second optimizer with the code and options of the first of `theirs`. It gets perturbed gradients.
    """
    random = np.random.default_rng(1)
    rows = {**{f"libshampoo, {key}": value for key, value in ours.items()}, **theirs}
    seconds: dict[str, list[float]] = {key: [] for key in rows}
    names = list(rows)
    first_theirs = next(iter(theirs))
    for interval in range(args.intervals):
        grads = [
            [random.standard_normal(value.shape, dtype=np.float32) * np.float32(0.01) for value in start]
            for _ in range(FREQUENCY)
        ]
        for key, optimizer in rows.items():
            own = [[value.copy() for value in grad] for grad in grads]
            began = time.perf_counter()
            for grad in own:
                optimizer.step(grad)
            seconds[key].append((time.perf_counter() - began) / FREQUENCY)
        if interval == 0:
            for grad in grads:
                control.step(perturbed(grad, random))
            print(f"{name}: after {FREQUENCY} steps, the parameters of libshampoo and of the published code differ by "
                  f"{drift(rows[names[0]], rows[first_theirs], start):.1e} of their change; two runs of the published "
                  f"code, one with perturbed gradients, differ by {drift(control, rows[first_theirs], start):.1e}",
                  flush=True)  # fmt: skip
    print("| row | ms per step | float32 time of the published code / time of this row |\n|---|---|---|")
    # The first interval does not count, because it also initializes states and compiles the authors' code.
    best = {key: min(times[1:]) for key, times in seconds.items()}
    for key in rows:
        print(f"| {key} | {1e3 * best[key]:.1f} | {best[first_theirs] / best[key]:.2f} |", flush=True)


def compare_muon(
    name: str, source: str, make: Any, rules: dict[str, Any], defaults: dict[str, Any], start: list[np.ndarray], args: Any
) -> None:
    """Print the results of Muon or NorMuon. `make` creates the published optimizer, and `source` is its name."""
    options = {"lr": rules["lr"], "weight_decay": rules["weight_decay"]}
    ours = {
        "the same rules": Ours(start, args.threads, rules),
        "its defaults": Ours(start, args.threads, defaults | {"route": "off"}),
    }
    theirs: dict[str, Theirs] = {f"{source}, float32": TheirsInFloat32(start, make, **options)}
    if make is torch.optim.Muon:  # with its casts, the authors' NorMuon does not accept float32 parameters
        theirs[f"{source}, bfloat16"] = Theirs(start, make, **options)
    compare(name, ours, theirs, TheirsInFloat32(start, make, **options), start, args)


def main() -> None:
    """Parse arguments and print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--soap", type=Path, help="soap.py of nikhilvyas/SOAP")
    parser.add_argument("--kl", type=Path, help="optim/kl_opt.py of yorkerlin/KL-Methods")
    parser.add_argument("--muon", action="store_true", help="compare Muon with torch.optim.Muon")
    parser.add_argument("--normuon", type=Path, help="normuon.py of zichongli5/NorMuon")
    parser.add_argument("--shapes", default="512x512*24", help="shapes of the parameters, such as 512x512*8,2048x512")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--intervals", type=int, default=4, help=f"number of intervals of {FREQUENCY} steps, at least 2")
    args = parser.parse_args()
    if args.soap is None and args.kl is None and not args.muon and args.normuon is None:
        parser.error("expected --soap, --kl, --muon or --normuon; see the top of this file")
    torch.set_num_threads(args.threads)
    random = np.random.default_rng(0)
    start = []
    for text in args.shapes.split(","):
        shape, _, count = text.partition("*")
        for _ in range(int(count or 1)):
            # Parameters are small. Otherwise their rounding after an update would hide differences between updates.
            start.append(random.standard_normal([int(d) for d in shape.split("x")], dtype=np.float32) * np.float32(0.01))
    total = sum(value.size for value in start)
    print(f"{len(start)} parameters, {total / 1e6:.2f} M elements, {args.threads} threads, PyTorch {torch.__version__}, "
          f"libshampoo {libshampoo.__version__}", flush=True)
    frequency = {"precondition_frequency": FREQUENCY}
    if args.soap is not None:
        soap = load_class(args.soap, "SOAP")
        ours = {
            "the authors' rules": Ours(start, args.threads, SOAP_RULES | frequency),
            "its defaults": Ours(start, args.threads, {"preset": "soap", "weight_decay": 0.01} | frequency),
        }
        theirs = {"SOAP of the authors": Theirs(start, soap, **frequency)}
        compare("SOAP", ours, theirs, Theirs(start, soap, **frequency), start, args)
    if args.kl is not None:
        kl = load_class(args.kl, "KLOpt")
        ours = {
            "the authors' rules": Ours(start, args.threads, KL_RULES | frequency),
            "its defaults": Ours(start, args.threads, {"preset": "kl_shampoo", "weight_decay": 0.01} | frequency),
        }
        theirs = {
            "KL-Shampoo of the authors, float32": Theirs(start, kl, cast_dtype=torch.float32, **frequency),
            "KL-Shampoo of the authors, bfloat16": Theirs(start, kl, **frequency),
        }
        control = Theirs(start, kl, cast_dtype=torch.float32, **frequency)
        compare("KL-Shampoo", ours, theirs, control, start, args)
    if args.muon:
        compare_muon("Muon", "torch.optim.Muon", torch.optim.Muon, MUON_RULES, {"preset": "muon"}, start, args)
    if args.normuon is not None:
        normuon = load_class(args.normuon, "SingleDeviceNorMuon")
        options = {"preset": "normuon"}
        compare_muon("NorMuon", "NorMuon of the authors", normuon, NORMUON_RULES, options, start, args)


if __name__ == "__main__":
    main()
