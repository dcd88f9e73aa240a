#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs parts of the benchmarks with trainers that are already built. run.sh builds them and calls this script.

    python3 benchmarks/measure.py --trainers build/benchmarks/trainers [PART...] [--quick]

Finished runs are stored in a file of JSON lines and are not repeated, so an interrupted benchmark can be continued.
"""
from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import part_convolution
import part_cost
import part_known_answers
import part_language_model
import part_transfer
import report
from context import Context
from machine import ROOT
from runner import OnlyBudgetError, Runner, duration
from sizes import SIZES
from store import Store

PARTS = {"known_answers": part_known_answers, "convolution": part_convolution, "cost": part_cost,
         "language_model": part_language_model, "transfer": part_transfer}  # fmt: skip


def check(context: Context, parts: list[str], count: int) -> int:
    """Repeat at most `count` stored runs per part. Return how many of them have losses other than the stored losses."""
    files = list(context.corpus.paths.values()) + list(part_convolution.Contest(context).paths.values())
    return sum(context.runner.repeat(part, files, count) for part in parts)


def main() -> int:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--trainers", type=Path, required=True, help="folder of the built trainers")
    parser.add_argument("--size", choices=list(SIZES), default="full")
    parser.add_argument("--quick", action="store_const", const="quick", dest="size", help="small sizes; takes minutes")
    parser.add_argument("--text", type=Path, nargs="+", default=[], help="text files for the language model")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "benchmarks", help="folder for runs and data")
    parser.add_argument("--results", type=Path, help="folder of results; default for --size full: benchmarks/results")
    parser.add_argument("--check", type=int, metavar="N", help="only repeat N stored runs per part and compare losses")
    parser.add_argument("--budget", action="store_true", help="make no runs; print, for each part, upper bounds on the number of runs and their time")
    options = parser.parse_args()
    for name in options.parts:
        if name not in PARTS:
            parser.error(f"unknown part {name}; expected one of: {', '.join(PARTS)}")
    is_full = options.size == "full"
    folder = options.out if is_full else options.out / options.size
    results = options.results or (ROOT / "benchmarks" / "results" if is_full else folder / "results")
    runner = Runner(options.trainers, Store(folder / "runs.jsonl"), options.budget)
    context = Context(runner, SIZES[options.size], results, options.out / "data", options.text)
    parts = options.parts or list(PARTS)
    print(f"processor   {runner.processor}\nmeasured    commit {runner.commit}\nruns        {runner.store.path}: "
          f"{len(runner.store.records)} finished")  # fmt: skip
    if options.check:
        return min(1, check(context, parts, options.check))
    for name in parts:
        start = time.monotonic()
        try:
            context.write(PARTS[name].measure(context))
        except OnlyBudgetError:
            continue
        report.write_all(results, results)  # all parts, because some tables use the results of several parts
        print(f"\n{name}: finished in {duration(time.monotonic() - start)}: {results / name}.json, .md and .svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
