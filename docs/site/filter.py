#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""filter.py ROOT SITE PAGE: a page of the repository as Doxygen reads Markdown, to the standard output.

GitHub's anchors become labels that are unique in the site, links between pages lead to them, links to other files become
their names, and images, of which several have one name, are copied into the site's folder.
"""
from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from anchors import HEADING, Anchors, lines_with_code

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]*)\)")
CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:")


def label(root: Path, page: Path, anchor: str = "") -> str:
    """Give the name by which the site knows a page, or a heading of it."""
    name = re.sub(r"\W", "_", str(page.relative_to(root).with_suffix("")))
    return f"{name}_{anchor}" if anchor else name


class Page:
    """One page on its way into the site."""

    def __init__(self, root: Path, site: Path, path: Path) -> None:
        self.root, self.site, self.path = root, site, path
        self.anchors = Anchors()

    def image(self, alt: str, target: str) -> str:
        source = (self.path.parent / target).resolve()
        name = re.sub(r"[/ ]", "_", str(source.relative_to(self.root)))
        (self.site / "images").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, self.site / "images" / name)
        return f'<img src="images/{name}" alt="{alt}"/>'

    def link(self, found: re.Match[str]) -> str:
        image, text, target = found.groups()
        if SCHEME.match(target):
            return found.group(0)
        if image:
            return self.image(text, target)
        path, _, anchor = target.partition("#")
        goal = (self.path.parent / path).resolve() if path else self.path
        if goal.is_dir() and (goal / "README.md").exists():
            goal /= "README.md"
        if goal.suffix == ".md":
            return f"[{text}](#{label(self.root, goal, anchor)})"
        if goal.name.startswith("shampoo") and goal.suffix == ".h":
            return f"@ref {goal.name} \"{text}\""
        return text if text.startswith("`") else f"`{text}`"

    def links(self, line: str) -> str:
        """Rewrite what is outside of code in a line; a link may hold code."""
        codes: list[str] = []

        def hide(found: re.Match[str]) -> str:
            codes.append(found.group(0))
            return f"\0{len(codes) - 1}\0"

        line = LINK.sub(self.link, CODE.sub(hide, line))
        return re.sub("\0(\\d+)\0", lambda found: codes[int(found.group(1))], line)

    def write(self) -> None:
        # A link may go over the end of a line; Doxygen takes it so, too, but this reads line by line.
        text = re.sub(r"(\[[^\[\]\n`]*)\n([^\[\]\n`]*\]\([^()\s]*\))", r"\1 \2", self.path.read_text(encoding="utf-8"))
        first = True
        for _, line, is_code in lines_with_code(text):
            heading = None if is_code else HEADING.match(line)
            if heading:
                anchor = self.anchors.add(heading.group(2))
                name = label(self.root, self.path, "" if first else anchor)
                print(f"{heading.group(1)} {self.links(heading.group(2))} {{#{name}}}")
                first = False
            else:
                print(line if is_code else self.links(line))


def main() -> None:
    root, site, page = (Path(os.path.abspath(word)) for word in sys.argv[1:4])
    Page(root, site, page).write()


if __name__ == "__main__":
    main()
