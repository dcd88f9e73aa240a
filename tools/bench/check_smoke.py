#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs shampoo_bench on the CPU and checks its output, for example flops, bytes and fractions of machine limits.

    check_smoke.py PROGRAM --tables docs/measure/bench_table.py

The default mode and --grid measure tiny shapes. For the default mode, the script computes the expected flops and bytes.
check_device.py checks --device and --period.
"""
import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

SHAPES = ((64, 48), (5, 9, 40), (100,))
BLOCK = 40
FREQUENCIES = (1, 10, 50)
PHASES = ("check", "factor_update", "roots", "preconditioning", "elementwise")
DTYPE_BYTES = {"f32": 4, "bf16": 2}
ROW_NUMBERS = ("threads", "block", "tensors", "parameters", "blocks", "state_bytes", "workspace_bytes",
               "bytes_per_parameter", "ordinary_ms", "ordinary_runs", "with_roots_ms", "with_roots_runs", "gflops",
               "fraction_of_peak", "fraction_of_limit")


def blocks_of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the shapes of the blocks of a parameter. Even 5 * 9 in (5, 9, 40) exceeds BLOCK, so no dims are merged."""
    chunks = [[min(BLOCK, d - first) for first in range(0, d, BLOCK)] for d in shape]
    return list(itertools.product(*chunks))


def expected_work(state_dtype: str) -> dict[str, dict[str, int]]:
    """Return the work of a step by the formulas of work.h. Two states, E and V, have the shape of the parameter."""
    state = DTYPE_BYTES[state_dtype]
    work = {phase: {"flops": 0, "bytes": 0} for phase in PHASES}
    for shape in SHAPES:
        for block in blocks_of(shape):
            n = 1
            for d in block:
                n *= d
            work["check"]["bytes"] += 4 * n
            work["elementwise"]["flops"] += 20 * n
            work["elementwise"]["bytes"] += 12 * n + 2 * 2 * state * n
            if len(block) == 1:  # vectors have no factor matrices
                continue
            work["factor_update"]["flops"] += n * sum(block)
            work["factor_update"]["bytes"] += 4 * n + state * sum(d * (d + 1) for d in block)
            work["roots"]["flops"] += sum(d**3 * (8.0 / 3 if d >= 8 else 10) for d in block)
            work["preconditioning"]["flops"] += 2 * n * sum(block)
            work["preconditioning"]["bytes"] += 8 * n + state * sum(d * d for d in block)
    return work


def require(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"check_smoke: {text}")


def require_fraction(value: float, text: str) -> None:
    require(0 < value < 1.5, f"{text} is {value}; expected a number between 0 and 1.5")


def check_row(row: dict) -> None:
    where = f"row {row['threads']} threads {row['state_dtype']}"
    for name in ROW_NUMBERS:
        require(isinstance(row[name], (int, float)) and row[name] > 0,
                f"{where}: {name} is {row[name]}; expected a number above 0")
    require(row["tensors"] == len(SHAPES) and row["block"] == BLOCK, f"{where}: wrong tensors or block")
    require(row["blocks"] == sum(len(blocks_of(shape)) for shape in SHAPES), f"{where}: {row['blocks']} blocks")
    require(row["parameters"] == 64 * 48 + 5 * 9 * 40 + 100, f"{where}: {row['parameters']} parameters")
    work, expected = row["work"], expected_work(row["state_dtype"])
    for phase in PHASES:
        for what in ("flops", "bytes"):
            # The numbers in the JSON file are rounded.
            require(abs(work[phase][what] - expected[phase][what]) <= 1e-9 * expected[phase][what],
                    f"{where}: work is {work}, not {expected}")
    require(row["keys"] == {"momentum_dtype": "f32"} and row["root_retried"] == 0,
            f"{where}: wrong keys or root_retried")
    require(row["ordinary_runs"] >= 2 and row["with_roots_runs"] >= 2, f"{where}: too few runs")
    for frequency in FREQUENCIES:
        mean = row["ordinary_ms"] + (row["with_roots_ms"] - row["ordinary_ms"]) / frequency
        require(abs(row["mean_ms"][str(frequency)] - mean) < 1e-6 * mean, f"{where}: wrong mean_ms at {frequency}")
    require_fraction(row["fraction_of_peak"], f"{where}: fraction_of_peak")
    require_fraction(row["fraction_of_limit"], f"{where}: fraction_of_limit")
    require(row["phases"] is None or sorted(row["phases"]) == sorted(PHASES), f"{where}: wrong phases")
    for name, phase in (row["phases"] or {}).items():
        if phase is not None:  # None if the phase was too short for the clock
            require(phase["thread_ms"] > 0 and phase["bound_by"] in ("flops", "bytes"), f"{where}: wrong phase {name}")
            # The limit for bytes is the rate of the second-level cache. The data of these shapes fits into the
            # first-level cache, which may be far faster, so the fraction may be far above 1.
            if phase["bound_by"] == "flops":
                require_fraction(phase["fraction_of_limit"], f"{where}: fraction_of_limit of {name}")
            else:
                require(phase["fraction_of_limit"] > 0, f"{where}: fraction_of_limit of {name} is not positive")


