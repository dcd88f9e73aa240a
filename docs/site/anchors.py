# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Finds code blocks and headings in Markdown, and forms the anchors of headings as GitHub does.

The site and the tests of the documentation use this module.
"""
from __future__ import annotations

import re
from collections.abc import Iterator

FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
HEADING = re.compile(r"^(\s{0,3}#{1,6})\s+(.*?)\s*#*\s*$")


def lines_with_code(text: str) -> Iterator[tuple[int, str, bool]]:
    """Yield the number and the text of each line, and whether the line belongs to a block of code."""
    fence = None
    for number, line in enumerate(text.splitlines(), 1):
        found = FENCE.match(line)
        yield number, line, fence is not None or found is not None
        if fence is None and found:
            fence = found.group(1)
        elif fence is not None and found and found.group(1).startswith(fence):
            fence = None


def slug(heading: str) -> str:
    """Return the anchor of a heading, without the number that the class Anchors adds to repeated anchors."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"[^\w\- ]", "", text.lower())
    return text.replace(" ", "-")


class Anchors:
    """The anchors of a page. If several headings have the same slug, all anchors except the first end in a number."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def add(self, heading: str) -> str:
        base = name = slug(heading)
        repeat = 0
        while name in self.names:
            repeat += 1
            name = f"{base}-{repeat}"
        self.names.add(name)
        return name
