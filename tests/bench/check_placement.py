#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""shampoo_placement counts right: a small model on 8 ranks, worked out here anew from its shapes.

    check_placement.py PROGRAM
"""
import argparse
import heapq
import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from typing import Dict, List, Tuple

SHAPES = {"first": (64, 48), "conv": (5, 9, 45), "long": (300, 40), "bias": (100,), "one": (1,)}
BLOCK = 40
RANKS = 8
FREQUENCY = 20
FLOPS, SHAMPOO_FLOPS, ROOT_FLOPS, LINK, LATENCY, TOKENS = 2e12, 3e11, 1e11, 4e9, 5e-6, 1000
HEADER = 64  # bytes, at the start of a rank's segment
COUNTERS, ARENA = 64, 256  # bytes before the blocks' state, and what an arena is rounded up to
RATES = ("--flops", FLOPS, "--shampoo-flops", SHAMPOO_FLOPS, "--root-flops", ROOT_FLOPS, "--link", LINK, "--latency",
         LATENCY)


def require(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"check_placement: {text}")


def require_near(value: float, expected: float, text: str) -> None:
    require(math.isclose(value, expected, rel_tol=1e-9), f"{text} is {value}, not {expected}")


def blocks_of(shape: Tuple[int, ...]) -> List[Tuple[int, ...]]:
    """Cut into chunks; no two neighbouring dims of these shapes can be merged."""
    chunks = [[min(BLOCK, d - first) for first in range(0, d, BLOCK)] for d in shape]
    return list(itertools.product(*chunks))


def seconds_of(block: Tuple[int, ...]) -> float:
    n = math.prod(block)
    return (20 * n + 3 * n * sum(block)) / SHAMPOO_FLOPS + 10 * sum(d**3 for d in block) / FREQUENCY / ROOT_FLOPS


def owners_by_bytes(blocks: List[Tuple[int, ...]]) -> List[int]:
    """Greedy, the largest first, over the bytes of float32 updates rounded up to 64."""
    sizes = [aligned_bytes(block) for block in blocks]
    loads = [(0, rank) for rank in range(RANKS)]
    owners = [0] * len(blocks)
    for block in sorted(range(len(blocks)), key=lambda i: -sizes[i]):
        load, rank = heapq.heappop(loads)
        owners[block] = rank
        heapq.heappush(loads, (load + sizes[block], rank))
    return owners


def aligned_bytes(block: Tuple[int, ...]) -> int:
    return (4 * math.prod(block) + 63) // 64 * 64


def per_rank(owners: List[int], values: List[float]) -> List[float]:
    sums = [0.0] * RANKS
    for owner, value in zip(owners, values):
        sums[owner] += value
    return sums


def check_consistent(row: Dict, ranks: int, where: str) -> None:
    require(row["gathered"] == ranks * row["sent"], f"{where}: gathered is not that of {ranks} segments")
    surplus = row["ranks_state"] - row["blocks_state"] - ranks * COUNTERS
    require(0 <= surplus < ranks * ARENA, f"{where}: state of the ranks is {surplus} bytes off that of the blocks")
    require_near(row["state"]["mean"] * ranks, row["ranks_state"], f"{where}: summed state")
    require_near(row["updates"]["mean"] * ranks, row["elements"], f"{where}: summed elements")
    require(row["sent"] >= 4 * row["updates"]["largest"] + HEADER, f"{where}: the segment is too short")
    for load in ("updates", "state", "compute_seconds"):
        require(row[load]["largest"] >= row[load]["mean"] * (1 - 1e-12), f"{where}: {load} above the largest")
    gather = (ranks - 1) * row["sent"] / LINK + math.log2(ranks) * LATENCY
    require_near(row["gather_seconds"], gather, f"{where}: time of the all-gather")


def check_row(row: Dict, train_seconds: float) -> None:
    where = f"balance {row['balance']}"
    blocks = [block for shape in SHAPES.values() for block in blocks_of(shape)]
    seconds = [seconds_of(block) for block in blocks]
    require(row["world"] == RANKS and row["replicas"] == RANKS, f"{where}: ranks")
    require(row["blocks"] == len(blocks), f"{where}: {row['blocks']} blocks, not {len(blocks)}")
    require(row["elements"] == sum(map(math.prod, SHAPES.values())), f"{where}: elements")
    check_consistent(row, RANKS, where)
    require_near(row["compute_seconds"]["mean"], sum(seconds) / RANKS, f"{where}: mean time")
    require_near(row["overhead"], (row["compute_seconds"]["largest"] + row["gather_seconds"]) / train_seconds,
                 f"{where}: overhead")
    if row["balance"] == "bytes":
        owners = owners_by_bytes(blocks)
        require_near(row["compute_seconds"]["largest"], max(per_rank(owners, seconds)), f"{where}: longest time")
        require(row["sent"] == HEADER + max(per_rank(owners, list(map(aligned_bytes, blocks)))), f"{where}: segment")
        require(row["ranks_without_block"] == RANKS - len(set(owners)), f"{where}: ranks without a block")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    program = parser.parse_args().program
    with tempfile.TemporaryDirectory() as folder:
        shapes = os.path.join(folder, "shapes")
        with open(shapes, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {' '.join(map(str, shape))}\n" for name, shape in SHAPES.items())

        def run(*arguments: object) -> Tuple[Dict, str]:
            path = os.path.join(folder, "report.json")
            command = [program, "--json", path, *map(str, arguments)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

        small = ("--shapes-file", shapes, "--block", BLOCK, "--frequency", FREQUENCY, *RATES)
        svg = os.path.join(folder, "plot.svg")
        report, text = run(*small, "--world", RANKS, "--tokens", TOKENS, "--svg", svg)
        model = report["models"][0]
        require_near(model["train_seconds"], 6 * model["parameters"] * TOKENS / FLOPS, "training step")
        require([row["balance"] for row in model["rows"]] == ["bytes", "cost"], "balances")
        for row in model["rows"]:
            check_row(row, model["train_seconds"])
        require("| overhead" in text and "|---" in text, "the printed table has no head")
        curves = list(xml.etree.ElementTree.parse(svg).getroot().iter("{http://www.w3.org/2000/svg}polyline"))
        require(len(curves) == 2, f"{len(curves)} curves in the plot")

        report, _ = run(*small, "--world", "12,8,6", "--shards", 3, "--group", 3, "--step-seconds", 0.5)
        model = report["models"][0]
        require([row["world"] for row in model["rows"]] == [6, 6, 12, 12], "worlds that shards divide")
        require(model["train_seconds"] == 0.5, "given training step")
        for row in model["rows"]:
            replicas = min(row["world"] // 3, 3)
            require(row["replicas"] == replicas, "ranks that share the blocks of a shard")
            elements = sum((shape[0] + 2) // 3 * math.prod(shape[1:]) for shape in SHAPES.values())
            require(row["elements"] == elements, f"{row['elements']} elements of the first shard, not {elements}")
            check_consistent(row, replicas, f"{row['world']} ranks in shards")

        report, _ = run("--model", "resnet50,recommendation", "--world", RANKS, "--balance", "cost", *RATES)
        parameters = [model["parameters"] for model in report["models"]]
        require(parameters == [25557032, 2368897], f"known models have {parameters} parameters")
        for model in report["models"]:
            check_consistent(model["rows"][0], RANKS, model["model"])

        wrong = subprocess.run([program, "--world", "0"], stderr=subprocess.PIPE, text=True, check=False)
        require(wrong.returncode == 1 and "--world is '0'" in wrong.stderr, "a world of 0 is not refused")


if __name__ == "__main__":
    main()
