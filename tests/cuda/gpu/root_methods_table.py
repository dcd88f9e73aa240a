#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Prints the time of each root method by block size and inverse_root_override, from reports of shampoo_bench.

    root_methods_table.py REPORTS.json

The file contains a list of reports. A row of a report is ignored unless its settings contain the keys root_method and
inverse_root_override. The printed time is the time of a step with roots minus the time of an ordinary step.
"""
import json
import sys

HEAD = """Milliseconds for all roots of a step, by block size and root (inverse_root_override). An empty cell was not
measured. r: the recovery ladder computed some roots with other methods, and the time includes this. The column
"fastest" leaves out such times.
"""


def read_rows(path: str) -> tuple[list[str], dict[tuple[int, int], dict[str, tuple[float, bool]]]]:
    """Returns the methods and, by block size and root, the time of each method and whether roots needed recovery."""
    with open(path, encoding="utf-8") as file:
        reports = json.load(file)
    methods: list[str] = []
    times: dict[tuple[int, int], dict[str, tuple[float, bool]]] = {}
    for row in (row for report in reports for row in report["rows"]):
        keys = row["keys"]
        if not {"root_method", "inverse_root_override"} <= keys.keys():
            continue
        method = keys["root_method"]
        if method not in methods:
            methods.append(method)
        of_row = times.setdefault((row["block"], int(keys["inverse_root_override"])), {})
        of_row[method] = (row["with_roots_ms"] - row["ordinary_ms"], row["root_retried"] > 0)
    return methods, times


def main() -> None:
    methods, times = read_rows(sys.argv[1])
    if not times:
        sys.exit("root_methods_table: no report has a row with root_method and inverse_root_override")
    print(HEAD)
    print(f"| block | root | {' | '.join(methods)} | fastest |")
    print("|---:|---:|" + "---:|" * len(methods) + "---|")
    for (block, root), of_row in sorted(times.items()):
        cells = {name: f"{time:.3f}{' r' if recovered else ''}" for name, (time, recovered) in of_row.items()}
        complete = {name: time for name, (time, recovered) in of_row.items() if not recovered}
        fastest = min(complete, key=complete.__getitem__, default="")
        print(f"| {block} | {root} | {' | '.join(cells.get(name, '') for name in methods)} | {fastest} |")


if __name__ == "__main__":
    main()
