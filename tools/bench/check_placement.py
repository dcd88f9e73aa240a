#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares numbers that shampoo_placement reports, mostly for one small model, with numbers that this script computes.

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

import placement_exchange

SHAPES = {"first": (64, 48), "conv": (5, 9, 45), "long": (300, 40), "bias": (100,), "one": (1,)}
BLOCK = 40
RANKS = 8
FREQUENCY = 20
FLOPS, SHAMPOO_FLOPS, ROOT_FLOPS, LINK, LATENCY, TOKENS = 2e12, 3e11, 1e11, 4e9, 5e-6, 1000
HEADER = 64  # bytes at the start of the segment that a rank sends in an all-gather
# COUNTERS: bytes for the step counters in an arena. The size of an arena is rounded up to a multiple of ARENA bytes.
COUNTERS, ARENA = 64, 256
RATES = ("--flops", FLOPS, "--shampoo-flops", SHAMPOO_FLOPS, "--root-flops", ROOT_FLOPS, "--link", LINK, "--latency",
         LATENCY)
SVG = "{http://www.w3.org/2000/svg}"


def require(condition: bool, text: str) -> None:
    if not condition:
        sys.exit(f"check_placement: {text}")


def require_near(value: float, expected: float, text: str) -> None:
    require(math.isclose(value, expected, rel_tol=1e-9), f"{text} is {value}, not {expected}")


