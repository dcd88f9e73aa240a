#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Makes Markdown tables from a report of shampoo_bench: machine, step times, phases of a step, memory, simulation.

    build/release/tools/bench/shampoo_bench --json bench.json
    python3 docs/measure/bench_table.py bench.json [--table times]

Times are in milliseconds and are the shortest of several runs. An ordinary step computes no roots. A step "with all
roots" computes the roots of all blocks. "mean at 10" is the mean time of a step if every 10th step computes all roots.
"of peak" is the flop rate of the matrix products in an ordinary step, divided by the measured rate of multiply-adds in
registers. "of limit" is the least possible time of an ordinary step, divided by the actual time. The least possible
time follows from the rate of multiply-adds and the measured bandwidth.
"""
import argparse
import json
from collections.abc import Callable, Sequence

MEBI = 1 << 20
ADAMW_BYTES = 8  # bytes of state for each element of a parameter: two moments in float32


def number(value: float) -> str:
    """Formats a value: from 100 on as an integer, otherwise with three significant digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def percent(fraction: float) -> str:
    return f"{100 * fraction:.0f} %" if fraction >= 0.01 else f"{100 * fraction:.1f} %"


def print_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    print(f"\n{title}\n")
    print("| " + " | ".join(head) + " |")
    print("|---" + "|---:" * (len(head) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def setting(row: dict) -> list[str]:
    keys = "".join(f", {key} {value}" for key, value in row["keys"].items())
    return [row["case"], str(row["block"]), row["grafting"] + keys, row["state_dtype"], str(row["threads"])]


SETTING = ["case", "block", "grafting", "states", "threads"]


def machine(report: dict) -> None:
    blas = report["build_info"]["blas"]
    print(f"{report['processor']}; {blas['library']}, kernel {blas['kernel']}; limits measured with the "
          f"instruction set {report['vectors']}.")
    print_table("What the machine can do", ["threads", "multiply-adds, Gflop/s", "memory, GB/s", "cache, GB/s"],
                [[str(m["threads"]), number(m["gflops"]), number(m["memory_gb_per_s"]), number(m["cache_gb_per_s"])]
                 for m in report["machines"]])


def times(report: dict) -> None:
    rows = report["rows"]
    frequencies = list(rows[0]["mean_ms"]) if rows else []
    head = SETTING + ["blocks", "ordinary", "with all roots"] + [f"mean at {f}" for f in frequencies]
    print_table("Steps, ms", head + ["Gflop/s", "of peak", "of limit"], [
        setting(row) + [str(row["blocks"]), number(row["ordinary_ms"]), number(row["with_roots_ms"])] +
        [number(row["mean_ms"][f]) for f in frequencies] +
        [number(row["gflops"]), percent(row["fraction_of_peak"]), percent(row["fraction_of_limit"])] for row in rows
    ])


def phase(found: dict) -> str:
    if found is None:
        return "-"
    rate = f"{number(found['gflops'])} Gflop/s" if found["bound_by"] == "flops" else f"{number(found['gb_per_s'])} GB/s"
    return f"{number(found['thread_ms'])} ms, {rate}, {percent(found['fraction_of_limit'])}"


def phases(report: dict) -> None:
    rows = [row for row in report["rows"] if row["phases"]]
    names = list(rows[0]["phases"]) if rows else []
    print_table("Phases of a step: ms summed over threads, rate of one thread, least possible time / actual time",
                SETTING + [name.replace("_", " ") for name in names],
                [setting(row) + [phase(row["phases"][name]) for name in names] for row in rows])


def memory(report: dict) -> None:
    first_threads = report["rows"][0]["threads"] if report["rows"] else 0
    print_table(f"Memory, bytes per parameter (AdamW keeps {ADAMW_BYTES})",
                ["case", "block", "grafting", "states", "parameters", "state", "workspace", "both, MiB"], [
                    setting(row)[:-1] + [str(row["parameters"])] +
                    [number(row[f"{what}_bytes"] / row["parameters"]) for what in ("state", "workspace")] +
                    [number((row["state_bytes"] + row["workspace_bytes"]) / MEBI)]
                    for row in report["rows"] if row["threads"] == first_threads
                ])


def simulation(report: dict) -> None:
    found = report["simulation"]
    threads = [point["threads"] for point in found[0]["efficiency"]] if found else []
    print_table("Predicted efficiency, time on one thread / (n * time on n threads): ordinary step, with all roots",
                ["case", "block", "blocks"] + [f"{count} threads" for count in threads], [
                    [s["case"], str(s["block"]), str(s["blocks"])] +
                    [f"{percent(point['ordinary'])}, {percent(point['with_roots'])}" for point in s["efficiency"]]
                    for s in found
                ])


TABLES: dict[str, Callable[[dict], None]] = {
    "machine": machine, "times": times, "phases": phases, "memory": memory, "simulation": simulation}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=argparse.FileType(), help="file from shampoo_bench --json, or - for stdin")
    parser.add_argument("--table", choices=TABLES, action="append", help="print only this table; may be repeated")
    options = parser.parse_args()
    report = json.load(options.report)
    for name in options.table or TABLES:
        TABLES[name](report)


if __name__ == "__main__":
    main()
