#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Measures the error of shampoo_matrix_inverse_root at several condition numbers. Prints a Markdown table.

    /usr/bin/python3 docs/measure/root_accuracy.py --library build/release/capi/libshampoo.so --svg accuracy.svg

The script rounds random symmetric matrices to float32 or float64. The library computes the inverse 4th roots of the
rounded matrices. The eigenvectors are random. The eigenvalues are evenly spaced on a logarithmic scale, from
1 / condition to 1. epsilon is 1e-3 / condition. The method higher_order multiplies epsilon by its bound on the largest
eigenvalue. The error of a root X is max |X - Y| / max |Y|. Y is the exact inverse 4th root of A + epsilon I, where A is
the rounded matrix and I is the identity. The script computes Y in long double from eigenvalues and eigenvectors with 50
digits. In float32, rounding can make the smallest eigenvalue negative if the condition is above about 1e7. The script
then subtracts the smallest eigenvalue from all eigenvalues before it adds epsilon, as method eigen does.
Needs NumPy and mpmath (Debian: python3-numpy, python3-mpmath). Takes about 5 s for each matrix.
"""
import argparse
import concurrent.futures
import ctypes
import functools
import itertools
import pathlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

import mpmath
import numpy as np

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import plot  # noqa: E402

ROOT = 4
E_NUMERIC = 5  # SHAMPOO_E_NUMERIC
METHODS = ("eigen", "newton", "higher_order")
DTYPES = {"f32": 1, "f64": 2}
NUMPY = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
ROUNDOFF = {"f32": 2.0**-24, "f64": 2.0**-53}
LEAST_SHIFT = 1e-16  # the method higher_order adds at least this number to the diagonal


class RootInfo(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("method", ctypes.c_int32), ("iterations", ctypes.c_int32),
                ("converged", ctypes.c_int32), ("retried", ctypes.c_int32), ("residual", ctypes.c_double)]


class NoRoot(Exception):
    pass


class Measurement(NamedTuple):
    error: float
    mark: str  # contains "r" if the recovery ladder computed the root, and "u" if the iteration did not converge


class Task(NamedTuple):
    library: str
    n: int
    dtype: str
    condition: float
    seed: int
    settings: tuple[str, ...]


@functools.cache
def load(path: str) -> ctypes.CDLL:
    library = ctypes.CDLL(path)
    library.shampoo_last_error.restype = ctypes.c_char_p
    library.shampoo_config_create.argtypes = [ctypes.c_void_p]
    library.shampoo_config_destroy.argtypes = [ctypes.c_void_p]
    library.shampoo_config_destroy.restype = None
    library.shampoo_config_set_str.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
    library.shampoo_matrix_inverse_root.argtypes = [
        ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32,
        ctypes.c_int32, ctypes.c_void_p]
    return library


def check(library: ctypes.CDLL, status: int) -> None:
    if status == E_NUMERIC:
        raise NoRoot
    if status != 0:
        raise RuntimeError(library.shampoo_last_error().decode())


def computed_root(task: Task, method: str, epsilon: float, a: np.ndarray) -> tuple[np.ndarray, RootInfo]:
    library = load(task.library)
    config = ctypes.c_void_p()
    check(library, library.shampoo_config_create(ctypes.byref(config)))
    try:
        for setting in (f"root_method={method}", f"epsilon={epsilon!r}") + task.settings:
            key, _, value = setting.partition("=")
            check(library, library.shampoo_config_set_str(config, key.encode(), value.encode()))
        x = np.empty_like(a)
        info = RootInfo(struct_size=ctypes.sizeof(RootInfo))
        check(library, library.shampoo_matrix_inverse_root(
            config, len(a), DTYPES[task.dtype], a.ctypes.data, x.ctypes.data, ROOT, 1, ctypes.byref(info)))
        return x, info
    finally:
        library.shampoo_config_destroy(config)


def make_matrix(task: Task) -> np.ndarray:
    random = np.random.default_rng([task.seed, task.n, round(100 * np.log10(task.condition))])
    q, _ = np.linalg.qr(random.standard_normal((task.n, task.n)))
    a = (q * np.geomspace(1 / task.condition, 1, task.n)) @ q.T
    return np.ascontiguousarray(((a + a.T) / 2).astype(NUMPY[task.dtype]))


def exact_eigen(a: np.ndarray) -> tuple[list, np.ndarray]:
    """Returns the eigenvalues with 50 digits, and a matrix in long double whose columns are the eigenvectors."""
    mpmath.mp.dps = 50
    values, vectors = mpmath.eigsy(mpmath.matrix(a.astype(np.float64).tolist()))
    # Each number is converted as the sum of two doubles, because mpmath cannot convert to long double.
    rows = vectors.tolist()
    high, rest = ([[part(v) for v in row] for row in rows] for part in (float, lambda v: float(v - float(v))))
    return list(values), np.array(high, np.longdouble) + np.array(rest, np.longdouble)


def shift_of(method: str, epsilon: float, a: np.ndarray) -> float:
    """Returns the number that the method adds to the diagonal."""
    if method != "higher_order":
        return epsilon
    wide = a.astype(np.float64)
    square = wide @ wide
    bound = min(np.abs(wide).sum(axis=1).max(), np.abs(square @ square).sum(axis=1).max()**0.25)
    return max(epsilon * float(bound), LEAST_SHIFT)


def exact_root(values: list, vectors: np.ndarray, shift: float) -> np.ndarray:
    least = min(min(values), mpmath.mpf(0))
    roots = [(value - least + shift)**(mpmath.mpf(-1) / ROOT) for value in values]
    scale = np.array([np.longdouble(float(r)) + np.longdouble(float(r - float(r))) for r in roots])
    return (vectors * scale) @ vectors.T


def measure(task: Task) -> dict[str, Measurement]:
    a = make_matrix(task)
    epsilon = 1e-3 / task.condition
    values, vectors = exact_eigen(a)
    measured = {}
    for method in METHODS:
        try:
            x, info = computed_root(task, method, epsilon, a)
        except NoRoot:
            measured[method] = Measurement(float("inf"), "")
            continue
        y = exact_root(values, vectors, shift_of(method, epsilon, a))
        error = float(np.abs(x.astype(np.longdouble) - y).max() / np.abs(y).max())
        measured[method] = Measurement(error, "r" * (info.retried > 0) + "u" * (info.converged == 0))
    return measured


def worst(measurements: list[Measurement]) -> Measurement:
    marks = "".join(sorted(set("".join(m.mark for m in measurements))))
    return Measurement(max(m.error for m in measurements), marks)


def cell(measurement: Measurement) -> str:
    return f"{measurement.error:.1e} {measurement.mark}".strip() if np.isfinite(measurement.error) else "fails"


def draw(conditions: list[float], results: dict[tuple[str, str, float], Measurement], note: str) -> str:
    """Returns an SVG with a panel for each dtype. Errors outside of the range of the axis are drawn at its ends."""
    errors = plot.Axis(1e-17, 10, logarithmic=True, label=plot.power)

    def points(values: Sequence[float]) -> list[tuple[float, float]]:
        return [(c, min(max(v, errors.least), errors.most)) for c, v in zip(conditions, values) if np.isfinite(v)]

    panels = [plot.Panel(
        title="float32" if dtype == "f32" else "float64", x_title="condition of the matrix",
        curves={method: points([results[dtype, method, c].error for c in conditions]) for method in METHODS},
        x=plot.Axis(min(conditions), max(conditions), logarithmic=True, label=plot.power), y=errors, dots=True,
        # First-order relative error of the root if rounding changes A by ROUNDOFF times the largest eigenvalue of A.
        reference=[(c, c * ROUNDOFF[dtype] / ROOT) for c in conditions]) for dtype in DTYPES]
    return plot.picture(panels, "Error of the inverse 4th root", [
        note, f"dashed: unit roundoff * condition / {ROOT}, the error of the root if the matrix is rounded once"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True, help="libshampoo.so")
    parser.add_argument("--n", type=int, default=64, help="size of the matrices (default: 64)")
    parser.add_argument("--matrices", type=int, default=5, help="number of matrices for each condition (default: 5)")
    parser.add_argument("--exponents", type=int, nargs="+", default=list(range(1, 15)), help="conditions: 10^exponent")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="a key of the library, such as root_tolerance=0")
    parser.add_argument("--jobs", type=int, default=1, help="number of parallel processes (default: 1)")
    parser.add_argument("--svg", help="also write a chart to this file")
    options = parser.parse_args()

    conditions = [10.0**e for e in options.exponents]
    tasks = [Task(options.library, options.n, *rest, tuple(options.set))
             for rest in itertools.product(DTYPES, conditions, range(options.matrices))]
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
        measured = dict(zip(tasks, pool.map(measure, tasks)))
    results = {
        (dtype, method, condition):
        worst([r[method] for t, r in measured.items() if t.dtype == dtype and t.condition == condition])
        for dtype, method, condition in itertools.product(DTYPES, METHODS, conditions)}

    columns = list(itertools.product(DTYPES, METHODS))
    print(f"Largest error among {options.matrices} matrices of size {options.n}. r: the recovery ladder"
          " computed some of the roots (in float64, or by eigendecomposition); u: some iterations did not converge.\n")
    print("| condition | " + " | ".join(f"{method} {dtype}" for dtype, method in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for e, condition in zip(options.exponents, conditions):
        print(f"| 1e{e} | " + " | ".join(cell(results[column + (condition,)]) for column in columns) + " |")

    if options.svg:
        note = f"largest error, max |X - exact| / max |exact|, among {options.matrices} random matrices of size {options.n}"
        pathlib.Path(options.svg).write_text(draw(conditions, results, note), encoding="utf-8")


if __name__ == "__main__":
    main()