def blocks_of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the shapes of the blocks of a parameter. No dims merge: products of neighboring dims exceed BLOCK."""
    chunks = [[min(BLOCK, d - first) for first in range(0, d, BLOCK)] for d in shape]
    return list(itertools.product(*chunks))


def seconds_of(block: tuple[int, ...]) -> float:
    """Return the predicted mean seconds per step that a block costs its owner. docs/scaling.md has the formula."""
    n = math.prod(block)
    return (20 * n + 3 * n * sum(block)) / SHAMPOO_FLOPS + 10 * sum(d**3 for d in block) / FREQUENCY / ROOT_FLOPS


def owners_by_bytes(blocks: list[tuple[int, ...]], ranks: int = RANKS) -> list[int]:
    """Assign blocks to owners greedily, largest first. The size of a block is aligned_bytes(block)."""
    sizes = [aligned_bytes(block) for block in blocks]
    loads = [(0, rank) for rank in range(ranks)]
    owners = [0] * len(blocks)
    for block in sorted(range(len(blocks)), key=lambda i: -sizes[i]):
        load, rank = heapq.heappop(loads)
        owners[block] = rank
        heapq.heappush(loads, (load + sizes[block], rank))
    return owners


def aligned_bytes(block: tuple[int, ...]) -> int:
    """Return the bytes of the update of a block, rounded up to a multiple of 64."""
    return (4 * math.prod(block) + 63) // 64 * 64


def per_rank(owners: list[int], values: list[float]) -> list[float]:
    sums = [0.0] * RANKS
    for owner, value in zip(owners, values):
        sums[owner] += value
    return sums


def check_consistent(row: dict, ranks: int, where: str) -> None:
    require(row["gathered"] == ranks * row["sent"], f"{where}: gathered is not the size of {ranks} segments")
    surplus = row["ranks_state"] - row["blocks_state"] - ranks * COUNTERS
    require(0 <= surplus < ranks * ARENA,
            f"{where}: the ranks have {surplus} bytes of state in addition to blocks and counters")
    require_near(row["state"]["mean"] * ranks, row["ranks_state"], f"{where}: summed state")
    require_near(row["updates"]["mean"] * ranks, row["elements"], f"{where}: summed elements")
    require(row["sent"] >= 4 * row["updates"]["largest"] + HEADER, f"{where}: the segment is too short")
    for load in ("updates", "state", "compute_seconds"):
        require(row[load]["largest"] >= row[load]["mean"] * (1 - 1e-12), f"{where}: mean {load} exceeds the largest")
    gather = (ranks - 1) * row["sent"] / LINK + math.log2(ranks) * LATENCY
    require_near(row["gather_seconds"], gather, f"{where}: time of the all-gather")


def check_row(row: dict, train_seconds: float) -> None:
    where = f"balance={row['balance']}"
    blocks = [block for shape in SHAPES.values() for block in blocks_of(shape)]
    seconds = [seconds_of(block) for block in blocks]
    require(row["world"] == RANKS and row["replicas"] == RANKS, f"{where}: wrong numbers of ranks")
    require(row["blocks"] == len(blocks), f"{where}: {row['blocks']} blocks, not {len(blocks)}")
    require(row["elements"] == sum(map(math.prod, SHAPES.values())), f"{where}: wrong number of elements")
    check_consistent(row, RANKS, where)
    require_near(row["compute_seconds"]["mean"], sum(seconds) / RANKS, f"{where}: mean time")
    require_near(row["overhead"], (row["compute_seconds"]["largest"] + row["gather_seconds"]) / train_seconds,
                 f"{where}: overhead")
    if row["balance"] == "bytes":
        owners = owners_by_bytes(blocks)
        require_near(row["compute_seconds"]["largest"], max(per_rank(owners, seconds)), f"{where}: longest time")
        require(row["sent"] == HEADER + max(per_rank(owners, list(map(aligned_bytes, blocks)))),
                f"{where}: wrong size of a segment")
        require(row["ranks_without_block"] == RANKS - len(set(owners)), f"{where}: wrong ranks_without_block")


def check_shards(row: dict, by_replicas: dict) -> None:
    """Check a row of --shard-mode gather.

    The row by_replicas has as many replicas as `row` has shards. The blocks have the same owners in both rows.
    """
    ranks = row["world"]
    where = f"{ranks} shards"
    blocks = [block for shape in SHAPES.values() for block in blocks_of(shape)]
    holders = [block for shape in SHAPES.values() for block in placement_exchange.holders_of(shape, BLOCK, ranks)]
    expected = placement_exchange.Exchange(holders, owners_by_bytes(blocks, ranks), ranks)
    by_all_to_all, by_all_gather = row["all_to_all"], row["all_gather"]
    require(row["blocks"] == len(blocks), f"{where}: {row['blocks']} blocks, not {len(blocks)}")
    for own in ("state", "ranks_without_block"):
        require(row[own] == by_replicas[own], f"{where}: {own} is {row[own]}, not {by_replicas[own]}")
    require(by_all_to_all["sent"]["largest"] == max(expected.sent), f"{where}: wrong largest number of bytes sent")
    require_near(by_all_to_all["sent"]["mean"], sum(expected.sent) / ranks, f"{where}: mean bytes sent")
    segments = sum(expected.segments)
    require(by_all_gather["sent"] == {"largest": segments, "mean": segments}, f"{where}: wrong size of the segments")
    require(row["gathered"] == ranks * segments, f"{where}: gathered is not the size of {ranks} segments")
    for load in ("workspace", "total"):
        more = by_all_gather[load]["mean"] - by_all_to_all[load]["mean"]
        require_near(more, expected.gathered, f"{where}: additional {load} with all-gather")
    for mode in (by_all_to_all, by_all_gather):
        require_near(mode["total"]["mean"], row["state"]["mean"] + mode["workspace"]["mean"], f"{where}: total")
        for load in mode.values():
            require(load["largest"] >= load["mean"] * (1 - 1e-12), f"{where}: a mean is above the largest value")
    require_near(row["even"]["sent"], 12 * row["elements"] / ranks, f"{where}: bytes sent if spread evenly")
    require_near(row["even"]["total"], sum(row["alone"].values()) / ranks, f"{where}: memory if spread evenly")


def draw(chart: str) -> xml.etree.ElementTree.Element:
    """Draw a chart with draw_chart.py and return the root element of the SVG file."""
    script = os.path.join(os.path.dirname(__file__), "draw_chart.py")
    subprocess.run([sys.executable, script, chart, chart + ".svg"], check=True)
    return xml.etree.ElementTree.parse(chart + ".svg").getroot()


def check_shards_plot(picture: xml.etree.ElementTree.Element, rows: list[dict]) -> None:
    lines = list(picture.iter(SVG + "polyline"))
    require(len(lines) == 6, f"the plot of shards has {len(lines)} lines; expected 6")
    even = [line for line in lines if "stroke-dasharray" in line.attrib]
    require(len(even) == 2, f"the plot of shards has {len(even)} dashed lines; expected 2")
    for line in even:
        y = [float(point.split(",")[1]) for point in line.attrib["points"].split()]
        require(len(y) == len(rows), f"a line has {len(y)} points; expected {len(rows)}, one for each number of ranks")
        require(abs(y[0] - 2 * y[1] + y[2]) < 0.3 and y[0] < y[2], "the line 1 / ranks is not straight or not falling")
    names = [text.text for text in picture.iter(SVG + "text")]
    marks = {"ranks", *(str(row["world"]) for row in rows)}
    require(marks <= set(names), f"the plot of shards has the texts {names}; expected {marks} among them")
    last = rows[-1]
    for name, value in (("all-to-all", last["all_to_all"]["sent"]["largest"]), ("all-gather", last["gathered"]),
                        ("all-to-all", last["all_to_all"]["total"]["largest"]),
                        ("all-gather", last["all_gather"]["total"]["largest"])):
        require(f"{name}: {value / 1e6:.3g}" in names, f"no curve is labeled {name}: {value / 1e6:.3g}, only {names}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    program = parser.parse_args().program
    with tempfile.TemporaryDirectory() as folder:
        shapes = os.path.join(folder, "shapes")
        with open(shapes, "w", encoding="utf-8") as file:
            file.writelines(f"{name} {' '.join(map(str, shape))}\n" for name, shape in SHAPES.items())

        def run(*arguments: object) -> tuple[dict, str]:
            path = os.path.join(folder, "report.json")
            command = [program, "--json", path, *map(str, arguments)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            with open(path, encoding="utf-8") as file:
                return json.load(file), done.stdout

        small = ("--shapes-file", shapes, "--block", BLOCK, "--frequency", FREQUENCY, *RATES)
        chart = os.path.join(folder, "chart.json")
        report, text = run(*small, "--world", RANKS, "--tokens", TOKENS, "--chart", chart)
        model = report["models"][0]
        require_near(model["train_seconds"], 6 * model["parameters"] * TOKENS / FLOPS, "training step")
        require([row["balance"] for row in model["rows"]] == ["bytes", "cost"], "wrong balances")
        for row in model["rows"]:
            check_row(row, model["train_seconds"])
        require("| overhead" in text and "|---" in text, "the printed table has no head")
        curves = list(draw(chart).iter(SVG + "polyline"))
        require(len(curves) == 2, f"the plot has {len(curves)} curves; expected 2")

        report, _ = run(*small, "--world", "12,8,6", "--shards", 3, "--group", 3, "--step-seconds", 0.5)
        model = report["models"][0]
        require([row["world"] for row in model["rows"]] == [6, 6, 12, 12], "expected only multiples of --shards")
        require(model["train_seconds"] == 0.5, "--step-seconds has no effect")
        for row in model["rows"]:
            replicas = min(row["world"] // 3, 3)
            require(row["replicas"] == replicas, "wrong number of ranks that share the blocks of a shard")
            elements = sum((shape[0] + 2) // 3 * math.prod(shape[1:]) for shape in SHAPES.values())
            require(row["elements"] == elements, f"{row['elements']} elements of the first shard, not {elements}")
            check_consistent(row, replicas, f"{row['world']} ranks in shards")

        report, _ = run("--model", "resnet50,recommendation", "--world", RANKS, "--balance", "cost", *RATES)
        parameters = [model["parameters"] for model in report["models"]]
        require(parameters == [25557032, 2368897],
                f"resnet50 and recommendation have {parameters} parameters; expected 25557032 and 2368897")
        for model in report["models"]:
            check_consistent(model["rows"][0], RANKS, model["model"])

        worlds = (*small, "--world", "2,4,8", "--balance", "bytes")
        by_replicas = run(*worlds)[0]["models"][0]["rows"]
        report, text = run(*worlds, "--shard-mode", "gather", "--chart", chart)
        rows = report["models"][0]["rows"]
        require([row["world"] for row in rows] == [2, 4, 8], "wrong numbers of shards")
        for row, same in zip(rows, by_replicas):
            check_shards(row, same)
        sent = [row["all_to_all"]["sent"]["largest"] for row in rows]
        require(sent[2] < sent[1],
                f"a rank sends up to {sent[2]} bytes with 8 ranks; expected fewer than the {sent[1]} with 4 ranks")
        require("| sent, most" in text and "|---" in text, "the printed table of shards has no head")
        check_shards_plot(draw(chart), rows)

        wrong = subprocess.run([program, "--world", "0"], stderr=subprocess.PIPE, text=True, check=False)
        require(wrong.returncode == 1 and "--world is '0'" in wrong.stderr,
                "--world 0: expected an error that names the value")
        wrong = subprocess.run([program, "--shard-mode", "gather", "--shards", "2"], stderr=subprocess.PIPE, text=True,
                               check=False)
        require(wrong.returncode == 1 and "shards of one copy" in wrong.stderr,
                "--shard-mode gather --shards 2: expected an error that gives the reason")


if __name__ == "__main__":
    main()
