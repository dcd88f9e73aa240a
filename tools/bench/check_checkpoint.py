#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that the numbers of shampoo_checkpoint_bench are consistent, and that it removes its files. Ignores times.

    check_checkpoint.py PROGRAM
"""
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

DIM, MIB, RUNS = 64, 2, 3
NUMBERS = ("dd_write_mb_s", "save_mb_s", "dd_read_mb_s", "load_mb_s")


def require(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"check_checkpoint: {text}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        disk, report = os.path.join(folder, "disk"), os.path.join(folder, "report.json")
        os.mkdir(disk)
        result = subprocess.run([sys.argv[1], "--dir", disk, "--json", report, "--dim", str(DIM), "--mib", str(MIB),
                                 "--runs", str(RUNS)], stdout=subprocess.PIPE, universal_newlines=True, check=True)
        require(not os.listdir(disk), f"it left {os.listdir(disk)}")
        with open(report, encoding="utf-8") as file:
            written = json.load(file)
    # 20 bytes for each element of the matrices that fit, without headers and the d / 2 diagonals of triangles.
    least = MIB * 2**20 // (20 * DIM * DIM) * 20 * DIM * DIM
    require(least < written["bytes"] < 1.2 * least,
            f"{written['bytes']} bytes in files, expected slightly more than {least}")
    require(len(written["runs"]) == RUNS, f"{len(written['runs'])} runs, expected {RUNS}")
    for run in written["runs"]:
        require(all(math.isfinite(run[name]) and run[name] > 0 for name in NUMBERS), f"a run has no rate: {run}")
    median = written["median"]
    for name in NUMBERS:
        expected = statistics.median(run[name] for run in written["runs"])
        require(math.isclose(median[name], expected), f"the median of {name} is {median[name]}, expected {expected}")
    for run in written["runs"] + [median]:
        require(math.isclose(run["write_ratio"], run["save_mb_s"] / run["dd_write_mb_s"]), f"write_ratio of {run}")
        require(math.isclose(run["read_ratio"], run["load_mb_s"] / run["dd_read_mb_s"]), f"read_ratio of {run}")
    last = result.stdout.splitlines()[-1].split()
    require(last[0] == "median" and float(last[1]) == float(f"{median['dd_write_mb_s']:.0f}"),
            f"the last line is {last}")
    bad = subprocess.run([sys.argv[1], "--dir", "/nowhere/at/all"], stderr=subprocess.PIPE, check=False)
    require(bad.returncode != 0, "a directory that is not there passes")


if __name__ == "__main__":
    main()
