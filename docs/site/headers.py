#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""headers.py HEADER: writes a public header to the standard output, in a form for Doxygen. See Doxyfile.

Each line of the header keeps its line number. The comments at the beginning of the header and of its sections become
pages of Doxygen, because Breathe, the Sphinx extension that reads Doxygen's output, can show pages separately. The
public inline functions lose ``static inline`` or ``SHAMPOO_INLINE``, because Doxygen leaves static functions out.
"""
from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

#: A comment between two lines of equal signs: the title of a section, and optional paragraphs about the section.
SECTION = re.compile(r"^/\* ={20,}\n \* (?P<title>[^\n]+)\n(?P<text>(?: \*[^\n]*\n)*?) \* ={20,} \*/$", re.MULTILINE)
#: The line of = or - above a title within a documentation comment. Markdown needs only the line below the title.
UPPER_RULE = re.compile(r"^ \* [=-]{20,}\n(?= \* [^\n]+\n \* [=-]{20,}\n)", re.MULTILINE)
#: The beginning of the comment about the header.
FILE = re.compile(r"^/\*\*\n \* @file\n", re.MULTILINE)
#: A public inline function. Internal inline functions have no @return in their comments.
PUBLIC = re.compile(r"(\n \* @return (?:(?!\*/).)*\*/\n)(?:static inline|SHAMPOO_INLINE) ", re.DOTALL)


class Section(NamedTuple):
    """A section of a header: its page in Doxygen, its title, its first line, and whether text follows the title."""

    page: str
    title: str
    line: int
    has_text: bool


def file_page(path: Path) -> str:
    """Return the name of the Doxygen page with the comment at the beginning of a header."""
    return f"file_{path.stem}"


def sections(path: Path) -> list[Section]:
    """Return the sections of a header in their order."""
    text = path.read_text(encoding="utf-8")
    found = []
    for match in SECTION.finditer(text):
        title = match["title"].partition(":")[0].strip()
        page = f"section_{path.stem}_{re.sub(r'[^a-z0-9]+', '_', title.lower())}"
        found.append(Section(page, title, text.count("\n", 0, match.start()) + 1, bool(match["text"].strip(" *\n"))))
    return found


def filtered(path: Path) -> str:
    """Return the text of a header for Doxygen."""
    found = iter(sections(path))

    def as_page(match: re.Match[str]) -> str:
        section = next(found)
        if not section.has_text:
            return match.group(0)
        return f"/** @page {section.page} {section.title}\n *\n{match['text']} */"

    text = SECTION.sub(as_page, path.read_text(encoding="utf-8"))
    text = FILE.sub(f"/** @file */\n/** @page {file_page(path)} {path.name}\n", text)
    return PUBLIC.sub(r"\1", UPPER_RULE.sub(" *\n", text))


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1])))
