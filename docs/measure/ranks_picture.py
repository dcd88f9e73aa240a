#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""ranks_picture.py FILE.svg: draws the four layouts of docs/many_ranks.md, with each rank's data and exchanges."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "examples"))
import plot  # noqa: E402

WIDTH, HEIGHT = 840, 532
PANEL = (WIDTH // 2, 204)
RANK = 86  # width of the box of a rank
COLORS = (*plot.COLORS[:3], plot.COLORS[4])  # for the four ranks
EMPTY, INK, GRAY = "#eeeeee", "#222222", "#666666"
BLOCKS = 8
STYLE = plot.STYLE + "text{font-size:12px}.head{font-size:15px}.small{font-size:10px}"


@dataclass
class Layout:
    """One panel of the picture, which shows the parameters as four parts and the state as eight blocks. For each rank,
    `parts` and `blocks` have the numbers of the parts and of the blocks that the rank holds.
    """

    title: str
    comment: str
    parts: list[set[int]]
    blocks: list[set[int]]
    groups: list[tuple[str, str, list[list[int]]]]  # communicator, data that it carries, groups of ranks


LAYOUTS = [
    Layout("DDP", "every rank has all parameters; the blocks are divided",
        [set(range(4))] * 4, [{0, 4}, {1, 5}, {2, 6}, {3, 7}],
        [("replica_comm", "one all-gather of updates", [[0, 1, 2, 3]])]),
    Layout("FSDP, shard_mode=local", "every shard is a tensor of its own, with blocks of its own",
        [{0}, {1}, {2}, {3}], [{0, 1}, {2, 3}, {4, 5}, {6, 7}],
        [("shard_comm", "a few bytes of status", [[0, 1, 2, 3]])]),
    Layout("FSDP, shard_mode=gather", "blocks of whole parameters; results do not depend on the shards",
        [{0}, {1}, {2}, {3}], [{0, 4}, {1, 5}, {2, 6}, {3, 7}],
        [("shard_comm", "gradients and parameters to owners, updates back", [[0, 1, 2, 3]])]),
    Layout("HSDP", "two replicas of two shards; both ranks of a shard divide its blocks",
        [{0, 1}, {2, 3}, {0, 1}, {2, 3}], [{0, 2}, {4, 6}, {1, 3}, {5, 7}],
        [("shard_comm", "as with FSDP, in each replica", [[0, 1], [2, 3]]),
         ("replica_comm", "one all-gather of updates for each shard", [[0, 2], [1, 3]])]),
]  # fmt: skip


def cells(x: float, y: float, width: float, count: int, held: set[int], color: str) -> list[str]:
    each = width / count
    return [
        f'<rect x="{x + k * each:.1f}" y="{y}" width="{each - 2:.1f}" height="12" fill="{color if k in held else EMPTY}"/>'
        for k in range(count)
    ]


def bracket(xs: list[float], y: float, color: str) -> list[str]:
    lines = [f'<path d="M{min(xs)} {y} H{max(xs)}" stroke="{color}" stroke-width="2" fill="none"/>']
    return lines + [f'<path d="M{x} {y} V{y - 8} m-4 5 l4 -5 l4 5" stroke="{color}" stroke-width="2" fill="none"/>' for x in xs]


def panel(layout: Layout, left: float, top: float) -> list[str]:
    drawn = [plot.text(left, top, layout.title, 'class="head"'),
             plot.text(left, top + 18, layout.comment, 'class="note"')]
    centers = []
    for rank, color in enumerate(COLORS):
        x, y = left + rank * (RANK + 10), top + 32
        centers.append(x + RANK / 2)
        drawn.append(f'<rect x="{x}" y="{y}" width="{RANK}" height="96" rx="4" fill="none" stroke="{GRAY}"/>')
        attributes = f'class="value" text-anchor="middle" style="fill:{color}"'
        drawn.append(plot.text(x + RANK / 2, y + 16, f"rank {rank}", attributes))
        for row, (what, count, held) in enumerate([("parameters", 4, layout.parts[rank]), ("state: blocks", BLOCKS, layout.blocks[rank])]):
            drawn.append(plot.text(x + 6, y + 34 + row * 34, what, 'class="note small"'))
            drawn += cells(x + 6, y + 40 + row * 34, RANK - 10, count, held, color)
    y = top + 146
    for name, what, groups in layout.groups:
        for number, group in enumerate(groups):
            drawn += bracket([centers[rank] for rank in group], y + 12 * number, INK if name == "replica_comm" else GRAY)
        y += 12 * len(groups) + 10
        drawn.append(plot.text(left, y, f'<tspan class="value">{name}</tspan>: {what}'))
        y += 22
    return drawn


def main() -> None:
    parts = [plot.text(24, 34, "What four ranks hold, and what they exchange in a step", 'class="title"')]
    for number, layout in enumerate(LAYOUTS):
        parts += panel(layout, 24 + number % 2 * PANEL[0], 74 + number // 2 * PANEL[1])
    Path(sys.argv[1]).write_text(plot.document(HEIGHT, parts, width=WIDTH, style=STYLE), encoding="utf-8")


if __name__ == "__main__":
    main()
