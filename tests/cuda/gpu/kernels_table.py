#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Prints the kernels that take the most time, from a report of Nsight Compute.

    kernels_table.py REPORT.csv [COUNT]

The report is the log of ncu with the options --csv and --metrics TIME,SM,MEMORY (constants of this file). The table has
COUNT kernels (default: 5). The columns SM % and memory % are means of the metrics SM and MEMORY over the launches,
weighted by time.
"""
import csv
import sys

TIME = "gpu__time_duration.sum"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
MILLISECONDS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0, "s": 1e3,
                "second": 1e3}


def read_launches(path: str) -> dict[str, dict]:
    """Returns the metrics of each launch, by the ID of the launch."""
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = [line for line in file if line.startswith('"')]  # other lines are messages
    launches: dict[str, dict] = {}
    for row in csv.DictReader(lines):
        launch = launches.setdefault(row["ID"], {"kernel": row["Kernel Name"]})
        text = row["Metric Value"].replace(",", "")
        value = float("nan" if text in ("", "n/a") else text)
        if row["Metric Name"] == TIME:
            value *= MILLISECONDS[row["Metric Unit"]]
        launch[row["Metric Name"]] = value
    return launches


def main() -> None:
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    by_kernel: dict[str, list[dict]] = {}
    for launch in read_launches(sys.argv[1]).values():
        by_kernel.setdefault(launch["kernel"], []).append(launch)
    if not by_kernel:
        sys.exit("kernels_table: the report has no launches")
    time = {kernel: sum(launch[TIME] for launch in launches) for kernel, launches in by_kernel.items()}
    total = sum(time.values())
    print(f"{'ms':>10} {'share':>6} {'launches':>8} {'SM %':>6} {'memory %':>8}  kernel")
    for kernel in sorted(time, key=lambda name: -time[name])[:count]:
        launches = by_kernel[kernel]
        mean = [sum(launch[metric] * launch[TIME] for launch in launches) / time[kernel] for metric in (SM, MEMORY)]
        print(f"{time[kernel]:10.3f} {100 * time[kernel] / total:5.1f}% {len(launches):8d} {mean[0]:6.1f} {mean[1]:8.1f}  "
              f"{kernel}")
    print(f"{total:10.3f} ms in {sum(map(len, by_kernel.values()))} launches of {len(by_kernel)} kernels")


if __name__ == "__main__":
    main()
