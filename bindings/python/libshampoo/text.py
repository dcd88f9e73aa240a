# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Formats numbers of objects and numbers of bytes for messages."""
from __future__ import annotations


def count_text(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 block" or "2 blocks"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def bytes_text(count: float) -> str:
    """Return a number of bytes in a suitable unit, such as "1.5 MiB"."""
    if count < 1024:
        return count_text(int(count), "byte")
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.0f} {units[0]}" if count >= 100 else f"{count:.1f} {units[0]}"
