# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Numbers with what they count, as texts for people have them."""
from __future__ import annotations


def count_text(count: int, noun: str) -> str:
    """Write "1 block", or "2 blocks"."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def bytes_text(count: float) -> str:
    """Write bytes in the unit that leaves few digits."""
    if count < 1024:
        return count_text(int(count), "byte")
    units = ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while count >= 1024 and len(units) > 1:
        count /= 1024
        del units[0]
    return f"{count:.0f} {units[0]}" if count >= 100 else f"{count:.1f} {units[0]}"
