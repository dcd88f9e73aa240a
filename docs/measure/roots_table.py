#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes a Markdown table from a report of shampoo_root_bench, with a row for each n and columns for method and dtype.

    build/bench/tools/bench/shampoo_root_bench --benchmark_format=json >roots.json
    python3 docs/measure/roots_table.py roots.json

The cells are milliseconds of CPU time on one thread, the median of several repetitions.
"""
import argparse
import json
import statistics

UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


def read_times(report: dict) -> dict[tuple[str, int], list[float]]:
    """Returns times by column and n, in the order of the report. Benchmarks that failed have none."""
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
    parser.add_argument("report", type=argparse.FileType(), help="what --benchmark_format=json printed; -: stdin")
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