def check_machines(report: dict, threads: list[int]) -> None:
    require(report["build_info"]["blas"]["kernel"] != "", "no kernel in build_info")
    require([machine["threads"] for machine in report["machines"]] == threads, "wrong numbers of threads in machines")
    for machine in report["machines"]:
        for name in ("gflops", "memory_gb_per_s", "cache_gb_per_s"):
            require(machine[name] > 0, f"{name} is {machine[name]}; expected a number above 0")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--tables", required=True)
    options = parser.parse_args()
    shapes = ",".join("x".join(map(str, shape)) for shape in SHAPES)
    with tempfile.TemporaryDirectory() as folder:

        def run(name: str, *arguments: str) -> tuple[dict, str]:
            path = os.path.join(folder, name)
            command = [options.program, "--json", path, "--min-runs", "2", *arguments]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            table = subprocess.run([sys.executable, options.tables, path], check=True, stdout=subprocess.PIPE, text=True)
            require("|---" in table.stdout, f"no table was made of {name}")
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

        report, text = run("rows.json", "--shapes", shapes, "--block", str(BLOCK), "--threads", "1,2", "--state-dtype",
                           "f32,bf16", "--set", "momentum_dtype=f32")
        check_machines(report, [1, 2])
        require(len(report["rows"]) == 4 and report["simulation"] == [], "wrong number of rows")
        for row in report["rows"]:
            check_row(row)
        require("mean@50" in text, "the printed table has no head")

        table = subprocess.run([options.program, "--roots", "--min-runs", "1"], check=True, stdout=subprocess.PIPE,
                               text=True).stdout
        sizes = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
        require(sizes == ["n", "32", "64", "96", "128", "192", "256", "384", "512"], f"wrong sizes of roots: {sizes}")

        table = subprocess.run([options.program, "--orthogonalize", "--min-runs", "1"], check=True,
                               stdout=subprocess.PIPE, text=True).stdout
        shares = [float(line.split("|")[4].strip(" %")) for line in table.splitlines() if line.endswith("% |") and "x" in line.split("|")[1]]
        require(len(shares) == 8 and min(shares) > 0, f"wrong rates of the Newton-Schulz iteration: {shares}")

        chart, svg = os.path.join(folder, "chart.json"), os.path.join(folder, "chart.svg")
        report, text = run("grid.json", "--grid", "--shapes", shapes, "--block", "20,40", "--threads", "1",
                           "--chart", chart)
        script = os.path.join(os.path.dirname(__file__), "draw_chart.py")
        subprocess.run([sys.executable, script, chart, svg], check=True)
        require([row["block"] for row in report["rows"]] == [20, 40], "wrong blocks in the grid")
        require("bytes/parameter" in text, "the printed grid has no head")
        curves = list(xml.etree.ElementTree.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}polyline"))
        require(len(curves) == len(FREQUENCIES) + 1 + 3, f"wrong number of curves in the plot: {len(curves)}")

        report, _ = run("simulation.json", "--simulate", "--case", "tiny_vectors", "--block", "8")
        check_machines(report, [1])
        require(len(report["simulation"]) == 1, "wrong number of simulations")
        for simulation in report["simulation"]:
            require(simulation["blocks"] == 1000 and simulation["distinct_shapes"] == 8, "wrong simulated blocks")
            for point in simulation["efficiency"]:
                for kind in ("ordinary", "with_roots"):
                    require(0 < point[kind] < 1.0001,
                            f"efficiency on {point['threads']} threads is {point[kind]}; expected (0, 1]")


if __name__ == "__main__":
    main()
