# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Computes for check_placement.py, without the library, the bytes that ranks send each other with shard_mode=gather."""
import collections
import itertools
import math
from collections import Counter

HEADER = 16  # bytes at the start of the data that one rank sends to another
# For each block, the bytes that one rank sends to another rank are rounded up to a multiple of PART. Gradients,
# parameters and updates are rounded up separately.
PART = 16
BUFFER = 64  # the size of a buffer is rounded up to a multiple of BUFFER


def round_up(value: int, to: int) -> int:
    return (value + to - 1) // to * to


def holders_of(shape: tuple[int, ...], block: int, ranks: int) -> list[Counter[int]]:
    """Return, for each block, its number of elements on each rank.

    Ranks hold equal chunks of the flattened tensor. `block` is the largest length of a dim of a block.
    """
    chunk = -(-math.prod(shape) // ranks)
    strides = [math.prod(shape[k + 1:]) for k in range(len(shape))]
    ranges = [[range(first, min(first + block, d)) for first in range(0, d, block)] for d in shape]
    return [
        collections.Counter(sum(i * s for i, s in zip(index, strides)) // chunk for index in itertools.product(*sides))
        for sides in itertools.product(*ranges)
    ]


class Exchange:
    """Byte counts of an exchange in float32: gradients and parameters go to the owners of blocks, updates come back."""

    def __init__(self, holders: list[Counter[int]], owners: list[int], ranks: int) -> None:
        collect = [[HEADER] * ranks for _ in range(ranks)]  # [sender][receiver]
        deliver = [[HEADER] * ranks for _ in range(ranks)]
        for block, owner in zip(holders, owners):
            for holder, elements in block.items():
                collect[holder][owner] += 2 * round_up(4 * elements, PART)
                deliver[owner][holder] += round_up(4 * elements, PART)
        self.sent = [sum(row) - row[rank] for rank, row in enumerate(collect)]
        self.sent = [sent + sum(row) - row[rank] for rank, (sent, row) in enumerate(zip(self.sent, deliver))]
        # With all-gathers, each rank sends its data for all ranks, its segment, to every rank. All segments of an
        # all-gather have the same size.
        self.segments = [max(map(sum, collect)), max(map(sum, deliver))]
        # Memory for the data that an all-gather receives: one segment from each rank.
        self.gathered = round_up(ranks * max(self.segments), BUFFER)
