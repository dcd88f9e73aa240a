#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Prints the times in a report of shampoo_root_bench as a Markdown table.

    build/bench/tools/bench/shampoo_root_bench --benchmark_format=json >roots.json
    python3 docs/measure/roots_table.py roots.json

The table has a row for each size n of the matrix, and a column for each pair of method and dtype. A cell is the median
CPU time of the repetitions in milliseconds, on one thread.
"""
import argparse
import json
import statistics

UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def read_times(report: dict) -> dict[tuple[str, int], list[float]]:
    """Returns the times for each column and n, in the order of the report. The list of a failed benchmark is empty."""
    times: dict[tuple[str, int], list[float]] = {}
    for entry in report["benchmarks"]:
        if entry["run_type"] != "iteration":
            continue
        method, dtype, n = entry["run_name"].split("/")[:3]
        found = times.setdefault((f"{method} {dtype}", int(n)), [])
        if not entry.get("error_occurred"):
            found.append(entry["cpu_time"] * UNITS[entry["time_unit"]])
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=argparse.FileType(), help="the JSON report; - reads the standard input")
    report = json.load(parser.parse_args().report)
    times = read_times(report)
    columns = list(dict.fromkeys(column for column, _ in times))
    print("Milliseconds on one thread;", ", ".join(str(report["context"][key]) for key in ("matrix", "blas")) + ".\n")
    print("| n | " + " | ".join(columns) + " |")
    print("|---:" * (len(columns) + 1) + "|")
    for n in sorted({n for _, n in times}):
        row = [times.get((column, n)) for column in columns]
        print(f"| {n} | " + " | ".join(f"{statistics.median(cell):.3g}" if cell else "-" for cell in row) + " |")


if __name__ == "__main__":
    main()
