#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the JSON report of shampoo_checkpoint_bench, and checks that the program removes its files.

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
                                 "--runs", str(RUNS)], stdout=subprocess.PIPE, text=True, check=True)
        require(not os.listdir(disk), f"the program left files behind: {os.listdir(disk)}; expected none")
        with open(report, encoding="utf-8") as file:
            written = json.load(file)
    # Each parameter has 20 bytes of state per element. The program uses the largest number of parameters whose states
    # fit into MIB MiB. `least` leaves out headers, and counts a triangle of a symmetric matrix as half the matrix. The
    # files are slightly larger.
    least = MIB * 2**20 // (20 * DIM * DIM) * 20 * DIM * DIM
    require(least < written["bytes"] < 1.2 * least,
            f"the data files have {written['bytes']} bytes; expected slightly more than {least}")
    require(len(written["runs"]) == RUNS, f"the report has {len(written['runs'])} runs; expected {RUNS}")
    for run in written["runs"]:
        require(all(math.isfinite(run[name]) and run[name] > 0 for name in NUMBERS),
                f"a rate of this run is not a positive number: {run}")
    median = written["median"]
    for name in NUMBERS:
        expected = statistics.median(run[name] for run in written["runs"])
        require(math.isclose(median[name], expected), f"the median of {name} is {median[name]}; expected {expected}")
    for run in written["runs"] + [median]:
        require(math.isclose(run["write_ratio"], run["save_mb_s"] / run["dd_write_mb_s"]),
                f"write_ratio is not save_mb_s / dd_write_mb_s: {run}")
        require(math.isclose(run["read_ratio"], run["load_mb_s"] / run["dd_read_mb_s"]),
                f"read_ratio is not load_mb_s / dd_read_mb_s: {run}")
    last = result.stdout.splitlines()[-1].split()
    require(last[0] == "median" and float(last[1]) == float(f"{median['dd_write_mb_s']:.0f}"),
            f"the last printed line is {last}; expected the medians of the report")
    bad = subprocess.run([sys.argv[1], "--dir", "/nowhere/at/all"], stderr=subprocess.PIPE, check=False)
    require(bad.returncode != 0, "--dir names a directory that does not exist; expected the program to fail")


if __name__ == "__main__":
    main()
